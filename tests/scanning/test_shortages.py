"""A lack of memory while catalogs are read is no damage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.catalog import Catalog, FrameTables, _frame_numbers
from framefeed.errors import ResourceExhausted
from framefeed.scanning._scan import scan
from tests.corpus import clip_file


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """A folder of two clips, and a catalog of it."""
    folder = tmp_path / "media"
    folder.mkdir()
    for name in ("a.mkv", "b.mkv"):
        (folder / name).write_bytes(clip_file("good.mkv").read_bytes())
    (tmp_path / "list.csv").write_text("path,label\nmedia/a.mkv,x\nmedia/b.mkv,y\n")
    scan(tmp_path / "list.csv", out=tmp_path / "cat.parquet", workers=0)
    return tmp_path


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
