"""A process that forks while its store is in use, in threads too, and has a segment open."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from pathlib import Path
from time import sleep
from typing import Any

from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.made import KEYS, add, assert_exact_or_missing, frames_of, parts, read_all, segments
from tests.patience import PATIENCE_SECONDS

CHILDREN = 12
OPTIONS = StoreOptions(segment_bytes=30_000)
SEALED, OPEN = range(10), range(10, 20)


def child(store: FrameStore, number: int) -> bool:
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


def busy(store: FrameStore, stop: threading.Event, count: list[int]) -> None:
    """Add, find and seal without a pause."""
    while not stop.is_set():
        number = 5000 + count[0]
        add(store, KEYS[2], [number])
        read_all(store, KEYS[2], [number, number - 1, -1])
        if count[0] % 7 == 0:
            store.flush()
        count[0] += 1


def worker(store: FrameStore, number: int) -> None:
    """A process that multiprocessing forked: it ends without closing its store."""
    raise SystemExit(0 if child(store, 2 * number) else 3)


def main(folder: Path) -> dict[str, Any]:
    """Fork bare children and those of multiprocessing, with an open segment, and threads at work."""
    store = FrameStore(os.fspath(folder), OPTIONS)
    add(store, KEYS[0], SEALED)
    store.flush()
    add(store, KEYS[0], OPEN)
    (before,) = parts(folder)
    codes = []
    for number in range(1, CHILDREN, 2):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = 0 if child(store, number) else 2
            finally:
                os._exit(code)
        codes.append(os.waitpid(pid, 0)[1])
    untouched = parts(folder) == [before] and len(read_all(store, KEYS[0], OPEN)) == len(OPEN)
    stop, count = threading.Event(), [0]
    thread = threading.Thread(target=busy, args=(store, stop, count))
    thread.start()
    while not count[0]:
        sleep(0.001)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=worker, args=(store, number)) for number in range(CHILDREN)]
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
        "segments": len(segments(folder)),
    }
