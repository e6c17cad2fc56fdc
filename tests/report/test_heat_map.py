from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed.report._heat_map import (
    BOTTOM,
    LEFT,
    MAX_CELLS,
    RIGHT,
    TOP,
    choose_shades,
    compute_shade_bounds,
    count_in_cells,
    draw_heat_map,
)

RECTANGLE = r'<rect class="mark[^>]* x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"'
TEXT = r'<text [^>]*x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">(.*?)</text>'
sides = st.lists(st.tuples(st.integers(1, 2**24), st.integers(1, 2**24)), min_size=1, max_size=60)
# Widths of a digit and height of a line of the drawing's text, in units of the drawing.
LETTER, LINE = 7.0, 9.0


@given(sides)
def test_every_file_is_counted_in_the_cell_that_holds_it(pairs: list[tuple[int, int]]) -> None:
    widths, heights = np.array(pairs, dtype=np.float64).T
    cells = count_in_cells(widths, heights)
    assert cells.counts.sum() == len(pairs)
    assert len(cells.edges) - 1 <= MAX_CELLS
    expected = np.zeros_like(cells.counts)
    for width, height in pairs:
        expected[tuple(int(np.flatnonzero(cells.edges <= side)[-1]) for side in (width, height))] += 1
    assert np.array_equal(cells.counts, expected)


@given(st.integers(1, 10**7))
def test_every_count_has_a_shade_whose_range_holds_it(most: int) -> None:
    bounds = compute_shade_bounds(most)
    assert bounds[0] == 1
    assert bounds == sorted(set(bounds))
    for each in {1, most, most // 2 or 1}:
        level = choose_shades(np.array([each, most]))[0]
        assert bounds[level] <= each
        assert level == len(bounds) - 1 or each < bounds[level + 1]


def test_cells_lie_where_their_sizes_are() -> None:
    widths, heights = np.array([1920.0] * 3 + [640.0, 100.0]), np.array([1080.0] * 3 + [640.0, 5000.0])
    cells = count_in_cells(widths, heights)
    text = str(draw_heat_map("T", cells))
    found = re.findall(RECTANGLE, text)
    drawn = [tuple(map(float, each)) for each in found]
    assert len(drawn) == 3
    low, high = np.log2(cells.edges[0]), np.log2(cells.edges[-1])
    for width, height in {(1920, 1080), (640, 640), (100, 5000)}:
        x = LEFT + (np.log2(width) - low) / (high - low) * (RIGHT - LEFT)
        y = BOTTOM - (np.log2(height) - low) / (high - low) * (BOTTOM - TOP)
        holding = [r for r in drawn if 0 <= x - r[0] + 0.02 <= r[2] + 0.04 and 0 <= y - r[1] + 0.02 <= r[3] + 0.04]
        assert len(holding) == 1
    assert re.search(r"\d+–\d+ wide, \d+–\d+ high: 3 files", text)


@pytest.mark.parametrize("low", [0, 5, 12])
@pytest.mark.parametrize("octaves", range(25))
def test_the_texts_of_the_drawing_do_not_touch(low: int, octaves: int) -> None:
    widths = np.array([2.0**low, 2.0 ** min(low + octaves, 24) - (octaves > 0)])
    text = str(draw_heat_map("T", count_in_cells(widths, widths)))
    boxes = []
    for x, y, anchor, shown in re.findall(TEXT, text):
        width = LETTER * len(shown) - 3 * len(re.findall("[,.:]", shown))
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.append((shown, left, left + width, float(y) - LINE, float(y)))
    assert len(boxes) >= 4
    assert min(left for _, left, *_ in boxes) >= 0
    for (one, left, right, top, bottom), other in combinations(boxes, 2):
        is_apart = right <= other[1] or other[2] <= left or bottom <= other[3] or other[4] <= top
        assert is_apart, f"{one} touches {other[0]}"


@given(sides)
@example([(1, 1)])
def test_cells_stay_within_the_square(pairs: list[tuple[int, int]]) -> None:
    widths, heights = np.array(pairs, dtype=np.float64).T
    text = str(draw_heat_map("T", count_in_cells(widths, heights)))
    for found in re.findall(RECTANGLE, text):
        x, y, width, height = map(float, found)
        assert LEFT - 0.02 <= x <= x + width <= RIGHT + 0.03
        assert TOP - 0.02 <= y <= y + height <= BOTTOM + 0.03
