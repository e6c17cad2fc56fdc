"""Commands that write a catalog to a bucket, and use it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

from framefeed.media.remote import _s3_target
from tests.cli.running import Answer
from tests.corpus import corpus_file
from tests.media.remote.stores import Store, serving

CATALOG = "s3://videos/cat.parquet"


@pytest.fixture(scope="module")
def served() -> Iterator[Store]:
    with serving() as opened:
        opened.boto3().create_bucket(Bucket="videos")
        yield opened


@pytest.fixture
def store(served: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    given = {"ENDPOINT_URL": served.url, "ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_s3_target._STATES, "value", {})
    return served


@pytest.mark.usefixtures("store")
def test_a_catalog_in_a_bucket_is_made_and_fed(tmp_path: Path, answer: Answer) -> None:
    words = ["scan", corpus_file("base.mp4"), "-o", CATALOG, "--journal", tmp_path / "kept" / "journal"]
    assert f"saved as {CATALOG}" in answer(*words).out
    assert "1 unchanged file skipped" in answer(*words).out
    assert not (tmp_path / "kept" / "journal").exists()
    fed = ["feed", CATALOG, "--rates", "2:2", "--batch-size", "1", "--size", "32", "--workers", "0", "--json"]
    assert json.loads(answer(*fed).out)
    page = tmp_path / "page.html"
    assert "1 row" in answer("report", CATALOG, "-o", page).out
    assert CATALOG in json.loads(answer("doctor", CATALOG, "--json").out)["catalog"]["path"]
    built = ("cache", "build", CATALOG, "--dir", tmp_path / "frames", "--rates", "2:2", "--size", "32")
    assert answer(*built).out
