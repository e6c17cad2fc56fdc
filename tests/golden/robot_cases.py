"""Plans of data sets of LeRobot."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from framefeed.testing import make_lerobot, read_stamps
from tests.fakes import SlopedDecoder, fail_some
from tests.golden.clip_documents import Documents, Group, describe_all, describe_plan, load
from tests.golden.plan_cases import SEED
from tests.golden.stream_cases import mix
from tests.lerobot.cases import DATASETS, SIDE, TOP, WRIST, edit_column, find_dataset

SIZE = (32, 48)
FEW = [1, 0]
"""Episodes of most plans: what is read of a camera is kept."""


def read_each(clips: Any) -> Any:
    """Read the numbers that pictures show."""
    return [read_stamps(np.moveaxis(clip, 1, -1)) for clip in clips]


def robots(folder: Path) -> Documents:
    """Data sets of LeRobot, of layouts 3.0 and 2.1, and those of its own writer."""
    steps = {TOP: [-2 / 30, -1 / 30, 0.0], WRIST: [0.0, 1 / 30], SIDE: [0.0], "action": [0.0, 0.1], "next.done": [0.0]}
    newest = ff.lerobot.open(make_lerobot(folder / "newest", **{**DATASETS["cameras"], "size": SIZE}))
    cases: dict[str, dict[str, Any]] = {
        "now": {"delta_timestamps": {TOP: [0.0]}},
        "mixed": {"delta_timestamps": steps, "columns": ["index", "episode_index", "small", "next.reward"]},
        "ends": {"delta_timestamps": {WRIST: [-1.0, 0.0, 1.0], "small": [0.1], "grid": [-0.1, 0.0]}},
        "episodes": {"delta_timestamps": steps, "episodes": [3, 1], "columns": ["index", "task_index"]},
        "in order": {"delta_timestamps": steps, "shuffle": False},
        "sizes": {"delta_timestamps": steps, "size": {TOP: (20, 30), WRIST: ff.Letterbox(32), SIDE: 24}},
        "cropped": {"delta_timestamps": steps, "crop": ff.RandomCrop(32, 40)},
        "crops": {"delta_timestamps": steps, "crop": {TOP: ff.RandomResizedCrop(16), SIDE: ff.RandomCrop(30, 41)}},
        "pictures": {"delta_timestamps": {SIDE: [-1 / 30]}, "columns": ["index"]},
    }
    older = ff.lerobot.open(
        make_lerobot(folder / "older", version="2.1", episodes=(5, 1, 7), cameras=[TOP, WRIST], image_keys=[SIDE],
                     size=SIZE)
    )  # fmt: skip
    plain = {name: each for name, each in cases.items() if not {"small", "grid"} & {*each["delta_timestamps"]}}
    plain["mixed"] = {**plain["mixed"], "columns": ["index", "episode_index"]}
    plain["episodes"] = {**plain["episodes"], "episodes": [2, 0]}
    for layout, data, some in (("3.0", newest, cases), ("2.1", older, plain)):
        for name, given in some.items():
            deltas = {
                key: each for key, each in given["delta_timestamps"].items() if layout == "3.0" or "done" not in key
            }
            made = data.plan(**{**given, "delta_timestamps": deltas}, seed=SEED)
            short = layout == "2.1" or name in ("mixed", "crops")
            yield from describe_all(f"{layout} {name}", made, epochs=2 if short else 1, text=False, batch_size=9)
        for size, tail in product((2, 3), ("pad", "drop")):
            ranks = [
                data.plan({TOP: [0.0, 0.1]}, seed=1, rank=rank, world_size=size, tail=tail) for rank in range(size)
            ]
            yield f"{layout} over {size} {tail}", [describe_plan(each) for each in ranks]
        left = data.plan({TOP: [0.0], WRIST: [0.1]}, seed=1, world_size=2).without([1, 3], 2)
        yield f"{layout} rest", describe_plan(left)
        yield f"{layout} stamps", load(data.plan({TOP: [0.0, 0.1], WRIST: [0.0]}, seed=2, episodes=FEW), read_each,
                                       backend="auto", batch_size=5)  # fmt: skip
        yield from describe_joined(layout, data)
    mixed = mix([(newest.plan({TOP: [0.0], SIDE: [0.1]}, seed=seed, episodes=each), 1) for seed, each in
                 ((1, FEW), (2, None))])  # fmt: skip
    yield from describe_all("mixture", mixed, text=False)
    moved = make_lerobot(folder / "moved", episodes=(6, 5), cameras=[TOP], image_keys=[SIDE], size=SIZE)
    for path in sorted((moved / "data").rglob("*.parquet")):
        edit_column(
            path, "timestamp", lambda times: np.float32([each + 0.004 * (each > 0.05) for each in times]).tolist()
        )
    for near in (1e-4, 0.005):
        deltas = {TOP: [0.0, 1 / 30], SIDE: [0.0]}
        made = ff.lerobot.open(moved).plan(deltas, seed=4, tolerance_seconds=near)
        yield from describe_all(f"moved times {near}", made, epochs=2, text=False)
    parts = [older.plan({SIDE: [0.0, -1 / 30], TOP: [0.0]}, seed=seed, episodes=FEW) for seed in (1, 2)]
    yield "mixture of several", load(mix([(parts[0], 1), (parts[1], 2)]), read_each, backend="auto", batch_size=7)
    for name, each in {"newest": newest, "older": older}.items():
        deltas = {TOP: [0.0], SIDE: [-1 / 30], "action": [0.0, 0.1]}
        copied = pickle.loads(pickle.dumps(each.plan(deltas, seed=6, rank=1, world_size=2).without([2, 5])))
        yield f"pickled {name}", [describe_plan(copied), load(copied, batch_size=9)]
        copied = pickle.loads(pickle.dumps(each.plan({SIDE: [0.0, 0.1]}, seed=6, episodes=FEW)))
        yield f"pickled several {name}", load(copied, read_each, backend="auto", batch_size=9)
    for name, each in (("gop30", 1 / 7), ("written_h264", 1 / 30), ("written_av1", 1 / 30)):
        made = ff.lerobot.open(find_dataset(name, folder)).plan({TOP: [-each, 0.0], "action": [0.0, each]}, seed=4)
        yield from describe_all(name, made, epochs=2, text=False, batch_size=20)


def describe_joined(layout: str, data: Any) -> Documents:
    """Pictures in the tables at several times, by their batches: the names of their streams are no one's."""
    several = {SIDE: [-2 / 30, 0.0, 1 / 30]}
    cases: dict[str, dict[str, Any]] = {
        "alone": {"delta_timestamps": several, "columns": ["index", "episode_index"]},
        "twice": {"delta_timestamps": {SIDE: [0.0, 0.0], "action": [0.0, 0.1]}, "shuffle": False, "episodes": FEW},
        "with a camera": {"delta_timestamps": {TOP: [0.0, 0.1], **several, "action": [0.1]}, "epoch": 1,
                          "episodes": FEW},
        "after a camera": {"delta_timestamps": {**several, WRIST: [0.0]}, "episodes": FEW, "rank": 1,
                           "world_size": 2, "tail": "drop"},
    }  # fmt: skip
    for name, given in cases.items():
        made = data.plan(**given, seed=SEED)
        yield f"{layout} several {name}", load(made, read_each, backend="auto", batch_size=7)
    for name, given in {
        "cropped": {"crop": ff.RandomCrop(32, 40)}, "boxes": {"size": ff.Letterbox(40)},
        "resized": {"crop": {SIDE: ff.RandomResizedCrop(16)}, "size": {TOP: (8, 12)}},
    }.items():  # fmt: skip
        made = data.plan({TOP: [0.0], **several}, seed=SEED, episodes=FEW, **given)
        yield f"{layout} several {name}", load(made, batch_size=7)
    rest = data.plan({TOP: [0.0], **several}, seed=3, rank=0, world_size=2).without([1, 2, 4], 3)
    yield f"{layout} several rest", load(rest, batch_size=7)
    broken = SlopedDecoder(spoil=fail_some)
    made = data.plan({TOP: [0.0, 0.1], **several}, seed=3, episodes=FEW)
    yield f"{layout} several substitutes", load(made, on_error="substitute", backend=broken)


GROUPS: dict[str, Group] = {
    "lerobot": robots,
}
"""Groups of plans by name; each takes a folder for its files."""
