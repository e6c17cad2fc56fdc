from __future__ import annotations

import doctest
from fractions import Fraction

import numpy as np
import pytest

from framefeed import _checks
from framefeed._checks import check_choice, check_count_or_share, check_known, is_number
from framefeed.errors import UsageError


def test_the_examples_run() -> None:
    assert doctest.testmod(_checks).failed == 0


@pytest.mark.parametrize("value", [0, 10, np.int64(3), 0.0, 0.5, 1.0])
def test_counts_and_shares_are_accepted(value: float) -> None:
    check_count_or_share("sample", value)


@pytest.mark.parametrize("value", [-1, -0.1, 1.5, float("nan"), True, "3", None, [1]])
def test_what_is_neither_a_count_nor_a_share_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"^sample: expected a count \(int\) such as 10, or a share"):
        check_count_or_share("sample", value)


def test_only_a_text_near_a_choice_gets_a_suggestion() -> None:
    check_choice("label_from", None, (None, "parent"))
    for value, end in [("parents", "; did you mean 'parent'?"), ("x", "'x'"), (3, "3"), (["parent"], "]")]:
        with pytest.raises(UsageError) as raised:
            check_choice("label_from", value, (None, "parent"))
        assert str(raised.value).startswith("label_from: expected None or 'parent', got ")
        assert str(raised.value).endswith(end)


def test_unknown_names_are_listed_with_the_known_ones() -> None:
    check_known("rows", ["table"], ("table", "exact"))
    with pytest.raises(UsageError, match=r"^rows: expected some of exact, table, got tabel; did you mean 'table'\?$"):
        check_known("rows", ["table", "tabel"], ("table", "exact"))


def test_a_bool_is_no_number() -> None:
    assert [is_number(value) for value in (1, 0.5, Fraction(1, 2), np.float32(1), True, "1", None)] == [
        True, True, True, True, False, False, False]  # fmt: skip
