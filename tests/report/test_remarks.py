"""The first section names what deserves a look with its count and the next step, and nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from framefeed.catalog import Catalog
from framefeed.report._columns import Columns
from framefeed.report._page import make_page
from framefeed.report._remarks import list_remarks
from tests.report.made import HOSTILE, Page, catalog


def facts_of(made: Catalog) -> list[str]:
    return [remark.fact for remark in list_remarks(Columns(made))]


def test_nothing_stands_out_in_a_sound_data_set() -> None:
    made = catalog(40, labels=["a"] * 31 + ["b"] * 9, duration_seconds=[2.5] * 8 + [10.0] * 32, num_damaged_frames=0)
    assert facts_of(made) == []
    text = Page(make_page(made, "T")).text
    assert text.index("What to look at") < text.index("Nothing stands out.") < text.index("Bytes, usable files")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"error_type": ["CorruptMedia"] * 2 + ["EmptyVideo"] + [None] * 17},
            "3 of 20 files failed: CorruptMedia 2, EmptyVideo 1",
        ),
        (
            {"error_type": [*"abcde", *[None] * 15]},
            "5 of 20 files failed: a 1, b 1, c 1, 2 more reasons",
        ),
        ({"num_damaged_frames": [0] * 18 + [3, 4]}, "7 damaged frames in 2 files"),
        ({"duration_seconds": [0.5, 2.4] + [10.0] * 18}, "2 of 20 videos shorter than 2.5 s"),
        ({"duration_seconds": [0.4] * 19 + [None]}, "19 of 20 videos shorter than 1 s"),
        ({"times_from": ["none"] * 4 + ["pts"] * 16}, "4 of 20 videos without times"),
        ({"is_variable_frame_rate": [True] + [False] * 19}, "1 of 20 videos with a variable frame rate"),
        ({"labels": ["a"] * 18 + [None] * 2}, "2 of 20 rows without a label"),
        ({"labels": ["a"] * 10 + ["b"] * 9 + ["c"]}, "Labels are very unequal: a has 10 rows, c has 1 row"),
        ({"labels": ["a"] * 18 + ["b", "c"]}, "Labels are very unequal: a has 18 rows, b has 1 row"),
    ],
)
def test_what_deserves_a_look_is_counted(columns: dict[str, Any], expected: str) -> None:
    made = catalog(20, **columns)
    assert facts_of(made) == [expected]
    shown = Page(make_page(made, "T"))
    assert f"{expected}." in shown.texts
    (link,) = [each["href"] for tag, each in shown.tags if tag == "a"][-1:]
    assert str(link)[1:] in {each.get("id") for _, each in shown.tags}


@pytest.mark.parametrize("has_pictures", [False, True])
def test_the_steps_that_are_code_leave_out_what_was_counted(has_pictures: bool) -> None:
    seconds = [0.7] + [7.77] * 16 + [None if has_pictures else 7.77] * 3
    made = catalog(20, labels=["a"] * 18 + [None] * 2, duration_seconds=seconds)
    short, unlabelled = (remark.step.split("`")[1] for remark in list_remarks(Columns(made)))
    names = {"catalog": made, "pyarrow": type("pyarrow", (), {"compute": pc})}
    for step, count in ((short, 19), (unlabelled, 18)):
        assert len(eval(step, names)) == count  # noqa: S307 - code of our own page


def test_pictures_are_not_short_and_an_empty_catalog_is_named() -> None:
    pictures = {"kind": "image", "num_frames": 1, "duration_seconds": None, "average_fps": None}
    assert facts_of(catalog(5, **pictures, is_variable_frame_rate=None)) == []
    assert facts_of(catalog(0)) == ["The catalog has no files"]


def test_S13_hostile_labels_are_text() -> None:
    made = catalog(20, labels=[HOSTILE[-1]] * 19 + [HOSTILE[3]])
    (fact,) = facts_of(made)
    assert "\\u202e" in fact
    assert len(fact) < 150
    assert f"{fact}." in Page(make_page(made, "T")).texts
