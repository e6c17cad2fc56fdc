"""What is proved of a stream, against full verification."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from framefeed import FrameIndex, Limits, build_index
from framefeed.errors import FramefeedError
from framefeed.index import index_media
from framefeed.media._info import DEFAULT_LIMITS
from framefeed.testing import take_packets

PROVED = "packets+proof"


@contextmanager
def collecting_reasons() -> Iterator[list[str]]:
    """Collect what the index says of proofs that fail."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    log, handler = logging.getLogger("framefeed.index"), Collector()
    level = log.level
    log.setLevel(logging.DEBUG)
    log.addHandler(handler)
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def differences(index: FrameIndex, full: FrameIndex) -> list[str]:
    """Name what a proved index has other than full verification."""
    names = ("pts", "duration", "key_frame_indices", "frame_packet", "frame_start")
    different = [name for name in names if not np.array_equal(getattr(index, name), getattr(full, name))]
    if index.built_from == PROVED and not np.array_equal(index.packets.flags, full.packets.flags):
        different.append("flags")
    return different + ([] if index.stream == full.stream else ["stream"])


def check(source: Path | bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """Index a source by proof; it must be as full verification finds, whatever is proved. How it was built."""
    try:
        full_info, full = index_media(source, "full", limits=limits)
    except FramefeedError as error:
        with pytest.raises(type(error)):
            build_index(source, limits=limits)
        return type(error).__name__
    info, index = index_media(source, limits=limits)
    assert differences(index, full) == []
    assert info == full_info
    return index.built_from


def with_key_flags(clip: bytes, is_key: Callable[[int], bool]) -> bytes:
    """Change what a Matroska file says of its blocks (RFC 9559 10.2): the flags stand before the packet."""
    changed, at = bytearray(clip), 0
    for number, packet in enumerate(take_packets(clip)[0]):
        at = clip.index(packet.data, at)
        changed[at - 1] = changed[at - 1] & 0x7F | (0x80 if is_key(number) else 0)
        at += len(packet.data)
    return bytes(changed)
