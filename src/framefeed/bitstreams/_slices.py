"""Read the first slice headers of many pictures at once: ITU-T H.264 (08/2021) 7.3.3, ITU-T H.265 (08/2021) 7.3.6.1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed.bitstreams._bits import OddUnits
from framefeed.bitstreams._sets import MOST_REFERENCES, H264Picture, H264Sequence, HevcPicture, HevcSequence
from framefeed.bitstreams._slice_bits import (
    SliceBits,
    find_sets,
)
from framefeed.bitstreams._units import make_table

H264_IDR = 5
_MOST_H264_SETS = 256
_P, _B, _I = 0, 1, 2
_KINDS = 5
_END_OF_CHANGES = 3
_CHANGE_NUMBERS = (1, 1, 1, 0)
"""Numbers behind each modification of a list of references, 7.3.3.1."""
_END_OF_MARKS, _RESET, _MOST_MARK = 0, 5, 6
_MARK_NUMBERS = (0, 1, 1, 2, 1, 0, 1)
"""Numbers behind each memory management control operation, 7.3.3.3."""
_MOST_REFERENCES = 32
_MOST_STEPS = 67
"""Entries of a list of changes or marks, 7.4.3.1: more than two for each of 32 fields are not valid."""


class H264Slices(NamedTuple):
    """Facts of slice headers, columns of length S."""

    number: IntArray  # frame_num, int64
    order: IntArray  # the coded bits of the picture's order, int64; 0 if it is not coded
    bottom: IntArray  # how far the bottom field's order lies behind the top field's, int64
    is_field: BoolArray  # the picture is one field, bool
    is_b: BoolArray  # its first slice is a B slice, bool
    resets: BoolArray  # it removes all references, and orders start again behind it (MMCO 5), bool


def read_h264_slices(
    bits: SliceBits,
    is_idr: BoolArray,
    is_reference: BoolArray,
    sequence: H264Sequence,
    pictures: dict[int, H264Picture],
) -> H264Slices:
    """Read first slices up to their marks of references.

    ``bits``: at the slice type, behind the number of the first macroblock, which is 0.
    ``is_idr``: whether a slice is of an IDR picture, bool [S].
    ``is_reference``: whether other pictures may refer to it, bool [S].
    """
    kind, picture = bits.read_two_golombs()
    kind %= _KINDS
    used = find_sets(picture, pictures)
    if np.count_nonzero(kind > _I) or np.count_nonzero(kind[is_idr] != _I):
        raise OddUnits("slices of an unknown type, or IDR pictures that refer to others")
    number = bits.read_fixed(sequence.number_bits)
    is_field = bits.read_fixed(1).astype(bool) if sequence.has_fields else np.zeros(len(bits), bool)
    bits.skip_golombs(is_idr.nonzero()[0])
    order = bottom = np.zeros(len(bits), np.int64)
    if sequence.order_kind == 0:
        order = bits.read_fixed(sequence.order_bits)
        if any(picture_set.has_bottom_order for picture_set in used):
            has_bottom = np.zeros(_MOST_H264_SETS, bool)
            has_bottom[[one.number for one in used if one.has_bottom_order]] = True
            chosen = has_bottom[picture].nonzero()[0]
            bottom = np.zeros(len(bits), np.int64)
            bottom[chosen] = bits.read_signed(chosen)
    resets = np.zeros(len(bits), bool)
    if sequence.order_kind != 1 and not np.count_nonzero(is_field):
        chosen = (is_reference & ~is_idr).nonzero()[0]
        if len(chosen):
            columns = _look_up_sets(picture[chosen], used)
            resets[_read_marks(bits, chosen, kind[chosen], columns, sequence.has_chroma)] = True
    bits.check()
    return H264Slices(number, order, bottom, is_field, kind == _B, resets)


def _look_up_sets(picture: IntArray, used: list[H264Picture]) -> IntArray:
    """Look up each slice's picture parameter set: lengths of lists, and weights, int64 [4, S]."""
    table = np.zeros((_MOST_H264_SETS, 4), np.int64)
    for one in used:
        table[one.number] = *one.references, one.has_weights, one.has_weights_of_two
    columns: IntArray = table[picture].T
    return columns


def _read_marks(bits: SliceBits, chosen: IntArray, kind: IntArray, columns: IntArray, has_chroma: bool) -> list[int]:
    """Read up to the marks of references; list the pictures that remove all references."""
    b_slices = (kind == _B).nonzero()[0]
    refers = (kind != _I).nonzero()[0]
    bits.skip(1, chosen[b_slices])
    first, second, weights, weights_of_two = columns
    changed = refers[bits.read_flags(chosen[refers])]
    if len(changed):
        _read_lengths(bits, chosen, changed, first)
        _read_lengths(bits, chosen, changed[kind[changed] == _B], second)
    for some in (refers, b_slices):
        _skip_changes(bits, chosen[some[bits.read_flags(chosen[some])]])
    weighted = (weights * (kind == _P) + weights_of_two * (kind == _B)).nonzero()[0]
    if len(weighted):
        references = (first + second * (kind == _B))[weighted]
        _skip_weights(bits, chosen[weighted], references, has_chroma)
    return _find_resets(bits, chosen[bits.read_flags(chosen)])


def _read_lengths(bits: SliceBits, chosen: IntArray, changed: IntArray, length: IntArray) -> None:
    """Read the length of a list of references in some headers."""
    length[changed] = bits.read_golomb(chosen[changed]) + 1
    if int(length.max()) > _MOST_REFERENCES:
        raise OddUnits("lists of too many references")


def _skip_changes(bits: SliceBits, chosen: IntArray) -> None:
    """Skip the changes of a list of references, 7.3.3.1."""
    for _ in range(_MOST_STEPS):
        if not len(chosen):
            return
        change = bits.read_golomb_with_others(chosen, np.array(_CHANGE_NUMBERS))
        if int(change.max()) > _END_OF_CHANGES:
            raise OddUnits("changes of references of an unknown kind")
        chosen = chosen[change < _END_OF_CHANGES]
    raise OddUnits("endless changes of references")


def _skip_weights(bits: SliceBits, chosen: IntArray, references: IntArray, has_chroma: bool) -> None:
    """Skip a table of weights, 7.3.3.2: for each reference flags for luma and chroma, each with its numbers."""
    flags = 2 if has_chroma else 1
    bits.skip_golombs(chosen, flags)
    left = references.copy()
    while len(chosen):
        # References without weights are pairs of zeros.
        without = np.minimum(bits.count_zeros(chosen) // flags, left)
        bits.skip(without * flags, chosen)
        left -= without
        is_left = left > 0
        chosen, left = chosen[is_left], left[is_left]
        if not len(chosen):
            return
        for pairs in (1, 2)[:flags]:
            weighted = chosen[bits.read_flags(chosen)]
            for _ in range(pairs):
                bits.skip_golombs(weighted, 2)
        left -= 1
        is_left = left > 0
        chosen, left = chosen[is_left], left[is_left]


def _find_resets(bits: SliceBits, chosen: IntArray) -> list[int]:
    """Read memory management control operations, 7.3.3.3; list the pictures with operation 5."""
    resets: list[int] = []
    for _ in range(_MOST_STEPS):
        if not len(chosen):
            return resets
        mark = bits.read_golomb_with_others(chosen, np.array(_MARK_NUMBERS))
        if int(mark.max()) > _MOST_MARK:
            raise OddUnits("marks of references of an unknown kind")
        resets += chosen[mark == _RESET].tolist()
        chosen = chosen[mark > _END_OF_MARKS]
    raise OddUnits("endless marks of references")


HEVC_IDR = make_table((19, 20))
"""NAL unit types of IDR pictures, bool [64]."""
_IRAP = make_table(range(16, 24))
_MOST_HEVC_SETS = 64
_MOST_SLICE = 2


class HevcSlices(NamedTuple):
    """Facts of slice headers, columns of length S."""

    order: IntArray  # the coded bits of the picture's order, int64; 0 of IDR pictures
    is_shown: BoolArray  # the picture is output, as far as the header says, bool
    drops_others: BoolArray  # pictures before it that are not yet shown never are, bool
    # Orders of the pictures that are kept for it and for later ones, counted from its own, int64 [R, S]; 0 for none.
    references: IntArray


def read_hevc_slices(
    bits: SliceBits, kind: IntArray, sequence: HevcSequence, pictures: dict[int, HevcPicture]
) -> HevcSlices:
    """Read first slices up to the picture's references.

    ``bits``: behind the first flag of the headers.
    ``kind``: NAL unit types, int64 [S].
    """
    count = len(kind)
    drops_others, is_shown = np.zeros(count, bool), np.ones(count, bool)
    is_irap = _IRAP[kind].nonzero()[0]
    drops_others[is_irap] = bits.read_flags(is_irap)
    number = bits.read_golomb()
    used = find_sets(number, pictures)
    table = np.zeros((_MOST_HEVC_SETS, 2), np.int64)
    for one in used:
        table[one.number] = one.extra_bits, one.has_output_flag
    extra, has_flag = table[number].T
    if np.count_nonzero(extra):
        bits.skip(extra, np.arange(count))
    if np.count_nonzero(bits.read_golomb() > _MOST_SLICE):
        raise OddUnits("slices of an unknown type")
    flagged = has_flag.nonzero()[0]
    if len(flagged):
        is_shown[flagged] = bits.read_flags(flagged)
    coded = (~HEVC_IDR[kind]).nonzero()[0]
    order = np.zeros(count, np.int64)
    order[coded] = bits.read_fixed(sequence.order_bits, coded)
    references = _read_references(bits, coded, sequence)
    bits.check()
    return HevcSlices(order, is_shown, drops_others, references)


def _read_references(bits: SliceBits, coded: IntArray, sequence: HevcSequence) -> IntArray:
    """Read the sets of references of the pictures that code one, 7.3.6.1; see `HevcSlices.references`."""
    sets = sequence.references
    # One more than in the longest set, for changes.
    known = np.zeros((max(map(len, sets), default=0) + 1, len(sets) + 1), np.int64)
    for number, references in enumerate(sets):
        known[: len(references), number] = references
    result = np.zeros((len(known), len(bits)), np.int64)
    own = coded
    if sets:
        is_named = bits.read_flags(coded)
        named, own = coded[is_named], coded[~is_named]
        row = bits.read_fixed((len(sets) - 1).bit_length(), named)
        if len(named) and int(row.max()) >= len(sets):
            raise OddUnits("slices of unknown sets of references")
        result[:, named] = known[:, row]
        is_changed = bits.read_flags(own)
        _read_changes(bits, own[is_changed], sets, known, result)
        own = own[~is_changed]
    elif np.count_nonzero(bits.read_flags(coded)):
        raise OddUnits("slices of unknown sets of references")
    if len(own):
        orders = _read_own(bits, own)
        if len(orders) > len(result):
            result = np.concatenate((result, np.zeros((len(orders) - len(result), len(bits)), np.int64)))
        result[: len(orders), own] = orders
    for _ in range(sequence.long_term_numbers):
        if np.count_nonzero(bits.read_golomb(coded)):
            raise OddUnits("long-term references")
    return result[result.any(axis=1)]


def _read_own(bits: SliceBits, own: IntArray) -> IntArray:
    """Read sets that are coded by themselves: steps back from the picture's order, then steps forward."""
    before, after = bits.read_golomb(own), bits.read_golomb(own)
    count = before + after
    # A number that is too long is -1.
    if not 0 <= int(count.max()) <= MOST_REFERENCES:
        raise OddUnits("sets of too many references")
    orders = bits.read_steps(own, count)
    reached = np.zeros(len(own), np.int64)
    for entry, row in enumerate(orders):
        reached[before == entry] = 0
        reached += np.where(before > entry, -row, row)
        row[:] = reached * (count > entry)
    return orders


def _read_changes(
    bits: SliceBits, changed: IntArray, sets: tuple[tuple[int, ...], ...], known: IntArray, result: IntArray
) -> None:
    """Read sets that are coded as changes of known ones: each picture of those, and one more, may be in them."""
    if not len(changed):
        return
    base = len(sets) - 1 - bits.read_golomb(changed)
    if int(base.min()) < 0:
        raise OddUnits("changes of an unknown set of references")
    sign = np.where(bits.read_flags(changed), -1, 1)
    step = sign * (bits.read_golomb(changed) + 1)
    size = np.array([len(references) for references in sets])[base]
    for entry in range(int(size.max()) + 1):
        rows = (size >= entry).nonzero()[0]
        is_kept = bits.read_flags(changed[rows])
        others = (~is_kept).nonzero()[0]
        is_kept[others] = bits.read_flags(changed[rows[others]])
        result[entry, changed[rows]] = (known[entry, base[rows]] + step[rows]) * is_kept
