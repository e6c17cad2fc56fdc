from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.report._bars import (
    ASPECT,
    ASPECTS,
    DURATION,
    MAX_BINS,
    MEGAPIXELS,
    PIXELS,
    RATES,
    Axis,
    Bar,
    choose_edges,
    count_in_bins,
    draw_bars,
    draw_counts,
    draw_histogram,
)
from framefeed.report._columns import Counts
from framefeed.report._sections import count_sizes
from tests.report.made import HOSTILE, Page, read_bars

FRAME_RATE = Axis("frames per second", RATES)
AXES = (ASPECT, PIXELS, MEGAPIXELS, DURATION, FRAME_RATE)
positive = st.lists(st.floats(1e-9, 1e18), min_size=1, max_size=40).map(np.array)
anything = st.lists(st.floats(), max_size=40).map(lambda values: np.array(values, dtype=np.float64))
sides = st.lists(st.tuples(st.integers(1, 2**24), st.integers(1, 2**24)), min_size=1, max_size=60)


@given(positive, st.sampled_from(AXES))
def test_no_value_is_lost_and_none_is_counted_twice(values: np.ndarray, axis: Axis) -> None:
    edges = choose_edges(axis.edges, values)
    inside = [np.count_nonzero((values >= low) & (values < high)) for low, high in pairwise(edges)]
    below, above = np.count_nonzero(values < edges[0]), np.count_nonzero(values >= edges[-1])
    bars = count_in_bins(values, axis)
    assert [bar.amount for bar in bars if not bar.is_rest] == inside
    assert [bar.amount for bar in bars if bar.is_rest] == [each for each in (below, above) if each]
    assert sum(bar.amount for bar in bars) == len(values)


@given(positive, st.sampled_from(AXES))
def test_only_values_beyond_all_edges_are_outside_of_the_bins(values: np.ndarray, axis: Axis) -> None:
    edges = choose_edges(axis.edges, values)
    assert set(edges) <= set(axis.edges)
    assert np.all(np.diff(edges) > 0)
    assert len(edges) - 1 <= MAX_BINS
    assert np.array_equal(values < edges[0], values < axis.edges[0])
    assert np.array_equal(values >= edges[-1], values >= axis.edges[-1])


@given(anything, st.sampled_from(AXES))
def test_each_file_is_in_one_bar_of_a_histogram(values: np.ndarray, axis: Axis) -> None:
    bars = read_bars(str(draw_histogram("T", values, axis)))
    assert sum(bars.get("T", {}).values()) == len(values)
    unknown = int(np.count_nonzero(~(np.isfinite(values) & (values > 0))))
    assert bars.get("T", {}).get("unknown", 0) == unknown


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_bars_are_as_long_as_their_amounts(amounts: list[int]) -> None:
    text = str(draw_bars("T", [Bar(f"b{number}", amount) for number, amount in enumerate(amounts)]))
    assert list(read_bars(text).get("T", {}).values()) == amounts
    lengths = [float(each) for each in re.findall(r'<rect class="mark" width="([\d.]+)%"', text)]
    present = [amount for amount in amounts if amount]
    assert lengths == pytest.approx([max(100 * each / max(present), 0.6) for each in present], abs=0.051)


def test_bars_beyond_the_ends_say_so() -> None:
    axis = Axis("", (1.0, 2.0, 3.0), lambda value: f"{value:g} s")
    assert count_in_bins(np.array([0.5, 1.5, 2.0, 2.5, 3.0, 7.0]), axis) == [
        Bar("less than 1 s", 1, is_rest=True),
        Bar("1 s to 2 s", 1),
        Bar("2 s to 3 s", 2),
        Bar("3 s or more", 2, is_rest=True),
    ]


def test_bins_of_whole_numbers_are_named_by_their_last_one() -> None:
    assert [bar.label for bar in count_in_bins(np.array([2.0, 11.0]), PIXELS)] == [
        "2", "3", "4 to 5", "6 to 7", "8 to 11"]  # fmt: skip


def test_named_values_are_named_at_their_bins() -> None:
    labels = [bar.label for bar in count_in_bins(np.array([4 / 3, 16 / 9]), ASPECT)]
    assert [label for label in labels if "(" in label] == [
        "1.3 to 1.37 (4:3)", "1.46 to 1.54 (3:2)", "1.73 to 1.83 (16:9)"]  # fmt: skip


@pytest.mark.parametrize(("width", "height"), [(1, 1), (5, 4), (4, 3), (3, 2), (16, 9), (21, 9), (9, 16), (3, 4)])
def test_common_aspect_ratios_lie_well_inside_of_their_bins(width: int, height: int) -> None:
    aspect = width / height
    edges = np.array(ASPECTS)
    position = np.searchsorted(edges, aspect) - 1
    inside = np.log(aspect / edges[position]) / np.log(edges[position + 1] / edges[position])
    assert 0.1 < inside < 0.9


@pytest.mark.parametrize(
    ("axis", "values"), [(PIXELS, [240, 360, 480, 720, 1080, 2160]), (FRAME_RATE, [24000 / 1001, 30000 / 1001, 30, 60])]
)
def test_common_values_have_different_bins(axis: Axis, values: list[float]) -> None:
    assert max(bar.amount for bar in count_in_bins(np.array(values, dtype=np.float64), axis)) == 1


def test_values_after_the_limit_are_one_bar_and_unknown_ones_another() -> None:
    text = str(draw_counts("T", Counts(("a", "b", "c"), (5, 3, 1), 2), limit=1))
    assert read_bars(text) == {"T": {"a": 5, "2 more": 4, "unknown": 2}}
    assert text.count("mark rest") == 2
    assert "nothing to count" in str(draw_counts("T", Counts((), ())))


@pytest.mark.parametrize("name", HOSTILE)
def test_S13_hostile_labels_are_text(name: str) -> None:
    shown = Page(str(draw_bars(name, [Bar(name, 1)], unit=name, note=name)))
    assert {tag for tag, _ in shown.tags} == {"figure", "h3", "span", "ul", "li", "bdi", "svg", "rect", "p"}
    assert all(part.isprintable() for part in Page(str(draw_bars("T", [Bar(name, 1)]))).texts)


@given(sides)
def test_distinct_sizes_are_those_of_a_dictionary(pairs: list[tuple[int, int]]) -> None:
    widths, heights = np.array([*pairs, (np.nan, np.nan)], dtype=np.float64).T
    expected = {f"{width}×{height}": pairs.count((width, height)) for width, height in pairs}
    bars = count_sizes(widths, heights, len(pairs))
    assert {bar.label: bar.amount for bar in bars} == expected | {"unknown": 1}
    few = count_sizes(widths, heights, 2)
    assert sum(bar.amount for bar in few) == len(widths)
    listed = [bar.amount for bar in few if not bar.is_rest]
    assert listed == sorted(expected.values(), reverse=True)[:2]
