"""Our own ways of ``bench scan``: the header function alone."""

from __future__ import annotations

from framefeed.bench.sizing import Engine, Size, in_process
from framefeed.errors import MediaError
from framefeed.media.headers import image_info
from framefeed.media.limits import Limits
from framefeed.media.source import MediaSource

OURS = "framefeed, header"


def size_of(path: str) -> Size:
    """Stored size of one picture."""
    try:
        info = image_info(MediaSource.of(path), Limits())
    except MediaError:
        return None
    return info.coded_width, info.coded_height


ENGINE: Engine = in_process(OURS, size_of, "quick")
