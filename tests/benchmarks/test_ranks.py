"""Ranks that scan at once, measured over few videos, and the figures of made-up rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ranks import compare_sides, make_media, scan_at_once


def test_figures_are_ratios_to_one_process() -> None:
    one, two, four = (
        [{"first": wall / 2, "wall": wall, "CPU": 2 * wall} for wall in walls]
        for walls in ((4, 5, 8), (4, 6, 8), (8, 5, 16))
    )
    made = compare_sides({1: one, 2: two, 4: four})
    assert [each["key"] for each in made] == ["2 ranks", "4 ranks"]
    assert made[0]["figures"]["wall"] == {"median": 1.0, "low": 1.0, "high": 1.2}
    assert made[0]["figures"]["behind"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert made[1]["figures"]["wall"] == made[1]["figures"]["CPU"] == {"median": 2.0, "low": 1.0, "high": 2.0}


@pytest.mark.test_all
def test_all_ranks_get_one_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    assert make_media(folder, seconds=0) == len(list(folder.iterdir())) == 2
    assert scan_at_once(folder, tmp_path / "cat.parquet", 2).keys() == {"first", "wall", "CPU"}
    assert {path.name for path in tmp_path.iterdir()} == {"media", "cat.parquet", "cat.frames.arrow"}
