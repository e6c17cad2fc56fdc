"""Figures of pages and the README's picture are those of benchmarks/results; goals are compared with results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks import pixels
from benchmarks.archives.suite import ROWS as ARCHIVE_ROWS
from benchmarks.cache.suite import ROWS as CACHE_ROWS
from benchmarks.decode.suite import ROWS as DECODE_ROWS
from benchmarks.figures import FILLS, OVERVIEW, PAGE, PICTURE, README, fill, find_blocks, make_pages
from benchmarks.figures import MAP as MAP_RESULTS
from benchmarks.goals import GOALS, judge, limit
from benchmarks.load.suite import ROWS as LOAD_ROWS
from benchmarks.map.suite import ROWS as MAP_ROWS
from benchmarks.pictures.suite import ROWS as PICTURE_ROWS
from benchmarks.reading import Number, read_numbers
from benchmarks.remote.suite import ROWS as REMOTE_ROWS
from benchmarks.scan.suite import ROWS as SCAN_ROWS
from benchmarks.sections.suite import SECTIONS
from framefeed.bench.cache import CACHE
from framefeed.bench.decode import DECODE


@pytest.mark.parametrize("path", [README, PAGE, PICTURE], ids=["readme", "page", "picture"])
def test_what_readers_see_is_made_from_the_results(path: Path) -> None:
    assert make_pages()[path] == path.read_text(encoding="utf-8"), "run: python -m benchmarks.figures"


@pytest.mark.parametrize(("path", "fills"), [(README, OVERVIEW), (PAGE, FILLS)], ids=["readme", "page"])
def test_a_figure_that_differs_is_seen(path: Path, fills: dict[str, Callable[[], str]]) -> None:
    text = path.read_text(encoding="utf-8")
    assert find_blocks(text) == list(fills)
    changed, count = re.subn(r"\b\d\.\d\d \(", "9.99 (", text)
    assert count
    assert fill(changed, fills) == text


def test_the_readme_has_eight_rows_and_one_picture() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(OVERVIEW["overview"]().splitlines()) == 2 + 8
    assert re.findall(r"!\[[^]]*\]\(([^)]*)\)", text) == [str(PICTURE.relative_to(README.parent))]


def test_where_others_are_ahead_is_said_and_true() -> None:
    """The README names two; the page's tables mark each row."""
    numbers = read_numbers(*MAP_RESULTS, "load-2026-11-23-memory.json")
    assert "ffmpeg copies a video faster" in README.read_text(encoding="utf-8")
    assert (numbers["map/identity/identity/wall"].high or 1) < 1
    assert "decord2 needs less memory" in README.read_text(encoding="utf-8")
    assert numbers["load/memory/framefeed, torch imported/decord2"].median > 1
    assert FILLS["map"]().count(": slower") == 2


def test_figures_of_todays_form_are_read(tmp_path: Path) -> None:
    figure = {"median": 2.0, "low": 1.5, "high": 2.5, "coverage": 0.95, "pairs": 9, "ours": "a", "against": "b"}
    row = {"key": "test-60", "comparisons": [{"key": "many files", "figures": {"CPU": figure}}]}
    report = {"bench": "decode", "rows": [row]}
    for name, document in (("one", report), ("all", {"bench": "all", "decode": report})):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        assert read_numbers(str(path)) == {"decode/test-60/many files/CPU": Number(2.0, 1.5, 2.5, "b")}


@pytest.mark.parametrize(
    ("goal", "median", "verdict"),
    [
        ({"floor": 30, "aim": 60}, 60, "met"),
        ({"floor": 30, "aim": 60}, 30, "held"),
        ({"floor": 30, "aim": 60}, 29, "MISSED"),
        ({"floor": 1500, "aim": 600, "at_most": True}, 600, "met"),
        ({"floor": 1500, "aim": 600, "at_most": True}, 1501, "MISSED"),
        ({"floor": 0, "aim": 0, "at_most": True}, 0, "met"),
    ],
)
def test_goals_are_met_held_or_missed(goal: dict[str, object], median: float, verdict: str) -> None:
    assert judge(goal, Number(median))[0] == verdict
    assert judge(goal, None)[0] == "not measured"


def test_a_bound_lowers_floor_and_aim() -> None:
    goal = {"floor": 1.4, "aim": 1.7, "bound": "b", "floor_share": 0.85, "aim_share": 0.95}
    bounds = {median: limit(goal, {"b": Number(median)}) for median in (1.2, 2.0)}
    assert {median: (of["floor"], of["aim"]) for median, of in bounds.items()} == {1.2: (1.02, 1.14), 2.0: (1.4, 1.7)}
    assert limit(goal, {}) == goal


def test_every_goal_names_a_row_of_a_suite() -> None:
    goals = json.loads(GOALS.read_text(encoding="utf-8"))
    rows = {
        "decode": {*DECODE.rows, *DECODE_ROWS},
        "scan": {*SCAN_ROWS},
        "cache": {*CACHE.rows, *CACHE_ROWS},
        "load": {*LOAD_ROWS},
        "map": {*MAP_ROWS},
        "pictures": {*PICTURE_ROWS},
        "sections": {*SECTIONS},
        "remote": {*REMOTE_ROWS},
        "archives": {*ARCHIVE_ROWS},
        "ranks": {"scan"},
    }
    assert len({goal["figure"] for goal in goals}) == len(goals)
    for goal in goals:
        suite, row, comparison, figure = goal["figure"].split("/")
        assert row.partition(":")[0] in rows[suite]
        assert comparison
        assert figure


def test_the_page_about_pixels_is_filled_from_its_results() -> None:
    text = pixels.PAGE.read_text(encoding="utf-8")
    assert find_blocks(text) == list(pixels.FILLS)
    assert fill(text, pixels.FILLS) == text, "run: python -m benchmarks.pixels"


@pytest.mark.slow
def test_the_page_about_pixels_says_what_framefeed_gives(tmp_path: Path) -> None:
    measured = json.loads(pixels.MEASURED.read_text(encoding="utf-8"))
    if measured["versions"]["PyAV"] != version("av"):
        pytest.skip(f"measured with PyAV {measured['versions']['PyAV']}")
    own = {"framefeed": pixels.read_framefeed}
    for key, measure in (
        ("colours", pixels.measure_colours), ("shapes", pixels.measure_shapes), ("stills", pixels.measure_stills)
    ):  # fmt: skip
        found = measure(str(tmp_path), own)
        assert {name: row["framefeed"] for name, row in found.items()} == {
            name: row["framefeed"] for name, row in measured[key].items()
        }
