from __future__ import annotations

import os
from pathlib import Path

import pytest

from framefeed.errors import UsageError
from framefeed.report._page import write_report
from tests.report.made import catalog


def test_the_same_catalog_gives_the_same_bytes_and_a_report_may_be_replaced(tmp_path: Path) -> None:
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    write_report(catalog(3), first, title="A")
    write_report(catalog(4), second)
    write_report(catalog(3), second, title="A")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b'<!DOCTYPE html>\n<html lang="en">')
    assert sorted(os.listdir(tmp_path)) == ["a.html", "b.html"]


def test_an_empty_file_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new.html"
    path.touch()
    write_report(catalog(1), os.fspath(path))
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><title>thesis</title>", b"PAR1", b"\0" * 5000])
def test_files_that_are_no_reports_are_not_replaced(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.html"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a report"):
        write_report(catalog(1), path)
    assert path.read_bytes() == content


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        write_report(catalog(1), tmp_path / "missing" / "report.html")
    with pytest.raises(UsageError, match="it is a folder"):
        write_report(catalog(1), tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="a FIFO is already there"):
        write_report(catalog(1), tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is not a report"):
        write_report(catalog(1), tmp_path / "dangling")


def test_a_failure_leaves_the_earlier_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    write_report(catalog(2), path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=rf"^cannot write {path}: No space left on device; make room"):
        write_report(catalog(3), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied", source, None, target)

    monkeypatch.setattr(os, "replace", refuse)
    path = tmp_path / "report.html"
    with pytest.raises(UsageError, match=rf"^cannot write {path}: Permission denied; choose another name") as raised:
        write_report(catalog(3), path)
    assert ".tmp" not in str(raised.value)
