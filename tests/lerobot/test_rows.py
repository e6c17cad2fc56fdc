"""Rows by position, clamping and gathering agree with a reader of one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog import ListColumn
from framefeed.lerobot._rows import ChosenRows, DeltaColumn, PadColumn, PictureRows, Spans

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any)
DELTAS = st.lists(st.integers(-8, 8), min_size=1, max_size=4)


def starts_of(lengths: list[int]) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


@given(LENGTHS, DELTAS)
def test_rows_are_clamped_to_their_episode(lengths: list[int], deltas: list[int]) -> None:
    starts, steps = starts_of(lengths), np.array(deltas, np.int64)
    spans, values = Spans(starts), np.arange(starts[-1] * 2).reshape(-1, 2)
    column, pads = DeltaColumn(values, spans=spans, deltas=steps), PadColumn(spans, steps)
    rows, expected, expected_pads = [], [], []
    for episode, length in enumerate(lengths):
        first = int(starts[episode])
        for row in range(first, first + length):
            moved = [row + delta for delta in deltas]
            clamped = [min(max(each, first), first + length - 1) for each in moved]
            rows.append(row)
            expected.append(values[clamped])
            expected_pads.append([a != b for a, b in zip(moved, clamped, strict=True)])
    lines = np.array(rows)
    assert np.array_equal(column[lines], expected)
    assert np.array_equal(pads[lines], expected_pads)
    assert np.array_equal([column[row] for row in rows], expected)
    assert np.array_equal([pads[row] for row in rows], expected_pads)
    assert (column.shape, pads.shape) == ((len(rows), len(deltas), 2), (len(rows), len(deltas)))
    assert len(column) == len(rows)


@given(LENGTHS, st.data())
def test_positions_are_the_rows_of_chosen_episodes(lengths: list[int], data: st.DataObject) -> None:
    starts = starts_of(lengths)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, len(lengths) - 1), min_size=1))), np.int64)
    files = np.arange(len(chosen)) + 10
    rows = ChosenRows.of(starts, chosen, files)
    expected = [(int(file), row, row) for file, episode in zip(files, chosen, strict=True)
                for row in range(starts[episode], starts[episode + 1])]  # fmt: skip
    positions = np.arange(len(rows))
    assert [rows.locate_one(position) for position in range(len(rows))] == expected
    assert [*zip(*rows.locate(positions), strict=True)] == expected
    assert rows.find_rows(positions).tolist() == [row for row, _, _ in expected]
    delta = data.draw(st.integers(-7, 7))
    pictures = PictureRows(rows, delta)
    first_of = {int(row): position for position, (_, row, _) in enumerate(expected)}
    clamped = Spans(starts).clamp(np.array([row for _, row, _ in expected], np.int64), np.array([delta]))[0][:, 0]
    assert pictures.find_rows(positions).tolist() == [first_of[row] for row in clamped.tolist()]
    assert [pictures.locate_one(position)[2] for position in range(len(rows))] == [row for _, row, _ in expected]
    assert list(pictures.locate(positions).lines) == [row for _, row, _ in expected]


def test_an_empty_episode_has_no_position() -> None:
    rows = ChosenRows.of(starts_of([2, 0, 3]), np.arange(3), np.array([10, 11, 12]))
    assert [rows.locate_one(position)[:2] for position in range(len(rows))] == [
        (10, 0),
        (10, 1),
        (12, 2),
        (12, 3),
        (12, 4),
    ]


def test_columns_are_copies() -> None:
    values = np.arange(4)
    column = ListColumn(values)
    taken = column[np.array([1, 2])]
    taken[:] = 9
    assert values.tolist() == [0, 1, 2, 3]
    assert (column.dtype, column.shape) == (values.dtype, (4,))


@pytest.mark.parametrize("rows", [[3, 1], [], [2, 2, 2]])
def test_any_rows_in_any_order(rows: list[int]) -> None:
    spans, steps = Spans(np.array([0, 4])), np.array([0, 1])
    taken = DeltaColumn(np.arange(4), spans=spans, deltas=steps)[np.array(rows, np.int64)]
    assert taken.tolist() == [[row, min(row + 1, 3)] for row in rows]
