"""Damaged and hostile zip archives: a typed error or a reason a member, in bounded memory, never another's bytes."""

from __future__ import annotations

import gzip
import os
import random
import struct
import tracemalloc
import zipfile

import pytest

from framefeed._values import BytesReader, Limits, SourceStat
from framefeed.archives import MemberKind, read_zip
from framefeed.errors import CorruptMedia, LimitExceeded, UnreadableMedia
from tests.archives.tars import MadeUpReader, with_holes
from tests.archives.zips import make_zip, read, rows, widen

MEMBERS = {"a/clip.mp4": b"first" * 40, "b.jpg": b"second", "é.png": b"", "z.mp4": b"last" * 9}
END_BYTES = 22


def find_directory(data: bytes) -> int:
    """First byte of the directory of an archive without a comment."""
    return int(struct.unpack_from("<L", data, len(data) - 6)[0])


def list_entries(data: bytes) -> list[int]:
    """Offsets of the entries of the directory."""
    at, found = find_directory(data), []
    while data[at : at + 4] == b"PK\1\2":
        found.append(at)
        at += 46 + sum(struct.unpack_from("<3H", data, at + 28))
    return found


def write(data: bytes, at: int, form: str, value: int) -> bytes:
    """Write a number into an archive."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def check_right_bytes(data: bytes, allowed: set[bytes]) -> None:
    """Check that an archive gives right bytes, or reasons, or a typed error."""
    try:
        table = read(data)
    except (UnreadableMedia, LimitExceeded):
        return
    assert table.damage is None or isinstance(table.damage.error, CorruptMedia)
    for _, _, found in rows(table, data):
        assert found is None or found in allowed


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_an_archive_cut_anywhere_is_refused(is_stream: bool, comment: bytes) -> None:
    data = make_zip(MEMBERS.items(), comment=comment, is_stream=is_stream)
    for cut in range(1, len(data)):
        with pytest.raises(UnreadableMedia, match=r"^x\.zip: has no directory at its end: it is cut, or no zip"):
            read(data[:cut])


def test_an_archive_cut_behind_another_one_in_it_is_refused() -> None:
    """The end of the inner one is no end of the outer one, although all its members are there."""
    inner = make_zip([("inner.mp4", b"1")])
    for first in ([], [("first.mp4", b"2")]):
        data = make_zip([*first, ("inner.zip", inner), ("a.mp4", b"3" * 900)])
        for cut in range(data.index(inner) + len(inner), find_directory(data), 50):
            with pytest.raises(UnreadableMedia, match="has no directory at its end"):
                read(data[:cut] + b"more")


@pytest.mark.parametrize("is_large", [False, True])
def test_any_changed_byte_of_a_header_gives_right_bytes_or_a_reason(is_large: bool) -> None:
    data, rng = make_zip(MEMBERS.items(), is_large=is_large), random.Random(3)
    directory = find_directory(data)
    heads = [struct.unpack_from("<L", data, entry + 42)[0] for entry in list_entries(data)]
    places = [*range(directory, len(data)), *(at for head in heads for at in range(head, head + 30))]
    for at in places:
        if at - 28 in heads:
            continue  # Behind a shorter extra field the data begin earlier, and nothing says that they do not.
        for value in {0, 0xFF, data[at] ^ 1, rng.randrange(256)} - {data[at]}:
            changed = bytearray(data)
            changed[at] = value
            check_right_bytes(bytes(changed), set(MEMBERS.values()))


def test_many_changed_bytes_give_ranges_inside() -> None:
    data, rng = make_zip(MEMBERS.items()), random.Random(4)
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(rng.randint(2, 6)):
            changed[rng.randrange(len(data))] = rng.choice([0, 1, 0xFF, rng.randrange(256)])
        try:
            read(bytes(changed))
        except (UnreadableMedia, LimitExceeded):
            pass


@pytest.mark.parametrize(
    ("method", "how"),
    [(zipfile.ZIP_DEFLATED, "deflate"), (zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "LZMA")],
)
def test_compressed_members_say_how_to_pack_them_again(method: int, how: str) -> None:
    table = read(make_zip([("a.mp4", b"1" * 99), ("b/", b"")], method))
    assert list(table.reasons) == [0]
    assert table.reasons[0].startswith(f"is compressed with {how}, so it cannot be read in place: unpack")
    assert table.reasons[0].endswith("zip -0 -r NEW.zip FOLDER")


@pytest.mark.parametrize(("at", "form", "value"), [(8, "<H", 1), (8, "<H", 0x41), (8, "<H", 1 << 13), (10, "<H", 99)])
def test_encrypted_members_are_refused_alone(at: int, form: str, value: int) -> None:
    data = make_zip([("a.mp4", b"secret"), ("b.mp4", b"open")])
    data = write(data, list_entries(data)[0] + at, form, value)
    table = read(data)
    assert rows(table, data)[1][2] == b"open"
    assert list(table.reasons) == [0]
    assert table.reasons[0].startswith("is encrypted")


LIES = {
    "an offset beyond the end": (42, "<L", 10**6, "lies over"),
    "an offset of 4 GB": (42, "<L", 2**32 - 2, "lies over"),
    "an offset of 64 bits that is missing": (42, "<L", 2**32 - 1, "lies over"),
    "the offset of another member": (42, "<L", 0, "another name"),
    "an offset within another member's data": (42, "<L", 50, "no header"),
    "a larger size": (24, "<L", 1000, "two sizes"),
    "a larger packed size": (20, "<L", 1000, "two sizes"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_directory_that_lies_of_one_member_is_the_error_of_that_member(case: str) -> None:
    at, form, value, reason = LIES[case]
    data = make_zip([("a.mp4", bytes(200)), ("b.mp4", b"second"), ("c.mp4", b"third")])
    data = write(data, list_entries(data)[1] + at, form, value)
    table = read(data)
    assert reason in table.reasons[1]
    assert "copy the archive again, or pack it anew: zip -0 -r" in table.reasons[1]
    assert rows(table, data)[2][2] == b"third"


@pytest.mark.parametrize(("at", "form", "value"), [(18, "<L", 7), (22, "<L", 7), (8, "<H", 8), (30, "<B", 0x41)])
def test_a_header_that_contradicts_the_directory_is_the_error_of_its_member(at: int, form: str, value: int) -> None:
    data = write(make_zip([("a.mp4", b"first"), ("b.mp4", b"second")]), at, form, value)
    table = read(data)
    assert "where the directory says that it begins" in table.reasons.get(0, "")
    assert rows(table, data)[1][2] == b"second"


def test_both_sizes_changed_in_both_headers_lie_over_the_next_member() -> None:
    data = make_zip([("a.mp4", b"first"), ("b.mp4", b"second")])
    entry = list_entries(data)[0]
    for at in (18, 22, entry + 20, entry + 24):
        data = write(data, at, "<L", 40)
    table = read(data)
    assert "lies over the member behind it" in table.reasons[0]
    assert rows(table, data)[1][2] == b"second"


def test_the_last_member_cannot_lie_over_the_directory() -> None:
    data = make_zip([("a.mp4", b"first")])
    for at in (18, 22, find_directory(data) + 20, find_directory(data) + 24):
        data = write(data, at, "<L", 6)
    assert "or over the directory" in read(data).reasons[0]


def test_C16_one_member_listed_many_times_is_read_once() -> None:
    """A bomb of overlaps: a small file, of which the directory makes a large data set."""
    inner = make_zip([("a.mp4", b"x" * 1000)])
    entry, at = inner[find_directory(inner) : -END_BYTES], find_directory(inner)
    data = inner[:at] + entry * 5000 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 5000, 5000, 5000 * len(entry), at, 0)
    table = read(data)
    assert len(table) == 5000
    assert int(table.size.sum()) == 1000
    assert len(table.reasons) == 4999


def test_archives_that_each_hold_the_next_one_are_read_once() -> None:
    """Another: each member's data hold all members behind it."""
    bodies, entries, total = b"", b"", 50
    heads = [struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 2, 0) + b"%02d" % n for n in range(total)]
    for number in range(total):
        size = 32 * (total - number - 1) + 10
        head = bytearray(heads[number])
        struct.pack_into("<2L", head, 18, size, size)
        entries += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, size, size, 2, 0, 0, 0, 0, 0, len(bodies)
        )
        entries += b"%02d" % number
        bodies += head
    bodies += bytes(10)
    data = bodies + entries
    data += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, total, total, len(entries), len(bodies), 0)
    table = read(data)
    assert list(table.reasons) == list(range(total - 1))
    assert int(table.size.sum()) == 10


def test_C16_a_directory_of_a_gigabyte_is_not_read() -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 2**30, 0, 0)
    reader = with_holes({2**30: end}, 2**30 + len(end))
    with pytest.raises(LimitExceeded, match=r"limits=ff\.Limits\(max_header_bytes=\.\.\.\)") as caught:
        read_zip(reader, "x.zip", Limits())
    assert caught.value.limit == "max_header_bytes"
    assert reader.bytes_read < 2**17


def test_members_are_bounded_by_what_is_claimed_and_by_what_is_there() -> None:
    data = make_zip(MEMBERS.items())
    assert len(read(data, Limits(max_members=4))) == 4
    with pytest.raises(LimitExceeded, match="has 4 members, more than max_members=3"):
        read(data, Limits(max_members=3))
    with pytest.raises(LimitExceeded, match="has over 3 members"):
        read(write(data, len(data) - 12, "<H", 0), Limits(max_members=3))


@pytest.mark.slow
def test_C16_a_directory_of_many_entries_is_bounded_in_memory() -> None:
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0) + b"a"
    total = 20_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, total, total, total * len(entry), 0, 0)

    def make(offset: int, count: int) -> bytes:
        start = offset % len(entry)
        body = (entry * (2 + count // len(entry)))[start : start + count]
        before = total * len(entry) - offset
        return body if count <= before else body[: max(before, 0)] + end[max(-before, 0) :]

    tracemalloc.start()
    try:
        table = read_zip(MadeUpReader(total * len(entry) + len(end), make), "x.zip", Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(table) == len(table.reasons) == total
    assert peak < 300 * total


DAMAGES = {
    "an entry that is none": (0, b"XX", "something else than an entry"),
    "an entry beyond the directory": (28, b"\xff\xff", "ends within an entry"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_members_before_a_damaged_entry_are_kept(case: str) -> None:
    at, value, reason = DAMAGES[case]
    data = make_zip(MEMBERS.items())
    entry = list_entries(data)[2]
    table = read(data[: entry + at] + value + data[entry + at + len(value) :])
    assert list(table.names) == list(MEMBERS)[:2]
    assert table.damage is not None
    assert table.damage.offset == entry
    with pytest.raises(CorruptMedia, match=rf"x\.zip: is damaged at byte {entry}: .*{reason}.* copy the archive again"):
        raise table.damage.error


def test_a_count_that_is_not_that_of_the_entries_is_damage() -> None:
    data = make_zip(MEMBERS.items())
    table = read(write(data, len(data) - 12, "<H", 5))
    assert list(table.names) == list(MEMBERS)
    assert table.damage is not None
    assert "has 4 entries, and its last record claims 5" in str(table.damage.error)


def test_an_archive_behind_another_one_says_that_only_its_own_members_are_read() -> None:
    first, second = make_zip(MEMBERS.items()), make_zip([("b.mp4", b"1")])
    table = read(first + second)
    assert rows(table, first + second) == [("b.mp4", MemberKind.FILE, b"1")]
    assert table.damage is not None
    assert f"its first {len(first)} bytes are another archive, whose members are not read" in str(table.damage.error)
    assert read(b"a program that unpacks it" + second).damage is None


def test_one_part_of_several_is_refused_with_the_command_that_joins_them() -> None:
    data = make_zip(MEMBERS.items())
    for at in (18, 16):
        with pytest.raises(UnreadableMedia, match="one part of several: join them first, zip -s 0"):
            read(write(data, len(data) - at, "<H", 1))


@pytest.mark.parametrize(("at", "value"), [(10, 10**6), (6, 10**6), (6, 2**32 - 1)])
def test_a_directory_where_none_fits_is_refused(at: int, value: int) -> None:
    data = make_zip(MEMBERS.items())
    with pytest.raises(UnreadableMedia, match=r"claims a directory of .* where none fits"):
        read(write(data, len(data) - at, "<L", value))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"text\n" * 300, os.urandom(4096), bytes(100), gzip.compress(b"x" * 99, mtime=0)]
)
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMedia, match=r"^x\.zip: (is empty \(0 bytes\)|has no directory at its end)"):
        read(data)


def test_a_file_that_gets_shorter_while_it_is_read_is_refused() -> None:
    data = make_zip(MEMBERS.items())

    class Shrinking(BytesReader):
        def stat(self) -> SourceStat:
            return SourceStat(len(data) + 9)

    with pytest.raises(UnreadableMedia):
        read_zip(Shrinking(data[:-9]), "x.zip", Limits())


def test_records_of_64_bits_that_lie_are_refused() -> None:
    data = widen(make_zip(MEMBERS.items()))
    at = data.rfind(b"PK\6\6")
    for offset, value in ((40, 2**63), (48, 2**63), (40, 2**64 - 1), (48, 2**64 - 1)):
        with pytest.raises(UnreadableMedia, match="where none fits"):
            read(write(data, at + offset, "<Q", value))
    with pytest.raises(LimitExceeded):
        read(write(data, at + 32, "<Q", 2**40))
    assert list(read(data).names) == list(MEMBERS)
