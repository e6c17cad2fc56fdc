"""One law for pictures: the same file, quality, size and crop give the same bytes on every way to them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

import framefeed as ff
from framefeed.cli import main
from framefeed.decode import find_reduction
from framefeed.decode._convert import _turn_to_stored_box
from framefeed.decode._reduction import reduce_crop
from framefeed.index import StreamFacts, build_index, describe_still_stream
from framefeed.media import MediaSource
from framefeed.pictures import convert_exif_orientation, reduce_size
from framefeed.request import OutputSpec, StillQuality
from tests.judges import psnr
from tests.lengths import pairwise
from tests.makers import plan_over
from tests.pictures.made import exif, saved, segment, with_segments

WIDTH, HEIGHT = 421, 300
SIZES = {1: (151, 150), 2: (75, 105), 4: (32, 50), 8: (9, 26)}
"""Divisor -> (height, width) for which the whole picture is divided by it: the least number that is left doubles."""
QUALITIES: tuple[StillQuality, ...] = ("scaled", "exact")
ORIENTATION = 0x0112
CROPS = (None, (10, 31, 201, 357), ff.RandomResizedCrop(20, scale=(0.05, 1.0)))


def photo(seed: int, width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A picture of all scales: noise of several sizes, each enlarged to the whole."""
    chance, total = np.random.default_rng(seed), np.zeros((height, width, 3))
    for side in (3, 10, 40, 160):
        noise = Image.fromarray(chance.integers(0, 256, (side, side, 3), np.uint8)).resize((width, height))
        total += np.asarray(noise, dtype=np.float64) / 4
    return Image.fromarray(total.astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of one displayed size: JPEGs of several kinds, one that only Pillow decodes, and a PNG."""
    made = tmp_path_factory.mktemp("photos")
    jpeg = saved(photo(1), "JPEG", quality=90)
    turned = saved(photo(3, HEIGHT, WIDTH), "JPEG", quality=90)
    files = {
        "a.jpg": jpeg,
        "b.jpg": saved(photo(2), "JPEG", quality=80, progressive=True),
        "c.jpg": with_segments(turned, segment(0xFFE1, b"Exif\0\0" + exif(6))),
        "d.jpg": saved(photo(4).convert("L"), "JPEG"),
        "e.jpg": saved(photo(5).convert("CMYK"), "JPEG"),
        "f.jpg": jpeg[:20] + b"\xff\0\1\2" + jpeg[20:],
        "g.png": saved(photo(6), "PNG"),
        "h.jpg": with_segments(jpeg, segment(0xFFE1, b"Exif\0\0" + exif(2))),
    }
    for name, data in files.items():
        (made / name).write_bytes(data)
    return made


@pytest.fixture(scope="module")
def catalog(folder: Path) -> ff.Catalog:
    return ff.scan(str(folder))


def plan_stills(catalog: ff.Catalog, quality: StillQuality, size: Any, crop: Any) -> ff.EpochPlan:
    size = None if isinstance(crop, ff.RandomResizedCrop) else size
    return plan_over(catalog, ff.Uniform(1), seed=3, shuffle=False, size=size, crop=crop, still_quality=quality)


def load(plan: ff.EpochPlan, **options: Any) -> np.ndarray:
    with ff.ClipLoader(plan, batch_size=3, **options) as loader:
        return np.concatenate([batch.data.copy() for batch in loader])


def by_decoders(plan: ff.EpochPlan) -> np.ndarray:
    """Each picture of a plan by a VideoDecoder of its own."""
    pictures = []
    for request in plan:
        output = request.output
        with ff.VideoDecoder(
            request.source, size=output.size, crop=output.crop, still_quality=output.still_quality
        ) as decoder:
            pictures.append(np.stack([decoder[int(i)] for i in request.indices]))
    return np.stack(pictures)


@pytest.mark.parametrize(("quality", "reduction", "crop"), pairwise(QUALITIES, list(SIZES), CROPS), ids=repr)
def test_every_way_to_a_picture_gives_the_same_bytes(
    catalog: ff.Catalog, tmp_path: Path, quality: StillQuality, reduction: int, crop: Any
) -> None:
    plan = plan_stills(catalog, quality, SIZES[reduction], crop)
    expected = by_decoders(plan)
    assert np.array_equal(load(plan, workers=0), expected)
    assert np.array_equal(load(plan, workers=2), expected)
    # Other boxes are drawn in the next epoch: a cache of outputs warns that it is of no use.
    for form in ("planes",) if plan.clips.is_random else ("output", "planes"):
        with ff.FrameCache(tmp_path / form, form=form) as cache:
            assert np.array_equal(load(plan, workers=1, cache=cache), expected), form
            with ff.ClipLoader(plan, batch_size=8, workers=0, cache=cache) as loader:
                assert np.array_equal(next(iter(loader)).data, expected), form
                assert loader.stats().counts.frames_decoded == 0, form
    with ff.FrameCache(tmp_path / "built") as cache:
        ff.cache.build(plan, cache)
        with ff.ClipLoader(plan, batch_size=8, workers=0, cache=cache) as loader:
            assert np.array_equal(next(iter(loader)).data, expected)
            assert loader.stats().counts.frames_decoded == 0


@pytest.mark.parametrize("quality", ["scaled", pytest.param("exact", marks=pytest.mark.test_all)])
def test_processes_and_data_sets_give_the_same_bytes(catalog: ff.Catalog, quality: StillQuality) -> None:
    pytest.importorskip("torch")
    plan = plan_stills(catalog, quality, SIZES[4], None)
    expected = by_decoders(plan)
    assert np.array_equal(load(plan, workers=1, kind="processes"), expected)
    dataset = ff.torch.ClipDataset(plan)
    assert np.array_equal(np.stack([item["data"].numpy() for item in dataset.__getitems__(list(range(8)))]), expected)


def test_clips_of_both_qualities_in_one_call_do_not_mix(catalog: ff.Catalog, tmp_path: Path) -> None:
    requests = [
        ff.DecodeRequest(source=catalog[0], indices=[0, 0], output=OutputSpec(SIZES[4], crop, still_quality=quality))
        for quality in QUALITIES
        for crop in (None, (0, 0, 150, 210))
    ]
    expected = by_decoders(ff.plan_requests(requests))
    assert len({each.tobytes() for each in expected}) == 4
    for form in ("output", "planes"):
        with ff.FrameCache(tmp_path / form, form=form) as cache:
            for _ in range(2):
                assert np.array_equal(load(ff.plan_requests(requests), workers=0, cache=cache), expected)


def test_what_is_decoded_at_full_size_is_stored_once_for_both_qualities(catalog: ff.Catalog, tmp_path: Path) -> None:
    for form in ("output", "planes"):
        with ff.FrameCache(tmp_path / form, form=form) as cache:
            for quality, num_decoded in zip(QUALITIES, (8, 0), strict=True):
                with ff.ClipLoader(
                    plan_stills(catalog, quality, SIZES[1], None), batch_size=8, workers=0, cache=cache
                ) as loader:
                    next(iter(loader))
                    assert loader.stats().counts.frames_decoded == num_decoded


def test_a_build_stores_planes_for_each_divisor(catalog: ff.Catalog, tmp_path: Path) -> None:
    requests = [
        ff.DecodeRequest(source=catalog[0], indices=[0], output=OutputSpec((20, 20), crop, still_quality="scaled"))
        for crop in ((0, 0, 300, 421), (0, 0, 160, 170), (0, 0, 90, 90), (0, 0, 50, 50))
    ]
    plan = ff.plan_requests(requests)
    with ff.FrameCache(tmp_path / "cache", form="planes") as cache:
        assert ff.cache.build(plan, cache).frames_stored == 3
        with ff.ClipLoader(plan, batch_size=4, workers=0, cache=cache) as loader:
            assert np.array_equal(next(iter(loader)).data, by_decoders(plan))
            assert loader.stats().counts.frames_decoded == 0


def test_the_clip_command_saves_the_exact_picture(folder: Path, tmp_path: Path) -> None:
    size = SIZES[4]
    words = ["clip", str(folder / "a.jpg"), "--indices", "0", "--size", f"{size[0]}x{size[1]}", "-o", str(tmp_path)]
    assert main(words) == 0
    (file,) = tmp_path.iterdir()
    with ff.VideoDecoder(folder / "a.jpg", size=size) as decoder:
        assert np.array_equal(np.asarray(Image.open(file)).transpose(2, 0, 1), decoder[0])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("reduction", SIZES)
def test_I01_a_scaled_picture_is_pillows_scaled_picture_turned_and_resized(
    tmp_path: Path, reduction: int, orientation: int
) -> None:
    jpeg, path = saved(photo(1), "JPEG", quality=90), tmp_path / "a.jpg"
    path.write_bytes(with_segments(jpeg, segment(0xFFE1, b"Exif\0\0" + exif(orientation))))
    size = SIZES[reduction][:: 1 if orientation < 5 else -1]
    with ff.VideoDecoder(path, size=size, still_quality="scaled") as decoder:
        got = decoder[0]
    with Image.open(path) as image:
        image.draft(None, (WIDTH // reduction, HEIGHT // reduction))
        assert image.size == (-(-WIDTH // reduction), -(-HEIGHT // reduction))
        # A last row or column that stands for less than half a pixel is left out.
        small = image.crop((0, 0, int(WIDTH / reduction + 0.5), int(HEIGHT / reduction + 0.5)))
        small.getexif()[ORIENTATION] = orientation
        ImageOps.exif_transpose(small).save(tmp_path / "small.png", exif=b"")
    with ff.VideoDecoder(tmp_path / "small.png", size=size) as decoder:
        assert np.array_equal(got, decoder[0])


@pytest.mark.parametrize("crop", [None, (33, 57, 201, 301), (0, 0, 299, 420), (99, 120, 201, 301)])
@pytest.mark.parametrize("size", [(37, 50), (24, 37), (12, 18)])
def test_scaled_pictures_are_near_those_of_pillow(catalog: ff.Catalog, folder: Path, crop: Any, size: Any) -> None:
    for row in (0, 1, 3):
        source = catalog.source(row)
        with ff.VideoDecoder(source, size=size, crop=crop, still_quality="scaled") as decoder:
            got = decoder[0].transpose(1, 2, 0)
        with Image.open(io.BytesIO(Path(str(source)).read_bytes())) as image:
            top, left, rows, columns = crop or (0, 0, HEIGHT, WIDTH)
            box = left, top, left + columns, top + rows
            wanted = image.convert("RGB").resize(size[::-1], Image.Resampling.BILINEAR, box=box)
        # Of noise of all scales, which is further from Pillow's than photos are; a box off by a pixel gives 25 dB.
        assert psnr(got, np.asarray(wanted)) > 35


@given(st.data())
def test_a_crop_moves_by_half_a_reduced_pixel_at_most(data: st.DataObject) -> None:
    reduction = data.draw(st.sampled_from([2, 4, 8]))
    size, box = data.draw(st.tuples(*[st.integers(64, 5000)] * 2)), None
    if data.draw(st.booleans()):
        corner = [data.draw(st.integers(0, side - 4 * reduction)) for side in size]
        box = (
            *corner,
            *[data.draw(st.integers(4 * reduction, side - at)) for side, at in zip(size, corner, strict=True)],
        )
    stream = stream_of(*size)
    got = reduce_crop(OutputSpec((1, 1), box, still_quality="scaled"), reduction, stream).crop or (0, 0, *size)
    wanted = box or (0, 0, *size)
    for axis, side in enumerate(reduce_size(*size, reduction)):
        first, last = got[axis], got[axis] + got[axis + 2]
        assert 0 <= first < last <= side
        assert abs(first - wanted[axis] / reduction) <= 0.5
        assert abs(last - (wanted[axis] + wanted[axis + 2]) / reduction) <= 0.5


def stream_of(height: int, width: int, exif_orientation: int = 1) -> StreamFacts:
    rotation, mirrored = convert_exif_orientation(exif_orientation)
    return describe_still_stream("jpeg", "mjpeg", (width, height), "rgb24", rotation, mirrored=mirrored)


@given(st.data())
def test_I01_a_crop_of_a_turned_picture_is_the_crop_of_the_stored_one_turned(data: st.DataObject) -> None:
    reduction, orientation = data.draw(st.sampled_from([2, 4, 8])), data.draw(st.integers(1, 8))
    stored = data.draw(st.tuples(*[st.integers(64, 500)] * 2))
    turned = stream_of(*stored, orientation)
    shown = turned.displayed
    corner = [data.draw(st.integers(0, side - 4 * reduction)) for side in shown]
    sides = [data.draw(st.integers(4 * reduction, side - at)) for side, at in zip(shown, corner, strict=True)]
    box = corner[0], corner[1], sides[0], sides[1]
    crop = reduce_crop(OutputSpec((1, 1), box), reduction, turned).crop
    assert crop is not None
    small = stream_of(*reduce_size(*stored, reduction), orientation)
    whole = OutputSpec((1, 1), _turn_to_stored_box(box, turned))
    assert _turn_to_stored_box(crop, small) == reduce_crop(whole, reduction, stream_of(*stored)).crop


def reduction_of(source: Any, size: Any, crop: Any = None, quality: StillQuality = "scaled") -> int:
    return find_reduction(build_index(source), OutputSpec(size, crop, still_quality=quality))


def test_the_divisor_is_the_largest_that_leaves_twice_the_size(folder: Path) -> None:
    path = folder / "a.jpg"
    for divisor in (2, 4, 8):
        rows, columns = HEIGHT // (2 * divisor), WIDTH // (2 * divisor)
        assert reduction_of(path, (rows, columns)) == divisor
        assert reduction_of(path, (rows + 1, columns)) == divisor // 2
        assert reduction_of(path, (rows, columns + 1)) == divisor // 2
        assert reduction_of(path, (rows, columns), quality="exact") == 1
        box = 2 * divisor * 5, 2 * divisor * 7
        assert reduction_of(path, (5, 7), (0, 0, *box)) == divisor
        assert reduction_of(path, (5, 7), (0, 0, box[0] - 1, box[1])) == divisor // 2
    assert reduction_of(path, None) == 1
    assert reduction_of(folder / "g.png", (10, 10)) == 1
    # The turned picture: its displayed height is the stored width.
    assert reduction_of(folder / "c.jpg", (HEIGHT // 8, WIDTH // 8)) == 4


def test_pictures_of_a_sequence_are_scaled_by_the_first_and_others_decoded_whole(tmp_path: Path) -> None:
    frames = [photo(1), photo(2), photo(3, 600, 500), photo(4)]
    for number, image in enumerate(frames):
        image.save(tmp_path / f"{number}.{'png' if number == 3 else 'jpg'}", quality=95)
    sequence = ff.ImageSequence(tmp_path, fps=10)
    index = build_index(MediaSource.of(sequence), "none")
    output = OutputSpec((30, 40), still_quality="scaled")
    with ff.VideoDecoder(sequence, size=(30, 40), still_quality="scaled", frame_index=index) as decoder:
        got = decoder.get_frames_at([0, 1, 2, 3]).data
    assert find_reduction(index, output) == 4
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        quality: StillQuality = "exact" if number == 2 else "scaled"
        with ff.VideoDecoder(path, size=(30, 40), still_quality=quality) as decoder:
            assert np.array_equal(got[number], decoder[0]), path
    with (
        ff.VideoDecoder(sequence, size=(30, 40), crop=(0, 0, 299, 399), still_quality="scaled", frame_index=index) as d,
        pytest.raises(ff.FormatChanged, match="got 600x500"),
    ):
        d[2]


OTHERS = {
    "as large when reduced": saved(photo(2, WIDTH + 2, HEIGHT), "JPEG"),
    "as large as the reduced": saved(photo(2, -(-WIDTH // 4), -(-HEIGHT // 4)), "JPEG"),
    "a PNG of that size": saved(photo(2, -(-WIDTH // 4), -(-HEIGHT // 4)), "PNG"),
    **{
        f"turned, EXIF {number}": with_segments(
            saved(photo(2, *((WIDTH, HEIGHT) if number < 5 else (HEIGHT, WIDTH))), "JPEG"),
            segment(0xFFE1, b"Exif\0\0" + exif(number)),
        )
        for number in (2, 3, 4, 5, 6, 7, 8)
    },
}


@pytest.mark.parametrize("crop", [None, (1, 3, HEIGHT - 8, WIDTH - 8)])
@pytest.mark.parametrize("other", OTHERS)
def test_a_picture_unlike_the_first_of_its_sequence_is_what_it_is_at_full_size(
    other: str, crop: Any, tmp_path: Path
) -> None:
    pictures, size = tmp_path / "pictures", (30, 40)
    pictures.mkdir()
    photo(1).save(pictures / "0.jpg")
    (pictures / "1.jpg").write_bytes(OTHERS[other])
    catalog = ff.scan(pictures, image_folders="video", fps=10, verify="none")
    assert find_reduction(catalog.frame_index(0), OutputSpec(size, crop, still_quality="scaled")) == 4

    def read(quality: StillQuality, cache: ff.FrameCache | None = None) -> Any:
        options: Any = {"seed": 0, "size": size, "crop": crop, "still_quality": quality}
        plan = ff.plan_clips(catalog, ff.AtIndices([1]), **options)
        with ff.ClipLoader(plan, batch_size=1, workers=0, cache=cache, on_error="skip") as loader:
            batch = next(iter(loader))
        return batch.data if batch.ok.all() else type(batch.errors[0])

    expected = read("exact")
    if crop is not None and "turned" not in other:
        assert expected is ff.FormatChanged
    with ff.FrameCache(tmp_path / "a") as outputs, ff.FrameCache(tmp_path / "b", form="planes") as planes:
        for cache in (None, outputs, outputs, planes, planes):  # the second time what the cache has
            assert np.array_equal(read("scaled", cache), expected)


# --- states and fingerprints ----------------------------------------------------------------------


def test_states_without_a_quality_belong_to_exact_plans(catalog: ff.Catalog) -> None:
    exact, scaled = (plan_stills(catalog, quality, (32, 50), None) for quality in QUALITIES[::-1])
    state = exact.state_dict()
    assert "still_quality" not in state["options"]
    assert exact.with_state(state).fingerprint == exact.fingerprint
    with pytest.raises(ff.UsageError, match=r"still_quality='exact', here: still_quality='scaled'"):
        scaled.with_state(state)
    with pytest.raises(ff.UsageError, match=r"still_quality='scaled', here: still_quality='exact'"):
        exact.with_state(scaled.state_dict())


@pytest.mark.parametrize("options", [{}, {"crop": (0, 0, 20, 20)}])
def test_states_of_plans_that_resize_nothing_do_not_name_a_quality(catalog: ff.Catalog, options: Any) -> None:
    exact, scaled = (
        ff.plan_clips(catalog, ff.Uniform(1), seed=1, still_quality=quality, **options) for quality in QUALITIES[::-1]
    )
    assert exact.state_dict() == scaled.state_dict()


def test_states_over_other_pictures_do_not_name_a_quality(catalog: ff.Catalog) -> None:
    pngs = catalog.filter(codec="png")
    exact, scaled = (plan_stills(pngs, quality, (32, 50), None) for quality in QUALITIES[::-1])
    assert exact.state_dict() == scaled.state_dict()


def test_the_text_of_an_exact_output_is_what_it_was() -> None:
    output = OutputSpec((3, 4))
    assert repr(output) == "OutputSpec(size=(3, 4), crop=None, dimension_order='NCHW')"
    assert repr(replace(output, still_quality="scaled")).endswith("'NCHW', still_quality='scaled')")


@pytest.mark.parametrize(
    "call",
    [
        lambda catalog: plan_stills(catalog, "fast", (4, 4), None),  # type: ignore[arg-type]
        lambda catalog: ff.plan_requests([ff.DecodeRequest(catalog[0], [0])], still_quality="fast"),
        lambda catalog: ff.VideoDecoder(catalog[0], still_quality="fast"),
        lambda _: OutputSpec(still_quality="fast"),  # type: ignore[arg-type]
    ],
    ids=["plan_clips", "plan_requests", "VideoDecoder", "OutputSpec"],
)
def test_another_quality_is_refused(catalog: ff.Catalog, call: Callable[[ff.Catalog], object]) -> None:
    with pytest.raises(ff.UsageError, match=r"still_quality: expected 'scaled' or 'exact', got the string 'fast'"):
        call(catalog)
