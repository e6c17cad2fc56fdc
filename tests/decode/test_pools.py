"""What a thread keeps open between calls is bounded by number and by the size of pictures."""

from __future__ import annotations

from framefeed.decode.backends._pyav_pools import MAX_IDLE_PIXELS, IdlePool


def _pool(closed: list[int], capacity: int = 3) -> IdlePool[int]:
    """Make a pool of numbers that stand for decoders of so many pixels."""
    return IdlePool(capacity, closed.append, lambda pixels: pixels)


def test_small_ones_are_bounded_by_number() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    for pixels in (1, 2, 3, 4):
        pool.give(pixels, pixels)
    assert (len(pool), closed) == (3, [1])


def test_large_ones_are_bounded_by_their_pixels() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    half = MAX_IDLE_PIXELS // 2
    for key in ("a", "b", "c"):
        pool.give(key, half)
    assert (len(pool), closed) == (2, [half])


def test_the_last_one_stays_for_its_next_user_however_large() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    pool.give("small", 1)
    pool.give("large", 2 * MAX_IDLE_PIXELS)
    assert (len(pool), closed) == (1, [1])
    assert pool.take("large") == 2 * MAX_IDLE_PIXELS


def test_too_large_a_one_is_closed_before_another_is_made() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    pool.give("large", 2 * MAX_IDLE_PIXELS)
    assert pool.take("another") is None
    assert (len(pool), closed) == (0, [2 * MAX_IDLE_PIXELS])
