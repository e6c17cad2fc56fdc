"""TorchCodec's ``custom_frame_mappings``: JSON that says where the frames are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from framefeed.errors import UsageError
from framefeed.index.frame_index import FrameIndex

_MAX_BYTES = 2**28
_KEYS = (("pts", "pkt_pts"), ("duration", "pkt_duration"), ("key_frame",))


def check_mappings(mappings: Any, index: FrameIndex) -> None:
    """Make sure that a mapping means the frames that the index has.

    The index is built from the packets either way, for it also says where their bytes are; a mapping that disagrees
    belongs to another file or another stream.

    Args:
        mappings: JSON text, bytes, or an object with ``read``: ``{"frames": [{"pts", "duration", "key_frame"}, ...]}``.
        index: The source's frames.

    Raises:
        UsageError: Not such JSON, or other frames.
    """
    frames = _frames(mappings)
    pts_key, _, _ = (_known_key(frames[0], names) for names in _KEYS)
    try:
        claimed = np.sort(np.array([int(frame[pts_key]) for frame in frames], dtype=np.int64))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"invalid custom frame mappings: a frame without a whole {pts_key!r}") from error
    # Of the packets, whatever the times of the frames come from; a frame of no known packet has none.
    own = index.packets.pts[index.frame_packet[index.frame_packet >= 0]]
    if not np.array_equal(claimed, np.sort(own)):
        raise UsageError(
            f"invalid custom frame mappings: they list {len(claimed)} frames, the stream has {len(index)}, "
            "and their pts differ: make them anew from this file and stream"
        )


def _frames(mappings: Any) -> list[Any]:
    text = mappings.read(_MAX_BYTES + 1) if hasattr(mappings, "read") else mappings
    if len(text) > _MAX_BYTES:
        raise UsageError(f"invalid custom frame mappings: more than {_MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"invalid custom frame mappings: not JSON: {error}") from error
    frames = document.get("frames") if isinstance(document, dict) else None
    if not isinstance(frames, list) or not frames or not isinstance(frames[0], dict):
        raise UsageError("invalid custom frame mappings: no list of frames under the key 'frames'")
    return frames


def _known_key(frame: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in frame:
            return name
    raise UsageError(f"invalid custom frame mappings: frames need the key {' or '.join(map(repr, names))}")
