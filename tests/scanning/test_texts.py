"""Texts beside the media of a scan: which are read, when they are read again, and what is said of all others."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import framefeed as ff
from framefeed.scanning import _texts, list_roots
from framefeed.scanning._journal import Journal
from tests.corpus import corpus_file
from tests.packed import pack
from tests.pictures.made import picture, saved

PICTURE = saved(picture(), "JPEG")
SPEC = ".json:caption"
LONG = "x" * 2**20


def put(folder: Path, **files: str | bytes) -> Path:
    """Write files, whose names have ``_`` in place of the dot; a picture for each ``_jpg``."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        content = data.encode() if isinstance(data, str) else data
        (folder / ".".join(name.rsplit("_", 1))).write_bytes(content)
    return folder


def scan(roots: Any, text_from: str = ".txt", **options: Any) -> tuple[list[Any], list[str]]:
    """Scan; return the texts of all rows, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        catalog = ff.scan(roots, text_from=text_from, **options)
    assert not catalog.failures
    return catalog.table["text"].to_pylist(), [str(each.message) for each in caught]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the texts that are read."""
    names = list[str]()
    real = _texts.read_object

    def read_object(source: Any, most_bytes: int) -> bytes:
        names.append(os.path.basename(source.path))
        return real(source, most_bytes)

    monkeypatch.setattr(_texts, "read_object", read_object)
    return names


def test_each_medium_has_the_text_of_its_name(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_png=PICTURE, b_jpg=PICTURE, c_jpg=PICTURE, d_jpg=PICTURE)
    put(tmp_path, a_txt="a dog\n", b_txt="\ufefftwo\r\nlines\n\r\n", c_txt="", d_txt="naïve ")
    put(tmp_path / "e.f", a_jpg=PICTURE, a_txt="below")
    texts, said = scan(tmp_path)
    assert texts == ["a dog", "a dog", "two\r\nlines\n", "", "naïve ", "below"]
    assert said == []


@pytest.mark.parametrize("name", ["a.caption", "b.meta.caption", "c"])
def test_fields_of_json(tmp_path: Path, name: str) -> None:
    document = {"a": {"caption": "nested"}, "b.meta.caption": "whole name", "c": ["one", "two"]}
    put(tmp_path, a_jpg=PICTURE, a_json="\ufeff" + json.dumps(document))
    expected = {"a.caption": "nested", "b.meta.caption": "whole name", "c": ["one", "two"]}
    assert scan(tmp_path, f".json:{name}") == ([expected[name]], [])


def test_one_list_makes_lists_of_all(tmp_path: Path) -> None:
    put(tmp_path, **{f"{name}_jpg": PICTURE for name in "abcd"})
    put(tmp_path, a_json='{"caption": "one"}', b_json='{"caption": ["two", "three"]}', c_json='{"caption": []}')
    catalog = ff.scan([tmp_path / f"{name}.jpg" for name in "abc"], text_from=SPEC)
    assert catalog.table["text"].to_pylist() == [["one"], ["two", "three"], []]
    assert catalog.table["text"].type == pa.list_(pa.string())
    texts, said = scan(tmp_path, SPEC)
    assert texts[3] is None
    assert said == [f"text_from: no text for 1 of 4 media: the file is missing, for example {tmp_path}/d.json"]


def test_batches_have_the_texts(tmp_path: Path) -> None:
    for name in "abc":
        shutil.copyfile(corpus_file("base.mp4"), tmp_path / f"{name}.mp4")
    put(tmp_path, a_txt="first", b_txt="second")
    with pytest.warns(UserWarning, match=r"1 of 3 media: the file is missing"):
        catalog = ff.scan(tmp_path, text_from=".txt", out=tmp_path / "cat.parquet")
    plan = ff.plan_clips(catalog, ff.Uniform(2), seed=0, shuffle=False, size=32, columns=("text",))
    with ff.ClipLoader(plan, batch_size=3) as loader:
        assert next(iter(loader))["text"] == ["first", "second", None]


BAD: dict[str, tuple[bytes, str]] = {
    "large": (LONG.encode() + b"\n", "the file is larger than 1 MiB (1,048,576 bytes)"),
    "latin": ("naïve".encode("latin-1"), "the file is not UTF-8"),
}
BAD_JSON: dict[str, tuple[bytes, str]] = {
    **BAD,
    "none": (b"", "the file is not JSON"),
    "deep": (b"[" * 100_000, "the file is not JSON"),
    "cut": (b'{"caption": "a', "the file is not JSON"),
    "other": (b'{"text": "a"}', "the file has no field 'caption'"),
    "list": (b'["a"]', "the file has no field 'caption'"),
    "number": (b'{"caption": 7}', "the field 'caption' is neither a text nor a list of texts"),
    "null": (b'{"caption": null}', "the field 'caption' is neither a text nor a list of texts"),
    "mixed": (b'{"caption": ["a", 7]}', "the field 'caption' is neither a text nor a list of texts"),
    "half": (b'{"caption": "\\ud800"}', "the file is not UTF-8"),
}


@pytest.mark.parametrize(
    ("text_from", "data", "reason"),
    [
        *[pytest.param(".txt", *case, id=f"txt-{name}") for name, case in BAD.items()],
        *[pytest.param(SPEC, *case, id=f"json-{name}") for name, case in BAD_JSON.items()],
    ],
)
def test_a_text_that_cannot_be_used_is_null_and_named(tmp_path: Path, text_from: str, data: bytes, reason: str) -> None:
    good = "good" if text_from == ".txt" else '{"caption": "good"}'
    ending = text_from.partition(":")[0][1:]
    put(tmp_path, a_jpg=PICTURE, b_jpg=PICTURE, **{f"a_{ending}": good, f"b_{ending}": data})
    for _ in range(2):  # The second scan reads it again: it is named again.
        texts, said = scan([tmp_path / "a.jpg", tmp_path / "b.jpg"], text_from, out=tmp_path / "cat.parquet")
        assert texts == ["good", None]
        assert said == [f"text_from: no text for 1 of 2 media: {reason}, for example {tmp_path}/b.{ending}"]


def test_a_text_of_the_most_bytes_is_read(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt=LONG)
    assert scan(tmp_path) == ([LONG], [])


@pytest.mark.parametrize("root", ["", "a.jpg", "*.jpg"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_missing(tmp_path: Path, root: str, make: Callable[[Path], None]) -> None:
    put(tmp_path, a_jpg=PICTURE)
    make(tmp_path / "a.txt")
    texts, said = scan(f"{tmp_path}/{root}")
    assert texts == [None]
    assert said[0] == f"text_from: no text for 1 of 1 media: the file is missing, for example {tmp_path}/a.txt"


def test_texts_without_media_are_counted(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt="a", b_txt="b", notes_md="")
    put(tmp_path / "inner", c_txt="c")
    texts, said = scan(tmp_path)
    assert texts == ["a"]
    what = "2 texts (.txt) without a medium of the same name beside it, for example"
    assert said == [f"text_from: {what} {tmp_path}/b.txt: rename texts like their media"]


def test_texts_are_not_counted_as_files_that_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt="a", notes_md="")
    assert list_roots(tmp_path, text_ending=".txt").stats.passed_over == {".md": 1}


@pytest.mark.parametrize("wrong", ["txt", "", ".", ".json", ":caption", ".json:", ".mp4", ".JPG:x", ".a/b", ". ", 7])
def test_text_from_has_two_forms(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ff.UsageError, match=r'must be the ending .* "\.txt", or .* "\.json:caption", got '):
        ff.scan(tmp_path, text_from=wrong)


@pytest.mark.parametrize("name", ["text", "text_version"])
def test_a_column_of_the_list_with_this_name_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt="a", list_csv=f"path,{name}\na.jpg,mine\n")
    with pytest.raises(ff.UsageError, match=f"text_from gives a column '{name}', and a list"):
        ff.scan(tmp_path / "list.csv", text_from=".txt")
    texts, said = scan(tmp_path / "list.csv", columns={"mine": name})
    assert (texts, said) == (["a"], [])


def test_lines_of_a_list_have_the_texts_beside_their_files(tmp_path: Path) -> None:
    put(tmp_path / "media", a_jpg=PICTURE, b_jpg=PICTURE, a_txt="a", b_txt="b")
    (tmp_path / "list.csv").write_text("path,start\nmedia/b.jpg,1\nmedia/a.jpg,2\nmedia/b.jpg,3\n")
    assert scan(tmp_path / "list.csv") == (["b", "a", "b"], [])
    table = pa.table({"path": [str(tmp_path / "media" / "b.jpg")]})
    assert scan(table) == (["b"], [])


def test_a_folder_of_pictures_has_the_text_beside_it(tmp_path: Path) -> None:
    put(tmp_path / "v1.5", a_jpg=PICTURE, b_jpg=PICTURE)
    (tmp_path / "v1.5.txt").write_text("a film")
    assert scan(tmp_path, image_folders="video", fps=5) == (["a film"], [])


def test_media_in_archives_have_none(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt="a", x_tar=pack([("b.jpg", PICTURE), ("b.txt", b"inner")]))
    texts, said = scan([tmp_path / "a.jpg", tmp_path / "x.tar"])
    assert texts == ["a", None]
    other = "archives and Parquet files have other columns for theirs"
    assert said == [f"text_from: no text for 1 of 2 media: {other}, for example tar://b.jpg::{tmp_path}/x.tar"]


def test_only_changed_texts_are_read_again(tmp_path: Path, reads: list[str]) -> None:
    put(tmp_path, a_jpg=PICTURE, b_jpg=PICTURE, c_jpg=PICTURE, a_txt="a", b_txt="b")
    out = tmp_path / "cat.parquet"
    assert scan(tmp_path, out=out)[0] == ["a", "b", None]
    assert sorted(reads) == ["a.txt", "b.txt"]
    before = out.stat()
    reads.clear()
    assert scan(tmp_path, out=out)[0] == ["a", "b", None]
    assert (reads, out.stat().st_ino) == ([], before.st_ino)
    put(tmp_path, b_txt="new", c_txt="c")
    assert scan(tmp_path, out=out)[0] == ["a", "new", "c"]
    assert sorted(reads) == ["b.txt", "c.txt"]
    reads.clear()
    (tmp_path / "a.txt").unlink()
    os.utime(tmp_path / "b.txt", ns=(1, 1))  # The same text: its new time is kept.
    for read in (["b.txt"], []):
        assert scan(tmp_path, out=out)[0] == [None, "new", "c"]
        assert reads == read
        reads.clear()
    assert scan(tmp_path, out=out, resume=False)[0] == [None, "new", "c"]
    assert sorted(reads) == ["b.txt", "c.txt"]


def test_other_texts_are_read_for_another_form(tmp_path: Path, reads: list[str]) -> None:
    put(tmp_path, a_jpg=PICTURE, b_jpg=PICTURE)
    put(tmp_path, a_json='{"caption": "a", "tags": ["x"]}', b_json='{"caption": "b", "tags": ["y"]}')
    out = tmp_path / "cat.parquet"
    for text_from, texts in ((SPEC, ["a", "b"]), (".json:tags", [["x"], ["y"]]), (SPEC, ["a", "b"])):
        for read in (["a.json", "b.json"], []):
            assert scan(tmp_path, text_from, out=out) == (texts, [])
            assert sorted(reads) == read
            reads.clear()
    assert "text" not in ff.scan(tmp_path, out=out).table.column_names


def test_a_list_that_becomes_a_text_gives_the_columns_of_a_new_scan(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, b_jpg=PICTURE, a_json='{"caption": ["a"]}', b_json='{"caption": "b"}')
    out = tmp_path / "cat.parquet"
    assert scan(tmp_path, SPEC, out=out)[0] == [["a"], ["b"]]
    put(tmp_path, a_json='{"caption": "a"}')
    assert scan(tmp_path, SPEC, out=out)[0] == ["a", "b"]


def test_a_scan_that_goes_on_has_the_texts_of_the_journal(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, **{f"{name}_jpg": PICTURE for name in "abcde"}, **{f"{name}_txt": name for name in "abcde"})
    monkeypatch.setattr(_texts, "_PART_SIZE", 2)
    real, parts = Journal.add, list[int]()

    def add(self: Journal, facts: Any, frames: Any, *others: Any) -> None:
        if len(parts) == 2:
            raise KeyboardInterrupt
        parts.append(sum(map(len, facts)))
        real(self, facts, frames, *others)

    monkeypatch.setattr(Journal, "add", add)
    with pytest.raises(KeyboardInterrupt):
        scan(tmp_path, out=tmp_path / "cat.parquet", workers=0)
    monkeypatch.setattr(Journal, "add", real)
    assert (parts, reads) == ([2, 2], ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"])
    reads.clear()
    put(tmp_path, a_txt="new")
    assert scan(tmp_path, out=tmp_path / "cat.parquet", workers=0) == (["new", "b", "c", "d", "e"], [])
    assert reads == ["a.txt", "e.txt"]
    assert not (tmp_path / "cat.parquet.journal").exists()


def test_texts_count_for_the_fingerprint_and_their_times_do_not(tmp_path: Path) -> None:
    put(tmp_path, a_jpg=PICTURE, a_txt="a")
    first = ff.scan(tmp_path, text_from=".txt").fingerprint
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    assert ff.scan(tmp_path, text_from=".txt").fingerprint == first
    put(tmp_path, a_txt="b")
    assert ff.scan(tmp_path, text_from=".txt").fingerprint != first
