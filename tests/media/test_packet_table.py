"""The table of packets: flags as columns, and copies with other flags."""

from __future__ import annotations

import numpy as np
import pytest

from framefeed._values import DISCARD, DISPOSABLE, KEY, MISSING_PTS, PacketTable
from framefeed.errors import UsageError

FLAGS = np.array([KEY, 0, DISCARD, KEY | DISCARD, DISPOSABLE], dtype=np.uint8)
NUMBERS = np.arange(5, dtype=np.int64)
TABLE = PacketTable(NUMBERS * 10, NUMBERS + 10, NUMBERS, FLAGS)


def test_each_flag_is_a_column() -> None:
    assert TABLE.is_key.tolist() == [True, False, False, True, False]
    assert TABLE.is_discarded.tolist() == [False, False, True, True, False]
    assert TABLE.is_disposable.tolist() == [False, False, False, False, True]
    assert {column.dtype for column in (TABLE.is_key, TABLE.is_discarded, TABLE.is_disposable)} == {np.dtype(bool)}


def test_a_copy_with_other_flags_keeps_what_is_discarded_and_shares_the_other_columns() -> None:
    is_key, is_disposable = NUMBERS == 1, NUMBERS == 2
    changed = TABLE.replace_flags(is_key, is_disposable)
    assert changed.flags.tolist() == [0, KEY, DISCARD | DISPOSABLE, DISCARD, DISPOSABLE]
    assert changed.flags.dtype == np.uint8
    assert all(getattr(changed, name) is getattr(TABLE, name) for name in ("offset", "size", "pts"))
    assert TABLE.flags.tolist() == FLAGS.tolist()
    assert TABLE.replace_flags(is_key).is_disposable.tolist() == TABLE.is_disposable.tolist()


@pytest.mark.parametrize(
    ("pts", "is_unique"), [([], True), ([3, 1, 2], True), ([3, 1, 3], False), ([MISSING_PTS, 1, 2], False)]
)
def test_times_are_unique_if_each_packet_has_its_own(pts: list[int], is_unique: bool) -> None:
    column = np.array(pts, dtype=np.int64)
    assert PacketTable(column, column, column, np.zeros(len(pts), np.uint8)).has_unique_times == is_unique


def test_columns_have_one_length() -> None:
    with pytest.raises(UsageError, match="four columns of one length"):
        PacketTable(NUMBERS, NUMBERS, NUMBERS[:4], FLAGS)
