"""Not in this version: ``from framefeed import map_video`` says so, as ``ff.map_video`` does."""

from __future__ import annotations

from framefeed.errors import NotInThisVersion

raise NotInThisVersion("framefeed.map_video is not in this version: ff.VideoDecoder gives one frame after another")
