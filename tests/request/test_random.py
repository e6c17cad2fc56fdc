"""Numbers that are drawn by position: the same one by one and at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from framefeed.request import draw_numbers, hash_numbers, hash_words

_WORDS = st.integers(0, 2**64 - 1)


@given(words=st.lists(_WORDS, min_size=1, max_size=4), numbers=st.lists(st.integers(0, 2**63 - 1), max_size=9))
def test_numbers_are_hashed_as_words(words: list[int], numbers: list[int]) -> None:
    hashes = hash_numbers(hash_words(*words), np.array(numbers, dtype=np.int64))
    assert hashes.tolist() == [hash_words(*words, number) for number in numbers]


def test_draws_depend_on_seed_epoch_and_position_alone() -> None:
    positions = np.arange(4000, dtype=np.int64)
    drawn = draw_numbers(3, 1, positions)
    np.testing.assert_array_equal(draw_numbers(3, 1, positions[7:9]), drawn[7:9])
    assert len(np.unique(drawn)) == len(drawn)
    assert 0 <= drawn.min() < 0.01 < 0.99 < drawn.max() < 1
    assert np.abs(np.histogram(drawn, 10, (0, 1))[0] - 400).max() < 100
    for other in (draw_numbers(4, 1, positions), draw_numbers(3, 2, positions)):
        assert not (other == drawn).any()
