"""SPDL: demux the window of a clip after a seek, decode it, in two ways to leave out what is not wanted."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import partial
from typing import Any

import spdl.io

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Method

PACKAGES = ("spdl", "spdl_io")
_SCALE = f"scale={SIZE}:{SIZE}:flags=bilinear,format=pix_fmts=rgb24"


class _Window:
    """Decodes with one thread, which is the library's default.

    Args:
        video: Which.
        is_sampled: True splits the packets at key frames and leaves out the parts without a wanted frame; False decodes
            the whole window, and lets a filter drop what is not wanted before it is resized.
    """

    def __init__(self, video: BenchVideo, is_sampled: bool) -> None:
        self._index = video.index
        self._is_sampled = is_sampled
        self._demuxer = spdl.io.Demuxer(str(video.path))
        # Its first use takes SIGTERM (glog), which would end a bench without removing its temporary folders.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def __call__(self, ordinals: Sequence[int]) -> Any:
        index = self._index
        half_a_frame = index.step / 2 * float(index.time_base)
        first, last = index.pts_seconds[ordinals[0]], index.pts_seconds[ordinals[-1]]
        packets = self._demuxer.demux_video((float(first) - half_a_frame, float(last) + half_a_frame))
        if self._is_sampled:
            selection = [ordinal - ordinals[0] for ordinal in ordinals]
            frames = spdl.io.sample_decode_video(packets, selection, filter_desc=_SCALE)
        else:
            terms = "+".join(f"eq(pts,{pts})" for pts in index.pts[list(ordinals)].tolist())
            frames = spdl.io.decode_packets(packets, filter_desc=f"select='{terms}',{_SCALE}")
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def __del__(self) -> None:
        self._demuxer._demuxer._drop()


METHODS = [
    Method("spdl sampled", "NHWC", partial(_Window, is_sampled=True)),
    Method("spdl selected", "NHWC", partial(_Window, is_sampled=False)),
]
