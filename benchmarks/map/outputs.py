"""Whether a route's video is the one that was asked for: every frame once, in order, mapped, close to its source.

Numbers are read from a small clip before anything is timed; of the long video the last output is compared afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.map.functions import MARK
from framefeed.bench import BenchVideo, psnr, spread_ordinals
from framefeed.decode import Pixels, copy_planes, describe_layout
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import FramefeedError
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, read_stamps, write_clip

SMALL = ClipSpec(num_frames=60, height=192, width=256, gop=12, b_frames=2)
COMPARED = 12
"""Frames of the long video."""
LEAST_PSNR = 28.0
"""dB of luma: a wrong frame of a film has about 20."""
PSNR_TOLERANCE = 0.7
"""dB between routes that encode with the same settings: the number of encoder threads changes a few tenths."""
_EDGE = 4
_MIDDLE = 128


@dataclass(frozen=True, slots=True)
class Quality:
    """Facts of one output: median of some frames' luma against the source, in dB, and the file's 10^6 bytes."""

    psnr: float
    megabytes: float


def write_small(folder: Path) -> BenchVideo:
    """Write the clip whose frames show their numbers."""
    return BenchVideo(write_clip(folder / "small.mp4", SMALL))


def check_small(out: Path, *, is_marked: bool) -> list[str]:
    """Read the numbers of all frames of a mapped small clip, and the marks of the function."""
    video = BenchVideo(out)
    output = OutputSpec(dimension_order="NHWC")
    frames = PyAVDecoder().iter_rgb(video.source, video.index, range(len(video)), output)
    pictures = np.stack([picture.copy() for _, picture in frames])
    numbers = [None if each is None else int(each) for each in read_stamps(pictures)]
    if numbers != list(range(SMALL.num_frames)):
        return [f"expected the frames 0 to {SMALL.num_frames - 1} in order, got {numbers}"]
    lights = (pictures[:, _EDGE - MARK : -_EDGE, _EDGE - MARK : -_EDGE].mean(axis=(1, 2, 3)) > _MIDDLE).tolist()
    expected = [bool(number % 2) for number in numbers if number is not None]
    wrong = [number for number, pair in enumerate(zip(lights, expected, strict=True)) if pair[0] != pair[1]]
    return [f"frames {wrong[:8]} are not as the function made them"] if is_marked and wrong else []


def iter_luma(video: BenchVideo, ordinals: Sequence[int]) -> Iterator[Pixels]:
    """Luma of some frames, uint8 [H, W]; colours are named differently by each route, and converted by none here."""
    for _, picture in PyAVDecoder().iter_native(video.source, video.index, ordinals):
        layout = describe_layout(picture)
        planes = np.empty(layout.nbytes, dtype=np.uint8)
        copy_planes(picture, planes)
        yield planes[: picture.width * picture.height].reshape(picture.height, picture.width)


def compare_output(source: BenchVideo, out: Path, *, is_marked: bool) -> tuple[list[str], Quality | None]:
    """Compare some frames of a mapped video with those of the source."""
    try:
        mapped = BenchVideo(out)
        if len(mapped) != len(source):
            return [f"expected {len(source)} frames, got {len(mapped)}"], None
        ordinals = spread_ordinals(len(source), COMPARED)
        values, wrong = list[float](), list[str]()
        for ordinal, want, got in zip(ordinals, iter_luma(source, ordinals), iter_luma(mapped, ordinals), strict=True):
            values.append(min(99.0, psnr(got[:-MARK], want[:-MARK])))
            if values[-1] < LEAST_PSNR:
                wrong.append(f"frame {ordinal}: {values[-1]:.1f} dB: not the source's frame")
            is_light = got[_EDGE - MARK : -_EDGE, _EDGE - MARK : -_EDGE].mean() > _MIDDLE
            if is_marked and is_light != bool(ordinal % 2):
                wrong.append(f"frame {ordinal}: not as the function made it")
    except FramefeedError as error:
        return [f"{type(error).__name__}: {error}"], None
    return wrong, Quality(round(float(np.median(values)), 2), round(out.stat().st_size / 1e6, 2))
