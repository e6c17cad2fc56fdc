"""Lists of URLs: signatures behind the ending, and columns that are called after URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

import framefeed as ff
from framefeed.errors import UsageError
from framefeed.scanning._manifests import read_manifest
from tests.corpus import corpus_file
from tests.media.remote.faults import faulty

SIGNED = "https://h/x.mp4?sig=a,b;c%2F&v=1.5"


def read(path: Path, text: str) -> tuple[list[str], dict[str, list[object]]]:
    path.write_text(text)
    manifest = read_manifest(str(path))
    assert not manifest.unlistable
    return manifest.paths, manifest.columns.to_pydict()


@pytest.mark.parametrize(
    ("text", "paths", "columns"),
    [
        (f"{SIGNED}\nhttps://h/y.mp4\n", [SIGNED, "https://h/y.mp4"], {}),
        (f"{SIGNED} 3\nhttps://h/y.mp4 4\n", [SIGNED, "https://h/y.mp4"], {"label": [3, 4]}),
        (f"{SIGNED}\tcat, small\n{SIGNED}#t=1\tdog\n", [SIGNED, f"{SIGNED}#t=1"], {"label": ["cat, small", "dog"]}),
        ("s3://b/a.mp4,3\ns3://b/c.mp4,4\n", ["s3://b/a.mp4", "s3://b/c.mp4"], {"label": [3, 4]}),
        ("https://h/get?f=a.mp4 3\n", ["https://h/get?f=a.mp4"], {"label": [3]}),
    ],
)
def test_lines_of_text(text: str, paths: list[str], columns: dict[str, list[object]], tmp_path: Path) -> None:
    names, others = read(tmp_path / "list.txt", text)
    assert (names, others) == (
        [name if "://" in name else str(tmp_path / name) for name in paths],
        columns,
    )


@pytest.mark.parametrize(
    ("text", "path_name"),
    [
        ("label,link\n7,https://h/x.mp4?sig=1\n", "link"),
        ("url,label\nhttps://h/x.mp4?sig=1,cat\n", "url"),
        ("label,url\ncat,https://h/get?id=3\n", "url"),
        ("name,video_url\ncat,https://h/get?id=3\n", "video_url"),
        ("Clip,label\na/b,cat\n", "Clip"),
        ("file_name,url\nx.mp4,https://h/y.mp4\n", "file_name"),
        ("url,thumbnail_url\nhttps://h/x.mp4?s=1,https://h/x.jpg?s=1\n", "url"),
        # The page of a video, and the number of a clip, are no paths.
        ("url,name\nhttps://h/watch?v=3,x.mp4\n", "name"),
        ("clip,name\n3,x.mp4\n", "name"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_columns_of_paths(text: str, path_name: str, ending: str, tmp_path: Path) -> None:
    header, line = (row.split(",") for row in text.splitlines())
    row = dict(zip(header, line, strict=True))
    if ending == "json":
        text = "[{" + ", ".join(f'"{name}": "{value}"' for name, value in row.items()) + "}]"
    names, columns = read(tmp_path / f"list.{ending}", text)
    assert names == [row[path_name] if "://" in row[path_name] else str(tmp_path / row[path_name])]
    assert set(columns) == set(row) - {path_name}


@pytest.mark.parametrize("lines", ["x.mp4?sig=a;b%2F\ny.mp4\n", "y.mp4\nx.mp4?sig=a;b%2F\n"])
def test_S17_relative_lines_behind_a_url_are_read_by_their_signatures_and_kept_without(
    lines: str, tmp_path: Path
) -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    video = corpus_file("base.mp4").read_bytes()
    with faulty({"/a/list.txt": lines.encode(), "/a/x.mp4": video, "/a/y.mp4": video}) as server:
        server.is_refused = lambda asked: asked.target == "/a/x.mp4"
        catalog = ff.scan(f"{server.url}/a/list.txt", out=tmp_path / "cat.parquet")
        assert not len(catalog.errors)
        expected = {f"{server.url}/a/{name}" for name in ("x.mp4", "y.mp4")}
        assert set(ff.Catalog.open(tmp_path / "cat.parquet").table["source"].to_pylist()) == expected


def test_S17_a_bad_line_hides_the_secrets_of_its_url(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("url,label\nhttps://me:password@h/x.mp4?sig=abc,cat,dog\n")
    with pytest.raises(UsageError, match=r"https://h/x\.mp4\?\.\.\.") as caught:
        read_manifest(str(path))
    assert "password" not in str(caught.value)
    assert "abc" not in str(caught.value)
