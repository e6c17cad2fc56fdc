"""Commands with standard streams that are closed, or whose reader has left: the work is done all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import framefeed as ff
from tests.cli.running import SECONDS, environment
from tests.corpus import clip_file
from tests.lengths import IS_ALL, either

ALL = ("<&- >&- 2>&-", "2>&1 | :")
"""Under these, every command is run, in the short form under the first; under the others, those that write most."""
CLOSED = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| :", "2>&1 | :")
KEEP = "def keep(frame, *, index, pts_seconds):\n    return frame\n"

REPLACES = """
import os, sys
from _framefeed_command import replace_closed_streams
for number in CLOSED:
    os.close(number)
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)
replace_closed_streams()
nowhere = os.stat(os.devnull)
for number in CLOSED:
    assert os.path.samestat(os.fstat(number), nowhere), number
    assert os.get_inheritable(number), number
assert os.open(os.devnull, os.O_RDONLY) > 2
sys.stdin.read() if 0 in CLOSED else None
for stream in (sys.stdout, sys.stderr):
    stream.write("a line")
    stream.flush()
"""


def run_in_shell(words: list[str], ending: str, folder: Path) -> int:
    """Run ``framefeed WORDS ENDING`` in a shell, where ENDING closes streams, and return its own exit code."""
    script = f'{{ "$@"; echo $? >code; }} {ending}' if "|" in ending else f'"$@" {ending}; echo $? >code'
    command = ["sh", "-c", script, "sh", sys.executable, "-W", "error", "-m", "framefeed", *words]
    subprocess.run(command, cwd=folder, env=environment(), capture_output=True, timeout=SECONDS, check=True)
    return int((folder / "code").read_text())


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_are_replaced_by_the_null_device(closed: tuple[int, ...]) -> None:
    script = REPLACES.replace("CLOSED", repr(closed))
    result = subprocess.run([sys.executable, "-W", "error", "-c", script], env=environment(), capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    assert (result.stdout, result.stderr) == (b"" if 1 in closed else b"a line", b"" if 2 in closed else b"a line")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "ending", [pytest.param(each, marks=[pytest.mark.test_all] * (each in ("<&-", "2>&-"))) for each in CLOSED]
)
def test_commands_do_their_work_whatever_stream_is_closed(ending: str, tmp_path: Path) -> None:
    video = str(clip_file("good.mp4"))
    (tmp_path / "mine.py").write_text(KEEP)
    (tmp_path / "bad.mp4").write_bytes(b"")
    runs = (
        (["scan", video, "bad.mp4", "-o", "cat.parquet"], 3, "cat.parquet"),
        (["map", video, "out.mp4", "--function", "mine:keep", "--json"], 0, "out.mp4"),
        (["clip", video, "--indices", "3", "-o", "frames"], 0, "frames"),
        (["report", "cat.parquet", "-o", "report.html"], 0, "report.html"),
        (["cache", "build", "cat.parquet", "cache", "--size", "16x16"], 3, "cache"),
        (["feed", "--text", "cat.parquet", "--rates", "1:2"], 3, "cat.parquet"),
        (["cache", "info", "cache"], 0, "cache"),
        (["scan"], 1, "."),
    )
    chosen = runs if ending in ALL[: either(short=1, long=2)] else runs[: either(short=1, long=2)]
    if not IS_ALL:  # without two that write and print as others do
        chosen = tuple(run for run in chosen if run[0][0] not in ("feed", "clip"))
    for words, code, output in chosen:
        assert run_in_shell(words, ending, tmp_path) == code, words
        assert os.path.exists(tmp_path / output), words
    assert ff.Catalog.open(tmp_path / "cat.parquet").table["error_type"].to_pylist() == [None, "UnreadableMedia"]
    if len(chosen) > 1:
        assert len(ff.build_index(tmp_path / "out.mp4")) == len(ff.build_index(video))


@pytest.mark.slow
def test_a_map_of_many_videos_goes_on_when_its_output_is_no_longer_read(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KEEP)
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / f"in/{number}.mp4").write_bytes(clip_file("good.mp4").read_bytes())
    assert run_in_shell(["map", "in", "out", "--function", "mine:keep"], "| :", tmp_path) == 0
    assert len(list((tmp_path / "out").glob("*.mp4"))) == 3


def test_a_library_call_works_without_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = open(os.devnull, "w")  # noqa: SIM115 - closed on the next line
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        for progress in (None, True):
            assert len(ff.scan(clip_file("good.mp4"), progress=progress)) == 1
