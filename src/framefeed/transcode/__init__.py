"""Pass every frame of a video through a function, in order, and write the pictures as a video or images."""

from __future__ import annotations

from framefeed.transcode._folder import has_unfinished_run
from framefeed.transcode._iterating import MapIterator
from framefeed.transcode._map_video import map_video
from framefeed.transcode._results import FrameFault, MappedFrame, MapResult

__all__ = ["FrameFault", "MapIterator", "MapResult", "MappedFrame", "has_unfinished_run", "map_video"]
