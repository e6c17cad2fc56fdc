"""Catalogs on servers, by HTTP and through fsspec: copied by version; relative sources start at the URL's folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from tests.corpus import corpus_file
from tests.media.remote.faults import Fault, FaultServer, Stored, faulty

SECRET = "?sig=sEcReT"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a catalog of two videos, relative to it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "made"
    (made / "a b").mkdir(parents=True)
    for name in ("1.mp4", "a b/ü%20#?.mp4"):
        (made / name).write_bytes(corpus_file("base.mp4").read_bytes())
    ff.scan(made, out=made / "cat.parquet", root=made, workers=0)
    return made


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files by the paths of their URLs."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"/data/" + os.fsencode(path.relative_to(folder)).decode("latin-1"): path.read_bytes() for path in files}


def serve(folder: Path, etag: str | None = '"one"') -> dict[str, bytes | Stored]:
    return {path: Stored(data, etag) for path, data in read_folder(folder).items()}


@pytest.mark.parametrize("etag", ['"one"', 'W/"weak"', None])
def test_a_folder_that_a_server_has_is_as_the_folder(folder: Path, etag: str | None) -> None:
    near = ff.Catalog.open(folder / "cat.parquet")
    with faulty(serve(folder, etag)) as server:
        far = ff.Catalog.open(f"{server.url}/data/cat.parquet")
        assert far.table.equals(near.table)
        assert far.fingerprint == near.fingerprint
        for row in range(2):
            with ff.VideoDecoder(far[row]) as one, ff.VideoDecoder(near[row]) as other:
                np.testing.assert_array_equal(one[5], other[5])
        moved = ff.Catalog.open(folder / "cat.parquet", f"{server.url}/data/")
        assert [moved.source(row) for row in range(2)] == [far.source(row) for row in range(2)]
        before = server.count("/data/cat.frames")
        assert ff.Catalog.open(f"{server.url}/data/cat.parquet").table.equals(near.table)
        assert server.count("/data/cat.frames") == before, "the copy is used"
        (folder / "1.mp4").unlink()
        ff.scan(folder, out=folder / "cat.parquet", root=folder, workers=0)
        server.objects.update(serve(folder, None if etag is None else etag.replace("e", "E")))
        assert len(ff.Catalog.open(f"{server.url}/data/cat.parquet")) == 1


def test_a_signature_stands_in_no_file_name_and_no_error(folder: Path, tmp_path: Path) -> None:
    with faulty(serve(folder)) as server:
        url = f"{server.url}/data/cat.parquet{SECRET}"
        opened = ff.Catalog.open(url, local=tmp_path / "local")
        assert opened.source(0) == f"{server.url}/data/1.mp4"
        assert all(each.target.endswith(SECRET) for each in server.asked)
        server.plan("/data/cat.parquet", *[Fault(403)] * 4)
        with pytest.raises(ff.UnreadableMedia) as caught:
            ff.Catalog.open(url)
    shown = [str(caught.value), repr(opened), *(str(path) for path in tmp_path.rglob("*"))]
    assert "sEcReT" not in "".join(shown)


@pytest.mark.parametrize("after", [0, 100])
def test_a_copy_that_breaks_off_is_no_copy(folder: Path, tmp_path: Path, after: int) -> None:
    faults = [Fault(after=after, end="close")] * 8
    with faulty(serve(folder)) as server:
        url = server.plan("/data/cat.parquet", *faults)
        with pytest.raises(ff.UnreadableMedia, match="broke off its answer"):
            ff.Catalog.open(url, local=tmp_path / "local")
        server.faults.clear()
        assert len(ff.Catalog.open(url, local=tmp_path / "local")) == 2
        assert ff.Catalog.open(url, local=tmp_path / "local").has_frame_indexes


def test_through_fsspec(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path, data in read_folder(folder).items():
        memory.pipe(path.encode("latin-1").decode(), data)
    far = ff.Catalog.open("memory://data/cat.parquet")
    assert far.table.equals(ff.Catalog.open(folder / "cat.parquet").table)
    with ff.VideoDecoder(far[0]) as one, ff.VideoDecoder(folder / "1.mp4") as other:
        np.testing.assert_array_equal(one[5], other[5])


def test_a_folder_that_cannot_be_written_to_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with faulty(serve(folder)) as server, pytest.raises(ff.UsageError, match=r"cannot write to .*file/x.*local="):
        ff.Catalog.open(f"{server.url}/data/cat.parquet", local=tmp_path / "file" / "x")
    assert isinstance(server, FaultServer)
