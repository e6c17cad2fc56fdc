from __future__ import annotations

import numpy as np
import pytest

from framefeed._units import UNITS, format_bytes, parse_bytes
from framefeed.errors import UsageError


@pytest.mark.parametrize(
    ("size", "count"),
    [("200GB", 200 * 10**9), ("200 gb", 200 * 10**9), ("64MiB", 64 << 20), ("1.5kB", 1500), ("1.5KiB", 1536),
     ("4096", 4096), (" 7 B ", 7), ("2TB", 2 * 10**12), ("2TiB", 2 << 40), ("0.5MB", 500_000), (17, 17),
     (10**30, 10**30)],
)  # fmt: skip
def test_sizes(size: str | int, count: int) -> None:
    assert parse_bytes(size) == count
    assert type(parse_bytes(size)) is int


NO_SIZES = [
    *["", "GB", "-1GB", "1e9", "1.GB", "1,5GB", "200 Gb/s", "200G", "1 iB", "1  GB", "0.1", "0.0004kB", "nan", "inf"],
    *["9" * 5000, "1GB\n2", "\u0661GB", "0", 0, -1, True, 1.5, None, b"1GB"],
]


@pytest.mark.parametrize("size", NO_SIZES, ids=range(len(NO_SIZES)))
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(UsageError, match="expected a size"):
        parse_bytes(size)  # type: ignore[arg-type]


def test_any_whole_number() -> None:
    assert parse_bytes(np.int64(17)) == 17


def test_units_are_powers_of_1000_and_of_1024() -> None:
    for unit, factor in UNITS.items():
        assert parse_bytes(f"3{unit}") == 3 * factor
        assert parse_bytes(f"3{unit.lower()}") == 3 * factor


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_951, "1.0 MB"),
     (123_456_789, "123.5 MB"), (999_960_000, "1.0 GB"), (2_345_678_900_000, "2,345.7 GB")],
)  # fmt: skip
def test_readable(count: int, text: str) -> None:
    assert format_bytes(count) == text
