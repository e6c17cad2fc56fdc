"""Prefixes, buckets and patterns of S3 as roots of a scan, from moto's server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.media.remote import _s3_target, _whole
from framefeed.scanning import list_roots
from tests.corpus import corpus_file
from tests.media.remote.faults import Fault, Stored, faulty
from tests.media.remote.stores import Store
from tests.packed import pack, unpack
from tests.pictures.made import picture, saved

PICTURE = saved(picture(), "JPEG")
KEYS = (
    "a b+c%20d.jpg", "a/b.jpg", "a-b.jpg", "ab.jpg", "a//b.jpg", "a/../b.jpg", "é#?&<>.jpg", "t/cat/1.jpg",
    "t/cat/2.JPG", "t/dog/1.jpg",
)  # fmt: skip
OTHERS = ("t/notes.txt", "t/cat/.jpg", "t/", "t/cat/README")
ARCHIVES = {
    "mix/a.jpg": PICTURE,
    "mix/b.tar": pack([("in.jpg", PICTURE)]),
    "mix/c.jpg": PICTURE + bytes(9),
    "shards/0.tar": pack([("x.jpg", PICTURE)]),
    "shards/deep/1.tar": pack([("y.jpg", PICTURE), ("z.jpg", PICTURE)]),
    "shards/notes.md": b"",
}


@pytest.fixture(scope="module")
def served(s3: Store) -> Store:
    client = s3.boto3()
    client.create_bucket(Bucket="media")
    for key in (*KEYS, *OTHERS):
        client.put_object(Bucket="media", Key=key, Body=PICTURE)
    client.put_object(Bucket="media", Key="e/empty.jpg", Body=b"")
    client.put_object(Bucket="media", Key="e/empty.mp4", Body=b"")
    client.put_object(Bucket="media", Key="v/base.mp4", Body=corpus_file("base.mp4").read_bytes())
    client.put_object(Bucket="media", Key="n/notes.txt", Body=b"")
    client.create_bucket(Bucket="none")
    client.create_bucket(Bucket="packed")
    for key, data in ARCHIVES.items():
        client.put_object(Bucket="packed", Key=key, Body=data)
    return s3


@pytest.fixture
def store(served: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    set_keys(monkeypatch, served.url)
    return served


def set_keys(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    given = {"CONFIG_FILE": "/none", "SHARED_CREDENTIALS_FILE": "/none", "REGION": "us-east-1", "ENDPOINT_URL": url}
    for name, value in {**given, "ACCESS_KEY_ID": "AKIATESTTEST", "SECRET_ACCESS_KEY": "sEcReTsEcReT"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(_s3_target._STATES, "value", {})


def sources(catalog: ff.Catalog) -> list[str]:
    names = catalog.table["source"].to_pylist()
    assert names == sorted(names, key=os.fsencode)
    return [name.removeprefix("s3://media/") for name in names]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("root", ["s3://media", "s3://media/"])
def test_a_bucket_is_a_folder_of_its_objects(root: str) -> None:
    catalog = ff.scan(root)
    expected = [*KEYS, "e/empty.jpg", "e/empty.mp4", "v/base.mp4"]
    assert sources(catalog) == sorted(expected, key=os.fsencode)
    assert [(name, kind) for name, kind, _ in catalog.failures] == [
        ("s3://media/e/empty.jpg", "UnreadableMedia"),
        ("s3://media/e/empty.mp4", "UnreadableMedia"),
    ]
    assert all("is empty (0 bytes)" in message for _, _, message in catalog.failures)


@pytest.mark.usefixtures("store")
def test_labels_and_counts_are_those_of_folders(tmp_path: Path) -> None:
    unpack([(key, PICTURE) for key in (*KEYS, *OTHERS) if key.startswith("t/") and key != "t/"], tmp_path)
    far, near = ff.scan("s3://media/t/", label_from="parent"), ff.scan(tmp_path / "t", label_from="parent")
    for name in ("label", "width", "fingerprint", "bytes"):
        assert far.table[name].to_pylist() == near.table[name].to_pylist(), name
    assert far.classes == near.classes == ["cat", "dog"]
    assert list_roots("s3://media/t/").stats.passed_over == list_roots(tmp_path / "t").stats.passed_over


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("t/*/1.jpg", ["t/cat/1.jpg", "t/dog/1.jpg"]),
        ("t/*", ["t/cat/1.jpg", "t/cat/2.JPG", "t/dog/1.jpg", "t/notes.txt"]),
        ("t/c*", ["t/cat/1.jpg", "t/cat/2.JPG"]),
        ("**/1.jpg", ["t/cat/1.jpg", "t/dog/1.jpg"]),
        ("t/**", ["t/cat/1.jpg", "t/cat/2.JPG", "t/cat/README", "t/dog/1.jpg", "t/notes.txt"]),
        ("a*.jpg", ["a b+c%20d.jpg", "a-b.jpg", "ab.jpg"]),
        ("t/*/.j*", ["t/cat/.jpg"]),
        ("*?&*", ["é#?&<>.jpg"]),
    ],
)
def test_patterns_match_as_those_of_files(pattern: str, expected: list[str], tmp_path: Path) -> None:
    assert sources(ff.scan(f"s3://media/{pattern}")) == expected
    if "?" in pattern:  # which belongs to keys
        return
    names = [key for key in (*KEYS, *OTHERS) if ".." not in key and "//" not in key and key != "t/"]
    unpack([(key, PICTURE) for key in names], tmp_path)
    local = ff.scan(tmp_path / pattern, root=tmp_path).table["source"].to_pylist()
    assert local == expected


@pytest.mark.usefixtures("store")
def test_a_prefix_without_its_slash_is_named(tmp_path: Path) -> None:
    for options in ({}, {"out": tmp_path / "cat.parquet"}):
        with pytest.raises(ff.MissingMedia, match=r"^s3://media/t/cat: .* objects below s3://media/t/cat/: write the"):
            ff.scan("s3://media/t/cat", **options)  # type: ignore[arg-type]
        with pytest.raises(ff.MissingMedia, match=r"^s3://media/nothing.jpg: no such file"):
            ff.scan("s3://media/nothing.jpg", **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("store")
def test_pages_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(page) for page in _whole.list_keys("s3://many/x/")] == [1000, 200]
    pages = list(_whole.list_keys("s3://media/t/", max_keys=2))
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert [each.key for page in pages for each in page] == sorted(
        key for key in (*KEYS, *OTHERS) if key.startswith("t/")
    )


@pytest.mark.usefixtures("store")
def test_what_cannot_be_listed() -> None:
    for root, error, says in (
        ("s3://nobucket/", ff.MissingMedia, "NoSuchBucket"),
        ("s3://none/", ff.MissingMedia, "no object below it"),
        ("s3://media/tt/", ff.MissingMedia, "s3://media/tt/: there is no object below it"),
        ("s3://media/t/*.avi", ff.UsageError, r"matches no object: check its spelling$"),
        ("s3://media/t/*[12].mp4", ff.UsageError, r"matches no object.*[?] and .* belong to the key, and only"),
        ("s3://me*/", ff.UsageError, "expected s3://bucket|cannot be a pattern"),
    ):
        with pytest.raises(error, match=says):
            ff.scan(root)
    with pytest.raises(ff.UsageError, match="is for folders on a disk"):
        ff.scan("s3://media/t/", image_folders="video", fps=5)
    with pytest.warns(UserWarning, match="no media found in s3://media/n/"):
        assert not len(ff.scan("s3://media/n/"))


def test_credentials_that_expire_between_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        b"<Contents><Key>a.jpg</Key><Size>7</Size><ETag>&quot;1&quot;</ETag></Contents></ListBucketResult>"
    )
    expired = b"<Error><Code>ExpiredToken</Code><Message>sEcReTsEcReT</Message></Error>"
    with faulty({"/media/": page}) as server:
        set_keys(monkeypatch, server.url)
        server.plan("/media/", Fault(), Fault(503), Fault(400, body=expired))
        with pytest.raises(ff.UnreadableMedia, match=r"s3://media/: .*ExpiredToken: .*get new ones") as caught:
            ff.scan("s3://media/")
        assert "sEcReT" not in str(caught.value)
        assert [("continuation-token=t" in each.target) for each in server.asked] == [False, True, True]
        assert all("Authorization" in each.headers for each in server.asked)


def make_page(*keys: str) -> bytes:
    facts = f"<Size>{len(PICTURE)}</Size><ETag>&quot;one&quot;</ETag>"
    contents = "".join(f"<Contents><Key>{key}</Key>{facts}</Contents>" for key in keys)
    return f"<ListBucketResult><EncodingType>url</EncodingType>{contents}</ListBucketResult>".encode()


def test_a_key_that_is_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with faulty({"/media/": make_page("f/caf%E9.jpg", "f/c%2Bd+e.jpg")}) as server:
        set_keys(monkeypatch, server.url)
        for name in ("caf\xe9.jpg", "c+d e.jpg"):
            server.objects[f"/media/f/{name}"] = Stored(PICTURE)
        catalog = ff.scan("s3://media/f/", out=tmp_path / "cat.parquet")
        assert not catalog.failures
        assert catalog.table["source"].to_pylist() == ["s3://media/f/c+d e.jpg", "s3://media/f/caf\0dce9.jpg"]
        plan = ff.plan_clips(catalog, ff.Dense(1), seed=0, size=(8, 8))
        with ff.ClipLoader(plan, batch_size=2, workers=1) as loader:
            assert len(list(loader)) == 1


def test_credentials_that_expire_within_a_scan_are_errors_of_objects(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expired = Fault(400, body=b"<Error><Code>ExpiredToken</Code><Message>sEcReTsEcReT</Message></Error>")
    names, out = [f"{number}.jpg" for number in range(4)], tmp_path / "cat.parquet"
    with faulty({"/media/": make_page(*names)}) as server:
        set_keys(monkeypatch, server.url)
        for name in names:
            server.objects[f"/media/{name}"] = Stored(PICTURE)
        for name in names[2:]:
            server.always[f"/media/{name}"] = expired
        catalog = ff.scan("s3://media/", out=out)
        assert catalog.table["error_type"].to_pylist() == [None, None, "UnreadableMedia", "UnreadableMedia"]
        assert all("ExpiredToken" in message and "sEcReT" not in message for _, _, message in catalog.failures)
        server.always.clear()
        before = {name: server.count(f"/media/{name}") for name in names}
        assert not ff.scan("s3://media/", out=out).failures
        assert [server.count(f"/media/{name}") - before[name] for name in names] == [0, 0, 1, 1]


def test_D09_a_second_scan_opens_what_is_new_or_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    make_request = _s3_target.S3Target.make_request

    def count(target: _s3_target.S3Target, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        asked.append(f"{'list' if target.query else target.name.key}")
        return make_request(target, headers)

    monkeypatch.setattr(_s3_target.S3Target, "make_request", count)
    client, out = store.boto3(), tmp_path / "cat.parquet"
    client.create_bucket(Bucket="again")
    movie = corpus_file("base.mp4").read_bytes()
    for key, body in {"a.jpg": PICTURE, "b.jpg": PICTURE, "c.mp4": movie}.items():
        client.put_object(Bucket="again", Key=key, Body=body)
    first = ff.scan("s3://again/", out=out)
    assert sorted(asked) == ["a.jpg", "b.jpg", "c.mp4", "list"]
    versions = first.table["source_version"].to_pylist()
    assert versions == [f"{each['Size']} {each['ETag']}" for each in client.list_objects_v2(Bucket="again")["Contents"]]
    asked.clear()
    assert ff.scan("s3://again/", out=out).table.equals(first.table)
    assert asked == ["list"]
    asked.clear()
    client.put_object(Bucket="again", Key="b.jpg", Body=saved(picture(width=48), "JPEG"))
    client.put_object(Bucket="again", Key="d.jpg", Body=PICTURE)
    second = ff.scan("s3://again/", out=out)
    assert sorted(asked) == ["b.jpg", "d.jpg", "list"]
    assert second.table["width"].to_pylist()[1] == 48
    asked.clear()
    client.delete_object(Bucket="again", Key="a.jpg")
    assert [name[-5:] for name in ff.scan("s3://again/", out=out).table["source"].to_pylist()] == [
        "b.jpg", "c.mp4", "d.jpg",
    ]  # fmt: skip
    assert asked == ["list"]


def test_a_bucket_has_the_options_of_its_prefix(served: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch, "http://127.0.0.1:1")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}")
    options = {"s3://media/": {"endpoint_url": served.url, "key": "AKIATESTTEST", "secret": "sEcReTsEcReT"}}
    catalog = ff.scan("s3://media/t/", storage_options=options)
    assert not catalog.failures
    assert len(catalog) == 3


@pytest.mark.usefixtures("store")
def test_a_list_in_a_bucket_starts_at_its_folder(store: Store) -> None:
    body = b"cat/1.jpg 5\n./dog/1.jpg 6\n../a//b.jpg 7\ns3://media/a/../b.jpg 8\n"
    store.boto3().put_object(Bucket="media", Key="t/list.txt", Body=body)
    catalog = ff.scan("s3://media/t/list.txt")
    expected = ["t/cat/1.jpg", "t/dog/1.jpg", "a//b.jpg", "a/../b.jpg"]
    assert catalog.table["source"].to_pylist() == [f"s3://media/{key}" for key in expected]
    assert catalog.table["label"].to_pylist() == [5, 6, 7, 8]
    assert not catalog.failures


@pytest.mark.parametrize("root", ["shards/", "mix/", "", "*", "mix/*", "sh*", "**"])
@pytest.mark.filterwarnings("ignore:.*not read")
@pytest.mark.usefixtures("store")
def test_archives_below_a_prefix_are_read_as_those_of_folders(root: str, tmp_path: Path) -> None:
    unpack(list(ARCHIVES.items()), tmp_path / "d")
    local = ff.scan(f"{tmp_path}/d/{root}")
    far, near = (list_roots(each) for each in (f"s3://packed/{root}", f"{tmp_path}/d/{root}"))
    assert far.stats == near.stats
    for kind in ("far", "far again"):  # a scan that finds nothing new
        catalog = ff.scan(f"s3://packed/{root}", out=tmp_path / "far.parquet")
        names = [name.replace("s3://packed/", f"{tmp_path}/d/") for name in catalog.table["source"].to_pylist()]
        assert names == local.table["source"].to_pylist(), kind
        for name in ("bytes", "width", "error_type", "fingerprint"):
            assert catalog.table[name].to_pylist() == local.table[name].to_pylist(), (kind, name)
        for row in catalog.usable_rows.tolist():
            catalog.media_source(row).check_identity(catalog.frame_index(row).identity)
            assert catalog.media_source(row).head(9) == PICTURE[:9]
