"""Pass every frame of a video through a function, in order, and write the pictures as a video or images."""

from __future__ import annotations

from framefeed.transcode._folder import has_unfinished_run
from framefeed.transcode._iterating import MapIterator
from framefeed.transcode._map_video import map_video
from framefeed.transcode._results import FrameFault, MappedFrame, MapResult
from framefeed.transcode._targets import list_existing

__all__ = ["FrameFault", "MapIterator", "MapResult", "MappedFrame", "has_unfinished_run", "list_existing", "map_video"]
