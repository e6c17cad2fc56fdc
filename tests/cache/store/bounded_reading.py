"""A program that may not take much memory: it opens segments that claim much."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.cache.store._store import FrameStore
from tests.cache.store.hostile import FRAMES, KEY, claims, segment_of
from tests.cache.store.made import name_of, write_files

ROOM = 96 << 20
"""More than this in one piece, or in all, is not to be had."""


def main(work: Path) -> dict[str, Any]:
    """Open a folder of all of them, and of files that are large only by name."""
    named = {name_of(number): name for number, name in enumerate(claims())}
    for number, files in enumerate(claims().values()):
        write_files(work, files, number)
    path = work / name_of(len(named))
    named[path.name] = "large only by name"
    data, directory = segment_of(FRAMES)
    write_files(work, (data, directory), len(named) - 1)
    with open(path, "r+b") as file:
        file.truncate(2**40)
    path = work / name_of(len(named))
    named[path.name] = "a directory large only by name"
    write_files(work, (data, directory), len(named) - 1)
    with open(path.with_suffix(".rows"), "r+b") as file:
        file.truncate(2**40)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    store = FrameStore(os.fspath(work))
    store.refresh()
    locations = store.find(KEY, np.arange(10))
    info = store.info()
    return {
        "believed": sorted(named.keys() - info.refused.keys()),
        "found": int(locations.is_there.sum()),
        "refused": {named[name]: why for name, why in info.refused.items()},
        "counted": store.counts.segments_refused,
        "files": len(named),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # the report
