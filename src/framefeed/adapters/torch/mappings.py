"""TorchCodec's ``custom_frame_mappings``: JSON that says where the frames are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.errors import UsageError
from framefeed.index.frame_index import FrameIndex

_MAX_BYTES = 2**28
_KEYS = (("pts", "pkt_pts"), ("duration", "pkt_duration"), ("key_frame",))


class InvalidMappings(UsageError, KeyError, IndexError, TypeError, RuntimeError, OverflowError):
    """JSON that is no mapping; TorchCodec raises one of these, by the line that stumbles over it."""


def check_mappings(mappings: Any, index: FrameIndex) -> None:
    """Make sure that a mapping means the frames that the index has.

    The index is built from the packets either way, for it also says where their bytes are; a mapping that disagrees
    belongs to another file or another stream.

    Args:
        mappings: JSON text, bytes, or an object with ``read``: ``{"frames": [{"pts", "duration", "key_frame"}, ...]}``.
        index: The source's frames.

    Raises:
        InvalidMappings: Not such JSON.
        UsageError: Other frames.
    """
    claimed = np.sort(_read_pts(mappings))
    # Of the packets, whatever the times of the frames come from; a frame of no known packet has none.
    own = index.packets.pts[index.frame_packet[index.frame_packet >= 0]]
    if not np.array_equal(claimed, np.sort(own)):
        raise UsageError(
            f"invalid custom frame mappings: they list {len(claimed)} frames, the stream has {len(index)}, "
            "or their pts differ: make the mappings again from this file and stream"
        )


def _read_pts(mappings: Any) -> npt.NDArray[np.int64]:
    frames = _frames(mappings)
    try:
        keys = [_known_key(frames[0], names) for names in _KEYS]
        columns = [[int(frame[key]) for frame in frames] for key in keys]
        return np.array(columns[0], dtype=np.int64)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InvalidMappings(
            f"invalid custom frame mappings: each frame needs integers for {_KEYS}: {error!r}"
        ) from error


def _frames(mappings: Any) -> list[Any]:
    text = mappings.read(_MAX_BYTES + 1) if hasattr(mappings, "read") else mappings
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidMappings(f"custom_frame_mappings: expected JSON as text, bytes or a file object, got {type(text)}")
    if len(text) > _MAX_BYTES:
        raise InvalidMappings(f"invalid custom frame mappings: more than {_MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMappings(f"invalid custom frame mappings: not JSON: {error}") from error
    frames = document.get("frames") if isinstance(document, dict) else None
    if not isinstance(frames, list) or not frames:
        raise InvalidMappings("invalid custom frame mappings: no list of frames under the key 'frames'")
    return frames


def _known_key(frame: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in frame:
            return name
    raise KeyError(" or ".join(names))
