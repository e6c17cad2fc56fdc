"""The law of rebuilt pictures: converting one gives the pixels that converting the decoder's own picture gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import Pixels
from framefeed.decode._planes import copy_planes, describe_layout, rebuild_picture
from framefeed.index import StreamFacts
from framefeed.request import OutputSpec
from tests.reference import open_media

Rebuild = Callable[[VideoFrame], VideoFrame]


@dataclass(frozen=True)
class Different:
    """An output that is another."""

    output: OutputSpec
    stream: StreamFacts
    num_samples: int


def rebuilt(frame: VideoFrame) -> VideoFrame:
    """What the product makes of a picture that went through bytes, in memory aligned as Arrow's is."""
    layout = describe_layout(frame)
    planes = aligned(layout.nbytes)
    copy_planes(frame, planes)
    return rebuild_picture(layout, planes)


def aligned(nbytes: int) -> Pixels:
    """Memory that begins at a multiple of 64."""
    whole = np.empty(nbytes + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + nbytes]


def differences(frame: VideoFrame, rebuild: Rebuild = rebuilt) -> list[Different]:
    """Outputs in which the rebuilt picture differs from the decoder's; empty where the law holds."""
    other = rebuild(frame)
    ours, theirs = Converter(), Converter()
    actual = []
    for stream, output in _outputs(frame):
        shape = output.shape(*stream.displayed)
        expected, got = np.full(shape, 7, np.uint8), np.full(shape, 9, np.uint8)
        theirs.write(frame, stream, output, expected)
        ours.write(other, stream, output, got)
        if not np.array_equal(expected, got):
            actual.append(Different(output, stream, int((expected != got).sum())))
    return actual


def _outputs(frame: VideoFrame) -> Iterator[tuple[StreamFacts, OutputSpec]]:
    for rotation, mirrored in ((0, False), (90, True)):
        stream = StreamFacts(0, "m", "c", None, frame.width, frame.height, frame.format.name, rotation, mirrored)
        height, width = stream.displayed
        for output in _of_size(height, width):
            yield stream, output
            yield stream, replace(output, dimension_order="NHWC")


def _of_size(height: int, width: int) -> Iterator[OutputSpec]:
    yield OutputSpec()
    yield OutputSpec(size=(max(1, height // 3), max(1, width // 2)))
    yield OutputSpec(size=(height + 7, width + 5))
    if min(height, width) > 8:
        even = (2, 2, (height - 4) // 4 * 2, (width - 4) // 4 * 2)
        odd = (1, 3, height - 3, width - 4)
        yield OutputSpec(crop=even)
        yield OutputSpec(crop=odd)
        yield OutputSpec(crop=even, size=(height // 2 + 1, 16))
        yield OutputSpec(crop=odd, size=(20, width // 2 + 1))


def some_frames(path: Path, numbers: tuple[int, ...]) -> Iterator[VideoFrame]:
    """Frames of the first video stream, by their place in the order in which they are decoded."""
    with open_media(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for number, frame in enumerate(container.decode(stream)):
            if number in numbers:
                yield frame
            if number >= max(numbers):
                return
