"""Stored frames in one folder: immutable Arrow files that many processes write and read at once."""
