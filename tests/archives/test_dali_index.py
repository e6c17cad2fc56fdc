"""DALI's index files: read where every header agrees, refused as a whole else, and written as wds2idx writes them."""

from __future__ import annotations

import pytest

from framefeed._values import BytesReader, Limits
from framefeed.archives import MemberTable, OddIndex, read_dali_index, write_dali_index
from framefeed.errors import UsageError
from tests.archives.tars import (
    BLOCK,
    END,
    FORMATS,
    CountingReader,
    make_header,
    make_info,
    make_member,
    make_mixed,
    make_pax,
    make_tar,
    read,
    rows,
)

ARCHIVE = make_tar([
    (make_info("d/0001.jpg"), b"x" * 700), (make_info("d/0001.cls"), b"7"), (make_info("d/0002.jpg"), b"y" * 512),
    (make_info("d/0002.seg.PNG"), b""), (make_info("d/0001.jpg"), b"again"),
], FORMATS["ustar"])  # fmt: skip
# What DALI's wds2idx writes for it.
INDEX = b"""v1.2 3
jpg 512 700 d/0001.jpg cls 2048 1 d/0001.cls
jpg 3072 512 d/0002.jpg seg.PNG 4096 0 d/0002.seg.PNG
jpg 4608 5 d/0001.jpg
"""
OLD_INDEX = b"v1.1 3\njpg 512 700 cls 2048 1\njpg 3072 512 seg.PNG 4096 0\njpg 4608 5\n"


def read_index(index: bytes, archive: bytes = ARCHIVE, limits: Limits | None = None) -> tuple[MemberTable, list[int]]:
    return read_dali_index(index, BytesReader(archive), limits or Limits())


def test_the_index_is_that_of_wds2idx() -> None:
    assert write_dali_index(read(ARCHIVE)) == INDEX


@pytest.mark.parametrize("index", [INDEX, OLD_INDEX])
def test_an_index_is_what_a_walk_finds(index: bytes) -> None:
    table, firsts = read_index(index)
    assert rows(table) == rows(read(ARCHIVE))
    assert firsts == [0, 2, 4]


def test_members_without_a_field_are_left_out() -> None:
    data = make_member(b"README") + make_member(b".hidden") + make_header(b"d.x", 0, b"5") + make_member(b"d/.hidden")
    data += make_member(b"a.txt", b"1") + END
    index = write_dali_index(read(data))
    assert index == b"v1.2 1\ntxt 2560 1 a.txt\n"
    assert list(read_index(index, data)[0].names) == ["a.txt"]


@pytest.mark.parametrize("name", [b"a b.txt", b"a.t t", b"a\n.txt", b"a\t.txt", b"a."])
def test_names_that_an_index_cannot_say_are_refused(name: bytes) -> None:
    with pytest.raises(UsageError, match="cannot stand in an index"):
        write_dali_index(read(make_member(name) + END))


def test_an_archive_without_fields_has_no_index() -> None:
    with pytest.raises(UsageError, match="nothing to index"):
        write_dali_index(read(make_member(b"README") + END))


LIES = {
    "size": (b"jpg 512 700", b"jpg 512 699"),
    "offset": (b"cls 2048 1", b"cls 1536 1"),
    "offset between blocks": (b"cls 2048 1", b"cls 2049 1"),
    "name": (b"d/0001.cls", b"d/0009.cls"),
    "extension": (b"cls 2048", b"txt 2048"),
    "offset beyond the end": (b"jpg 4608 5", b"jpg 460800 5"),
    "size beyond the end": (b"jpg 4608 5", b"jpg 4608 50000000"),
    "endless size": (b"jpg 4608 5", b"jpg 4608 " + b"9" * 30),
    "size near 2**63": (b"jpg 4608 5", b"jpg 4608 9223372036854775807"),
    "negative size": (b"jpg 4608 5", b"jpg 4608 -5"),
    "first header before the file": (b"jpg 512 700", b"jpg 0 700"),
    "order": (b"jpg 512 700 d/0001.jpg cls 2048 1 d/0001.cls", b"cls 2048 1 d/0001.cls jpg 512 700 d/0001.jpg"),
    "the same twice": (b"cls 2048 1 d/0001.cls", b"cls 2048 1 d/0001.cls cls 2048 1 d/0001.cls"),
    "count": (b"v1.2 3", b"v1.2 4"),
    "version": (b"v1.2 3", b"v1.3 3"),
    "version of other words": (b"v1.2 3", b"v1.1 3"),
    "no version": (b"v1.2 3\n", b""),
    "words": (b"jpg 4608 5 d/0001.jpg", b"jpg 4608 5"),
    "cut": (b"d/0001.jpg\n", b"d/0001.jp"),
    "text": (b"700", b"seven"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_an_index_that_lies_is_refused_as_a_whole(case: str) -> None:
    old, new = LIES[case]
    assert old in INDEX
    with pytest.raises(OddIndex):
        read_index(INDEX.replace(old, new))


@pytest.mark.parametrize("index", [b"", b"\n", b"v1.2 0\n", b"v1.2 1\n\n", b"v1.2\n", b"\xff\xfe" * 40])
def test_what_is_no_index_is_refused(index: bytes) -> None:
    with pytest.raises(OddIndex):
        read_index(index)


def test_an_index_of_another_archive_is_refused() -> None:
    for archive in (b"", make_mixed(), ARCHIVE[:4200], bytes(len(ARCHIVE)), ARCHIVE[:600] + b"z" * 5000):
        with pytest.raises(OddIndex):
            read_index(INDEX, archive)


def test_a_header_with_a_wrong_checksum_is_refused() -> None:
    changed = bytearray(ARCHIVE)
    changed[3 * BLOCK + 110] ^= 1
    for index in (INDEX, OLD_INDEX):
        with pytest.raises(OddIndex, match="no header of a file"):
            read_index(index, bytes(changed))


def test_members_whose_names_are_elsewhere_are_left_to_the_walk() -> None:
    data = make_pax((b"path", b"long.txt")) + make_member(b"short.txt", b"1") + END
    with pytest.raises(OddIndex, match="another name"):
        read_index(write_dali_index(read(data)), data)


def test_as_many_members_as_the_limit_allows_are_read() -> None:
    assert len(read_index(INDEX, limits=Limits(max_members=5))[0]) == 5
    with pytest.raises(OddIndex, match="over 4 members"):
        read_index(INDEX, limits=Limits(max_members=4))


def test_headers_are_read_in_windows() -> None:
    data = make_tar([(make_info(f"{n:06}.txt"), b"x" * 100) for n in range(5000)], FORMATS["ustar"])
    reader = CountingReader(data)
    table, firsts = read_dali_index(write_dali_index(read(data)), reader, Limits())
    assert rows(table) == rows(read(data))
    assert firsts == list(range(5000))
    assert len(reader.requests) < 10
