"""Pictures for the tests of video writing, and what a written file holds."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from framefeed.decode import VideoDecoder
from framefeed.encode import VideoOptions, VideoTags, VideoWriter, join_segments, resolve_video
from framefeed.encode._codecs import CONTAINERS
from framefeed.index import FrameIndex, build_index

PAIRS = [(container.name, codec) for container in CONTAINERS.values() for codec in container.codecs]
TICK = Fraction(1, 90000)
TIMES = (126000, 129003, 132001, 140007, 143010, 146000)
"""Unequal distances, and a first time that is not 0."""
STEADY = tuple(126000 + 3600 * number for number in range(6))
LAST = 4500
"""Duration of the last frame."""
BT709 = VideoTags(1, 1, 1, 1)


def make_pictures(count: int = 6, height: int = 64, width: int = 96) -> list[np.ndarray]:
    """Smooth coloured waves that move, with fine grain: uint8 [height, width, 3] each."""
    rows, columns = np.mgrid[:height, :width]
    grain = np.random.default_rng(3).normal(0, 2, (height, width, 1))
    pictures = []
    for number in range(count):
        red = 128 + 90 * np.sin(columns / 17 + rows / 31 + number / 4)
        green = 128 + 80 * np.cos(columns / 23 - rows / 13 + number / 3)
        blue = 128 + 70 * np.sin((rows + columns) / 29 - number / 5)
        pictures.append((np.stack([red, green, blue], 2) + grain).clip(0, 255).astype(np.uint8))
    return pictures


def times_for(container: str) -> tuple[int, ...]:
    """Times that a container holds."""
    return STEADY if container == "avi" else TIMES


def write(
    path: Path,
    pictures: Sequence[np.ndarray],
    times: Sequence[int],
    options: VideoOptions | None = None,
    tags: VideoTags = BT709,
    *,
    rate: Fraction | float | None = 25,
    last: int = LAST,
) -> None:
    """Write a video in its final container."""
    with VideoWriter(path, options or VideoOptions(), tags, TICK, rate=rate) as writer:
        _put(writer, pictures, times, last)


def write_segments(
    path: Path,
    pictures: Sequence[np.ndarray],
    times: Sequence[int],
    options: VideoOptions,
    tags: VideoTags = BT709,
    *,
    sizes: Sequence[int] = (2, 3, 1),
    last: int = LAST,
) -> list[Path]:
    """Write segments beside the path of the final video; return their paths."""
    options, tags = resolve_video(path, options, tags)
    paths, first = [], 0
    for number, size in enumerate(sizes):
        segment = path.with_name(f"{path.stem}.{number}.nut")
        with VideoWriter(segment, options, tags, TICK, container="nut", rate=25) as writer:
            end = first + size
            following = times[end] - times[end - 1] if end < len(times) else last
            _put(writer, pictures[first:end], times[first:end], following)
        paths.append(segment)
        first += size
    return paths


def _put(writer: VideoWriter, pictures: Sequence[np.ndarray], times: Sequence[int], last: int) -> None:
    ends = (*times[1:], times[-1] + last)
    for picture, pts, end in zip(pictures, times, ends, strict=True):
        writer.write(picture, pts, end - pts)


def join(path: Path, segments: Sequence[Path], audio_from: Path | None = None) -> FrameIndex:
    """Join segments, and index the video."""
    join_segments(segments, path, audio_from=audio_from)
    return build_index(path)


def read_pictures(path: Path, count: int = 6) -> np.ndarray:
    """Decode a video: uint8 [N, H, W, 3]."""
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        return np.asarray(decoder.get_frames_in_range(0, count).data)


def ticks_of(index: FrameIndex) -> list[Fraction]:
    """Times of an index in ticks of `TICK`."""
    return [Fraction(int(pts)) * index.time_base / TICK for pts in index.pts]


def read_packets(path: Path, kind: str = "video") -> list[tuple[bytes, Fraction, Fraction]]:
    """Bytes, time and duration of the packets of a file's first stream of a kind."""
    with av.open(os.fspath(path)) as container:
        stream = container.streams.get({kind: 0})[0]
        return [
            (bytes(packet), packet.pts * packet.time_base, (packet.duration or 0) * packet.time_base)
            for packet in container.demux(stream)
            if packet.size
        ]


@contextmanager
def full_after(most_bytes: int) -> Iterator[None]:
    """Let the system refuse larger files: it stops a write in its middle, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
