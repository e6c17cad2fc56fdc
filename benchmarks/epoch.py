"""One epoch of random clips, indexing included: framefeed beside torch's DataLoader over decord2 and TorchCodec.

    python benchmarks/epoch.py MEDIA [--repeats 5] [--json OUT]

MEDIA is a folder of real videos: the first 25 H.264 files of at least 64 frames are taken. Six random clips each of 16
frames, 4 apart, at 224x224, in batches of 8; framefeed with 2 threads, the peers with 2 workers. Each run is a process
of its own, in turns. TorchCodec is run with its own resize, and with torch's on whole frames. CPU seconds are those of
the process and its workers from the end of imports on; memory is the peak of the sum of PSS over all of them, imports
included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

FILES, CLIPS, FRAMES, STRIDE, SIDE, BATCH, WORKERS = 25, 6, 16, 4, 224, 8, 2
SPAN = (FRAMES - 1) * STRIDE + 1


def run_framefeed(paths: list[str]) -> Callable[[], int]:
    """Prepare our epoch."""
    import framefeed as ff

    def run() -> int:
        catalog = ff.scan(paths, workers=WORKERS)
        rule = ff.Dense(FRAMES, stride=STRIDE)
        plan = ff.plan_clips(catalog, rule, clips_per_video=CLIPS, seed=0, shuffle=True, size=(SIDE, SIDE))
        with ff.ClipLoader(plan, batch_size=BATCH, workers=WORKERS, kind="threads") as loader:
            return sum(len(batch.data) for batch in loader)

    return run


def run_peer(paths: list[str], make_dataset: Callable[[list[str]], Any]) -> Callable[[], int]:
    """Prepare the epoch of a data set under torch's DataLoader."""
    from torch.utils.data import DataLoader

    def run() -> int:
        loader = DataLoader(make_dataset(paths), batch_size=BATCH, shuffle=True, num_workers=WORKERS)
        return sum(len(batch) for batch in loader)

    return run


def decord_dataset(paths: list[str]) -> Any:
    """Random clips through decord2, a reader anew for each clip."""
    import decord
    import torch
    from torch.utils.data import Dataset

    decord.bridge.set_bridge("torch")

    class Clips(Dataset[Any]):
        def __len__(self) -> int:
            return len(paths) * CLIPS

        def __getitem__(self, item: int) -> Any:
            reader = decord.VideoReader(paths[item // CLIPS], width=SIDE, height=SIDE, num_threads=1)
            start = int(torch.randint(max(1, len(reader) - SPAN + 1), ()))
            numbers = [min(start + STRIDE * step, len(reader) - 1) for step in range(FRAMES)]
            return reader.get_batch(numbers).permute(0, 3, 1, 2)

    return Clips()


def torchcodec_dataset(paths: list[str], *, resizes_itself: bool) -> Any:
    """Random clips through TorchCodec's exact decoder, a decoder anew for each clip.

    Args:
        paths: The videos.
        resizes_itself: By its own transform while it decodes; else torch resizes whole frames, as most training does.
    """
    import torch
    from torch.utils.data import Dataset
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    size = (SIDE, SIDE)
    transforms = [Resize(size)] if resizes_itself else None

    class Clips(Dataset[Any]):
        def __len__(self) -> int:
            return len(paths) * CLIPS

        def __getitem__(self, item: int) -> Any:
            decoder = VideoDecoder(paths[item // CLIPS], transforms=transforms)
            count = len(decoder)
            start = int(torch.randint(max(1, count - SPAN + 1), ()))
            frames = decoder.get_frames_at([min(start + STRIDE * step, count - 1) for step in range(FRAMES)]).data
            if resizes_itself:
                return frames
            return torch.nn.functional.interpolate(frames, size, mode="bilinear", antialias=True)

    return Clips()


RUNS: dict[str, Callable[[list[str]], Callable[[], int]]] = {
    "framefeed": run_framefeed,
    "decord2": lambda paths: run_peer(paths, decord_dataset),
    "torchcodec": lambda paths: run_peer(paths, partial(torchcodec_dataset, resizes_itself=False)),
    "torchcodec, its own resize": lambda paths: run_peer(paths, partial(torchcodec_dataset, resizes_itself=True)),
}
MODULES = {"framefeed": "framefeed", "decord2": "decord"}


def run_once(way: str, paths: list[str]) -> None:
    """Run one epoch in this process, and print what it cost."""
    __import__(MODULES.get(way, "torchcodec"))
    run = RUNS[way](paths)
    wall, cpu = time.perf_counter(), _cpu_seconds()
    clips = run()
    print(json.dumps({"clips": clips, "cpu": _cpu_seconds() - cpu, "wall": time.perf_counter() - wall}))


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(way: str, paths: list[str]) -> dict[str, float]:
    """Run one epoch in a process of its own, watching the memory of it and its children."""
    command = [sys.executable, __file__, "--run", way, *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        peak, done = [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                peak[0] = max(peak[0], sum(_pss_bytes(pid) for pid in _family(child.pid)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, _ = child.communicate()
        done.set()
        watcher.join()
    if child.returncode:
        raise SystemExit(f"{way} ended with {child.returncode}")
    return {**json.loads(output.splitlines()[-1]), "peak_pss_bytes": float(peak[0])}


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def choose_files(folder: Path) -> list[str]:
    """List the first H.264 files that hold a clip and that every decoder here opens."""
    import framefeed as ff

    found: list[str] = []
    for path in sorted(each for each in folder.rglob("*") if each.suffix in (".mp4", ".mov", ".mkv")):
        try:
            index = ff.build_index(path, verify="full")
        except ff.FramefeedError:
            continue
        if index.stream.codec == "h264" and len(index) >= SPAN + 3 and not index.num_damaged_frames:
            found.append(str(path))
        if len(found) == FILES:
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("media", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    paths = choose_files(args.media)
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in RUNS}
    for _ in range(args.repeats):
        for way, found in runs.items():
            found.append(measured(way, paths))
    rows: dict[str, Any] = {"files": [os.path.relpath(path, args.media) for path in paths], "repeats": args.repeats}
    for way, found in runs.items():
        rate = sorted(each["clips"] / each["cpu"] for each in found)
        rows[way] = {
            "clips per CPU second": {"median": statistics.median(rate), "min": rate[0], "max": rate[-1]},
            "clips per second": statistics.median(each["clips"] / each["wall"] for each in found),
            "peak PSS MB": statistics.median(each["peak_pss_bytes"] for each in found) / 1e6,
        }
    ours = rows["framefeed"]
    for way in list(RUNS)[1:]:
        speed = ours["clips per CPU second"]["median"] / rows[way]["clips per CPU second"]["median"]
        rows[f"framefeed by {way}"] = {"CPU": speed, "memory": ours["peak PSS MB"] / rows[way]["peak PSS MB"]}
    print(json.dumps(rows, indent=2))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_once(sys.argv[2], sys.argv[3:])
    else:
        main()
