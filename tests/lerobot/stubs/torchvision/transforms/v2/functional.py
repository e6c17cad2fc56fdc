"""Imported by lerobot, and not used for reading."""
