"""Run lerobot's LeRobotDataset and ours in turns over the same data sets; print how many times as fast ours is.

    python -m benchmarks.lerobot [--rows NAME...] [--rounds 5] [--json OUT]     (in the project's folder)

Each measure is a process of its own: lerobot 0.4.4 in .venv-lerobot (make lerobot), ours in this environment. Which
side is first changes from round to round. CPU seconds are user and system of the process and its DataLoader's workers;
items are float32 on both sides, but for the rows of ClipLoader, which give uint8. Data sets are generated (480x640, 200
episodes of 40 frames) and kept in --work. A figure is the median over the rounds, with its interval in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare import interval
from benchmarks.lerobot.media import CAMERAS, CODECS, write_tables, write_videos
from tests.lerobot.cases import GOLDEN

HERE = Path(__file__).resolve().parents[2]
PEER = HERE / ".venv-lerobot" / "bin" / "python"
SEED = 0
CHUNK = [step / 30 for step in range(50)]
"""Actions of 50 steps, as policies that predict chunks ask for."""


def list_rows() -> dict[str, dict[str, Any]]:
    """Make the jobs of all rows, by name; without the side and the root."""
    rows: dict[str, dict[str, Any]] = {}
    for codec in CODECS:
        for cameras in (1, 3):
            for frames, batch_size, items in ((1, 32, 1024), (4, 8, 512)):
                times = [-step / 30 for step in range(frames)][::-1]
                deltas = {**dict.fromkeys(CAMERAS[:cameras], times), "action": CHUNK[:8]}
                job = {"set": f"{codec}-{cameras}", "deltas": deltas, "batch_size": batch_size // cameras}
                job["items"] = items if cameras == 1 else items // 2
                name = f"{codec}, {cameras} camera{'s' * (cameras > 1)}, T={frames}"
                rows[f"LeRobotDataset, {name}"] = {"work": "loader", "workers": 2, **job}
                against = f"LeRobotDataset, {name}"
                rows[f"ClipLoader, {name}"] = {"work": "clips", "against": against, "workers": 2, **job}
    table = {"set": "table", "deltas": {"action": CHUNK, "observation.state": [0.0]}}
    rows["tables only, items"] = {"work": "items", "items": 2000, **table}
    rows["tables only, DataLoader"] = {"work": "loader", "workers": 2, "batch_size": 64, "items": 4096, **table}
    for name, of in (("", "episodes-10000"), (" with a camera", "episodes-10000-1")):
        job = {"work": "open", "set": of, "warm": "table", "deltas": None}
        rows[f"opening 10,000 episodes{name}, first"] = {**job, "fresh": True}
        rows[f"opening 10,000 episodes{name}, again"] = job
        rows[f"opening 10,000 episodes{name} and an item, first"] = {**job, "fresh": True, "reads": True}
        rows[f"opening 10,000 episodes{name} and an item, again"] = {**job, "reads": True}
    memory = {"work": "memory", "workers": 4, "start": "spawn", "batch_size": 20, "items": 2000}
    rows["memory of 4 spawned workers"] = {**memory, "set": "h264-g30-1", "deltas": {CAMERAS[0]: [0.0]}}
    return rows


def run_side(side: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Do a job in a process of its own."""
    folder = Path(tempfile.mkdtemp(dir=folder)) if job.get("fresh") else folder
    path = folder / "job.json"
    path.write_text(json.dumps({"side": side, "seed": SEED, **job}))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    environment |= {"HF_HOME": str(folder / "hf"), "XDG_CACHE_HOME": str(folder / "cache")}
    python: str | Path = sys.executable
    if side == "lerobot":
        environment["PYTHONPATH"], python = str(HERE / "tests" / "lerobot" / "stubs"), PEER
    else:
        environment["PYTHONPATH"] = f"{HERE / 'src'}"
    command = [str(python), str(HERE / "benchmarks" / "lerobot" / "side.py"), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}: {job}\n{done.stderr[-3000:]}")
    return {
        name: value if isinstance(value, list) else round(value, 4)
        for name, value in json.loads(done.stdout.splitlines()[-1]).items()
    }


def run(rows: dict[str, dict[str, Any]], rounds: int, work: Path) -> dict[str, list[dict[str, Any]]]:
    """Do all jobs in turns."""
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds):
            for name, job in rows.items():
                sides = ["ours"] if "against" in job else ["ours", "lerobot"]
                order = sides if number % 2 else sides[::-1]
                given = {
                    **job,
                    **{
                        kind: str(work / job[name]) for kind, name in (("root", "set"), ("warm", "warm")) if name in job
                    },
                }
                taken[name].append({side: run_side(side, given, Path(scratch)) for side in order})
                print(f"{number + 1}/{rounds} {name}: {taken[name][-1]}", file=sys.stderr, flush=True)
    return taken


def cost(result: dict[str, Any], unit: str) -> float:
    """CPU or wall seconds of an item, or bytes of private memory."""
    return float(sum(result["private"])) if "private" in result else result[unit] / result["items"]


def tabulate(rows: dict[str, dict[str, Any]], taken: dict[str, list[dict[str, Any]]]) -> str:
    """Make a table: lerobot's cost by ours, and what each costs."""
    lines = ["| row | CPU | wall | lerobot, CPU ms an item | ours |", "|---|---|---|---|---|"]
    for name, rounds in taken.items():
        theirs = taken.get(rows[name].get("against", name), [])
        if len(theirs) != len(rounds):
            continue
        pairs = [(peer["lerobot"], mine["ours"]) for peer, mine in zip(theirs, rounds, strict=True)]
        cells = [
            "{:.2f} ({:.2f}-{:.2f})".format(*interval([cost(peer, unit) / cost(mine, unit) for peer, mine in pairs]))
            for unit in ("cpu", "wall")
        ]
        is_memory = "private" in pairs[0][0]
        scale, unit = (1 / 2**20, " MiB") if is_memory else (1000, "")
        each = [statistics.median(cost(pair[side], "cpu") for pair in pairs) * scale for side in (0, 1)]
        lines.append(
            f"| {name} | {cells[0]} | {'' if is_memory else cells[1]} | {each[0]:.3f}{unit} | {each[1]:.3f}{unit} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[""], help="rows whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=HERE / "build" / "lerobot")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = {name: job for name, job in list_rows().items() if any(part in name for part in args.rows)}
    args.work.mkdir(parents=True, exist_ok=True)
    write_tables(args.work)
    write_videos(args.work)
    taken = run(rows, args.rounds, args.work)
    print(tabulate(rows, taken), end="")
    if args.json is not None:
        result = {
            "versions": {name: version(name) for name in ("framefeed", "torch", "av", "pyarrow")},
            "lerobot": json.loads(GOLDEN.read_text())["versions"],
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "load": os.getloadavg()[0],
            "rows": rows,
            "rounds": taken,
        }
        lines = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
        args.json.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
