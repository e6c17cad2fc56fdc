"""Read clips in this process, or by tasks of Ray, and print what it took as JSON.

    python -m benchmarks.ray.side JOB      (by benchmarks.ray, each in the environment of its side; JOB is JSON)

Each side is warmed first: workers run, modules are imported, a batch has been read. Then it prints "ready", waits for a
line, and reads a whole epoch, which is measured from making its dataset to its last batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SIZE = (224, 224)
FRAMES = 16
APART = 4
"""At 24 frames a second; as a rate, 6."""

Job = dict[str, Any]


def make_plan(job: Job, clips: int | None = None) -> Any:
    """Plan `clips` of each video."""
    import framefeed as ff

    media = Path(job["media"])
    catalog = ff.scan(media, out=media.with_suffix(".parquet"), progress=False)
    return ff.plan_clips(
        catalog, ff.Rates([(6.0, FRAMES)]), clips_per_video=clips or job["clips_per_video"], seed=job["seed"],
        size=SIZE, rank=job.get("rank", 0), world_size=job.get("world_size", 1),
    )  # fmt: skip


def wait_for_start() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def read_loader(job: Job) -> Job:
    """ClipLoader with one worker: its second epoch."""
    import torch

    import framefeed as ff

    with ff.ClipLoader(make_plan(job), batch_size=job["batch_size"], workers=1) as loader:
        batches = iter(loader)
        next(batches)
        del batches
        loader.set_epoch(1)
        wait_for_start()
        began, cpu, read = time.perf_counter(), time.process_time(), _count_read()
        first, clips = 0.0, 0
        for batch in loader:
            clips += len(torch.from_numpy(batch.data))
            first = first or time.perf_counter() - began
        took = {"wall": time.perf_counter() - began, "cpu": {"driver": time.process_time() - cpu}}
        return {"clips": clips, "first": first, **took, "bytes_read": _count_read() - read}


def decode_alone(job: Job) -> Job:
    """The frames that a clip at random needs, decoded by PyAV in one thread and not converted."""
    import av

    plan, frames = make_plan(job).with_epoch(1), 0
    wait_for_start()
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(len(plan)):
        source = plan.catalog.media_source(plan[at].row)
        times = plan[at].pts_seconds
        with av.open(source.local_path) as container:
            stream = container.streams.video[0]
            stream.thread_type = "NONE"
            container.seek(int(float(times.min()) / float(stream.time_base)), stream=stream)
            for frame in container.decode(stream):
                frames += 1
                if frame.time > times.max() - 1e-3:
                    break
    took = {"wall": time.perf_counter() - began, "cpu": {"driver": time.process_time() - cpu}}
    return {"clips": len(plan), **took, "frames": frames}


def _count_read() -> int:
    """Bytes that this process has read, of files in the page cache too."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split("rchar: ")[1].split()[0])


def read_dataset(job: Job, make: Callable[[int], Iterator[int]]) -> Job:
    """By tasks of Ray; `make` starts epoch 0 or 1, and gives the clips of each batch."""
    from benchmarks.ray.cluster import running

    with running(job["nodes"], job.get("store_mib", 150)) as watcher:
        _ = [None for _ in make(0)]
        wait_for_start()
        before, began = watcher.count(), time.perf_counter()
        first, clips = 0.0, 0
        for count in make(1):
            clips += count
            first = first or time.perf_counter() - began
            if job.get("seconds_a_batch"):
                time.sleep(job["seconds_a_batch"])  # a consumer that is slow
        wall = time.perf_counter() - began
        after = watcher.count()
    cpu = {name: after["cpu"][name] - before["cpu"][name] for name in after["cpu"]}
    return {"clips": clips, "first": first, "wall": wall, "cpu": cpu, "store": after["store"]}


def iterate_plan(job: Job, epoch: int) -> Iterator[int]:
    """ff.ray.dataset; epoch 0 is a clip of each video."""
    import framefeed as ff

    plan = make_plan(job).with_epoch(1) if epoch else make_plan(job, 1)
    dataset = ff.ray.dataset(plan, batch_size=job["batch_size"])
    options = {"prefetch_batches": job["prefetch"]} if "prefetch" in job else {}
    for batch in dataset.iter_torch_batches(batch_size=job["batch_size"], **options):
        yield len(batch["position"])


def iterate_read_videos(job: Job, epoch: int) -> Iterator[int]:
    """Ray's read_videos, resized by decord; of the frames of each video, those of a clip at random are kept."""
    import numpy as np
    import ray

    paths = sorted(str(path) for path in Path(job["media"]).iterdir())
    paths = paths if epoch else paths[:1]
    generator = np.random.default_rng(job["seed"])
    last = job["frames_of_video"] - APART * (FRAMES - 1)
    starts = dict(zip(paths, generator.integers(0, last, len(paths)).tolist(), strict=True))

    def select(rows: dict[str, Any]) -> dict[str, Any]:
        offsets = rows["frame_index"] - np.array([starts[path] for path in rows["path"]])
        kept = (offsets >= 0) & (offsets < APART * FRAMES) & (offsets % APART == 0)
        return {name: column[kept] for name, column in rows.items()}

    dataset = ray.data.read_videos(
        paths, resize=SIZE, include_paths=True, override_num_blocks=len(paths), ray_remote_args={"num_cpus": 1}
    ).map_batches(select)
    dataset.context.execution_options.preserve_order = True
    # In order, so a batch is a clip.
    for batch in dataset.iter_batches(batch_size=FRAMES):
        if batch["frame"].shape != (FRAMES, *SIZE, 3) or len(set(batch["path"])) != 1:
            raise SystemExit(f"not a clip: {batch['frame'].shape}, {batch['path']}, {batch['frame_index']}")
        if np.any(np.diff(batch["frame_index"]) != APART):
            raise SystemExit(f"not a clip: {batch['frame_index']}")
        yield 1


def main() -> None:
    """Do the job."""
    warnings.simplefilter("ignore")
    job = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    alone = {"loader": read_loader, "decode": decode_alone}
    if job["side"] in alone:
        took = alone[job["side"]](job)
    else:
        iterate = iterate_plan if job["side"] == "dataset" else iterate_read_videos
        took = read_dataset(job, lambda epoch: iterate(job, epoch))
    print(json.dumps({**took, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
