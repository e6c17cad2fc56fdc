"""Scans that are interrupted, killed and run again: results are kept, and not used for files that changed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from framefeed._values import Limits
from framefeed.catalog import Catalog, SurveyOptions, gather_rows, make_memory_catalog
from framefeed.errors import UsageError
from framefeed.index import PROOF_RULES, build_index
from framefeed.scanning import _chunks, _journal, _resuming, _scan
from framefeed.scanning._journal import JOURNALED, Journal
from framefeed.scanning._rows import SourceGroup
from framefeed.scanning._scan import scan
from framefeed.testing import ClipSpec
from tests.catalog.synthetic import same
from tests.corpus import clip_file, corpus_file
from tests.damaged import damaged_clip
from tests.lengths import IS_ALL, either
from tests.media.nal_mutants import cut_at, h264
from tests.parallel.living import all_gone, children_of
from tests.programs import report_of

_opened: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened and isinstance(arguments[0], (str, bytes)):
        _opened[-1].append(os.fsdecode(arguments[0]))


sys.addaudithook(_note)  # for as long as the process lives: it is silent unless a test listens


@contextmanager
def opened() -> Iterator[list[str]]:
    """Every path that Python opens meanwhile."""
    _opened.append([])
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


def picture(path: Path, width: int = 8, height: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height)).save(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two classes, videos between them, and files that fail."""
    folder = tmp_path_factory.mktemp("made")
    for number in range(40):
        picture(folder / f"{'ab'[number % 2]}" / f"p{number:02d}.png", 8 + number)
    for number in range(4):
        video = clip_file(f"scan_{5 + number}.mp4", ClipSpec(num_frames=5 + number, height=48, width=64, gop=4))
        shutil.copy(video, folder / "a" / f"p{number * 7:02d}.mp4")
    (folder / "b" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF")
    (folder / "b" / "text.mp4").write_text("no video")
    return folder


@pytest.fixture
def media(made: Path, tmp_path: Path) -> Path:
    """A copy of these, which a test may change."""
    return shutil.copytree(made, tmp_path / "media")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_WEIGHT", 8)
    monkeypatch.setattr(_chunks, "VIDEO_WEIGHT", 4)
    monkeypatch.setattr(_journal, "WRITE_SECONDS", 0.0)


def content(path: Path) -> list[bytes]:
    return [path.read_bytes(), path.with_suffix(".frames.arrow").read_bytes()]


def touched_by(media: Path, target: Path, **options: Any) -> set[str]:
    """Scan again; the files of the media that are opened for it."""
    with opened() as names:
        scan(media, out=target, **options)
    return {
        os.path.relpath(name, media) for name in names if name.startswith(f"{media}{os.sep}") and os.path.isfile(name)
    }


def test_a_second_scan_opens_no_file(media: Path, tmp_path: Path) -> None:
    target = tmp_path / "cat.parquet"
    first = scan(media, out=target)
    before = content(target), target.stat().st_mtime_ns
    assert touched_by(media, target) == set()
    assert (content(target), target.stat().st_mtime_ns) == before
    assert Catalog.open(target).table.equals(first.table)
    assert len(touched_by(media, target, resume=False)) == 46
    assert content(target) == before[0]


def test_processes_write_what_one_thread_does(media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(media, out=tmp_path / "one.parquet", workers=0)
    monkeypatch.setattr(_chunks, "MIN_PICTURES_FOR_PROCESSES", 1)
    chunks = list(_chunks.cut_into_chunks([SourceGroup("", [f"{n}.png" for n in range(40)])], SurveyOptions()))
    assert _chunks.choose_workers(chunks, SurveyOptions(workers=2)) == (2, "processes")
    scan(media, out=tmp_path / "two.parquet", workers=2)
    assert content(tmp_path / "two.parquet") == content(tmp_path / "one.parquet")


@pytest.mark.parametrize(
    ("pictures", "videos", "kind"),
    [(100, 0, "inline"), (50, 1, "threads"), (0, 40, "threads"), (1003, 0, "processes"), (1003, 3, "processes")],
)
def test_pictures_are_shared_among_processes_once_there_are_many(
    monkeypatch: pytest.MonkeyPatch, pictures: int, videos: int, kind: str
) -> None:
    monkeypatch.setattr(_chunks, "MIN_PICTURES_FOR_PROCESSES", 1003)
    names = [*(f"{n}.png" for n in range(pictures)), *(f"{n}.mp4" for n in range(videos))]
    chunks = list(_chunks.cut_into_chunks([SourceGroup("", names)], SurveyOptions()))
    workers = _chunks.choose_workers(chunks, SurveyOptions(workers=2))
    assert workers == ((0, "threads") if kind == "inline" else (2, kind))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new picture": lambda folder: picture(folder / "a" / "p00a.png", 99),
    "a new first": lambda folder: picture(folder / "a" / "a.png", 99),
    "a new folder": lambda folder: picture(folder / "0" / "p.png", 99),
    "one gone": lambda folder: (folder / "b" / "p01.png").unlink(),
    "a video gone": lambda folder: (folder / "a" / "p07.mp4").unlink(),
    "another size": lambda folder: picture(folder / "b" / "p01.png", 777),
    "another video": lambda folder: shutil.copy(folder / "a" / "p00.mp4", folder / "a" / "p07.mp4"),
    "a touch": lambda folder: os.utime(folder / "b" / "p01.png", ns=(1, 1)),
    "a picture becomes a video": lambda folder: shutil.copy(folder / "a" / "p00.mp4", folder / "b" / "p01.png"),
    "mended": lambda folder: shutil.copy(folder / "a" / "p00.mp4", folder / "b" / "text.mp4"),
    "all gone": lambda folder: shutil.rmtree(folder / "a"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_files_are_surveyed_again(media: Path, tmp_path: Path, change: str) -> None:
    scan(media, out=tmp_path / "cat.parquet", label_from="parent")
    CHANGES[change](media)
    gone_on = scan(media, out=tmp_path / "cat.parquet", label_from="parent")
    fresh = scan(media, out=tmp_path / "fresh.parquet", label_from="parent")
    assert gone_on.table.equals(fresh.table)
    for row in gone_on.usable_rows.tolist():
        if gone_on.table.column("kind")[row].as_py() == "video":
            assert same(gone_on.frame_index(row), fresh.frame_index(row))


def test_only_what_changed_is_opened(media: Path, tmp_path: Path) -> None:
    scan(media, out=tmp_path / "cat.parquet")
    picture(media / "b" / "p01.png", 777)
    assert touched_by(media, tmp_path / "cat.parquet") == {"b/p01.png"}


def test_other_settings_survey_again(media: Path, tmp_path: Path) -> None:
    target = tmp_path / "cat.parquet"
    scan(media, out=target, depth="header")
    assert scan(media, out=target).has_frame_indexes
    assert scan(media, out=target, verify="full").frame_index(0).built_from == "decode"
    labelled = scan(media, out=target, verify="full", label_from="parent")
    assert labelled.classes == ["a", "b"]
    assert Catalog.open(target).classes == ["a", "b"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"assume_fps": 25}),
        ({"assume_fps": 25}, {"assume_fps": Fraction(30_000, 1001)}),
        ({"assume_fps": 25}, {}),
        ({}, {"limits": Limits(max_side=32)}),
        ({"limits": Limits(max_side=32)}, {}),
    ],
)
def test_a_scan_with_other_settings_is_as_if_it_was_the_first(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    target, path = tmp_path / "cat.parquet", corpus_file("raw.h264")
    before = scan(path, out=target, **first)
    again, alone = scan(path, out=target, **second), scan(path, **second)
    assert again.table.equals(alone.table)
    assert not again.table.equals(before.table)
    if alone.plannable_rows.size:
        assert same(again.frame_index(0), alone.frame_index(0))


def with_rules(target: Path, rules: int | None) -> None:
    """Say by which rules packets were believed; None: as catalogs were written before that was said."""
    table = pq.read_table(target)
    header = json.loads(table.schema.metadata[b"framefeed"])
    header |= {"rules": rules}
    if rules is None:
        del header["rules"]
    pq.write_table(table.replace_schema_metadata({b"framefeed": json.dumps(header).encode()}), target)


@pytest.mark.parametrize("rules", [None, 0, PROOF_RULES + 1])
def test_videos_that_were_believed_by_other_rules_are_indexed_anew(
    media: Path, tmp_path: Path, rules: int | None
) -> None:
    target = tmp_path / "cat.parquet"
    shutil.copy(corpus_file("fields.mp4"), media / "b" / "decoded.mp4")
    cut_at(h264("repeat-headers=1"), 12).write(media / "b" / "ends.mkv")
    assert build_index(media / "b" / "ends.mkv").built_from == "packets+ends"
    table, whole = scan(media, out=target).table, content(target)
    with_rules(target, rules)
    assert Catalog.open(target).table.equals(table)
    assert touched_by(media, target) == {"b/ends.mkv", *(f"a/p{7 * number:02d}.mp4" for number in range(4))}
    assert content(target) == whole
    assert touched_by(media, target) == set()


def test_damaged_videos_are_indexed_anew_under_other_rules(tmp_path: Path) -> None:
    media, target = tmp_path / "media", tmp_path / "cat.parquet"
    media.mkdir()
    shutil.copy(damaged_clip("older.mp4", (12, 13, 14, 15, 16, 30)), media / "damaged.mp4")
    shutil.copy(damaged_clip("older.mp4", ()), media / "sound.mp4")
    made = scan(media, out=target, verify="full")
    assert made.table.column("num_damaged_frames").to_pylist() == [3, 0]
    with_rules(target, 0)
    assert touched_by(media, target, verify="full") == {"damaged.mp4"}


@pytest.mark.parametrize(("module", "name"), [(_scan, "PROOF_RULES"), (_journal, "FORMAT")])
def test_a_journal_of_other_rules_or_another_version_is_not_read(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, name, getattr(module, name) + 1)
        assert journal_of(media, tmp_path / "cat.parquet", monkeypatch)
    assert len(touched_by(media, tmp_path / "cat.parquet")) == 46


def test_the_newest_result_of_a_journal_counts(media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, changed = tmp_path / "cat.parquet", media / "a" / "p00.png"
    for width in (500, 600):
        picture(changed, width)
        assert journal_of(media, target, monkeypatch)
    assert "a/p00.png" not in touched_by(media, target)
    assert Catalog.open(target).table.column("width").to_pylist()[1] == 600


def test_lines_of_a_manifest_are_resumed(media: Path, tmp_path: Path) -> None:
    lines = "".join(f"a/p00.mp4,{n}\na/p{2 * n:02d}.png,{n}\n" for n in range(5))
    (media / "list.csv").write_text(f"path,take\n{lines}")
    first = scan(media / "list.csv", out=tmp_path / "cat.parquet")
    with opened() as names:
        second = scan(media / "list.csv", out=tmp_path / "cat.parquet")
    assert not [name for name in names if name.endswith((".png", ".mp4"))]
    assert second.table.equals(first.table)
    (media / "list.csv").write_text(f"path,take\n{lines}b/p01.png,9\n")
    assert scan(media / "list.csv", out=tmp_path / "cat.parquet").table.equals(scan(media / "list.csv").table)


def test_a_file_that_may_not_be_read_is_tried_again(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, true_open = os.fspath(media / "b" / "p01.png"), os.open

    def refusing(path: Any, *arguments: Any, **named: Any) -> int:
        if path == locked:
            raise PermissionError(13, "Permission denied", path)
        return true_open(path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refusing)
        failed = scan(media, out=tmp_path / "cat.parquet")
    assert "p01.png" in str(failed.failures)
    assert "p01.png" not in str(scan(media, out=tmp_path / "cat.parquet").failures)


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> None:
    add = Journal.add

    def adding(self: Journal, *arguments: Any) -> None:
        nonlocal after
        if not after:
            raise error
        after -= 1
        add(self, *arguments)

    monkeypatch.setattr(Journal, "add", adding)


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_scan_continues(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, workers: int
) -> None:
    target = tmp_path / "cat.parquet"
    with monkeypatch.context() as patched:
        interrupted(patched, after, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            scan(media, out=target, workers=workers)
    assert not target.exists()
    assert (len(touched_by(media, target)) < 46) == (after > 0)
    assert Catalog.open(target).table.equals(scan(media).table)
    assert sorted(os.listdir(tmp_path)) == ["cat.frames.arrow", "cat.parquet", "media"]


def journal_of(media: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of a journal that an interrupted scan left."""
    with monkeypatch.context() as patched:
        interrupted(patched, 6, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            scan(media, out=target, workers=0)
    return sorted(Path(f"{target}.journal").iterdir())


def test_a_damaged_journal_is_never_believed(tmp_path: Path) -> None:
    facts = pa.RecordBatch.from_pylist([{"source": f"{n}.png", "width": n} for n in range(20)], JOURNALED)
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}) as journal:
        journal.add([facts.slice(0, 12)], [])
        journal.add([facts.slice(12)], [])
        path = min(journal.folder.glob("*.part"))
        whole = path.read_bytes()
        changed = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 97))
        torn = (whole[:size] for size in range(0, len(whole), len(whole) // 12))
        for damaged in (*changed, *torn):
            path.write_bytes(damaged)
            (part,) = journal.read_parts()
            assert part.facts.table().equals(pa.Table.from_batches([facts.slice(12)]))


def test_journals_of_other_settings_are_not_read(media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal_of(media, tmp_path / "cat.parquet", monkeypatch)
    made = scan(media, out=tmp_path / "cat.parquet", verify="full")
    assert made.table.equals(scan(media, verify="full").table)


def test_two_scans_to_one_catalog_do_not_mix(media: Path, tmp_path: Path) -> None:
    target = os.fspath(tmp_path / "cat.parquet")
    with (
        Journal(target, {}),
        pytest.raises(UsageError, match=r"other arguments \(roots, depth, .*: choose another out="),
    ):
        scan(media, out=target)
    scan(media, out=target)


def test_other_files_stay_in_the_journals_folder(media: Path, tmp_path: Path) -> None:
    (tmp_path / "cat.parquet.journal").mkdir()
    (tmp_path / "cat.parquet.journal" / "notes.txt").write_text("mine")
    scan(media, out=tmp_path / "cat.parquet")
    assert (tmp_path / "cat.parquet.journal" / "notes.txt").read_text() == "mine"


def test_the_disk_is_full(media: Path, tmp_path: Path) -> None:
    report = report_of("tests.scanning.full_disk", os.fspath(media), os.fspath(tmp_path))
    assert "make room on the disk and run the same scan again" in report["error"]
    assert report["kept"] > 0
    made = Catalog.open(tmp_path / "cat.parquet")
    assert made.table.equals(scan(media).table)


@pytest.mark.long
@pytest.mark.parametrize("found", ["nothing", pytest.param("same", marks=pytest.mark.test_all), "part"])
def test_stopped_at_every_step_and_size(tmp_path: Path, found: str) -> None:
    folder = tmp_path / "media"
    for number in range(either(short=5, long=14)):
        picture(folder / "ab"[number % 2] / f"p{number:02d}.png", 8 + number)
    for number in range(2):
        video = clip_file(f"scan_{5 + number}.mp4", ClipSpec(num_frames=5 + number, height=48, width=64, gop=4))
        shutil.copy(video, folder / "ab"[number] / f"p{number * 7:02d}.mp4")
    (folder / "b" / "text.mp4").write_text("no video")
    (tmp_path / "work").mkdir()
    # Sizes double in so many parts; the scan is killed at one of so many steps.
    parts, every = either(short=("1", "3") if IS_ALL else ("0.5", "14"), long=("2", "1"))
    folders = os.fspath(folder), os.fspath(tmp_path / "work")
    report = report_of("tests.scanning.stopped_scan", *folders, found, parts, every)
    assert set(report["statuses"]) == {0, 3, -signal.SIGKILL, -signal.SIGXFSZ}
    assert (report["torn"], report["unequal"]) == ([], [])


def test_D10_odd_names_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    media, target = tmp_path / os.fsdecode(b"\xff"), tmp_path / "cat.parquet"
    for number, name in enumerate(
        [b"caf\xe9", b"new\nline", b" ", b"%s", b"x" * 251, "\N{SNOWMAN}".encode(), b"a", b"b"]
    ):
        picture(media / f"{os.fsdecode(name)}.png", 8 + number)
        (media / f"{os.fsdecode(name)}.mp4").write_text("no video")
    with monkeypatch.context() as patched:
        interrupted(patched, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            scan(media, out=target, workers=0, root=tmp_path)
    assert 0 < len(touched_by(media, target, root=tmp_path)) < 16
    assert Catalog.open(target).table.equals(scan(media, root=tmp_path).table)
    assert touched_by(media, target, root=tmp_path) == set()


def test_a_glob_does_not_match_what_is_written(media: Path) -> None:
    target = media / "a" / "cat.parquet"
    for _ in range(2):
        assert len(scan(str(media / "a" / "*"), out=target)) == 24
    assert len(scan(str(media / "a" / "*"), out=media / "a" / "other.parquet")) == 26


def test_a_catalog_whose_frame_tables_are_gone_is_made_anew(media: Path, tmp_path: Path) -> None:
    target = tmp_path / "cat.parquet"
    scan(media, out=target)
    before = content(target)
    target.with_suffix(".frames.arrow").unlink()
    scan(media, out=target)
    assert content(target) == before


@settings(max_examples=25 if IS_ALL else 12)
@given(data=st.data())
def test_a_damaged_catalog_is_never_believed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for number in range(5):
        picture(folder / f"p{number}.png", 8 + number)
    target = folder / "cat.parquet"
    scan(folder, out=target, workers=0)
    damaged = bytearray(target.read_bytes())
    pages = len(damaged) - 8 - int.from_bytes(damaged[-8:-4], "little")  # before the Parquet footer
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[4 + data.draw(st.integers(0, 2**16)) % (pages - 4)] ^= data.draw(st.integers(1, 255))
    target.write_bytes(damaged)
    os.utime(folder / "p3.png", ns=(1, 1))  # where nothing has changed, few of the columns are read
    assert scan(folder, out=target, workers=0).table.equals(scan(folder, workers=0).table)
    shutil.rmtree(folder)


@pytest.mark.parametrize("year", [-70, -(2**9), 2**9, 2**13])
def test_files_of_long_ago_and_of_far_ahead(media: Path, tmp_path: Path, year: int) -> None:
    for path in (media / "a").iterdir():
        os.utime(path, (0, year * 365.25 * 86400))
    made = scan(media, out=tmp_path / "cat.parquet")
    assert len(made.failures) == 2
    assert touched_by(media, tmp_path / "cat.parquet") == set()
    assert make_memory_catalog([made[0]]).num_frames.tolist() == [5]


def test_failures_in_a_moved_folder_name_its_new_path(media: Path, tmp_path: Path) -> None:
    target = tmp_path / "cat.parquet"
    scan(media, out=target, root=media)
    moved = media.rename(tmp_path / "moved")
    assert touched_by(moved, target, root=moved) == {"b/broken.jpg", "b/text.mp4"}
    assert Catalog.open(target, moved).table.equals(scan(moved, root=moved).table)
    assert touched_by(moved, target, root=moved) == set()


def test_a_journal_that_is_removed_while_another_scan_locks_it(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, flock = tmp_path / "cat.parquet.journal", fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        if folder.exists():
            monkeypatch.setattr(fcntl, "flock", flock)
            shutil.rmtree(folder)  # as a scan that ends just now does
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}), pytest.raises(UsageError, match="other arguments"):
        scan(media, out=tmp_path / "cat.parquet")


def test_journal_write_errors_name_cause_and_remedy(media: Path, tmp_path: Path) -> None:
    (tmp_path / "cat.parquet.journal").write_text("mine")
    with pytest.raises(UsageError, match=r"cat\.parquet\.journal must be a folder.*move it away"):
        scan(media, out=tmp_path / "cat.parquet")


@pytest.mark.parametrize(("number", "advice"), [(errno.EACCES, "choose another name"), (errno.ENOSPC, "make room")])
def test_without_rows_the_message_promises_no_continuation(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), os.fspath(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        with pytest.raises(
            UsageError, match=rf"cannot write .*cat\.parquet: {os.strerror(number)}; {advice}"
        ) as raised:
            scan(media, out=tmp_path / "cat.parquet")
    assert "continues" not in str(raised.value)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(UsageError, match=os.strerror(number)) as raised:
            scan(media, out=tmp_path / "cat.parquet")
    assert "continues" not in str(raised.value)
    assert "Errno" not in str(raised.value)


def test_a_worker_that_is_killed_costs_no_row(media: Path, tmp_path: Path) -> None:
    report = report_of("tests.scanning.lost_worker", os.fspath(media), os.fspath(tmp_path / "cat.parquet"))
    assert re.search(r"killed by SIGKILL.* files, from .*/b/.* to .*/b/.*: run the same scan again", report["told"])
    assert report["kept"] > 1000
    assert report["rows"] == 46
    assert Catalog.open(tmp_path / "cat.parquet").table.equals(scan(media).table)


def test_workers_end_with_the_scan_even_if_its_error_is_kept(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chunks, "MIN_PICTURES_FOR_PROCESSES", 1)
    before = children_of(os.getpid())
    with monkeypatch.context() as patched:
        interrupted(patched, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt) as kept:
            scan(media / "b", out=tmp_path / "cat.parquet", workers=2)
    assert kept.traceback
    assert all_gone(children_of(os.getpid()) - before)


@pytest.mark.long
def test_kill_9_at_random_moments(media: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    moments = either(short=20 if IS_ALL else 6, long=50)
    report = report_of("tests.scanning.killed_scan", os.fspath(media), os.fspath(tmp_path / "work"), str(moments))
    assert report["rows"] == 46
    assert (report["unequal"], report["left"]) == (0, 0)


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6), at_once=st.integers(1, 9), data=st.data())
def test_gathered_rows_are_the_selected_rows(sizes: list[int], at_once: int, data: st.DataObject) -> None:
    starts = np.cumsum([0, *sizes])
    batches = [
        pa.RecordBatch.from_pydict({"n": list(range(start, start + size))})
        for start, size in zip(starts, sizes, strict=False)
    ]
    rows = data.draw(st.lists(st.integers(0, int(starts[-1]) - 1), max_size=30))
    got = [
        n for batch in gather_rows(batches, np.array(rows, np.int64), at_once) for n in batch.column("n").to_pylist()
    ]
    assert got == rows


def as_videos(folder: Path, target: Path | None = None, **options: Any) -> Catalog:
    return scan(folder, out=target, image_folders="video", **{"fps": 25, **options})


@pytest.mark.parametrize("depth", ["frames", "header"])
@pytest.mark.parametrize("verify", ["ends", "full"])
def test_folders_of_pictures_are_not_opened_again(tmp_path: Path, depth: str, verify: str) -> None:
    media, target, options = tmp_path / "media", tmp_path / "cat.parquet", {"depth": depth, "verify": verify}
    for number in range(12):
        picture(media / "ab"[number % 2] / f"{number}.png")
    (media / "a" / "4.png").write_bytes((media / "a" / "4.png").read_bytes()[:-30])
    as_videos(media, target, **options)
    for change, touched in {
        lambda: None: 0,
        lambda: picture(media / "a" / "99.png"): 1,
        lambda: os.utime(media / "b" / "1.png", ns=(1, 1)): 1,
        lambda: (media / "b" / "1.png").rename(media / "b" / "01.png"): 1,
        lambda: options.update(fps=30): 2,
        lambda: options.update(fps=Fraction(30_000, 1001)): 2,
    }.items():
        change()
        with opened() as names:
            made = as_videos(media, target, **options)
        assert len({os.path.dirname(name) for name in names if name.endswith(".png")}) == touched
        assert made.table.equals(as_videos(media, **options).table)


def test_folders_of_pictures_from_far_ahead(tmp_path: Path) -> None:
    picture(tmp_path / "media" / "1.png")
    os.utime(tmp_path / "media" / "1.png", (0, 4e11))
    assert as_videos(tmp_path / "media", tmp_path / "cat.parquet").num_frames.tolist() == [1]


def test_a_journal_of_another_rate_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        picture(tmp_path / "media" / f"{number}" / "1.png")
    with monkeypatch.context() as patched:
        interrupted(patched, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            as_videos(tmp_path / "media", tmp_path / "cat.parquet", workers=0)
    made = as_videos(tmp_path / "media", tmp_path / "cat.parquet", fps=5)
    assert made.table.equals(as_videos(tmp_path / "media", fps=5).table)
    assert made.frame_index(0).time_base == Fraction(1, 5)


def test_files_are_looked_up_in_their_folder_and_by_their_paths_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("a.png", "in/b.png", "c.png")):
        (tmp_path / name).write_bytes(bytes(number))
    groups = [SourceGroup(str(tmp_path), ["a.png", "in/b.png", "gone.png", "in/../c.png", "z\0.png"])]
    groups.append(SourceGroup("", [b"bytes"], "sources"))
    sizes, times = _resuming.stat_all(groups)
    assert sizes.tolist() == [0, 1, -1, 2, -1, -1]
    assert times.tolist()[1:3] == [(tmp_path / "in" / "b.png").stat().st_mtime_ns, -1]

    def refuse(*arguments: Any, **options: Any) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    by_path = _resuming.stat_all(groups)
    assert (by_path[0].tolist(), by_path[1].tolist()) == (sizes.tolist(), times.tolist())


def test_files_of_a_folder_are_looked_up_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, stat = list[str](), os.stat
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.setattr(os, "stat", lambda path, **options: (asked.append(path), stat(path, **options))[1])
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, os.stat})
    assert _resuming.stat_all([SourceGroup(str(tmp_path), ["a.png", "b.png"])])[0].tolist() == [1, 1]
    assert asked == ["a.png", "b.png"]
