from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.report._columns import (
    ASPECTS,
    HALF_OCTAVES,
    MAX_BINS,
    MAX_CELLS,
    ONE_TWO_FIVE,
    SECONDS,
    choose_edges,
    choose_linear_edges,
    choose_step,
    count_sizes,
    make_density,
    make_histogram,
)

LADDERS = (ASPECTS, HALF_OCTAVES, ONE_TWO_FIVE, SECONDS)
positive = st.lists(st.floats(1e-9, 1e18), min_size=0, max_size=40).map(np.array)
sides = st.lists(st.tuples(st.integers(1, 2**24), st.integers(1, 2**24)), min_size=1, max_size=60)


@given(positive, st.sampled_from(LADDERS))
def test_no_value_is_lost_and_none_is_counted_twice(values: np.ndarray, ladder: tuple[float, ...]) -> None:
    counted = make_histogram(values, choose_edges(ladder, values))
    assert counted.total == len(values)
    for low, high, number in zip(counted.edges, counted.edges[1:], counted.counts, strict=False):
        assert number == np.count_nonzero((values >= low) & (values < high))
    assert counted.below == np.count_nonzero(values < counted.edges[0])
    assert counted.above == np.count_nonzero(values >= counted.edges[-1])


@given(positive, st.sampled_from(LADDERS))
def test_only_what_lies_beyond_a_ladder_is_left_out(values: np.ndarray, ladder: tuple[float, ...]) -> None:
    edges = choose_edges(ladder, values)
    counted = make_histogram(values, edges)
    assert set(edges) <= set(ladder)
    assert np.all(np.diff(edges[:-1]) > 0)
    assert len(edges) - 1 <= MAX_BINS + 1
    assert counted.below == np.count_nonzero(values < ladder[0])
    assert counted.above == np.count_nonzero(values >= ladder[-1])


@given(positive)
def test_linear_bins_hold_all_but_the_highest_half_per_cent(values: np.ndarray) -> None:
    edges = choose_linear_edges(values)
    counted = make_histogram(values, edges)
    assert edges[0] == 0
    assert 2 <= len(edges) <= MAX_BINS
    assert counted.total == len(values)
    assert counted.below == 0
    assert counted.above <= 0.005 * len(values) + 1


@given(sides)
def test_a_density_counts_every_file_in_the_cell_that_holds_it(pairs: list[tuple[int, int]]) -> None:
    widths, heights = np.array(pairs, dtype=np.float64).T
    cells = make_density(widths, heights)
    assert cells.counts.sum() == len(pairs)
    assert cells.counts.min() > 0
    assert len(cells.edges) - 1 <= MAX_CELLS
    actual = {(int(c), int(r)): int(n) for c, r, n in zip(cells.columns, cells.rows, cells.counts, strict=True)}
    expected: dict[tuple[int, int], int] = {}
    for width, height in pairs:
        at = tuple(int(np.flatnonzero(cells.edges <= side)[-1]) for side in (width, height))
        assert max(at) < len(cells.edges) - 1
        expected[at] = expected.get(at, 0) + 1  # type: ignore[index,arg-type]
    assert actual == expected


@given(sides)
def test_distinct_sizes_are_those_of_a_dictionary(pairs: list[tuple[int, int]]) -> None:
    widths, heights = np.array(pairs, dtype=np.float64).T
    sizes = count_sizes(widths, heights)
    listed = zip(sizes.widths.tolist(), sizes.heights.tolist(), sizes.counts.tolist(), strict=True)
    assert {(w, h): n for w, h, n in listed} == {pair: pairs.count(pair) for pair in pairs}
    assert np.all(np.diff(sizes.counts) <= 0)


@given(st.floats(1e-6, 1e12))
def test_steps_are_round(least: float) -> None:
    step = choose_step(least)
    assert least * (1 - 1e-6) <= step <= least * 2.5 * (1 + 1e-6)
    assert f"{step:.6e}".split("e")[0].rstrip("0").rstrip(".") in {"1", "2", "2.5", "5"}


@pytest.mark.parametrize(("width", "height"), [(1, 1), (5, 4), (4, 3), (3, 2), (16, 9), (21, 9), (9, 16), (3, 4)])
def test_common_aspect_ratios_lie_well_inside_of_their_bins(width: int, height: int) -> None:
    aspect = width / height
    edges = np.array(ASPECTS)
    position = np.searchsorted(edges, aspect) - 1
    inside = np.log(aspect / edges[position]) / np.log(edges[position + 1] / edges[position])
    assert 0.1 < inside < 0.9


def test_1080_720_and_480_rows_have_different_bins() -> None:
    values = np.array([240.0, 360, 480, 720, 1080, 2160])
    assert make_histogram(values, choose_edges(HALF_OCTAVES, values)).counts.max() == 1
