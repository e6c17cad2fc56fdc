from __future__ import annotations

import pickle
from collections import Counter
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.request._crops import (
    CenterCrop,
    Crop,
    PictureRule,
    RandomCrop,
    RandomResizedCrop,
    as_crop,
)
from framefeed.request._random import ClipContext
from framefeed.request._sizes import scale_short_side

SIDES = st.integers(1, 300)


def make_context(position: int) -> ClipContext:
    return ClipContext(9, 0, position)


def check_inside(box: tuple[int, int, int, int], height: int, width: int) -> None:
    top, left, rows, columns = box
    assert min(top, left) >= 0
    assert min(rows, columns) >= 1
    assert top + rows <= height
    assert left + columns <= width


CROPS = [
    CenterCrop(1),
    RandomCrop(1),
    RandomResizedCrop(8),
    RandomResizedCrop(8, scale=(0.001, 0.01)),
    RandomResizedCrop(8, ratio=(20, 40)),
    RandomResizedCrop(8, ratio=(0.01, 0.02)),
]


@pytest.mark.parametrize("crop", CROPS, ids=repr)
@given(SIDES, SIDES, st.integers(0, 50))
def test_boxes_lie_inside(crop: Crop, height: int, width: int, position: int) -> None:
    check_inside(crop.box(height, width, make_context(position)), height, width)


@given(SIDES, SIDES, st.data())
def test_a_center_crop_is_torchvisions(height: int, width: int, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    expected = (round((height - rows) / 2.0), round((width - columns) / 2.0), rows, columns)
    assert CenterCrop(rows, columns).box(height, width, make_context(0)) == expected


def measure_excess(counts: Counter[Any], cells: int) -> float:
    """Distance from uniform in standard deviations of chi-square."""
    mean = sum(counts.values()) / cells
    chi_square = sum((count - mean) ** 2 / mean for count in counts.values()) + (cells - len(counts)) * mean
    return abs(chi_square - (cells - 1)) / sqrt(2 * (cells - 1))


def test_L11_random_crops_are_uniform_over_all_places() -> None:
    counts = Counter(RandomCrop(10, 20).box(14, 25, make_context(position))[:2] for position in range(6000))
    assert set(counts) == {(top, left) for top in range(5) for left in range(6)}
    assert measure_excess(counts, 30) < 4


def test_L11_random_resized_crops_have_uniform_areas_and_log_ratios() -> None:
    boxes = [RandomResizedCrop(8, scale=(0.2, 0.6)).box(1000, 1000, make_context(position)) for position in range(4000)]
    areas = Counter(int((rows * columns / 1e6 - 0.2) / 0.04) for _, _, rows, columns in boxes)
    ratios = Counter(int((log(columns / rows) / log(4 / 3) + 1) * 5) for _, _, rows, columns in boxes)
    inner = [{cell: counts[cell] for cell in range(10)} for counts in (areas, ratios)]
    assert all(measure_excess(Counter(counts), 10) < 5 for counts in inner)
    assert sum(map(len, inner)) == 20
    tops = Counter(min(9, top * 10 // (1000 - rows + 1)) for top, _, rows, _ in boxes)
    assert measure_excess(tops, 10) < 5


@pytest.mark.parametrize(
    ("height", "width", "ratio", "expected"),
    [(10, 1000, (1, 1.5), (0, 492, 10, 15)), (1000, 10, (1, 1.5), (495, 0, 10, 10)), (60, 60, (2, 3), (15, 0, 30, 60))],
)
def test_where_no_draw_fits_the_middle_is_taken(
    height: int, width: int, ratio: tuple[float, float], expected: tuple[int, ...]
) -> None:
    assert RandomResizedCrop(8, scale=(1, 1), ratio=ratio).box(height, width, make_context(0)) == expected


def test_sizes_are_accepted_in_every_usual_form() -> None:
    assert CenterCrop(5) == CenterCrop(5, 5)
    assert RandomResizedCrop(5) == RandomResizedCrop((5, 5)) == RandomResizedCrop(5, 5)
    assert RandomResizedCrop((5, 7)).size == (5, 7)
    assert RandomResizedCrop().size is None
    for crop in CROPS:
        assert pickle.loads(pickle.dumps(crop)) == crop
        assert as_crop(crop) is crop


@pytest.mark.parametrize(
    ("kind", "arguments", "options"),
    [
        (CenterCrop, (0,), {}),
        (CenterCrop, (5.5,), {}),
        (RandomCrop, (5, -1), {}),
        (RandomResizedCrop, ((5, 6), 7), {}),
        (RandomResizedCrop, ((5, 6, 7),), {}),
        (RandomResizedCrop, (5,), {"scale": (0.5, 0.1)}),
        (RandomResizedCrop, (5,), {"scale": (0.5, 1.5)}),
        (RandomResizedCrop, (5,), {"ratio": (0, 1)}),
        (RandomResizedCrop, (5,), {"ratio": (1,)}),
        (as_crop, (7,), {}),
        (as_crop, ((0, 0, 0, 5),), {}),
        (as_crop, ((-1, 0, 5, 5),), {}),
    ],
)
def test_a_wrong_crop_is_refused_when_it_is_made(
    kind: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        kind(*arguments, **options)


# --- size and crop together ---------------------------------------------------------------------------


def test_the_crop_comes_first_then_the_size() -> None:
    rule = PictureRule(size=20, crop=as_crop((4, 8, 40, 60)))
    output = rule.output(100, 200, make_context(0))
    assert (output.crop, output.size) == ((4, 8, 40, 60), (20, 30))


def test_a_random_resized_crop_brings_its_size_or_takes_the_plans() -> None:
    for rule in (PictureRule(crop=RandomResizedCrop(8, 9)), PictureRule((8, 9), RandomResizedCrop())):
        outputs = [rule.output(100, 200, make_context(position)) for position in range(20)]
        assert {output.size for output in outputs} == {(8, 9)}
        assert len({output.crop for output in outputs}) == 20
    assert PictureRule((8, 9), RandomResizedCrop(8, 9)).output(50, 50, make_context(0)).size == (8, 9)
    for size, crop in [(None, RandomResizedCrop()), (8, RandomResizedCrop()), ((8, 8), RandomResizedCrop(8, 9))]:
        with pytest.raises(UsageError, match="size"):
            PictureRule(size, crop)


@given(SIDES, SIDES, st.integers(1, 500))
def test_the_short_side_is_exact_and_the_long_one_rounded_down(height: int, width: int, size: int) -> None:
    rows, columns = scale_short_side(size, height, width)
    assert min(rows, columns) == size
    assert max(rows, columns) == int(size * max(height, width) / min(height, width))


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=6), st.integers(1, 20))
def test_the_common_picture_is_that_of_every_picture(sizes: list[tuple[int, int]], size: int) -> None:
    rule = PictureRule(size)
    heights, widths = np.array(sizes).T
    shapes = {rule.output(height, width, make_context(0)).shape(height, width)[1:] for height, width in sizes}
    if len(shapes) == 1:
        assert {rule.common_picture(heights, widths, str)} == shapes
    else:
        with pytest.raises(UsageError, match="same size"):
            rule.common_picture(heights, widths, str)
