"""The same loader in the clothes of each framework."""
