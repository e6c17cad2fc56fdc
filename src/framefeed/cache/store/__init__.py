"""Stored frames in one folder: immutable files that many processes write and read at once."""
