"""Write golden.json, what lerobot's own reader gives for the reads of `cases`; and the data sets of its own writer.

    python -m tests.lerobot.make_golden        (make lerobot; in the project's folder)

lerobot runs in .venv-lerobot, in a process of its own. Of a picture, the number that it shows and the mean of its
pixels are kept; all else as it is. Beside the tests that compare with it, because it is their expectation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from framefeed.testing import draw_stamp, read_stamps
from tests.lerobot.cases import GOLDEN, HERE, READS, TOP, WRIST, WRITTEN, find_dataset

PEER = HERE.parents[1] / ".venv-lerobot" / "bin" / "python"


def run_peer(folder: Path, *arguments: str | Path) -> None:
    """Run the script that knows lerobot."""
    environment = {**os.environ, "PYTHONPATH": str(HERE / "stubs"), "HF_HUB_OFFLINE": "1", "SVT_LOG": "0"}
    environment |= {"HF_HOME": str(folder / "hf"), "HF_LEROBOT_HOME": str(folder / "home")}
    subprocess.run([PEER, HERE / "peer.py", *map(str, arguments)], env=environment, check=True)


def write_datasets(folder: Path) -> None:
    """Let lerobot write the data sets that are kept."""
    lengths = (7, 4, 6)
    rows = sum(lengths)
    arrays: dict[str, Any] = {
        camera: np.stack([draw_stamp(row, 64, 96, style=style) for row in range(rows)])
        for style, camera in enumerate((TOP, WRIST))
    }
    arrays["action"] = np.random.default_rng(0).normal(size=(rows, 6)).astype(np.float32)
    arrays["episode"] = np.repeat(np.arange(len(lengths)), lengths)
    for name in WRITTEN:
        if name == "written_h264":
            del arrays[WRIST]
        np.savez(folder / "frames.npz", **arrays)
        shutil.rmtree(HERE / name, ignore_errors=True)
        run_peer(
            folder,
            "write",
            folder / "frames.npz",
            HERE / name,
            name.removeprefix("written_").replace("av1", "libsvtav1"),
        )


def condense(item: dict[str, Any], cameras: list[str]) -> dict[str, Any]:
    """Describe an item by texts and numbers."""
    return {key: value if isinstance(value, str) else describe(value, key in cameras) for key, value in item.items()}


def describe(value: torch.Tensor, is_picture: bool) -> list[Any]:
    """Describe a tensor: dtype, shape, and its values; or what numbers pictures show, and the means of their pixels."""
    head = [str(value.dtype).removeprefix("torch."), list(value.shape)]
    if not is_picture:
        return [*head, shorten(value.numpy()) if value.is_floating_point() else value.tolist()]
    pictures = value.reshape(-1, *value.shape[-3:]).numpy()
    stamps = read_stamps(np.round(pictures * 255).astype(np.uint8).transpose(0, 2, 3, 1))
    return [*head, stamps, [round(float(each), 4) for each in pictures.mean(axis=(1, 2, 3))]]


def shorten(values: Any) -> Any:
    """Convert to lists of the shortest numbers that give the same float32."""
    return [shorten(each) for each in values] if np.ndim(values) else float(str(values))


def main() -> None:
    """Write the golden."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_datasets(folder)
        jobs = {
            name: {"root": str(find_dataset(dataset, folder)), "options": options}
            for name, (dataset, options) in READS.items()
        }
        (folder / "jobs.json").write_text(json.dumps(jobs))
        run_peer(folder, "read", folder / "jobs.json", folder / "items.pt")
        result = torch.load(folder / "items.pt", weights_only=True)
    known: set[str] = set()
    lines = [f'"versions": {json.dumps(result["versions"])}']
    for name, job in result["jobs"].items():
        cameras = job["facts"]["camera_keys"]
        items = {row: item if isinstance(item, str) else condense(item, cameras) for row, item in job["items"].items()}
        if READS[name][0] in known:
            del job["facts"]["stats"], job["facts"]["names"], job["facts"]["shapes"], job["facts"]["features"]
        known.add(READS[name][0])
        rows = ",\n".join(f'  "{row}": {json.dumps(item, separators=(",", ":"))}' for row, item in items.items())
        lines.append(f'"{name}": {{"facts": {json.dumps(job["facts"])}, "items": {{\n{rows}\n }}}}')
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {GOLDEN.relative_to(HERE.parents[1])}: {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
