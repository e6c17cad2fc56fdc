"""A decoder that remembers: frames on disk and in memory, in the cheapest form that gives the same pixels."""
