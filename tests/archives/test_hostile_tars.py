"""Damaged and hostile archives: a typed error that says what to do, in bounded time and memory, with ranges inside."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import tracemalloc

import pytest

from framefeed._values import BytesReader, Limits, SourceStat
from framefeed.archives import MemberKind, MemberTable, walk_tar
from framefeed.errors import CorruptMedia, LimitExceeded, UnreadableMedia
from tests.archives.tars import (
    BLOCK,
    END,
    FORMATS,
    MadeUpReader,
    Row,
    check_ranges,
    make_header,
    make_member,
    make_mixed,
    make_pax,
    read,
    read_tar,
    rows,
    sum_header,
    with_holes,
)
from tests.lengths import IS_ALL

MOST_MEMORY = 16 * 2**20
EACH = 1 if IS_ALL else 3
"""Of so many cases that differ by chance, one is tried."""


def list_headers(data: bytes) -> list[int]:
    """Offsets of all headers, extended ones included."""
    at, found = 0, []
    while at + BLOCK <= len(data) and any(data[at : at + BLOCK]):
        found.append(at)
        size = int(data[at + 124 : at + 135], 8) if data[at + 156 : at + 157] in b"0LKxg" else 0
        at += BLOCK + (size + BLOCK - 1) // BLOCK * BLOCK
    return found


def whole_before(members: list[Row], cut: int) -> list[Row]:
    return [row for row in members if row[1] + row[2] <= cut]


@pytest.mark.parametrize("form", FORMATS)
def test_an_archive_cut_anywhere_keeps_the_members_before_the_cut(form: str) -> None:
    data = make_mixed(FORMATS[form]) if form != "ustar" else make_member(b"a", b"1" * 700) + make_member(b"b", b"2")
    members, headers = rows(read(data)), list_headers(data)
    for cut in range(64, len(data), 64):
        if cut < BLOCK:
            with pytest.raises(UnreadableMedia, match="no tar archive"):
                read(data[:cut])
            continue
        table = read(data[:cut])
        assert rows(table) == whole_before(members, cut), cut
        in_header = any(start < cut < start + BLOCK for start in headers)
        in_data = next((row for row in members if row[1] < cut < row[1] + row[2]), None)
        if in_data is not None:
            assert table.damage is not None
            assert table.damage.member is not None
            assert table.damage.member.rstrip("/") == in_data[0]
            assert f"the member {table.damage.member!r} end beyond" in str(table.damage.error)
        elif in_header:
            assert table.damage is not None
            assert table.damage.member is None
            assert "within a header" in str(table.damage.error)
        if table.damage is not None:
            assert type(table.damage.error) is CorruptMedia
            assert table.damage.error.source == "x.tar"
            assert table.damage.offset <= cut


def test_an_archive_that_ends_behind_an_extended_header_is_damaged() -> None:
    for extension in (make_pax((b"mtime", b"1")), make_member(b"././@LongLink", b"x" * 200, b"L")):
        for end in (END, b"", make_pax((b"comment", b"c"), kind=b"g") + END):
            table = read(make_member(b"a") + extension + end)
            assert list(table.names) == ["a"]
            assert table.damage is not None
            assert "without the member" in str(table.damage.error)


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_any_changed_byte_of_a_header_ends_the_walk_there(form: str) -> None:
    data, rng = make_mixed(FORMATS[form]), random.Random(form)
    members, headers = rows(read(data)), list_headers(data)
    for number, start in enumerate(headers):
        # Of each header a third, of all headers together each byte.
        for at in range(start + number % EACH, start + BLOCK, EACH):
            changed = bytearray(data)
            changed[at] ^= rng.randrange(1, 256)
            if at - start == 155 or (at - start == 154 and changed[at] in b" \0"):
                assert rows(read(bytes(changed))) == members  # Behind the end of the checksum.
                continue
            if start == 0:
                with pytest.raises(UnreadableMedia):
                    read(bytes(changed))
                continue
            table = read(bytes(changed))
            assert table.damage is not None, at
            assert table.damage.offset == start
            assert "checksum" in str(table.damage.error)
            assert rows(table) == whole_before(members, start)


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_bytes_of_headers_changed_with_their_checksum_give_ranges_inside(form: str) -> None:
    data, rng = make_mixed(FORMATS[form]), random.Random(f"{form} again")
    headers = list_headers(data)
    for _ in range(3000 // EACH):
        changed, start = bytearray(data), rng.choice(headers)
        fields = [(0, 100), (124, 136), (156, 157), (257, 265), (345, 500), (0, BLOCK)]
        for _ in range(rng.randint(1, 3)):
            low, high = rng.choice(fields)
            changed[start + rng.randrange(low, high)] = rng.choice(
                [0, 0x80, 0xFF, *b"01257xgLKS -", rng.randrange(256)]
            )
        changed[start : start + BLOCK] = sum_header(changed[start : start + BLOCK])
        table = read(bytes(changed))
        assert table.damage is None or isinstance(table.damage.error, (CorruptMedia, LimitExceeded))


def test_changed_bytes_of_pax_records_give_ranges_inside() -> None:
    records = make_pax((b"path", b"some/name"), (b"size", b"7"), (b"GNU.sparse.major", b"1"), (b"linkpath", b"x"))
    data, rng = make_member(b"a") + records + make_member(b"b", b"1234567") + make_member(b"c") + END, random.Random(5)
    for at in range(2 * BLOCK, 3 * BLOCK, EACH):
        for value in (0, *b"\n=9 ", rng.randrange(256)):
            changed = bytearray(data)
            changed[at] = value
            table = read(bytes(changed))
            assert table.names[0] == "a"
            assert table.damage is None or isinstance(table.damage.error, CorruptMedia)


ODD = {
    "a negative size": make_header(b"x", b"-0000000010\0"),
    "a negative size of base 256": make_header(b"x", b"\xff" * 12),
    "a size of letters": make_header(b"x", b"0000000zz10\0"),
    "a size with underscores": make_header(b"x", b"0000_000010\0"),
    "a size of another base": make_header(b"x", b"0o000000010\0"),
    "a size of digits beyond 7": make_header(b"x", b"00000000089\0"),
    "a size that is marked, and no number": make_header(b"x", b"\x81" + bytes(11)),
    "a negative pax size": make_pax((b"size", b"-5")) + make_member(b"x"),
    "a pax size of letters": make_pax((b"size", b"5x")) + make_member(b"x"),
    "an endless pax size": make_pax((b"size", b"9" * 4000)) + make_member(b"x"),
    "a pax record that is too long": make_member(b"P", b"99 path=x\n", b"x") + make_member(b"x"),
    "a pax record that is too short": make_member(b"P", b"4 path=x\n", b"x") + make_member(b"x"),
    "a pax record of no length": make_member(b"P", b"0 path=x\n", b"x") + make_member(b"x"),
    "a pax record of an endless length": make_member(b"P", b"9" * 300 + b" path=x\n", b"x") + make_member(b"x"),
    "a pax record without an end": make_member(b"P", b"9 path=xx", b"x") + make_member(b"x"),
    "a long name of a negative size": make_header(b"L", b"\xff" * 12, b"L") + make_member(b"x"),
    "a long name beyond the end": make_header(b"L", 5000, b"L") + make_member(b"x"),
}


@pytest.mark.parametrize("case", ODD)
def test_a_header_that_is_not_as_it_should_be_ends_the_walk(case: str) -> None:
    table = read(make_member(b"a", b"1") + ODD[case] + END)
    assert list(table.names) == ["a"]
    assert table.damage is not None
    assert isinstance(table.damage.error, CorruptMedia)
    assert "a header is not as it should be" in str(table.damage.error)
    assert "copy the archive again" in str(table.damage.error)


@pytest.mark.parametrize("size", [b"\x80" + b"\x7f" * 11, b"\x80\0\0\0\x7f" + b"\xff" * 7, b"77777777777\0", 600])
def test_S05_a_size_beyond_the_end_is_the_error_of_its_member(size: bytes | int) -> None:
    table = read(make_member(b"a", b"1") + make_header(b"clip.mp4", size) + b"data")
    assert list(table.names) == ["a"]
    assert table.damage is not None
    assert table.damage.member == "clip.mp4"
    assert table.damage.offset == 2 * BLOCK
    with pytest.raises(CorruptMedia, match=r"x\.tar: is damaged at byte 1024: the data of the member 'clip\.mp4' end"):
        raise table.damage.error


def test_a_size_beyond_the_end_of_a_header_with_a_wrong_checksum_is_no_size() -> None:
    wrong = bytearray(make_header(b"clip.mp4", 10**9))
    wrong[0] = 0xEE
    for header in (bytes(wrong), wrong[:124] + b"x" * 12 + wrong[136:]):
        table = read(make_member(b"a", b"1") + header + b"data")
        assert table.damage is not None
        assert table.damage.member is None
        assert "checksum" in str(table.damage.error)


@pytest.mark.parametrize(
    ("data", "command"),
    [
        (gzip.compress(make_mixed(), mtime=0), "gzip -dc FILE > NEW.tar"),
        (bz2.compress(make_mixed()), "bzip2 -dc FILE > NEW.tar"),
        (lzma.compress(make_mixed()), "xz -dc FILE > NEW.tar"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), "zstd -dc FILE > NEW.tar"),
        (b"\x04\x22\x4d\x18" + bytes(600), "lz4 -dc FILE > NEW.tar"),
        (b"\x1f\x8b\x08\0", "gzip -dc FILE > NEW.tar"),
    ],
)
def test_compressed_archives_are_refused_with_the_command_that_unpacks_them(data: bytes, command: str) -> None:
    with pytest.raises(UnreadableMedia, match=f"compressed with .* unpack it first with {command}"):
        read(data)


def test_a_name_that_begins_as_a_compressed_file_does_is_a_name() -> None:
    assert list(read(make_member(b"BZhang.jpg") + END).names) == ["BZhang.jpg"]


@pytest.mark.parametrize("data", [b"", b"x", b"text\n" * 300, os.urandom(4096), bytes(100)])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMedia, match=r"^x\.tar: is (empty \(0 bytes\), not a|no) tar archive") as caught:
        read(data)
    assert caught.value.source == "x.tar"


def test_ten_million_headers_are_bounded_in_number_and_memory() -> None:
    block = make_member(b"a") * 4096

    def make(offset: int, count: int) -> bytes:
        start = offset % BLOCK
        return (block * (1 + (start + count) // len(block)))[start : start + count]

    reader = MadeUpReader(BLOCK * 10**7, make)
    limits = Limits(max_members=30_000)
    count, damage = 0, None
    tracemalloc.start()
    try:
        for table in walk_tar(reader, "x.tar", limits):
            count, damage = count + len(table), table.damage
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 30_000
    assert damage is not None
    assert isinstance(damage.error, LimitExceeded)
    assert damage.error.limit == "max_members"
    assert reader.bytes_read <= 30_000 * BLOCK + 2**21
    assert peak < MOST_MEMORY


def test_as_many_members_as_the_limit_allows_are_read() -> None:
    data = make_member(b"a") * 5 + END
    assert read(data, Limits(max_members=5)).damage is None
    table = read(data, Limits(max_members=4))
    assert len(table) == 4
    assert table.damage is not None
    with pytest.raises(LimitExceeded, match=r"limits=ff\.Limits\(max_members=\.\.\.\)"):
        raise table.damage.error


def test_extended_headers_without_end_are_bounded() -> None:
    for loop in (make_pax((b"path", b"x")), make_pax((b"comment", b"x"), kind=b"g"), make_member(b"L", b"x", b"L")):
        table = read(make_member(b"a") + loop * 1000, Limits(max_members=500))
        assert list(table.names) == ["a"]
        assert table.damage is not None
        assert isinstance(table.damage.error, LimitExceeded)


def test_global_records_do_not_pile_up() -> None:
    headers = b"".join(make_pax((b"path.%d" % number, b"x" * 3000), kind=b"g") for number in range(2000))
    data = make_member(b"a") + headers + END
    tracemalloc.start()
    try:
        table = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert list(table.names) == ["a"]
    assert peak < 6 * 2**20


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_C16_an_extended_header_of_a_gigabyte_is_not_read(kind: bytes) -> None:
    head = make_member(b"a") + make_header(b"P", 2**30, kind)
    reader = with_holes({0: head}, 2**31)
    tracemalloc.start()
    try:
        table = read_tar(reader)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert list(table.names) == ["a"]
    assert table.damage is not None
    assert isinstance(table.damage.error, LimitExceeded)
    assert table.damage.error.limit == "max_header_bytes"
    assert reader.bytes_read < 2**22
    assert peak < MOST_MEMORY


def test_a_list_of_holes_without_end_is_bounded() -> None:
    header = bytearray(make_header(b"s", 700, b"S"))
    header[482] = 1
    goes_on = bytearray(BLOCK)
    goes_on[504] = 1
    for data in (bytes(goes_on) * 2000, bytes(goes_on) * 3):
        table = read(make_member(b"a") + sum_header(header) + data, Limits(max_members=1000))
        assert list(table.names) == ["a"]
        assert table.damage is not None
        assert "holes" in str(table.damage.error)


def test_a_long_name_takes_a_time_that_grows_with_its_length() -> None:
    name = b"/" * 500_000
    table = read(make_member(b"././@LongLink", name + b"\0", b"L") + make_member(b"x") + END)
    assert table.names[0] == name.decode()


def test_a_file_that_gets_shorter_while_it_is_read_is_damaged() -> None:
    class Shrinking(BytesReader):
        def stat(self) -> SourceStat:
            return SourceStat(2**20)

    for data in (make_member(b"a") * 3, make_member(b"a") + make_header(b"P", 5000, b"x")):
        table: MemberTable = read_tar(Shrinking(data))
        check_ranges(table, len(data))
        assert set(table.names) == {"a"}
        assert table.damage is not None
        assert "got shorter" in str(table.damage.error)


def test_what_is_behind_a_hard_link_is_the_next_header() -> None:
    """Its size is that of its target; a reader that believed it would take another member's data for a header."""
    data = make_header(b"l", 5 * BLOCK, b"1", link=b"a") + make_member(b"b", b"1") + END
    table = read(data)
    assert list(table.names) == ["l", "b"]
    assert table.kind.tolist() == [MemberKind.HARD_LINK, MemberKind.FILE]
