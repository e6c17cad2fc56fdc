"""Image sequences: picture files as the frames of one video."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import isfinite, ulp
from threading import RLock

import numpy as np
import xxhash

from framefeed._arrays import IntArray, has_bools
from framefeed._checks import expand_home, expected
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed._shown import show_name
from framefeed._values import ByteReader, SourceStat
from framefeed.errors import EmptyVideo, MediaError, StaleSource, UsageError
from framefeed.media._identity import SourceIdentity
from framefeed.media._sequence_files import SequenceFiles, list_folder, stamp_folder, stat_files
from framefeed.media._source import MediaSource

SEQUENCE_CONTAINER = "image_sequence"
"""`MediaInfo.container` of a sequence."""

_NANOSECONDS = 10**9
_EXACT_TICKS = 2**52
"""Up to here an integer number of ticks survives the conversion to seconds as float64 and back."""
_MOST_SECONDS = 2**32
"""Past the year 2100 as time since 1970; float64 tells microseconds apart there."""
_MAX_TICKS_A_SECOND = 2**62
"""Numerator and denominator of a time base are stored as int64."""
_COMMON_DENOMINATOR = 1001
"""Denominator of the NTSC rates, 24000/1001, 30000/1001 and 60000/1001 (SMPTE ST 170): the largest in common use."""

StrPath = str | os.PathLike[str]


def source_name(source: str | bytes | ImageSequence, row: int | None = None) -> str:
    """Name the source of a catalog row or a request, for messages, without the secrets of a URL.

    Its row is named too where the source is a URL with something to hide, which may tell two sources apart.
    """
    if isinstance(source, bytes):
        return f"<{len(source)} bytes>"
    if not isinstance(source, str):
        return source.name
    shown = show_name(source)
    return shown if row is None or shown == source else f"{shown} (row {row})"


@dataclass(frozen=True, slots=True, init=False)
class ImageSequence:
    """Picture files as the frames of one video; can be used wherever a path can. Immutable, hashable, picklable.

    A folder gives the pictures directly in it, chosen by file ending, in natural order: digits in names compare as
    numbers (``img9.png`` before ``img10.png``), everything else compares as bytes. A list keeps its order. The folder
    is listed when the sequence is opened, not here; a change after indexing is StaleSource. All pictures must have the
    same displayed size. The first picture of an animated GIF, WebP or PNG is its frame.

    Example: ``VideoDecoder(ImageSequence("frames/", fps=25))``

    Attributes:
        folder: Absolute path, or None for an explicit list.
        paths: Absolute paths of an explicit list, or None for a folder.
        fps: Frames per second, as an exact fraction (29.97 is 2997/100); None if ``timestamps`` are given.
        timestamps: Time of each frame in seconds, strictly increasing; None if ``fps`` is given.
    """

    folder: str | None
    paths: tuple[str, ...] | None
    fps: Fraction | None
    timestamps: tuple[float, ...] | None

    def __init__(
        self,
        folder_or_paths: StrPath | Sequence[StrPath],
        *,
        fps: float | Fraction | None = None,
        timestamps: Sequence[float] | None = None,
    ) -> None:
        """Set the files and their times; no file is opened.

        Args:
            folder_or_paths: A folder, or the files in the order of the frames.
            fps: Frames per second; give either this or ``timestamps``.
            timestamps: Time of each frame in seconds, one per file.

        Raises:
            UsageError: Both or neither of ``fps`` and ``timestamps`` are given, times do not increase, or there is no
                file.
        """
        if (fps is None) == (timestamps is None):
            given = "neither" if fps is None else "both"
            raise UsageError(f"ImageSequence: expected either fps= or timestamps=, got {given}")
        folder: str | None = None
        paths: tuple[str, ...] | None = None
        if isinstance(folder_or_paths, (str, os.PathLike)):
            folder = _parse_path(folder_or_paths)
        elif isinstance(folder_or_paths, (bytes, bytearray)) or not isinstance(folder_or_paths, Sequence):
            raise expected("folder_or_paths", "a folder, or a list of paths", folder_or_paths)
        elif not folder_or_paths:
            raise UsageError("folder_or_paths: expected at least one file, got an empty list")
        else:
            paths = tuple(_parse_path(path) for path in folder_or_paths)
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "paths", paths)
        object.__setattr__(self, "fps", None if fps is None else parse_rate(fps))
        object.__setattr__(self, "timestamps", None if timestamps is None else _parse_seconds(timestamps))
        if timestamps is not None:
            self.times(len(self.timestamps or ()) if paths is None else len(paths))

    def __hash__(self) -> int:
        # Needed for every clip: of a list of thousands of paths, only length and ends are hashed.
        ends = None if self.paths is None else (len(self.paths), self.paths[0], self.paths[-1])
        return hash((self.folder, ends, self.fps, len(self.timestamps or ())))

    def __repr__(self) -> str:
        times = f"fps={self.fps}" if self.timestamps is None else f"{len(self.timestamps)} timestamps"
        return f"ImageSequence({self.name!r}, {times})"

    @property
    def name(self) -> str:
        """The folder, or the first file and the number of others."""
        if self.folder is not None or not self.paths:
            return self.folder or ""
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    @property
    def digest(self) -> str:
        """Hash of the arguments, not of the files."""
        return xxhash.xxh3_64_hexdigest(repr((self.folder, self.paths, self.fps, self.timestamps)).encode())

    def as_media_source(self) -> MediaSource:
        """View it as `MediaSource.of` does."""
        return SequenceSource("sequence", self.name, path=self.folder or "", sequence=self)

    def times(self, count: int) -> SequenceTimes:
        """Time each of ``count`` frames.

        Raises:
            UsageError: There are not as many timestamps as files, or two lie closer together than can be told apart.
        """
        if self.fps is not None:
            numbers = np.arange(count, dtype=np.int64)
            return SequenceTimes(numbers, np.ones(count, dtype=np.int64), 1 / self.fps)
        seconds = self.timestamps or ()
        if len(seconds) != count:
            raise UsageError(f"{self.name}: {len(seconds)} timestamps for {count} files: give one timestamp per file")
        pts, base = _convert_to_ticks(seconds)
        if not (np.diff(pts) > 0).all():
            at = int(np.flatnonzero(np.diff(pts) <= 0)[0])
            raise UsageError(
                f"{self.name}: timestamps must rise by at least {float(base)} s from one to the next, but number {at} "
                f"is {seconds[at]!r} and number {at + 1} is {seconds[at + 1]!r}"
            )
        return SequenceTimes(pts, np.zeros(count, dtype=np.int64), base)


@dataclass(frozen=True, slots=True, eq=False)
class SequenceTimes:
    """When the frames of a sequence are shown."""

    pts: IntArray  # in units of ``time_base``, int64 [N]
    duration: IntArray  # likewise; 0 where unknown
    # Seconds in a tick: that of the rate, or 1 ns; for times more than 52 days from 0, the unit in the last digit of
    # the furthest as float64.
    time_base: Fraction


def parse_rate(fps: float | Fraction, name: str = "fps") -> Fraction:
    """Convert frames a second to the fraction that is meant: 30000/1001 as float is 30000/1001, 29.97 is 2997/100."""
    if isinstance(fps, bool):
        raise expected(name, "a number above 0", fps)
    try:
        rate = Fraction(fps) if not isinstance(fps, (str, bool)) else Fraction(0)
    except (TypeError, ValueError, OverflowError) as error:
        raise expected(name, "a number above 0", fps) from error
    if isinstance(fps, float):
        common = rate.limit_denominator(_COMMON_DENOMINATOR)
        rate = common if float(common) == fps else Fraction(repr(float(fps)))
    if not rate > 0 or max(rate.numerator, rate.denominator) > _MAX_TICKS_A_SECOND:
        raise expected(name, "a number above 0", fps)
    return rate


@dataclass(frozen=True, eq=False)
class SequenceSource(MediaSource):
    """A sequence as a source. It has no bytes of its own: its files are read one by one."""

    sequence: ImageSequence = field(kw_only=True)

    def files(self) -> SequenceFiles:
        """List the files, or return the process's earlier listing if no file came or went since."""
        listed = _LISTED.value.get(self.sequence)
        if listed is None:
            sequence = self.sequence
            listed = list_folder(sequence.folder) if sequence.folder is not None else stat_files(sequence.paths or ())
            if not len(listed):
                raise EmptyVideo(f"{self.name}: this folder has no pictures (files such as img1.png)", source=self.name)
            _LISTED.value.put(self.sequence, listed)
        return listed

    def stat(self) -> SourceStat:
        """Sum of the files' bytes, and a time that changes with any of them."""
        return self.files().stat

    def fingerprint(self) -> str:
        """Hash names, sizes, heads and tails of all files."""
        return self.files().fingerprint()

    def identity(self) -> SourceIdentity:
        """Identify the files as they are now."""
        self.forget()
        files = self.files()
        return SourceIdentity(files.stat.bytes, files.stat.mtime_ns, files.fingerprint())

    def _compare_identity(self, indexed: SourceIdentity | None) -> Hashable:
        # New, removed and renamed files are noticed here; a file that was written again is noticed when it is read.
        try:
            files = self.files()
        except MediaError as error:
            if indexed is None:
                raise
            raise self._make_stale_error(str(error)) from error
        stamp = (self.sequence, files.stat)
        if indexed is None:
            return stamp
        accepted = (stamp, indexed.fingerprint)
        is_same = files.stat == indexed.stat or accepted in _ACCEPTED
        if not is_same and files.stat.bytes == indexed.bytes and files.fingerprint() == indexed.fingerprint:
            is_same = True
            _ACCEPTED.add(accepted)
        if is_same:
            _VERIFIED.value.put(self.sequence, files)
            return stamp
        verified = _VERIFIED.value.peek(self.sequence)
        change = None if verified is None else files.describe_change(verified)
        sizes = f"then {indexed.bytes} bytes, now {files.stat.bytes} in {len(files)} files"
        raise self._make_stale_error(change or sizes)

    def read_file(self, number: int, indexed: SourceIdentity | None) -> bytes:
        """Read a file; `StaleSource` if it, or another file of the sequence, is not as it was indexed."""
        self.check_identity(indexed)
        files = self.files()
        data = self._read(files, number)
        if data is None:
            # Perhaps only its time changed: a new listing accepts the same bytes under a new time.
            self.forget()
            self.check_identity(indexed)
            data = self._read(self.files(), number)
        if data is None:
            raise self._make_stale_error(f"{files.paths[number]} changes while it is read")
        return data

    def reader(self, indexed: SourceIdentity | None = None) -> ByteReader:
        """Raise UsageError: a sequence has no bytes of its own."""
        raise UsageError(f"{self.name}: an image sequence has no bytes of its own: read the files")

    def forget(self) -> None:
        """Drop the listing, so that the next call of `files` makes a new one."""
        _LISTED.value.drop(self.sequence)

    def _read(self, files: SequenceFiles, number: int) -> bytes | None:
        if number >= len(files):
            raise self._make_stale_error(f"it has {len(files)} files, and none is number {number}")
        return files.read(number)

    def _make_stale_error(self, why: str) -> StaleSource:
        message = f"{self.name}: the image sequence has changed since it was indexed ({why}): scan or index it again"
        return StaleSource(message, source=self.name, stage="open")


class _Listings:
    """Least recently used cache of folder listings, bounded by their files."""

    def __init__(self, max_files: int) -> None:
        self._lock = RLock()
        self._listings = Lru[ImageSequence, SequenceFiles](max_files, len, min_count=1)

    def peek(self, sequence: ImageSequence) -> SequenceFiles | None:
        with self._lock:
            return self._listings.get(sequence)

    def get(self, sequence: ImageSequence) -> SequenceFiles | None:
        """Return a listing if its folder has not changed since."""
        listed = self.peek(sequence)
        if listed is None:
            return None
        if sequence.folder is not None:
            try:
                is_current = stamp_folder(sequence.folder) == listed.folder
            except OSError:
                is_current = False
            if not is_current:
                return None
        return listed

    def put(self, sequence: ImageSequence, files: SequenceFiles) -> None:
        with self._lock:
            self._listings.put(sequence, files)

    def drop(self, sequence: ImageSequence) -> None:
        with self._lock:
            self._listings.pop(sequence)


_MAX_LISTED_FILES = 2**17
"""Files of all listings that a process keeps, at about 200 bytes a file."""
_LISTED = PerProcess(partial(_Listings, _MAX_LISTED_FILES))
_VERIFIED = PerProcess(partial(_Listings, _MAX_LISTED_FILES))
"""Listings that agreed with the index last, so that an error can name the file that changed."""
_ACCEPTED: set[tuple[Hashable, str]] = set()


def _parse_path(path: object) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise expected("folder_or_paths", "a folder, or a list of paths", path)
    name = expand_home(os.fsdecode(path))
    if not name or "\0" in name or "://" in name:
        raise expected("folder_or_paths", "a path", name)
    return os.path.abspath(name)


def _parse_seconds(timestamps: Sequence[float]) -> tuple[float, ...]:
    try:
        seconds = tuple(float(time) for time in timestamps)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"timestamps: expected numbers of seconds: {error}") from error
    if not seconds or not all(isfinite(time) for time in seconds) or has_bools(timestamps):
        raise UsageError("timestamps: expected at least one finite number of seconds, and no others")
    return seconds


def _convert_to_ticks(seconds: Sequence[float]) -> tuple[IntArray, Fraction]:
    furthest = max(abs(Fraction(time)) for time in seconds)
    if furthest >= _MOST_SECONDS:
        raise UsageError(
            f"timestamps: expected seconds from -{_MOST_SECONDS} to {_MOST_SECONDS}, got {float(furthest)!r}"
        )
    # Beyond that, float64 itself is coarser: a tick is then one unit in the last digit.
    is_near = furthest * _NANOSECONDS < _EXACT_TICKS
    a_second = _NANOSECONDS if is_near else round(1 / ulp(float(furthest)))
    return np.array([round(Fraction(time) * a_second) for time in seconds], dtype=np.int64), Fraction(1, a_second)
