from __future__ import annotations

import argparse
from fractions import Fraction

import pytest

from framefeed.cli._arguments import (
    Parser,
    at_least,
    duration,
    indices,
    joined_numbers,
    rates,
    rectangle,
    size,
    times,
    workers,
)
from framefeed.errors import UsageError


def test_lists() -> None:
    assert times("1.5, 2,0.1") == (Fraction(3, 2), 2, Fraction(1, 10))
    assert indices("0,-1,+7") == (0, -1, 7)
    assert rates("1:8,2.5:4,30000/1001:2") == ((1, 8), (Fraction(5, 2), 4), (Fraction(30000, 1001), 2))
    assert size("224") == 224
    assert size("112x160") == (112, 160)
    assert workers("auto") is None
    assert workers("0") == 0
    assert duration("12.5") == 12.5
    assert at_least(1)("16") == 16


@pytest.mark.parametrize("text", ["", ",", "1,", "x", "nan", "inf", "-inf", "1e13", "1e99999999999", "0x10"])
def test_no_times(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected times in seconds"):
        times(text)


@pytest.mark.parametrize(
    "text", ["", "1", "1:", ":8", "1:8:2", "1/0:8", "x:8", "1:x", "1:8,", "nan:8", "1/2/3:8", "0:4", "1:0"]
)
def test_no_rates(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected FPS:FRAMES"):
        rates(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "1x", "x1", "1x0", "1x1x1", "1.5", "big"])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected the short side"):
        size(text)
    with pytest.raises(argparse.ArgumentTypeError, match="expected HEIGHTxWIDTH, such as 224x320, or one number for"):
        rectangle(text)


def test_one_number_for_both_sides() -> None:
    assert (rectangle("64"), rectangle("64x32")) == ((64, 64), (64, 32))


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1" * 5000, "nan"])
def test_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected an integer of at least 0"):
        at_least(0)(text)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "x"])
def test_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number of milliseconds"):
        duration(text)


def test_lists_that_begin_with_a_minus() -> None:
    assert joined_numbers(["clip", "--indices", "-2,-1", "-o", "x"]) == ["clip", "--indices=-2,-1", "-o", "x"]
    assert joined_numbers(["--at", "-.5,1"]) == ["--at=-.5,1"]
    assert joined_numbers(["--json", "-o", "-1"]) == ["--json", "-o", "-1"]


def test_a_wrong_word_raises() -> None:
    with pytest.raises(UsageError, match=r"x: unknown option --no \('x --help' lists all options\)"):
        Parser(prog="x").parse_args(["--no"])
    parser = Parser(prog="x")
    parser.add_argument("--long-name", action="store_true")
    with pytest.raises(UsageError):
        parser.parse_args(["--long"])
