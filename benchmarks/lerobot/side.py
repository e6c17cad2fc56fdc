"""Do one piece of work with lerobot's LeRobotDataset or with ours, and print what it took as JSON.

    python benchmarks/lerobot/side.py JOB.json            (by benchmarks.lerobot, each in the environment of its side)

CPU seconds are user and system of the process and of its workers, which end within the measure. Imports are not in it,
and opening only where opening is the work.
"""

import json
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import torch


def import_dataset(side):
    if side == "lerobot":
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    else:
        from framefeed.torch import LeRobotDataset
    return LeRobotDataset


def spent():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages), time.perf_counter()


def measure(work):
    """Return CPU and wall seconds, and the result of the work."""
    began = spent()
    result = work()
    cpu, wall = (after - before for after, before in zip(spent(), began, strict=True))
    return {"cpu": cpu, "wall": wall}, result


def make_loader(data, job):
    generator = torch.Generator().manual_seed(job["seed"])
    sampler = torch.utils.data.RandomSampler(data, num_samples=job["items"], generator=generator)
    return torch.utils.data.DataLoader(
        data,
        batch_size=job["batch_size"],
        sampler=sampler,
        num_workers=job["workers"],
        multiprocessing_context=job.get("start") if job["workers"] else None,
    )


def use(batch):
    """Read a value of each tensor, as a training loop would."""
    return sum(float(value.flatten()[0]) for value in batch.values() if isinstance(value, torch.Tensor))


def run_loader(data, job):
    count = 0
    for batch in make_loader(data, job):
        use(batch)
        count += len(batch["index"])
    return {"items": count}


def run_clips(job):
    """Ours alone: the clips of a plan, uint8, without torch."""
    import framefeed as ff

    plan = ff.lerobot.open(job["root"]).plan(job["deltas"], seed=job["seed"])
    count = 0
    with ff.ClipLoader(plan, batch_size=job["batch_size"], workers=job["workers"]) as loader:
        for batch in loader:
            count += len(batch)
            if count >= job["items"]:
                break
    return {"items": count}


def run_open(make, job):
    """Open, and read an item where the job says so: ours reads large tables with the first item."""
    data = make()
    if job.get("reads"):
        use(data[len(data) // 2])
    return {"items": len(data)}


def run_items(data, job):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(job["seed"]))[: job["items"]].tolist()
    for row in order:
        use(data[row])
    return {"items": len(order)}


def read_private_bytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kibibytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return 1024 * (kibibytes["Private_Clean"] + kibibytes["Private_Dirty"])


def run_memory(data, job):
    """Private memory of the workers after the items, while they live."""
    loader = make_loader(data, job)
    batches = iter(loader)
    for _ in range(len(loader) - 1):
        use(next(batches))
    sizes = [read_private_bytes(worker.pid) for worker in batches._workers]
    return {"items": job["items"], "private": sizes}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    job = json.loads(Path(sys.argv[1]).read_text())
    if job["work"] == "clips":
        took, result = measure(partial(run_clips, job))
    else:
        dataset = import_dataset(job["side"])
        make = partial(dataset, "me/data", root=job["root"], delta_timestamps=job["deltas"])
        if job["work"] == "open":
            dataset("me/warm", root=job["warm"])  # for what is imported at the first use
            took, result = measure(partial(run_open, make, job))
        else:
            data = make()
            works = {"loader": run_loader, "items": run_items, "memory": run_memory}
            took, result = measure(partial(works[job["work"]], data, job))
    print(json.dumps({**took, **result}))


if __name__ == "__main__":
    main()
