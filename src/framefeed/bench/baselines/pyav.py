"""PyAV: write pictures as a video."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import av

from framefeed.decode import Pixels

PACKAGES = ("av",)
VERSIONS = {"av's avcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def write_video(
    path: str, pictures: Iterable[Pixels], rate: Fraction, options: dict[str, str], layout: str = "rgb24"
) -> None:
    """Encode pictures, uint8 [H, W, 3] in the layout "rgb24" or "bgr24", with x264 and all its threads."""
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=rate, options=options)
        stream.pix_fmt = "yuv420p"
        # PyAV's own choice are slices, which are slower; a thread count of 0 leaves the number to x264.
        stream.codec_context.thread_type = "FRAME"
        stream.codec_context.thread_count = 0
        for number, picture in enumerate(pictures):
            if number == 0:
                stream.height, stream.width = picture.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format=layout)))
        container.mux(stream.encode())
