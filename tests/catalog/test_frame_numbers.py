"""Packed columns: exact for every int64, small where there is a pattern, and never more than a little over plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog._frame_numbers import ByteCursor, Damaged, bound_packed_bytes, compress, decompress, pack

EXTREME = st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1, 2**31, -(2**31), 2**62])
WORDS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def columns(draw: st.DrawFn) -> np.ndarray:
    """A pattern with a few numbers that do not fit into it, or no pattern at all."""
    length = draw(st.integers(0, 80))
    kind = draw(st.sampled_from(["any", "narrow", "even", "constant"]))
    if kind in ("any", "narrow"):
        bits = 64 if kind == "any" else draw(st.integers(1, 40))
        low = -(2**63) if kind == "any" else draw(st.integers(-(2**60), 2**60))
        high = low + 2**bits - 1
        return np.array(draw(st.lists(st.integers(low, high), min_size=length, max_size=length)), np.int64)
    first, step = draw(WORDS), draw(st.one_of(EXTREME, st.integers(-5000, 5000)))
    step = {"even": step, "constant": 0}[kind]
    words = np.arange(length, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(first % 2**64)
    values = words.view(np.int64)
    for position, value in draw(st.dictionaries(st.integers(0, max(0, length - 1)), WORDS, max_size=5)).items():
        values[position : position + 1] = value
    return values


@given(columns())
def test_every_column_comes_back(values: np.ndarray) -> None:
    data = pack(values)
    cursor = ByteCursor(memoryview(data))
    read = cursor.column(len(values))
    assert cursor.offset == len(data)
    assert read.dtype == np.int64
    assert read.tolist() == values.tolist()
    read += 1
    assert len(data) <= bound_packed_bytes([len(values)])
    for length in range(len(data)):
        with pytest.raises(Damaged):
            ByteCursor(memoryview(data[:length])).column(len(values))


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (1001 * np.arange(300) - 5, 17),
        (np.full(300, -(2**63)), 17),
        (np.arange(300) + np.tile([0, 2, -1, -1, 0, 0], 50), 309),
        (np.where(np.arange(300) == 299, 511, 512), 601),
        (33 * np.arange(300) + np.arange(300) // 3, 309),
        (10**15 + np.arange(300) ** 2, 607),
    ],
)  # fmt: skip
def test_patterns_take_few_bytes(values: np.ndarray, most: int) -> None:
    assert len(pack(values)) <= most


@given(st.binary(max_size=60), st.integers(0, 100))
def test_foreign_bytes_give_an_error_or_numbers(data: bytes, count: int) -> None:
    cursor = ByteCursor(memoryview(data))
    try:
        values = cursor.column(count)
    except Damaged:
        return
    assert values.shape == (count,)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_not_decompressed(data: bytes) -> None:
    with pytest.raises(Damaged):
        decompress(memoryview(data), 1000)


def test_a_claim_of_many_bytes_is_refused_before_they_are_allocated() -> None:
    data = compress([bytes(10_000)])
    with pytest.raises(Damaged, match="claim 10000 bytes, more than 9999"):
        decompress(memoryview(data), 9_999)
    assert len(decompress(memoryview(data), 10_000).data) == 10_000
