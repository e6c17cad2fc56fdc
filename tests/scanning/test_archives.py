"""Archives among the rows of a scan: where they are read, in which order, with which columns; index files of DALI's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from framefeed._names import split_part
from framefeed._values import Limits
from framefeed.archives import LOCAL_READS
from framefeed.errors import MissingMedia, UsageError
from framefeed.scanning import ListOptions
from framefeed.scanning import _archives as archives_module
from framefeed.scanning._archives import ArchiveOptions, _Windows, read_archives
from framefeed.scanning._listing import list_roots
from framefeed.scanning._rows import Listing
from tests.archives.tars import CountingReader, make_member

END = bytes(1024)
Members = Sequence[tuple[str, bytes]]


def write_tar(path: Path, *members: tuple[str, bytes], end: bytes = END) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(make_member(name.encode(), data) for name, data in members) + end)
    return path


def scan(*roots: Any, lists: ListOptions | None = None, **options: Any) -> Listing:
    template = () if lists is None or lists.path_template is None else lists.template_parts
    archives = ArchiveOptions(template=template, lists=lists or ListOptions(), **options)
    return read_archives(list_roots(list(roots), lists=lists), archives)


def list_members(listing: Listing) -> list[str]:
    return [path if (part := split_part(path)) is None else part.member for path in listing.paths]


def test_rows_are_in_the_order_of_archives_then_of_members(tmp_path: Path) -> None:
    for number in range(30):
        write_tar(tmp_path / f"{number:02}.tar", *((f"{number}/{n}.jpg", b"x") for n in (2, 0, 1)))
    expected = [f"{number}/{n}.jpg" for number in range(30) for n in (2, 0, 1)]
    for workers in (0, 1, 5, None):
        listing = scan(tmp_path / "*.tar", workers=workers)
        assert list_members(listing) == expected
        assert listing.get_columns().column("key").to_pylist() == [name.removesuffix(".jpg") for name in expected]


def test_each_row_says_where_its_bytes_are(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", ("1.jpg", b"first"), ("1.txt", b"text"), ("2.jpg", b"second"))
    (group,) = scan(path).groups
    data, facts = path.read_bytes(), path.stat()
    assert group.kind == "parts"
    assert group.located is not None
    assert group.located.offsets is not None
    ranges = zip(group.located.offsets.tolist(), group.located.sizes.tolist(), strict=True)
    assert [data[offset : offset + size] for offset, size in ranges] == [b"first", b"second"]
    assert group.located.versions == [f"{facts.st_size} {facts.st_mtime_ns}"] * 2


def test_archives_and_files_are_mixed_in_the_order_of_roots(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", ("1.jpg", b"x"), ("1.cls", b"5"))
    listing = scan(tmp_path / "0.mp4", tar, tmp_path / "2.mp4")
    assert [os.path.basename(name) for name in list_members(listing)] == ["0.mp4", "1.jpg", "2.mp4"]
    assert listing.get_columns().column("label").to_pylist() == [None, 5, None]


def test_a_folder_gives_archives_only_if_it_has_no_media(tmp_path: Path) -> None:
    write_tar(tmp_path / "data/train/a.tar", ("1.jpg", b"x"))
    write_tar(tmp_path / "data/val/b.TAR", ("2.jpg", b"x"))
    (tmp_path / "data/readme.md").write_text("")
    listing = scan(tmp_path / "data")
    assert list_members(listing) == ["1.jpg", "2.jpg"]
    assert listing.stats.archives_beside == 0
    assert listing.stats.passed_over == {".md": 1}
    (tmp_path / "data/val/3.mp4").write_bytes(b"")
    listing = scan(tmp_path / "data")
    assert list_members(listing) == [str(tmp_path / "data/val/3.mp4")]
    assert listing.stats.archives_beside == 2
    assert listing.stats.passed_over == {".md": 1, ".tar": 2}
    assert list_members(scan(tmp_path / "data/*/*")) == ["1.jpg", str(tmp_path / "data/val/3.mp4"), "2.jpg"]
    assert list_members(scan(tmp_path / "data/t*")) == ["1.jpg"]


def test_a_list_of_shards_gives_its_columns_to_their_media(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", ("1.jpg", b"x"), ("1.cls", b"cat"), ("2.jpg", b"x"))
    write_tar(tmp_path / "b.tar", ("3.jpg", b"x"), ("3.json", b'{"split": 7, "n": 1}'))
    (tmp_path / "list.csv").write_text("path,label,split,key\na.tar,dog,train,k\nb.tar,dog,val,k\nc.mp4,dog,val,k\n")
    columns = scan(tmp_path / "list.csv").get_columns()
    assert columns.select(["key", "label", "split", "n", "manifest_key"]).to_pylist() == [
        {"key": "1", "label": "cat", "split": "train", "n": None, "manifest_key": "k"},
        {"key": "2", "label": "dog", "split": "train", "n": None, "manifest_key": "k"},
        {"key": "3", "label": "dog", "split": "7", "n": 1, "manifest_key": "k"},
        {"key": "k", "label": "dog", "split": "val", "n": None, "manifest_key": None},
    ]


def test_columns_of_archives_get_the_names_of_the_call(tmp_path: Path) -> None:
    sample = ("d/1.jpg", b"x"), ("d/1.json", b'{"label": "cat", "cat_id": 7, "width": 3}')
    path = write_tar(tmp_path / "a.tar", *sample, ("d/2.jpg", b"x"))
    other = write_tar(tmp_path / "b.tar", ("3.jpg", b"x"), ("3.cls", b"5"))

    def read(columns: dict[str, str | int], *roots: Path) -> Any:
        return scan(*roots, lists=ListOptions(columns)).get_columns()

    both = read({"label": "json.label", "number": "label", "height": "cat_id"}, path, other)
    assert both.column("label").to_pylist() == ["cat", None, None]
    assert both.column("number").to_pylist() == [None, None, 5]
    assert both.column("manifest_height").to_pylist() == [7, None, None]
    assert "json.label" not in both.column_names
    for columns, message in (
        ({"label": "json.lable"}, "no column 'json.lable': its columns are 'key', 'field', 'label', 'json.label'"),
        ({"label": "json.label"}, "two columns one name, 'label': it has a column 'label' too"),
        ({"label": 3}, "give one for 'label' in place of 3: 'key', 'field', 'label', 'json.label'"),
        ({"media": "video"}, "no column 'video'"),
    ):
        with pytest.raises(UsageError, match=message):
            read(columns, path, other)
    with pytest.raises(UsageError, match=r"a\.tar: column 'l' holds list"):
        read({"label": "l"}, write_tar(tmp_path / "c/a.tar", ("1.jpg", b"x"), ("1.json", b'{"l": [1]}')))
    (tmp_path / "cut.tar").write_bytes(b"no archive")
    assert len(scan(tmp_path / "cut.tar", lists=ListOptions({"label": "json.label"})).unlistable) == 1
    (tmp_path / "list.csv").write_text("name,class\na.tar,dog\n")
    listed = read({"path": "name", "label": "class"}, tmp_path / "list.csv")
    assert listed.select(["label", "json.label"]).to_pylist() == [
        {"label": "dog", "json.label": "cat"},
        {"label": "dog", "json.label": None},
    ]


def test_an_index_of_wids_is_a_list_of_shards(tmp_path: Path) -> None:
    write_tar(tmp_path / "shards/a.tar", ("1.jpg", b"x"))
    write_tar(tmp_path / "shards/b.tar", ("2.jpg", b"x"))
    index = {"wids_version": 1, "shardlist": [{"url": f"shards/{name}.tar", "nsamples": 1} for name in "ba"]}
    (tmp_path / "index.json").write_text(json.dumps({**index, "__kind__": "wids-shard-index-v1"}, indent=1))
    assert list_members(scan(tmp_path / "index.json")) == ["2.jpg", "1.jpg"]
    (tmp_path / "index.json").write_text(json.dumps({"__kind__": "wids-shard-index-v1", "datasets": []}))
    with pytest.raises(UsageError, match="without a shardlist"):
        scan(tmp_path / "index.json")


def test_braces_are_expanded_if_no_file_has_the_name(tmp_path: Path) -> None:
    for number in range(3):
        write_tar(tmp_path / f"a-{number:03}.tar", (f"{number}.jpg", b"x"))
    pattern = str(tmp_path / "a-{000..002}.tar")
    assert list_members(scan(pattern)) == ["0.jpg", "1.jpg", "2.jpg"]
    (tmp_path / "list.csv").write_text("path,split\na-{001..002}.tar,val\na-000.tar,train\n")
    assert scan(tmp_path / "list.csv").get_columns().column("split").to_pylist() == ["val", "val", "train"]
    write_tar(Path(pattern), ("own.jpg", b"x"))
    assert list_members(scan(pattern)) == ["own.jpg"]
    with pytest.raises(MissingMedia, match=r"none of the 2 that it stands for, such as .*b-0.tar"):
        scan(tmp_path / "b-{0..1}.tar")
    # One that is missing among others is a row, as of media.
    listing = scan(tmp_path / "a-{002..003}.tar")
    assert list_members(listing) == ["2.jpg", str(tmp_path / "a-003.tar")]
    assert [type(error) for error in listing.unlistable.values()] == [MissingMedia]


def test_S16_the_braces_of_a_list_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a-{0..700000}.tar\nb-{0..700000}.tar\n")
    with pytest.raises(UsageError, match="more than 1,000,000 names"):
        scan(tmp_path / "list.txt")
    (tmp_path / "list.txt").write_text("a-{x..y}.tar\nb.mp4\n")
    listing = scan(tmp_path / "list.txt")
    assert "expected two numbers" in str(next(iter(listing.unlistable.values())))


@pytest.mark.parametrize(
    ("name", "command"),
    [("a.tar.gz", "gzip"), ("a.TGZ", "gzip"), ("a.tar.zst", "zstd"), ("a.tar.xz", "xz"), ("a.tbz2", "bzip2"),
     ("a.tar.lz4", "lz4")],
)  # fmt: skip
def test_compressed_archives_are_refused_by_name(tmp_path: Path, name: str, command: str) -> None:
    path = write_tar(tmp_path / name, ("1.jpg", b"x"))
    for root in (path, tmp_path):
        listing = scan(root)
        assert list(listing.unlistable) == listing.paths == [str(path)]
        assert str(listing.unlistable[str(path)]).endswith(f"unpack it first with {command} -dc FILE > NEW.tar")


def test_a_damaged_archive_gives_its_good_members_and_one_error(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", ("1.jpg", b"x"), ("2.jpg", b"y"))
    path.write_bytes(path.read_bytes()[:1536])
    other = write_tar(tmp_path / "b.tar", ("3.jpg", b"x"))
    listing = scan(path, other)
    assert list_members(listing) == ["1.jpg", "2.jpg", "3.jpg"] or list_members(listing) == [
        "1.jpg",
        str(path),
        "3.jpg",
    ]
    assert "is damaged at byte" in str(listing.unlistable[str(path)])
    assert listing.get_columns().column("key").to_pylist() == ["1", None, "3"]


def test_what_is_no_archive_is_one_row_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"no archive" * 100)
    (tmp_path / "empty.tar").write_bytes(b"")
    listing = scan(tmp_path / "*.tar")
    assert list(listing.unlistable) == listing.paths
    assert "checksum of its first header" in str(listing.unlistable[str(tmp_path / "a.tar")])
    assert "is empty (0 bytes)" in str(listing.unlistable[str(tmp_path / "empty.tar")])


def test_labels_by_parent_are_folders_inside_of_archives(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", ("x/cat/1.jpg", b"x"), ("dog/2.jpg", b"x"), ("3.jpg", b"x"))
    listing = scan(path, tmp_path / "bird/4.jpg", label_from="parent")
    assert listing.label_by_folder().to_pylist() == ["cat", "dog", None, "bird"]


def test_a_template_is_for_lists_or_archives(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", ("cat/1.jpg", b"x"))
    lists = ListOptions(path_template="{label}/{n}.jpg")
    assert scan(path, lists=lists).get_columns().to_pylist() == [
        {"key": "cat/1", "field": "jpg", "label": "cat", "n": 1}
    ]
    (tmp_path / "b.jpg").write_bytes(b"")
    with pytest.raises(UsageError, match="no root is a list"):
        scan(tmp_path / "b.jpg", lists=lists)


def test_labels_are_read_with_their_headers() -> None:
    members = [(f"{n}.{field}", b"v" * 40) for n in range(2000) for field in ("jpg", "txt")]
    data = b"".join(make_member(name.encode(), value) for name, value in members) + END
    reader = CountingReader(data)
    windows = _Windows(reader)
    maker = archives_module.TarRowMaker("/x.tar", Limits(), windows.read_part)
    for table in archives_module.walk_tar(windows, "/x.tar", Limits(), LOCAL_READS):
        maker.add(table)
        windows.forget()
    assert maker.finish().texts["txt"].to_pylist() == ["v" * 40] * 2000
    assert len(reader.requests) < 20
