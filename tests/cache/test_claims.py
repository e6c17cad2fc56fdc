from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._build import LOCK_FILE_NAME, Claims, build
from framefeed.cache.store._format import Kind, StoredFrame
from framefeed.plan import EveryFrame, plan_clips
from tests.conftest import CHECKOUT
from tests.makers import catalog

OTHER = """
import sys
from framefeed.cache.prefill._build import Claims
with Claims(sys.argv[1], sys.argv[2]) as claims:
    for line in sys.stdin:
        word, number = line.split()
        print(getattr(claims, word)(*([] if word == "release" else [int(number)])), flush=True)
"""


class OtherBuilder:
    """Another builder, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, word: str, number: int = 0) -> str:
        self.tell(word, number)
        return self.answer()

    def tell(self, word: str, number: int = 0) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def another(folder: Path, work: str) -> Iterator[OtherBuilder]:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, folder, work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.fspath(CHECKOUT / "src")},
    ) as process:  # fmt: skip
        try:
            yield OtherBuilder(process)
        finally:
            process.kill()


def test_C05_a_task_is_claimed_by_one_process(tmp_path: Path) -> None:
    with another(tmp_path, "plan") as first, another(tmp_path, "plan") as second, another(tmp_path, "else") as third:
        assert [first.ask("take", number) for number in (0, 1, 2)] == ["True"] * 3
        assert [second.ask("take", number) for number in (3, 2, 1)] == ["True", "False", "False"]
        assert first.ask("take", 3) == "False"
        assert first.ask("take", 0) == "True", "its own stays its own"
        assert third.ask("take", 0) == "True", "other work has other tasks"
        assert first.ask("release") == "None"
        assert [second.ask("take", number) for number in (0, 1, 2)] == ["True"] * 3


def test_C01_a_killed_builder_claims_nothing(tmp_path: Path) -> None:
    with Claims(os.fspath(tmp_path), "plan") as claims, another(tmp_path, "plan") as other:
        assert other.ask("take", 7) == "True"
        assert not claims.take(7)
        other.process.send_signal(signal.SIGKILL)
        other.process.wait()
        assert claims.take(7)


def test_waiting_ends_with_the_claim(tmp_path: Path) -> None:
    with another(tmp_path, "plan") as first, another(tmp_path, "plan") as second:
        assert first.ask("take", 7) == "True"
        second.tell("wait", 7)
        assert first.ask("release") == "None"
        assert second.answer() == "None"
        assert first.ask("take", 7) == "True", "a builder that waited claims nothing"


def test_C17_without_locks_every_builder_does_every_task(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with Claims(os.fspath(taken / "folder"), "plan") as claims:
        assert claims.take(0)
        claims.wait(0)
        claims.release()
    (tmp_path / LOCK_FILE_NAME).symlink_to(taken)
    with Claims(os.fspath(tmp_path), "plan") as claims, another(tmp_path, "plan") as other:
        assert claims.take(0)
        assert other.ask("take", 0) == "True"


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with Claims(os.fspath(folder), "plan"):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / LOCK_FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("shared", "folder_mode", "file_mode"), [(False, 0o700, 0o600), (True, 0o777, 0o666)])
@pytest.mark.parametrize("first", ["build", "store"])
def test_a_folder_has_the_same_modes_whether_a_build_or_the_store_makes_it(
    first: str, shared: bool, folder_mode: int, file_mode: int, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    plan = plan_clips(catalog(), EveryFrame(), seed=0, size=(24, 32))
    umask = os.umask(0)
    try:
        with FrameCache(folder, shared=shared) as cache:
            if first == "store":
                frame = StoredFrame(0, Kind("raw", "rgb24 1x1"), bytes(3), 3)
                assert cache.store.add(bytes(16), "{}", [frame])
            assert build(plan, cache, workers=0, progress=False).frames_stored
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == folder_mode
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert LOCK_FILE_NAME in modes
    assert set(modes.values()) == {file_mode}


def test_any_number_of_tasks(tmp_path: Path) -> None:
    with Claims(os.fspath(tmp_path), "plan") as claims, another(tmp_path, "plan") as other:
        for number in (0, 1 << 24, 1 << 40):
            assert claims.take(number)
            assert other.ask("take", number) == "False"


def test_C05_the_wait_for_a_stopped_builder_ends(tmp_path: Path) -> None:
    with another(tmp_path, "plan") as other, Claims(str(tmp_path), "plan", max_wait_seconds=0.1) as own:
        assert other.ask("take", 0) == "True"
        assert other.ask("take", 1) == "True"
        other.process.send_signal(signal.SIGSTOP)
        own.wait(0)
        own.wait(1)
        assert not own.take(0)
        other.process.send_signal(signal.SIGCONT)
