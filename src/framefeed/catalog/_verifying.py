"""Verify the rows of a catalog against their files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from framefeed._checks import check_count_or_share, check_integer
from framefeed._values import MediaInfo
from framefeed.catalog._catalog_rows import CatalogRows
from framefeed.catalog._columns import INFO_COLUMNS
from framefeed.errors import FramefeedError, StaleSource
from framefeed.index import FrameIndex, index_media, probe
from framefeed.media import PROXY, source_name
from framefeed.parallel import SAYS_NOTHING_OF_FILES, Err, ordered_outcomes, thread_budget

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
        sources: Path, URL or name of each row that is in ``differences`` or ``errors``, with all that opens it.
    """

    checked: int
    differences: tuple[Difference, ...]
    errors: tuple[Failure, ...]
    sources: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether no difference and no error was found."""
        return not self.differences and not self.errors

    def __repr__(self) -> str:
        return f"Verification({self.checked} checked, {len(self.differences)} differences, {len(self.errors)} errors)"


def verify_rows(catalog: CatalogRows, sample: float | None, workers: int | None, seed: int) -> Verification:
    """Verify rows of a catalog; see `Catalog.verify`."""
    check_integer("seed", seed, least=0)
    rows = catalog.usable_rows
    if sample is not None:
        check_count_or_share("sample", sample)
        count = ceil(sample * len(rows)) if isinstance(sample, float) else int(sample)
        rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:count])]
    threads = thread_budget().threads if workers is None else check_integer("workers", workers, least=0)
    differences: list[Difference] = []
    errors: list[Failure] = []
    sources = set[str]()
    in_flight = _IN_FLIGHT_PER_WORKER * max(1, threads)
    verify_row = partial(_verify_row, catalog)
    with ordered_outcomes(verify_row, rows.tolist(), workers=threads, max_in_flight=in_flight) as outcomes:
        for row, outcome in zip(rows.tolist(), outcomes, strict=True):
            if isinstance(outcome, Err):
                raise outcome.error
            sources.update([catalog._path_name(row)] if outcome.value else [])
            differences += [each for each in outcome.value if isinstance(each, Difference)]
            errors += [each for each in outcome.value if isinstance(each, Failure)]
    return Verification(len(rows), tuple(differences), tuple(errors), frozenset(sources))


def _verify_row(catalog: CatalogRows, row: int) -> list[Difference | Failure]:
    name = source_name(catalog._path_name(row), row)
    try:
        media = catalog.media_source(row)
        info = catalog.info(row)
        if catalog.has_frame_indexes:
            index = catalog.frame_index(row)
            media.check_identity(index.identity)
            assumed = 1 / index.time_base if index.times_from == "assumed" else None
            now, decoded = index_media(media if media.version != PROXY else media.path, "full", assume_fps=assumed)
            if index.stream.is_proxy:  # whose header and times are its own
                now, decoded = info or now, replace(index, packets=decoded.packets, frame_packet=decoded.frame_packet)
            differences = [*_compare_info(info, now), *_compare_frames(index, decoded)]
        else:
            media.check_identity(catalog._identity(row))
            differences = _compare_info(info, probe(media))
    except StaleSource as error:
        return [Difference(name, "file", "the file that was scanned", str(error))]
    except SAYS_NOTHING_OF_FILES:
        raise
    except FramefeedError as error:
        return [Failure(name, f"{type(error).__name__}: {error}")]
    return [Difference(name, *difference) for difference in differences]


def _compare_info(expected: MediaInfo | None, actual: MediaInfo) -> list[tuple[str, str, str]]:
    pairs = ((name, getattr(expected, name, None), getattr(actual, name)) for name in INFO_COLUMNS)
    return [(name, str(before), str(now)) for name, before, now in pairs if before != now]


def _compare_frames(expected: FrameIndex, actual: FrameIndex) -> list[tuple[str, str, str]]:
    """List the differences of two indexes in frames and packets; ``built_from`` may differ."""
    if len(expected) != len(actual):
        return [("frames", str(len(expected)), str(len(actual)))]
    differences = []
    for name in ("time_base", "times_from", "time_shift"):
        before, now = getattr(expected, name), getattr(actual, name)
        if before != now:
            differences.append((name, str(before), str(now)))
    columns: list[tuple[str, Any, Any]] = [
        ("pts", expected.pts, actual.pts),
        ("frame_packet", expected.frame_packet, actual.frame_packet),
    ]
    if expected.num_damaged_frames is not None and actual.num_damaged_frames is not None:
        numbers = np.arange(len(actual), dtype=np.int64)
        columns.append(("damaged", expected.is_damaged(numbers), actual.is_damaged(numbers)))
    if len(expected.packets) != len(actual.packets):
        return [*differences, ("packets", str(len(expected.packets)), str(len(actual.packets)))]
    for name in ("offset", "size", "pts"):
        columns.append(("packets", getattr(expected.packets, name), getattr(actual.packets, name)))
    for what, before, now in columns:
        different = np.flatnonzero(before != now)
        if len(different):
            position = int(different[0])
            rest = f" and {len(different) - 1} more" if len(different) > 1 else ""
            differences.append((what, f"{before[position]} at {position}{rest}", f"{now[position]}"))
    return differences
