"""Stores of many processes over one folder: killed, forked, all at once, out of room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cache.store.killed_filler import CLIP, CLIPS
from tests.cache.store.many_writers import WRITERS
from tests.programs import report_of


def test_C01_C11_killed_at_twenty_places(tmp_path: Path) -> None:
    told = report_of("tests.cache.store.killed_filler", os.fspath(tmp_path), "20")
    assert told["kills"] == 20
    assert told["refused"] == told["damaged"] == told["unfinished"] == 0
    # The kills came in the middle of the work.
    assert told["left"] > 5
    assert told["tidied"] > 2
    assert 500 < told["found"] == told["whole"] < 20 * CLIPS * CLIP * 3
    assert told["sealed"] > 20


@pytest.mark.parametrize("max_bytes", [0, 150_000])
def test_C05_eight_processes_write_the_same_frames(tmp_path: Path, max_bytes: int) -> None:
    told = report_of("tests.cache.store.many_writers", os.fspath(tmp_path / "cache"), str(max_bytes))
    assert told["codes"] == [0] * WRITERS
    assert told["refused"] == told["unfinished"] == 0
    assert told["damaged"] == {}
    assert told["segments"] > 5
    if max_bytes:
        assert max_bytes // 2 < told["bytes"] <= max_bytes
    else:
        assert told["found"] == told["frames"]


def test_forks_leave_the_parents_segment_alone(tmp_path: Path) -> None:
    told = report_of("tests.cache.store.forking", os.fspath(tmp_path / "cache"))
    assert set(told["codes"]) == {0}
    assert told["untouched"]
    assert told["trouble"] is None
    assert told["lost"] == [0, 0, 0]
    assert told["refused"] == told["unfinished"] == 0


def test_C04_files_that_may_not_grow(tmp_path: Path) -> None:
    told = report_of("tests.cache.store.narrow", "full", os.fspath(tmp_path / "cache"))
    stored = told["stored"]
    first = stored.index(False)
    assert 0 < first < len(stored) // 2
    assert not any(stored[first:])
    assert "stores no more frames, because its folder cannot be written: File too large" in told["trouble"]
    assert not told["is_full"]
    assert (told["found"], told["found again"]) == (20, 20)
    assert told["refused"] == told["unfinished"] == 0


def test_C17_a_folder_that_becomes_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    told = report_of("tests.cache.store.narrow", "read_only", os.fspath(tmp_path / "cache"))
    assert told["stored"] == [True, False]
    assert "stores no more frames, because its folder cannot be written: Permission denied" in told["trouble"]
    assert (told["found"], told["found again"]) == (20, 20)
    assert told["refused"] == 0
