"""How an archive ends: what is missing is damage with a reason, and joined archives are read on."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.archives import LOCAL_READS, REMOTE_READS, ReadSizes
from framefeed.errors import CorruptMedia
from tests.archives.tars import (
    BLOCK,
    END,
    CountingReader,
    make_info,
    make_member,
    make_pax,
    make_tar,
    read,
    read_tar,
    with_holes,
)
from tests.lengths import IS_ALL
from tests.pictures.made import picture, saved
from tests.remote import served

PNG = saved(picture(width=8, height=8), "PNG")
RECORD = 20 * BLOCK


def make_shard(letter: str, count: int = 30) -> bytes:
    """What tarfile writes: two blocks of zeros, and more to the end of a record of 10,240 bytes."""
    return make_tar([(make_info(f"{letter}{n:03}.png"), PNG) for n in range(count)], tarfile.GNU_FORMAT)


def name(letter: str, count: int = 30) -> list[str]:
    return [f"{letter}{n:03}.png" for n in range(count)]


A, B = make_shard("a"), make_shard("b")
STEP = BLOCK * (1 + -(-len(PNG) // BLOCK))
SHORT_A, SHORT_B = A[: 30 * STEP] + END, B[: 30 * STEP] + END
"""As Go, busybox and others write them: exactly two blocks of zeros."""
NAMES = name("a") + name("b")
SOUND = {
    "as tarfile writes it": (A, name("a")),
    "two blocks alone": (SHORT_A, name("a")),
    "a record of 64 KiB": (SHORT_A + bytes(-len(SHORT_A) % 2**16), name("a")),
    "no members": (bytes(RECORD), []),
    "two joined": (A + B, NAMES),
    "two joined, of two blocks": (SHORT_A + SHORT_B, NAMES),
    "two joined, of both kinds": (SHORT_A + B, NAMES),
    "three joined, of both kinds": (SHORT_A + B + make_shard("c"), [*NAMES, *name("c")]),
    "three joined, the first of them empty": (bytes(RECORD) + A + B, NAMES),
    "records for all of the first alone": (
        make_pax((b"path", b"x.png"), kind=b"g") + make_member(b"1.png", PNG) + END + SHORT_B, ["x.png", *name("b")]),
}  # fmt: skip
LACKING = {
    "no end": (SHORT_A[: -len(END)], name("a"), "without the two blocks of zeros"),
    "cut within the last block": (SHORT_A[: -len(END) - 100], name("a"), "without the two blocks of zeros"),
    "cut within the end": (SHORT_A[: -len(END) + 100], name("a"), "without the two blocks of zeros"),
    "one block of zeros": (SHORT_A[:-BLOCK], name("a"), "one block of zeros, where two end"),
    "an odd size": (SHORT_A + bytes(BLOCK + 7), name("a"), "no multiple of 512"),
    "text behind the end": (SHORT_A + b"<html>" * 300, name("a"), "other bytes"),
    "half downloaded": (A[: 20 * STEP] + bytes(60 * STEP), name("a", 20), "more zeros than end"),
    "a header of zeros": (A[: 10 * STEP] + bytes(BLOCK) + A[10 * STEP + BLOCK :], name("a", 10), "one block of zeros"),
    "the second one is damaged": (
        A + B[:STEP] + b"?" + B[STEP + 1 :], [*name("a"), "b000.png"], "a header whose checksum is wrong"),
    "the second one begins with damage": (A + b"?" + B[1:], name("a"), "other bytes"),
    "one block of zeros, and members": (SHORT_A[:-BLOCK] + SHORT_B, NAMES, "one block of zeros"),
    "a page of zeros, and members": (SHORT_A[: 30 * STEP] + bytes(4096) + SHORT_B, NAMES, "zeros in its middle"),
    "two records of zeros, and members": (A[: 30 * STEP] + bytes(2 * RECORD) + B, NAMES, "zeros in its middle"),
    "much of zeros, and members": (SHORT_A + bytes(200 * BLOCK) + SHORT_B, NAMES, "more zeros than end"),
    "zeros alone": (bytes(2**15 + BLOCK), [], "more zeros than end"),
}  # fmt: skip


@pytest.mark.parametrize("reads", [LOCAL_READS, REMOTE_READS, ReadSizes(BLOCK, BLOCK, 0), ReadSizes(700, 5000, 1)])
@pytest.mark.parametrize("case", SOUND)
def test_sound_ends(case: str, reads: ReadSizes) -> None:
    data, names = SOUND[case]
    table = read(data, reads=reads)
    assert table.damage is None
    assert list(table.names) == names


@pytest.mark.parametrize("reads", [LOCAL_READS, REMOTE_READS, ReadSizes(BLOCK, BLOCK, 0), ReadSizes(700, 5000, 1)])
@pytest.mark.parametrize("case", LACKING)
def test_D15_an_end_that_lacks_something_is_damage_with_its_reason(case: str, reads: ReadSizes) -> None:
    data, names, reason = LACKING[case]
    table = read(data, reads=reads)
    assert list(table.names) == names
    assert table.damage is not None
    assert isinstance(table.damage.error, CorruptMedia)
    assert reason in str(table.damage.error)
    assert "copy the archive again" in str(table.damage.error)


@pytest.mark.slow
@pytest.mark.parametrize("is_remote", [False, True])
def test_D15_a_scan_has_all_members_that_are_there_and_one_failed_row_for_the_rest(
    is_remote: bool, tmp_path: Path
) -> None:
    if is_remote:
        pytest.importorskip("urllib3", reason="our own reader needs it")
    archives = {each: (data, names, "") for each, (data, names) in SOUND.items() if names} | LACKING
    if is_remote and not IS_ALL:  # where only the reads are others, which test_sound_ends and its like try
        archives = dict([*archives.items()][::3])
    objects = {f"/{number}.tar": data for number, (data, _, _) in enumerate(archives.values())}
    for path, data in objects.items():
        (tmp_path / path[1:]).write_bytes(data)
    with served(objects) as server:
        roots = [f"{server if is_remote else tmp_path}{path}" for path in objects]
        catalog = ff.scan(roots, depth="header")
    sources, errors = catalog.table.column("source").to_pylist(), [catalog.error(row) for row in range(len(catalog))]
    for root, (case, (_, names, reason)) in zip(roots, archives.items(), strict=True):
        rows = [row for row, source in enumerate(sources) if source == root or source.endswith(f"::{root}")]
        usable = [sources[row].removeprefix("tar://").partition("::")[0] for row in rows if errors[row] is None]
        failed = [(sources[row], errors[row]) for row in rows if errors[row] is not None]
        assert usable == names, case
        assert len(failed) == bool(reason), case
        for source, error in failed:
            assert source == root
            assert reason in str(error)


def test_an_archive_that_was_completed_has_no_failed_row_any_more(tmp_path: Path) -> None:
    """The rows that are kept for an unchanged archive, and for one that has changed."""
    path, out = tmp_path / "a.tar", tmp_path / "a.parquet"
    path.write_bytes(A[: 20 * STEP])
    for _ in range(2):
        catalog = ff.scan(path, out=out)
        assert [len(catalog), len(catalog.usable_rows)] == [21, 20]
    path.write_bytes(A + B)
    for _ in range(2):
        catalog = ff.scan(path, out=out)
        assert [len(catalog), len(catalog.usable_rows)] == [60, 60]


def test_what_is_missing_is_said_of_a_member_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(A[: 20 * STEP])
    with pytest.raises(CorruptMedia, match="without the two blocks of zeros"):
        ff.build_index(f"tar://a025.png::{path}")
    path.write_bytes(A + B)
    assert len(ff.build_index(f"tar://b025.png::{path}")) == 1


@pytest.mark.parametrize("reads", [LOCAL_READS, REMOTE_READS])
def test_zeros_at_the_end_are_not_read_further_than_a_record(reads: ReadSizes) -> None:
    huge = with_holes({0: make_member(b"a")}, 2**40 + BLOCK)
    assert read_tar(huge, reads=reads).damage is not None
    assert huge.bytes_read < 2**23
    joined = CountingReader(SHORT_A * 200)
    assert read_tar(joined, reads=reads).damage is None
    assert sum(count for _, count in joined.requests) < 3 * 200 * len(SHORT_A)


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar here")
def test_archives_of_gnu_tar_are_sound(tmp_path: Path) -> None:
    def tar(*arguments: str) -> None:
        subprocess.run(["tar", *arguments], cwd=tmp_path, check=True)

    def check(archive: str, names: list[str]) -> None:
        table = read((tmp_path / archive).read_bytes())
        assert table.damage is None, archive
        assert list(table.names) == names, archive

    if b"GNU tar" not in subprocess.run(["tar", "--version"], check=True, capture_output=True).stdout:
        pytest.skip("tar is not GNU tar")
    for each in name("a") + name("b"):
        (tmp_path / each).write_bytes(PNG)
    for options in ([], ["--format=pax"], ["--format=v7"], ["--sparse"], ["-b1"], ["-b128"], ["-b2048"]):
        tar("-cf", "x.tar", *options, *name("a"))
        check("x.tar", name("a"))
    for letter in "ab":
        tar("-cf", f"{letter}.tar", *name(letter))
    for add in (["--append", *name("b")], ["--concatenate", "b.tar"]):
        shutil.copy(tmp_path / "a.tar", tmp_path / "x.tar")
        tar(add[0], "-f", "x.tar", *add[1:])
        check("x.tar", NAMES)
    tar("--delete", "-f", "x.tar", *name("b"))
    check("x.tar", name("a"))
    (tmp_path / "x.tar").write_bytes((tmp_path / "a.tar").read_bytes() + (tmp_path / "b.tar").read_bytes())
    check("x.tar", NAMES)
