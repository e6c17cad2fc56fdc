"""A process, and its children that add the same frames to one folder at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

WRITERS = 8
NUMBERS = range(0, 40, 4)


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


def write(folder: Path, options: StoreOptions, starts: int) -> bool:
    """Add all frames, and read those of everybody meanwhile."""
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


def main(folder: Path, max_bytes: int | None) -> dict[str, Any]:
    """Start all at once, and look at what is there in the end."""
    options = StoreOptions(max_bytes, segment_bytes=24_000)
    starts, start = os.pipe()
    children = [forked(lambda: write(folder, options, starts)) for _ in range(WRITERS)]
    os.write(start, b"x" * WRITERS)
    codes = [os.waitpid(child, 0)[1] for child in children]
    store = FrameStore(os.fspath(folder))
    frames = frames_of(KEYS, range(NUMBERS.stop))
    num_found = assert_exact_or_missing(store, frames)
    return {
        "codes": codes,
        "found": num_found,
        "frames": len(frames),
        "segments": len(segments(folder)),
        "unfinished": len(parts(folder)),
        "bytes": disk_bytes(folder),
        "refused": store.counts.segments_refused,
        "damaged": store.verify().damaged,
        "again": len(read_all(store, KEYS[0], NUMBERS)),
    }
