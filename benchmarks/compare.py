"""Run small workloads with an old and a new checkout in turns; print ratios new / old.

    python -m benchmarks.compare OLD_CHECKOUT [MEDIA...] [--rounds 5] [--only NAME...]      (in the project's folder)

Each run is a process of its own with its checkout's `src` in PYTHONPATH, under this Python. Its CPU seconds are user
and system of the process with all its threads and children, while the workload runs: imports and what a workload opens
or makes first are not in them, but for rows that begin with "import", which are the whole process. Rows without
decoding have a decoder that writes nothing: they show what a loader takes for itself, without what its processes take;
with "consumer", the CPU seconds are those of the thread that iterates alone. MEDIA are videos or folders, by default
those of ../shared/media/video; of their MP4 files, some of at most 3 MB are read. Below 1 the new checkout is faster,
or takes less memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import framefeed as ff

NEW = Path(__file__).resolve().parents[1]
REAL, MOST_BYTES = 16, 3_000_000
"""Files that are chosen of real media, and the size of one at most."""
SIZE, SMALL = (112, 112), (32, 32)
"""Of delivered videos, and of pictures and of clips without decoding."""
CAMERA, TABLE = "observation.images.top", "observation.images.table"
"""Of the data set of LeRobot: a camera in videos, and one whose pictures lie in tables."""

Work = Callable[[], object]


def make_media(folder: Path) -> None:
    """Make videos and pictures that both sides read."""
    import numpy as np
    from PIL import Image

    from framefeed.testing import ClipSpec, make_lerobot, write_clip

    (folder / "clips").mkdir(parents=True)
    for number in range(48):
        spec = ClipSpec(num_frames=16, gop=4, b_frames=0 if number % 2 else 2, height=96, width=128)
        write_clip(folder / "clips" / f"{number}.mp4", spec)
    shutil.copytree(folder / "clips", folder / "others")
    make_lerobot(folder / "robot", episodes=(60,) * 8, cameras=(CAMERA,), image_keys=(TABLE,))
    write_clip(folder / "long.mp4", ClipSpec(num_frames=3000, gop=12, height=48, width=64))
    write_clip(folder / "large.mp4", ClipSpec(num_frames=120, gop=30, height=360, width=640))
    (folder / "pictures").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    for number in range(3000):
        Image.fromarray(noise).save(folder / "pictures" / f"{number}.jpg")


def prepare_side(folder: Path, side: Path) -> None:
    """Scan and fill caches with the code of one side."""
    for name in ("clips", "others", "pictures", "real"):
        ff.scan(_media(folder, name), out=side / f"{name}.parquet", workers=0)
    for name, codec, form in (("clips", "raw", "output"), ("clips", "lz4", "planes"), ("pictures", "raw", "output")):
        with _loader(side, name, workers=0, cache=_cache(side, name, codec, form)) as loader:
            _ = list(loader)


def _media(folder: Path, name: str) -> list[Path]:
    if name == "real":
        return [Path(line) for line in (folder / "real.txt").read_text(encoding="utf-8").splitlines()]
    return sorted((folder / name).iterdir())


def _plan(side: Path, name: str, **options: Any) -> Any:
    rule, size = (ff.Uniform(1), SMALL) if name == "pictures" else (ff.Uniform(8), SIZE)
    return ff.plan_clips(_catalog(side, name), **{"rule": rule, "seed": 0, "size": size} | options)


def _catalog(side: Path, name: str) -> ff.Catalog:
    return ff.Catalog.open(side / f"{name}.parquet")


def _loader(side: Path, name: str, **options: Any) -> Any:
    return ff.ClipLoader(_plan(side, name), batch_size=64 if name == "pictures" else 4, on_error="skip", **options)


def _cache(side: Path, name: str, codec: str, form: Any) -> Any:
    return ff.FrameCache(side / f"cache_{name}_{codec}", codec=codec, form=form)


def first_frame(folder: Path, side: Path, stack: ExitStack) -> Work:
    return lambda: stack.enter_context(ff.VideoDecoder(folder / "clips" / "0.mp4"))[0]


def first_frames(folder: Path, side: Path, stack: ExitStack) -> Work:
    def work() -> None:
        for path in _media(folder, "clips") * 4:
            with ff.VideoDecoder(path) as video:
                _ = video[0]

    return work


def next_frames(folder: Path, side: Path, stack: ExitStack) -> Work:
    index = ff.build_index(folder / "long.mp4")
    videos = [stack.enter_context(ff.VideoDecoder(folder / "long.mp4", frame_index=index)) for _ in range(300)]
    for video in videos:
        _ = video[5]
    return lambda: [video[6] for video in videos]


def frames_in_order(folder: Path, side: Path, stack: ExitStack) -> Work:
    video = stack.enter_context(ff.VideoDecoder(folder / "long.mp4"))
    return lambda: [None for _ in range(3) for _ in video]


def clips_of_open_videos(folder: Path, side: Path, stack: ExitStack) -> Work:
    videos = [stack.enter_context(ff.VideoDecoder(path)) for path in _media(folder, "clips")]
    return lambda: [video.get_frames_at(range(first, first + 8)) for first in (1, 6, 3) * 3 for video in videos]


def index(name: str, times: int) -> Callable[..., Work]:
    """Make the workload of indexing files, over and over."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        def work() -> None:
            for path in _media(folder, name) * times:
                with suppress(ff.MediaError):
                    ff.build_index(path)

        return work

    return prepare


def scan_pictures(folder: Path, side: Path, stack: ExitStack) -> Work:
    return lambda: ff.scan(folder / "pictures", workers=0)


def map_identity(folder: Path, side: Path, stack: ExitStack) -> Work:
    out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "out.mp4"

    def work() -> object:
        out.unlink(missing_ok=True)
        return ff.map_video(folder / "large.mp4", lambda frame, **_: frame, out, workers=1)

    return work


def epoch(name: str, workers: int = 0, epochs: int = 1, codec: str = "", form: str = "") -> Callable[..., Work]:
    """Make the workload of epochs of a loader, over a filled cache where a codec is named."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        cache = _cache(side, name, codec, form) if codec else None
        loader = stack.enter_context(_loader(side, name, workers=workers, cache=cache))
        return lambda: [None for _ in range(epochs) for _ in loader]

    return prepare


def first_batches(times: int) -> Callable[..., Work]:
    """Make the workload of first batches, each of another catalog, plan and loader."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        def work() -> None:
            for _ in range(times):
                with _loader(side, "clips", workers=0) as loader:
                    next(iter(loader))

        return work

    return prepare


def ranks_in_turn(folder: Path, side: Path, stack: ExitStack) -> Work:
    """Load cached pictures as 4 ranks, each with a plan and a loader of its own."""
    cache = _cache(side, "pictures", "raw", "output")

    def work() -> None:
        for rank in range(4):
            plan = _plan(side, "pictures", rank=rank, world_size=4)
            with ff.ClipLoader(plan, batch_size=64, workers=0, cache=cache) as loader:
                for _ in loader:
                    pass

    return work


def plan_rates(folder: Path, side: Path) -> list[Any]:
    """Plan 8 frames at two rates, from a random start."""
    return [_plan(side, "clips", rule=ff.Rates([(50, 4), (12.5, 4)]), clips_per_video=100)]


def plan_dense(folder: Path, side: Path) -> list[Any]:
    """Plan small clips with a column."""
    options = {"rule": ff.Dense(8), "size": SMALL, "columns": ("num_frames",)}
    return [_plan(side, "clips", clips_per_video=100, **options)]


def plan_stills(folder: Path, side: Path) -> list[Any]:
    """Plan pictures, twice each."""
    return [_plan(side, "pictures", clips_per_video=2)]


def plan_cameras(folder: Path, side: Path) -> list[Any]:
    """Plan clips of two catalogs that are joined by the names of their files."""
    streams = {"left": _catalog(side, "clips"), "right": _catalog(side, "others")}
    return [ff.plan_clips(streams=streams, on="stem", rule=ff.Dense(8), clips_per_video=50, seed=0, size=SMALL)]


def plan_mixture(folder: Path, side: Path) -> list[Any]:
    """Mix two plans of 8 frames by weight."""
    names, options = ("clips", "others"), {"rule": ff.Dense(8), "clips_per_video": 50, "size": SMALL}
    first, second = (_plan(side, name, **{**options, "seed": seed}) for seed, name in enumerate(names))
    return [ff.mix_plans([(first, 0.7), (second, 0.3)], num_clips=4800, seed=0)]


def plan_ranks(folder: Path, side: Path) -> list[Any]:
    """Plan for 4 ranks that get clips of about equal cost: so many that an order remembers all of its blocks."""
    ranks = {"world_size": 4, "balance": "cost", "clips_per_video": 80}
    return [_plan(side, "clips", rule=ff.Dense(8), rank=rank, **ranks) for rank in range(4)]


def plan_robot(folder: Path, side: Path) -> list[Any]:
    """Plan rows of LeRobot, with a camera in videos at two times, and pictures in tables."""
    return [ff.lerobot.open(folder / "robot").plan({CAMERA: [-0.1, 0.0], TABLE: [0.0], "action": [0.0, 0.1]}, seed=0)]


def plan_tables(folder: Path, side: Path) -> list[Any]:
    """Plan rows of LeRobot with pictures in tables at two times."""
    return [ff.lerobot.open(folder / "robot").plan({TABLE: [-0.1, 0.0], "action": [0.0]}, seed=0)]


def plan(make: Callable[[Path, Path], list[Any]], times: int = 1, names: Sequence[str] = ()) -> Callable[..., Work]:
    """Make the workload of planning clip by clip at shuffled positions; of several streams, give their names."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        plans, shuffle = make(folder, side), random.Random(0)
        orders = [shuffle.sample(range(len(each)), len(each)) for each in plans]

        def work() -> None:
            for _ in range(times):
                for each, order in zip(plans, orders, strict=True):
                    for position in order:
                        clip = each[position]
                        for part in [clip[name] for name in names] or [clip]:
                            _ = part.indices, part.pts_seconds

        return work

    return prepare


def load_idle(
    make: Callable[[Path, Path], list[Any]], workers: int = 0, kind: Any = "threads", epochs: int = 1
) -> Callable[..., Work]:
    """Make the workload of batches of 64 that are not decoded, of a loader that has had an epoch."""

    def prepare(folder: Path, side: Path, stack: ExitStack) -> Work:
        from benchmarks.idle import IdleDecoder

        if workers and kind == "threads":
            # On several processors, threads hand the interpreter lock over 400 times in one run and 8,000 in another.
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        (each,) = make(folder, side)
        options: dict[str, Any] = {"workers": workers, "kind": kind, "backend": IdleDecoder()}
        loader = stack.enter_context(ff.ClipLoader(each, batch_size=64, **options))
        _ = [None for _ in loader]
        return lambda: [None for _ in range(epochs) for _ in loader]

    return prepare


WORKLOADS: dict[str, Callable[[Path, Path, ExitStack], Work]] = {
    "import, first frame": first_frame,
    "first frames of 48 files, 4 times": first_frames,
    "[6] after [5], 300 decoders": next_frames,
    "9000 small frames in order": frames_in_order,
    "432 clips of 8, open short videos": clips_of_open_videos,
    "index of small MP4": index("clips", 6),
    "index of real MP4": index("real", 4),
    "scan of 3000 pictures": scan_pictures,
    "6 epochs, short videos": epoch("clips", epochs=6),
    "6 epochs, short videos, 2 threads": epoch("clips", workers=2, epochs=6),
    "epoch, real videos": epoch("real"),
    "epoch, real videos, 2 threads": epoch("real", workers=2),
    "24 more epochs, cache, raw": epoch("clips", epochs=24, codec="raw", form="output"),
    "12 more epochs, cache, lz4 planes": epoch("clips", epochs=12, codec="lz4", form="planes"),
    "map_video, 120 frames unchanged": map_identity,
    "import, first batch": first_batches(1),
    "60 first batches of new loaders": first_batches(60),
    "2 more epochs, cached pictures": epoch("pictures", epochs=2, codec="raw", form="output"),
    "4 ranks in turn, cached pictures": ranks_in_turn,
    "plan[i], two rates": plan(plan_rates),
    "plan[i], stills": plan(plan_stills, times=4),
    "plan[i], two cameras": plan(plan_cameras, names=("left", "right"), times=2),
    "plan[i], mixture of two plans": plan(plan_mixture),
    "plan[i], 4 ranks by cost": plan(plan_ranks, times=2),
    "plan[i], LeRobot": plan(plan_robot, times=8, names=(CAMERA, TABLE)),
    "no decoding": load_idle(plan_dense, epochs=2),
    "no decoding, 2 threads": load_idle(plan_dense, workers=2),
    "no decoding, 2 threads, consumer": load_idle(plan_dense, workers=2, epochs=2),
    "no decoding, 2 processes": load_idle(plan_dense, workers=2, kind="processes"),
    "no decoding, 2 processes, consumer": load_idle(plan_dense, workers=2, kind="processes"),
    "no decoding, stills": load_idle(plan_stills, epochs=2),
    "no decoding, two cameras": load_idle(plan_cameras),
    "no decoding, mixture of two plans": load_idle(plan_mixture, epochs=2),
    "no decoding, LeRobot": load_idle(plan_robot, epochs=4),
    "no decoding, LeRobot, tables": load_idle(plan_tables, epochs=4),
}


def run_child(name: str, folder: Path, side: Path) -> dict[str, float]:
    """Do a workload in this process; give its seconds and the peak of its memory, in 10^6 bytes."""
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        work = WORKLOADS[name](folder, side, stack)
        clock = time.thread_time if name.endswith("consumer") else _cpu_seconds
        cpu, wall = (0.0 if name.startswith("import") else clock()), time.perf_counter()
        work()
        took = {"CPU": clock() - cpu, "wall": time.perf_counter() - wall}
    # Not ru_maxrss, which a process inherits from the one that started it.
    peak = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split("VmHWM:")[1].split()[0]
    return took | {"memory": int(peak) * 1024 / 1e6}


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _run(checkout: Path, *words: str | Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{NEW}", "PYTHONPYCACHEPREFIX": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-P", __file__, "--child", *map(str, words)]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _choose(media: list[Path]) -> Iterator[Path]:
    found = [path for root in media for path in ([root] if root.is_file() else sorted(root.rglob("*.mp4")))]
    small = [path.resolve() for path in found if path.stat().st_size <= MOST_BYTES]
    yield from small[:: max(1, len(small) // REAL)][:REAL]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median, and the order statistics that hold it with 90 % or, where there are too few, the ends."""
    ordered, count, below = sorted(ratios), len(ratios), 0
    while 2 * sum(math.comb(count, k) for k in range(below + 2)) / 2**count <= 0.1:
        below += 1
    return statistics.median(ordered), ordered[below], ordered[count - 1 - below]


def compare(old: Path, media: list[Path], rounds: int, names: list[str]) -> Iterator[str]:
    """Run all in turns; give the lines of the table."""
    checkouts = {"old": old, "new": NEW}
    with tempfile.TemporaryDirectory(prefix="framefeed-compare-") as name:
        folder = Path(name)
        (folder / "real.txt").write_text("".join(f"{path}\n" for path in _choose(media)), encoding="utf-8")
        _run(old, "media", folder)
        for side, checkout in checkouts.items():
            (folder / side).mkdir()
            _run(checkout, "side", folder, folder / side)
        yield f"{'new / old':36}{'CPU':>21}{'wall':>21}{'memory':>21}{'old CPU s':>11}"
        for workload in names:
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in checkouts}
            for number in range(rounds + 1):
                for side in ("old", "new") if number % 2 else ("new", "old"):
                    found = json.loads(_run(checkouts[side], workload, folder, folder / side))
                    runs[side] += [found] if number else []  # the first round fills the page cache
            cells = ""
            for unit in ("CPU", "wall", "memory"):
                pairs = zip(runs["new"], runs["old"], strict=True)
                middle, low, high = interval([new[unit] / before[unit] for new, before in pairs])
                cells += f"  {middle:5.2f} ({low:.2f}-{high:.2f})"
            yield f"{workload:36}{cells}{statistics.median(run['CPU'] for run in runs['old']):11.3f}"


def main() -> None:
    """Compare; or, with --child, do one thing in this process."""
    if sys.argv[1:2] == ["--child"]:
        what, folder, *side = sys.argv[2:]
        if what == "media":
            make_media(Path(folder))
        elif what == "side":
            prepare_side(Path(folder), Path(side[0]))
        else:
            print(json.dumps(run_child(what, Path(folder), Path(side[0]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("media", nargs="*", type=Path, default=[NEW.parent / "shared" / "media" / "video"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=WORKLOADS, default=list(WORKLOADS))
    args = parser.parse_args()
    for line in compare(args.old.resolve(), args.media, args.rounds, args.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
