"""The made-up catalog is a catalog like any other, and plans of it travel."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scan.large import DISTINCT, make_catalog
from framefeed.catalog import Catalog
from tests.catalog.synthetic import same


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_catalog(tmp_path_factory.mktemp("made_up"), 2000, 60)


def test_its_rows_are_videos(made_up: Path) -> None:
    opened = Catalog.open(made_up)
    assert len(opened) == len(opened.usable_rows) == 2000
    assert opened.fingerprint == Catalog.open(made_up).fingerprint
    for row in (0, 63, 64, 1999):
        index = opened.frame_index(row)
        assert same(index, opened.frame_index(row % DISTINCT))
        assert sorted(index.frame_packet.tolist()) == list(range(60))
        info = opened.info(row)
        assert info is not None
        assert (info.width, info.height, info.codec) == (80, 48, "h264")
    assert opened.source(1234) == f"{made_up.parent}/videos/0000/000001234.mp4"
    assert len(set(opened.column_values("label").tolist())) > 50
    assert len(opened.split([0.9, 0.1], seed=0, stratify=False)[0]) == 1800
