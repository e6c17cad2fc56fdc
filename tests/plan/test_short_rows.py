"""Videos that are shorter than a rule's clips: one warning counts them, and its filter leaves them out."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from PIL import Image

import framefeed as ff
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.makers import plan_over

SIZE = (16, 24)
LENGTHS = (5, 10, 20, 21, 40)
"""Frames at 10 a second."""
RULES = (
    ff.Dense(3, fps=1),
    ff.Dense(3, fps=1, start=0.3),
    ff.Dense(4, stride=5),
    ff.Dense(4, stride=5, policy="wrap"),
    ff.Rates([(2, 2), (4, 3)]),
    ff.Rates([(1, 1), (5, 4)], start=0.2, policy="wrap"),
)
pytestmark = pytest.mark.filterwarnings("error")


@cache
def paths() -> list[str]:
    return [str(clip_file(f"short_{n}.mp4", ClipSpec(num_frames=n, fps=10, width=96, height=64))) for n in LENGTHS]


def plan_and_warnings(catalog: ff.Catalog, rule: Any, **options: Any) -> tuple[ff.EpochPlan, list[str]]:
    """The plan of a rule, and the warnings of short videos."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = plan_over(catalog, rule, **{"size": SIZE, "shuffle": False, **options})
    return plan, [str(each.message) for each in caught if "shorter" in str(each.message)]


def repeats(plan: ff.EpochPlan, position: int) -> bool:
    """Whether frames of a clip repeat in all of some epochs."""
    return all(not plan.with_epoch(epoch)[position].valid.all() for epoch in range(8))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("has_pictures", [False, True])
def test_the_warning_counts_what_repeats_and_its_filter_leaves_it_out(
    rule: Any, has_pictures: bool, tmp_path: Path
) -> None:
    Image.fromarray(np.zeros((64, 96, 3), np.uint8)).save(tmp_path / "a.png")
    catalog = ff.scan([*paths(), *([tmp_path / "a.png"] if has_pictures else [])], workers=0)
    plan, (message,) = plan_and_warnings(catalog, rule)
    short = [row for row in range(len(LENGTHS)) if repeats(plan, row)]
    assert 0 < len(short) < len(LENGTHS)
    assert message.startswith(f"{len(short)} of {len(LENGTHS)} videos are shorter than this rule's ")
    assert ("no random start" in message) == rule.is_random
    assert plan.describe().short_videos == len(short)
    assert f"videos shorter than a clip: {len(short)} " in str(plan.describe())
    (told,) = re.findall(r"To leave them out: import pyarrow.compute; catalog = (catalog\.filter\(.*\));", message)
    longer = eval(told, {"catalog": catalog, "pyarrow": pa})  # noqa: S307 - what users are told to write
    assert [each.source for each in longer] == [each.source for row, each in enumerate(catalog) if row not in short]
    assert plan_and_warnings(longer, rule)[1] == []


def test_the_readmes_rule_on_ten_seconds() -> None:
    catalog = ff.scan(clip_file("short_10s.mp4", ClipSpec(num_frames=50, fps=5)), workers=0)
    _, (message,) = plan_and_warnings(catalog, ff.Rates([(1.0, 8), (2.0, 8)]))
    assert message.startswith("1 of 1 videos are shorter than this rule's 11.5 s: no random start, their last frame re")
    assert message.endswith("). Ask for shorter clips")
    assert plan_and_warnings(catalog, ff.Rates([(1.0, 4), (2.0, 8)]))[1] == []


def test_rules_that_fit_or_have_no_length_or_raise_warn_of_nothing() -> None:
    catalog = ff.scan(paths(), workers=0)
    for rule in (ff.Dense(2, fps=5), ff.Dense(1), ff.Uniform(99), ff.RandomSegments(99), ff.AtSeconds([3.0])):
        assert plan_and_warnings(catalog, rule)[1] == []
    assert plan_and_warnings(catalog, ff.Dense(3, fps=1, policy="error"))[1] == []


def test_windows_are_as_short_as_they_are() -> None:
    ends = pa.array([None, 0.5, 1.0, None, 3.0], pa.float64())
    catalog = ff.scan(pa.table({"path": paths(), "start": [0.0, 0.0, 0.0, 1.5, 0.5], "end": ends}), workers=0)
    plan, (message,) = plan_and_warnings(catalog, ff.Dense(3, fps=2), within=("start", "end"))
    assert [repeats(plan, row) for row in range(5)] == [True, True, True, True, False]
    assert message.startswith("4 of 5 videos")


def test_parts_and_streams_count_theirs() -> None:
    catalog = ff.scan(paths(), workers=0)
    plan, _ = plan_and_warnings(catalog, ff.Dense(3, fps=1))
    other, _ = plan_and_warnings(catalog, ff.Dense(3, fps=1), seed=1)
    assert ff.mix_plans([(plan, 1), (other, 1)], num_clips=9, seed=0).describe().short_videos == 6
    with pytest.warns(UserWarning, match="3 of 5 videos are shorter"):
        streams = ff.plan_clips(
            None, ff.Dense(3, fps=1), streams={"a": catalog, "b": catalog}, on="stem", seed=0, size=SIZE
        )
    assert streams.describe().short_videos == 3
