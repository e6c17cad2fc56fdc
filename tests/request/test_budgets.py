"""`PixelBudget` and `Cover`: sizes as the processors of video language models give them, and boxes in the middle."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.request import ClipContext, Cover, OutputSpec, PictureRule, PixelBudget
from tests.vlm.golden import read_golden

GOLDEN = read_golden()


def budget_of(name: str) -> PixelBudget:
    """The budget that says the sizes of a recorded processor."""
    facts = GOLDEN["processors"][name]["attributes"]
    shortest, longest = facts["size"]["shortest_edge"], facts["size"]["longest_edge"]
    multiple, capped = facts["patch_size"] * facts["merge_size"], facts.get("cap_pixels_per_frame")
    if name.startswith("qwen2"):
        total = int(facts["max_video_tokens"] * multiple**2 * 0.9) * 2 if capped else None
        return PixelBudget(multiple, shortest, longest, max_total=total)
    most = facts["max_video_tokens"] * multiple**2 if capped else None
    return PixelBudget(multiple, max_pixels=most, min_total=shortest, max_total=longest)


def explain(name: str, length: int, height: int, width: int, given: list[Any], own: tuple[int, int]) -> str:
    """Say why a size may differ from the recorded one: equal, or one of three causes of theirs."""
    if list(own) == given:
        return "equal"
    if length % 2 and not name.startswith("qwen2"):
        return "an odd number of frames, which `WholeVideo(multiple=2)` never gives"
    multiple = GOLDEN["processors"][name]["attributes"]["patch_size"] * 2
    if min(height, width) < multiple:
        return "a side under one multiple"
    return "differs"


@pytest.mark.parametrize("name", [name for name in GOLDEN["sizes"] if name.startswith(("qwen", "glm"))])
def test_sizes_are_those_of_the_recorded_processors(name: str) -> None:
    budget, causes = budget_of(name), Counter[str]()
    for length, height, width, *recorded in GOLDEN["sizes"][name]:
        try:
            own = budget.for_frames(length).fit(height, width)[0]
        except UsageError:
            assert max(height, width) > 200 * min(height, width)
            assert isinstance(recorded[0], str) or min(height, width) < budget.multiple
            continue
        if isinstance(recorded[0], str):
            assert length == 1 or max(height, width) > 200 * min(height, width), recorded
            continue
        causes[explain(name, length, height, width, recorded, own)] += 1
    assert not causes["differs"], causes
    assert causes["equal"] >= 40, causes


@pytest.mark.parametrize("case", GOLDEN["qwen_vl_utils"]["smart_resize"], ids=str)
def test_sizes_are_those_of_qwen_vl_utils(case: list[Any]) -> None:
    height, width, factor, limits, *given = case
    limits = {"min_pixels": 4 * factor**2, "max_pixels": 16384 * factor**2, **limits}
    try:
        own = PixelBudget(factor, int(limits["min_pixels"]), int(limits["max_pixels"])).fit(height, width)[0]
    except UsageError:
        assert isinstance(given[0], str)
        return
    if isinstance(given[0], int) and 0 not in given:  # theirs gives sides of 0
        assert list(own) == given


@given(
    height=st.integers(1, 9000),
    width=st.integers(1, 9000),
    multiple=st.sampled_from([1, 14, 16, 28, 32, 48]),
    least=st.none() | st.integers(1, 10**6),
    more=st.none() | st.integers(0, 10**7),
    length=st.sampled_from([1, 2, 7, 64, 768]),
)
def test_a_budget_is_kept_where_it_can_be(
    height: int, width: int, multiple: int, least: int | None, more: int | None, length: int
) -> None:
    most = None if more is None else (least or 0) + more + 1
    budget = PixelBudget(multiple, min_total=least, max_total=most).for_frames(length)
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(UsageError, match="max_ratio"):
            budget.fit(height, width)
        return
    rows, columns = budget.fit(height, width)[0]
    assert rows % multiple == columns % multiple == 0 < min(rows, columns)
    if most is not None and min(rows, columns) > multiple:
        assert length * rows * columns <= max(most, length * (least or 0) / length * 1.0001)
    elif least is not None and most is None:
        assert length * rows * columns >= least * 0.999999


def test_a_clip_of_more_frames_has_smaller_pictures() -> None:
    rule = PictureRule(PixelBudget(32, min_total=4096, max_total=25_165_824))
    assert rule.for_frames(64).output(720, 1280, ClipContext(0, 0, 0)).size == (448, 832)
    assert rule.for_frames(16).output(720, 1280, ClipContext(0, 0, 0)).size == (704, 1280)
    with pytest.raises(UsageError, match="depends on the number of frames"):
        rule.decoder_output(720, 1280)
    assert PictureRule(PixelBudget(28, max_pixels=200_000)).decoder_output(720, 1280).size == (308, 588)


@pytest.mark.parametrize(
    "options",
    [{"multiple": 0}, {"multiple": 28, "min_pixels": 0}, {"multiple": 28, "min_pixels": 9, "max_pixels": 8},
     {"multiple": 28, "min_total": 9, "max_total": 8}, {"multiple": 28, "max_ratio": 0.5},
     {"multiple": 28, "max_pixels": 1.5}],
)  # fmt: skip
def test_wrong_budgets_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        PixelBudget(**options)


def test_a_budget_beyond_the_largest_side_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 65535 a side"):
        PixelBudget(28, min_pixels=10**10).fit(100, 200)


def test_limits_of_a_clip_are_those_of_its_pictures() -> None:
    some = (None, 900, 100_000), (None, 2000, 100_000), (None, 10**4, 10**7), (None, 10**5, 10**7), (1, 3, 64)
    for least, most, least_total, most_total, length in itertools.product(*some):
        if (least or 0) > (most or 10**9) or (least_total or 0) > (most_total or 10**9):
            continue
        budget = PixelBudget(14, least, most, least_total, most_total, max_ratio=3)
        assert budget.needs_frames == (least_total is not None or most_total is not None)
        own = budget.for_frames(length)
        assert (own.multiple, own.max_ratio, own.needs_frames) == (14, 3, False)
        upper = min([each for each in (most, most_total and Fraction(most_total, length)) if each], default=None)
        if least is not None and most_total is not None:
            assert upper is not None
            upper = max(upper, int(least * 1.05))
        lower = max([each for each in (least, least_total and Fraction(least_total, length)) if each], default=None)
        assert own.max_pixels == upper
        assert own.min_pixels == (lower if lower is None or upper is None else min(lower, upper))


def test_a_picture_of_as_many_pixels_as_a_limit_is_not_scaled() -> None:
    for height, width in np.random.default_rng(0).integers(20, 900, (200, 2)).tolist():
        rows, columns = PixelBudget(28).fit(height, width)[0]
        for limits in ({"max_pixels": rows * columns}, {"min_pixels": rows * columns}):
            assert PixelBudget(28, **limits).fit(height, width)[0] == (rows, columns)


@pytest.mark.parametrize("turn", [1, -1])
def test_the_largest_side_is_allowed_and_no_larger_one(turn: int) -> None:
    assert PixelBudget(4369).fit(*(65_535, 9000)[::turn])[0] == (65_535, 8738)[::turn]
    with pytest.raises(UsageError, match="at most 65535 a side"):
        PixelBudget(1).fit(*(65_536, 9000)[::turn])


@pytest.mark.parametrize("limits", [{"max_pixels": Fraction(0)}, {"min_pixels": Fraction(-1, 3)}], ids=str)
def test_fractions_of_no_pixels_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="_pixels: expected a number above 0"):
        PixelBudget(28, **limits)


@given(
    height=st.integers(1, 3000), width=st.integers(1, 3000), rows=st.integers(1, 999), columns=st.integers(1, 999)
)  # fmt: skip
def test_cover_takes_the_largest_box_in_the_middle(height: int, width: int, rows: int, columns: int) -> None:
    size, (top, left, box_rows, box_columns) = Cover(rows, columns).fit(height, width)
    assert size == (rows, columns)
    assert box_rows == height or box_columns == width
    assert 0 <= height - box_rows - 2 * top <= 1
    assert 0 <= width - box_columns - 2 * left <= 1
    if min(box_rows, box_columns) > 1:  # rounded to a whole pixel
        assert abs(box_rows * columns - box_columns * rows) <= max(rows, columns) / 2


def test_cover_is_a_size_of_plans_and_decoders() -> None:
    assert Cover(224) == Cover(224, 224) == Cover((224, 224))
    assert PictureRule(Cover(48, 64)).common == (48, 64)
    assert PictureRule(Cover(48, 64)).decoder_output(96, 200) == OutputSpec(
        (48, 64), (0, 36, 96, 128), still_quality="exact"
    )
    assert not PictureRule(Cover(48, 64)).takes_any_size
    heights, widths = np.array([96, 50]), np.array([200, 60])
    assert PictureRule(Cover(48, 64)).common_picture(heights, widths, str) == (48, 64)
