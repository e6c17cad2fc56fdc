"""Catalogs that are put into a bucket of moto's server: signatures, answers that are lost, rights that end, sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.media.remote import _putting
from framefeed.media.remote._putting import put_file
from framefeed.media.remote._storage_options import S3Options
from tests.corpus import corpus_file
from tests.media.remote.buckets import URL, VIDEOS, empty, keys_of, options_of, scan
from tests.media.remote.stores import Store


@pytest.fixture
def store(s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The server with an empty bucket, and an empty cache folder of the user."""
    return empty(s3, tmp_path, monkeypatch)


def test_the_same_catalog_of_two_writers_is_no_conflict(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a request whose answer was lost."""
    send, sent = _putting._Change._take, []

    def lose(change: Any, response: Any) -> Any:
        taken = send(change, response)
        sent.append(change._name)
        if sent.count(change._name) == 1:
            raise ConnectionResetError("reset by test")
        return taken

    monkeypatch.setattr(_putting._Change, "_take", lose)
    catalog = scan(store)
    assert len(sent) >= 2
    assert ff.Catalog.open(URL, storage_options=options_of(store)).table.equals(catalog.table)


def test_rights_that_end_leave_the_journal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put = _putting.put_file

    def put_without_rights(*arguments: Any) -> Any:
        with store.checking_signatures():
            return put(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_putting, "put_file", put_without_rights)
        with pytest.raises(ff.UnreadableMedia, match="answered 403 InvalidAccessKeyId") as caught:
            scan(store)
    assert "sEcReT" not in str(caught.value)
    assert not keys_of(store)
    assert list((Path(os.environ["XDG_CACHE_HOME"]) / "framefeed" / "journals").iterdir())
    assert len(scan(store)) == len(VIDEOS)


def test_a_scan_leaves_the_journals_of_catalogs_of_the_same_name(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise ff.UnreadableMedia("refused by test")

    def list_parts() -> list[Path]:
        return sorted((tmp_path / "cache" / "framefeed" / "journals").glob("*/*.part"))

    with monkeypatch.context() as patch:
        patch.setattr(_putting, "put_file", refuse)
        with pytest.raises(ff.UnreadableMedia, match="refused by test"):
            scan(store)
    left = list_parts()
    assert left
    assert len(scan(store, VIDEOS[:1], out="s3://videos/other/cat.parquet")) == 1
    assert list_parts() == left
    assert len(scan(store)) == len(VIDEOS)
    assert not list_parts()


def test_requests_that_write_are_signed(store: Store) -> None:
    with store.checking_signatures() as keys:
        options = options_of(store, key=keys.key, secret=keys.secret)
        for names in (VIDEOS, VIDEOS[:1]):
            paths = [corpus_file(name) for name in names]
            assert len(ff.scan(paths, out=URL, storage_options=options, workers=0)) == len(names)
        assert len(ff.Catalog.open(URL, storage_options=options)) == 1
    assert len(keys_of(store)) == 2


def test_a_file_that_one_request_cannot_take_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_putting, "MOST_PUT_BYTES", 100)
    with pytest.raises(ff.UsageError, match="write to a local path"):
        scan(store)
    assert not keys_of(store)


def test_an_object_of_other_bytes_is_not_taken_for_the_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever byte is the other one: as many may be there, and the first ones the same."""
    monkeypatch.setattr(_putting, "_COMPARED_BYTES", 1000)
    path, options = tmp_path / "file", S3Options(**options_of(store)["s3://videos/"])
    path.write_bytes(bytes(range(250)) * 10)
    version = put_file(URL, str(path), None, options)
    assert put_file(URL, str(path), None, options).is_same(version)
    for at in (0, 999, 1000, 2000, 2499):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        store.boto3().put_object(Bucket="videos", Key="data/cat.parquet", Body=bytes(data))
        with pytest.raises(ff.StaleSource, match="another writer"):
            put_file(URL, str(path), None, options)
