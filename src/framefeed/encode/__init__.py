"""Encode frames as bytes and files: still pictures and contact sheets."""
