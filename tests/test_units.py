from __future__ import annotations

import doctest
import re
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed import _units
from framefeed._units import UNITS, format_bytes, format_number, format_seconds, format_share, parse_bytes
from framefeed.errors import UsageError


@pytest.mark.parametrize(
    ("size", "count"),
    [("200GB", 200 * 10**9), ("200 gb", 200 * 10**9), ("64MiB", 64 << 20), ("1.5kB", 1500), ("1.5KiB", 1536),
     ("4096", 4096), (" 7 B ", 7), ("2TB", 2 * 10**12), ("2TiB", 2 << 40), ("0.5MB", 500_000), (17, 17),
     (10**30, 10**30)],
)  # fmt: skip
def test_sizes_are_read(size: str | int, count: int) -> None:
    assert parse_bytes(size) == count
    assert type(parse_bytes(size)) is int


NO_SIZES = [
    *["", "GB", "-1GB", "1e9", "1.GB", "1,5GB", "200 Gb/s", "200G", "1 iB", "1  GB", "0.1", "0.0004kB", "nan", "inf"],
    *["9" * 5000, "1GB\n2", "\u0661GB", "0", 0, -1, True, 1.5, None, b"1GB"],
]


@pytest.mark.parametrize("size", NO_SIZES, ids=range(len(NO_SIZES)))
def test_text_that_is_no_size_is_refused(size: object) -> None:
    with pytest.raises(UsageError, match="expected a size"):
        parse_bytes(size)  # type: ignore[arg-type]


def test_integers_of_numpy_are_sizes() -> None:
    assert parse_bytes(np.int64(17)) == 17


def test_units_are_powers_of_1000_and_of_1024() -> None:
    for unit, factor in UNITS.items():
        assert parse_bytes(f"3{unit}") == 3 * factor
        assert parse_bytes(f"3{unit.lower()}") == 3 * factor


NOT_FINITE = [(nan, "–"), (inf, "–")]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.0125, "0.0125"), (12.5, "12.5"), (99.96, "100"), (1920.4, "1,920"), (1e-9, "1e-9"), *NOT_FINITE],
)
def test_numbers_have_three_digits_or_all_of_their_whole_part(number: float, text: str) -> None:
    assert format_number(number) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1 kB"), (80_000, "80 kB"), (999_400, "999 kB"),
     (999_600, "1 MB"), (1_234_567, "1.23 MB"), (123_456_789, "123 MB"), (2_345_678_900_000, "2.35 TB"),
     (3e15, "3 PB"), (4e18, "4,000 PB"), *NOT_FINITE],
)  # fmt: skip
def test_sizes_as_text(count: float, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(1, 10**16))
def test_a_size_as_text_is_read_as_nearly_the_same_size(count: int) -> None:
    text = format_bytes(count).replace(",", "").replace(" bytes", "").replace(" byte", "")
    assert parse_bytes(text) == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.00024, "0.24 ms"), (0.0994, "99.4 ms"), (0.0996, "0.0996 s"), (0.1, "0.1 s"), (0.4237, "0.424 s"),
     (12.34, "12.3 s"), (59.94, "59.9 s"), (59.96, "1 min"), (60, "1 min"), (65.2, "1 min 05 s"), (200, "3 min 20 s"),
     (3599.4, "59 min 59 s"), (3599.6, "1 h"), (3723, "1 h 02 min"), (7200, "2 h"), (7500, "2 h 05 min"),
     (604_800, "168 h"), (3_600_100, "1,000 h"), *NOT_FINITE],
)  # fmt: skip
def test_durations_as_text(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_the_examples_run() -> None:
    assert doctest.testmod(_units).failed == 0


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 1))
def test_a_share_is_0_only_of_nothing_and_100_only_of_all(part: int, rest: int, decimals: int) -> None:
    shown = format_share(part, part + rest, decimals=decimals)
    assert (shown in {"0 %", "0.0 %"}) == (part == 0)
    assert shown not in {"100 %", "100.0 %"}
    assert format_share(part + rest, part + rest, decimals=decimals) == "100 %"


@pytest.mark.parametrize(
    ("part", "whole", "decimals", "shown"),
    [(0, 0, 1, "0 %"), (1, 3, 1, "33.3 %"), (1, 10**6, 1, "< 0.1 %"), (10**6 - 1, 10**6, 1, "> 99.9 %"),
     (5, 10_000, 1, "0.1 %"), (2, 3, 0, "67 %"), (1, 1000, 0, "< 1 %"), (999, 1000, 0, "> 99 %"), (0.25, 1, 0, "25 %")],
)  # fmt: skip
def test_shares(part: float, whole: float, decimals: int, shown: str) -> None:
    assert format_share(part, whole, decimals=decimals) == shown


def test_format_share_alone_writes_shares() -> None:
    written = re.compile(r":[^{}:]*%\}")
    package = Path(_units.__file__).parent
    found = [path for path in package.rglob("*.py") if written.search(path.read_text(encoding="utf-8"))]
    assert found == []
