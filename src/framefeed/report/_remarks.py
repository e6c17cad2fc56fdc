"""The first section: what deserves a look, each with the next step; nothing that a sound data set has too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framefeed._units import format_seconds
from framefeed.report._columns import MAX_NAME, Columns, format_count, format_count_of, shorten, show_full_name
from framefeed.report._markup import Node, Section, make_element
from framefeed.report._sections import TIMELESS

MAX_REASONS = 3
SHORT_SECONDS = 1.0
"""Few clips fit into less. A video is also short if it has less than this share of the median length."""
SHORT_SHARE = 0.25
UNEQUAL = 10
"""The most frequent label has so many times the rows of the rarest one."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that deserves a look."""

    anchor: str  # id of the section that shows more of it
    fact: str  # what it is, with its count
    step: str  # what to do about it; code is in backquotes

    def make_node(self) -> Node:
        """Make the item of the list."""
        parts = enumerate(self.step.split("`"))
        step = [make_element("code", part) if number % 2 else part for number, part in parts]
        fact = make_element("a", make_element("bdi", f"{self.fact}."), href=f"#{self.anchor}")
        return make_element("li", fact, " ", *step)


def make_remarks_section(columns: Columns) -> Section:
    """List what deserves a look, or say that nothing stands out."""
    items = [remark.make_node() for remark in list_remarks(columns)]
    if items:
        return Section("remarks", "What to look at", make_element("ul", *items, class_="remarks"))
    text = "Nothing stands out."
    if len(columns.videos) and not columns.catalog.has_frame_indexes:
        text += " Times and damage of frames are not known from headers: scan with --depth frames."
    return Section("remarks", "What to look at", make_element("p", text, class_="remarks"))


def list_remarks(columns: Columns) -> list[Remark]:
    """List what deserves a look, the worst first."""
    if not len(columns.files):
        return [Remark("failed", "The catalog has no files", "Check the folder or list that was scanned.")]
    return [*_remark_on_failures(columns), *_remark_on_videos(columns), *_remark_on_labels(columns)]


def _remark_on_failures(columns: Columns) -> Iterator[Remark]:
    files, failed = len(columns.files), columns.failed
    if len(failed):
        reasons = columns.counts("error_type", failed)
        shown = [f"{name} {format_count(count)}" for name, count in zip(reasons.names, reasons.counts, strict=True)]
        more = [f"{len(shown) - MAX_REASONS} more reasons"] if len(shown) > MAX_REASONS else []
        fact = f"{_share(len(failed), files, 'file')} failed: {', '.join([*shown[:MAX_REASONS], *more])}"
        yield Remark(
            "failed", fact, "Plans leave them out. When some are repaired, scan again: only changed files are opened."
        )
    damaged = columns.numbers("num_damaged_frames", columns.usable)
    if np.any(damaged > 0):
        count = format_count_of(float(np.nansum(damaged)), "damaged frame")
        fact = f"{count} in {format_count_of(int(np.count_nonzero(damaged > 0)), 'file')}"
        step = "A clip of them fails. To leave out these files, and those that were not decoded in full: "
        step += '`catalog.filter(num_damaged_frames=0)`; or plan with `on_damaged="skip"` (black) or `"deliver"`.'
        yield Remark("damaged", fact, step)


def _remark_on_videos(columns: Columns) -> Iterator[Remark]:
    rows = columns.videos
    seconds = columns.numbers("duration_seconds", rows)
    known = seconds[np.isfinite(seconds)]
    if len(known):
        least = float(f"{max(SHORT_SECONDS, SHORT_SHARE * float(np.median(known))):.2g}")
        short = int(np.count_nonzero(known < least))
        if short:
            fact = f"{_share(short, len(rows), 'video')} shorter than {format_seconds(least)}"
            column = 'pyarrow.compute.field("duration_seconds")'
            condition = f"{column} >= {least:g}"
            if len(known) < len(columns.usable):  # pictures, and videos of unknown length, stay
                condition = f"({condition}) | {column}.is_null()"
            step = f"To leave them out: `catalog.filter({condition})`, after `import pyarrow.compute`."
            yield Remark("time", fact, f"A clip that is longer than its video repeats the last frame. {step}")
    times = columns.counts("times_from", rows)
    timeless = dict(zip(times.names, times.counts, strict=True)).get("none", 0)
    if timeless:
        yield Remark("time", f"{_share(timeless, len(rows), 'video')} without times", TIMELESS)
    variable = int(np.count_nonzero(columns.numbers("is_variable_frame_rate", rows) == 1))
    if variable:
        yield Remark(
            "time",
            f"{_share(variable, len(rows), 'video')} with a variable frame rate",
            "Choose frames by time there, as `Rates` and `Dense(fps=...)` do, not by `stride`.",
        )


def _remark_on_labels(columns: Columns) -> Iterator[Remark]:
    sizes, _ = columns.label_sizes
    if not len(sizes):
        return
    # Not failed rows: that of an archive with damage, for one, has no label.
    if without := int(np.count_nonzero(columns.catalog.column_values("label")[columns.usable] < 0)):
        step = 'To leave them out: `catalog.filter(pyarrow.compute.field("label").is_valid())`, after '
        step += "`import pyarrow.compute`."
        yield Remark("labels", f"{_share(without, len(columns.usable), 'row')} without a label", step)
    most, least = int(sizes.argmax()), int(sizes.argmin())
    if sizes[most] >= UNEQUAL * sizes[least]:
        (frequent, rare) = (
            f"{shorten(show_full_name(str(columns.catalog.classes[label])), MAX_NAME // 2)} has "
            f"{format_count_of(int(sizes[label]), 'row')}"
            for label in (most, least)
        )
        step = "A mixture of a plan for each label (`mix_plans`), or a weighted sampler, draws rare ones more often."
        yield Remark("labels", f"Labels are very unequal: {frequent}, {rare}", step)


def _share(count: int, whole: int, noun: str) -> str:
    return f"{format_count(count)} of {format_count_of(whole, noun)}"
