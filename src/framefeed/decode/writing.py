"""Convert a decoded picture of any kind of source to RGB in the caller's memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

from framefeed.decode.convert import Converter
from framefeed.decode.decoder import Pixels
from framefeed.decode.places import Write
from framefeed.errors import FormatChanged
from framefeed.index.frame_index import FrameIndex, StreamFacts
from framefeed.index.sequence_index import holds_pictures
from framefeed.media.sequence import SequenceSource
from framefeed.media.source import MediaSource
from framefeed.plan.request import OutputSpec


def writer_of(frame: Any, index: FrameIndex, name: str) -> Write:
    """Return a function that converts a decoded picture to any output form, as its backend does.

    Args:
        frame: A ``VideoFrame`` from the backend's ``frames``.
        index: Index of its source.
        name: Name of the picture's file, for messages.
    """
    if holds_pictures(index):
        return partial(write_still, frame, (index.stream, name))
    return partial(thread_converter().write, frame, index.stream)


def picture_name(source: MediaSource, number: int) -> str:
    """Name the file of one picture of a source."""
    return source.files().paths[number] if isinstance(source, SequenceSource) else source.name


def write_still(frame: Any, expected: tuple[StreamFacts, str], output: OutputSpec, out: Pixels) -> None:
    """Write a still picture, which is upright already; pictures of one sequence may differ in size.

    Raises:
        FormatChanged: The size differs from the first picture's, and ``output`` has no size, or has a crop.
    """
    stream, name = expected
    height, width = stream.displayed
    if (frame.height, frame.width) != (height, width) and (output.crop or not output.size):
        raise FormatChanged(
            f"{name}: expected a picture of {width}x{height} like the first of its sequence, got "
            f"{frame.width}x{frame.height}: give size=(height, width) without crop to resize all to one size "
            f"(on the command line: --size HEIGHTxWIDTH, such as --size {height}x{width})"
        )
    upright = replace(stream, width=frame.width, height=frame.height, rotation=0, mirrored=False)
    thread_converter().write(frame, upright, output, out)


class _Local(threading.local):
    """What each thread has of its own, made when it first asks."""

    def __init__(self) -> None:
        self.converter = Converter()


_local = _Local()


def thread_converter() -> Converter:
    """This thread's, which keeps swscale's set-up."""
    return _local.converter
