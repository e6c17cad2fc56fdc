"""Number pictures in the order of display, and measure how far it differs from decoding order."""

from __future__ import annotations

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed.bitstreams._bits import OddUnits
from framefeed.bitstreams._sets import H264Sequence
from framefeed.bitstreams._slices import H264Slices

MOST_HELD = 16
"""Pictures that a decoder holds back at most, in both codecs."""
_LEAST = np.iinfo(np.int64).min
_SEQUENCE_BITS = 33
"""Numbers of a sequence's pictures are of 32 bits, and a sign."""


def unwrap(coded: IntArray, is_anchor: BoolArray, is_first: BoolArray, bits: int) -> IntArray:
    """Add the high bits, which are not coded: each picture is nearer to the last anchor than half the range.

    Args:
        coded: Coded low bits, int64 [S].
        is_anchor: The next pictures count from it, bool [S]; the first picture is one.
        is_first: A sequence begins with it, so that it counts from no earlier one; also an anchor, bool [S].
        bits: Number of the coded bits.

    Returns:
        Numbers that rise from sequence to sequence, and within each in the order of display, int64 [S].
    """
    half = 1 << (bits - 1)
    sequence = is_first.cumsum()
    if int(coded.max()) - int(coded.min()) < half:
        # No step is as long as half the range: no number wrapped.
        own_first: IntArray = coded[is_first][sequence - 1]
        return coded - own_first + (sequence << _SEQUENCE_BITS)
    anchors = is_anchor.nonzero()[0]
    before = is_anchor.cumsum() - 1
    own = coded[anchors]
    total = np.zeros(len(own), np.int64)
    _wrap_steps(own[1:] - own[:-1], half).cumsum(out=total[1:])
    total -= total[is_first[anchors]][sequence[anchors] - 1]
    if max(int(total.max()), -int(total.min())) >= 1 << (_SEQUENCE_BITS - 2):
        raise OddUnits("pictures numbered beyond 32 bits")
    number: IntArray = total[before] + _wrap_steps(coded - own[before], half) + (sequence << _SEQUENCE_BITS)
    return number


def number_pictures(sequence: H264Sequence, slices: H264Slices, is_idr: BoolArray, is_reference: BoolArray) -> IntArray:
    """Number pictures in the order of display, 8.2.1: a frame is shown with the first of its fields."""
    is_first = is_idr.copy()
    is_first[0] = True
    if sequence.order_kind == 2:
        counted = unwrap(slices.number, np.ones(len(is_idr), bool), is_first, sequence.number_bits)
        return 2 * counted - ~is_reference
    return unwrap(slices.order, is_reference, is_first, sequence.order_bits) + np.minimum(slices.bottom, 0)


def _wrap_steps(step: IntArray, half: int) -> IntArray:
    """Wrap steps into those above -half, up to half: H.264 8.2.1.1 and H.265 8.3.1."""
    wrapped: IntArray = ((step + (half - 1)) & (2 * half - 1)) - (half - 1)
    return wrapped


def find_levels(number: IntArray) -> list[BoolArray]:
    """Mark the pictures after which one or more, two or more, ... earlier ones in decoding order are shown.

    Returns:
        One array, bool [S], for each depth that occurs, up to one beyond `MOST_HELD`.
    """
    levels: list[BoolArray] = []
    rest = number
    while len(levels) <= MOST_HELD:
        largest = np.maximum.accumulate(rest)
        is_later = number < largest
        if not np.count_nonzero(is_later):
            break
        levels.append(is_later)
        # The next level compares with the largest but one of those before.
        before, rest = rest, np.empty_like(number)
        rest[0] = _LEAST
        np.minimum(largest[:-1], before[1:], out=rest[1:])
    return levels
