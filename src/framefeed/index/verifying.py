"""Verifying a catalog: are the files still those that were scanned, and do their frames come out as it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from framefeed._checks import check_integer, expected
from framefeed.errors import FramefeedError, StaleSource, UsageError
from framefeed.index.build import index_media
from framefeed.index.catalog_rows import CatalogRows
from framefeed.index.facts import INFO_COLUMNS
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.media.info import MediaInfo
from framefeed.media.probe import probe
from framefeed.media.source import MediaSource, SourceIdentity
from framefeed.parallel.budget import thread_budget
from framefeed.parallel.ordered import ordered_outcomes
from framefeed.parallel.outcome import Err

_IN_FLIGHT_PER_WORKER = 2


class Difference(NamedTuple):
    """A value of a catalog that differs from the file.

    Attributes:
        source: Path or name.
        what: "file", "frames", "time_base", "times_from", "time_shift", "pts", "frame_packet", "damaged", "packets", or
            the name of a column.
        expected: The value in the catalog.
        found: The value of the file.
    """

    source: str
    what: str
    expected: str
    found: str


class Failure(NamedTuple):
    """A source that could not be verified.

    Attributes:
        source: Path or name.
        error: Type and message.
    """

    source: str
    error: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of `Catalog.verify`.

    Attributes:
        checked: Number of rows that were checked.
        differences: Values that differ from the catalog, in the order of rows.
        errors: Sources that could not be read, in the order of rows.
    """

    checked: int
    differences: tuple[Difference, ...]
    errors: tuple[Failure, ...]

    @property
    def ok(self) -> bool:
        """Whether no difference and no error was found."""
        return not self.differences and not self.errors

    def __repr__(self) -> str:
        return f"Verification({self.checked} checked, {len(self.differences)} differences, {len(self.errors)} errors)"


def verified(catalog: CatalogRows, sample: float | None, workers: int | None, seed: int) -> Verification:
    """Verify rows of a catalog; see `Catalog.verify`."""
    rows = sampled(catalog.usable_rows, sample, seed)
    threads = thread_budget().threads if workers is None else check_integer("workers", workers, least=0)
    differences: list[Difference] = []
    errors: list[Failure] = []
    in_flight = _IN_FLIGHT_PER_WORKER * max(1, threads)
    with ordered_outcomes(_checker(catalog), rows.tolist(), workers=threads, max_in_flight=in_flight) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Err):
                raise outcome.error
            differences += [found for found in outcome.value if isinstance(found, Difference)]
            errors += [found for found in outcome.value if isinstance(found, Failure)]
    return Verification(len(rows), tuple(differences), tuple(errors))


def sampled(rows: IntArray, sample: float | None, seed: int) -> IntArray:
    """Draw some of the rows, ascending.

    Args:
        rows: int64 [U].
        sample: How many if it is an int, which share if it is a float, None for all.
        seed: Another seed draws others.
    """
    check_integer("seed", seed, least=0)
    if sample is None:
        return rows
    if isinstance(sample, bool) or not isinstance(sample, (int, float, np.integer)):
        raise expected("sample", "a number of rows, a share of them such as 0.01, or None", sample)
    if isinstance(sample, float):
        if not 0 <= sample <= 1:
            raise UsageError(
                f"sample: expected a share from 0.0 to 1.0, got {sample}; for a number of rows, give an int"
            )
        count = ceil(sample * len(rows))
    else:
        count = int(sample)
    if count < 0:
        raise expected("sample", "a number of rows of at least 0", sample)
    drawn = np.random.default_rng(seed).permutation(len(rows))[:count]
    return rows[np.sort(drawn)]


def _checker(catalog: CatalogRows) -> Callable[[int], list[Difference | Failure]]:
    def check(row: int) -> list[Difference | Failure]:
        name = catalog.shown_name(row)
        try:
            return [Difference(name, *found) for found in _differences(catalog, row)]
        except StaleSource as error:
            return [Difference(name, "file", "the file that was scanned", str(error))]
        except FramefeedError as error:
            return [Failure(name, f"{type(error).__name__}: {error}")]

    return check


def _differences(catalog: CatalogRows, row: int) -> list[tuple[str, str, str]]:
    media = MediaSource.of(catalog.source(row))
    info = catalog.info(row)
    if not catalog.has_frame_indexes:
        media.check_identity(_identity(catalog, row))
        return _of_info(info, probe(media))
    index = catalog.frame_index(row)
    media.check_identity(index.identity)
    assumed = 1 / index.time_base if index.times_from == "assumed" else None
    now, decoded = index_media(media, "full", assume_fps=assumed)
    return [*_of_info(info, now), *_of_frames(index, decoded)]


def _identity(catalog: CatalogRows, row: int) -> SourceIdentity:
    size, mtime_ns = catalog.row_stat(row)
    return SourceIdentity(size, None if mtime_ns < 0 else mtime_ns, catalog.row_fingerprint(row) or "")


def _of_info(expected: MediaInfo | None, found: MediaInfo) -> list[tuple[str, str, str]]:
    pairs = ((name, getattr(expected, name, None), getattr(found, name)) for name in INFO_COLUMNS)
    return [(name, str(before), str(now)) for name, before, now in pairs if before != now]


def _of_frames(expected: FrameIndex, found: FrameIndex) -> list[tuple[str, str, str]]:
    """What differs in the frames that come out, and in where their bytes are; how they were found may differ."""
    if len(expected) != len(found):
        return [("frames", str(len(expected)), str(len(found)))]
    differences = []
    for name in ("time_base", "times_from", "time_shift"):
        before, now = getattr(expected, name), getattr(found, name)
        if before != now:
            differences.append((name, str(before), str(now)))
    columns: list[tuple[str, Any, Any]] = [
        ("pts", expected.pts, found.pts),
        ("frame_packet", expected.frame_packet, found.frame_packet),
    ]
    if expected.num_damaged_frames is not None and found.num_damaged_frames is not None:
        numbers = np.arange(len(found), dtype=np.int64)
        columns.append(("damaged", expected.is_damaged(numbers), found.is_damaged(numbers)))
    if len(expected.packets) != len(found.packets):
        return [*differences, ("packets", str(len(expected.packets)), str(len(found.packets)))]
    for name in ("offset", "size", "pts"):
        columns.append(("packets", getattr(expected.packets, name), getattr(found.packets, name)))
    for what, before, now in columns:
        different = np.flatnonzero(before != now)
        if len(different):
            at = int(different[0])
            rest = f" and {len(different) - 1} more" if len(different) > 1 else ""
            differences.append((what, f"{before[at]} at {at}{rest}", f"{now[at]}"))
    return differences
