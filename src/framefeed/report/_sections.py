"""Resolutions and aspect ratios.

Codecs, containers, pixel formats, rotation; and labels.

Durations, frame rates and GOP lengths of the videos.

Colour tags of streams by their names.

The range is libav's own number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed.catalog import KNOWN_BY_IN_WORDS, count_known_by
from framefeed.index import TIMES_IN_WORDS
from framefeed.media import MATRICES, PRIMARIES, TRANSFERS
from framefeed.report import _columns
from framefeed.report._columns import (
    ASPECTS,
    HALF_OCTAVES,
    ONE_TWO_FIVE,
    SECONDS,
    Columns,
    Counts,
    Sizes,
    counted,
    density,
    distinct_sizes,
    gop_lengths,
    histogram,
    linear_edges,
    part_of,
)
from framefeed.report._markup import Node, Section, grid, paragraph
from framefeed.report._plots import Axis, aspect_marks, density_plot, histogram_plot
from framefeed.report._tables import count_list

SHOWN_SIZES = 8
MAX_SIDE = 2**24
"""Wider than any file that a scan lets pass; what a damaged catalog says beyond it counts as unknown."""


def sizes_section(columns: Columns) -> Section | None:
    """Resolutions and aspect ratios, as displayed."""
    widths, heights = (columns.numbers(name, columns.usable) for name in ("width", "height"))
    known = (np.minimum(widths, heights) >= 1) & (np.maximum(widths, heights) <= MAX_SIDE)
    unknown = int(np.count_nonzero(~known))
    widths, heights = widths[known], heights[known]
    if not len(widths):
        return None
    sizes = distinct_sizes(widths, heights)
    pixels = Axis("pixels", _columns.count, is_whole=True)
    aspect = histogram(widths / heights, part_of(ASPECTS, widths / heights))
    aspect_plot = histogram_plot(
        "Aspect ratio", aspect, Axis("width : height", _columns.number, aspect_marks()), unknown
    )
    area = widths * heights / 1e6
    return Section(
        "sizes",
        "Sizes",
        (
            paragraph(_shapes(widths, heights) + " Sizes are as displayed, after rotation."),
            grid(
                density_plot("Width and height", density(widths, heights), sizes),
                grid(_common_sizes(sizes), aspect_plot, class_="stack"),
                class_="pair",
            ),
            grid(
                histogram_plot("Width", histogram(widths, part_of(HALF_OCTAVES, widths)), pixels, unknown),
                histogram_plot("Height", histogram(heights, part_of(HALF_OCTAVES, heights)), pixels, unknown),
                histogram_plot(
                    "Area", histogram(area, part_of(ONE_TWO_FIVE, area)), Axis("megapixels", _columns.number), unknown
                ),
            ),
        ),
    )


def _shapes(widths: FloatArray, heights: FloatArray) -> str:
    total = len(widths)
    parts = {
        "landscape": int(np.count_nonzero(widths > heights)),
        "portrait": int(np.count_nonzero(widths < heights)),
        "square": int(np.count_nonzero(widths == heights)),
    }
    return ", ".join(f"{_columns.share(number, total)} {name}" for name, number in parts.items()) + "."


def _common_sizes(sizes: Sizes) -> Node:
    columns = (sizes.widths.tolist(), sizes.heights.tolist(), sizes.counts.tolist())
    names = [f"{width}×{height}" for width, height, _ in zip(*columns, strict=True)][:SHOWN_SIZES]
    shown = sizes.counts[:SHOWN_SIZES].tolist()
    rest = [f"{_columns.count(len(sizes) - SHOWN_SIZES)} other sizes"] if len(sizes) > SHOWN_SIZES else []
    counts = Counts((*names, *rest), (*shown, *([int(sizes.counts[SHOWN_SIZES:].sum())] if rest else [])))
    return count_list("Most frequent sizes", counts, limit=SHOWN_SIZES + 1)


SHOWN_LABELS = 20


def formats_section(columns: Columns) -> Section | None:
    """Codecs, containers, pixel formats, rotation."""
    rows = columns.usable
    if not len(rows):
        return None
    return Section(
        "formats",
        "Formats",
        (
            grid(
                count_list("Codec", columns.counts("codec", rows)),
                count_list("Container", _spaced(columns.counts("container", rows))),
                count_list("Pixel format", columns.counts("pixel_format", rows)),
                count_list(
                    "Rotation", _rotations(columns, rows), note="Degrees counter-clockwise, applied for display."
                ),
                class_="grid lists",
            ),
        ),
    )


def _spaced(counts: Counts) -> Counts:
    """Space out libav's names: it names a container by all of its names in one word, which could not be wrapped."""
    return Counts(tuple(name.replace(",", ", ") for name in counts.names), counts.counts, counts.unknown)


def _rotations(columns: Columns, rows: IntArray) -> Counts:
    rotation = np.nan_to_num(columns.numbers("rotation", rows), nan=-1).astype(np.int64)
    mirrored = np.nan_to_num(columns.numbers("mirrored", rows)).astype(np.int64)
    values, counts = np.unique(rotation * 2 + mirrored, return_counts=True)
    names = [_rotation_name(value // 2, bool(value % 2)) for value in values.tolist()]
    return counted(names, counts.tolist())


def _rotation_name(degrees: int, is_mirrored: bool) -> str | None:
    if degrees < 0:
        return None
    return f"{degrees}°, mirrored" if is_mirrored else f"{degrees}°" if degrees else "none"


def labels_section(columns: Columns) -> Section | None:
    """How many rows each label has."""
    classes = [str(label) for label in columns.catalog.classes]
    if not classes:
        return None
    codes = columns.catalog.column_values("label")
    sizes = np.bincount(codes[codes >= 0], minlength=len(classes))
    counts = counted([*classes, None], [*sizes.tolist(), int(np.count_nonzero(codes < 0))])
    least, middle, most = (_columns.count(float(each)) for each in np.quantile(sizes, [0, 0.5, 1]))
    told = f"{_columns.count(len(classes))} labels. Rows of a label: least {least}, median {middle}, most {most}."
    return Section(
        "labels", "Labels", (paragraph(told), count_list("Most frequent labels", counts, limit=SHOWN_LABELS))
    )


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
    frame_axis = Axis("frames of a video", _columns.count, is_whole=True)
    rate_axis = Axis("frames per second", _columns.number)
    figures = (
        _ladder_plot("Duration", seconds, SECONDS, Axis("duration", _columns.seconds)),
        _ladder_plot("Frames", frames, HALF_OCTAVES, frame_axis),
        histogram_plot("Frame rate", histogram(known, linear_edges(known)), rate_axis, len(rows) - len(known)),
        count_list("Nominal frame rates", nominal_rates(rates), limit=SHOWN_RATES),
        count_list("Constant or variable", _rate_kinds(columns, rows), note=VARIABLE),
        *_tiers(columns, rows),
        *_known_by(columns, rows),
        _ladder_plot("Bit rate", bits, ONE_TWO_FIVE, Axis("megabits per second, whole file", _columns.number)),
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
    plot = _ladder_plot("GOP length", lengths, HALF_OCTAVES, Axis("frames per key frame", _columns.number))
    told = "Frames per key frame, the mean of each video. To read one random frame, about half a GOP is decoded."
    classes = count_list("Classes", Counts(tuple(kinds), tuple(kinds.values()), len(lengths) - len(known)))
    seconds = columns.numbers("duration_seconds", rows) / columns.numbers("num_frames", rows) * lengths
    apart = _ladder_plot("Time between key frames", seconds, SECONDS, Axis("mean of a video", _columns.seconds))
    return Section("gops", "GOP lengths", (paragraph(told), grid(plot, apart, classes)))


def _ladder_plot(heading: str, values: FloatArray, ladder: tuple[float, ...], axis: Axis) -> Node:
    known = _positive(values)
    return histogram_plot(heading, histogram(known, part_of(ladder, known)), axis, len(values) - len(known))


def _positive(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values) & (values > 0)]


UNSPECIFIED = "not tagged"

RANGES = {1: "tv (limited)", 2: "pc (full)"}

TAGS: Mapping[str, tuple[str, Mapping[int, str], int]] = {
    "Primaries": ("color_primaries", PRIMARIES, 2),
    "Transfer characteristic": ("color_transfer", TRANSFERS, 2),
    "Matrix": ("color_space", MATRICES, 2),
    "Range": ("color_range", RANGES, 0),
}
"""What is shown: field of the stream facts, names of its codes, and the code that says nothing."""


def colour_section(columns: Columns) -> Section | None:
    """Colour tags of the videos."""
    if not len(columns.videos):
        return None
    if not columns.catalog.has_frame_indexes:
        told = "Colour tags are stored with frame indexes, which this catalog does not have: scan with --depth frames."
        return Section("colour", "Colour tags", (paragraph(told),))
    told = "Colour tags of the streams (ITU-T H.273). For streams without tags, players guess."
    figures = [count_list(heading, counts) for heading, counts in tag_counts(columns).items()]
    return Section("colour", "Colour tags", (paragraph(told), grid(*figures, class_="grid lists")))


def tag_counts(columns: Columns) -> dict[str, Counts]:
    """Count the colour tags of the videos of a catalog with frame indexes, by heading."""
    rows, read = columns.videos, columns.catalog.stream_values
    return {heading: named(read(field)[rows], names, silent) for heading, (field, names, silent) in TAGS.items()}


def named(codes: IntArray, names: Mapping[int, str], silent: int) -> Counts:
    """Count codes by name; a code that has none is written as a number, and -1 is unknown."""
    values, counts = np.unique(codes, return_counts=True)
    known = {-1: None, silent: UNSPECIFIED, **names}
    return counted([known.get(code, f"code {code}") for code in values.tolist()], counts.tolist())
