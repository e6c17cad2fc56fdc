"""Stored frames in one folder: immutable Arrow files that many processes write and read at once."""

from framefeed.cache.store.store import FrameStore

__all__ = ["FrameStore"]
