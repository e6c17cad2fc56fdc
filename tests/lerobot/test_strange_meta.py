"""Every key of the files in meta/ may be missing or be anything: only errors of framefeed's own come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.lerobot import Metadata
from framefeed.testing import make_lerobot
from framefeed.torch import LeRobotDataset
from tests.lengths import IS_ALL

MISSING = object()
VALUES = (MISSING, None, True, "text", -1, 1 << 70, 10**400, 1e300, [], ["a"], [[1 << 70]], {}, {"a": 1})
CELLS = (MISSING, None, "text", b"\xff", -1, 1 << 62, float("nan"), [1], [["a"]])
OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")
Change = Callable[[], object]


def use(root: Path) -> None:
    """Read items, and all that the data set says of itself, also where it has no items."""
    try:
        data = LeRobotDataset("me/data", root, delta_timestamps={"action": [0.0, 0.1]})
    except ff.FramefeedError:
        meta = ff.lerobot.open(root).meta
    else:
        meta = data.meta
        data[0], data[-1]
    for name in [name for name in dir(meta) if not name.startswith(("_", "get_"))]:
        getattr(meta, name)
    meta.get_data_file_path(0), meta.get_task_index("none"), list(meta.episodes)


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from list_places(each, (*path, key))
    elif isinstance(value, list) and value and path:
        yield (*path, 0)


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    inner = changed = json.loads(json.dumps(value))
    for key in path[:-1]:
        inner = inner[key]
    if new is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return changed


def list_changes(path: Path) -> Iterator[tuple[str, Change]]:
    """List what may be wrong in a file; of lines of JSON, in the first."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        for number, name in enumerate(table.column_names):
            for new in CELLS if not name.startswith("stats/") else ():
                changed = table.drop_columns([name])
                if new is not MISSING:
                    changed = changed.add_column(number, name, pa.array([new] * len(table)))
                yield f"{name}: {new}", partial(pq.write_table, changed, path)
        return
    first, *others = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    value = json.loads(first)
    for place in list_places(value):
        for new in VALUES:
            text = "\n".join([json.dumps(put(value, place, new)), *others])
            yield f"{place}: {new!s:.20}", partial(path.write_text, text)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_whatever_is_wrong_is_an_error_of_our_own(version: str, tmp_path: Path) -> None:
    root = make_lerobot(tmp_path, version=version, episodes=(3, 2), cameras=(), size=(32, 48))
    use(root)
    raised, source = [], ff.lerobot.open(root).meta.source
    for path in [path for path in (root / "meta").rglob("*") if path.is_file()]:
        before = path.read_bytes()
        for number, (what, change) in enumerate(list_changes(path)):
            if version == "2.1" and not IS_ALL and (what.startswith("('features'") or number % 3):
                continue  # as of version 3.0
            change()
            try:
                with suppress(ff.FramefeedError):
                    _ = Metadata(source).stats if "stats" in path.name else use(root)
            except Exception as error:
                raised.append(f"{path.name} {what}: {error!r}")
        path.write_bytes(before)
    assert raised == []


CAMERA = {"dtype": "video", "shape": [32, 48, 3], "names": ["height", "width", "channels"], "info": {"video.fps": 30}}


def test_whatever_is_wrong_with_a_camera_is_an_error_of_our_own(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path, version="2.1", episodes=(3, 2), cameras=["top"], size=(32, 48))
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    for place in list_places(CAMERA):
        for new in VALUES:
            path.write_text(json.dumps(info | {"features": info["features"] | {"top": put(CAMERA, place, new)}}))
            with suppress(ff.FramefeedError):
                meta = ff.lerobot.open(root).meta
                meta.camera_keys, meta.depth_keys, meta.names, meta.shapes, repr(meta)


@pytest.mark.parametrize("name", OWN)
def test_columns_that_every_data_set_has_are_missed_at_once(name: str, tmp_path: Path) -> None:
    root = make_lerobot(tmp_path, episodes=(3,), cameras=(), size=(32, 48))
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    feature = info["features"].pop(name)
    for changed in (None, {"dtype": "string"}, {"dtype": "video"}, {"dtype": "bool"}, {"shape": [2]}):
        other = {} if changed is None else {name: feature | changed}
        path.write_text(json.dumps(info | {"features": info["features"] | other}))
        with pytest.raises(ff.UnreadableMedia, match=rf"info\.json: expected .* feature {name!r}"):
            ff.lerobot.open(root)
    path.write_text(json.dumps(info | {"features": info["features"] | {name: feature | {"shape": []}}}))
    assert len(ff.lerobot.open(root)) == 3


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("mean", [[1.0], [1.0, 2.0]], "expected numbers as mean of 'action', got list"),
        ("max", [None] * 6, "expected numbers as max of 'action'"),
        ("std", [0.5], "has statistics of 'action' of shapes that do not belong together"),
        ("min", [0.5], "has statistics of 'action' of shapes that do not belong together"),
        ("count", [3, 3], "has statistics of 'action' of shapes that do not belong together"),
    ],
)
def test_statistics_that_are_none_are_errors_that_name_the_file(
    kind: str, value: Any, message: str, tmp_path: Path
) -> None:
    root = make_lerobot(tmp_path, version="2.1", episodes=(3, 2), cameras=(), size=(32, 48))
    path = root / "meta/episodes_stats.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(put(json.loads(first), ("stats", "action", kind), value)), second]))
    with pytest.raises(ff.UnreadableMedia, match=rf"episodes_stats\.jsonl: {message}"):
        _ = ff.lerobot.open(root).meta.stats
