"""Objects of S3 through the public functions, from moto's server: frames as of the file, errors with a next step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import framefeed as ff
from framefeed.media.remote import _s3_target
from framefeed.media.remote._s3_target import S3Target
from framefeed.report import write_report
from tests.corpus import corpus_file
from tests.media.remote.stores import Store
from tests.packed import get_facts, pack

NAME = "base.mp4"
KEYS_OF_USER = {"ACCESS_KEY_ID": "AKIATESTTEST", "SECRET_ACCESS_KEY": "sEcReTsEcReT", "REGION": "us-east-1"}
KEYS = ("a/b.mp4", "a//b.mp4", "a/../b.mp4", "a%20b +c.mp4", "ü?x#y.mp4")

SHARD = pack([("x/1.mp4", corpus_file(NAME).read_bytes()), ("x/1.cls", b"7"), ("x/2.mp4", b"no video")])


@pytest.fixture(scope="module")
def served(s3: Store) -> Store:
    client = s3.boto3()
    client.create_bucket(Bucket="videos")
    for key in KEYS:
        client.put_object(Bucket="videos", Key=key, Body=corpus_file(NAME).read_bytes())
    client.put_object(Bucket="videos", Key="empty.mp4", Body=b"")
    client.put_object(Bucket="videos", Key="shards/a b.tar", Body=SHARD)
    return s3


@pytest.fixture
def store(served: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The server, named and with keys by the environment alone."""
    given = {"ENDPOINT_URL": served.url, "CONFIG_FILE": "/none", "SHARED_CREDENTIALS_FILE": "/none", **KEYS_OF_USER}
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(_s3_target._STATES, "value", {})
    return served


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.usefixtures("store")
def test_an_object_is_as_the_file(key: str) -> None:
    url, path = f"s3://videos/{key}", corpus_file(NAME)
    assert ff.probe(url) == ff.probe(path)
    with ff.VideoDecoder(url) as far, ff.VideoDecoder(path) as near:
        assert len(far) == len(near)
        for number in (len(near) - 1, 0, 5):
            np.testing.assert_array_equal(far[number], near[number])


@pytest.mark.usefixtures("store")
def test_an_archive_is_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(SHARD)
    far, near = ff.scan("s3://videos/shards/a b.tar"), ff.scan(tmp_path / "a.tar")
    assert get_facts(far).equals(get_facts(near))
    assert far.table["label"].to_pylist() == [7, None]
    assert far.table["source_offset"].equals(near.table["source_offset"])
    assert far.table["source"][0].as_py() == "tar://x/1.mp4::s3://videos/shards/a b.tar"
    with ff.VideoDecoder(far[0]) as one, ff.VideoDecoder(corpus_file(NAME)) as other:
        np.testing.assert_array_equal(one[5], other[5])


def test_archives_that_are_joined_or_lack_their_end_are_as_the_files(store: Store, tmp_path: Path) -> None:
    other = pack([("y/1.mp4", corpus_file(NAME).read_bytes())])
    for data, usable, failed in ((SHARD + other, 2, 1), (SHARD + other + b"more" * 900, 2, 2)):
        (tmp_path / "a.tar").write_bytes(data)
        store.boto3().put_object(Bucket="videos", Key="shards/joined.tar", Body=data)
        far, near = ff.scan("s3://videos/shards/joined.tar"), ff.scan(tmp_path / "a.tar")
        assert get_facts(far).equals(get_facts(near))
        assert [len(far.usable_rows), len(far.failures)] == [usable, failed]
    assert "is damaged at byte" in str(far.error(len(far) - 1))


@pytest.mark.usefixtures("store")
def test_clips_are_those_of_the_file() -> None:
    catalog = ff.scan(["s3://videos/a/b.mp4", "s3://videos/a//b.mp4"], workers=1)
    assert not catalog.failures
    plan = ff.plan_clips(catalog, ff.Dense(3), seed=2, clips_per_video=2, size=(24, 32))
    with ff.ClipLoader(plan, batch_size=4, workers=1) as loader:
        (batch,) = loader
        stats = loader.stats()
    assert stats.requests >= 2
    assert stats.bytes_fetched > 0
    assert stats.fetch_wait_seconds >= 0
    for clip, request in zip(batch.data, [plan[i] for i in range(4)], strict=True):
        with ff.VideoDecoder(corpus_file(NAME), size=(24, 32)) as decoder:
            np.testing.assert_array_equal(clip, decoder.get_frames_at(request.indices.tolist()).data)


@pytest.mark.usefixtures("store")
def test_missing_and_empty_objects_are_said_as_such() -> None:
    with pytest.raises(ff.MissingMedia, match=r"s3://videos/none\.mp4: no such file"):
        ff.probe("s3://videos/none.mp4")
    with pytest.raises(ff.MissingMedia, match=r"s3://nobucket/a\.mp4: no such file"):
        ff.probe("s3://nobucket/a.mp4")
    with pytest.raises(ff.UnreadableMedia, match=r"empty\.mp4: is empty \(0 bytes\)"):
        ff.probe("s3://videos/empty.mp4")
    with pytest.raises(ff.UsageError, match="names a bucket"):
        ff.probe("s3://videos/")


@pytest.mark.usefixtures("store")
def test_keys_are_shown_whole_in_errors_and_reports(tmp_path: Path) -> None:
    urls = ["s3://videos/ü?x#y.mp4", "s3://videos/none?x#y.mp4"]
    with pytest.raises(ff.MissingMedia, match=r"^s3://videos/none\?x#y\.mp4: ") as caught:
        ff.probe(urls[1])
    assert caught.value.source == urls[1]
    catalog = ff.scan(urls)
    assert [catalog.shown_name(row) for row in range(2)] == urls
    assert [name for name, _, _ in catalog.failures] == [urls[1]]
    write_report(catalog, tmp_path / "report.html")
    assert urls[0] in (tmp_path / "report.html").read_text()


def test_a_refusal_names_its_reason_and_no_key(store: Store) -> None:
    with (
        store.checking_signatures(),
        pytest.raises(ff.UnreadableMedia, match="answered 403 InvalidAccessKeyId") as caught,
    ):
        ff.probe("s3://videos/a/b.mp4")
    assert "AKIATEST" not in str(caught.value)
    assert "sEcReT" not in str(caught.value)


@pytest.mark.usefixtures("store")
def test_a_replaced_object_is_stale(store: Store) -> None:
    client = store.boto3()
    client.put_object(Bucket="videos", Key="new.mp4", Body=corpus_file(NAME).read_bytes())
    with ff.VideoDecoder("s3://videos/new.mp4") as decoder:
        client.put_object(Bucket="videos", Key="new.mp4", Body=corpus_file("closed_gop.ts").read_bytes())
        with pytest.raises(ff.StaleSource):
            decoder[len(decoder) - 1]


def test_the_region_of_a_bucket_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS_OF_USER.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_s3_target._STATES, "value", {})
    target = S3Target("s3://videos/a.mp4")
    assert target.make_request({})[0] == "https://videos.s3.us-east-1.amazonaws.com/a.mp4"
    problem = target.explain(301, {"x-amz-bucket-region": "eu-west-1"}, b"")
    assert problem is not None
    assert problem.is_transient
    url, headers = target.make_request({"Range": "bytes=0-1"})
    assert url == "https://videos.s3.eu-west-1.amazonaws.com/a.mp4"
    assert "/eu-west-1/s3/" in headers["Authorization"]
    assert "sEcReT" not in repr(target)
    assert target.explain(400, {"x-amz-bucket-region": "eu-west-1"}, b"") is None  # no endless turn


def test_variables_that_are_set_after_a_first_try_hold(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ff.UnreadableMedia, match=r"the server 127\.0\.0\.1:9 cannot be reached .*endpoint_url"):
        ff.probe("s3://videos/a/b.mp4")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    assert ff.probe("s3://videos/a/b.mp4") == ff.probe(corpus_file(NAME))
