"""Results of the function: what is a picture, and how several become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.errors import UsageError
from framefeed.transcode._pictures import draw_mosaic, split_batch, take_pictures

PICTURE = np.zeros((4, 6, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("result", "count"),
    [(None, 0), ([], 0), (PICTURE, 1), ([PICTURE], 1), ((PICTURE, PICTURE), 2), (Image.new("RGB", (6, 4)), 1)],
)
def test_pictures_are_taken(result: Any, count: int) -> None:
    pictures = take_pictures(result)
    assert [picture.shape for picture in pictures] == [(4, 6, 3)] * count


WRONG = [
    (PICTURE / 255.0, r"float64.*clip\(0, 255\)\.astype"),
    (PICTURE.astype(np.int64), "int64.*astype"),
    (PICTURE[:, :, 0], r"uint8 \[4, 6\]: the axis of the channels is missing: .*\[H, W, 3\].*np\.repeat"),
    (PICTURE[:, :, :1], r"uint8 \[4, 6, 1\]: it has one channel: .*\[H, W, 3\].*np\.repeat"),
    (np.zeros((4, 6, 4), np.uint8), "alpha"),
    (np.zeros((3, 4, 6), np.uint8), r"transpose\(1, 2, 0\)"),
    (np.zeros((2, 4, 6, 3), np.uint8), "list of them"),
    (np.zeros((0, 6, 3), np.uint8), "empty"),
    ((picture for picture in [PICTURE]), r"generator.*list\(\.\.\.\)"),
    ("picture.png", "the string 'picture.png'"),
    (7, "got 7"),
    ([PICTURE, None], "got None"),
    (Image.new("L", (6, 4)), r"\[4, 6\]"),
]


@pytest.mark.parametrize(("result", "message"), WRONG)
def test_other_results_are_refused_with_advice(result: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        take_pictures(result)


@pytest.mark.parametrize(
    ("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (2, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))]
)
def test_pictures_are_drawn_row_by_row(count: int, shape: tuple[int, int]) -> None:
    pictures = [np.full((2, 3, 3), number + 1, np.uint8) for number in range(count)]
    mosaic = draw_mosaic(pictures)
    cells = mosaic.reshape(shape[0], 2, shape[1], 3, 3)
    assert (cells == cells[:, :1, :, :1, :1]).all()
    assert cells[:, 0, :, 0, 0].ravel().tolist() == [*range(1, count + 1), *[0] * (shape[0] * shape[1] - count)]


def test_pictures_of_two_sizes_are_no_mosaic() -> None:
    with pytest.raises(UsageError, match="one size"):
        draw_mosaic([PICTURE, PICTURE[:2]])


def test_the_advice_for_grey_pictures_gives_pictures() -> None:
    picture = PICTURE[:, :, 0]
    assert len(take_pictures(np.repeat(picture[:, :, np.newaxis], 3, axis=2))) == 1
    picture = PICTURE[:, :, :1]
    assert len(take_pictures(np.repeat(picture, 3, axis=2))) == 1


def test_a_batch_is_split() -> None:
    assert len(split_batch(np.zeros((3, 4, 6, 3), np.uint8), 3)) == 3
    assert split_batch([None, PICTURE], 2)[0] is None
    for wrong in ([PICTURE], np.zeros((2, 4, 6, 3)), None, 5, np.array(5)):
        with pytest.raises(UsageError, match="list of 3 results"):
            split_batch(wrong, 3)
    with pytest.raises(UsageError, match="list of 3 results"):
        split_batch((each for each in range(3)), 3)
