"""The index of a still picture, made of a few facts: its arrays are shared by all pictures."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from framefeed._values import KEY, PacketTable
from framefeed.index._frame_index import FrameIndex, StreamFacts, Timeline
from framefeed.media import SEQUENCE_CONTAINER, SourceIdentity

OTHER_STILL = "image"
"""`StreamFacts.container` of a still picture in any other container."""

STILLS = frozenset({"avif", "bmp", "gif", "heic", "heif", "jpeg", "jxl", "mpo", "png", "tiff", "webp", OTHER_STILL})
"""Of these names only "gif" is that of a demuxer too, and every GIF is a picture here."""

_ZERO, _NONE = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
_ALL = _ZERO.copy()
_ALL.flags.writeable = False
_KEY_FLAG = np.full(1, KEY, dtype=np.uint8)
_KEY_FLAG.flags.writeable = False


def has_picture_files(index: FrameIndex) -> bool:
    """Whether each frame is a picture file of its own, which only the backend "still" reads."""
    return index.stream.container == SEQUENCE_CONTAINER or index.stream.container in STILLS


@lru_cache(maxsize=1024)
def describe_still_stream(
    container: str, codec: str, coded_size: tuple[int, int], pixel_format: str, rotation: int, *, mirrored: bool
) -> StreamFacts:
    """Describe a picture as a stream of one frame; pictures of one form share the description.

    ``coded_size``: (width, height) as stored.
    """
    known = container == SEQUENCE_CONTAINER or container in STILLS
    return StreamFacts(
        stream_index=0,
        container=container if known else OTHER_STILL,
        codec=codec,
        extradata=None,
        width=coded_size[0],
        height=coded_size[1],
        pixel_format=pixel_format,
        rotation=rotation,
        mirrored=mirrored,
        contiguous=True,  # Each file is one range of bytes.
    )


def build_still_index(stream: StreamFacts, identity: SourceIdentity, *, is_damaged: bool = False) -> FrameIndex:
    """Index a still picture: one frame at 0 s of unknown duration, in ticks of a second.

    ``is_damaged``: whether it was decoded, and is damaged.
    """
    packets = PacketTable(offset=_ZERO, size=np.array([identity.bytes], dtype=np.int64), pts=_ZERO, flags=_KEY_FLAG)
    if _SAME:
        # Without the checks, which took most of the time: what is the same in all passed them once.
        index = object.__new__(FrameIndex)
        index.__dict__.update(_SAME, packets=packets, stream=stream, identity=identity)
        if is_damaged:
            index.__dict__["damaged_frame_indices"] = _ALL
        return index
    return FrameIndex(
        pts=_ZERO,
        duration=_ZERO,
        time_base=Fraction(1),
        key_frame_indices=_ZERO,
        built_from="packets",
        frame_packet=_ZERO,
        frame_start=_ZERO,
        packets=packets,
        stream=stream,
        identity=identity,
        damaged_frame_indices=_NONE,
    )


_SAME: dict[str, Any] = {}
"""The attributes of every such index, but for those that are its own."""
STILL_TIMELINE = Timeline.whole(
    build_still_index(
        describe_still_stream(OTHER_STILL, "", (1, 1), "", 0, mirrored=False), SourceIdentity(0, None, "")
    )
)
"""The frame of any still picture, by time."""
_SAME.update(STILL_TIMELINE.index.__dict__)


def share_still_timeline(index: FrameIndex) -> FrameIndex:
    """Make the index of a picture's proxy as `build_still_index` does; other indexes are returned as they are."""
    is_still = len(index) == 1 and index.time_base == 1 and not index.pts[0] and not index.duration[0]
    if not is_still or index.stream.container not in STILLS or index.identity is None:
        return index
    return build_still_index(index.stream, index.identity)


def has_still_timeline(index: FrameIndex) -> bool:
    """Whether an index was made by `build_still_index` in this process, so that `STILL_TIMELINE` is its timeline."""
    return index.pts is _ZERO
