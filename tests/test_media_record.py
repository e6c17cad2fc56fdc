"""`make media` catches what it is for: each reader and each record here has one mistake."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image

from framefeed.errors import CorruptMedia
from tests import real_media
from tests.corpus import corpus_file
from tests.decode.law import Reader
from tests.real_media import Row, open_product, read_rows, write_rows
from tests.reference import Planes

CLIP = "bframes_2.mp4"


@dataclass
class Mistaken:
    """A reader that makes a mistake in its second frame."""

    path: Path

    def pts(self) -> list[int | None]:
        return open_product(self.path).pts()

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        frames = open_product(self.path).fetch(ordinals)
        return {ordinal: self.change(ordinals, ordinal, planes) for ordinal, planes in frames.items()}

    def change(self, ordinals: Sequence[int], ordinal: int, planes: Planes) -> Planes:
        raise NotImplementedError


class ChangesPixels(Mistaken):
    def change(self, ordinals: Sequence[int], ordinal: int, planes: Planes) -> Planes:
        return planes[:-1] + "?" if ordinal == 1 else planes


class ChangesPixelsOfSingleFrames(Mistaken):
    def change(self, ordinals: Sequence[int], ordinal: int, planes: Planes) -> Planes:
        return planes[:-1] + "?" if len(ordinals) == 1 else planes


class LosesFrame(Mistaken):
    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        return {ordinal: planes for ordinal, planes in open_product(self.path).fetch(ordinals).items() if ordinal != 1}


class CountsOneLess(Mistaken):
    def pts(self) -> list[int | None]:
        return super().pts()[:-1]

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        return open_product(self.path).fetch(ordinals)


def _refuse(path: Path) -> Reader:
    raise CorruptMedia(f"{path}: nothing comes of it")


def _fail(path: Path) -> Reader:
    raise KeyError(path.name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two videos, a picture, a text that is called a video, and a text."""
    media = tmp_path / "media" / "inner"
    media.mkdir(parents=True)
    for name in (CLIP, "open_gop.mkv"):
        shutil.copy(corpus_file(name), media)
    Image.new("RGB", (8, 6), (200, 0, 0)).save(media / "picture.png")
    (media / "text.mp4").write_text("no video")
    (media / "text.png").write_text("no video")
    (media / "notes.txt").write_text("not listed")
    return tmp_path / "media"


@pytest.fixture
def arguments(folder: Path, tmp_path: Path) -> list[str]:
    return [str(folder), "--record", str(tmp_path / "record.tsv"), "--results", str(tmp_path / "results.tsv")]


def _edit(path: Path, name: str, **changes: object) -> None:
    rows = [replace(row, **changes) if row.name.endswith(name) else row for row in read_rows(path).values()]
    write_rows(path, rows)


def test_all_is_well_and_recorded(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert real_media.main([*arguments, "--update"]) == 0
    assert "5 files, 141 frames, 0 differ, 5 not in the record" in capsys.readouterr().out
    rows = {row.name: row for row in read_rows(tmp_path / "record.tsv").values()}
    assert list(rows) == [f"inner/{name}" for name in (CLIP, "open_gop.mkv", "picture.png", "text.mp4", "text.png")]
    assert rows["inner/text.mp4"].digest == "UnreadableMedia"
    assert rows["inner/picture.png"].library.startswith("Pillow")
    assert real_media.main(arguments) == 0
    assert "0 not in the record" in capsys.readouterr().out


@pytest.mark.parametrize(
    "open_reader", [ChangesPixels, ChangesPixelsOfSingleFrames, LosesFrame, CountsOneLess, _refuse, _fail]
)
def test_a_wrong_reader_is_caught_without_a_record(
    open_reader: real_media.OpenReader, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert real_media.main([*arguments, "--update"], open_reader) == 1
    said = capsys.readouterr().out
    assert f"inner/{CLIP}: DIFFERS" in said
    assert "inner/picture.png: DIFFERS" not in said
    assert not (tmp_path / "record.tsv").exists()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (CLIP, {"digest": "0" * 32}),
        (CLIP, {"frames": 99}),
        ("picture.png", {"digest": "0" * 32}),
        ("text.mp4", {"frames": 3, "digest": "0" * 32}),
    ],
)
def test_what_the_record_has_otherwise_is_named(
    name: str, changes: dict[str, object], arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert real_media.main([*arguments, "--update"]) == 0
    _edit(tmp_path / "record.tsv", name, **changes)
    assert real_media.main(arguments) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if "DIFFERS" in line and name not in line] == []


def test_a_record_of_another_version_is_kept_and_not_compared(arguments: list[str], tmp_path: Path) -> None:
    assert real_media.main([*arguments, "--update"]) == 0
    _edit(tmp_path / "record.tsv", CLIP, digest="0" * 32, library="libavcodec 1.2.3")
    assert real_media.main([*arguments, "--update"]) == 0
    rows = [row for row in read_rows(tmp_path / "record.tsv").values() if row.name.endswith(CLIP)]
    assert sorted(row.library for row in rows) == sorted(["libavcodec 1.2.3", real_media.LIBAVCODEC])


def test_a_run_goes_on_where_it_was_stopped(
    folder: Path, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert real_media.main(arguments) == 0
    results = tmp_path / "results.tsv"
    whole = results.read_text()
    results.write_text("".join(whole.splitlines(keepends=True)[:5]) + "cut sh")
    shutil.copy(corpus_file("base.mp4"), folder / "inner" / CLIP)  # another file of the same name is not done
    capsys.readouterr()
    assert real_media.main([*arguments, "--resume"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in said[:-1]] == [f"inner/{CLIP}:", "inner/text.png:"]
    assert len(read_rows(results)) == 6


def test_two_processes_answer_as_one(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert real_media.main(arguments) == 0
    alone = capsys.readouterr().out
    assert real_media.main([*arguments, "--jobs", "2"]) == 0
    assert capsys.readouterr().out == alone


def test_a_missing_folder_is_skipped_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert real_media.main([str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out.startswith("skipped: ")


def test_the_committed_record_is_whole() -> None:
    text = real_media.RECORD.read_text(encoding="utf-8").splitlines()
    rows: list[Row] = list(read_rows(real_media.RECORD).values())
    assert text[0].split("\t") == list(real_media.HEADING)
    assert len(rows) == len(text) - 1 > 800
    assert sum(row.frames for row in rows) > 40_000
