"""Program that stops scans at every step that writes to the disk: killed before it, killed in it, or by a full disk.

Children are forked, because the imports would take longer than the scan. They start no thread, and the parent none.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from framefeed.catalog import Catalog
from framefeed.errors import FramefeedError
from framefeed.scanning import _chunks, _journal
from framefeed.scanning._scan import scan

_chunks.CHUNK_WEIGHT = 8  # several chunks of few files
_chunks.VIDEO_WEIGHT = 4
_journal.WRITE_SECONDS = 0.0  # each chunk is written at once
os.fsync = os.fstat  # type: ignore[assignment]  # what a killed process wrote is kept without it
STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "fcntl.flock"}
FINISHED, FAILED = 0, 3

Files = dict[str, bytes]
Handicap = Callable[[], None]


def killed_before(step: int) -> Handicap:
    """Die before a step is taken."""

    def prepare() -> None:
        steps = itertools.count()

        def count(event: str = "os.fsync", arguments: tuple[Any, ...] = ()) -> None:
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if (writes or event in STEPS | {"os.fsync"}) and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        fsync, add = os.fsync, _journal.Journal.add

        def counted_fsync(descriptor: int) -> None:
            count()
            fsync(descriptor)

        def counted_add(*arguments: Any) -> None:
            add(*arguments)
            count()

        os.fsync = counted_fsync  # type: ignore[assignment]
        _journal.Journal.add = counted_add  # type: ignore[method-assign]
        sys.addaudithook(count)

    return prepare


def limited_to(size: int, action: signal.Handlers) -> Handicap:
    """Let no file grow beyond a size: what does not fit kills in the middle of a write, or fails as on a full disk."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, action)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return prepare


def ended(folder: str, target: Path, handicap: Handicap = lambda: None) -> int:
    """Scan in a child, and give its exit status; a signal as its negative number."""
    child = os.fork()
    if not child:
        code = 1
        try:
            handicap()
            scan(folder, out=target, workers=0, progress=False, label_from="parent")
            code = FINISHED
        except FramefeedError:
            code = FAILED
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(target: Path) -> Files:
    """What lies beside a catalog, and itself."""
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in target.parent.iterdir()}


def handicaps(parts: float, every: int) -> Iterator[Iterator[Handicap]]:
    """Series of handicaps, each growing until the scan ends well; sizes double in so many parts."""
    yield map(killed_before, itertools.count(0, every))
    sizes = [int(2 ** (part / parts)) for part in range(int(5 * parts), int(18 * parts))]
    yield (limited_to(size, signal.SIG_DFL) for size in sizes)
    yield (limited_to(size, signal.SIG_IGN) for size in sizes)


def main(folder: str, work: str, found: str, parts: float, every: int) -> dict[str, Any]:
    """Stop scans that find "nothing", the "same" catalog without labels, or one of a "part" of the files; look at what
    stands, go on, compare.
    """
    whole = Path(work) / "whole" / "cat.parquet"
    whole.parent.mkdir()
    assert ended(folder, whole) == FINISHED
    expected = files(whole)
    target = Path(work) / "target" / "cat.parquet"
    target.parent.mkdir()
    if found != "nothing":
        scan(folder if found == "same" else [Path(folder) / "a"], out=target, workers=0, progress=False)
    old = files(target)
    report: dict[str, list[Any]] = {"statuses": [], "torn": [], "unequal": []}
    for kind, series in enumerate(handicaps(parts, every)):
        status = FAILED
        for step, handicap in enumerate(series):
            status = ended(folder, target, handicap)
            report["statuses"].append(status)
            if not stands_whole(target, [old, expected]):
                report["torn"].append([kind, step, status])
            if (status != FINISHED and ended(folder, target) != FINISHED) or files(target) != expected:
                report["unequal"].append([kind, step, status, sorted(files(target))])
            shutil.rmtree(target.parent)
            target.parent.mkdir()
            for name, content in old.items():
                (target.parent / name).write_bytes(content)
            if status == FINISHED:
                break
        assert status == FINISHED
    return report


def stands_whole(target: Path, catalogs: list[Files]) -> bool:
    """Whether one of some catalogs stands, with its own frame tables."""
    if not target.exists():
        return target.name not in catalogs[0]
    if target.read_bytes() not in [catalog.get(target.name) for catalog in catalogs]:
        return False
    opened = Catalog.open(target)
    return all(len(opened.frame_index(row)) == opened.num_frames[row] for row in opened.usable_rows.tolist())


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], float(sys.argv[4]), int(sys.argv[5]))))  # the report
