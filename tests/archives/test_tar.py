"""What tarfile finds in an archive, the walk finds too: names, kinds, sizes and offsets."""

from __future__ import annotations

import io
import pickle
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import BytesReader, Limits
from framefeed.archives import LOCAL_READS, NO_FILE, REMOTE_READS, MemberKind, MemberTable, ReadSizes, walk_tar
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
    pad,
    read,
    read_tar,
    rows,
    rows_of_tarfile,
    sum_header,
    with_holes,
)

READS = [LOCAL_READS, REMOTE_READS, ReadSizes(BLOCK, BLOCK, 0), ReadSizes(BLOCK, 3 * BLOCK, 900),
         ReadSizes(700, 5000, 1)]  # fmt: skip
LETTERS = st.sampled_from("ab/._é日\udc80 \n")
NAMES = st.text(LETTERS, min_size=1, max_size=12) | st.text("ab/", min_size=90, max_size=300)
LINKS = st.text("ab/.é", min_size=1, max_size=250)
MEMBERS = st.lists(
    st.tuples(
        NAMES,
        st.sampled_from([tarfile.REGTYPE] * 4 + [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
                                                 tarfile.CHRTYPE, tarfile.CONTTYPE]),
        LINKS,
        st.integers(0, 2000),
        st.sampled_from([0, 1.25]),
    ),
    max_size=12,
)  # fmt: skip


@given(MEMBERS, st.sampled_from(list(FORMATS)), st.sampled_from(READS))
def test_members_are_those_of_tarfile(
    members: list[tuple[str, bytes, str, int, float]], form: str, reads: ReadSizes
) -> None:
    infos = []
    for name, kind, link, size, mtime in members:
        if form == "ustar":
            name, link = name[-60:], link[-30:]
        data = bytes(size) if kind in tarfile.REGULAR_TYPES else b""
        infos.append((make_info(name, kind, link, mtime=mtime), data))
    data = make_tar(infos, FORMATS[form])
    table = read(data, reads=reads)
    assert table.damage is None
    assert rows(table) == rows_of_tarfile(data)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("reads", READS)
def test_long_names_links_and_folders(form: str, reads: ReadSizes) -> None:
    if form == "ustar":
        data = make_tar([(make_info("p" * 120 + "/" + "n" * 90), b"1" * 600), (make_info("b"), b"2")], FORMATS[form])
    else:
        data = make_mixed(FORMATS[form])
    table = read(data, reads=reads)
    assert rows(table) == rows_of_tarfile(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        links = {row: info.linkname for row, info in enumerate(tar) if info.islnk() or info.issym()}
    assert table.targets == links


def test_many_members_come_in_several_tables() -> None:
    data = make_tar([(make_info(f"{n // 100:03}/{n:06}.txt"), b"x" * (n % 700)) for n in range(9000)], FORMATS["pax"])
    tables = list(walk_tar(BytesReader(data), "x.tar", Limits()))
    assert [len(table) for table in tables] == [4096, 4096, 808]
    whole = read(data)
    assert rows(whole) == rows_of_tarfile(data) == [row for table in tables for row in rows(table)]
    assert repr(whole) == "MemberTable(9000 members)"


def test_targets_have_the_rows_of_their_links_in_all_tables() -> None:
    links = [make_header(b"l", 0, b"2", link=b"%d" % number) for number in range(4200)]
    assert read(b"".join(links) + END).targets == {number: f"{number}" for number in range(4200)}


def test_headers_that_are_not_checked_together_with_their_members() -> None:
    """A table ends between a long name and its member."""
    plain = make_member(b"a") * 4095
    data = plain + make_pax((b"path", b"long.txt")) + make_member(b"short", b"12") + make_member(b"b") + END
    names = [name for table in walk_tar(BytesReader(data), "x.tar", Limits()) for name in table.names]
    assert names == ["a"] * 4095 + ["long.txt", "b"]


OWN = {
    "V7": (make_member(b"a.jpg", b"12", b"\0", magic=b"") + make_member(b"d/", b"", b"\0", magic=b""), ["a.jpg", "d/"]),
    "V7, sizes with blanks": (make_header(b"a", b"         2 \0", b"\0", magic=b"") + pad(b"12") + make_member(), None),
    "sizes that end with a blank": (make_header(b"a", b"00000000002 ") + pad(b"12") + make_member(b"b"), ["a", "b"]),
    "bytes behind the end of a name": (make_member(b"a.jpg\0garbage", b"1") + make_member(b"b"), ["a.jpg", "b"]),
    "twelve digits": (make_header(b"a", b"000000000002") + pad(b"12") + make_member(b"b"), ["a", "b"]),
    "base 256": (make_header(b"a", b"\x80" + bytes(10) + b"\2") + pad(b"12") + make_member(b"b"), ["a", "b"]),
    "signed sums": (make_header("é".encode() * 20, signed=True) + make_member(b"b"), ["é" * 20, "b"]),
    "a prefix": (make_member(b"b.jpg", b"1", prefix=b"some/where"), ["some/where/b.jpg"]),
    "times of GNU tar where others have the prefix": (
        make_member(b"b.jpg", b"1", magic=b"ustar  \0", prefix=b"14000000000\0"), ["b.jpg"]),
    "a name of 100 bytes": (make_member(b"n" * 100, b"1"), ["n" * 100]),
    "pax path": (make_pax((b"path", "日/x.jpg".encode())) + make_member(b"short", b"1"), ["日/x.jpg"]),
    "pax path of Solaris": (make_pax((b"path", b"x"), kind=b"X") + make_member(b"short", b"1"), ["x"]),
    "pax path for all": (
        make_pax((b"path", b"x"), kind=b"g") + make_member(b"1") + make_pax((b"path", b"y")) + make_member(b"2")
        + make_member(b"3"), ["x", "y", "x"]),
    "pax path taken back": (
        make_pax((b"path", b"x"), kind=b"g") + make_pax((b"path", b"")) + make_member(b"1"), ["1"]),
    "pax size": (make_pax((b"size", b"3")) + make_header(b"a", 0) + pad(b"123") + make_member(b"b"), ["a", "b"]),
    "pax size with blanks": (
        make_pax((b"size", b" 3 ")) + make_header(b"a", 0) + pad(b"123") + make_member(b"b"), ["a", "b"]),
    "pax records that say nothing of names": (
        make_pax((b"mtime", b"1.5"), (b"SCHILY.xattr.user.x", b"a=b\n\0c")) + make_member(b"a"), ["a"]),
    "padded pax records": (
        make_member(b"P", b"9 path=x\n" + bytes(9), b"x") + make_member(b"a"), ["x"]),
    "two pax headers, the first of which holds": (
        make_pax((b"path", b"x")) + make_pax((b"path", b"y")) + make_member(b"a"), ["x"]),
    "long name and pax": (
        make_member(b"././@LongLink", b"long\0", b"L") + make_pax((b"mtime", b"1.5")) + make_member(b"a"), ["long"]),
    "global header of git": (make_pax((b"comment", b"0" * 40), kind=b"g") + make_member(b"a"), ["a"]),
    "global header alone": (make_pax((b"comment", b"0" * 40), kind=b"g"), []),
    "no members": (b"", []),
    "names that climb": (make_member(b"../../etc/passwd") + make_member(b"/etc/passwd"), ["../../etc/passwd",
                                                                                      "/etc/passwd"]),
    "one name twice": (make_member(b"a", b"1") + make_member(b"a", b"2"), ["a", "a"]),
    "a tar in a tar": (make_member(b"inner.tar", make_member(b"x") + END) + make_member(b"b"), ["inner.tar", "b"]),
    "unknown kind with data": (make_member(b"v", b"12", b"V") + make_member(b"b"), ["v", "b"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("end", "reason"),
    [(END, None), (END[:BLOCK], "one block of zeros"), (b"", "without the two blocks"), (END + b"more", "other bytes")],
)
@pytest.mark.parametrize("case", OWN)
def test_archives_by_the_byte(case: str, end: bytes, reason: str | None) -> None:
    data, names = OWN[case]
    if not data + end:
        return
    table = read(data + end)
    assert (table.damage is None) == (reason is None)
    assert table.damage is None or (reason or "") in str(table.damage.error)
    if names is not None:
        assert list(table.names) == names


def test_the_sizes_that_headers_write_in_odd_ways_are_right() -> None:
    for case in ("V7", "V7, sizes with blanks", "sizes that end with a blank", "twelve digits", "base 256", "a prefix"):
        assert read(OWN[case][0] + END).size[0] == len(OWN[case][0][BLOCK:].partition(b"\0")[0]), case
    for case in ("pax size", "pax size with blanks"):
        table = read(OWN[case][0] + END)
        assert rows(table) == rows_of_tarfile(OWN[case][0] + END)
        assert table.size.tolist() == [3, 0]


def test_folders_of_v7_have_no_data_whatever_their_size_says() -> None:
    data = make_header(b"d/", 600, b"\0", magic=b"") + make_member(b"b", b"1") + END
    table = read(data)
    assert rows(table) == rows_of_tarfile(data)
    assert table.kind.tolist() == [MemberKind.FOLDER, MemberKind.FILE]


def test_S08_names_that_climb_and_links_are_labels_alone() -> None:
    """Nothing is ever written: a link has no data, and a name is not a path."""
    data = make_member(b"../x.jpg", b"12") + make_header(b"l", 0, b"2", link=b"/etc") + make_member(b"l/x", b"3") + END
    table = read(data)
    assert list(table.names) == ["../x.jpg", "l", "l/x"]
    assert table.kind.tolist() == [MemberKind.FILE, MemberKind.SYMLINK, MemberKind.FILE]
    assert table.targets == {1: "/etc"}
    assert table.size.tolist() == [2, 0, 1]


def test_S16_devices_and_pipes_are_kinds_without_data() -> None:
    data = b"".join(make_header(b"x", 100, kind) for kind in (b"3", b"4", b"6", b"5", b"1")) + make_member(b"f", b"1")
    table = read(data + END)
    assert table.kind.tolist() == [MemberKind.DEVICE] * 3 + [MemberKind.FOLDER, MemberKind.HARD_LINK, MemberKind.FILE]
    assert table.size.tolist() == [0, 0, 0, 0, 0, 1]


def test_every_kind_but_files_says_why_it_is_not_read() -> None:
    assert set(NO_FILE) == set(MemberKind) - {MemberKind.FILE}
    assert "'t'" in NO_FILE[MemberKind.HARD_LINK].format(target="t")


def make_sparse(extended: int) -> bytes:
    header = bytearray(make_header(b"s", 700, b"S", magic=b"ustar  \0"))
    header[386:410] = b"%011o\0%011o\0" % (0, 700)
    header[482] = extended > 0
    header[483:495] = b"%011o\0" % 5000
    blocks = [bytearray(BLOCK) for _ in range(extended)]
    for number, block in enumerate(blocks):
        block[504] = number + 1 < extended
    return sum_header(header) + b"".join(blocks) + pad(b"x" * 700)


@pytest.mark.parametrize("extended", [0, 1, 3])
def test_sparse_files_of_gnu_tar_are_passed_over(extended: int) -> None:
    data = make_sparse(extended) + make_member(b"b", b"1") + END
    table = read(data)
    assert list(table.names) == ["s", "b"]
    assert table.kind.tolist() == [MemberKind.SPARSE, MemberKind.FILE]
    assert [row[1] for row in rows(table)] == [row[1] for row in rows_of_tarfile(data)]
    assert table.size.tolist() == [700, 1]


@pytest.mark.parametrize("key", [b"GNU.sparse.major", b"GNU.sparse.map", b"GNU.sparse.name", b"GNU.sparse.size"])
def test_sparse_files_of_pax_are_named(key: bytes) -> None:
    data = make_pax((key, b"1")) + make_member(b"GNUSparseFile.0/s", b"0\n") + make_member(b"b") + END
    table = read(data)
    assert table.kind.tolist() == [MemberKind.SPARSE, MemberKind.FILE]
    assert table.names[0] == ("1" if key.endswith(b"name") else "GNUSparseFile.0/s")


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_a_member_larger_than_8_gigabytes(form: str) -> None:
    info = make_info("huge.mp4")
    info.size = 10 * 2**30 + 5
    head = info.tobuf(FORMATS[form], "utf-8", "surrogateescape")
    start = len(head)
    behind = start + info.size + BLOCK - 5
    reader = with_holes({0: head, behind: make_member(b"b.txt", b"1") + END}, behind + 2 * BLOCK + len(END))
    table = read_tar(reader)
    assert [tuple(member) for member in table] == [
        ("huge.mp4", start, info.size, 0), ("b.txt", behind + BLOCK, 1, 0)
    ]  # fmt: skip
    assert reader.bytes_read < 2**22


def test_an_archive_of_small_members_is_read_in_windows_and_once() -> None:
    data = make_tar([(make_info(f"{n:06}.txt"), b"x" * 100) for n in range(4000)], FORMATS["gnu"])
    reader = CountingReader(data)
    read_tar(reader)
    assert len(reader.requests) <= len(data) / 2**20 + 2
    assert sum(count for _, count in reader.requests) < 1.02 * len(data)


def test_members_larger_than_the_window_are_jumped_over() -> None:
    """Labels beside a clip come with the header behind them: one request a clip."""
    infos = []
    for number in range(20):
        infos.append((make_info(f"{number:06}.mp4"), bytes(300_000)))
        infos.append((make_info(f"{number:06}.json"), b"{}"))
        infos.append((make_info(f"{number:06}.cls"), b"7"))
    data = make_tar(infos, FORMATS["gnu"])
    for reads, requests, most in ((LOCAL_READS, 21, 2**20 + 20 * 2**12), (REMOTE_READS, 21, 2**18 + 20 * 2**16)):
        reader = CountingReader(data)
        table = read_tar(reader, reads=reads)
        assert rows(table) == rows_of_tarfile(data)
        assert len(reader.requests) <= requests
        assert sum(count for _, count in reader.requests) <= most


def test_a_table_pickles_and_checks_its_columns() -> None:
    table = read(make_mixed())
    assert rows(pickle.loads(pickle.dumps(table))) == rows(table)
    with pytest.raises(UsageError, match="four columns"):
        MemberTable(["a"], np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(1, np.uint8))
