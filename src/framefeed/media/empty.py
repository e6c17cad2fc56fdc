"""Why no frame comes out of a video stream: what FFmpeg said when it was decoded."""

from __future__ import annotations

import re

from framefeed.errors import EmptyVideo, MediaError
from framefeed.media.container import VideoContainer
from framefeed.media.foreign import in_one_line
from framefeed.media.limits import allows, too_large

# av_image_check_size2 of libavutil/imgutils.c: more than `max_pixels`, or more than any picture can have.
_TOO_LARGE = re.compile(r"Picture size (\d+)x(\d+) (?:exceeds specified max pixel count|is invalid)")


def no_frame(container: VideoContainer, stage: str) -> MediaError:
    """Build the error for a stream whose packets give not one frame."""
    source, log = container.source, in_one_line(container.log)
    size = container.too_large or _logged_size(container)
    if size is not None:
        return too_large(container.limits, size, source.name, stage)
    return EmptyVideo(
        f"{source.name}: its video stream gives no frame{log and f' ({log})'}: copy or record the file again",
        source=source.name,
        stage=stage,
    )


def _logged_size(container: VideoContainer) -> tuple[int, int] | None:
    """Size of the first picture that libav refused for being larger than the limits; it refuses a size of 0 too."""
    for _, _, message in container.log:
        found = _TOO_LARGE.search(message)
        if found is not None and not allows(container.limits, int(found[1]), int(found[2])):
            return int(found[1]), int(found[2])
    return None
