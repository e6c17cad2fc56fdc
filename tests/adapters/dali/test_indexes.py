"""Index files that a scan writes are read by DALI's own reader, and its samples are those of the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nvidia.dali", reason="`make dali` has an environment with it")

import nvidia.dali.fn as fn
from nvidia.dali.pipeline import Pipeline

import framefeed as ff
from tests.archives.tars import make_member


@pytest.mark.parametrize("in_folder", [False, True])
def test_written_indexes_are_read_by_dali(tmp_path: Path, in_folder: bool) -> None:
    members = [(f"d/{n}.{field}", f"{field} of {n}".encode()) for n in range(9) for field in ("jpg", "cls")]
    archive = tmp_path / "a.tar"
    archive.write_bytes(b"".join(make_member(name.encode(), data) for name, data in members) + bytes(1024))
    folder = tmp_path / "indexes" if in_folder else None
    catalog = ff.scan(archive, depth="header", write_idx=True, idx_folder=folder)
    index = (folder or tmp_path) / "a.idx"
    pipe = Pipeline(batch_size=9, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*fn.readers.webdataset(paths=[str(archive)], index_paths=[str(index)], ext=["jpg", "cls"]))
    pipe.build()
    pictures, labels = pipe.run()
    assert [bytes(pictures.at(n)) for n in range(9)] == [f"jpg of {n}".encode() for n in range(9)]
    assert [bytes(labels.at(n)).decode() for n in range(9)] == catalog.table["label"].to_pylist()
