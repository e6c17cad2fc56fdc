"""Results that a stopped scan keeps: those of each finished file, also in unfinished chunks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from framefeed.catalog import FrameTables, SurveyOptions, SurveyResult, survey
from framefeed.errors import UsageError
from framefeed.scanning import _chunks, _journal
from framefeed.scanning._chunks import Chunk, survey_chunk
from framefeed.scanning._journal import WRITE_SECONDS, Journal, JournalWriter
from framefeed.scanning._rows import SourceGroup
from framefeed.scanning._scan import ScanRequest, scan, scan_roots
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.parallel.clocks import HandClock
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """Three chunks of videos, which have 5, 6, 7, ... frames: rows and frame tables of others show."""
    folder = tmp_path / "media"
    folder.mkdir()
    for number in range(20):
        clip = clip_file(f"scan_{5 + number}.mp4", ClipSpec(num_frames=5 + number, height=48, width=64, gop=4))
        (folder / f"{number:02d}.mp4").write_bytes(clip.read_bytes())
    return folder


@pytest.fixture
def paths(media: Path) -> list[str]:
    return sorted(map(str, media.iterdir()))


def rows_of(opened: Journal) -> list[str]:
    """Names of the files that a journal has rows of; each row has the frame table of its own file."""
    names = list[str]()
    for run in opened.read_parts():
        facts = run.facts
        tables = FrameTables(run.frames)
        here = [os.path.basename(source) for source in facts.column("source").to_pylist()]
        frames = [5 + int(name.removesuffix(".mp4")) for name in here]
        assert facts.column("num_frames").to_pylist() == frames
        assert [len(tables.index(row) or ()) for row in range(len(here))] == frames
        names += here
    return names


def test_results_are_written_after_some_seconds_and_once(tmp_path: Path, paths: list[str]) -> None:
    options, clock, found = SurveyOptions(), HandClock(), dict[int, SurveyResult]()
    whole = survey_chunk(Chunk((SourceGroup("", paths[:5]),), 0), options, found.__setitem__)
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}) as opened:
        writer = JournalWriter(opened, pa.array(paths), clock)
        writer.record(1, found[1])
        clock.advance(WRITE_SECONDS / 2)
        writer.record(3, found[3])
        assert rows_of(opened) == []
        clock.advance(WRITE_SECONDS / 2)
        writer.record(2, found[2])
        assert rows_of(opened) == ["01.mp4", "02.mp4", "03.mp4"]
        writer.record(0, found[0])
        writer.record(4, found[4])
        assert writer.num_written == 3
        writer.write(0, whole)
        assert writer.num_written == 3
        clock.advance(WRITE_SECONDS)
        writer.write(5, survey_chunk(Chunk((SourceGroup("", paths[5:6]),), 5), options))
        assert rows_of(opened) == ["01.mp4", "02.mp4", "03.mp4", "05.mp4", "00.mp4", "04.mp4"]
        writer.record(6, survey(paths[6], options))
        writer.close()
        assert (len(rows_of(opened)), writer.num_written) == (7, 7)


def test_a_worker_that_ends_after_the_scan_writes_nothing(tmp_path: Path, paths: list[str]) -> None:
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}) as opened:
        writer = JournalWriter(opened, pa.array(paths), HandClock())
        writer.record(0, survey(paths[0], SurveyOptions()))
        writer.close()
        writer.record(1, survey(paths[1], SurveyOptions()))
        writer.close()
        assert rows_of(opened) == ["00.mp4"]


def failing_at(monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException) -> None:
    """Fail one of the parts of a journal, after its bytes were written."""
    rename, calls = Path.rename, iter(range(100))

    def failing(self: Path, target: Path) -> Path:
        if next(calls) == call:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)


def keep_slowly(opened: Journal, paths: list[str]) -> None:
    clock = HandClock()
    with JournalWriter(opened, pa.array(paths), clock) as writer:
        for number, path in enumerate(paths):
            clock.advance(WRITE_SECONDS)
            writer.record(number, survey(path, SurveyOptions()))


@pytest.mark.parametrize("call", [0, 1, 3])
def test_an_interrupt_while_it_is_written_costs_nothing(
    tmp_path: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}) as opened:
        failing_at(monkeypatch, call, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            keep_slowly(opened, paths[:4])
        expected = [f"{number:02d}.mp4" for number in range(call + 1)]
        assert rows_of(opened) == expected


def test_where_the_journal_cannot_be_written_it_is_not_tried_again(
    tmp_path: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(os.fspath(tmp_path / "cat.parquet"), {}) as opened:
        failing_at(monkeypatch, 1, OSError(28, "No space left on device"))
        with pytest.raises(UsageError, match="make room"):
            keep_slowly(opened, paths[:4])
        assert rows_of(opened) == ["00.mp4"]


def interrupted_at(monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[], object] = lambda: None) -> None:
    """Interrupt a scan at one file."""

    def interrupting(source: Any, options: SurveyOptions) -> SurveyResult:
        if os.path.basename(source) == name:
            before()
            raise KeyboardInterrupt
        return survey(source, options)

    monkeypatch.setattr(_chunks, "survey", interrupting)


def test_an_interrupted_scan_keeps_the_files_of_the_chunk_that_it_was_at(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        interrupted_at(patched, "13.mp4")
        with pytest.raises(KeyboardInterrupt, match=r"13 of 20 files are saved in .*cat\.parquet"):
            scan(media, out=tmp_path / "cat.parquet", workers=0)
    again = scan_roots([media], ScanRequest(SurveyOptions(), tmp_path / "cat.parquet"))
    assert (again.stats.known, again.stats.surveyed) == (13, 7)
    assert again.catalog.table.equals(scan(media).table)


def test_interrupted_again_it_says_what_both_have_kept(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, count in (("03.mp4", 3), ("09.mp4", 9)):
        with monkeypatch.context() as patched:
            interrupted_at(patched, name)
            with pytest.raises(KeyboardInterrupt, match=f"{count} of 20 files"):
                scan(media, out=tmp_path / "cat.parquet", workers=0)


def test_an_interrupted_scan_keeps_what_each_of_its_workers_has_done(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others_done = threading.Event()
    record, kept = JournalWriter.record, list[int]()

    def keeping(self: JournalWriter, number: int, finding: SurveyResult) -> None:
        record(self, number, finding)
        kept.append(number)
        if {*range(5), *range(8, 20)} == {*kept}:
            others_done.set()

    with monkeypatch.context() as patched:
        patched.setattr(JournalWriter, "record", keeping)
        interrupted_at(patched, "05.mp4", lambda: others_done.wait(PATIENCE_SECONDS))
        with pytest.raises(KeyboardInterrupt, match="17 of 20 files"):
            scan(media, out=tmp_path / "cat.parquet", workers=2)
    again = scan_roots([media], ScanRequest(SurveyOptions(), tmp_path / "cat.parquet"))
    assert again.stats.known == 17
    assert again.catalog.table.equals(scan(media).table)


@pytest.mark.parametrize("workers", [0, 2])
def test_early_writes_change_no_catalog(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(_journal, "WRITE_SECONDS", 0.0)
    added, add = list[int](), Journal.add

    def counted(self: Journal, facts: list[pa.RecordBatch], frames: Any) -> None:
        added.append(sum(map(len, facts)))
        add(self, facts, frames)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", counted)
        made = scan(media, out=tmp_path / "cat.parquet", workers=workers)
    assert added == [1] * 20
    assert made.table.equals(scan(media).table)


def test_without_a_journal_an_interrupt_is_what_it_was(media: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(monkeypatch, "13.mp4")
    with pytest.raises(KeyboardInterrupt) as caught:
        scan(media, workers=0)
    assert str(caught.value) == ""


def test_chunks_of_pictures_that_are_decoded_are_small() -> None:
    parts = [SourceGroup("", [f"{number}.jpg" for number in range(10_000)])]
    sizes = [len(chunk) for chunk in _chunks.cut_into_chunks(parts, SurveyOptions(verify="full"))]
    assert sizes[0] == _chunks.CHUNK_WEIGHT // _chunks.DECODED_WEIGHT
    assert sum(sizes) == 10_000
    assert [len(chunk) for chunk in _chunks.cut_into_chunks(parts, SurveyOptions())] == [8192, 10_000 - 8192]


def test_chunks_know_the_number_of_their_first_source() -> None:
    parts = [SourceGroup("", [f"{number}.mp4" for number in range(count)]) for count in (3, 20, 1)]
    made = list(_chunks.cut_into_chunks(parts, SurveyOptions()))
    assert [(chunk.start, len(chunk)) for chunk in made] == [(0, 8), (8, 8), (16, 8)]


def test_S17_groups_of_sources_which_messages_name_say_no_names() -> None:
    group = SourceGroup("", ["https://me:password@h/v.mp4?sig=abc"])
    assert repr(Chunk((group,))) == "Chunk(groups=(SourceGroup(folder='', kind='files'),), start=0)"
