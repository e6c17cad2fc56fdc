"""SPDL: demux the window of a clip after a seek, decode it, in two ways to leave out what is not wanted."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import spdl.io

from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import SIZE, Method

_SCALE = f"scale={SIZE}:{SIZE}:flags=bilinear,format=pix_fmts=rgb24"


class _Session:
    def __init__(self, video: BenchVideo) -> None:
        self._index = video.index
        self._demuxer = spdl.io.Demuxer(str(video.path))

    def packets(self, ordinals: Sequence[int]) -> Any:
        """The packets of a window that holds exactly the frames from the first wanted to the last."""
        index = self._index
        half_a_frame = index.step / 2 * float(index.time_base)
        first, last = index.pts_seconds[ordinals[0]], index.pts_seconds[ordinals[-1]]
        return self._demuxer.demux_video((float(first) - half_a_frame, float(last) + half_a_frame))

    def close(self) -> None:
        self._demuxer._demuxer._drop()


class _Sampled(_Session):
    """Splits the packets at key frames and leaves out the parts without a wanted frame."""

    def clip(self, ordinals: Sequence[int]) -> Any:
        selection = [ordinal - ordinals[0] for ordinal in ordinals]
        frames = spdl.io.sample_decode_video(self.packets(ordinals), selection, filter_desc=_SCALE)
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))


class _Selected(_Session):
    """Decodes the window and lets a filter drop what is not wanted before it is resized."""

    def clip(self, ordinals: Sequence[int]) -> Any:
        selection = "+".join(f"eq(pts,{pts})" for pts in self._index.pts[list(ordinals)].tolist())
        frames = spdl.io.decode_packets(self.packets(ordinals), filter_desc=f"select='{selection}',{_SCALE}")
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def versions() -> dict[str, str]:
    """The library, and the codec libraries under it, by name."""
    return {"spdl": version("spdl"), "spdl_io": version("spdl_io")}


def methods() -> list[Method]:
    """Both decode with one thread, which is the library's default. A filter takes some hundred terms at most."""
    return [
        Method("spdl sampled", "NHWC", _Sampled),
        Method("spdl selected", "NHWC", _Selected, takes_many=False),
    ]
