"""Program that kills scans by SIGKILL at random moments, resumes them, and compares the catalogs.

Children are forked, because the imports would take longer than the scan. They start no thread, and the parent none.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import select
import signal
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.parquet as pq

from framefeed.scanning import _chunks, _journal
from framefeed.scanning._scan import scan
from tests.patience import PATIENCE_SECONDS

_chunks.CHUNK_WEIGHT = 8  # many chunks of few files: many places to be killed at
_chunks.VIDEO_WEIGHT = 4
_journal.WRITE_SECONDS = 0.0
os.fsync = os.fstat  # type: ignore[assignment]  # what a killed process wrote is kept without it


def scanning(folder: str, target: str) -> int:
    """Start a scan in a child and give its process number."""
    child = os.fork()
    if not child:
        code = 1
        try:
            scan(folder, out=target, workers=0, progress=False, label_from="parent")
            code = 0
        finally:
            os._exit(code)
    return child


def killed_after(child: int, seconds: float) -> bool:
    """Kill a child some time later, unless it has ended by then."""
    waiting = os.pidfd_open(child)
    ended = bool(select.select([waiting], [], [], seconds)[0])
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(waiting)
    assert not ended or status == 0
    return not ended


def files(target: Path) -> dict[str, bytes]:
    """What a finished scan leaves behind."""
    return {path.name: path.read_bytes() for path in target.parent.iterdir()}


def main(folder: str, work: str, moments: int) -> dict[str, Any]:
    """Kill scans at so many random moments; each is gone on with until it ends, half of them killed again meanwhile."""
    chance = random.Random(5)
    expected = Path(work) / "whole" / "cat.parquet"
    expected.parent.mkdir()
    begin = perf_counter()
    assert not killed_after(scanning(folder, os.fspath(expected)), PATIENCE_SECONDS)
    seconds = perf_counter() - begin
    report = {"kills": 0, "unequal": 0, "left": 0, "journals": 0}
    for number in itertools.count():
        if report["kills"] >= moments and report["journals"] >= moments // 4:
            break
        target = Path(work) / f"{number}" / "cat.parquet"
        target.parent.mkdir()
        while killed_after(scanning(folder, os.fspath(target)), chance.uniform(0, seconds)):
            has_begun = Path(f"{target}.journal").exists()
            report["kills"] += 1
            report["journals"] += has_begun
            seconds *= 1.0 if has_begun else 1.1  # the machine is slower than it was
            if chance.random() < 0.5:
                break
        else:
            seconds *= 0.9  # or faster
        assert not killed_after(scanning(folder, os.fspath(target)), PATIENCE_SECONDS)
        report["unequal"] += files(target) != files(expected)
        report["left"] += len(files(target)) != 2
    return report | {"rows": pq.read_metadata(expected).num_rows}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))  # the report
