"""Sections about sizes, formats, labels, times, GOP lengths and colour tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._units import format_share
from framefeed.catalog import BUILT_FROM_IN_WORDS, count_built_from
from framefeed.index import TIMES_FROM_IN_WORDS
from framefeed.media import MATRICES, PRIMARIES, TRANSFERS
from framefeed.report._bars import (
    ASPECT,
    DURATION,
    HALF_OCTAVES,
    MEGAPIXELS,
    ONE_TWO_FIVE,
    PIXELS,
    RATES,
    Axis,
    Bar,
    draw_bars,
    draw_counts,
    draw_histogram,
    list_bars,
)
from framefeed.report._columns import Columns, Counts, compute_gop_lengths, count_by_name, format_count
from framefeed.report._heat_map import count_in_cells, draw_heat_map
from framefeed.report._markup import Node, Section, make_grid

MAX_SIZES = 8
# Pixels; larger sides, which no scan accepts, count as unknown: the catalog is damaged.
MAX_SIDE = 2**24
MAX_LABELS = 20
MAX_RATES = 8


def make_sizes_section(columns: Columns) -> Section | None:
    """Show resolutions and aspect ratios, as displayed."""
    widths, heights = (columns.numbers(name, columns.usable) for name in ("width", "height"))
    known = (np.minimum(widths, heights) >= 1) & (np.maximum(widths, heights) <= MAX_SIDE)
    if not known.any():
        return None
    widths, heights = (np.where(known, sides, np.nan) for sides in (widths, heights))
    sides = [
        format_share(int(np.count_nonzero(each)), int(np.count_nonzero(known)), decimals=1)
        for each in (widths > heights, widths < heights, widths == heights)
    ]
    shapes = "{} landscape, {} portrait, {} square.".format(*sides)
    heat_map = draw_heat_map("Width and height", count_in_cells(widths[known], heights[known]))
    sizes = draw_bars("Most frequent sizes", count_sizes(widths, heights, MAX_SIZES), unit="width × height")
    area = draw_histogram("Area", widths * heights / 1e6, MEGAPIXELS)
    aspect = draw_histogram("Aspect ratio", widths / heights, ASPECT)
    pair = (draw_histogram("Width", widths, PIXELS), draw_histogram("Height", heights, PIXELS))
    stacks = (make_grid(*figures, class_="stack") for figures in ((heat_map, area), (sizes, aspect)))
    return Section(
        "sizes",
        "Sizes",
        f"{shapes} Sizes are as displayed, after rotation.",
        make_grid(*stacks, class_="pair"),
        make_grid(*pair, class_="pair"),
    )


def count_sizes(widths: FloatArray, heights: FloatArray, limit: int) -> list[Bar]:
    """Count the files of the most frequent sizes, and all others together; NaN is unknown."""
    known = np.isfinite(widths)
    packed = widths[known].astype(np.int64) << 32 | heights[known].astype(np.int64)
    values, counts = np.unique(packed, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    names = [f"{size >> 32}×{size & 0xFFFFFFFF}" for size in values[order[:limit]].tolist()]
    return list_bars(names, counts[order].tolist(), limit, int(np.count_nonzero(~known)), "other sizes")


def make_formats_section(columns: Columns) -> Section | None:
    """Count codecs, containers, pixel formats and rotations."""
    rows = columns.usable
    if not len(rows):
        return None
    # libav joins the names of a container to one word, which cannot be wrapped.
    joined = columns.counts("container", rows)
    containers = Counts(tuple(name.replace(",", ", ") for name in joined.names), joined.counts, joined.unknown)
    note = "Degrees counter-clockwise, applied for display."
    grid = make_grid(
        draw_counts("Codec", columns.counts("codec", rows)),
        draw_counts("Container", containers),
        draw_counts("Pixel format", columns.counts("pixel_format", rows)),
        draw_counts("Rotation", _count_rotations(columns, rows), note=note),
        class_="grid lists",
    )
    return Section("formats", "Formats", grid)


def _count_rotations(columns: Columns, rows: IntArray) -> Counts:
    rotation = np.nan_to_num(columns.numbers("rotation", rows), nan=-1).astype(np.int64)
    mirrored = np.nan_to_num(columns.numbers("mirrored", rows)).astype(np.int64)
    values, counts = np.unique(rotation * 2 + mirrored, return_counts=True)
    names: list[str | None] = []
    for value in values.tolist():
        degrees, is_mirrored = divmod(value, 2)
        shown = f"{degrees}°, mirrored" if is_mirrored else f"{degrees}°" if degrees else "none"
        names.append(None if degrees < 0 else shown)
    return count_by_name(names, counts.tolist())


def make_labels_section(columns: Columns) -> Section | None:
    """Count the rows of each label."""
    classes = [str(label) for label in columns.catalog.classes]
    if not classes:
        return None
    sizes, without = columns.label_sizes
    counts = count_by_name([*classes, None], [*sizes.tolist(), without])
    least, middle, most = (format_count(float(each)) for each in np.quantile(sizes, [0, 0.5, 1]))
    text = f"{format_count(len(classes))} labels. Rows of a label: least {least}, median {middle}, most {most}."
    return Section("labels", "Labels", text, draw_counts("Most frequent labels", counts, limit=MAX_LABELS))


TIMELESS = "Without times, clips can be chosen by frame number only: scan with --assume-fps to set their frame rate."
VARIABLE = "Variable: the times between frames differ by more than one tick of the time base."
# Names of frame rates; those of NTSC are 1000/1001 of whole ones.
NOMINAL_RATES = {
    **{
        float(rate): str(rate)
        for rate in (1, 2, 3, 5, 6, 8, 10, 12, 15, 16, 18, 20, 24, 25, 30, 48, 50, 60, 90, 100, 120, 144, 240)
    },
    12.5: "12.5",
    **{rate * 1000 / 1001: f"{rate * 1000 / 1001:.3f}".rstrip("0") for rate in (15, 24, 30, 48, 60, 120, 240)},
}
# Relative difference of rates that count as equal; 24 and 23.976 differ by 0.001.
SAME_RATE = 0.0003


def make_time_section(columns: Columns) -> Section | None:
    """Show durations, frames, frame rates and bit rates of the videos."""
    rows = columns.videos
    if not len(rows):
        return None
    seconds, frames, rates = (columns.numbers(name, rows) for name in ("duration_seconds", "num_frames", "average_fps"))
    bits = columns.numbers("bytes", rows) * 8 / np.where(seconds > 0, seconds, np.nan) / 1e6
    text = "This catalog has no frame indexes: numbers of frames, durations and frame rates come from headers."
    lead = None if columns.catalog.has_frame_indexes else text
    variable = columns.numbers("is_variable_frame_rate", rows)
    kinds = [int(np.count_nonzero(variable == 0)), int(np.count_nonzero(variable == 1))]
    rate_kinds = count_by_name(["constant", "variable", None], [*kinds, len(rows) - sum(kinds)])
    figures = (
        draw_histogram("Duration", seconds, DURATION),
        draw_histogram("Frames", frames, Axis("frames of a video", HALF_OCTAVES, format_count, is_whole=True)),
        draw_histogram("Frame rate", rates, Axis("frames per second", RATES)),
        draw_counts("Nominal frame rates", count_nominal_rates(rates), limit=MAX_RATES, unit="frames per second"),
        draw_counts("Constant or variable", rate_kinds, note=VARIABLE),
        *_make_origin_lists(columns, rows),
        draw_histogram("Bit rate", bits, Axis("megabits per second, whole file", ONE_TWO_FIVE)),
    )
    return Section("time", "Time", lead, make_grid(*figures))


def count_nominal_rates(rates: FloatArray) -> Counts:
    """Count the videos of each nominal frame rate, and all others together."""
    known = rates[np.isfinite(rates) & (rates > 0)]
    nominal = np.array(sorted(NOMINAL_RATES))
    names = [NOMINAL_RATES[rate] for rate in nominal.tolist()]
    after = np.clip(np.searchsorted(nominal, known), 1, len(nominal) - 1)
    nearest = after - (known - nominal[after - 1] < nominal[after] - known)
    is_nominal = np.abs(known - nominal[nearest]) <= SAME_RATE * nominal[nearest]
    counts = np.bincount(nearest[is_nominal], minlength=len(names)).tolist()
    others = len(known) - sum(counts)
    return count_by_name([*names, "other", None], [*counts, others, len(rates) - len(known)])


def _make_origin_lists(columns: Columns, rows: IntArray) -> list[Node]:
    """List the origins of times, the best first, and of frames; a catalog of headers has neither."""
    lists = []
    values = columns.counts("times_from", rows)
    counts = dict(zip(values.names, values.counts, strict=True))
    tiers = [tier for tier in TIMES_FROM_IN_WORDS if tier in counts]
    if tiers:
        names = tuple(f"{tier} ({TIMES_FROM_IN_WORDS[tier]})" for tier in tiers)
        times = Counts(names, tuple(counts[tier] for tier in tiers), values.unknown)
        lists.append(draw_counts("Where times come from", times, note=TIMELESS if "none" in counts else None))
    built_from = count_built_from(columns.catalog, rows)
    if built_from:
        names = tuple(f"{each} ({BUILT_FROM_IN_WORDS[each]})" for each in built_from)
        frames = Counts(names, tuple(built_from.values()), len(rows) - sum(built_from.values()))
        lists.append(draw_counts("How frames were found", frames))
    return lists


def make_gop_section(columns: Columns) -> Section | None:
    """Show the lengths of groups of pictures."""
    rows = columns.videos
    if not len(rows):
        return None
    lengths = compute_gop_lengths(columns.numbers("num_frames", rows), columns.numbers("num_key_frames", rows))
    known = lengths[np.isfinite(lengths) & (lengths > 0)]
    if not len(known):
        text = "This catalog does not have the positions of key frames: scan with --depth frames to see GOP lengths."
        return Section("gops", "GOP lengths", text)
    kinds = {
        "all key frames": int(np.count_nonzero(known == 1)),
        "2 to 15 frames": int(np.count_nonzero((known > 1) & (known <= 15))),
        "16 to 60 frames": int(np.count_nonzero((known > 15) & (known <= 60))),
        "61 to 250 frames": int(np.count_nonzero((known > 60) & (known <= 250))),
        "longer than 250": int(np.count_nonzero(known > 250)),
    }
    plot = draw_histogram("GOP length", lengths, Axis("frames per key frame, mean of a video", HALF_OCTAVES))
    text = "Frames per key frame, the mean of each video. To read one random frame, about half a GOP is decoded."
    classes = draw_counts("Classes", Counts(tuple(kinds), tuple(kinds.values()), len(lengths) - len(known)))
    seconds = columns.numbers("duration_seconds", rows) / columns.numbers("num_frames", rows) * lengths
    interval_plot = draw_histogram("Time between key frames", seconds, replace(DURATION, unit="mean of a video"))
    return Section("gops", "GOP lengths", text, make_grid(plot, interval_plot, classes))


UNSPECIFIED = "not tagged"

# libav's own numbers; ITU-T H.273 has no such code.
RANGES = {1: "tv (limited)", 2: "pc (full)"}

# By heading: column of the catalog, names of its codes, and the code that means "not tagged".
TAGS: Mapping[str, tuple[str, Mapping[int, str], int]] = {
    "Primaries": ("color_primaries", PRIMARIES, 2),
    "Transfer characteristic": ("color_transfer", TRANSFERS, 2),
    "Matrix": ("color_space", MATRICES, 2),
    "Range": ("color_range", RANGES, 0),
}


def make_colour_section(columns: Columns) -> Section | None:
    """Count the colour tags of the videos."""
    if not len(columns.videos):
        return None
    if not columns.catalog.has_frame_indexes:
        text = "Colour tags are stored with frame indexes, which this catalog does not have: scan with --depth frames."
        return Section("colour", "Colour tags", text)
    text = "Colour tags of the streams (ITU-T H.273). For streams without tags, players guess."
    figures = [draw_counts(heading, counts) for heading, counts in count_tags(columns).items()]
    return Section("colour", "Colour tags", text, make_grid(*figures, class_="grid lists"))


def count_tags(columns: Columns) -> dict[str, Counts]:
    """Count the colour tags of the videos of a catalog with frame indexes, by heading."""
    rows, read = columns.videos, columns.catalog.stream_values
    return {
        heading: count_codes(read(field)[rows], names, unspecified)
        for heading, (field, names, unspecified) in TAGS.items()
    }


def count_codes(codes: IntArray, names: Mapping[int, str], unspecified: int) -> Counts:
    """Count codes by name; a code without a name is written as a number, and -1 is unknown."""
    values, counts = np.unique(codes, return_counts=True)
    known = {-1: None, unspecified: UNSPECIFIED, **names}
    return count_by_name([known.get(code, f"code {code}") for code in values.tolist()], counts.tolist())
