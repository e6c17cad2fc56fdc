"""Stores of many processes over one folder: killed, forked, all at once, out of room."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framefeed.cache.store._store import FrameStore
from tests.cache.store import forking, killed_filler, many_writers, narrow
from tests.cache.store.killed_filler import CLIP, CLIPS
from tests.cache.store.made import KEYS, add, read_all, use_blocks
from tests.cache.store.many_writers import WRITERS
from tests.decode.forks import Child, result_of_child

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

BLOCKS = [500, 2 << 20]
"""Bytes of a block: segments here have many, or less than one."""


def result_with_blocks(block: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something in a process whose segments are written in such blocks."""

    def work_in_child() -> Any:
        use_blocks(block)
        return work(*arguments)

    return result_of_child(work_in_child)


@pytest.mark.parametrize("block", BLOCKS)
def test_C01_C11_killed_at_twenty_moments(tmp_path: Path, block: int) -> None:
    report = result_with_blocks(block, killed_filler.main, tmp_path, 20)
    assert report["kills"] == 20
    assert report["refused"] == report["damaged"] == report["unfinished"] == 0
    # The kills came in the middle of the work.
    assert report["left"] > 5
    assert report["tidied"] > 2
    assert 500 < report["found"] == report["whole"] < 20 * CLIPS * CLIP * 3
    assert report["sealed"] > 20


@pytest.mark.parametrize(("max_bytes", "block"), [(0, BLOCKS[1]), (150_000, BLOCKS[0])])
def test_C05_eight_processes_write_the_same_frames(tmp_path: Path, max_bytes: int, block: int) -> None:
    report = result_with_blocks(block, many_writers.main, tmp_path / "cache", max_bytes or None)
    assert report["codes"] == [0] * WRITERS
    assert report["refused"] == report["unfinished"] == 0
    assert report["damaged"] == {}
    assert report["segments"] > 5
    if max_bytes:
        assert max_bytes // 2 < report["bytes"] <= max_bytes
    else:
        assert report["found"] == report["frames"]


@pytest.mark.parametrize("block", BLOCKS)
def test_forks_leave_the_parents_segment_alone(tmp_path: Path, block: int) -> None:
    report = result_with_blocks(block, forking.main, tmp_path / "cache")
    assert set(report["codes"]) == {0}
    assert report["untouched"]
    assert report["trouble"] is None
    assert report["lost"] == [0, 0, 0]
    assert report["refused"] == report["unfinished"] == 0


def test_L01_a_child_goes_on_whatever_locks_were_held_at_the_fork(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path / "cache")) as store:
        add(store, KEYS[0], range(3))
        store.flush()
        own = store._state.value
        with own.lock, own.appender._lock:
            child = Child(lambda: f"{len(read_all(store, KEYS[0], range(3)))} {add(store, KEYS[1], range(3))}")
        assert child.report() == "3 True"


def test_C04_files_that_may_not_grow(tmp_path: Path) -> None:
    report = result_of_child(lambda: narrow.full(tmp_path / "cache"))
    stored = report["stored"]
    first = stored.index(False)
    assert 0 < first < len(stored) // 2
    assert not any(stored[first:])
    assert "stores no more frames, because its folder cannot be written: File too large" in report["trouble"]
    assert not report["is_full"]
    assert (report["found"], report["found again"]) == (20, 20)
    assert report["refused"] == report["unfinished"] == 0


def test_C17_a_folder_that_becomes_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    report = result_of_child(lambda: narrow.read_only(tmp_path / "cache"))
    assert report["stored"] == [True, False]
    assert "stores no more frames, because its folder cannot be written: Permission denied" in report["trouble"]
    assert (report["found"], report["found again"]) == (20, 20)
    assert report["refused"] == 0
