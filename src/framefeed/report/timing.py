"""Durations, frame rates and GOP lengths of the videos."""

from __future__ import annotations

import numpy as np

from framefeed.index.known_by import KNOWN_BY_IN_WORDS, count_known_by
from framefeed.index.times import TIMES_IN_WORDS
from framefeed.report import quantities
from framefeed.report.axes import Axis
from framefeed.report.binning import HALF_OCTAVES, ONE_TWO_FIVE, SECONDS, histogram, linear_edges, part_of
from framefeed.report.columns import Columns, Counts, FloatArray, IntArray, counted
from framefeed.report.cost import gop_lengths
from framefeed.report.markup import Node
from framefeed.report.plots import histogram_plot
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

TIMELESS = "Without times, clips can be chosen by frame number only: scan with --assume-fps to set their frame rate."
SHOWN_RATES = 8
VARIABLE = "Variable: the times between frames differ by more than one tick of the time base."
NOMINAL_RATES = {
    **{
        float(rate): str(rate)
        for rate in (1, 2, 3, 5, 6, 8, 10, 12, 15, 16, 18, 20, 24, 25, 30, 48, 50, 60, 90, 100, 120, 144, 240)
    },
    12.5: "12.5",
    **{rate * 1000 / 1001: f"{rate * 1000 / 1001:.3f}".rstrip("0") for rate in (15, 24, 30, 48, 60, 120, 240)},
}
"""Frame rates that have names; NTSC's are 1000/1001 of whole ones."""
SAME_RATE = 0.0003
"""Rates this near are one rate; 24 and 23.976 lie 0.001 apart."""


def time_section(columns: Columns) -> Section | None:
    """Durations, frames, frame rates and bit rates of the videos."""
    rows = columns.videos
    if not len(rows):
        return None
    seconds, frames, rates = (columns.numbers(name, rows) for name in ("duration_seconds", "num_frames", "average_fps"))
    known = _positive(rates)
    bits = columns.numbers("bytes", rows) * 8 / np.where(seconds > 0, seconds, np.nan) / 1e6
    told = "This catalog has no frame indexes: numbers of frames, durations and frame rates come from headers."
    lead = () if columns.catalog.has_frame_indexes else (paragraph(told),)
    frame_axis = Axis("frames of a video", quantities.count, is_whole=True)
    rate_axis = Axis("frames per second", quantities.number)
    figures = (
        _ladder_plot("Duration", seconds, SECONDS, Axis("duration", quantities.seconds)),
        _ladder_plot("Frames", frames, HALF_OCTAVES, frame_axis),
        histogram_plot("Frame rate", histogram(known, linear_edges(known)), rate_axis, len(rows) - len(known)),
        count_list("Nominal frame rates", nominal_rates(rates), limit=SHOWN_RATES),
        count_list("Constant or variable", _rate_kinds(columns, rows), note=VARIABLE),
        *_tiers(columns, rows),
        *_known_by(columns, rows),
        _ladder_plot("Bit rate", bits, ONE_TWO_FIVE, Axis("megabits per second, whole file", quantities.number)),
    )
    return Section("time", "Time", (*lead, grid(*figures)))


def nominal_rates(rates: FloatArray) -> Counts:
    """Count frame rates by the nominal rate that they are; the others together."""
    known = _positive(rates)
    nominal = np.array(sorted(NOMINAL_RATES))
    names = [NOMINAL_RATES[rate] for rate in nominal.tolist()]
    after = np.clip(np.searchsorted(nominal, known), 1, len(nominal) - 1)
    nearest = after - (known - nominal[after - 1] < nominal[after] - known)
    is_nominal = np.abs(known - nominal[nearest]) <= SAME_RATE * nominal[nearest]
    counts = np.bincount(nearest[is_nominal], minlength=len(names)).tolist()
    others = len(known) - sum(counts)
    return counted([*names, "other", None], [*counts, others, len(rates) - len(known)])


def _rate_kinds(columns: Columns, rows: IntArray) -> Counts:
    variable = columns.numbers("is_variable_frame_rate", rows)
    counts = [int(np.count_nonzero(variable == 0)), int(np.count_nonzero(variable == 1))]
    return counted(["constant", "variable", None], [*counts, len(rows) - sum(counts)])


def _tiers(columns: Columns, rows: IntArray) -> tuple[Node, ...]:
    """Where times come from, in the order of the tiers; nothing for a catalog that does not know."""
    found = columns.counts("times_from", rows)
    counts = dict(zip(found.names, found.counts, strict=True))
    tiers = [tier for tier in TIMES_IN_WORDS if tier in counts]
    if not tiers:
        return ()
    names = (f"{tier} ({TIMES_IN_WORDS[tier]})" for tier in tiers)
    shown = Counts(tuple(names), tuple(counts[tier] for tier in tiers), found.unknown)
    return (count_list("Where times come from", shown, note=TIMELESS if "none" in counts else None),)


def _known_by(columns: Columns, rows: IntArray) -> tuple[Node, ...]:
    """How frames are known; nothing for a catalog without frame indexes."""
    counts = count_known_by(columns.catalog, rows)
    if not counts:
        return ()
    names = tuple(f"{each} ({KNOWN_BY_IN_WORDS[each]})" for each in counts)
    return (
        count_list("How frames were found", Counts(names, tuple(counts.values()), len(rows) - sum(counts.values()))),
    )


def gop_section(columns: Columns) -> Section | None:
    """Lengths of groups of pictures."""
    rows = columns.videos
    if not len(rows):
        return None
    lengths = gop_lengths(columns.numbers("num_frames", rows), columns.numbers("num_key_frames", rows))
    known = _positive(lengths)
    if not len(known):
        told = "This catalog does not have the positions of key frames: scan with --depth frames to see GOP lengths."
        return Section("gops", "GOP lengths", (paragraph(told),))
    kinds = {
        "all key frames": int(np.count_nonzero(known == 1)),
        "2 to 15 frames": int(np.count_nonzero((known > 1) & (known <= 15))),
        "16 to 60 frames": int(np.count_nonzero((known > 15) & (known <= 60))),
        "61 to 250 frames": int(np.count_nonzero((known > 60) & (known <= 250))),
        "longer than 250": int(np.count_nonzero(known > 250)),
    }
    plot = _ladder_plot("GOP length", lengths, HALF_OCTAVES, Axis("frames per key frame", quantities.number))
    told = "Frames per key frame, the mean of each video. To read one random frame, about half a GOP is decoded."
    classes = count_list("Classes", Counts(tuple(kinds), tuple(kinds.values()), len(lengths) - len(known)))
    seconds = columns.numbers("duration_seconds", rows) / columns.numbers("num_frames", rows) * lengths
    apart = _ladder_plot("Time between key frames", seconds, SECONDS, Axis("mean of a video", quantities.seconds))
    return Section("gops", "GOP lengths", (paragraph(told), grid(plot, apart, classes)))


def _ladder_plot(heading: str, values: FloatArray, ladder: tuple[float, ...], axis: Axis) -> Node:
    known = _positive(values)
    return histogram_plot(heading, histogram(known, part_of(ladder, known)), axis, len(values) - len(known))


def _positive(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values) & (values > 0)]
