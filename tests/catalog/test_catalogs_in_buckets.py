"""A catalog in a bucket (moto's server) is the local one: tables, plans, batches, workers; two writers never mix."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from framefeed import _files
from framefeed.catalog import _catalog_urls
from tests.conftest import CHECKOUT
from tests.corpus import corpus_file
from tests.media.remote.buckets import URL, VIDEOS, empty, keys_of, options_of, scan
from tests.media.remote.stores import Store

SIZE = (24, 32)


@pytest.fixture
def store(s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The server with an empty bucket, and an empty cache folder of the user."""
    return empty(s3, tmp_path, monkeypatch)


def read_store(store: Store) -> dict[str, bytes]:
    client = store.boto3()
    return {key: client.get_object(Bucket="videos", Key=key)["Body"].read() for key in keys_of(store)}


def time_of(store: Store) -> Any:
    return store.boto3().head_object(Bucket="videos", Key="data/cat.parquet")["LastModified"]


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "framefeed" / "catalogs").iterdir())


def test_a_catalog_is_as_the_local_one(store: Store, tmp_path: Path) -> None:
    made = scan(store, label_from="parent")
    local = scan(store, label_from="parent", out=str(tmp_path / "cat.parquet"))
    opened = ff.Catalog.open(URL, local=tmp_path / "copies", storage_options=options_of(store))
    for catalog in (made, opened):
        assert catalog.table.equals(local.table)
        assert catalog.fingerprint == local.fingerprint
        assert catalog.classes == local.classes
        for row in range(len(local)):
            one, other = catalog.frame_index(row), local.frame_index(row)
            np.testing.assert_array_equal(one.pts, other.pts)
            assert one.identity == other.identity
    assert repr(opened) == f"Catalog(2 rows, 0 failed, depth='frames', {URL!r})"
    (facts, frames) = sorted(keys_of(store), key=len)
    assert (facts, frames[:16], frames[-6:]) == ("data/cat.parquet", "data/cat.frames.", ".arrow")
    assert not list((tmp_path / "cache" / "framefeed" / "journals").iterdir())
    assert read_store(store)[facts] == (tmp_path / "cat.parquet").read_bytes()
    assert read_store(store)[frames] == (tmp_path / "cat.frames.arrow").read_bytes()


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_batches_are_those_of_the_local_catalog(store: Store, tmp_path: Path, kind: Any) -> None:
    scan(store)
    local = scan(store, out=str(tmp_path / "cat.parquet"))
    opened = ff.Catalog.open(URL, storage_options=options_of(store))
    batches = []
    for catalog in (opened, local):
        plan = ff.plan_clips(catalog, ff.Dense(3), seed=2, clips_per_video=2, size=SIZE)
        with ff.ClipLoader(plan, batch_size=2, workers=1, kind=kind) as loader:
            batches.append([batch.data.copy() for batch in loader])
    np.testing.assert_array_equal(*batches)


@pytest.mark.test_all  # of processes of ours, see above
def test_workers_of_a_data_loader_open_the_copy(store: Store) -> None:
    torch = pytest.importorskip("torch")
    from framefeed.torch import ClipDataset

    scan(store)
    opened = ff.Catalog.open(URL, storage_options=options_of(store))
    plan = ff.plan_clips(opened, ff.Dense(3), seed=2, clips_per_video=2, size=SIZE)
    expected = [ClipDataset(plan)[number]["data"] for number in range(len(plan))]
    loader = torch.utils.data.DataLoader(
        ClipDataset(plan), batch_size=None, num_workers=1, multiprocessing_context="spawn"
    )
    for clip, other in zip(loader, expected, strict=True):
        np.testing.assert_array_equal(clip["data"], other)


def test_a_pickle_names_the_copy_and_elsewhere_the_object(store: Store, tmp_path: Path) -> None:
    catalog = scan(store)
    data = pickle.dumps(catalog[1:])
    for _ in range(2):
        assert pickle.loads(data).table.equals(catalog[1:].table)
        for path in (tmp_path / "cache" / "framefeed" / "catalogs").iterdir():
            path.unlink()  # as on another machine
    scan(store, VIDEOS[:1])
    for path in (tmp_path / "cache" / "framefeed" / "catalogs").iterdir():
        path.unlink()
    with pytest.raises(ff.StaleSource, match="has changed since it was sent"):
        pickle.loads(data)


def test_a_second_scan_opens_what_has_changed_and_writes_only_then(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in VIDEOS:
        (folder / name).write_bytes(corpus_file(name).read_bytes())
    options = options_of(store)
    first = ff.scan(folder, out=URL, storage_options=options)
    objects, modified = read_store(store), time_of(store)
    assert ff.scan(folder, out=URL, storage_options=options).table.equals(first.table)
    assert time_of(store) == modified
    (folder / "third.mp4").write_bytes(corpus_file("base.mp4").read_bytes())
    third = ff.scan(folder, out=URL, storage_options=options)
    assert len(third) == 3
    assert len(keys_of(store)) == 2, "the frame tables of the first catalog are removed"
    assert read_store(store).keys() != objects.keys()


def test_relative_sources_start_at_the_folder_of_the_url(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    (folder / "a b").mkdir(parents=True)
    (folder / "a b" / "ü#.mp4").write_bytes(corpus_file("base.mp4").read_bytes())
    local = ff.scan(folder, out=URL, root=folder, storage_options=options_of(store))
    assert local.table["source"].to_pylist() == ["a b/ü#.mp4"]
    opened = ff.Catalog.open(URL, storage_options=options_of(store))
    assert opened.source(0) == "s3://videos/data/a b/ü#.mp4"
    store.boto3().upload_file(str(folder / "a b" / "ü#.mp4"), "videos", "data/a b/ü#.mp4")
    plan = ff.plan_clips(opened, ff.Dense(3), seed=2, size=SIZE)
    near = ff.plan_clips(local, ff.Dense(3), seed=2, size=SIZE)
    far = ff.ClipLoader(plan, batch_size=1, kind="processes", workers=1)
    with far as one, ff.ClipLoader(near, batch_size=1) as other:
        np.testing.assert_array_equal(next(iter(one)).data, next(iter(other)).data)
    elsewhere = ff.Catalog.open(URL, folder, storage_options=options_of(store))
    assert elsewhere.source(0) == str(folder / "a b" / "ü#.mp4")
    saved = tmp_path / "saved.parquet"
    opened.to_parquet(saved)
    assert ff.Catalog.open(saved).source(0) == opened.source(0)


def test_to_parquet_writes_to_a_bucket_by_the_catalogs_options(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "cat.parquet"
    scan(store, out=str(path))
    catalog = ff.Catalog.open(path, storage_options=options_of(store))
    catalog.to_parquet("s3://videos/copy.parquet")
    opened = ff.Catalog.open("s3://videos/copy.parquet", storage_options=options_of(store))
    assert opened.table.equals(catalog.table)
    assert pickle.loads(pickle.dumps(catalog)).fingerprint == opened.fingerprint
    objects = read_store(store)
    catalog.to_parquet("s3://videos/copy.parquet")
    assert (len(objects), read_store(store)) == (2, objects)
    shutil.rmtree(tmp_path / "cache")
    assert ff.Catalog.open("s3://videos/copy.parquet", storage_options=options_of(store)).has_frame_indexes
    catalog[:1].to_parquet("s3://videos/copy.parquet")
    assert len(ff.Catalog.open("s3://videos/copy.parquet", storage_options=options_of(store))) == 1
    for url in ("https://host/cat.parquet", "gs://bucket/cat.parquet"):
        with pytest.raises(ff.UsageError, match="of URLs, only those of S3"):
            catalog.to_parquet(url)
        with pytest.raises(ff.UsageError, match="of URLs, only those of S3"):
            scan(store, out=url)


def test_a_bucket_is_asked_before_the_scan(store: Store, tmp_path: Path) -> None:
    nowhere = {"s3://nobucket/": options_of(store)["s3://videos/"]}
    with pytest.raises(ff.MissingMedia, match="NoSuchBucket"):
        ff.scan(corpus_file("base.mp4"), out="s3://nobucket/cat.parquet", storage_options=nowhere)
    with store.checking_signatures(), pytest.raises(ff.UnreadableMedia, match="403"):
        scan(store)
    with pytest.raises(ff.UsageError, match="names a folder: expected a file"):
        scan(store, out="s3://videos/")
    assert not (tmp_path / "cache" / "framefeed" / "journals").exists(), "nothing was scanned"
    assert not keys_of(store)


# --- two writers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_new", [True, False])
def test_two_writers_never_mix(store: Store, monkeypatch: pytest.MonkeyPatch, is_new: bool) -> None:
    """Another scan ends between the two objects of the first, which then replaces nothing."""
    if not is_new:
        scan(store, VIDEOS[1:])
    put, others = _catalog_urls.put_object, []

    def put_late(url: str, *arguments: Any) -> str | None:
        if url == URL and not others:
            others.append(1)
            others.append(scan(store, VIDEOS[:1], journal=str(Path(os.environ["XDG_CACHE_HOME"]) / "j")))
        return put(url, *arguments)

    monkeypatch.setattr(_catalog_urls, "put_object", put_late)
    with pytest.raises(ff.StaleSource, match=r"s3://videos/data/cat\.parquet: another writer .* then write again"):
        scan(store)
    opened = ff.Catalog.open(URL, storage_options=options_of(store))
    assert opened.table.equals(others[1].table)
    assert opened.has_frame_indexes
    assert len(scan(store)) == len(VIDEOS), "the next scan goes on from the journal"


@pytest.mark.parametrize("is_new", [True, False])
def test_an_interruption_between_the_objects_leaves_the_old_catalog(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    if not is_new:
        scan(store, VIDEOS[1:])
    before, put = read_store(store), _catalog_urls.put_object

    def stop(url: str, *arguments: Any) -> str | None:
        if url == URL:
            raise KeyboardInterrupt
        return put(url, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_catalog_urls, "put_object", stop)
        with pytest.raises(KeyboardInterrupt):
            scan(store)
    after = read_store(store)
    assert {key: data for key, data in after.items() if key in before} == before
    assert len(after) == len(before) + 1
    if not is_new:
        opened = ff.Catalog.open(URL, local=tmp_path / "elsewhere", storage_options=options_of(store))
        assert opened.has_frame_indexes
        assert len(opened) == 1
    assert not [name for name in copies(tmp_path) if name.startswith("upload-")]
    assert len(scan(store)) == len(VIDEOS)
    assert len(keys_of(store)) == 2


def test_a_catalog_that_is_replaced_while_it_is_copied_is_copied_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(store)
    copy, calls = _catalog_urls._Copies.copy_frames, []

    def copy_late(copies: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            scan(store, VIDEOS[:1])
        return copy(copies, *arguments)

    monkeypatch.setattr(_catalog_urls._Copies, "copy_frames", copy_late)
    opened = ff.Catalog.open(URL, local=tmp_path / "elsewhere", storage_options=options_of(store))
    assert len(opened) == 1
    assert opened.has_frame_indexes


# --- bad objects ------------------------------------------------------------------------------------


def test_an_object_that_is_no_catalog_is_said_so_and_kept(store: Store) -> None:
    client = store.boto3()
    other = (Path(ff.__file__).parent / "__init__.py").read_bytes()
    for body in (other, b"", b"PAR1 and no more"):
        client.put_object(Bucket="videos", Key="data/cat.parquet", Body=body)
        with pytest.raises(ff.UnreadableMedia, match=r"s3://videos/data/cat\.parquet: not readable as a catalog"):
            ff.Catalog.open(URL, storage_options=options_of(store))
        with pytest.raises(ff.UsageError, match="is not a catalog, and is not overwritten"):
            scan(store)
        assert read_store(store) == {"data/cat.parquet": body}
    with pytest.raises(ff.MissingMedia, match=r"none\.parquet: no such file"):
        ff.Catalog.open("s3://videos/none.parquet", storage_options=options_of(store))
    with pytest.raises(ff.UsageError, match="names a bucket"):
        scan(store, out="s3://videos")
    with pytest.raises(ff.MissingMedia, match="NoSuchBucket"):
        ff.scan(corpus_file("base.mp4"), out="s3://nobucket/cat.parquet", storage_options={
            "s3://nobucket/": options_of(store)["s3://videos/"]
        })  # fmt: skip


def test_missing_frame_tables_leave_the_facts(store: Store, tmp_path: Path) -> None:
    scan(store)
    client = store.boto3()
    (key,) = (key for key in keys_of(store) if "frames" in key)
    body = read_store(store)[key]
    client.delete_object(Bucket="videos", Key=key)
    opened = ff.Catalog.open(URL, local=tmp_path / "a", storage_options=options_of(store))
    assert not opened.has_frame_indexes
    assert len(opened) == len(VIDEOS)
    with pytest.raises(ff.UsageError, match=r"there is no file s3://videos/data/cat\.frames\.[0-9a-f]+\.arrow"):
        ff.plan_clips(opened, ff.Dense(3), seed=1)
    client.put_object(Bucket="videos", Key="data/cat.frames.arrow", Body=b"other")
    with pytest.raises(ff.UnreadableMedia, match="not readable as frame tables"):
        ff.Catalog.open(URL, local=tmp_path / "a", storage_options=options_of(store))
    # As they lie in a folder that was copied into the bucket.
    client.put_object(Bucket="videos", Key="data/cat.frames.arrow", Body=body)
    assert ff.Catalog.open(URL, local=tmp_path / "a", storage_options=options_of(store)).has_frame_indexes


def test_frame_tables_of_another_catalog_are_refused(store: Store, tmp_path: Path) -> None:
    scan(store)
    client = store.boto3()
    (key,) = (key for key in keys_of(store) if "frames" in key)
    client.delete_object(Bucket="videos", Key=key)
    scan(store, VIDEOS[:1], out=str(tmp_path / "other.parquet"))
    client.put_object(Bucket="videos", Key=key, Body=(tmp_path / "other.frames.arrow").read_bytes())
    with pytest.raises(ff.StaleSource, match="belong to another catalog than s3://videos/data/cat"):
        ff.Catalog.open(URL, local=tmp_path / "a", storage_options=options_of(store))


# --- copies -----------------------------------------------------------------------------------------

OPENING = """
import sys, framefeed as ff
options = {"s3://videos/": {"key": "a", "secret": "b", "endpoint_url": sys.argv[1]}}
if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    catalog = ff.Catalog.open(sys.argv[2], storage_options=options)
    print(catalog.fingerprint, catalog.has_frame_indexes, flush=True)
    sys.stdin.readline()
"""


def test_processes_that_open_at_once_share_one_copy(store: Store, tmp_path: Path) -> None:
    catalog = scan(store)
    for path in (tmp_path / "cache" / "framefeed" / "catalogs").iterdir():
        path.unlink()
    program = tmp_path / "opening.py"
    program.write_text(OPENING)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, str(program), store.url, URL], cwd=CHECKOUT, **pipes) for _ in range(2)
    ]
    try:
        for each in processes:
            assert each.stdout.readline() == "ready\n"
        for each in processes:
            each.stdin.write("\n")
            each.stdin.flush()
        for each in processes:
            assert each.stdout.readline() == f"{catalog.fingerprint} True\n"
        assert len(copies(tmp_path)) == 3, "two files and the lock"
        # What other processes use stays, whatever is written meanwhile.
        used = set(copies(tmp_path))
        scan(store, VIDEOS[:1])
        assert used < set(copies(tmp_path))
    finally:
        for each in processes:
            each.communicate("\n")
    for path in list(_files._HELD):
        os.close(_files._HELD.pop(path))
    scan(store, VIDEOS[1:])
    assert not {name for name in used if "lock" not in name} & set(copies(tmp_path)), "no process uses them now"


def test_a_writer_that_was_killed_leaves_nothing_for_long(store: Store, tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(
        f"""
import sys, framefeed as ff
from framefeed.catalog import _catalog_urls
def wait(*arguments):
    print("writing", flush=True)
    sys.stdin.read()
_catalog_urls.put_object = wait
options = {{"s3://videos/": {{"key": "a", "secret": "b", "endpoint_url": sys.argv[1]}}}}
ff.scan({str(corpus_file("base.mp4"))!r}, out={URL!r}, storage_options=options, workers=0)
"""
    )
    with subprocess.Popen(
        [sys.executable, str(program), store.url], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert [name for name in copies(tmp_path) if name.startswith("upload-")]
        process.send_signal(signal.SIGKILL)
    scan(store)
    assert not [name for name in copies(tmp_path) if name.startswith("upload-")]
    assert len(keys_of(store)) == 2
