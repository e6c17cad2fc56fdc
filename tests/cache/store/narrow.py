"""A process with little room: files that may not grow, a folder that it may not write to."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.made import KEYS, add, assert_exact_or_missing, frames_of, parts, use_blocks

NOBODY = 65534
OPTIONS = StoreOptions(segment_bytes=60_000)


def full(folder: Path) -> dict[str, Any]:
    """A segment reaches the limit of what a file may have, which stands for a full disk."""
    use_blocks(1000)
    store = FrameStore(os.fspath(folder), OPTIONS)
    add(store, KEYS[0], range(20))
    store.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, resource.RLIM_INFINITY))
    stored = [add(store, KEYS[0], range(first, first + 20)) for first in range(20, 1000, 20)]
    store.flush()
    return _report(store, folder) | {"stored": stored}


def read_only(folder: Path) -> dict[str, Any]:
    """The folder is taken away from whoever writes to it, while they do."""
    # Nobody may come here from the root, but from here on.
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
    report = _report(store, folder) | {"stored": stored}
    os.chmod(folder, 0o700)
    return report


def _report(store: FrameStore, folder: Path) -> dict[str, Any]:
    again = FrameStore(os.fspath(folder))
    return {
        "trouble": store.trouble,
        "is_full": store.is_full,
        "found": assert_exact_or_missing(store, frames_of(KEYS[:1], range(20))),
        "found again": assert_exact_or_missing(again, frames_of(KEYS[:1], range(1000))),
        "refused": again.counts.segments_refused,
        "unfinished": len(parts(folder)),
    }
