"""Read clips by tasks of Ray, by ClipLoader and by Ray's read_videos, in turns; print what each costs, and the peaks.

    python -m benchmarks.ray [--rows NAME...] [--rounds 3] [--json OUT]      (in the project's folder)

Ours runs in .venv-ray (make .venv-ray/.ray, and benchmarks/ray/requirements.txt), read_videos in .venv-ray-peer, an
environment on top of it with decord 0.6.0 (benchmarks/ray/requirements-peer.txt), which `--prepare` makes. Media are
made of a 720p trailer (../shared/media, or FRAMEFEED_MEDIA) and kept in build/ray.

Each measure is a process of its own, with a new cluster of one-CPU nodes where it is Ray's; which side is first changes
from round to round. A side is warmed by a short epoch (workers run, modules are imported), and measured over a whole
epoch after it, from making its dataset to its last batch: a pipeline that works ahead gains nothing by where the
measure begins. CPU seconds are user and system of the driver and of the workers that run tasks; Ray's daemons, with the
actors of Ray Data's own, are told apart. A figure is the median over the rounds, with its interval in brackets. "a loop
of PyAV" decodes from the key frame to the last frame of each clip, in one thread, and converts nothing.

Wall seconds mean something on a quiet machine only. For two nodes there is therefore also what CPU seconds allow: with
both cores busy, clips a CPU second, daemons included, are the speed. The row "store" is run once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.compare import interval
from benchmarks.ray.media import PART_FRAMES, find_trailer, write_media

HERE = Path(__file__).resolve().parents[2]
OURS, PEER = HERE / ".venv-ray", HERE / ".venv-ray-peer"
Job = dict[str, Any]
Took = dict[str, Any]

BASE: Job = {"media": "whole", "clips_per_video": 8, "seed": 7, "batch_size": 8}
PARTS: Job = {"media": "parts", "clips_per_video": 1, "seed": 7, "batch_size": 8}
LOADER: Job = {"side": "loader", **BASE}
DATASET: Job = {"side": "dataset", "nodes": 1, **BASE}
LONG: Job = {**DATASET, "clips_per_video": 48}
HALF: Job = {**DATASET, "clips_per_video": 24}
ROWS: dict[str, dict[str, list[Job]]] = {
    "one node": {
        "ClipLoader": [LOADER],
        "ff.ray.dataset": [DATASET],
        "a loop of PyAV": [{"side": "decode", **BASE}],
    },
    "read_videos": {
        "read_videos": [{"side": "read_videos", "nodes": 1, "frames_of_video": PART_FRAMES, **PARTS}],
        "ff.ray.dataset": [{"side": "dataset", "nodes": 1, **PARTS}],
        "a loop of PyAV": [{"side": "decode", **PARTS}],
    },
    "two nodes": {
        # Six times as long: Ray begins the second task after a second, and tasks grow with the epoch and the store.
        "one process": [{**LOADER, "clips_per_video": 48}],
        "two processes": [{**LOADER, "clips_per_video": 48, "rank": rank, "world_size": 2} for rank in range(2)],
        "one node": [LONG],
        "two nodes": [{**LONG, "nodes": 2}],
        "two nodes, stores of 300 MiB": [{**LONG, "nodes": 2, "store_mib": 300}],
    },
    "store": {
        "as it is": [HALF],
        "prefetch_batches=0": [{**HALF, "prefetch": 0}],
        "a slow consumer": [{**HALF, "seconds_a_batch": 2}],
        "a slow consumer, prefetch_batches=0": [{**HALF, "seconds_a_batch": 2, "prefetch": 0}],
        "two nodes": [{**HALF, "nodes": 2}],
        "two nodes, a slow consumer": [{**HALF, "nodes": 2, "seconds_a_batch": 1}],
        "batch_size=4": [{**HALF, "batch_size": 4}],
    },
}
"""The sides of each row; two jobs run at once."""
ONCE = ("store",)
"""Rows of one round: their bytes hardly differ."""


@contextmanager
def starting(job: Job, work: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a side, and wait until it is warm; its cluster has a folder whose path is short, as Ray needs it."""
    python = (PEER if job["side"] == "read_videos" else OURS) / "bin" / "python"
    given = {**job, "media": str(work / job["media"])}
    with ExitStack() as stack:
        temporary = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="r-", dir="/tmp", ignore_cleanup_errors=True)
        )
        Path(temporary, "ray").mkdir()
        errors = stack.enter_context(Path(temporary, "stderr").open("w+"))
        environment = {
            **os.environ, "PYTHONPATH": f"{HERE / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "RAY_TMPDIR": temporary,
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0",
        }  # fmt: skip
        command = [str(python), "-m", "benchmarks.ray.side", json.dumps(given)]
        process = stack.enter_context(
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Linux may share the cores out among sessions, and Ray's workers have sessions of their own.
                start_new_session=True,
            )
        )
        stack.callback(process.terminate)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            process.wait()
            raise SystemExit(f"{job}\n{Path(errors.name).read_text()[-3000:]}")
        yield process


def run_side(jobs: list[Job], work: Path) -> Took:
    """Do jobs at once: clips and CPU seconds are of all, wall seconds those of the longest."""
    with ExitStack() as stack:
        processes = [stack.enter_context(starting(job, work)) for job in jobs]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        found = []
        for process in processes:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
            if process.wait():
                raise SystemExit(f"{jobs}: failed after it was warm")
            found.append(json.loads(lines[-1]))
    kinds = dict.fromkeys(kind for each in found for kind in each["cpu"])
    together = {
        "clips": sum(each["clips"] for each in found),
        "wall": max(each["wall"] for each in found),
        "cpu": {kind: round(sum(each["cpu"].get(kind, 0) for each in found), 3) for kind in kinds},
    }
    return {**found[0], **together}


def run(rows: list[str], rounds: int, work: Path) -> dict[str, list[dict[str, Took]]]:
    """Run all sides in turns."""
    taken: dict[str, list[dict[str, Took]]] = {name: [] for name in rows}
    for number in range(rounds):
        for name in rows if number == 0 else [each for each in rows if each not in ONCE]:
            sides = list(ROWS[name].items())
            order = sides if number % 2 else sides[::-1]
            done: dict[str, Took] = {}
            for side, jobs in order:
                done[side] = run_side(jobs, work)
                print(f"{number + 1}/{rounds} {name}: {side}: {done[side]}", file=sys.stderr, flush=True)
            taken[name].append({side: done[side] for side, _ in sides})
    return taken


def cpu_of(took: Took) -> float:
    """Seconds of driver and workers."""
    return float(took["cpu"]["driver"] + took["cpu"].get("workers", 0))


def rate_of(took: Took) -> float:
    """Clips a CPU second."""
    return float(took["clips"] / cpu_of(took))


def rate_of_all(took: Took) -> float:
    """Clips a CPU second, with that of Ray's daemons."""
    return float(took["clips"] / sum(took["cpu"].values()))


def speed_of(took: Took) -> float:
    """Clips a second."""
    return float(took["clips"] / took["wall"])


def gain_of(round_: dict[str, Took], two: str, one: str) -> float:
    """What two add to the speed of one, as a share of it."""
    return speed_of(round_[two]) / speed_of(round_[one]) - 1


def peak_of(took: Took, what: str = "used") -> float:
    """MB of the fullest node."""
    return max(node[what] for node in took["store"]) / 1e6


Figures = dict[str, Callable[[dict[str, Took]], float]]
FIGURES: dict[str, Figures] = {
    "one node": {
        "ff.ray.dataset by ClipLoader, clips a CPU second": lambda r: (
            rate_of(r["ff.ray.dataset"]) / rate_of(r["ClipLoader"])
        ),
        "the same, wall": lambda r: speed_of(r["ff.ray.dataset"]) / speed_of(r["ClipLoader"]),
        "ClipLoader, clips a CPU second": lambda r: rate_of(r["ClipLoader"]),
        "ClipLoader, MB read a clip": lambda r: r["ClipLoader"]["bytes_read"] / r["ClipLoader"]["clips"] / 1e6,
        "a loop of PyAV, clips a CPU second": lambda r: rate_of(r["a loop of PyAV"]),
        "ff.ray.dataset, clips a CPU second": lambda r: rate_of(r["ff.ray.dataset"]),
        "ff.ray.dataset, Ray's daemons, CPU s a clip": lambda r: (
            r["ff.ray.dataset"]["cpu"]["daemons"] / r["ff.ray.dataset"]["clips"]
        ),
        "ff.ray.dataset, the driver, CPU s a clip": lambda r: (
            r["ff.ray.dataset"]["cpu"]["driver"] / r["ff.ray.dataset"]["clips"]
        ),
        "object store at its peak, MB": lambda r: peak_of(r["ff.ray.dataset"]),
        "spilled, MB": lambda r: peak_of(r["ff.ray.dataset"], "spilled"),
    },
    "read_videos": {
        "ff.ray.dataset by read_videos, clips a CPU second": lambda r: (
            rate_of(r["ff.ray.dataset"]) / rate_of(r["read_videos"])
        ),
        "the same, wall": lambda r: speed_of(r["ff.ray.dataset"]) / speed_of(r["read_videos"]),
        "a loop of PyAV by read_videos, clips a CPU second": lambda r: (
            rate_of(r["a loop of PyAV"]) / rate_of(r["read_videos"])
        ),
        "frames decoded for a clip": lambda r: r["a loop of PyAV"]["frames"] / r["a loop of PyAV"]["clips"],
    },
    "two nodes": {
        "share of the gain of two plain processes": lambda r: (
            gain_of(r, "two nodes", "one node") / gain_of(r, "two processes", "one process")
        ),
        "the same with stores of 300 MiB": lambda r: (
            gain_of(r, "two nodes, stores of 300 MiB", "one node") / gain_of(r, "two processes", "one process")
        ),
        "two nodes by two processes, clips a CPU second, daemons included": lambda r: (
            rate_of_all(r["two nodes"]) / rate_of_all(r["two processes"])
        ),
        "two processes by one, wall": lambda r: 1 + gain_of(r, "two processes", "one process"),
        "two nodes by one, wall": lambda r: 1 + gain_of(r, "two nodes", "one node"),
        "two nodes by two processes, wall": lambda r: speed_of(r["two nodes"]) / speed_of(r["two processes"]),
        "object store at its peak on the fullest node, MB": lambda r: peak_of(r["two nodes"]),
        "the same with stores of 300 MiB, MB": lambda r: peak_of(r["two nodes, stores of 300 MiB"]),
        "spilled, MB": lambda r: peak_of(r["two nodes"], "spilled"),
    },
    "store": {
        f"{side}, MB at its peak on the fullest node": lambda r, side=side: peak_of(r[side]) for side in ROWS["store"]
    },
}  # fmt: skip


def summarize(taken: dict[str, list[dict[str, Took]]]) -> dict[str, dict[str, list[float]]]:
    """Median and ends of each figure, by row."""
    return {
        name: {title: list(interval([figure(each) for each in rounds])) for title, figure in FIGURES[name].items()}
        for name, rounds in taken.items()
    }


def tabulate(figures: dict[str, dict[str, list[float]]]) -> str:
    """Make a table of Markdown."""
    lines = ["| row | figure | median (interval) |", "|---|---|---|"]
    for name, some in figures.items():
        lines += [f"| {name} | {title} | {_say(*values)} |" for title, values in some.items()]
    return "\n".join(lines) + "\n"


def _say(middle: float, low: float, high: float) -> str:
    digits = 1 if middle >= 10 else 3 if middle < 0.1 else 2
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def prepare_peer() -> None:
    """Make the environment of read_videos."""
    python = PEER / "bin" / "python"
    subprocess.run([OURS / "bin" / "python", "-m", "venv", "--clear", PEER], check=True)
    base, own = (
        subprocess.run(
            [each / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout.strip()
        for each in (OURS, PEER)
    )  # fmt: skip
    Path(own, "of_ray.pth").write_text(f"import site; site.addsitedir({base!r})\n", encoding="utf-8")
    requirements = HERE / "benchmarks" / "ray" / "requirements-peer.txt"
    subprocess.run([python, "-m", "pip", "install", "-qq", "--requirement", requirements], check=True)


def read_versions() -> dict[str, str]:
    """Versions of both environments."""
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    found = {}
    for place, names in (
        (OURS, ("framefeed", "ray", "torch", "av", "pyarrow", "numpy", "grpcio")),
        (PEER, ("decord",)),
    ):
        command = [place / "bin" / "python", "-c", code, *names]
        words = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        found |= dict(zip(names, words, strict=True))
    return found


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="NAME", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=HERE / "build" / "ray")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--prepare", action="store_true", help="make the environment of read_videos first")
    args = parser.parse_args()
    if args.prepare:
        prepare_peer()
    for place in (OURS, PEER):
        if shutil.which(place / "bin" / "python") is None:
            parser.error(f"there is no {place.name}: see the beginning of this help")
    write_media(find_trailer(HERE), args.work)
    loads = [os.getloadavg()[0]]
    taken = run(args.rows, args.rounds, args.work.resolve())
    figures = summarize(taken)
    print(tabulate(figures), end="")
    if args.json is not None:
        sides = [each["load"] for rounds in taken.values() for round_ in rounds for each in round_.values()]
        result = {
            "versions": read_versions(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "load": {"before": loads[0], "median of the sides": statistics.median(sides), "most": max(sides)},
            "rows": {name: ROWS[name] for name in args.rows},
            "figures": {
                name: {title: [round(value, 4) for value in values] for title, values in some.items()}
                for name, some in figures.items()
            },
            "rounds": taken,
        }
        lines = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
        args.json.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
