"""Prove the frames of HEVC packets: ITU-T H.265 (08/2021) 7.4.2.2 and 8.3.1, and libav's order of output."""

from __future__ import annotations

from typing import cast

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import PacketWalk, UnitFacts
from framefeed.bitstreams import (
    HEVC_IDR,
    Configuration,
    HevcPicture,
    HevcSequence,
    OddUnits,
    find_levels,
    make_table,
    read_headers,
    read_hevc_slices,
    unwrap,
)
from framefeed.index.proofs._proving import (
    Proof,
    Refuted,
    check_ends,
    check_sets,
    find_pictures,
    prove_order_of_times,
)

_BROKEN_LINKS = (16, 17, 18)
KNOWN_KINDS = frozenset({*range(10), *_BROKEN_LINKS, 19, 20, 21, *range(32, 41), 62})
"""Pictures, parameter sets, delimiters, ends, filler and messages, and Dolby Vision's."""
_RASL = make_table((8, 9))
_FIRST_IRAP = 16
_ANCHORS = make_table((1, 3, 5, 11, 13, 15, *range(_FIRST_IRAP, 64)))
"""Pictures of the lowest sub-layer from which the next orders count: no leading ones, and none without references to
them."""


def prove_hevc(configuration: Configuration, units: UnitFacts, walk: PacketWalk) -> Proof:
    """Prove which frames come of HEVC packets."""
    packets = find_pictures(units)
    check_ends(units, packets)
    check_sets(configuration, units)
    kind = units.slice_kind[packets]
    is_idr = HEVC_IDR[kind]
    if packets[0] or kind[0] < _FIRST_IRAP:
        raise Refuted("it does not begin with a random access picture")
    if not units.kinds.isdisjoint(_BROKEN_LINKS):
        raise Refuted("broken links")
    sequence = cast("HevcSequence", configuration.sequence)
    pictures = cast("dict[int, HevcPicture]", configuration.pictures)
    is_first = is_idr.copy()
    is_first[0] = True
    is_anchor = (units.layer[packets] == 0) & _ANCHORS[kind]
    try:
        slices = read_headers(
            units.head[packets],
            units.head_bytes[packets],
            lambda bits: read_hevc_slices(bits, kind, sequence, pictures),
        )
        number = unwrap(slices.order, is_anchor, is_first, sequence.order_bits)
    except OddUnits as odd:
        raise Refuted(str(odd)) from None
    if np.count_nonzero(slices.drops_others[1:] & is_idr[1:]):
        raise Refuted("pictures that others drop before they are shown")
    is_lost = _find_lost(kind)
    _check_references(number[~is_lost], slices.references.compress(~is_lost, axis=1))
    is_shown = slices.is_shown & ~is_lost
    packets, number = packets[is_shown], number[is_shown]
    depth = len(find_levels(number))
    if depth > sequence.reorder:
        raise Refuted(f"pictures are reordered by {depth}, and {sequence.reorder} is what is declared")
    return prove_order_of_times(walk, packets, number)


def _check_references(number: IntArray, references: IntArray) -> None:
    """Raise Refuted if a picture keeps one that is not there, 8.3.2: libav drops it, and what refers to it.

    Args:
        number: Order of each decoded picture, int64 [S].
        references: See `HevcSlices`, int64 [R, S].
    """
    kept = number + references
    kept[:, :1] = number[0]  # what is before the first picture is not there
    there = kept[:, :-1]
    for orders, own in zip(kept, references, strict=True):
        # Mostly it is the picture before; else one that this picture kept.
        is_there = (own[1:] == 0) | (orders[1:] == number[:-1])
        if not is_there.all() and not (is_there | (there == orders[1:]).any(axis=0)).all():
            raise Refuted("pictures that refer to missing ones")


def _find_lost(kind: IntArray) -> BoolArray:
    """Mark the pictures that lead the first one and refer to pictures before it, 7.4.2.2: they are never output.

    Pictures that lead a later random access point have their references.
    """
    is_lost = _RASL[kind]
    following = (kind[1:] >= _FIRST_IRAP).nonzero()[0]
    if len(following):
        is_lost[int(following[0]) + 1 :] = False
    return is_lost
