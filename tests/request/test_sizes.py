from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from framefeed.decode import VideoDecoder
from framefeed.errors import UsageError
from framefeed.request._crops import CenterCrop, PictureRule, RandomCrop, RandomResizedCrop, as_crop
from framefeed.request._random import ClipContext
from framefeed.request._request import OutputSpec
from framefeed.request._sizes import Letterbox, LongSide, ResizeCrop, as_size

SIDES = st.integers(1, 3000)
CONTEXT = ClipContext(9, 0, 4)


def resize_as_torchvision(size: int | tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """torchvision.transforms.functional._compute_resized_output_size, with its floats."""
    if not isinstance(size, int):
        return size
    short, long = sorted((height, width))
    new_short, new_long = size, int(size * long / short)
    return (new_long, new_short) if width <= height else (new_short, new_long)


RESIZES = st.one_of(st.integers(1, 400), st.tuples(st.integers(1, 400), st.integers(1, 400)))


@given(SIDES, SIDES, RESIZES, st.data())
def test_a_resize_crop_is_the_box_of_torchvisions_two_steps(
    height: int, width: int, resize: int | tuple[int, int], data: st.DataObject
) -> None:
    resized = resize_as_torchvision(resize, height, width)
    rows, columns = (data.draw(st.integers(1, side)) for side in resized)
    size, (top, left, box_rows, box_columns) = ResizeCrop(resize, (rows, columns)).fit(height, width)
    assert size == (rows, columns)
    first_row, first_column = round((resized[0] - rows) / 2.0), round((resized[1] - columns) / 2.0)
    for first, cut, full, source, start, length in (
        (first_row, rows, resized[0], height, top, box_rows),
        (first_column, columns, resized[1], width, left, box_columns),
    ):
        assert start >= 0 < length
        assert start + length <= source
        # The nearest pixel; where both edges meet in one pixel, that pixel.
        begin, end = first * source / full, (first + cut) * source / full
        assert abs(start - begin) <= 0.5 or length == 1
        assert abs(start + length - end) <= 0.5 or length == 1
        if (first * source) % full == 0 and ((first + cut) * source) % full == 0:
            assert (start, start + length) == (begin, end)


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=6), RESIZES, st.integers(1, 99), st.integers(1, 99))
def test_the_pictures_of_a_plan_are_those_that_each_of_them_gives(
    sizes: list[tuple[int, int]], resize: int | tuple[int, int], rows: int, columns: int
) -> None:
    least = (resize, resize) if isinstance(resize, int) else resize
    rule = ResizeCrop(resize, (min(rows, least[0]), columns if isinstance(resize, int) else min(columns, least[1])))
    heights, widths = np.array(sizes).T
    pictures = [PictureRule(rule), PictureRule(rule, CenterCrop(1))]
    if not isinstance(resize, int) or columns <= resize:
        pictures.append(PictureRule(rule, RandomResizedCrop()))
    for picture in pictures:
        errors = []
        for height, width in sizes:
            try:
                assert picture.output(height, width, ClipContext(0, 0, 0)).size == rule.common
            except UsageError as error:
                errors.append(str(error))
        if not errors:
            assert picture.common_picture(heights, widths, str) == rule.common
            continue
        for check in (picture.common_picture, picture.check_pictures):
            with pytest.raises(UsageError) as caught:
                check(heights, widths, lambda row: f"picture {row}")
            assert str(caught.value).split(": ", 1)[1] in errors


def test_usual_resize_crops() -> None:
    # 256 x 341, of which 224 x 224 begin at (16, 58): rows 16 * 375 / 256 and 240 * 375 / 256, columns 58 * 500 / 341.
    assert ResizeCrop(256, 224).fit(375, 500) == ((224, 224), (23, 85, 329, 328))
    assert ResizeCrop(256, (224, 224)) == ResizeCrop(np.int64(256), [224, 224]) == ResizeCrop(256, 224)
    assert ResizeCrop(256, 224).fit(256, 256) == ((224, 224), (16, 16, 224, 224))
    assert ResizeCrop(224, 224).fit(100, 100) == ((224, 224), (0, 0, 100, 100))
    assert ResizeCrop(8, 1).fit(1, 1) == ((1, 1), (0, 0, 1, 1))
    assert pickle.loads(pickle.dumps(ResizeCrop(256, 224))) == ResizeCrop(256, 224)


@given(SIDES, SIDES, st.integers(1, 400), st.integers(1, 400), st.integers(1, 400))
def test_a_picture_that_is_too_small_names_the_least_resize_that_would_do(
    height: int, width: int, resize: int, rows: int, columns: int
) -> None:
    assume(min(rows, columns) <= resize)
    rule, resized = ResizeCrop(resize, (rows, columns)), resize_as_torchvision(resize, height, width)
    sides = np.array([height]), np.array([width])
    assert rule.fits(*sides).tolist() == [rows <= resized[0] and columns <= resized[1]]
    if rows <= resized[0] and columns <= resized[1]:
        rule.fit(height, width)
        return
    with pytest.raises(UsageError, match="smaller than the crop") as caught:
        rule.fit(height, width)
    least = int(str(caught.value).split("resize to at least ")[1].split(",")[0])
    ResizeCrop(least, (rows, columns)).fit(height, width)
    with pytest.raises(UsageError):
        ResizeCrop(least - 1, (rows, columns)).fit(height, width)


@given(SIDES, SIDES, st.integers(1, 400))
def test_the_long_side_is_exact_and_the_short_one_rounded_down(height: int, width: int, length: int) -> None:
    (rows, columns), box = LongSide(length).fit(height, width)
    assert box is None
    assert max(rows, columns) == length
    assert min(rows, columns) == max(1, int(length * min(height, width) / max(height, width)))
    assert (rows >= columns) == (height >= width) or rows == columns


@given(SIDES, SIDES, st.integers(1, 700), st.integers(1, 700))
def test_a_letterbox_holds_the_largest_picture_of_the_same_proportions(
    height: int, width: int, rows: int, columns: int
) -> None:
    letterbox = Letterbox(rows, columns, fill=(1, 2, 3))
    inner, box = letterbox.fit(height, width)
    assert box is None
    scale = min(rows / height, columns / width)
    assert inner[0] == rows or inner[1] == columns
    for side, full, given_side in ((inner[0], rows, height), (inner[1], columns, width)):
        assert 1 <= side <= full
        assert abs(side - scale * given_side) <= 0.5 + 1e-9 or side == 1
    placement = letterbox.place(inner)
    top, left, *size = placement.box
    assert (tuple(size), placement.size, placement.fill) == (inner, (rows, columns), (1, 2, 3))
    assert 0 <= rows - inner[0] - 2 * top <= 1
    assert 0 <= columns - inner[1] - 2 * left <= 1
    assert placement.is_whole == (inner == (rows, columns))
    mirrored = placement.mirror()
    assert mirrored.mirror() == placement
    assert mirrored.box == (top, columns - left - inner[1], *inner)


def test_letterboxes_are_accepted_in_every_usual_form() -> None:
    assert (
        Letterbox(480, 640) == Letterbox((480, 640)) == Letterbox([480, 640], fill=0) == Letterbox(480, 640, (0, 0, 0))
    )
    assert Letterbox(640) == Letterbox(640, 640)
    assert Letterbox(640, fill=114) == Letterbox(640, fill=[114, np.uint8(114), 114]) != Letterbox(640)
    assert Letterbox(640).fit(480, 640) == ((480, 640), None)
    assert Letterbox(640).place((480, 640)).box == (80, 0, 480, 640)
    assert Letterbox(640).fit(1, 3000) == ((1, 640), None)
    assert pickle.loads(pickle.dumps(Letterbox(640, fill=9))) == Letterbox(640, fill=9)


def test_a_letterbox_is_the_shape_of_all_pictures_and_that_of_the_decoder_fits_inside() -> None:
    rule = PictureRule(Letterbox(40, 50), as_crop((4, 8, 40, 60)))
    output = rule.output(100, 200, CONTEXT)
    assert (output.crop, output.size) == ((4, 8, 40, 60), (33, 50))
    assert (rule.shape(100, 200), rule.decoded_shape(100, 200)) == ((3, 40, 50), (3, 33, 50))
    assert PictureRule((40, 50)).place(OutputSpec((40, 50)), is_flipped=True) is None
    wide = PictureRule(Letterbox(40, 51))
    boxes = [wide.place(wide.output(40, 30, CONTEXT), is_flipped=flipped).box for flipped in (False, True)]
    assert boxes == [(0, 10, 40, 30), (0, 11, 40, 30)]
    sides = np.array([48, 64, 20]), np.array([64, 48, 99])
    assert wide.common_picture(*sides, str) == (40, 51)
    assert PictureRule(Letterbox(40), RandomResizedCrop()).common_picture(*sides, str) == (40, 40)
    with pytest.raises(UsageError, match="1: the size of this picture is not known"):
        wide.common_picture(np.array([48, -1]), np.array([64, -1]), str)
    with pytest.raises(UsageError, match="Letterbox is for plans"):
        wide.decoder_output(48, 64)


def test_with_a_crop_a_size_is_that_of_its_box() -> None:
    output = PictureRule(LongSide(20), as_crop((4, 8, 40, 60))).output(100, 200, CONTEXT)
    assert (output.crop, output.size) == ((4, 8, 40, 60), (13, 20))
    output = PictureRule(ResizeCrop(20, 10), as_crop((4, 8, 40, 60))).output(100, 200, CONTEXT)
    assert (output.crop, output.size) == ((4 + 10, 8 + 20, 20, 20), (10, 10))
    output = PictureRule(ResizeCrop(40, 40), CenterCrop(40)).output(100, 200, CONTEXT)
    assert (output.crop, output.size) == ((30, 80, 40, 40), (40, 40))
    # The whole picture is no crop, so that a cache stores it once.
    assert PictureRule(ResizeCrop(16, 16)).output(64, 64, CONTEXT).crop is None
    drawn = RandomResizedCrop(scale=(0.2, 0.4))
    output = PictureRule(ResizeCrop(16, 8), drawn).output(100, 200, ClipContext(9, 0, 4))
    outer = drawn.box(100, 200, ClipContext(9, 0, 4))
    assert output.size == (8, 8)
    assert output.crop is not None
    assert outer[0] < output.crop[0] < output.crop[0] + output.crop[2] < outer[0] + outer[2]
    for size in (LongSide(8), ResizeCrop(9, 8)):
        with pytest.raises(UsageError, match="size"):
            PictureRule(size, RandomResizedCrop(7))


ANY_SIZES = st.one_of(
    st.none(),
    st.integers(1, 60),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.builds(LongSide, st.integers(1, 60)),
    st.builds(Letterbox, st.integers(1, 60), st.integers(1, 60)),
    st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 90)).map(
        lambda sides: ResizeCrop(sides[0], (min(sides[:2]), sides[2]))
    ),
    st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda resize: ResizeCrop(resize, min(resize))),
)
ANY_CROPS = st.one_of(
    st.none(),
    st.builds(CenterCrop, st.integers(1, 60), st.integers(1, 60)),
    st.builds(RandomCrop, st.integers(1, 60), st.integers(1, 60)),
    st.builds(RandomResizedCrop, st.just(None) | st.integers(1, 60)),
    st.just(RandomResizedCrop(ratio=(0.05, 20))),
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 60), st.integers(1, 60)).map(as_crop),
)


@given(ANY_SIZES, ANY_CROPS, st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=5))
def test_what_a_plan_accepts_is_possible_for_every_draw(size: Any, crop: Any, shapes: list[tuple[int, int]]) -> None:
    heights, widths = np.array(shapes).T
    try:
        rule = PictureRule(size, crop)
        common = rule.common_picture(heights, widths, str)
    except UsageError:
        return
    for number, shape in enumerate(shapes * 5):
        assert rule.shape(*shape)[1:] == common
        output = rule.output(*shape, ClipContext(9, 0, number))
        placement = rule.place(output, is_flipped=False)
        assert (placement.size if placement else output.shape(*shape)[1:]) == common


def test_a_random_box_may_be_too_small_for_a_resize_and_crop() -> None:
    for size in (ResizeCrop(16, (12, 20)), ResizeCrop(16, (17, 16))):
        with pytest.raises(UsageError, match=r"box of random shape .* give size=\(1\d, \d\d\).* or ff\.ResizeCrop\("):
            PictureRule(size, RandomResizedCrop())
    PictureRule(ResizeCrop((30, 40), (12, 20)), RandomResizedCrop())
    PictureRule(ResizeCrop(20, (12, 20)), RandomResizedCrop())


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (LongSide, (0,)),
        (LongSide, (2.5,)),
        (LongSide, (True,)),
        (LongSide, ((3, 4),)),
        (ResizeCrop, (0, 1)),
        (ResizeCrop, (8, 0)),
        (ResizeCrop, (8, (0, 4))),
        (ResizeCrop, (8, (4, 4, 4))),
        (ResizeCrop, ("8", 4)),
        (ResizeCrop, (8, None)),
        (ResizeCrop, (True, 1)),
        (ResizeCrop, (8, 9)),  # larger than any picture is then
        (ResizeCrop, (8, (10, 9))),
        (ResizeCrop, ((8, 20), (9, 9))),
        (as_size, (ResizeCrop,)),
        (as_size, (LongSide,)),
        (as_size, (Letterbox,)),
        (Letterbox, (0,)),
        (Letterbox, (8, 0)),
        (Letterbox, ((8, 0),)),
        (Letterbox, ((8, 8), 8)),
        (Letterbox, (2.5,)),
        (Letterbox, (True,)),
        (Letterbox, ("8",)),
        (Letterbox, (8, 8, 256)),
        (Letterbox, (8, 8, -1)),
        (Letterbox, (8, 8, 0.5)),
        (Letterbox, (8, 8, True)),
        (Letterbox, (8, 8, (1, 2))),
        (Letterbox, (8, 8, "red")),
        (Letterbox, (8, 8, None)),
        (as_size, (CenterCrop(3),)),
    ],
)
def test_a_wrong_size_is_refused_when_it_is_made(kind: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        kind(*arguments)


def make_pictures(height: int, width: int) -> dict[str, np.ndarray]:
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 40 + y / 60), np.cos(x / 50 - y / 35), np.sin((x + y) / 70)]
    smooth = (127 + 120 * np.stack(waves, -1)).astype(np.uint8)
    return {"smooth": smooth, "noise": np.random.default_rng(3).integers(0, 256, smooth.shape, np.uint8)}


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 333), (256, 256)])
@pytest.mark.parametrize(("kind", "most"), [("smooth", 0.6), ("noise", 12)])
def test_a_resize_crop_is_near_pillows_resize_and_crop(height: int, width: int, kind: str, most: float) -> None:
    """The figures of docs/pixels.md: the box is rounded to pixels of the source, which shifts noise most."""
    picture = make_pictures(height, width)[kind]
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    rows, columns = resize_as_torchvision(256, height, width)
    top, left = round((rows - 224) / 2), round((columns - 224) / 2)
    whole = np.asarray(Image.fromarray(picture).resize((columns, rows), Image.Resampling.BILINEAR), dtype=np.int64)
    expected = whole[top : top + 224, left : left + 224]
    with VideoDecoder(file.getvalue(), size=ResizeCrop(256, 224), dimension_order="NHWC") as video:
        difference = np.abs(video[0] - expected).mean()
    assert difference <= (most if height != width else 0)
