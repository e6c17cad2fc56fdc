"""Names as they are stored: valid UTF-8, reversible, relative to a root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._names import escape, make_absolute, make_printable, remove_dots, resolve_name, to_stored_name, unescape


@given(st.binary().map(lambda name: name.replace(b"\0", b"\1")))
def test_D10_any_file_name_comes_back(name: bytes) -> None:
    text = escape(os.fsdecode(name))
    text.encode("utf-8")
    assert os.fsencode(unescape(text)) == name


@pytest.mark.parametrize("name", ["plain.mp4", "%03d.mp4", "a\\x80.mp4", "ü 空 .mp4", "a\nb", "-rf", "#1", "c:d"])
def test_D10_names_in_utf8_are_stored_as_they_are(name: str) -> None:
    assert escape(name) == name


def test_D10_an_escaped_name_opens_no_other_file() -> None:
    with pytest.raises(ValueError, match="null"):
        os.stat(escape(os.fsdecode(b"caf\xe9.mp4")))


def test_messages_are_valid_utf8() -> None:
    assert make_printable(os.fsdecode(b"caf\xe9: no such file")) == "caf\\udce9: no such file"


@pytest.mark.parametrize(
    ("name", "root", "text"),
    [
        ("/data/a/b.mp4", "/data", "a/b.mp4"),
        ("/data/a/b.mp4", "/data/a", "b.mp4"),
        ("/data2/b.mp4", "/data", "/data2/b.mp4"),
        ("/data/a/b.mp4", "/", "data/a/b.mp4"),
        ("/data/a/b.mp4", None, "/data/a/b.mp4"),
        ("s3://bucket/b.mp4", "/data", "s3://bucket/b.mp4"),
        (os.fsdecode(b"/data/\xff/b.mp4"), "/data", "\0dcff/b.mp4"),
    ],
)
def test_stored_names_come_back(name: str, root: str | None, text: str) -> None:
    assert to_stored_name(name, root) == text
    assert resolve_name(text, root) == name


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("b.mp4", "/data/b.mp4"),
        ("./a//b.mp4", "/data/a/b.mp4"),
        ("/c/b.mp4", "/c/b.mp4"),
        ("a/../b.mp4", "/data/a/../b.mp4"),
        ("https://host/b.mp4", "https://host/b.mp4"),
        ("", ""),
        ("a\0b", "a\0b"),
    ],
)
def test_paths_are_completed_by_a_folder(name: str, path: str) -> None:
    assert make_absolute(name, "/data") == path


def test_names_in_messages_have_no_dots_where_they_need_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    top = os.fspath(tmp_path)
    for path, shown in [
        (f"{top}/a/../gone.mp4", f"{top}/gone.mp4"),
        (f"{top}/a/../", f"{top}/"),
        (f"{top}/link/../x.mp4", f"{top}/link/../x.mp4"),
        ("https://a/../b.mp4", "https://a/../b.mp4"),
        ("a..b/c.mp4", "a..b/c.mp4"),
    ]:
        assert remove_dots(path) == shown
