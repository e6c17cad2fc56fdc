"""Our own ways of ``bench scan``: the header function alone, between the bare system calls.

Once with an fstat for each file, as a scan needs it and the limit has it; once without, as the peers that give width
and height and nothing else do it, and with the calls in rows, as a scan makes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import repeat

from framefeed.bench.sizing import Engine, Size, in_process
from framefeed.errors import MediaError
from framefeed.media.headers import HEAD_BYTES, OddHeader, image_info, still_header
from framefeed.media.limits import Limits
from framefeed.media.source import MediaSource

OURS = "framefeed, header"
BARE_OURS = "framefeed, without fstat"
_AT_ONCE = 64
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def size_of(path: str) -> Size:
    """Stored size of one picture; where the header is odd, a library says it, as in a scan."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fstat(file)
        header = still_header(os.pread(file, HEAD_BYTES, 0), partial(os.pread, file))
    except OddHeader:
        return _asked(path)
    finally:
        os.close(file)
    return header.width, header.height


def _asked(path: str) -> Size:
    try:
        info = image_info(MediaSource.of(path), Limits())
    except MediaError:
        return None
    return info.coded_width, info.coded_height


class InRows:
    """Sizes of some files at a time: all are opened, then read, then closed."""

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        """Size of each file, in order."""
        sizes = list[Size]()
        for start in range(0, len(paths), _AT_ONCE):
            sizes += _sizes(paths[start : start + _AT_ONCE])
        return sizes

    def close(self) -> None:
        """Nothing is held."""


def _sizes(paths: Sequence[str]) -> list[Size]:
    files, sizes = list[int](), list[Size]()
    try:
        files.extend(map(os.open, paths, repeat(_FLAGS)))
        for path, file, head in zip(paths, files, map(os.pread, files, repeat(HEAD_BYTES), repeat(0)), strict=True):
            try:
                sizes.append(still_header(head, partial(os.pread, file))[2:4])
            except OddHeader:
                sizes.append(_asked(path))
    finally:
        for file in files:
            os.close(file)
    return sizes


ENGINE: Engine = in_process(OURS, size_of, "quick")
BARE_ENGINE = Engine(BARE_OURS, lambda processes: InRows(), "quick")
