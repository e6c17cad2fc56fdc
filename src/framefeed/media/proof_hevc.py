"""What HEVC packets prove of their frames: ITU-T H.265 (08/2021) 7.4.2.2 and 8.3.1, and libav's order of output."""

from __future__ import annotations

from typing import cast

import numpy as np

from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.hevc_sets import HevcPicture, HevcSequence
from framefeed.media.h26x.hevc_slices import IDR_KINDS, read_hevc_slices
from framefeed.media.h26x.order import levels_of, unwrap
from framefeed.media.h26x.slice_bits import SliceBits
from framefeed.media.h26x.units import BoolArray, IntArray, UnitFacts
from framefeed.media.packets import PacketWalk
from framefeed.media.proof_rules import check_ends, check_packets, check_sets, shown_by
from framefeed.media.proving import Proof, Refuted

_BROKEN_LINKS = (16, 17, 18)
KNOWN_KINDS = frozenset({*range(10), *_BROKEN_LINKS, 19, 20, 21, *range(32, 41), 62})
"""Pictures, parameter sets, delimiters, ends, filler and messages, and Dolby Vision's."""
_RASL = (8, 9)
_LEADING = (6, 7, 8, 9)
_FIRST_IRAP = 16


def prove_hevc(configuration: Configuration, units: UnitFacts, walk: PacketWalk) -> Proof:
    """Prove which frames come of HEVC packets.

    Args:
        configuration: The stream's parameter sets.
        units: NAL units of all packets.
        walk: The same packets.

    Raises:
        Unproved: The packets do not say so.
        Refuted: Not even that frames come in the order of their times.
    """
    check_packets(units)
    check_ends(units)
    check_sets(configuration, units)
    rows = units.has_slice.nonzero()[0]
    kind = units.slice_kind[rows]
    is_idr = np.isin(kind, IDR_KINDS)
    if rows[0] or kind[0] < _FIRST_IRAP:
        raise Refuted("it does not begin with a random access picture")
    if np.isin(kind, _BROKEN_LINKS).any():
        raise Refuted("broken links")
    sets = cast("HevcSequence", configuration.sequence), cast("dict[int, HevcPicture]", configuration.pictures)
    is_first = is_idr.copy()
    is_first[0] = True
    is_anchor = (units.layer[rows] == 0) & ((kind >= _FIRST_IRAP) | ((kind % 2 == 1) & ~np.isin(kind, _LEADING)))
    try:
        slices = read_hevc_slices(SliceBits(units.head[rows], units.head_bytes[rows], 1), kind, sets)
        number = unwrap(slices.order, is_anchor, is_first, sets[0].order_bits)
    except OddUnits as odd:
        raise Refuted(str(odd)) from None
    if bool((slices.drops_others[1:] & is_idr[1:]).any()):
        raise Refuted("pictures that others drop before they are shown")
    is_shown = slices.is_shown & ~_is_lost(kind)
    rows, number = rows[is_shown], number[is_shown]
    depth = len(levels_of(number))
    if depth > (configuration.format.reorder or 0):
        raise Refuted(f"pictures are reordered by {depth}, and {configuration.format.reorder} is what is declared")
    return shown_by(walk, rows, number)


def _is_lost(kind: IntArray) -> BoolArray:
    """Say of each picture whether it leads the first one and refers to what came before that, 7.4.2.2: none comes out.

    Those that lead a later random access point have what they refer to.
    """
    is_lost = np.isin(kind, _RASL)
    following = (kind[1:] >= _FIRST_IRAP).nonzero()[0]
    if len(following):
        is_lost[int(following[0]) + 1 :] = False
    return is_lost
