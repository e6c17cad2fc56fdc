"""Check the rows of a catalog that are planned, and find what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed.catalog import Catalog, explain_missing_frames, list_unindexed_rows
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import NO_TIMES, FrameIndex, Timeline
from framefeed.media import source_name as media_name
from framefeed.plan._options import ClipOptions
from framefeed.plan._rules import ClipRule, open_window
from framefeed.request import PictureRule, RandomResizedCrop, Size, explain_small_proxy

ROWS_AT_ONCE = 65_536
"""Rows whose shapes are compared at once, 0.5 MB for each column."""


class Excluded(NamedTuple):
    """A row that is not planned: path or name, and type and message of the error."""

    source: str
    error: str


def list_excluded(catalog: Catalog, left_out: Sequence[Excluded]) -> list[Excluded]:
    """List the rows that are not planned: those that failed, those without frames or an index, and those left out."""
    failed = [Excluded(source, f"{kind}: {error}") for source, kind, error in catalog.failures]
    if len(failed) + len(catalog.usable_rows) < len(catalog):
        known = {source for source, _ in failed}
        unusable = np.setdiff1d(np.arange(len(catalog)), catalog.usable_rows)
        names = (describe_source(catalog, row) for row in unusable.tolist())
        failed += [Excluded(name, "EmptyVideo: it has no frames") for name in names if name not in known]
    unindexed = list_unindexed_rows(catalog).tolist()
    reason = f"UsageError: {explain_missing_frames(catalog)}"
    failed += [Excluded(describe_source(catalog, row), reason) for row in unindexed]
    return failed + list(left_out)


CHANGING_SIZE_REASON = (
    "FormatChanged: the picture size changes mid-stream: give size=(height, width), without a crop, to resize all "
    "pictures to one size (on the command line: --size HEIGHTxWIDTH)"
)
NO_TIMES_REASON = f"TimeUnavailable: {NO_TIMES}"
_JSON_LABEL = "json.label"
"""The column of the field ``label`` of JSON beside media in archives: `label` itself is that of ``.cls``."""


def check_targets(catalog: Catalog, name: str, rows: IntArray) -> None:
    """Raise UsageError unless all of some rows have a value in a column of training targets."""
    missing = catalog.rows_without(name, rows)
    if not len(missing):
        return
    if name != "label":
        advice = f"leave them out with catalog.filter(pyarrow.compute.field({name!r}).is_valid())"
    elif len(missing) == len(rows) and _JSON_LABEL in catalog.table.column_names:
        advice = (
            f'the archives have labels in JSON, the column {_JSON_LABEL!r}: scan again with columns={{"label": '
            f'"{_JSON_LABEL}"}} (--columns label={_JSON_LABEL}); or plan without the column'
        )
    elif len(missing) == len(rows):
        advice = (
            "give labels to scan, with label_from='parent' if each class has its own folder, or with "
            "columns={'label': ...} for a list that has them; or plan without the column"
        )
    else:
        advice = (
            "leave them out with catalog.filter(pyarrow.compute.field('label').is_valid()), or plan without the column"
        )
    rows_of = "the only row" if len(rows) == 1 else f"each of {len(rows)} rows"
    count = "none" if len(missing) == len(rows) else f"only {len(rows) - len(missing)}"
    raise UsageError(
        f"expected a value of the column {name!r} in {rows_of}, found {count} (missing in "
        f"{describe_source(catalog, int(missing[0]))}): {advice}"
    )


def describe_source(catalog: Catalog, row: int) -> str:
    """Name a row's source for messages."""
    source = catalog.source(row)
    return f"<{len(source)} bytes, row {row}>" if isinstance(source, bytes) else media_name(source, row)


def list_rows(catalog: Catalog, rows: IntArray, reason: str) -> tuple[Excluded, ...]:
    """List rows that are left out for one reason."""
    return tuple(Excluded(describe_source(catalog, row), reason) for row in rows.tolist())


def find_failing(
    catalog: Catalog, rule: object, options: ClipOptions, rows: IntArray, windows: Windows | None = None
) -> Iterator[tuple[BoolArray, str]]:
    """Find the rows whose clips fail all, as far as the catalog's columns tell: yield bool [V], of rows that remain.

    Each is with the reason, type and message of the error. Between two, the caller leaves rows out of ``rows``.
    """
    if not options.pictures.takes_any_size:
        changes_size = catalog.changes_size[rows]
        yield changes_size, CHANGING_SIZE_REASON
        rows = rows[~changes_size]
    needs_times = bool(getattr(rule, "needs_times", False))
    if needs_times or windows is not None:
        lacks_times = catalog.lacks_times[rows]
        yield lacks_times if windows is None or needs_times else lacks_times & windows.has_bounds[rows], NO_TIMES_REASON


def find_common_picture(catalog: Catalog, pictures: PictureRule, rows: IntArray, unequal: bool = False) -> Size | None:
    """Find the (height, width) of the delivered pictures of some rows; None if there are none, or they may differ.

    With ``unequal`` they may, unless they are resized to one.
    """
    if not isinstance(pictures.crop, RandomResizedCrop) and (reason := explain_small_proxies(catalog, pictures, rows)):
        raise UsageError(reason)
    distinct = _find_first_of_each_shape(catalog.heights, catalog.widths, rows)

    def name(at: int) -> str:
        return describe_source(catalog, int(distinct[at]))

    heights, widths = catalog.heights[distinct], catalog.widths[distinct]
    if unequal:
        pictures.check_pictures(heights, widths, name)
        return pictures.common if len(rows) else None
    return pictures.common_picture(heights, widths, name)


def explain_small_proxies(catalog: Catalog, pictures: PictureRule, rows: IntArray) -> str | None:
    """Explain that proxies of some rows are too small for crop and size; None if they are not, or there are none."""
    if catalog.proxy_sizes is None:
        return None
    heights, widths = catalog.proxy_sizes
    rows = rows[heights[rows] > 0]
    shapes = [sides[rows] for sides in (catalog.heights, catalog.widths, heights, widths)]
    # No side has more than 16 bits: a picture of more is refused by `Limits`.
    keys = shapes[0] << 48 | shapes[1] << 32 | shapes[2] << 16 | shapes[3]
    worst, found = 0.0, None
    for at in np.unique(keys, return_index=True)[1].tolist():
        shown, stored = ((int(shapes[side][at]), int(shapes[side + 1][at])) for side in (0, 2))
        enlarging = pictures.find_enlarging(shown, stored)
        if enlarging is None:
            continue
        factor = max(want / max(1, have) for want, have in zip(*enlarging, strict=True))
        if factor > worst:
            worst, found = factor, explain_small_proxy(catalog.shown_name(int(rows[at])), stored, *enlarging)
    return found


def _find_first_of_each_shape(heights: IntArray, widths: IntArray, rows: IntArray) -> IntArray:
    """Find the first row of each height and width, int64 [S], ascending; in parts, which need less memory."""
    part_shapes, part_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        shapes = heights[some] * (1 << 32) + widths[some]
        firsts = np.unique(shapes, return_index=True)[1] if (shapes != shapes[0]).any() else np.zeros(1, np.int64)
        part_shapes.append(shapes[firsts])
        part_rows.append(some[firsts])
    first = np.unique(np.concatenate(part_shapes), return_index=True)[1]
    return np.sort(np.concatenate(part_rows)[first])


def count_frames(catalog: Catalog, rows: IntArray, windows: Windows | None) -> tuple[IntArray, tuple[Excluded, ...]]:
    """Count the frames of each row, int64 [V], within its window if there are windows."""
    if windows is None:
        return catalog.num_frames[rows], ()
    counts, left_out = np.zeros(len(rows), dtype=np.int64), []
    for number, row in enumerate(rows.tolist()):
        try:
            counts[number] = len(windows.timeline(catalog.frame_index(row), row))
        except (FrameNotFound, TimeUnavailable) as error:
            left_out.append(Excluded(describe_source(catalog, row), f"{type(error).__name__}: {error}"))
    return counts, tuple(left_out)


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Start and end of each row's window in seconds, counted from the video's first frame.

    A clip is chosen as if the video had only the frames with start <= t < end: indices and seconds of the rule count
    from the first of them.
    """

    starts: FloatArray  # [R]; NaN if the window begins with the video
    ends: FloatArray  # [R]; NaN if it ends with the video
    rule: ClipRule  # what chooses from them

    @classmethod
    def of(cls, catalog: Catalog, names: tuple[str, str], rule: ClipRule) -> Windows:
        """Read two columns of a catalog, which must hold numbers."""
        start, end = names
        return cls(_read_seconds(catalog, start), _read_seconds(catalog, end), rule)

    @property
    def has_bounds(self) -> BoolArray:
        """Whether each row has a window, bool [R]."""
        has_bounds: BoolArray = ~(np.isnan(self.starts) & np.isnan(self.ends))
        return has_bounds

    def timeline(self, index: FrameIndex, row: int) -> Timeline:
        """Make the timeline of a row's window."""
        return open_window(index, self.rule, float(self.starts[row]), float(self.ends[row]))


def _read_seconds(catalog: Catalog, name: str) -> FloatArray:
    values = catalog.column_values(name)
    if name == "label" or values.dtype.kind not in "iuf":
        raise UsageError(f"within: expected columns of numbers (seconds), but column {name!r} does not hold numbers")
    if values.dtype == np.float64:
        return values
    # Text is read as codes, -1 for null, which look like seconds: the value of one row decides.
    rows = catalog.plannable_rows
    coded = rows[values[rows] != -1]
    sample = coded[0] if len(coded) else next(iter(rows), None)
    value = None if sample is None else catalog[int(sample)].columns.get(name)
    if value is None:
        return np.full(len(values), np.nan)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(
            f"within: expected columns of numbers (seconds), but column {name!r} holds {type(value).__name__}"
        )
    return values.astype(np.float64)


def find_delivered_form(column: Any) -> tuple[tuple[int | None, ...], np.dtype[Any]]:
    """Find shape and type of a column's values in batches: single integers are int64, text is of objects.

    The shape of lists of text is (None,).
    """
    shape = column.shape[1:]
    return shape, np.dtype(np.int64) if not shape and column.dtype.kind in "iu" else column.dtype


def as_delivered(values: Any) -> Any:
    """Convert values of a column to the type that they have in batches; lists of text stay."""
    return values if isinstance(values, list) else values.astype(find_delivered_form(values)[1], copy=False)
