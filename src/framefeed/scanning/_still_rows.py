"""Read the headers of many still pictures at the speed of the system calls: open, fstat, read and close of each file.

Of an object that is read by ranges, one request gives its first bytes, its size and its version; parts of a local file
take one read each. Every other source is left to `survey`, which also finds the errors of files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter, itemgetter, mul
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._compute import pc
from framefeed._values import DEFAULT_LIMITS, HEAD_BYTES, Limits, SourceStat, clamp_ns
from framefeed.catalog import SURVEYED, mark_signed
from framefeed.errors import FramefeedError, LimitExceeded
from framefeed.media import HEAD_FINGERPRINT_PREFIX, MediaSource, hash_head, make_file_version
from framefeed.parallel import check_stop, time_limit
from framefeed.pictures import (
    UNCONVERTIBLE_MODES,
    CountedReads,
    OddHeader,
    StillHeader,
    convert_exif_orientation,
    read_still_header,
)
from framefeed.scanning._rows import Located

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FILES_PER_BATCH = 64
"""Files that are open at a time. The same call for all, by ``map``, is a tenth faster than a loop over files."""
_OBJECT_HEAD_BYTES = 2**14
"""Bytes of an object that are asked for first: most headers with EXIF and a thumbnail are shorter."""
_OBJECT_MORE_BYTES = 2**16
"""The same, behind them."""
_KIND, _REGULAR = 0o170000, 0o100000
"""Mask and value of ``st_mode``, as in ``stat.S_ISREG``."""
_MODE, _SIZE, _TIME = map(attrgetter, ("st_mode", "st_size", "st_mtime_ns"))
_get_kind = itemgetter(*map(StillHeader._fields.index, ("container", "codec", "mode")))
_NUMBER_GETTERS = tuple(
    itemgetter(StillHeader._fields.index(name)) for name in ("width", "height", "orientation", "num_frames")
)
_ROTATION, _MIRRORED = (np.array(each) for each in zip(*map(convert_exif_orientation, range(9)), strict=True))
"""Indexed by EXIF's orientation."""


class _KindNumbers(dict[tuple[str, str, str], int]):
    """Numbers of (container, codec, mode), given at first use; modes that no backend decodes have none."""

    def __missing__(self, kind: tuple[str, str, str]) -> int:
        if kind[2] in UNCONVERTIBLE_MODES:
            raise _NotPlain
        self[kind] = len(self)
        return self[kind]


class _Heads(NamedTuple):
    """Sources of which the first bytes are read; ``files`` are what ``read`` of `_parse` takes."""

    files: Sequence[Any]
    heads: list[bytes]  # the first ``HEAD_BYTES`` bytes, or all
    sizes: list[int]
    times: list[int | None]  # modification time in ns


@dataclass(slots=True)
class StillRows:
    """Headers of pictures, and the positions of sources that could not be read here.

    They are kept as columns: a million header objects would slow down the garbage collector.
    """

    limits: Limits = DEFAULT_LIMITS
    kinds: _KindNumbers = field(default_factory=_KindNumbers)
    kind: list[int] = field(default_factory=list)  # a number of ``kinds`` for each picture
    numbers: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in _NUMBER_GETTERS))
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)  # modification time in ns; None for an object
    digests: list[str] = field(default_factory=list)  # of each picture's head and size
    offsets: list[int | None] = field(default_factory=list)  # of each part in its file; None for a file or an object
    versions: list[str | None] = field(default_factory=list)  # of each object, or file of a part; None for a file
    unread: list[int] = field(default_factory=list)  # positions of the sources that are left to `survey`

    def read(self, paths: Sequence[str], start: int) -> None:
        """Read the headers of files, from position ``start`` on; they were regular files when they were listed."""

        def read_some(first: int, last: int) -> None:
            descriptors: list[int] = []
            try:
                # If one cannot be opened, the list contains those before it.
                descriptors.extend(map(os.open, paths[first:last], repeat(_FLAGS)))
                facts = list(map(os.fstat, descriptors))
                if {mode & _KIND for mode in set(map(_MODE, facts))} != {_REGULAR}:
                    raise _NotPlain
                heads = list(map(os.pread, descriptors, repeat(HEAD_BYTES), repeat(0)))
                read = _Heads(descriptors, heads, list(map(_SIZE, facts)), list(map(_TIME, facts)))
                self._parse(read, os.pread, start + first)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

        self._read_in_batches(read_some, len(paths), start)

    def read_parts(self, container: str, parts: Located, start: int) -> None:
        """Read the headers of parts of one local file, which is opened once.

        If it is another file than the one that was listed, all parts are left to `survey`.
        """
        assert parts.offsets is not None
        version, sizes, offsets = parts.versions[0], parts.sizes.tolist(), parts.offsets.tolist()
        with ExitStack() as opened:
            try:
                descriptor = os.open(container, _FLAGS)
                opened.callback(os.close, descriptor)
                facts = os.fstat(descriptor)
                if facts.st_mode & _KIND != _REGULAR or make_file_version(SourceStat.of(facts)) != version:
                    raise _NotPlain
            except _NOT_READ as error:
                _raise_bug(error)
                self.unread += range(start, start + len(sizes))
                return

            def read_some(first: int, last: int) -> None:
                own_sizes, own_offsets = sizes[first:last], offsets[first:last]
                lengths = map(min, own_sizes, repeat(HEAD_BYTES))
                # The system refuses -1, the offset of a value that only Arrow can read.
                heads = list(map(os.pread, repeat(descriptor), lengths, own_offsets))
                files = list(zip(repeat(descriptor), own_offsets, own_sizes, strict=False))
                read = _Heads(files, heads, own_sizes, [facts.st_mtime_ns] * len(files))
                num_before = len(self.sizes)
                odd = frozenset(self._parse(read, _read_part, start + first))
                self.offsets[num_before:] = [each for number, each in enumerate(own_offsets) if number not in odd]
                self.versions[num_before:] = repeat(version, len(self.sizes) - num_before)

            self._read_in_batches(read_some, len(sizes), start)

    def _read_in_batches(self, read_some: Callable[[int, int], None], count: int, start: int) -> None:
        """Read sources by a function that takes the first and the last of a batch, and changes nothing if it raises."""
        for first in range(0, count, _FILES_PER_BATCH):
            check_stop()
            last = min(first + _FILES_PER_BATCH, count)
            try:
                read_some(first, last)
            except _NOT_READ:
                for number in range(first, last):
                    try:
                        read_some(number, number + 1)
                    except _NOT_READ as error:
                        _raise_bug(error)
                        self.unread.append(start + number)

    def _parse(self, read: _Heads, read_more: Callable[[Any, int, int], bytes], start: int) -> list[int]:
        """Parse the headers of a batch, or raise and change nothing; return the odd ones, by number in the batch."""
        heads, sizes, times = read.heads, read.sizes, read.times
        max_bytes = self.limits.max_header_bytes
        headers, odd, more = list[StillHeader](), list[int](), CountedReads[Any](read_more, None, max_bytes)
        for head, file, size in zip(heads, read.files, sizes, strict=True):
            more.file, more.bytes_left = file, max_bytes
            try:
                headers.append(read_still_header(head, more, size))
            except OddHeader:
                odd.append(len(headers) + len(odd))
        for position in reversed(odd):
            del heads[position], sizes[position], times[position]
        self._add(headers, heads, sizes, times)
        self.unread += [start + position for position in odd]
        return odd

    def read_object(self, media: MediaSource, position: int, seconds: float | None) -> FramefeedError | None:
        """Read the header of an object that is read by ranges; return why its bytes cannot be read, or None."""
        check_stop()
        try:
            with time_limit(seconds, media.name):
                opened = _OpenObject(media)
                head = bytes(opened.data[:HEAD_BYTES])
                more = CountedReads(_OpenObject.read, opened, self.limits.max_header_bytes)
                header = read_still_header(head, more, opened.size)
            self._add([header], [head], [opened.size], [None])
            self.versions[-1] = mark_signed(media, opened.version.text or None)
        except FramefeedError as error:
            return error
        except (OddHeader, *_NOT_READ):
            self.unread.append(position)
        return None

    def _add(self, headers: list[StillHeader], heads: list[bytes], sizes: list[int], times: list[int | None]) -> None:
        """Add pictures, or raise and change nothing."""
        fields = [list(map(field_of, headers)) for field_of in _NUMBER_GETTERS]
        widths, heights, limits = fields[0], fields[1], self.limits
        if max(widths, default=0) > limits.max_side or max(heights, default=0) > limits.max_side:
            raise _NotPlain
        if max(map(mul, widths, heights), default=0) > limits.max_pixels:
            raise _NotPlain
        kinds = list(map(self.kinds.__getitem__, map(_get_kind, headers)))
        for column, values in zip(self.numbers, fields, strict=True):
            column += values
        self.kind += kinds
        self.sizes += sizes
        self.times += times
        self.digests += map(hash_head, heads, sizes)
        self.versions += [None] * len(sizes)
        self.offsets += [None] * len(sizes)

    def to_batch(self, *, count_one_frame: bool) -> pa.RecordBatch:
        """Convert the rows to columns of ``SURVEYED``.

        Plans use one frame of a picture, whatever its header claims: ``count_one_frame`` counts so.
        """
        count = len(self.sizes)
        numbers = np.fromiter(self.kind, np.int32, count)
        names = list(zip(*self.kinds, strict=True)) or [(), (), ()]
        coded_width, coded_height, orientation, frames = (
            np.fromiter(column, np.int64, count) for column in self.numbers
        )
        is_transposed = np.isin(_ROTATION[orientation], (90, 270))
        columns: dict[str, Any] = {
            "kind": _decode_names(("image",), np.zeros(count, np.int32)),
            "container": _decode_names(names[0], numbers),
            "codec": _decode_names(names[1], numbers),
            "width": np.where(is_transposed, coded_height, coded_width),
            "height": np.where(is_transposed, coded_width, coded_height),
            "coded_width": coded_width,
            "coded_height": coded_height,
            "rotation": _ROTATION[orientation],
            "mirrored": _MIRRORED[orientation],
            "pixel_format": _decode_names(names[2], numbers),
            "num_frames": np.ones(count, np.int64) if count_one_frame else frames,
            "bytes": np.fromiter(self.sizes, np.int64, count),
            "mtime_ns": _to_nullable_times(self.times),
            "source_version": pa.array(self.versions, pa.string()),
            "fingerprint": pc.binary_join_element_wise(
                HEAD_FINGERPRINT_PREFIX, pa.array(self.digests, pa.string()), ""
            ),
        }
        if any(each is not None for each in self.offsets):
            columns["source_offset"] = pa.array(self.offsets, pa.int64())
        arrays = {field.name: pa.nulls(count, field.type) for field in SURVEYED}
        for name, values in columns.items():
            arrays[name] = values if isinstance(values, pa.Array) else pa.array(values, SURVEYED.field(name).type)
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=SURVEYED)


def to_time_column(times: Sequence[int]) -> IntArray:
    """Convert times in ns to a column, int64 [N]."""
    try:
        return np.array(times, np.int64)
    except OverflowError:
        return np.array([*map(clamp_ns, times)], np.int64)


def _to_nullable_times(times: Sequence[int | None]) -> pa.Array:
    if None not in times:
        return pa.array(to_time_column(cast("Sequence[int]", times)))
    return pa.array([None if time is None else clamp_ns(time) for time in times], pa.int64())


class _OpenObject:
    """An object, and the range of it that was fetched last."""

    def __init__(self, media: MediaSource) -> None:
        self._media = media
        self._start = 0
        fetched = media.get_range(0, _OBJECT_HEAD_BYTES)
        self.data, self.version, self.size = fetched.data, fetched.version, fetched.version.size

    def read(self, count: int, offset: int) -> bytes:
        """Read ``count`` bytes at an offset, fewer at the end."""
        stop = min(offset + count, self.size)
        if offset < stop and not self._start <= offset <= stop <= self._start + len(self.data):
            last = min(self.size, offset + max(count, _OBJECT_MORE_BYTES))
            self._start, self.data = offset, self._media.get_range(offset, last, self.version).data
        return bytes(self.data[offset - self._start : max(0, stop - self._start)])


def _read_part(part: tuple[int, int, int], count: int, offset: int) -> bytes:
    """Read up to ``count`` bytes of a part: its descriptor, first byte and size."""
    descriptor, start, size = part
    return os.pread(descriptor, max(0, min(count, size - offset)), start + offset)


def _raise_bug(error: BaseException) -> None:
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        raise error  # framefeed closed the file.


class _NotPlain(Exception):
    """A file that is left to `survey`: not a plain picture file, too large, or of a kind that is not decoded."""


_NOT_READ = (_NotPlain, OSError, ValueError, MemoryError, LimitExceeded)
"""Errors that leave a file to `survey`, which reads it again and reports them; LimitExceeded is a deadline."""


def _decode_names(names: Sequence[str], numbers: npt.NDArray[np.int32]) -> pa.Array:
    # Through a dictionary: a Python string for each row would take three times as long.
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(names, pa.string())).cast(pa.string())
