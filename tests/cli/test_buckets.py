"""Commands that write a catalog to a bucket, and use it there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

from tests.cli.running import run
from tests.corpus import corpus_file
from tests.media.remote.stores import Store

CATALOG = "s3://videos/cat.parquet"


def test_a_catalog_in_a_bucket_is_made_and_fed(tmp_path: Path, s3: Store) -> None:
    s3.boto3().create_bucket(Bucket="videos")
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    extra = {**keys, "AWS_ENDPOINT_URL": s3.url, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ["scan", corpus_file("base.mp4"), "-o", CATALOG, "--journal", tmp_path / "kept" / "journal"]
    for said in ("opened 1 file", "1 unchanged file skipped"):
        result = run(*words, extra=extra)
        assert result.returncode == 0, result.stderr
        assert said in result.stdout.decode()
        assert f"saved as {CATALOG}" in result.stdout.decode()
    assert not (tmp_path / "kept" / "journal").exists()
    clips = ["--rates", "2:2", "--size", "32", "--workers", "0"]
    fed = run("feed", CATALOG, "--batch-size", "1", "--json", *clips, extra=extra)
    assert json.loads(fed.stdout)["clips"], fed.stderr
    built = run("cache", "build", CATALOG, tmp_path / "frames", *clips, extra=extra)
    assert built.returncode == 0, built.stderr
