"""Packed columns: exact for every int64, small where there is a pattern, and never more than a little over plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog._frame_numbers import DELTA, PLAIN, RAMP, ByteCursor, Damaged, pack

ORDERS = st.sampled_from([(), (PLAIN,), (DELTA,), (RAMP,), (RAMP, DELTA), (DELTA, PLAIN), (PLAIN, DELTA, RAMP)])
EXTREME = st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1, 2**31, -(2**31), 2**62])
WORDS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def columns(draw: st.DrawFn) -> np.ndarray:
    """A pattern with a few numbers that do not fit into it, or no pattern at all."""
    length = draw(st.integers(0, 80))
    kind = draw(st.sampled_from(["any", "narrow", "even", "ramp", "constant"]))
    if kind in ("any", "narrow"):
        bits = 64 if kind == "any" else draw(st.integers(1, 40))
        low = -(2**63) if kind == "any" else draw(st.integers(-(2**60), 2**60))
        high = low + 2**bits - 1
        return np.array(draw(st.lists(st.integers(low, high), min_size=length, max_size=length)), np.int64)
    first, step = draw(WORDS), draw(st.one_of(EXTREME, st.integers(-5000, 5000)))
    step = {"even": step, "ramp": 1, "constant": 0}[kind]
    words = np.arange(length, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(first % 2**64)
    values = words.view(np.int64)
    for place, value in draw(st.dictionaries(st.integers(0, max(0, length - 1)), WORDS, max_size=5)).items():
        values[place : place + 1] = value
    return values


def unpacked(data: bytes, count: int) -> np.ndarray:
    cursor = ByteCursor(memoryview(data))
    values = cursor.column(count)
    assert cursor.offset == len(data)
    return values


@given(columns(), ORDERS)
def test_every_column_comes_back(values: np.ndarray, orders: tuple[int, ...]) -> None:
    data = pack(values, *orders)
    read = unpacked(data, len(values))
    assert read.dtype == np.int64
    assert read.tolist() == values.tolist()
    assert read.flags.owndata or read.base.flags.owndata
    assert len(data) <= 8 * len(values) + 17
    for length in range(len(data)):
        with pytest.raises(Damaged):
            ByteCursor(memoryview(data[:length])).column(len(values))


@pytest.mark.parametrize(
    ("values", "order", "most"),
    [
        (1001 * np.arange(300) - 5, DELTA, 13),
        (np.full(300, -(2**63)), DELTA, 13),
        (np.arange(300), RAMP, 1),
        (np.full(300, 512), PLAIN, 5),
        (np.arange(300) + np.tile([0, 2, -1, -1, 0, 0], 50), RAMP, 160),
        (np.where(np.arange(300) == 299, 511, 512), PLAIN, 40),
        (np.where(np.arange(300) % 43 == 7, 70_000, 0), PLAIN, 45),
        (33 * np.arange(300) + np.arange(300) // 3, DELTA, 60),
    ],
)  # fmt: skip
def test_patterns_take_few_bytes(values: np.ndarray, order: int, most: int) -> None:
    data = pack(values, order)
    assert len(data) <= most
    assert np.array_equal(unpacked(data, 300), values)


@given(st.binary(max_size=60), st.integers(0, 100))
def test_foreign_bytes_give_an_error_or_numbers(data: bytes, count: int) -> None:
    cursor = ByteCursor(memoryview(data))
    try:
        values = cursor.column(count)
    except Damaged:
        return
    assert (values.dtype, values.shape) == (np.int64, (count,))
    assert cursor.offset <= len(data)
