"""Facts of many still pictures at the speed of the system calls: one open, one fstat, one read and one close a file.

What is not answered by the first bytes of a plain file, whatever it is, is left to the slow route, which says why.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter, itemgetter, mul
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import IntArray
from framefeed.catalog._columns import FACTS
from framefeed.errors import LimitExceeded
from framefeed.media import (
    DEFAULT_LIMITS,
    HEAD_BYTES,
    MODES_WITHOUT_RULE,
    OF_HEAD,
    CountedReads,
    Limits,
    OddHeader,
    StillHeader,
    head_digest,
    ns_in_64_bits,
    orientation_of,
    still_header,
)
from framefeed.parallel import check_stop

SURVEYED = pa.schema([(name, kind) for name, kind in FACTS.items() if name not in ("source", "label")])
"""What a survey finds out: the facts of a catalog without what the listing knows."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_AT_ONCE = 64
"""Files that are open at a time: calls in rows, by ``map``, cost a tenth less than a loop around all of them."""
_KIND, _REGULAR = 0o170000, 0o100000
"""Of ``st_mode``, as ``stat.S_ISREG`` has it."""
_MODE, _SIZE, _TIME = map(attrgetter, ("st_mode", "st_size", "st_mtime_ns"))
_KIND_OF = itemgetter(*map(StillHeader._fields.index, ("container", "codec", "mode")))
_NUMBERS = tuple(
    itemgetter(StillHeader._fields.index(name)) for name in ("width", "height", "orientation", "num_frames")
)
_ROTATION, _MIRRORED = (np.array(each) for each in zip(*map(orientation_of, range(9)), strict=True))
"""By EXIF's orientation."""


class _Kinds(dict[tuple[str, str, str], int]):
    """Container, codec and mode of pictures, numbered as they are met; those that are not decoded have no number."""

    def __missing__(self, kind: tuple[str, str, str]) -> int:
        if kind[2] in MODES_WITHOUT_RULE:
            raise _OneIsOdd
        self[kind] = len(self)
        return self[kind]


@dataclass(slots=True)
class StillRows:
    """Pictures that were understood, and the positions of files that were not.

    Column by column from the start: headers that were kept would keep the garbage collector busy.

    Attributes:
        limits: What a file may claim; one that claims more is left to the slow route.
        kinds: Of pictures.
        kind: Number of each picture's kind.
        numbers: Columns, rows, orientation and number of frames of each picture.
        sizes: Bytes of its file.
        times: Modification time in ns.
        digests: Hash of its head and size.
        others: Positions of the files that the slow route has to look at.
    """

    limits: Limits = DEFAULT_LIMITS
    kinds: _Kinds = field(default_factory=_Kinds)
    kind: list[int] = field(default_factory=list)
    numbers: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in _NUMBERS))
    sizes: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def read(self, paths: Sequence[str], start: int) -> None:
        """Read the headers of files.

        Args:
            paths: Of files that were regular ones when they were listed.
            start: Position of the first.
        """
        for first in range(0, len(paths), _AT_ONCE):
            check_stop()
            some = paths[first : first + _AT_ONCE]
            try:
                self._read_some(some, start + first)
            except _NOT_READ:
                for position, path in enumerate(some, start + first):
                    self._read_one(path, position)

    def _read_one(self, path: str, position: int) -> None:
        try:
            self._read_some([path], position)
        except _NOT_READ as error:
            if isinstance(error, OSError) and error.errno == errno.EBADF:
                raise  # we closed it
            self.others.append(position)

    def _read_some(self, paths: Sequence[str], start: int) -> None:
        """Read all of them, or raise and leave no trace."""
        descriptors: list[int] = []
        try:
            # Where one cannot be opened, the list keeps those before it.
            descriptors.extend(map(os.open, paths, repeat(_FLAGS)))
            facts = list(map(os.fstat, descriptors))
            if {mode & _KIND for mode in set(map(_MODE, facts))} != {_REGULAR}:
                raise _OneIsOdd
            heads = list(map(os.pread, descriptors, repeat(HEAD_BYTES), repeat(0)))
            sizes = list(map(_SIZE, facts))
            headers, odd = _headers(heads, descriptors, sizes, self.limits.max_header_bytes)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        times = list(map(_TIME, facts))
        for place in reversed(odd):
            del heads[place], sizes[place], times[place]
        fields = [list(map(field_of, headers)) for field_of in _NUMBERS]
        _check_limits(fields[0], fields[1], self.limits)
        kinds = list(map(self.kinds.__getitem__, map(_KIND_OF, headers)))
        for column, values in zip(self.numbers, fields, strict=True):
            column += values
        self.kind += kinds
        self.others += [start + place for place in odd]
        self.sizes += sizes
        self.times += times
        self.digests += map(head_digest, heads, sizes)

    def batch(self, *, as_index_of_one: bool) -> pa.RecordBatch:
        """Put the rows into columns of ``SURVEYED``.

        Args:
            as_index_of_one: Say one frame for each, which is what can be planned, whatever the header counts.
        """
        count = len(self.sizes)
        numbers = np.fromiter(self.kind, np.int32, count)
        names = list(zip(*self.kinds, strict=True)) or [(), (), ()]
        wide, high, turns, frames = (_integers(column, count) for column in self.numbers)
        turned = np.isin(_ROTATION[turns], (90, 270))
        known: dict[str, Any] = {
            "kind": _taken(("image",), np.zeros(count, np.int32)),
            "container": _taken(names[0], numbers),
            "codec": _taken(names[1], numbers),
            "width": np.where(turned, high, wide),
            "height": np.where(turned, wide, high),
            "coded_width": wide,
            "coded_height": high,
            "rotation": _ROTATION[turns],
            "mirrored": _MIRRORED[turns],
            "pixel_format": _taken(names[2], numbers),
            "num_frames": np.ones(count, np.int64) if as_index_of_one else frames,
            "bytes": _integers(self.sizes, count),
            "mtime_ns": as_times(self.times),
            "fingerprint": pc.binary_join_element_wise(OF_HEAD, pa.array(self.digests, pa.string()), ""),
        }
        return pa.RecordBatch.from_arrays(
            [_column(known.get(name), kind, count) for name, kind in zip(SURVEYED.names, SURVEYED.types, strict=True)],
            schema=SURVEYED,
        )


def as_times(times: Sequence[int]) -> IntArray:
    """Times of files in ns as a column, int64 [N]."""
    try:
        return np.array(times, np.int64)
    except OverflowError:
        return np.array([*map(ns_in_64_bits, times)], np.int64)


class _OneIsOdd(Exception):
    """One of the files is not for the fast route, too large, or of a kind that is not decoded."""


_NOT_READ = (_OneIsOdd, OSError, ValueError, MemoryError, LimitExceeded)
"""What leaves a file to the slow route, which finds out why, and says so; LimitExceeded is that of its time."""


def _headers(
    heads: Sequence[bytes], descriptors: Sequence[int], sizes: Sequence[int], max_bytes: int
) -> tuple[list[StillHeader], list[int]]:
    """Headers of files, and the places of those that are odd, which have none."""
    headers, odd, more = list[StillHeader](), list[int](), CountedReads(os.pread, -1, max_bytes)
    for head, descriptor, size in zip(heads, descriptors, sizes, strict=True):
        more.file, more.bytes_left = descriptor, max_bytes
        try:
            headers.append(still_header(head, more, size))
        except OddHeader:
            odd.append(len(headers) + len(odd))
    return headers, odd


def _check_limits(widths: Sequence[int], heights: Sequence[int], limits: Limits) -> None:
    if max(widths, default=0) > limits.max_side or max(heights, default=0) > limits.max_side:
        raise _OneIsOdd
    if max(map(mul, widths, heights), default=0) > limits.max_pixels:
        raise _OneIsOdd


def _integers(values: Iterable[int], count: int) -> IntArray:
    return np.fromiter(values, np.int64, count)


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _taken(names: Sequence[str], numbers: npt.NDArray[np.int32]) -> pa.Array:
    # As codes first: a Python string for each row would cost three times as much.
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(names, pa.string())).cast(pa.string())
