"""Run framefeed.compat.decord and decord2 in turns over the same MP4 files; print how many times as fast ours is.

    python -m benchmarks.compat.decord [MEDIA...] [--files 24] [--rounds 7] [--json OUT]     (in the project's folder)

Each side is one process, with `num_threads=1`, that imports its library once: where TorchCodec is imported too, decord
crashes. In each round each file is done by one side and at once by the other; which is first changes. CPU seconds are
user and system of the whole process, because decord decodes on a thread of its own. Files are warm: the first round is
not counted. MEDIA are files or folders, by default those of ../shared/media/video. A file takes part if both sides
count the same frames and give the same pixels for the batch; the others are named in the JSON. The figure of a round is
the median over the files; the table has the median over the rounds and, in brackets, its interval.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare import interval

Round = dict[str, dict[str, list[float]]]
"""By file and side, CPU and wall seconds of one repetition."""

HERE = Path(__file__).resolve().parents[2]
RESULTS = HERE / "benchmarks" / "results" / "compat-decord-2026-11-28.json"
SIDES = {"ours": "framefeed.compat.decord", "decord": "decord"}
SPARSE, MOST_NEXT, CLIP, NUM_CLIPS = 16, 200, 16, 4
"""Frames of a batch, and of a sequential read at most; frames of a clip, and clips of a file."""
LEAST_SECONDS = 0.03
"""A measure is repeated until it took as long."""


def spread_out(count: int) -> list[int]:
    return [(2 * k + 1) * count // (2 * SPARSE) for k in range(SPARSE)]


def prepare_opening(reader_of: Callable[[], Any]) -> Callable[[], object]:
    return lambda: len(reader_of())


def prepare_batch(reader_of: Callable[[], Any]) -> Callable[[], object]:
    reader = reader_of()
    numbers = spread_out(len(reader))
    return lambda: reader.get_batch(numbers).asnumpy()


def prepare_next(reader_of: Callable[[], Any]) -> Callable[[], object]:
    reader = reader_of()
    count = min(len(reader), MOST_NEXT)

    def read() -> None:
        reader.seek_accurate(0)
        for _ in range(count):
            reader.next().asnumpy()

    return read


def prepare_clips(reader_of: Callable[[], Any]) -> Callable[[], object]:
    reader = reader_of()
    count = min(len(reader), CLIP)
    starts = [(2 * k + 1) * (len(reader) - count) // (2 * NUM_CLIPS) for k in range(NUM_CLIPS)]

    def read() -> None:
        for start in reversed(starts):
            reader.seek_accurate(start)
            for _ in range(count):
                reader.next().asnumpy()

    return read


WORK = {
    f"get_batch of {SPARSE} sparse frames": prepare_batch,
    "next() from the start": prepare_next,
    f"{NUM_CLIPS} times seek_accurate(), {CLIP} next()": prepare_clips,
    "VideoReader(path)": prepare_opening,
}


def spent() -> tuple[float, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, time.perf_counter()


def measure(work: Callable[[], object]) -> list[float]:
    """CPU and wall seconds of one repetition."""
    began, times = spent(), 0
    while True:
        work()
        times += 1
        took = [after - before for after, before in zip(spent(), began, strict=True)]
        if took[1] >= LEAST_SECONDS:
            return [each / times for each in took]


def describe_file(reader: Any) -> list[Any]:
    batch = reader.get_batch(spread_out(len(reader))).asnumpy()
    return [len(reader), list(batch.shape), hashlib.sha256(batch.tobytes()).hexdigest()]


def serve(side: str) -> None:
    """Answer the questions of standard input: [path, name of the work or None]."""
    warnings.simplefilter("ignore")
    door = __import__(SIDES[side], fromlist=["VideoReader"])
    door.logging.set_level(door.logging.QUIET)
    for line in sys.stdin:
        path, name = json.loads(line)

        def reader_of(path: str = path) -> Any:
            return door.VideoReader(path, num_threads=1)

        try:
            answer: Any = describe_file(reader_of()) if name is None else measure(WORK[name](reader_of))
        except (door.DECORDError, RuntimeError, IndexError, AssertionError) as error:
            answer = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        print(json.dumps(answer), flush=True)


class Side:
    """The process of one side."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "benchmarks.compat.decord", "--serve", name]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = stack.enter_context(subprocess.Popen(command, cwd=HERE, text=True, **pipes))
        stack.callback(self._process.stdin.close)  # type: ignore[union-attr]

    def ask(self, path: Path, work: str | None) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(path), work]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"{path}: {work}: the process ended"
        return json.loads(line)


def choose(media: list[Path], files: int) -> list[Path]:
    found = [path for root in media for path in ([root] if root.is_file() else sorted(root.rglob("*.mp4")))]
    return found[:: max(1, len(found) // files)]


def run(media: list[Path], files: int, rounds: int) -> dict[str, Any]:
    """Do all work of all files in turns."""
    with ExitStack() as stack:
        sides = {name: Side(name, stack) for name in SIDES}
        facts = {path: [side.ask(path, None) for side in sides.values()] for path in choose(media, files)}
        alike = [path for path, (ours, theirs) in facts.items() if ours == theirs and isinstance(ours, list)]
        names = {path: f"{path.parent.name}/{path.name}" for path in facts}
        taken: dict[str, list[Round]] = {work: [] for work in WORK}
        for number in range(rounds + 1):
            for work in WORK:
                row: Round = {}
                for at, path in enumerate(alike):
                    order = list(sides) if (number + at) % 2 else list(reversed(sides))
                    times = {name: sides[name].ask(path, work) for name in order}
                    row[names[path]] = {name: [float(f"{each:.4g}") for each in times[name]] for name in SIDES}
                taken[work] += [row] if number else []
    return {
        "versions": {name: version(name) for name in ("framefeed", "av", "decord2")},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": os.getloadavg()[0],
        "files": {names[path]: facts[path][0][:2] for path in alike},
        "left_out": {names[path]: facts[path] for path in facts if path not in alike},
        "rounds": taken,
    }


def divide(rounds: list[Round], unit: int) -> tuple[float, float, float]:
    """Median over the rounds of decord2's seconds by ours, and its interval; a round is the median of its files."""
    ratios = [[times["decord"][unit] / times["ours"][unit] for times in files.values()] for files in rounds]
    return interval([statistics.median(each) for each in ratios])


def tabulate(result: dict[str, Any]) -> str:
    """Make the table of docs/decord.md."""
    lines = ["| what | CPU | wall | files, from slowest to fastest, CPU | ours, CPU ms |", "|---|---|---|---|---|"]
    for work, rounds in result["rounds"].items():
        by_file = sorted(
            statistics.median(files[name]["decord"][0] / files[name]["ours"][0] for files in rounds)
            for name in result["files"]
        )
        cells = ["{:.2f} ({:.2f}-{:.2f})".format(*divide(rounds, unit)) for unit in (0, 1)]
        mine = statistics.median(times["ours"][0] for files in rounds for times in files.values())
        lines.append(f"| {work} | {' | '.join(cells)} | {by_file[0]:.2f} to {by_file[-1]:.2f} | {1000 * mine:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare; or, with --serve, be one side."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("media", nargs="*", type=Path, default=[HERE.parent / "shared" / "media" / "video"])
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = run(args.media, args.files, args.rounds)
    print(f"{len(result['files'])} files; {len(result['left_out'])} left out, because the sides differ")
    print(tabulate(result), end="")
    if args.json is not None:
        lines = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
        args.json.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
