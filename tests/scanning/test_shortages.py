"""Shortages while folders, manifests and catalogs are read: a retry after a release succeeds, or the error says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.catalog import Catalog, FrameTables, _catalog_file, _frame_numbers, _frame_tables
from framefeed.errors import ResourceExhausted
from framefeed.media import list_folder
from framefeed.scanning._scan import scan
from tests.corpus import clip_file
from tests.media.faults import Fault


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """A folder of two clips and pictures, with manifests and a catalog of it."""
    folder = tmp_path / "media"
    (folder / "pictures").mkdir(parents=True)
    for name in ("a.mkv", "b.mkv"):
        (folder / name).write_bytes(clip_file("good.mkv").read_bytes())
    (folder / "pictures" / "0.png").write_bytes(b"not looked at")
    (tmp_path / "list.txt").write_text("media/a.mkv\nmedia/b.mkv\n")
    (tmp_path / "list.csv").write_text("path,label\nmedia/a.mkv,x\nmedia/b.mkv,y\n")
    catalog = scan(tmp_path / "list.csv", out=tmp_path / "cat.parquet", workers=0)
    pq.write_table(catalog.table.select(["source"]), tmp_path / "list.parquet")
    return tmp_path


def _sources(roots: Path | str) -> list[str]:
    sources: list[str] = scan(roots, depth="header", workers=0).table["source"].to_pylist()
    return sources


def _facts(media: Path) -> list[Any]:
    catalog = Catalog.open(media / "cat.parquet")
    return [catalog.table.num_rows, catalog.table["label"].to_pylist(), len(catalog[1].frame_index or ())]


CALLS: dict[str, tuple[Any, str, Callable[[Path], Any]]] = {
    "a folder of pictures": (
        os,
        "scandir",
        lambda media: list_folder(f"{media}/media/pictures").paths,
    ),
    "a walk": (os, "scandir", lambda media: _sources(media / "media")),
    "a pattern": (os, "scandir", lambda media: _sources(f"{media}/media/*.mkv")),
    "a list": (Path, "read_bytes", lambda media: _sources(media / "list.txt")),
    "a table of text": (Path, "read_bytes", lambda media: _sources(media / "list.csv")),
    "a table": (pq, "read_table", lambda media: _sources(media / "list.parquet")),
    "facts": (_catalog_file.pq, "ParquetFile", _facts),
    "a column": (pq.ParquetFile, "read", _facts),
    "frame tables": (_frame_tables, "MappedFile", _facts),
}


@contextmanager
def failing(owner: Any, name: str, fault: Fault) -> Iterator[None]:
    real = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if fault.is_due:
            raise OSError(fault.number, os.strerror(fault.number))
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


@pytest.mark.parametrize("what", CALLS)
def test_a_shortage_while_lists_are_read_is_tried_again(media: Path, what: str) -> None:
    owner, name, ask = CALLS[what]
    expected, counted = ask(media), Fault(0, None)
    with failing(owner, name, counted):
        assert ask(media) == expected
    for at in range(counted.calls):
        with failing(owner, name, Fault(errno.EMFILE, at)):
            assert ask(media) == expected
        with failing(owner, name, Fault(errno.EMFILE, at, stays=True)), pytest.raises(ResourceExhausted):
            ask(media)
    assert counted.calls >= 1


def test_a_lack_of_memory_while_tables_are_checked_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy:
        num_rows = 0

        def validate(self, **_: bool) -> None:
            raise pa.ArrowMemoryError("malloc of size 64 failed")

    with pytest.raises(ResourceExhausted, match="frame tables in memory"):
        _ = FrameTables([Greedy()]).batches  # type: ignore[list-item]


def test_a_lack_of_memory_that_arrow_reports_in_words_is_no_damage(
    media: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Couldn't deserialize thrift: std::bad_alloc\n")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(ResourceExhausted, match="ran out of memory"):
        Catalog.open(media / "cat.parquet")


def test_a_lack_of_memory_to_decompress_a_row_is_no_damage(media: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy:
        def decompress(self, *_: object, **__: object) -> None:
            raise OSError("ZSTD decompression failed: Allocation error : not enough memory")

    catalog = Catalog.open(media / "cat.parquet")
    monkeypatch.setattr(_frame_numbers, "_ZSTD", Greedy())
    with pytest.raises(ResourceExhausted, match="ran out of memory"):
        _ = catalog[1].frame_index
