"""What zipfile finds in an archive, `read_zip` finds too: names, kinds, and where the bytes of stored members lie."""

from __future__ import annotations

import io
import stat
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import BytesReader, Limits
from framefeed.archives import MemberKind, read_zip, walk_zip
from framefeed.archives._tables import join_tables
from tests.archives.tars import CountingReader, with_holes
from tests.archives.zips import make_zip, read, rows, rows_of_zipfile, widen

NAMES = st.text("ab/._é日 \n:%", min_size=1, max_size=12)
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=300), max_size=8)
METHODS = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])


@given(MEMBERS, METHODS, st.binary(max_size=40), st.booleans(), st.booleans(), st.binary(max_size=700))
def test_members_are_those_of_zipfile(
    members: dict[str, bytes], method: int, comment: bytes, is_stream: bool, is_large: bool, before: bytes
) -> None:
    members = {name: b"" if name.endswith("/") else data for name, data in members.items()}
    data = before + make_zip(members.items(), method, comment=comment, is_stream=is_stream, is_large=is_large)
    table = read(data)
    assert table.damage is None
    assert rows(table, data) == rows_of_zipfile(data)
    assert not table.reasons or method != zipfile.ZIP_STORED


@pytest.mark.parametrize("behind", [b"\n", b"<html>", bytes(60_000), b"PK\5\6", b"PK\5\6" + b"\xff" * 40])
def test_bytes_behind_an_archive_are_passed_over(behind: bytes) -> None:
    members = [("a.mp4", b"1"), ("b.mp4", b"2")]
    for data in (make_zip(members, comment=b"some"), widen(make_zip(members))):
        assert rows(read(data + behind), data) == rows_of_zipfile(data)
        if b"PK" not in behind:
            assert rows_of_zipfile(data + behind) == rows_of_zipfile(data)


def test_a_comment_that_holds_the_end_of_another_archive_is_a_comment() -> None:
    inner = make_zip([("inner.mp4", b"1")])
    data = make_zip([("a.mp4", b"2")], comment=inner + b"more")
    assert list(read(data).names) == ["a.mp4"]


def test_a_zip_in_a_zip_is_a_file() -> None:
    inner = make_zip([("inner.mp4", b"1")])
    data = make_zip([("inner.zip", inner), ("a.mp4", b"2")])
    assert rows(read(data), data) == [("inner.zip", MemberKind.FILE, inner), ("a.mp4", MemberKind.FILE, b"2")]


@pytest.mark.slow
def test_more_members_than_16_bits_count_come_in_several_tables() -> None:
    data = make_zip((f"{number:06}", b"%d" % number) for number in range(66_000))
    tables = list(walk_zip(BytesReader(data), "x.zip", Limits()))
    assert {len(table) for table in tables[:-1]} == {4096}
    table = join_tables(tables)
    assert table.damage is None
    assert rows(table, data)[65_999] == ("065999", MemberKind.FILE, b"65999")
    assert repr(table) == "MemberTable(66000 members)"


def test_reasons_have_the_rows_of_their_members_in_all_tables() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for number in range(4200):
            method = zipfile.ZIP_DEFLATED if number in (5, 4100) else zipfile.ZIP_STORED
            archive.writestr(f"{number}", b"data", method)
    data = target.getvalue()
    assert [len(table) for table in walk_zip(BytesReader(data), "x.zip", Limits())] == [4096, 104]
    assert list(read(data).reasons) == [5, 4100]
    assert rows(read(data), data) == rows_of_zipfile(data)


@pytest.mark.parametrize("before", [0, 100])
def test_members_beyond_4_gb(before: int) -> None:
    """The bytes of an archive from zipfile, with a hole of 5 GB where its second member begins."""
    hole = 5 * 2**30
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.mp4", b"first")
        second = target.tell()
        archive.writestr("b.mp4", b"second")
        archive.infolist()[1].header_offset += hole
        archive.start_dir += hole
        target.seek = lambda at, whence=0: io.BytesIO.seek(target, at - hole if at > hole else at, whence)  # type: ignore[method-assign]
        target.tell = lambda: io.BytesIO.tell(target) + hole  # type: ignore[method-assign]
    data = target.getvalue()
    reader = with_holes({before: data[:second], before + second + hole: data[second:]}, before + len(data) + hole)
    table = read_zip(reader, "x.zip", Limits())
    assert list(table.names) == ["a.mp4", "b.mp4"]
    assert not table.reasons
    found = bytearray(6)
    reader.read_into(memoryview(found), int(table.offset[1]))
    assert found == b"second"
    assert table.offset[1] > hole
    assert reader.bytes_read < 2**18


def test_names_without_utf_8_are_those_of_zipfile() -> None:
    data = bytearray(make_zip([("clip.mp4", b"1"), ("é.mp4", b"2")]))
    for at in (data.find(b"clip.mp4"), data.rfind(b"clip.mp4")):
        data[at] = 0x82
    assert read(bytes(data)).names == ["élip.mp4", "é.mp4"] == [name for name, _, _ in rows_of_zipfile(bytes(data))]


def test_bytes_that_are_no_utf_8_although_they_should_be_are_kept() -> None:
    data = bytearray(make_zip([("é.mp4", b"2")]))
    for at in (data.find("é".encode()), data.rfind("é".encode())):
        data[at] = 0xFF
    assert read(bytes(data)).names == ["\udcff\udca9.mp4"]


def test_S08_names_that_climb_are_labels_alone() -> None:
    names = ["../../etc/passwd", "/etc/passwd", "a/../b.mp4"]
    assert read(make_zip((name, b"1") for name in names)).names == names


def test_folders_and_links_have_no_data() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a/", b"")
        link = zipfile.ZipInfo("a/link.mp4")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, b"b.mp4")
        archive.writestr("a/b.mp4", b"1")
    data = target.getvalue()
    table = read(data)
    assert table.kind.tolist() == [MemberKind.FOLDER, MemberKind.SYMLINK, MemberKind.FILE]
    assert table.reasons == {1: "is a link: read the member that it links to"}
    assert rows(table, data)[2][2] == b"1"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_of_one_name_the_last_holds_as_for_zipfile() -> None:
    data = make_zip([("a.mp4", b"old"), ("b.mp4", b"2"), ("a.mp4", b"new")])
    table = read(data)
    assert [row[2] for row in rows(table, data)] == [None, b"2", b"new"]
    assert "written again" in table.reasons[0]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("a.mp4") == b"new"
    found = read(data, members={"a.mp4"})
    assert [row[2] for row in rows(found, data)] == [None, b"new"]


class AnnouncedReader(CountingReader):
    """Notes what is announced."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.announced: list[list[tuple[int, int]]] = []

    def announce(self, ranges: list[tuple[int, int]]) -> None:
        self.announced.append(list(ranges))


def test_headers_are_announced_in_the_order_of_their_bytes_and_only_of_what_is_wanted() -> None:
    members = [(f"{number}.mp4", bytes(100_000)) for number in range(5)]
    data = make_zip(members)
    reader = AnnouncedReader(data)
    read_zip(reader, "x.zip", Limits())
    directory, headers = reader.announced
    assert [stop for _, stop in directory] == [len(data) - 22]
    assert headers == sorted(headers) == [(at, at + count) for at, count in reader.requests[2:]]
    assert [stop - start for start, stop in headers] == [30 + len("0.mp4")] * 5
    assert sum(count for _, count in reader.requests) < 70_000
    reader = AnnouncedReader(data)
    table = read_zip(reader, "x.zip", Limits(), {"3.mp4"})
    assert list(table.names) == ["3.mp4"]
    assert len(reader.requests) == 3
    assert list(read_zip(reader, "x.zip", Limits(), {"absent.mp4"}).names) == []
