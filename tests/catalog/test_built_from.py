"""Counts of ``built_from``: without reading the indexes, and with descriptions for people."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from framefeed.catalog._catalog import Catalog
from framefeed.catalog._row_lists import BUILT_FROM_IN_WORDS, count_built_from
from framefeed.errors import UnreadableMedia
from framefeed.index import BuiltFrom
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.media.pictures import write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    for number in range(5):
        write_clip(folder / f"{number}.mp4", ClipSpec(num_frames=3 + number))
    write_clip(folder / "codec.mp4", ClipSpec(num_frames=4, codec="mpeg4", b_frames=0))
    (folder / "bad.mp4").write_text("no video")
    write_folder(folder / "pictures", 2)
    return folder


@pytest.mark.parametrize("verify", ["proof", "ends", "none", "full"])
def test_counts_are_those_of_the_indexes(verify: str, folder: Path, tmp_path: Path) -> None:
    for catalog in (
        scan(folder, verify=verify, workers=0),
        scan(folder, verify=verify, workers=0, out=tmp_path / "cat.parquet"),
    ):
        indexes = [catalog.frame_index(row) for row in catalog.usable_rows if catalog[row].info.kind == "video"]
        expected = {name: sum(index.built_from == name for index in indexes) for name in get_args(BuiltFrom)}
        assert count_built_from(catalog) == {name: count for name, count in expected.items() if count}
        assert sum(count_built_from(catalog, np.array([0, 1])).values()) == 2
        view = catalog[[len(catalog) - 3, 0]]
        assert sum(count_built_from(view).values()) == sum(entry.info.kind == "video" for entry in view)


def test_every_built_from_has_a_description() -> None:
    assert set(BUILT_FROM_IN_WORDS) == set(get_args(BuiltFrom))


def test_without_frame_tables_nothing_is_counted(folder: Path, tmp_path: Path) -> None:
    assert count_built_from(scan(folder, depth="header", workers=0)) == {}
    scan(folder, workers=0, out=tmp_path / "cat.parquet")
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "cat.parquet", tmp_path / "elsewhere")
    assert count_built_from(Catalog.open(tmp_path / "elsewhere" / "cat.parquet", root=tmp_path)) == {}


def test_damaged_tables_are_an_error_of_ours(folder: Path, tmp_path: Path) -> None:
    scan(folder, workers=0, out=tmp_path / "cat.parquet")
    path = tmp_path / "cat.frames.arrow"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 20).tolist():
            data[at] = int(rng.integers(256))
        path.write_bytes(data)
        try:
            counts = count_built_from(Catalog.open(tmp_path / "cat.parquet"))
        except UnreadableMedia:
            continue
        assert all(count >= 0 for count in counts.values())
