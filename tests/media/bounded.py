"""Run as a program: ask for every file of a folder within 2 GiB of address space and 60 seconds of processor time.

python -m tests.media.bounded FOLDER     -> JSON on standard output
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framefeed.decode import VideoDecoder
from framefeed.errors import FramefeedError
from framefeed.index import build_index, probe


def first_frame(path: Path) -> list[int]:
    """Shape of the first frame."""
    with VideoDecoder(path) as decoder:
        return list(decoder[0].shape)


def outcome(ask: Callable[[Any], Any], path: Path) -> str:
    try:
        return f"opened {ask(path)}"
    except FramefeedError as error:
        return type(error).__name__


def main(folder: Path) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    asks = {"probe": probe, "build_index": build_index, "first_frame": first_frame}
    outcomes = {
        path.name: {name: outcome(ask, path) for name, ask in asks.items()} for path in sorted(folder.iterdir())
    }
    return {"outcomes": outcomes, "peak_mib": _peak_mib()}


def _peak_mib() -> int:
    # Not ru_maxrss: that counts what the parent held at the fork, and survives the exec.
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024  # type: ignore[index]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
