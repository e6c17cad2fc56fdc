"""Read and write data sets with lerobot itself, in its own environment (.venv-lerobot) and process.

    .venv-lerobot/bin/python tests/lerobot/peer.py read JOBS.json OUT       (by tests.lerobot.make_golden)
    .venv-lerobot/bin/python tests/lerobot/peer.py write FRAMES.npz ROOT VCODEC

Run with `stubs` in PYTHONPATH, HF_HUB_OFFLINE=1, and HF_HOME and HF_LEROBOT_HOME set to a temporary folder.
"""

import json
import sys
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

PACKAGES = ("lerobot", "torch", "torchcodec", "datasets", "pandas", "huggingface_hub", "av", "pyarrow", "numpy")


def choose_rows(episodes):
    """Rows near the ends of episodes, and in their middle."""
    rows = []
    for start, stop in episodes:
        middle = (start + stop) // 2
        rows += sorted({start, middle, stop - 2, stop - 1} & set(range(start, stop)))
    return rows


def read(job):
    """Read the items of one job: {"root", "options"}."""
    data = LeRobotDataset("me/data", root=job["root"], **job["options"])
    ends = np.flatnonzero(np.diff([int(row["episode_index"]) for row in data.hf_dataset])) + 1
    bounds = [0, *ends.tolist(), len(data)]
    items = {}
    for row in choose_rows(pairwise(bounds)):
        try:
            items[row] = data[row]
        except Exception as error:
            items[row] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    meta = data.meta
    facts = {
        "len": len(data),
        "fps": data.fps,
        "num_frames": data.num_frames,
        "num_episodes": data.num_episodes,
        "episodes": data.episodes,
        "features": data.features,
        "camera_keys": meta.camera_keys,
        "video_keys": meta.video_keys,
        "image_keys": meta.image_keys,
        "names": meta.names,
        "shapes": meta.shapes,
        "total_episodes": meta.total_episodes,
        "total_frames": meta.total_frames,
        "total_tasks": meta.total_tasks,
        "tasks": {text: int(meta.tasks.loc[text].task_index) for text in meta.tasks.index},
        "dataset_from_index": list(meta.episodes["dataset_from_index"]),
        "dataset_to_index": list(meta.episodes["dataset_to_index"]),
        "episode": meta.episodes[0],
        "stats": {key: {name: each.tolist() for name, each in of.items()} for key, of in meta.stats.items()},
        "column_names": data.hf_dataset.column_names,
    }
    return {"facts": facts, "items": items}


def write(frames, root, vcodec):
    """Write a data set of pictures [rows, H, W, 3] a camera, by lerobot's own writer."""
    rows = np.load(frames)
    cameras = [name for name in rows.files if name.startswith("observation.images.")]
    picture = {"dtype": "video", "names": ["height", "width", "channels"]}
    data = LeRobotDataset.create(
        "me/written",
        fps=30,
        root=root,
        vcodec=vcodec,
        features={
            **{name: {**picture, "shape": rows[name].shape[1:]} for name in cameras},
            "action": {"dtype": "float32", "shape": (6,), "names": None},
        },
    )
    arrays = {name: rows[name] for name in rows.files}
    for episode in range(int(arrays["episode"][-1]) + 1):
        for row in np.flatnonzero(arrays["episode"] == episode):
            frame = {name: arrays[name][row] for name in [*cameras, "action"]}
            data.add_frame({**frame, "task": ("pick", "place")[episode % 2]})
        data.save_episode(parallel_encoding=False)
    data.finalize()


def main():
    if sys.argv[1] == "write":
        write(*sys.argv[2:5])
        return
    jobs = json.loads(Path(sys.argv[2]).read_text())
    read_jobs = {name: read(job) for name, job in jobs.items()}
    torch.save({"versions": {name: version(name) for name in PACKAGES}, "jobs": read_jobs}, sys.argv[3])


if __name__ == "__main__":
    main()
