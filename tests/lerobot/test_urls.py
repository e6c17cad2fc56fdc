"""Data sets below a URL: tables are copied once, videos and pictures are read where they lie."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from framefeed.testing import make_lerobot
from tests.media.remote.faults import Stored, faulty

TABLE = "/data/data/chunk-000/file-000.parquet"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_lerobot(tmp_path / "robots", cameras=["top"], image_keys=["side"], size=(32, 48))


def read_folder(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {f"/data/{path.relative_to(folder)}": path.read_bytes() for path in files}


def load(robots: Any, camera: str) -> list[Any]:
    plan = pickle.loads(pickle.dumps(robots.plan({camera: [-0.1], "action": [0.0, 0.1]}, seed=0)))
    with ff.ClipLoader(plan, batch_size=35, workers=0) as loader:
        (batch,) = loader
    return [batch.data[camera], batch.valid[camera], batch.columns["action"], plan.fingerprint]


def compare(far: Any, near: Any) -> None:
    assert far.meta.tasks.index == near.meta.tasks.index
    for camera in ("top", "side"):
        for one, other in zip(load(far, camera), load(near, camera), strict=True):
            assert np.array_equal(one, other)


def test_a_data_set_on_a_server_is_as_in_a_folder(folder: Path) -> None:
    files: dict[str, bytes | Stored] = {path: Stored(data, '"one"') for path, data in read_folder(folder).items()}
    near = ff.lerobot.open(folder)
    with faulty(files) as server:
        compare(ff.lerobot.open(f"{server.url}/data/"), near)
        again = ff.lerobot.open(f"{server.url}/data")
        before = server.count(TABLE)
        assert np.array_equal(again.column("action"), near.column("action"))
        assert server.count(TABLE) <= before + 2, "only the version is asked for"
        with pytest.raises(ff.MissingMedia, match=r"/data/nothing: no LeRobot data set is there"):
            ff.lerobot.open(f"{server.url}/data/nothing")


def test_a_data_set_is_read_through_fsspec(folder: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for path, data in read_folder(folder).items():
        memory.pipe(f"/robots{path}", data)
    try:
        compare(ff.lerobot.open("memory://robots/data"), ff.lerobot.open(folder))
    finally:
        memory.rm("/robots", recursive=True)


def test_tables_that_changed_on_the_server_are_copied_again(tmp_path: Path, folder: Path) -> None:
    files: dict[str, bytes | Stored] = {path: Stored(data, '"one"') for path, data in read_folder(folder).items()}
    table = pq.read_table(folder / "data/chunk-000/file-000.parquet")
    at, later = table.column_names.index("timestamp"), pc.add(table["timestamp"], pa.scalar(1, pa.float32()))
    pq.write_table(table.set_column(at, "timestamp", later), tmp_path / "later.parquet")
    with faulty(files) as server:
        before = ff.lerobot.open(f"{server.url}/data").column("timestamp")[:20].copy()
        stored = files[TABLE]
        assert isinstance(stored, Stored)
        stored.data, stored.etag = (tmp_path / "later.parquet").read_bytes(), '"two"'
        assert np.array_equal(ff.lerobot.open(f"{server.url}/data").column("timestamp")[:20], before + 1)


def test_items_of_a_data_set_on_a_server(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    files: dict[str, bytes | Stored] = {path: Stored(data, '"one"') for path, data in read_folder(folder).items()}
    with faulty(files) as server:
        far = ff.torch.LeRobotDataset("me/data", root=f"{server.url}/data")[13]
    near = ff.torch.LeRobotDataset("me/data", root=folder)[13]
    assert all(torch.equal(far[key], near[key]) for key in ("top", "side", "action"))
