"""Texts beside media by URL: those that a list of objects has are asked for, once each, and others only of http."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("urllib3", reason="our own reader needs it")

import framefeed as ff
from tests.media.remote.faults import Fault, FaultServer, Stored, faulty
from tests.pictures.made import picture, saved

PICTURE = saved(picture(), "JPEG")
FILES = {
    "a.jpg": PICTURE,
    "a.txt": b"a dog\n",
    "b.jpg": PICTURE,
    "in/c.jpg": PICTURE,
    "in/c.txt": b"c",
    "in/d.txt": b"d",
}


def set_objects(server: FaultServer, files: dict[str, bytes], tags: dict[str, str] | None = None) -> None:
    """Put files into the bucket: its list and its objects."""
    objects, tags = {f"t/{name}": data for name, data in files.items()}, tags or {}
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>{len(data)}</Size>"
        f"<ETag>&quot;{tags.get(key[2:], 'one')}&quot;</ETag></Contents>"
        for key, data in objects.items()
    )
    page = f"<ListBucketResult><EncodingType>url</EncodingType>{entries}</ListBucketResult>"
    server.objects = {"/media/": Stored(page.encode())}
    server.objects |= {f"/media/{key}": Stored(data, f'"{tags.get(key[2:], "one")}"') for key, data in objects.items()}
    server.asked.clear()


@pytest.fixture
def bucket() -> Iterator[FaultServer]:
    with faulty({}) as server:
        set_objects(server, FILES)
        yield server


def options_of(server: FaultServer) -> dict[str, Any]:
    return {"s3://media/": {"key": "any", "secret": "sEcReT", "endpoint_url": server.url, "region": "us-east-1"}}


def texts_of(server: FaultServer) -> list[str]:
    """Names of the texts that were asked for."""
    return sorted(each.target.rpartition("/")[2] for each in server.asked if each.target.endswith(".txt"))


def scan(server: FaultServer, roots: Any, **options: Any) -> list[Any]:
    catalog = ff.scan(roots, text_from=".txt", storage_options=options_of(server), **options)
    assert not catalog.failures
    return catalog.table["text"].to_pylist()  # type: ignore[no-any-return]


MISSING_B = r"no text for 1 of 3 media: the file is missing, for example s3://media/t/b.txt$"


def test_texts_of_a_prefix_are_those_of_its_list(bucket: FaultServer) -> None:
    with pytest.warns(UserWarning, match="^text_from: ") as caught:
        assert scan(bucket, "s3://media/t/") == ["a dog", None, "c"]
    assert [str(each.message).partition(": ")[2] for each in caught] == [
        "no text for 1 of 3 media: the file is missing, for example s3://media/t/b.txt",
        "1 text (.txt) without a medium of the same name beside it, for example s3://media/t/in/d.txt: rename texts "
        "like their media",
    ]
    assert texts_of(bucket) == ["a.txt", "c.txt"]


def test_a_pattern_finds_the_texts_of_its_matches(bucket: FaultServer) -> None:
    with pytest.warns(
        UserWarning, match=r"no text for 1 of 2 media: the file is missing, .*s3://media/t/b.txt$"
    ) as caught:
        assert scan(bucket, "s3://media/t/*.j*") == ["a dog", None]
    assert len(caught) == 1  # The others belong to media that do not match.
    assert texts_of(bucket) == ["a.txt"]
    assert scan(bucket, "s3://media/t/a.j*") == ["a dog"]
    lists = [parse_qs(urlsplit(each.target).query)["prefix"] for each in bucket.asked if "prefix=" in each.target]
    assert lists == [["t/"], ["t/a"]]


def test_a_changed_text_is_read_again(bucket: FaultServer, tmp_path: Path) -> None:
    out, used = tmp_path / "cat.parquet", {name: data for name, data in FILES.items() if name != "in/d.txt"}
    for files, tags, texts, read in (
        (used, {}, ["a dog", None, "c"], ["a.txt", "c.txt"]),
        (used, {}, ["a dog", None, "c"], []),
        (used | {"a.txt": b"a cat\n"}, {"a.txt": "two"}, ["a cat", None, "c"], ["a.txt"]),
    ):
        set_objects(bucket, files, tags)
        with pytest.warns(UserWarning, match=MISSING_B):
            assert scan(bucket, "s3://media/t/", out=out) == texts
        assert texts_of(bucket) == read


def test_objects_that_are_named_are_asked_for(bucket: FaultServer, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("s3://media/t/a.jpg\ns3://media/t/b.jpg\n")
    with pytest.warns(UserWarning, match=r"no text for 1 of 2 media: .*s3://media/t/b.txt$"):
        assert scan(bucket, tmp_path / "list.txt") == ["a dog", None]
    assert texts_of(bucket) == ["a.txt", "b.txt"]


def test_urls_of_http_are_asked_for_without_their_query(tmp_path: Path) -> None:
    with faulty({f"/{name}": data for name, data in FILES.items()}) as server:
        server.always["/in/c.txt"] = Fault(403)
        names = [f"{server.url}/{name}?key=SECRET" for name in ("a.jpg", "b.jpg", "in/c.jpg")]
        for out in (None, tmp_path / "cat.parquet", tmp_path / "cat.parquet"):  # Nothing tells whether they changed.
            server.asked.clear()
            with pytest.warns(UserWarning, match="^text_from: ") as caught:
                assert scan(server, names, out=out) == ["a dog", None, None]
            said = [str(each.message) for each in caught]
            assert (
                said[0] == f"text_from: no text for 1 of 3 media: the file is missing, for example {server.url}/b.txt"
            )
            assert said[1].startswith("text_from: no text for 1 of 3 media: the file is not readable, for example ")
            assert len(said) == 2
            assert texts_of(server) == ["a.txt", "b.txt", "c.txt"]


def test_a_list_of_texts_whose_version_no_server_tells(tmp_path: Path) -> None:
    with faulty({"/a.jpg": PICTURE, "/a.json": b'{"caption": ["one"]}'}) as server:
        for _ in range(2):
            catalog = ff.scan([f"{server.url}/a.jpg"], text_from=".json:caption", out=tmp_path / "cat.parquet")
            assert catalog.table["text"].to_pylist() == [["one"]]
            assert catalog.table["text_version"].to_pylist() == [None]
