"""Every codec: exact or close, whatever it is given, and the same in all threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import CODECS as ENTRIES
from framefeed.cache.codecs._registry import find_codec, find_codec_for, find_exact_codecs, list_codecs
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout, rebuild_picture
from framefeed.errors import UsageError
from tests.cache.codecs.pictures import (
    ALL_FORMATS,
    CODECS,
    EXACT,
    KINDS,
    LABELS,
    LOSSY,
    USUAL_FORMATS,
    content,
    natural,
    pictures,
    stored,
)
from tests.judges import psnr

Picture = tuple[PlaneLayout, Pixels]


def taken(codec: FrameCodec, formats: list[str]) -> list[str]:
    return [name for name in formats if codec.can_store(PlaneLayout(name, 16, 16))]


def read_back(codec: FrameCodec, layout: PlaneLayout, data: bytes) -> Pixels:
    """Both ways of reading, which must agree."""
    own = codec.decode(memoryview(data), layout)
    assert own.shape == (layout.nbytes,)
    assert own.dtype == np.uint8
    out = np.full(layout.nbytes, 77, np.uint8)
    codec.decode_into(memoryview(data), layout, out)
    np.testing.assert_array_equal(own, out)
    return out


# --- exact ------------------------------------------------------------------------------------------


def check_exact(codec: FrameCodec, picture: Picture) -> None:
    """The law of exact codecs."""
    layout, planes = picture
    before = planes.copy()
    data = stored(codec, layout, planes)
    np.testing.assert_array_equal(planes, before)
    np.testing.assert_array_equal(read_back(codec, layout, data), planes)
    assert len(data) <= 1.5 * layout.nbytes + 4096


@pytest.mark.parametrize("codec", EXACT, ids=lambda codec: codec.label)
@given(st.data())
def test_exact_codecs_restore_every_byte(codec: FrameCodec, data: st.DataObject) -> None:
    check_exact(codec, data.draw(pictures(taken(codec, USUAL_FORMATS))))


@pytest.mark.parametrize("codec", EXACT, ids=lambda codec: codec.label)
def test_exact_codecs_are_exact_for_every_format_that_they_take(codec: FrameCodec) -> None:
    formats = taken(codec, ALL_FORMATS)
    assert len(formats) >= 12
    for number, name in enumerate(formats):
        for width, height in ((1, 1), (35, 18)):
            layout = PlaneLayout(name, width, height, 1, 1, True, 1)
            check_exact(codec, (layout, content(KINDS[number % len(KINDS)], layout, number)))


@dataclass(frozen=True)
class _Wrong:
    """A codec with one thing wrong."""

    inner: FrameCodec
    spoil: Callable[[Pixels], Pixels]
    name: str = "wrong"
    label: str = "wrong"
    recipe: str = ""
    is_exact: bool = True

    def can_store(self, layout: PlaneLayout) -> bool:
        return self.inner.can_store(layout)

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes | memoryview:
        return self.inner.encode(layout, self.spoil(planes))

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        self.inner.decode_into(data, layout, out)

    def decode(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        return self.inner.decode(data, layout)


def _in_place(planes: Pixels) -> Pixels:
    planes //= 2
    return planes


WRONG: dict[str, FrameCodec] = {
    "one bit is lost": _Wrong(find_codec("lz4"), lambda planes: planes & 254),
    "the last byte is lost": _Wrong(find_codec("raw"), lambda planes: np.append(planes[:-1], np.uint8(0))),
    "the first and the last change places": _Wrong(find_codec("zstd"), lambda planes: planes[::-1].copy()),
    "the planes are changed": _Wrong(find_codec("raw"), _in_place),
    "it is lossy": find_codec("jpeg:100"),
}


@pytest.mark.parametrize("name", WRONG)
def test_codecs_that_are_not_exact_are_caught(name: str) -> None:
    layout = PlaneLayout("yuv420p", 30, 20)
    with pytest.raises(AssertionError):
        check_exact(WRONG[name], (layout, content("noise", layout)))


def test_the_small_codec_makes_natural_pictures_smaller_than_others_do() -> None:
    for name in (RGB_PLANAR, "yuv420p"):
        layout = PlaneLayout(name, 256, 192)
        planes = natural(layout)
        sizes = {label: len(stored(find_codec(label), layout, planes)) for label in ("lz4", "zstd", "magicyuv")}
        assert sizes["magicyuv"] < 0.6 * sizes["zstd"]
        assert sizes["zstd"] < sizes["lz4"]


# --- lossy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quality", [50, 90, 100])
@pytest.mark.parametrize("name", taken(LOSSY[0], USUAL_FORMATS))
def test_lossy_codecs_are_close_and_not_exact(quality: int, name: str) -> None:
    codec = find_codec(f"jpeg:{quality}")
    layout = PlaneLayout(name, 203, 117)
    # Channels of one picture: those of others have no chroma in common.
    planes = natural(PlaneLayout("gray", 203, 117)).repeat(3) if name in ("rgb24", "bgr24") else natural(layout)
    if name in (RGB_PLANAR, "gbrp"):
        planes = np.tile(natural(PlaneLayout("gray", 203, 117)), 3)
    back = read_back(codec, layout, stored(codec, layout, planes))
    assert not np.array_equal(back, planes)
    assert psnr(back, planes) > {50: 38, 90: 44, 100: 52}[quality]


@given(st.data())
def test_lossy_codecs_take_any_content(data: st.DataObject) -> None:
    for codec in LOSSY:
        layout, planes = data.draw(pictures(taken(codec, USUAL_FORMATS)))
        back = read_back(codec, layout, stored(codec, layout, planes))
        if len(set(planes)) == 1:
            assert np.abs(back.astype(int) - planes).max() <= 3


def test_lossy_codecs_keep_channels_apart_and_in_order() -> None:
    codec = find_codec("jpeg:95")
    for name in taken(codec, USUAL_FORMATS):
        layout = PlaneLayout(name, 48, 32)
        levels = np.array([200, 90, 30])
        if name in ("rgb24", "bgr24"):
            planes = np.tile(levels, 48 * 32).astype(np.uint8)
        else:
            parts = [
                np.full(rows * columns, level) for (rows, columns), level in zip(layout.planes, levels, strict=False)
            ]
            planes = np.concatenate(parts).astype(np.uint8)
        back = read_back(codec, layout, stored(codec, layout, planes))
        assert np.abs(back.astype(int) - planes).max() <= 3, name


def test_the_recipe_of_lossy_codecs() -> None:
    recipes = {find_codec(f"jpeg:{quality}").recipe for quality in (1, 50, 90)}
    assert len(recipes) == 3
    assert all("simplejpeg" in recipe and "4:4:4" in recipe for recipe in recipes)


# --- what all share ---------------------------------------------------------------------------------


@pytest.mark.parametrize("label", LABELS)
def test_the_codec_of_a_label_reads_its_frames(label: str) -> None:
    codec = find_codec(label)
    assert codec.label == label
    layout = PlaneLayout("yuv420p", 64, 48)
    planes = content("steps", layout)
    data = stored(codec, layout, planes)
    find_codec.cache_clear()
    again = find_codec(label)
    np.testing.assert_array_equal(read_back(codec, layout, data), read_back(again, layout, data))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
def test_planes_of_another_layout_are_a_usage_error(codec: FrameCodec) -> None:
    layout = PlaneLayout("yuv420p", 64, 48)
    nbytes = layout.nbytes
    for planes in (np.zeros(nbytes + 1, np.uint8), np.zeros(nbytes, np.int8), np.zeros((2, nbytes // 2), np.uint8),
                   np.zeros(2 * nbytes, np.uint8)[::2]):  # fmt: skip
        with pytest.raises(UsageError):
            codec.encode(layout, planes)


def test_formats_that_a_codec_does_not_take_are_stored_with_zstd() -> None:
    for codec in CODECS:
        for name in ALL_FORMATS:
            layout = PlaneLayout(name, 16, 16)
            chosen = find_codec_for(codec, layout)
            assert chosen.can_store(layout)
            assert chosen is codec or chosen.name == "zstd"
            if not codec.can_store(layout):
                with pytest.raises(UsageError):
                    codec.encode(layout, np.zeros(layout.nbytes, np.uint8))
    assert [
        codec.can_store(PlaneLayout("yuv420p10le", 16, 16)) for codec in (find_codec("magicyuv"), find_codec("jpeg"))
    ] == [
        False,
        False,
    ]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
def test_decoded_memory_can_become_a_picture_without_a_copy(codec: FrameCodec) -> None:
    layout = PlaneLayout("yuv420p", 128, 64)
    planes = codec.decode(memoryview(stored(codec, layout, natural(layout))), layout)
    assert np.shares_memory(np.frombuffer(rebuild_picture(layout, planes).planes[0], np.uint8), planes)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
def test_pictures_of_many_kinds_in_turn_do_not_disturb_each_other(codec: FrameCodec) -> None:
    formats = taken(codec, USUAL_FORMATS)
    layouts = [PlaneLayout(formats[number % len(formats)], 10 + 7 * number, 50 - 3 * number) for number in range(14)]
    kept = [(layout, stored(codec, layout, content("steps", layout))) for layout in layouts]
    first = [read_back(codec, layout, data).tobytes() for layout, data in kept]
    assert [read_back(codec, layout, data).tobytes() for layout, data in reversed(kept)] == first[::-1]
    assert [stored(codec, layout, content("steps", layout)) for layout in reversed(layouts)] == [
        data for _, data in reversed(kept)
    ]


def test_threads_get_the_bytes_that_one_gets() -> None:
    jobs = []
    for number in range(60):
        codec = CODECS[number % len(CODECS)]
        formats = taken(codec, USUAL_FORMATS)
        layout = PlaneLayout(formats[number % len(formats)], 40 + number % 9, 64)
        jobs.append((codec, layout, content(KINDS[number % len(KINDS)], layout, number)))

    def work(job: tuple[FrameCodec, PlaneLayout, Pixels]) -> tuple[bytes, bytes]:
        data = stored(*job)
        return data, read_back(job[0], job[1], data).tobytes()

    alone = [work(job) for job in jobs]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            assert list(threads.map(work, jobs)) == alone


# --- names ------------------------------------------------------------------------------------------


# Stored with every frame: a name that has been released never changes.
LABELS_BY_NAME = {"raw": "raw", "lz4": "lz4", "lz4hc": "lz4hc", "magicyuv": "magicyuv", "zstd": "zstd:1",
                  "jpeg": "jpeg:90"}  # fmt: skip


def test_codecs_keep_their_labels() -> None:
    assert {name: find_codec(name).label for name in ENTRIES} == LABELS_BY_NAME


@pytest.mark.parametrize("name", ENTRIES)
def test_the_registry_tells_what_a_codec_is(name: str) -> None:
    entry = ENTRIES[name]
    codec = find_codec(name)
    assert (codec.name, codec.is_exact) == (name, entry.is_exact)
    assert (codec.recipe == "") is codec.is_exact
    assert codec.can_store(PlaneLayout("yuv420p", 16, 16))
    assert codec.can_store(PlaneLayout(RGB_PLANAR, 16, 16))
    assert name in list_codecs().replace(",", " ").replace(";", " ").split()
    if entry.number:
        for number in (entry.numbers[0], entry.numbers[-1]):
            assert find_codec(f"{name}:{number}").label == f"{name}:{number}"
            assert f"{name}:{number}" in list_codecs()


@pytest.mark.parametrize(
    "spec",
    ["", "auto", "LZ4", "lz5", "lz4:1", "raw:", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "zstd:01", "zstd:1.5",
     "zstd:1 ", "zstd:\u0663", "zstd:" + "9" * 5000, "jpeg:0", "jpeg:101", "jpeg:90:1", "magicyuv:1",
     "../lz4", "lz4\0"],
)  # fmt: skip
def test_other_names_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=r"lz4.*zstd|expected a (zstd level|jpeg quality)") as raised:
        find_codec(spec)
    assert len(str(raised.value)) < 300


@given(st.one_of(st.text(max_size=12), st.from_regex(rf"({'|'.join(ENTRIES)}):?[0-9]{{0,3}}", fullmatch=True)))
def test_C12_any_text_is_a_name_of_its_codec_or_a_usage_error(spec: str) -> None:
    name, colon, number = spec.partition(":")
    levels = {name: entry.numbers for name, entry in ENTRIES.items() if entry.number}
    is_level = number.isascii() and number.isdigit() and str(int(number)) == number
    is_known = int(number) in levels.get(name, ()) if colon and is_level else not colon and name in ENTRIES
    if is_known:
        assert find_codec(spec).name == name
    else:
        with pytest.raises(UsageError, match=r"unknown codec|expected a \w+ \w+ from"):
            find_codec(spec)


def test_codecs_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {find_codec(name).label for name, entry in ENTRIES.items() if entry.is_exact}
    layout, deep = PlaneLayout("yuv420p", 32, 32), PlaneLayout("yuv420p10le", 32, 32)
    assert {codec.label for codec in find_exact_codecs([layout])} == exact
    assert {codec.label for codec in find_exact_codecs([layout, deep])} == exact - {"magicyuv"}
    monkeypatch.setattr("framefeed.cache.codecs._magicyuv._FIRST_SAFE", (99, 0, 0))
    find_codec.cache_clear()
    try:
        assert {codec.label for codec in find_exact_codecs([layout])} == exact - {"magicyuv"}
    finally:
        find_codec.cache_clear()


def test_layouts_that_differ_in_colour_alone_are_stored_alike() -> None:
    layout = PlaneLayout("yuv420p", 32, 32)
    planes = content("steps", layout)
    tagged = replace(layout, color_space=1, color_range=2, interlaced=True, chroma_location=1)
    for codec in CODECS:
        assert stored(codec, layout, planes) == stored(codec, tagged, planes)
