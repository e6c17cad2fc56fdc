"""Braces in the names of shards."""

from __future__ import annotations

import pytest

from framefeed.errors import UsageError
from framefeed.scanning import expand_braces

WIDE = [f"t-{n:06}.tar" for n in range(100)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("t-{000000..000099}.tar", WIDE),
        ("t-{000099..000000}.tar", WIDE[::-1]),
        ("{8..11}", ["8", "9", "10", "11"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{9..010}", ["009", "010"]),
        ("{0..2}", ["0", "1", "2"]),
        ("{0..10}", [str(number) for number in range(11)]),
        ("{10..0}", [str(number) for number in range(10, -1, -1)]),
        ("{00..2}", ["00", "01", "02"]),
        ("{5..5}", ["5"]),
        ("{0..1}/{a,b}.tar", ["0/a.tar", "0/b.tar", "1/a.tar", "1/b.tar"]),
        ("{train,val}", ["train", "val"]),
        ("a{,b}", ["a", "ab"]),
        ("s3://b/{1..2}?x={y}", ["s3://b/1?x={y}", "s3://b/2?x={y}"]),
        ("plain.tar", ["plain.tar"]),
        ("{label}.tar", ["{label}.tar"]),
        ("{}", ["{}"]),
        ("a{b", ["a{b"]),
        ("a}b{c", ["a}b{c"]),
        ("{{0..1}}", ["{0}", "{1}"]),
        ("", [""]),
    ],
)
def test_names(pattern: str, names: list[str]) -> None:
    assert expand_braces(pattern) == names


@pytest.mark.parametrize(
    "pattern", ["{a..c}", "{0..9..3}", "{-1..3}", "{1..}", "{..}", "{1.. 2}", "{²..3}", "{1..%s}" % ("9" * 19)]
)
def test_ranges_that_are_not_of_two_numbers_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="expected two numbers"):
        expand_braces(pattern)


def test_a_million_names_are_expanded_and_no_more() -> None:
    assert len(expand_braces("{0..999}{000..999}")) == 10**6
    for pattern in ("{0..1000000}", "{0..999}{0..999}{0,1}", "{0..999999999999999999}" * 50, "{1000000..0}"):
        with pytest.raises(UsageError, match="1000000 at most are expanded"):
            expand_braces(pattern)
