"""Where a command cannot write: one line that names the wanted file and the next step, and never a scratch file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from framefeed.catalog import Catalog
from framefeed.scanning import scan
from framefeed.testing import make_folder
from tests.cli.running import Answer, only_line
from tests.corpus import clip_file

# Nobody can make a file there.
UNWRITABLE = "/proc"
WRITERS = {
    "report": ["report", "{catalog}", "-o", "{out}.html"],
    "scan": ["scan", "{videos}", "-o", "{out}.parquet"],
    "sheet": ["clip", "{clip}", "--at", "0", "--sheet", "{out}.png"],
    "bench": ["bench", "cache", "{videos}", "--rows", "table", "--json", "{out}.json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("targets")
    make_folder(folder / "videos", classes=1, videos_per_class=2, seconds=1)
    scan(folder / "videos", out=folder / "cat.parquet", workers=0)
    return folder


def words_of(command: str, folder: Path, out: str) -> list[str]:
    clip = next((folder / "videos").rglob("*.mp4"))
    positions = {"catalog": folder / "cat.parquet", "videos": folder / "videos", "clip": clip, "out": out}
    return [word.format(**positions) for word in WRITERS[command]]


@pytest.mark.parametrize("command", WRITERS)
def test_a_folder_that_may_not_be_written_to(command: str, folder: Path, answer: Answer) -> None:
    words = words_of(command, folder, f"{UNWRITABLE}/wanted")
    out, err = answer(*words, code=1)
    line = only_line(err)
    assert f"cannot write {words[-1]}: " in line
    assert "; choose another name, in a folder that may be written to" in line
    assert "tmp" not in line
    assert "Errno" not in line
    assert out == ""


@pytest.mark.parametrize("command", WRITERS)
def test_a_fifo_is_named_as_such(command: str, folder: Path, tmp_path: Path, answer: Answer) -> None:
    words = words_of(command, folder, f"{tmp_path}/pipe")
    os.mkfifo(words[-1])
    assert f"cannot write {words[-1]}: a FIFO is already there" in only_line(answer(*words, code=1).err)
    assert Path(words[-1]).is_fifo()


@pytest.mark.parametrize("target", ["fifo", "file", "unwritable"])
def test_frames_go_to_a_folder(target: str, folder: Path, tmp_path: Path, answer: Answer) -> None:
    positions = {"fifo": tmp_path / "fifo", "file": folder / "cat.parquet", "unwritable": Path(UNWRITABLE) / "wanted"}
    os.mkfifo(positions["fifo"])
    line = only_line(answer("clip", clip_file("good.mp4"), "--at", "0", "-o", positions[target], code=1).err)
    assert f"cannot make the folder {positions[target]}: " in line
    assert {"fifo": "a FIFO is already there", "file": "a file is already there"}.get(
        target, "choose another one"
    ) in line


def test_a_full_standard_output_is_one_line(folder: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        line = only_line(answer("report", folder / "cat.parquet", "-o", folder / "r.html", "--json", code=1).err)
    assert "cannot write standard output: No space left on device; make room" in line


@pytest.mark.parametrize("words", [["report", "{}"], ["feed", "{}", "--rates", "1:2"], ["bench", "decode", "{}"]])
@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_file_to_read_must_be_a_regular_file(words: list[str], kind: str, tmp_path: Path, answer: Answer) -> None:
    path = "/dev/zero" if kind == "device" else os.fspath(tmp_path / "pipe")
    if kind == "FIFO":
        os.mkfifo(path)
    assert f"is a {kind}, not a file" in only_line(answer(*[word.format(path) for word in words], code=1).err)


def test_a_cache_must_be_a_folder(tmp_path: Path, folder: Path, answer: Answer) -> None:
    os.mkfifo(tmp_path / "pipe")
    for words in (["info"], ["build", os.fspath(folder / "cat.parquet")]):
        line = only_line(answer("cache", *words, tmp_path / "pipe", code=1).err)
        assert all(word in line for word in ("pipe: ", "a FIFO", "folder")), line


def test_frame_tables_that_are_missing_are_named(folder: Path, tmp_path: Path, answer: Answer) -> None:
    path, missing = tmp_path / "cat.parquet", f"there is no file {tmp_path / 'cat.frames.arrow'}"
    path.write_bytes((folder / "cat.parquet").read_bytes())
    line = only_line(answer("feed", path, "--rates", "1:2", code=1).err)
    assert f"{missing}: put it back, or plan over catalog.with_frame_indexes() (on the command line: scan again" in line
    assert missing in only_line(answer("report", path, "-o", tmp_path / "r.html").err)
    with pytest.raises(ValueError, match=missing):
        Catalog.open(path).frame_index(0)


def test_an_error_of_the_system_is_printed_without_its_number(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    def fail(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "some/file")

    monkeypatch.setattr("framefeed.cli._dispatch", fail)
    assert only_line(answer("doctor", code=1).err) == "framefeed: some/file: Permission denied"
