from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from framefeed.scanning import scan
from framefeed.testing import make_folder
from tests.cli.running import Answer, only_line


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    make_folder(folder / "videos", videos_per_class=2, seconds=1)
    (folder / "videos" / "broken <b>.mp4").write_text("no film")
    scan(folder / "videos", out=folder / "cat.parquet", label_from="parent")
    return folder


def test_one_line_describes_the_page(scanned: Path, tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "report.html"
    out, err = answer("report", scanned / "cat.parquet", "-o", path)
    assert err == ""
    assert out.startswith(f"{path} written: 5 rows, 1 failed, ")
    text = path.read_text(encoding="utf-8")
    assert "<title>cat.parquet</title>" in text
    assert "broken &lt;b&gt;.mp4" in text


def test_json_title_and_the_default_path(scanned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          answer: Answer) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    catalog = os.fspath(scanned / "cat.parquet")
    out, err = answer("report", catalog, "--title", "Red & blue", "--json")
    assert err == ""
    size = (tmp_path / "report.html").stat().st_size
    assert json.loads(out) == {
        "report": "report.html", "catalog": catalog, "bytes": size, "rows": 5, "usable": 4, "failed": 1}  # fmt: skip
    assert "<title>Red &amp; blue</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_no_media_is_needed(scanned: Path, tmp_path: Path, answer: Answer) -> None:
    for name in ("cat.parquet", "cat.frames.arrow"):
        shutil.copy(scanned / name, tmp_path)
    answer("report", tmp_path / "cat.parquet", "-o", tmp_path / "r.html")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["missing.parquet"],
        ["text.parquet"],
        ["cat.parquet", "-o", "text.parquet"],
        ["cat.parquet", "-o", "no/folder.html"],
        ["cat.parquet", "-o", "."],
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], scanned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               answer: Answer) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("cat.parquet", "cat.frames.arrow"):
        shutil.copy(scanned / name, tmp_path)
    (tmp_path / "text.parquet").write_text("not a catalog")
    out, err = answer("report", *words, code=1)
    assert out == ""
    only_line(err)
    assert (tmp_path / "text.parquet").read_text() == "not a catalog"
