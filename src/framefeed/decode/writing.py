"""Any decoded picture -> RGB in the caller's memory, whichever kind of source it is of."""

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
    """Make what writes a decoded picture in any form, as the backend that decoded it would.

    Args:
        frame: A ``VideoFrame``, as the backend's ``frames`` gives it.
        index: Of its source.
        name: Of the picture's file, for messages.
    """
    if holds_pictures(index):
        return partial(write_still, frame, (index.stream, name))
    return partial(thread_converter().write, frame, index.stream)


def picture_name(source: MediaSource, number: int) -> str:
    """Name the file of one picture of a source."""
    return source.files().paths[number] if isinstance(source, SequenceSource) else source.name


def write_still(frame: Any, expected: tuple[StreamFacts, str], output: OutputSpec, out: Pixels) -> None:
    """Write a still picture, which stands upright already and may differ in size from its neighbours.

    Raises:
        FormatChanged: It differs, and the form of the pixels follows from its size.
    """
    stream, name = expected
    height, width = stream.displayed
    if (frame.height, frame.width) != (height, width) and (output.crop or not output.size):
        raise FormatChanged(
            f"{name} is {frame.width}x{frame.height} as displayed, not {width}x{height}: give size=(height, width) "
            "without crop to bring all to one size (on the command line: --size HEIGHTxWIDTH, such as --size "
            f"{height}x{width})"
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
