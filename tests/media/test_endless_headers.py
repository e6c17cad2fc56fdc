"""Headers without end are refused by the limit that they pass, after few reads; a stop is heeded anywhere."""

from __future__ import annotations

import itertools
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import DEFAULT_LIMITS, BytesReader, Limits
from framefeed.errors import FramefeedError, LimitExceeded
from framefeed.index import build_index, probe
from framefeed.mp4 import BOX_COST, FREE_BOXES, read_layout
from framefeed.parallel import DEADLINE, Cancelled, cancelled_by, time_limit
from framefeed.pictures import LEAST_READ_BYTES, decode_still
from framefeed.pictures import PICTURE_HEAD_BYTES as HEAD_BYTES
from framefeed.scanning import scan
from tests.media.endless import PICTURES, EndlessFile, movie
from tests.pathologies.bitstreams import make_box
from tests.pictures.made import chunk, made, picture, saved, with_chunks

LIMITS = Limits(max_header_bytes=2**22)
EMPTY = make_box("free", b"")
ODD = "late exif 6.png"
STILLS = ("exif 6.jpeg", "mpo.jpeg", "RGB.png", ODD, "animation.gif", "RGB lossy exif 5.webp", "P.bmp", "pages.tiff")


@pytest.mark.parametrize("name", PICTURES)
def test_S04_a_picture_without_end_is_refused_after_a_few_reads(name: str) -> None:
    file = PICTURES[name]()
    with pytest.raises(LimitExceeded, match="max_header_bytes") as caught:
        probe(file, limits=LIMITS)
    assert caught.value.limit == "max_header_bytes"
    assert caught.value.source == "endless"
    # Our reader's and Pillow's, each within the limit.
    assert file.bytes_read <= 3 * LIMITS.max_header_bytes
    assert file.reads <= 3 * LIMITS.max_header_bytes // LEAST_READ_BYTES


def test_S04_the_limit_by_default_allows_a_quarter_of_a_million_reads() -> None:
    # Each takes Pillow about 3 us: this is what bounds the time of such a file.
    assert DEFAULT_LIMITS.max_header_bytes // LEAST_READ_BYTES == 2**18


@pytest.mark.parametrize("name", ["JPEG of fill bytes", "PNG of small chunks"])
def test_S04_a_scan_has_a_row_for_a_picture_without_end(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hole.jpg"
    path.write_bytes(PICTURES[name]().read(2**16))
    os.truncate(path, 10**11)
    with pytest.raises(LimitExceeded):
        probe(path, limits=LIMITS)
    catalog = scan(path, limits=LIMITS)
    assert [kind for _, kind, _ in catalog.failures] == ["LimitExceeded"]


def test_S04_pictures_are_decoded_with_few_reads_too() -> None:
    png = with_chunks(saved(picture(), "PNG"), behind=chunk(b"prIv", b"") * 5000)
    with pytest.raises(LimitExceeded, match="max_header_bytes"):
        decode_still(png, "png", LIMITS)
    assert decode_still(png, "png", DEFAULT_LIMITS).size == picture().size


def test_S04_a_tile_larger_than_the_limits_is_refused_before_it_is_allocated() -> None:
    data = made()["tiled <.tiff"]
    assert decode_still(data, "tiff", DEFAULT_LIMITS).size
    entry = struct.pack("<HHII", 322, 4, 1, 48)
    assert entry in data
    wide = data.replace(entry, struct.pack("<HHII", 322, 4, 1, 2**30))
    with pytest.raises(LimitExceeded, match="1073741824x"):
        decode_still(wide, "tiff", DEFAULT_LIMITS)


# --- the fast route of a scan -----------------------------------------------------------------------


def test_S04_the_fast_route_keeps_the_limits_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(saved(picture(), "PNG"))
    side = max(picture().size)
    assert not scan(tmp_path, limits=Limits(max_side=side)).failures
    assert [kind for _, kind, _ in scan(tmp_path, limits=Limits(max_side=side - 1)).failures] == ["LimitExceeded"]


# --- boxes without end ------------------------------------------------------------------------------

FEW = Limits(max_header_bytes=2**20)
TOO_MANY = EMPTY * (FREE_BOXES + 2**20 // BOX_COST + 1)
NOT_TOO_MANY = EMPTY * (FREE_BOXES // 2)
MOVIES = {
    "before moov": lambda parts: movie(before=parts),
    "behind moov": lambda parts: movie(behind=parts),
    "in moov": lambda parts: movie(inside="moov", parts=parts),
    "in trak": lambda parts: movie(inside="trak", parts=parts),
    "behind an odd box": lambda parts: movie(before=make_box("abcd", b"") + parts),
    "behind an odd box in moov": lambda parts: movie(inside="moov", parts=make_box("abcd", b"") + parts),
    "in a box of its own": lambda parts: movie(
        inside="moov", parts=make_box("udta", make_box("meta", bytes(4) + parts))
    ),
}


@pytest.mark.parametrize("name", MOVIES)
@pytest.mark.parametrize("ask", [probe, build_index])
def test_S04_an_mp4_of_boxes_without_end_is_refused(name: str, ask: object) -> None:
    with pytest.raises(LimitExceeded, match="max_header_bytes") as caught:
        ask(MOVIES[name](TOO_MANY), limits=FEW)  # type: ignore[operator]
    assert caught.value.limit == "max_header_bytes"
    assert ask(MOVIES[name](NOT_TOO_MANY), limits=FEW) is not None  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["moof", "sidx", "mdat", "uuid"])
def test_S04_empty_boxes_of_any_kind_are_counted(kind: str) -> None:
    with pytest.raises(LimitExceeded, match="boxes"):
        probe(movie(behind=make_box(kind, b"") * (FREE_BOXES + 200)), limits=FEW)


def test_S04_two_million_empty_boxes_are_refused_by_default() -> None:
    file = EndlessFile(movie(), EMPTY, size=len(movie()) + 8 * 2_000_000)
    with pytest.raises(LimitExceeded, match="boxes"):
        probe(file)
    assert file.reads <= 20


class _CountedReader(BytesReader):
    reads = 0

    def read_into(self, buffer: memoryview, offset: int) -> int:
        self.reads += 1
        return super().read_into(buffer, offset)


@given(sizes=st.lists(st.sampled_from([8, 9, 16, 30, 4088, 4096, 5000, 65528, 65536, 70000]), max_size=40))
def test_blocks_of_boxes_are_read_as_one_by_one(sizes: list[int]) -> None:
    whole = movie(before=b"".join(make_box("free", bytes(size - 8)) for size in sizes))
    layout = read_layout(BytesReader(whole), len(whole), DEFAULT_LIMITS)
    begin = whole.index(b"moov") + 4
    assert layout.movie == (begin, begin - 8 + int.from_bytes(whole[begin - 8 : begin - 4], "big"))


def test_many_small_boxes_are_read_in_blocks_and_a_few_far_ones_alone() -> None:
    many, far = movie(before=EMPTY * 8000), movie(before=make_box("free", bytes(2**20)) * 3)
    for whole, most_reads in ((many, 3), (far, 6)):
        reader = _CountedReader(whole)
        read_layout(reader, len(whole), DEFAULT_LIMITS)
        assert reader.reads <= most_reads


# --- stopping ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_a_deadline_ends_long_reads(name: str) -> None:
    with time_limit(0, "hole"), pytest.raises(LimitExceeded, match="hole: took longer than 0 s") as caught:
        probe(PICTURES[name]())
    assert caught.value.limit == DEADLINE


@pytest.mark.parametrize("name", STILLS)
def test_a_cancelled_run_ends_at_any_check_and_is_no_damage(name: str) -> None:
    data = made()[name]

    def asked() -> object:
        return build_index(data, "full")

    looks = itertools.count()
    with cancelled_by(lambda: next(looks) < 0):
        asked()
    total = next(looks)
    for last in {*range(min(total, 12)), total // 2, total - 1} - {-1}:
        look = itertools.count()
        with cancelled_by(lambda look=look, last=last: next(look) >= last), pytest.raises(Cancelled):  # type: ignore[misc]
            asked()


def test_no_real_answer_is_near_the_limits(media_root: Path) -> None:
    # Real headers are answered with a hundredth of what the limits allow by default.
    few = Limits(max_header_bytes=DEFAULT_LIMITS.max_header_bytes // 100)
    images = sorted(
        path for path in (media_root / "image").rglob("*") if path.is_file() and path.stat().st_size > HEAD_BYTES
    )
    assert images
    for path in images[::7]:
        assert _answer(path, few) == _answer(path, DEFAULT_LIMITS)


def _answer(path: Path, limits: Limits) -> object:
    try:
        return probe(path, limits=limits)
    except FramefeedError as error:
        return str(error)
