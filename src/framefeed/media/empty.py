"""Why no frame comes out of a video stream: what FFmpeg says when it is asked again."""

from __future__ import annotations

import re
from itertools import islice

from framefeed.errors import EmptyVideo, LimitExceeded, MediaError
from framefeed.media.container import VideoContainer, decode_facts
from framefeed.media.foreign import overheard

_TRIED_PACKETS = 8
# av_image_check_size2 of libavutil/imgutils.c: more than `max_pixels`, or more than any picture can have.
_TOO_LARGE = re.compile(r"Picture size \d+x\d+ (exceeds specified max pixel count|is invalid)")


def no_frame(container: VideoContainer, stage: str) -> MediaError:
    """Build the error for a stream whose packets give not one frame."""
    source, limits = container.source, container.limits

    def again() -> None:
        with VideoContainer(source, container.stream.index, limits) as second:
            next(decode_facts(second, enumerate(islice(second.packets(), _TRIED_PACKETS))), None)

    log = overheard(again)
    if _TOO_LARGE.search(log):
        return LimitExceeded(
            f"{source.name}: claims larger pictures than the limits allow ({limits.max_pixels} pixels): {log}",
            source=source.name,
            stage=stage,
        )
    return EmptyVideo(
        f"{source.name}: not one frame comes out of its video stream{log and f' ({log})'}",
        source=source.name,
        stage=stage,
    )
