"""Why no frame comes out of a video stream: what FFmpeg said when it was decoded."""

from __future__ import annotations

import re

from framefeed.errors import EmptyVideo, LimitExceeded, MediaError
from framefeed.media.container import VideoContainer
from framefeed.media.foreign import in_one_line

# av_image_check_size2 of libavutil/imgutils.c: more than `max_pixels`, or more than any picture can have.
_TOO_LARGE = re.compile(r"Picture size \d+x\d+ (exceeds specified max pixel count|is invalid)")


def no_frame(container: VideoContainer, stage: str) -> MediaError:
    """Build the error for a stream whose packets give not one frame."""
    source, limits, log = container.source, container.limits, in_one_line(container.log)
    if any(_TOO_LARGE.search(message) for _, _, message in container.log):
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
