"""Compress stored frames, without loss or with a known loss."""
