from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.report._columns import Histogram, count_sizes, format_count, make_density, make_histogram
from framefeed.report._plots import (
    DENSITY,
    HISTOGRAM,
    LOG_FLOOR,
    LOG_FROM,
    Axis,
    CountScale,
    PlotArea,
    choose_labels,
    choose_shades,
    compute_shade_bounds,
    draw_density,
    draw_histogram,
    format_short_count,
    make_bars,
)

WHOLE = Axis("pixels", format_count, is_whole=True)
counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any)


def made(numbers: list[int], below: int = 0, above: int = 0) -> Histogram:
    edges = np.arange(len(numbers) + 1, dtype=np.float64)
    return Histogram(edges, np.array(numbers), below, above, np.zeros(5))


def rectangles(text: str) -> list[tuple[float, float, float, float]]:
    """(x, y, width, height) of the bars."""
    actual = re.findall(r'<rect class="mark[^>]* x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', text)
    return [tuple(map(float, each)) for each in actual]  # type: ignore[misc]


@given(counts, st.integers(0, 9), st.integers(0, 9))
def test_bars_have_the_position_and_height_of_their_counts(numbers: list[int], below: int, above: int) -> None:
    bars = [*([below] if below else []), *numbers, *([above] if above else [])]
    present = [each for each in bars if each]
    drawn = rectangles(str(draw_histogram("T", made(numbers, below, above), WHOLE)))
    assert len(drawn) == len(present)
    step = HISTOGRAM.inner_width / len(bars)
    bar_numbers = [position for position, each in enumerate(bars) if each]
    for position, each, (x, y, width, height) in zip(bar_numbers, present, drawn, strict=True):
        assert HISTOGRAM.left + position * step <= x
        assert x + width <= HISTOGRAM.left + (position + 1) * step + 0.02
        assert y >= HISTOGRAM.top - 0.02
        assert y + height == pytest.approx(HISTOGRAM.floor, abs=0.02)
        if max(present) < LOG_FROM * min(present):
            assert height == pytest.approx(max(1, max(h for *_, h in drawn) * each / max(present)), abs=0.05)
    heights = [height for *_, height in drawn]
    assert np.all(np.diff(np.array(heights)[np.argsort(present, kind="stable")]) >= 0)
    assert max(heights) > HISTOGRAM.inner_height / 3


def test_a_logarithmic_scale_gives_each_factor_the_same_height() -> None:
    scale = CountScale.of(PlotArea(360, 200), [1, 10, 100, 1000])
    assert scale.is_log
    assert np.ptp(np.diff([scale.compute_height(10**power) for power in range(4)])) < 1e-9
    assert scale.compute_height(1) == pytest.approx(
        -np.log(LOG_FLOOR) / np.log(1200 / LOG_FLOOR) * scale.area.inner_height
    )
    assert not CountScale.of(PlotArea(360, 200), [11, 1000]).is_log


def test_bars_beyond_the_ends_say_so() -> None:
    axis = Axis("seconds", lambda value: f"{value:g} s")
    counted = make_histogram(np.array([-1.0, 0.5, 1.5, 2.0, 7.0]), np.array([0.0, 1.0, 2.0]))
    assert [(bar.label, bar.count, bar.is_rest) for bar in make_bars(counted, axis)] == [
        ("less than 0 s", 1, True),
        ("0 s to 1 s", 1, False),
        ("1 s to 2 s", 1, False),
        ("2 s or more", 2, True),
    ]


def test_bins_of_whole_numbers_are_named_by_their_last_one() -> None:
    edges = np.array([1.0, 2, 8])
    assert [bar.label for bar in make_bars(make_histogram(edges, edges), WHOLE)] == ["1", "2 to 7", "8 or more"]


@given(st.lists(st.floats(0, 40), min_size=1, max_size=30), st.integers(1, 9))
def test_labels_leave_room_for_each_other(gaps: list[float], letters: int) -> None:
    positions = np.cumsum(gaps).tolist()
    chosen = choose_labels(positions, ["9" * letters] * len(positions))
    assert chosen[0] == 0
    assert all(positions[b] - positions[a] >= 6 * letters for a, b in pairwise(chosen))


@given(st.integers(1, 10**7))
def test_every_count_has_a_shade_whose_range_holds_it(most: int) -> None:
    bounds = compute_shade_bounds(most)
    assert bounds[0] == 1
    assert bounds == sorted(set(bounds))
    for each in {1, most, most // 2 or 1}:
        level = choose_shades([each, most])[0]
        assert bounds[level] <= each
        assert level == len(bounds) - 1 or each < bounds[level + 1]


def test_cells_of_a_density_lie_where_their_sizes_are() -> None:
    widths, heights = np.array([1920.0] * 3 + [640.0, 100.0]), np.array([1080.0] * 3 + [640.0, 5000.0])
    text = str(draw_density("T", make_density(widths, heights), count_sizes(widths, heights)))
    drawn = rectangles(text)
    assert len(drawn) == 3
    sides = DENSITY.inner_width, DENSITY.inner_height
    low, high = (np.log2(make_density(widths, heights).edges[at]) for at in (0, -1))
    for width, height in {(1920, 1080), (640, 640), (100, 5000)}:
        x = DENSITY.left + (np.log2(width) - low) / (high - low) * sides[0]
        y = DENSITY.floor - (np.log2(height) - low) / (high - low) * sides[1]
        holding = [
            r for r in drawn if r[0] - 0.02 <= x <= r[0] + r[2] + 0.02 and r[1] - 0.02 <= y <= r[1] + r[3] + 0.02
        ]
        assert len(holding) == 1
        assert f">{width}×{height}</text>" in text
    assert re.search(r"\d+–\d+ wide, \d+–\d+ high: 3 files", text)


def test_brief_counts() -> None:
    assert [format_short_count(number) for number in (0, 250, 2500, 20_000, 1_500_000)] == [
        "0",
        "250",
        "2.5k",
        "20k",
        "1.5M",
    ]
