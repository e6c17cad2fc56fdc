"""A path argument that begins with ``~`` is in the home folder, wherever a path is given."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.cli import main
from framefeed.report import write_report
from framefeed.testing import make_folder, write_clip
from tests.corpus import corpus_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a video and pictures, and another current one, which stays empty."""
    folder, current = tmp_path / "home", tmp_path / "current"
    for each in (folder, folder / "videos", folder / "pictures", current):
        each.mkdir()
    shutil.copy(corpus_file("base.mp4"), folder / "videos" / "a.mp4")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(current)
    return folder


@pytest.mark.parametrize("make", [str, Path])
def test_paths_of_sources_and_outputs(make: Callable[[str], str | Path], home: Path, tmp_path: Path) -> None:
    video = make("~/videos/a.mp4")
    assert ff.probe(video).width
    assert len(ff.build_index(video)) == len(ff.VideoDecoder(video))
    assert ff.map_video(video, lambda frame, **_: frame, make("~/b.mp4")).outputs == (str(home / "b.mp4"),)
    assert len(ff.plan_requests([ff.DecodeRequest(video, indices=[0])])) == 1
    catalog = ff.scan(make("~/videos"), out=make("~/cat.parquet"), root=make("~"), workers=0)
    assert [catalog.source(0)] == [str(home / "videos" / "a.mp4")]
    catalog.to_parquet(make("~/other.parquet"))
    assert ff.Catalog.open(make("~/other.parquet"), root=make("~")).source(0) == str(home / "videos" / "a.mp4")
    assert len(catalog.without([video])) == 0
    write_report(catalog, make("~/report.html"))
    write_clip(make("~/pictures/c.mp4"))
    make_folder(make("~/made"), classes=1, videos_per_class=1, seconds=0.2)
    with ff.FrameCache(make("~/cache")) as cache:
        assert cache.path == str(home / "cache")
    assert ff.ImageSequence(make("~/pictures"), fps=1).folder == str(home / "pictures")
    with ff.ClipLoader(ff.plan_clips(catalog, ff.Uniform(1), seed=0), batch_size=1, workers=0) as loader:
        loader.ledger.append_to(make("~/append.jsonl"))
        loader.ledger.to_jsonl(make("~/ledger.jsonl"))
    made = {"b.mp4", "cat.parquet", "other.parquet", "report.html", "made", "append.jsonl", "ledger.jsonl"}
    assert made <= {path.name for path in home.iterdir()}
    assert not list((tmp_path / "current").iterdir())


def test_paths_of_commands(home: Path, tmp_path: Path) -> None:
    one = ["--rates", "5:2", "--workers", "1"]
    commands = [
        ["scan", "~/videos", "--out=~/cat.parquet"],
        ["report", "~/cat.parquet", "-o", "~/report.html"],
        ["doctor", "~/cat.parquet"],
        ["feed", "~/cat.parquet", "--cache=~/cache", *one],
        ["cache", "build", "~/cat.parquet", "~/cache", *one],
        ["cache", "info", "~/cache"],
        ["clip", "~/videos/a.mp4", "--at", "0", "--out=~/stills", "--sheet=~/sheet.png"],
        ["map", "~/videos/a.mp4", "~/b.mp4", "--function", "tests.test_home_folder:same"],
    ]
    assert [main(words) for words in commands] == [0] * len(commands)
    made = {"cat.parquet", "report.html", "cache", "stills", "sheet.png", "b.mp4"}
    assert made <= {path.name for path in home.iterdir()}
    assert not list((tmp_path / "current").iterdir())


def same(frame: object, **_: object) -> object:
    return frame


def test_a_missing_file_in_the_home_folder_is_named_in_full(home: Path) -> None:
    with pytest.raises(ff.MissingMedia, match=f"{home}/none.mp4: no such file"):
        ff.probe("~/none.mp4")


def test_other_names_with_a_tilde_stay(home: Path) -> None:
    shutil.copy(home / "videos" / "a.mp4", "~nobody-has-this-name.mp4")
    assert ff.probe("~nobody-has-this-name.mp4").width
    with pytest.raises(ff.UsageError, match="NUL"):
        ff.probe("~a\0b")
