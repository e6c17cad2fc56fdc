"""Stores of many processes over one folder: killed, forked, all at once, out of room."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from framefeed.cache.store import _files
from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.made import (
    KEYS,
    add,
    assert_exact_or_missing,
    disk_bytes,
    frames_of,
    parts,
    read_all,
    segments,
)
from tests.decode.forks import Child, result_of_child
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

MANY, FEW = 500, 2 << 20
"""Bytes of a block: segments here have many, or less than one."""


@pytest.fixture(params=[MANY, FEW])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Have segments written in such blocks, also in forked children."""
    nbytes: int = request.param
    monkeypatch.setattr(_files, "BLOCK_BYTES", nbytes)
    return nbytes


def forked(work: Callable[[], bool]) -> int:
    """Do something in a child; it exits with 0 where that is true."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return child


# --- killed -------------------------------------------------------------------------------------------

CLIPS = 24
CLIP = 4


def fill(folder: Path, begin: int, permits: int, pipe: int) -> bool:
    """Add a clip for each byte that may be read, and write one after each."""
    with FrameStore(os.fspath(folder), StoreOptions(segment_bytes=16_000)) as store:
        for clip in range(begin, begin + CLIPS):
            os.read(permits, 1)
            for key in KEYS:
                add(store, key, range(clip * CLIP, clip * CLIP + CLIP))
            os.write(pipe, b"x")
    return True


def kill_one(folder: Path, begin: int, chance: random.Random) -> None:
    """Kill a child after some of its clips and in the next, or after it."""
    reading, writing = os.pipe()
    permits, permit = os.pipe()
    child = forked(lambda: fill(folder, begin, permits, writing))
    os.close(writing)
    num_clips = chance.randrange(CLIPS)
    os.write(permit, bytes(num_clips + 1))
    assert sum(len(os.read(reading, 1)) for _ in range(num_clips)) == num_clips
    for _ in range(chance.randrange(20_000)):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for each in (reading, permits, permit):
        os.close(each)


def test_C01_C11_killed_at_twenty_moments(tmp_path: Path, block: int) -> None:
    chance, folder, runs = random.Random(3), tmp_path / "cache", range(20)
    num_found = num_left = num_tidied = num_sealed = 0

    def find(store: FrameStore, run: int) -> int:
        """Count the frames of a run that are there."""
        return assert_exact_or_missing(store, frames_of(KEYS, range(run * CLIPS * CLIP, (run + 1) * CLIPS * CLIP)))

    for run in runs:
        kill_one(folder, run * CLIPS, chance)
        left = len(parts(folder)) if folder.exists() else 0
        num_left += left
        num_sealed += len(segments(folder)) if folder.exists() else 0
        with FrameStore(os.fspath(folder)) as store:
            num_found += find(store, run)
            assert (store.counts.segments_refused, store.counts.frames_damaged) == (0, 0)
            if run % 2:
                add(store, KEYS[0], [-run])
                num_tidied += left - len(parts(folder)) + 1
    with FrameStore(os.fspath(folder)) as store:
        add(store, KEYS[0], [-1000])
    assert parts(folder) == []
    # The kills came in the middle of the work.
    assert num_left > 5
    assert num_tidied > 2
    assert 500 < num_found == sum(find(FrameStore(os.fspath(folder)), run) for run in runs)
    assert num_found < len(runs) * CLIPS * CLIP * 3
    assert num_sealed > 20


# --- all at once --------------------------------------------------------------------------------------

WRITERS = 8
NUMBERS = range(0, 40, 4)


def write(folder: Path, options: StoreOptions, starts: int) -> bool:
    """Add all frames, and read those of all writers meanwhile."""
    os.read(starts, 1)
    frames = frames_of(KEYS, range(NUMBERS.stop))
    with FrameStore(os.fspath(folder), options) as store:
        for first in NUMBERS:
            for key in KEYS:
                is_stored = add(store, key, range(first, min(first + 4, NUMBERS.stop)))
                if not is_stored and store.trouble is not None and not store.is_full:
                    return False
            assert_exact_or_missing(store, frames)
            if options.max_bytes is not None and disk_bytes(folder) > options.max_bytes:
                return False
    return store.trouble is None or store.is_full


@pytest.mark.parametrize(("max_bytes", "block"), [(None, FEW), (150_000, MANY)], indirect=["block"])
def test_C05_eight_processes_write_the_same_frames(tmp_path: Path, max_bytes: int | None, block: int) -> None:
    folder, options = tmp_path / "cache", StoreOptions(max_bytes, segment_bytes=24_000)
    starts, start = os.pipe()
    children = [forked(lambda: write(folder, options, starts)) for _ in range(WRITERS)]
    os.write(start, b"x" * WRITERS)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * WRITERS
    for each in (starts, start):
        os.close(each)
    store = FrameStore(os.fspath(folder))
    frames = frames_of(KEYS, range(NUMBERS.stop))
    num_found = assert_exact_or_missing(store, frames)
    assert (store.counts.segments_refused, parts(folder), store.verify().damaged) == (0, [], {})
    assert len(segments(folder)) > 5
    if max_bytes is None:
        assert num_found == len(frames)
    else:
        assert max_bytes // 2 < disk_bytes(folder) <= max_bytes


# --- forked -------------------------------------------------------------------------------------------

CHILDREN = 12
SEALED, OPEN = range(10), range(10, 20)


def use_in_child(store: FrameStore, number: int) -> bool:
    """What a child does with the store that it was born with."""
    signal.alarm(round(PATIENCE_SECONDS))
    # What was sealed is there; what the parent is writing is not, or is sealed by now.
    if assert_exact_or_missing(store, frames_of(KEYS[:1], SEALED)) != len(SEALED):
        return False
    assert_exact_or_missing(store, frames_of(KEYS[:1], OPEN))
    own = range(1000 + 10 * number, 1010 + 10 * number)
    if store.counts.frames_written or not add(store, KEYS[1], own):
        return False
    if len(read_all(store, KEYS[1], own)) != len(own):
        return False
    if number % 2:
        store.close()
    return store.trouble is None


def keep_busy(store: FrameStore, stop: threading.Event, count: list[int]) -> None:
    """Add, find and seal without a pause."""
    while not stop.is_set():
        number = 5000 + count[0]
        add(store, KEYS[2], [number])
        read_all(store, KEYS[2], [number, number - 1, -1])
        if count[0] % 7 == 0:
            store.flush()
        count[0] += 1


def use_in_worker(store: FrameStore, number: int) -> None:
    """A process that multiprocessing forked: it ends without closing its store."""
    raise SystemExit(0 if use_in_child(store, 2 * number) else 3)


def fork_often(folder: Path) -> dict[str, Any]:
    """Fork bare children and those of multiprocessing, with an open segment, and threads at work."""
    store = FrameStore(os.fspath(folder), StoreOptions(segment_bytes=30_000))
    add(store, KEYS[0], SEALED)
    store.flush()
    add(store, KEYS[0], OPEN)
    (before,) = parts(folder)
    codes = []
    for number in range(1, CHILDREN, 2):
        codes.append(os.waitpid(forked(lambda number=number: use_in_child(store, number)), 0)[1])
    untouched = parts(folder) == [before] and len(read_all(store, KEYS[0], OPEN)) == len(OPEN)
    stop, count = threading.Event(), [0]
    thread = threading.Thread(target=keep_busy, args=(store, stop, count))
    thread.start()
    while not count[0]:
        sleep(0.001)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=use_in_worker, args=(store, number)) for number in range(CHILDREN)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    stop.set()
    thread.join()
    store.close()
    again = FrameStore(os.fspath(folder))
    mine = frames_of(KEYS[:1], [*SEALED, *OPEN])
    theirs = frames_of(KEYS[1:2], range(1000, 1000 + 10 * CHILDREN))
    busily = frames_of(KEYS[2:], range(5000, 5000 + count[0]))
    return {
        "codes": [*codes, *(each.exitcode for each in workers)],
        "untouched": untouched,
        "trouble": store.trouble,
        "lost": [len(frames) - assert_exact_or_missing(again, frames) for frames in (mine, theirs, busily)],
        "refused": again.counts.segments_refused,
        "unfinished": len(parts(folder)),
    }


def test_forks_leave_the_parents_segment_alone(tmp_path: Path, block: int) -> None:
    report = result_of_child(lambda: fork_often(tmp_path / "cache"))
    assert set(report.pop("codes")) == {0}
    assert report == {"untouched": True, "trouble": None, "lost": [0, 0, 0], "refused": 0, "unfinished": 0}


def test_L01_a_child_goes_on_whatever_locks_were_held_at_the_fork(tmp_path: Path) -> None:
    with FrameStore(os.fspath(tmp_path / "cache")) as store:
        add(store, KEYS[0], range(3))
        store.flush()
        own = store._state.value
        with own.lock, own.appender._lock:
            child = Child(lambda: f"{len(read_all(store, KEYS[0], range(3)))} {add(store, KEYS[1], range(3))}")
        assert child.report() == "3 True"


# --- out of room --------------------------------------------------------------------------------------

NOBODY = 65534
OPTIONS = StoreOptions(segment_bytes=60_000)


def fill_the_disk(folder: Path) -> dict[str, Any]:
    """A segment reaches the limit of what a file may have, which stands for a full disk."""
    _files.BLOCK_BYTES = 1000
    store = FrameStore(os.fspath(folder), OPTIONS)
    add(store, KEYS[0], range(20))
    store.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, resource.RLIM_INFINITY))
    stored = [add(store, KEYS[0], range(first, first + 20)) for first in range(20, 1000, 20)]
    store.flush()
    return describe(store, folder) | {"stored": stored}


def lose_the_folder(folder: Path) -> dict[str, Any]:
    """The folder is taken away from the user who writes to it, meanwhile."""
    # That user may not come here from the root, but from here on.
    os.chdir(folder.parent)
    folder = Path(folder.name)
    with FrameStore(os.fspath(folder), OPTIONS) as store:
        add(store, KEYS[0], range(20))
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    store = FrameStore(os.fspath(folder), OPTIONS)
    stored = [add(store, KEYS[0], range(20, 40))]
    os.chmod(folder, 0o500)
    store.flush()
    stored.append(add(store, KEYS[0], range(40, 60)))
    report = describe(store, folder) | {"stored": stored}
    os.chmod(folder, 0o700)
    return report


def describe(store: FrameStore, folder: Path) -> dict[str, Any]:
    again = FrameStore(os.fspath(folder))
    return {
        "trouble": store.trouble,
        "is_full": store.is_full,
        "found": assert_exact_or_missing(store, frames_of(KEYS[:1], range(20))),
        "found again": assert_exact_or_missing(again, frames_of(KEYS[:1], range(1000))),
        "refused": again.counts.segments_refused,
        "unfinished": len(parts(folder)),
    }


def test_C04_files_that_may_not_grow(tmp_path: Path) -> None:
    report = result_of_child(lambda: fill_the_disk(tmp_path / "cache"))
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
    report = result_of_child(lambda: lose_the_folder(tmp_path / "cache"))
    assert report["stored"] == [True, False]
    assert "stores no more frames, because its folder cannot be written: Permission denied" in report["trouble"]
    assert (report["found"], report["found again"]) == (20, 20)
    assert report["refused"] == 0
