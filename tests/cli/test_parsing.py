from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction

import pytest

from framefeed.cli._arguments import (
    Parser,
    join_negative_numbers,
    read_at_least,
    read_indices,
    read_milliseconds,
    read_rates,
    read_rectangle,
    read_size,
    read_times,
    read_workers,
)
from framefeed.errors import UsageError


def test_option_values_are_read() -> None:
    assert read_times("1.5, 2,0.1") == (Fraction(3, 2), 2, Fraction(1, 10))
    assert read_indices("0,-1,+7") == (0, -1, 7)
    assert read_rates("1:8,2.5:4,30000/1001:2") == ((1, 8), (Fraction(5, 2), 4), (Fraction(30000, 1001), 2))
    assert read_size("224") == 224
    assert read_size("112x160") == (112, 160)
    assert read_workers("auto") is None
    assert read_workers("0") == 0
    assert read_milliseconds("12.5") == 12.5
    assert read_at_least(1)("16") == 16


_NO_SIZES = ("", "0", "-1", "1x", "x1", "1x0", "1x1x1", "1.5", "big")
REFUSED: list[tuple[Callable[[str], object], str, tuple[str, ...]]] = [
    (read_times, "times in seconds",
     ("", ",", "1,", "x", "nan", "inf", "-inf", "1e13", "1e99999999999", "0x10")),
    (read_rates, "FPS:FRAMES",
     ("", "1", "1:", ":8", "1:8:2", "1/0:8", "x:8", "1:x", "1:8,", "nan:8", "1/2/3:8", "0:4", "1:0")),
    (read_size, "the short side", _NO_SIZES),
    (read_rectangle, "HEIGHTxWIDTH, such as 224x320, or one number for", _NO_SIZES),
    (read_at_least(0), "an integer of at least 0", ("", "-1", "1.5", "x", "1" * 5000, "nan")),
    (read_milliseconds, "a number of milliseconds", ("", "-1", "nan", "inf", "x")),
]  # fmt: skip


@pytest.mark.parametrize(("read", "expected", "texts"), REFUSED)
def test_other_texts_are_refused(read: Callable[[str], object], expected: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError, match=f"expected {expected}"):
            read(text)


def test_one_number_for_both_sides() -> None:
    assert (read_rectangle("64"), read_rectangle("64x32")) == ((64, 64), (64, 32))


def test_lists_that_begin_with_a_minus_join_their_option() -> None:
    assert join_negative_numbers(["clip", "--indices", "-2,-1", "-o", "x"]) == ["clip", "--indices=-2,-1", "-o", "x"]
    assert join_negative_numbers(["--at", "-.5,1"]) == ["--at=-.5,1"]
    assert join_negative_numbers(["--json", "-o", "-1"]) == ["--json", "-o", "-1"]


def test_a_wrong_word_raises() -> None:
    with pytest.raises(UsageError, match=r"^unknown option --no \('x --help' lists all options\)"):
        Parser(prog="x").parse_args(["--no"])
    parser = Parser(prog="x")
    parser.add_argument("--long-name", action="store_true")
    with pytest.raises(UsageError):
        parser.parse_args(["--long"])
