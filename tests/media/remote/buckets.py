"""A bucket for the tests of catalogs in buckets, and scans into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from tests.corpus import corpus_file
from tests.media.remote.stores import Store

VIDEOS = ("base.mp4", "closed_gop.ts")
URL = "s3://videos/data/cat.parquet"


def empty(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Make the bucket empty, and the user's cache folder another, empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    client = store.boto3()
    if "videos" not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket="videos")
    for key in keys_of(store):
        client.delete_object(Bucket="videos", Key=key)
    return store


def keys_of(store: Store) -> list[str]:
    return [each["Key"] for each in store.boto3().list_objects(Bucket="videos").get("Contents", [])]


def options_of(store: Store, **more: str) -> dict[str, Any]:
    return {
        "s3://videos/": {"key": "any", "secret": "sEcReT", "endpoint_url": store.url, "region": "us-east-1", **more}
    }


def scan(store: Store, names: tuple[str, ...] = VIDEOS, out: str = URL, **more: Any) -> ff.Catalog:
    paths = [corpus_file(name) for name in names]
    return ff.scan(paths, out=out, storage_options=options_of(store), workers=0, progress=False, **more)
