"""What is read from which data sets, by lerobot for the golden and by framefeed in the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from framefeed.testing import make_lerobot

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
TOP, WRIST, SIDE = (f"observation.images.{name}" for name in ("top", "wrist", "side"))
LENGTHS = (12, 1, 15, 8, 9)
_ROWS = sum(LENGTHS)

DATASETS: dict[str, dict[str, Any]] = {
    "cameras": {
        "episodes": LENGTHS,
        "cameras": {TOP: 2, WRIST: 3},
        "image_keys": [SIDE],
        "size": (64, 96),
        "columns": {
            "next.done": np.arange(_ROWS) % 5 == 4,
            "next.reward": np.arange(_ROWS) / 8,  # float64
            "small": np.arange(_ROWS, dtype=np.int32),
            "grid": np.arange(_ROWS * 6, dtype=np.float32).reshape(_ROWS, 2, 3),
        },
    },
    "gop30": {"episodes": LENGTHS, "cameras": [TOP], "gop": 30, "fps": 7, "episodes_per_file": 5},
    "av1": {"episodes": LENGTHS, "cameras": [TOP], "codec": "libsvtav1", "fps": 50, "episodes_per_file": 4},
    "table": {"episodes": LENGTHS, "cameras": [], "fps": 10},
    "texts": {"episodes": LENGTHS, "cameras": [], "columns": {"subtask_index": np.arange(_ROWS) // 4 % 3}},
}
"""Arguments of `make_lerobot`; "texts" has a column of texts and a table of subtasks too, see `add_texts`."""

WORDS = [f"{'ä' * (row % 3)} word {row // 2}" for row in range(_ROWS)]
SUBTASKS = ("reach", "grasp", "lift")

WRITTEN = ("written_av1", "written_h264")
"""Data sets that lerobot's own writer made: `make_golden` writes them, and they are kept beside the golden."""

_MIXED = {
    TOP: [-2 / 30, -1 / 30, 0.0],
    WRIST: [0.0, 1 / 30],
    SIDE: [-1 / 30, 0.0],
    "action": [0.0, 1 / 30, 2 / 30, 3 / 30],
    "next.done": [0.0],
}
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "now": ("cameras", {}),
    "one": ("cameras", {"delta_timestamps": {TOP: [0.0], SIDE: [0.0], "action": [0.0], "grid": [-1 / 30]}}),
    "mixed": ("cameras", {"delta_timestamps": _MIXED}),
    "ends": (
        "cameras",
        {
            "delta_timestamps": {
                TOP: [-1.0, 0.0, 1.0],
                "action": [-1.0, 1.0],
                "small": [0.1],
                "next.reward": [0.0, -0.1],
            }
        },
    ),
    "subset": ("cameras", {"delta_timestamps": _MIXED, "episodes": [1, 3]}),
    "unsorted": ("cameras", {"episodes": [3, 0]}),
    "columns": ("cameras", {"delta_timestamps": {"index": [-1 / 30], "task_index": [0.0]}}),
    "timestamps": ("cameras", {"delta_timestamps": {"timestamp": [0.0, 1 / 30]}, "episodes": [1]}),
    "gop30": ("gop30", {"delta_timestamps": {TOP: [-2 / 7, 0.0], "action": [1 / 7]}}),
    "av1": ("av1", {"delta_timestamps": {TOP: [-0.04, -0.02, 0.0]}}),
    "table": ("table", {"delta_timestamps": {"action": [-0.1, 0.0, 0.1]}}),
    "texts": ("texts", {"delta_timestamps": {"action": [0.0, 1 / 30]}}),
    "subtasks": ("texts", {"delta_timestamps": {"subtask_index": [0.0]}, "episodes": [0, 2]}),
    "written_av1": ("written_av1", {"delta_timestamps": {TOP: [-1 / 30, 0.0], "action": [0.0, 1 / 30]}}),
    "written_h264": ("written_h264", {"delta_timestamps": {TOP: [-1 / 30, 0.0], "action": [0.0, 1 / 30]}}),
}
"""Name: the data set, and further arguments of LeRobotDataset."""


def find_dataset(name: str, folder: Path) -> Path:
    """Write a data set into a folder unless it is there; or find one that lerobot wrote."""
    if name in WRITTEN:
        return HERE / name
    root = folder / name
    if not root.exists():
        make_lerobot(root, **DATASETS[name])
        if name == "texts":
            add_texts(root)
    return root


def replace_column(table: pa.Table, name: str, change: Callable[[list[Any]], Any]) -> pa.Table:
    """Replace a column by what a function makes of its values."""
    values = change(table.column(name).to_pylist())
    column = values if isinstance(values, pa.Array) else pa.array(values)
    return table.set_column(table.column_names.index(name), name, column)


def edit_column(path: Path, name: str, change: Callable[[list[Any]], Any]) -> None:
    """Replace a column of a table that is a file."""
    pq.write_table(replace_column(pq.read_table(path), name, change), path)


def add_texts(root: Path) -> None:
    """Add a column of texts, "words", and a table of subtasks, as pandas stores one."""
    for path in (root / "data").rglob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.append_column("words", [[WORDS[row] for row in table["index"].to_pylist()]]), path)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["words"] = {"dtype": "string", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    tasks = pq.read_table(root / "meta/tasks.parquet")
    described = json.dumps(json.loads(tasks.schema.metadata[b"pandas"])).replace("task_index", "subtask_index")
    subtasks = pa.table({"subtask_index": range(len(SUBTASKS)), "__index_level_0__": SUBTASKS})
    pq.write_table(subtasks.replace_schema_metadata({"pandas": described}), root / "meta/subtasks.parquet")
