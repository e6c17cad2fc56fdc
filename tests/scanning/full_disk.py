"""Program that scans with a limit on file sizes, which acts like a full disk, and then scans again without it."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from framefeed.errors import FramefeedError
from framefeed.scanning import _chunks, _journal
from framefeed.scanning._scan import scan


def main(folder: str, work: str) -> dict[str, Any]:
    """Scan with room for little, then with room for all."""
    _chunks.CHUNK_WEIGHT, _chunks.VIDEO_WEIGHT, _journal.WRITE_SECONDS = 8, 4, 0.0
    target = os.path.join(work, "cat.parquet")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the limit kills instead of failing the write
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_200, resource.RLIM_INFINITY))  # smaller parts of the journal fit
    try:
        scan(folder, out=target, workers=0)
        error = ""
    except FramefeedError as caught:
        error = str(caught)
    kept = sum(entry.stat().st_size for entry in os.scandir(f"{target}.journal")) if error else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    scan(folder, out=target, workers=0)
    return {"error": error, "kept": kept}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))  # the report
