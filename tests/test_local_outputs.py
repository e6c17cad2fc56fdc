"""What is written on this machine alone: a URL is refused, and makes no folder with the name of its protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.cli import main
from framefeed.errors import UsageError
from framefeed.report import write_report
from tests.cli.running import only_line
from tests.corpus import corpus_file

URL = "s3://data/wanted"
MESSAGE = "URLs cannot be written here, got s3://data/wanted"


@pytest.fixture(autouse=True)
def current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that is empty."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def append_failures() -> None:
    plan = ff.plan_clips(ff.scan(corpus_file("base.mp4"), workers=0), ff.Uniform(1), seed=0)
    with ff.ClipLoader(plan, batch_size=1, workers=0) as loader:
        loader.ledger.append_to(URL + ".jsonl")


CALLS: dict[str, Callable[[], object]] = {
    "journal": lambda: ff.scan(corpus_file("base.mp4"), journal=URL),
    "local": lambda: ff.Catalog.open("cat.parquet", local=URL),
    "cache": lambda: ff.FrameCache(URL),
    "report": lambda: write_report(ff.scan(corpus_file("base.mp4"), workers=0), URL + ".html"),
    "map_video": lambda: ff.map_video(corpus_file("base.mp4"), lambda frame, **_: frame, URL + ".mp4"),
    "ledger": append_failures,
}
COMMANDS = [
    "report {catalog} -o {url}.html",
    "clip {video} --at 0 -o {url}",
    "clip {video} --at 0 --sheet {url}.png",
    "cache build {video} {url}",
    "feed {catalog} --rates 2:2 --cache {url}",
    "scan {video} -o cat.parquet --journal {url}",
    "map {video} {url}.mp4 --function copy:copy",
    "bench cache {video} --json {url}.json",
    "bench cache {video} --work {url}",
    "demo -o {url}",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_function_refuses_a_url(call: str, current: Path) -> None:
    with pytest.raises(UsageError, match=MESSAGE):
        CALLS[call]()
    assert not list(current.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_url(
    command: str, current: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    catalog = tmp_path / "cat.parquet"
    ff.scan(corpus_file("base.mp4"), out=catalog, workers=0)
    words = command.format(url=URL, catalog=catalog, video=corpus_file("base.mp4")).split()
    capfd.readouterr()
    assert main(words) == 1
    assert MESSAGE in only_line(capfd.readouterr().err)
    assert not list(current.iterdir())
