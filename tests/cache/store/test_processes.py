"""Stores of many processes over one folder: killed, forked, all at once, out of room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framefeed.cache.store._store import FrameStore
from tests.cache.store.killed_filler import CLIP, CLIPS
from tests.cache.store.made import KEYS, add, read_all
from tests.cache.store.many_writers import WRITERS
from tests.decode.forks import Child
from tests.programs import report_of

BLOCKS = [500, 2 << 20]
"""Bytes of a block: segments of the programs here have many, or less than one."""


@pytest.mark.parametrize("block", BLOCKS)
def test_C01_C11_killed_at_twenty_moments(tmp_path: Path, block: int) -> None:
    report = report_of("tests.cache.store.killed_filler", os.fspath(tmp_path), "20", str(block))
    assert report["kills"] == 20
    assert report["refused"] == report["damaged"] == report["unfinished"] == 0
    # The kills came in the middle of the work.
    assert report["left"] > 5
    assert report["tidied"] > 2
    assert 500 < report["found"] == report["whole"] < 20 * CLIPS * CLIP * 3
    assert report["sealed"] > 20


@pytest.mark.parametrize(("max_bytes", "block"), [(0, BLOCKS[1]), (150_000, BLOCKS[0])])
def test_C05_eight_processes_write_the_same_frames(tmp_path: Path, max_bytes: int, block: int) -> None:
    report = report_of("tests.cache.store.many_writers", os.fspath(tmp_path / "cache"), str(max_bytes), str(block))
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
    report = report_of("tests.cache.store.forking", os.fspath(tmp_path / "cache"), str(block))
    assert set(report["codes"]) == {0}
    assert report["untouched"]
    assert report["trouble"] is None
    assert report["lost"] == [0, 0, 0]
    assert report["refused"] == report["unfinished"] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_L01_a_child_goes_on_whatever_locks_were_held_at_the_fork(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path / "cache")) as store:
        add(store, KEYS[0], range(3))
        store.flush()
        own = store._state.value
        with own.lock, own.appender._lock:
            child = Child(lambda: f"{len(read_all(store, KEYS[0], range(3)))} {add(store, KEYS[1], range(3))}")
        assert child.report() == "3 True"


def test_C04_files_that_may_not_grow(tmp_path: Path) -> None:
    report = report_of("tests.cache.store.narrow", "full", os.fspath(tmp_path / "cache"))
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
    report = report_of("tests.cache.store.narrow", "read_only", os.fspath(tmp_path / "cache"))
    assert report["stored"] == [True, False]
    assert "stores no more frames, because its folder cannot be written: Permission denied" in report["trouble"]
    assert (report["found"], report["found again"]) == (20, 20)
    assert report["refused"] == 0
