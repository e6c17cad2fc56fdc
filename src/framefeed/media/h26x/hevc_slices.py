"""First slice headers of many HEVC pictures at once: ITU-T H.265 (08/2021) 7.3.6.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.hevc_sets import HevcPicture, HevcSequence
from framefeed.media.h26x.slice_bits import SliceBits, find_sets
from framefeed.media.h26x.units import BoolArray, IntArray, table_of

IDR = table_of((19, 20))
"""NAL unit types of IDR pictures, bool [64]."""
_IRAP = table_of(range(16, 24))
_MOST_SETS = 64
_MOST_SLICE = 2


@dataclass(frozen=True, slots=True)
class HevcSlices:
    """What the slice headers say, columns of length S.

    Attributes:
        order: The coded bits of the picture's order, int64; 0 of IDR pictures.
        is_shown: The picture is output, as far as the header says, bool.
        drops_others: Pictures before it that are not yet shown never are, bool.
    """

    order: IntArray
    is_shown: BoolArray
    drops_others: BoolArray


def read_hevc_slices(bits: SliceBits, kind: IntArray, sets: tuple[HevcSequence, dict[int, HevcPicture]]) -> HevcSlices:
    """Read first slices up to the picture's order.

    Args:
        bits: Behind the first flag of the headers.
        kind: NAL unit types, int64 [S].
        sets: What the parameter sets say.

    Raises:
        OddUnits: A header breaks off, or names unknown sets.
    """
    sequence, pictures = sets
    count = len(kind)
    drops_others, is_shown = np.zeros(count, bool), np.ones(count, bool)
    is_irap = _IRAP[kind].nonzero()[0]
    drops_others[is_irap] = bits.flags(is_irap)
    number = bits.golomb()
    used = find_sets(number, pictures)
    table = np.zeros((_MOST_SETS, 2), np.int64)
    for one in used:
        table[one.number] = one.extra_bits, one.has_output_flag
    extra, has_flag = table[number].T
    if np.count_nonzero(extra):
        bits.skip(extra, np.arange(count))
    if np.count_nonzero(bits.golomb() > _MOST_SLICE):
        raise OddUnits("slices of an unknown type")
    flagged = has_flag.nonzero()[0]
    if len(flagged):
        is_shown[flagged] = bits.flags(flagged)
    coded = (~IDR[kind]).nonzero()[0]
    order = np.zeros(count, np.int64)
    order[coded] = bits.fixed(sequence.order_bits, coded)
    bits.check()
    return HevcSlices(order, is_shown, drops_others)
