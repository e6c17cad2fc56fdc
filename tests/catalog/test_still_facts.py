"""The index that a catalog makes of a picture's row is the one that its file has."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from framefeed.catalog import Catalog
from framefeed.catalog import _still_facts as still_facts
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.catalog.synthetic import same
from tests.pictures.made import made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of every kind, a video, and a file that fails."""
    folder = tmp_path_factory.mktemp("mixed")
    for name, data in made().items():
        (folder / name.replace(" ", "_").replace("/", "_")).write_bytes(data)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    write_clip(folder / "video.mp4", ClipSpec(num_frames=5))
    old = folder / "P.bmp"
    os.utime(old, ns=(-1_500_000_000, -1_500_000_000))
    return folder


@cache
def index_of(path: str) -> FrameIndex:
    return build_index(path)


def check_rows(catalog: Catalog) -> None:
    failed = set(catalog.failed_rows.tolist())
    for row in [*range(len(catalog)), *range(len(catalog))]:
        if row in failed:
            with pytest.raises(UsageError, match="has no frame index"):
                catalog.frame_index(row)
        else:
            assert same(catalog.frame_index(row), index_of(str(catalog.source(row))))


@pytest.mark.parametrize("most_recent", [1, 1024])
def test_rows_have_the_indexes_of_their_files(
    folder: Path, tmp_path: Path, most_recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(still_facts, "_MOST_RECENT", most_recent)
    catalog = scan(folder, out=tmp_path / "cat.parquet", workers=0)
    assert 0 < len(catalog.failed_rows) < len(catalog)
    check_rows(catalog)
    opened = Catalog.open(tmp_path / "cat.parquet")
    check_rows(opened)
    check_rows(opened.take(np.arange(len(opened))[::-2]))
