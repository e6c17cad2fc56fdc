"""Frames -> bytes and files: stills and contact sheets."""
