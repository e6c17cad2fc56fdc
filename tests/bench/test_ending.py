"""A bench ends in time, and leaves nothing behind: not where time is short, and not where it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from benchmarks.decode.suite import SUITE as OWN_DECODE
from benchmarks.media import OwnStore
from benchmarks.scan.media import linked_tree, make_stills, make_videos
from benchmarks.scan.suite import make_suite
from framefeed.bench._media import MediaStore, write_clip_in_time
from framefeed.bench._runner import Rounds
from framefeed.bench._suites import BenchOptions, Suite, run_suite
from framefeed.bench.cache import CACHE
from framefeed.bench.decode import DECODE
from framefeed.cli import main
from framefeed.errors import MissingMedia
from framefeed.testing import ClipSpec, write_clip
from tests.lengths import sampled
from tests.patience import PATIENCE_SECONDS
from tests.programs import running

STEPS = 25.0


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """No time is left after so many readings of the clock."""
    clock = count()
    monkeypatch.setattr("framefeed.bench._runner.time.perf_counter", lambda: float(next(clock)))
    return Rounds(until=STEPS)


def make_tree(folder: Path, rounds: Rounds) -> None:
    original = folder / "original.jpg"
    original.write_bytes(b"")
    try:
        with linked_tree([original], folder / "tree", 30_000, rounds):
            pass
    finally:
        original.unlink()


MADE: dict[str, Callable[[Path, Rounds], object]] = {
    "made_720p.mp4": lambda folder, rounds: MediaStore((), folder, rounds).plain_video,
    "test_720p60_64.mp4": lambda folder, rounds: OwnStore((), folder, rounds, test_frames=64).test_video,
    "a tree of 30,000 files": make_tree,
}


@pytest.mark.parametrize("name", sampled([*MADE], lambda _: None))
def test_media_that_cannot_be_made_in_time_are_given_up(name: str, tmp_path: Path, rounds: Rounds) -> None:
    with pytest.raises(MissingMedia, match=rf"^no time was left to make {name}: raise --minutes$"):
        MADE[name](tmp_path, rounds)
    assert list(tmp_path.iterdir()) == []


def test_pictures_and_videos_of_a_scan_are_made_while_time_is_left(tmp_path: Path, rounds: Rounds) -> None:
    assert len(make_stills(tmp_path, rounds)) == 16
    with pytest.raises(MissingMedia, match=r"no time was left to make original_300\.mp4"):
        make_videos(tmp_path, rounds)


def test_a_clip_that_is_made_in_time_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=5, rotation=90)
    made, plain = write_clip_in_time(tmp_path / "a.mp4", spec, Rounds()), write_clip(tmp_path / "b.mp4", spec)
    assert made.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize(
    ("suite", "row", "what"),
    [
        (OWN_DECODE, "length", "test_720p60_3600.mp4"),
        (make_suite(16), "scan", "pictures"),
        (CACHE, "original", "made_720p.mp4"),
        (DECODE, "own", "made_720p.mp4"),
    ],
)
def test_rows_without_their_media_are_left_out_with_the_reason(
    suite: Suite, row: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=3)
    monkeypatch.setattr("framefeed.bench._runner.time.perf_counter", lambda: float(next(clock)))
    report = run_suite(suite, BenchOptions(work=tmp_path, rows=(row,), rounds=Rounds(until=STEPS)))
    assert report["skipped"] == {row: f"no time was left to make {what}: raise --minutes"}


def test_media_of_a_command_are_made_in_time_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "decode", "--minutes", "1e-9"]) == 0
    assert "not run: own: no time was left to make made_720p.mp4: raise --minutes" in capfd.readouterr().out


# One process for all: most of its time are imports.
OPENING = """
import os, signal, sys
from pathlib import Path
from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import Peers

ended = []
signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
for name in sys.argv[2:]:
    ended.clear()
    for method in Peers.find([name]).list_all("METHODS"):
        method.open(BenchVideo(Path(sys.argv[1])))([0, 5])
    os.kill(os.getpid(), signal.SIGTERM)
    print(name, *ended, flush=True)
"""


@pytest.mark.test_all
@pytest.mark.slow
def test_no_peer_takes_the_signal_that_ends_a_bench(tmp_path: Path) -> None:
    video = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=40))
    words = [sys.executable, "-c", OPENING, os.fspath(video), *DECODE.peers]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == [f"{name} {int(signal.SIGTERM)}" for name in DECODE.peers]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.test_all), signal.SIGTERM])
def test_temporary_folders_go_when_a_bench_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    video, folder = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=40)), tmp_path / "temporary"
    folder.mkdir()
    words = ["bench", "cache", "--rows", "original", "--pairs", "100000", os.fspath(video)]
    run = "import sys; from framefeed.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "TMPDIR": os.fspath(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running([sys.executable, "-c", run, *words], env=environment, **pipes) as process:
        # The folder of what is generated, that of the row, and in it one that is filled.
        while process.poll() is None and not list(folder.glob("framefeed-bench-*/framefeed-bench-*/*_planes")):
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(number)
        _, printed = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert printed.splitlines()[-1] in {"framefeed: interrupted", f"framefeed: ended by {number.name}"}
    assert list(folder.glob("framefeed-bench-*")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_bench_as_ctrl_c_does(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("framefeed.cli.bench._run", lambda _: signal.raise_signal(number))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert main(["bench", "cache"]) == 130
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert capfd.readouterr().err == f"framefeed: ended by {number.name}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_does_not_end_a_bench(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(_: object) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr("framefeed.cli.bench._run", measure)
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        assert main(["bench", "cache"]) == 0
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)
