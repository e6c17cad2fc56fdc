"""First slice headers of many H.264 pictures at once: ITU-T H.264 (08/2021) 7.3.3.

First slice headers of many HEVC pictures at once: ITU-T H.265 (08/2021) 7.3.6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed.media.h26x._bits import OddUnits
from framefeed.media.h26x._sets import H264Picture, H264Sequence, HevcPicture, HevcSequence
from framefeed.media.h26x._slice_bits import (
    AHEAD_BITS,
    SliceBits,
    find_sets,
    make_golomb_lengths,
    make_list_lengths,
    shift_prefix,
)
from framefeed.media.h26x._units import make_table

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
_LONGEST_LENGTH = 9
"""Bits up to which a list's length is surely one of those that are allowed."""
_MOST_STEPS = 67
"""Entries of a list of changes or marks, 7.4.3.1: more than two for each of 32 fields is none."""


@dataclass(frozen=True, slots=True)
class H264Slices:
    """What the slice headers say, columns of length S.

    Attributes:
        number: frame_num, int64.
        order: The coded bits of the picture's order, int64; 0 where it is not coded.
        bottom: How far the bottom field's order lies behind the top field's, int64.
        is_field: The picture is one field, bool.
        is_b: Its first slice is a B slice, bool.
        resets: Its references are all taken back, and orders begin anew behind it (MMCO 5), bool.
    """

    number: IntArray
    order: IntArray
    bottom: IntArray
    is_field: BoolArray
    is_b: BoolArray
    resets: BoolArray


def read_h264_slices(
    bits: SliceBits, is_idr: BoolArray, is_reference: BoolArray, sets: tuple[H264Sequence, dict[int, H264Picture]]
) -> H264Slices:
    """Read first slices up to their marks of references.

    Args:
        bits: At the slice type, behind the number of the first macroblock, which is 0.
        is_idr: Whether a slice is of an IDR picture, bool [S].
        is_reference: Whether other pictures may refer to it, bool [S].
        sets: What the parameter sets say.

    Raises:
        OddUnits: A header breaks off, names unknown sets, or is longer than what is known of it.
    """
    sequence, pictures = sets
    kind, picture = bits.two_golombs()
    kind %= _KINDS
    used = find_sets(picture, pictures)
    if np.count_nonzero(kind > _I) or np.count_nonzero(kind[is_idr] != _I):
        raise OddUnits("slices of an unknown type, or IDR pictures that refer to others")
    number = bits.fixed(sequence.number_bits)
    is_field = bits.fixed(1).astype(bool) if sequence.has_fields else np.zeros(len(bits), bool)
    bits.pass_golomb(is_idr.nonzero()[0])
    order = bottom = np.zeros(len(bits), np.int64)
    if sequence.order_kind == 0:
        order = bits.fixed(sequence.order_bits)
        if any(one.has_bottom_order for one in used):
            bottom = _read_bottom(bits, picture, used)
    resets = np.zeros(len(bits), bool)
    if sequence.order_kind != 1 and not np.count_nonzero(is_field):
        rows = _pass_usual(bits, (is_reference & ~is_idr).nonzero()[0], kind, used)
        if len(rows):
            columns = _look_up_sets(picture[rows], used)
            resets[_read_marks(bits, rows, kind[rows], columns, sequence.has_chroma)] = True
    bits.check()
    return H264Slices(number, order, bottom, is_field, kind == _B, resets)


def _pass_usual(bits: SliceBits, rows: IntArray, kind: IntArray, used: list[H264Picture]) -> IntArray:
    """Pass over the rest of headers that say little of their lists and marks; give those that say more."""
    weights = any(one.has_weights for one in used), any(one.has_weights_of_two for one in used)
    return _skip_ahead(bits, rows, make_rest_lengths(*weights)[kind[rows], bits.ahead(rows)])


def _skip_ahead(bits: SliceBits, rows: IntArray, length: IntArray) -> IntArray:
    """Pass over what is known by the bits ahead; give the headers of which it is not, which stay where they are."""
    bits.skip(length, rows)
    unknown: IntArray = rows[length == 0]
    return unknown


def _read_bottom(bits: SliceBits, picture: IntArray, used: list[H264Picture]) -> IntArray:
    bottom = np.zeros(len(bits), np.int64)
    has_bottom = np.zeros(_MOST_H264_SETS, bool)
    has_bottom[[one.number for one in used if one.has_bottom_order]] = True
    rows = has_bottom[picture].nonzero()[0]
    bottom[rows] = bits.signed(rows)
    return bottom


def _look_up_sets(picture: IntArray, used: list[H264Picture]) -> IntArray:
    """Look up what each slice's picture parameter set says: lists' lengths and weights, int64 [4, S]."""
    table = np.zeros((_MOST_H264_SETS, 4), np.int64)
    for one in used:
        table[one.number] = *one.references, one.has_weights, one.has_weights_of_two
    columns: IntArray = table[picture].T
    return columns


def _read_marks(bits: SliceBits, rows: IntArray, kind: IntArray, columns: IntArray, has_chroma: bool) -> list[int]:
    """Read on to the marks of references; number the pictures that take all of them back."""
    b_rows = (kind == _B).nonzero()[0]
    refers = (kind != _I).nonzero()[0]
    bits.skip(1, rows[b_rows])
    first, second, weights, weights_of_two = columns
    changed = refers[bits.flags(rows[refers])]
    if len(changed):
        _read_lengths(bits, rows, changed, first)
        _read_lengths(bits, rows, changed[kind[changed] == _B], second)
    for some in (refers, b_rows):
        _skip_changes(bits, rows[some[bits.flags(rows[some])]])
    weighted = (weights * (kind == _P) + weights_of_two * (kind == _B)).nonzero()[0]
    if len(weighted):
        references = (first + second * (kind == _B))[weighted]
        _skip_weights(bits, rows[weighted], references, has_chroma)
    return _find_resets(bits, rows[bits.flags(rows)])


def _read_lengths(bits: SliceBits, rows: IntArray, changed: IntArray, length: IntArray) -> None:
    """Read the length of a list of references in some headers."""
    length[changed] = bits.golomb(rows[changed]) + 1
    if int(length.max()) > _MOST_REFERENCES:
        raise OddUnits("lists of too many references")


def _skip_changes(bits: SliceBits, rows: IntArray) -> None:
    """Pass over the changes of a list of references, 7.3.3.1."""
    rows = _skip_ahead(bits, rows, _make_change_lengths()[bits.ahead(rows)]) if len(rows) else rows
    for _ in range(_MOST_STEPS):
        if not len(rows):
            return
        change = bits.golomb_with(rows, np.array(_CHANGE_NUMBERS))
        if int(change.max()) > _END_OF_CHANGES:
            raise OddUnits("changes of references of an unknown kind")
        rows = rows[change < _END_OF_CHANGES]
    raise OddUnits("endless changes of references")


def _skip_weights(bits: SliceBits, rows: IntArray, references: IntArray, has_chroma: bool) -> None:
    """Pass over a table of weights, 7.3.3.2: for each reference flags for luma and chroma, each with its numbers."""
    flags = 2 if has_chroma else 1
    bits.pass_golomb(rows, flags)
    left = references.copy()
    while len(rows):
        # References without weights are pairs of zeros.
        without = np.minimum(bits.zeros(rows) // flags, left)
        bits.skip(without * flags, rows)
        left -= without
        is_left = left > 0
        rows, left = rows[is_left], left[is_left]
        if not len(rows):
            return
        for pairs in (1, 2)[:flags]:
            weighted = rows[bits.flags(rows)]
            for _ in range(pairs):
                bits.pass_golomb(weighted, 2)
        left -= 1
        is_left = left > 0
        rows, left = rows[is_left], left[is_left]


def _find_resets(bits: SliceBits, rows: IntArray) -> list[int]:
    """Read memory management control operations, 7.3.3.3; number the pictures of which one is 5."""
    rows = _skip_ahead(bits, rows, _make_mark_lengths()[bits.ahead(rows)]) if len(rows) else rows
    resets: list[int] = []
    for _ in range(_MOST_STEPS):
        if not len(rows):
            return resets
        mark = bits.golomb_with(rows, np.array(_MARK_NUMBERS))
        if int(mark.max()) > _MOST_MARK:
            raise OddUnits("marks of references of an unknown kind")
        resets += rows[mark == _RESET].tolist()
        rows = rows[mark > _END_OF_MARKS]
    raise OddUnits("endless marks of references")


@lru_cache(maxsize=1)
def _make_change_lengths() -> IntArray:
    return make_list_lengths(_CHANGE_NUMBERS, _END_OF_CHANGES)


@lru_cache(maxsize=1)
def _make_mark_lengths() -> IntArray:
    """Give bits of short lists of marks that take no references back."""
    return make_list_lengths(
        [None if mark == _RESET else count for mark, count in enumerate(_MARK_NUMBERS)], _END_OF_MARKS
    )


@lru_cache(maxsize=4)
def make_rest_lengths(has_weights: bool, has_weights_of_two: bool) -> IntArray:
    """Give bits of what is behind the order of P, B and I slices, 7.3.3, by the bits ahead.

    Returns:
        int64 [3, 2**AHEAD_BITS]; 0 where it is longer, has weights, or takes references back.
    """
    p_slices = _make_rest_lengths(1, 0) * (not has_weights)
    b_slices = _make_rest_lengths(2, 1) * (not has_weights_of_two)
    return np.stack((p_slices, b_slices, _make_rest_lengths(0, 0)))


def _make_rest_lengths(lists: int, before: int) -> IntArray:
    """Give bits of what is behind the order of slices with some lists of references, and bits before these."""
    prefix = np.arange(1 << AHEAD_BITS)
    at, golombs = np.full_like(prefix, before), make_golomb_lengths()
    if lists:
        has_lengths, at = _read_flag_ahead(prefix, at), at + 1
        for _ in range(lists):
            length = golombs[shift_prefix(prefix, at)]
            at = at + has_lengths * np.where(length > _LONGEST_LENGTH, AHEAD_BITS, length)
    for some in [_make_change_lengths()] * lists + [_make_mark_lengths()]:
        has_some, at = _read_flag_ahead(prefix, at), at + 1
        length = some[shift_prefix(prefix, at)]
        at = at + has_some * np.where(length == 0, AHEAD_BITS, length)
    return np.where(at <= AHEAD_BITS, at, 0)


def _read_flag_ahead(prefix: IntArray, at: IntArray) -> IntArray:
    return shift_prefix(prefix, at) >> AHEAD_BITS - 1


HEVC_IDR = make_table((19, 20))
"""NAL unit types of IDR pictures, bool [64]."""
_IRAP = make_table(range(16, 24))
_MOST_HEVC_SETS = 64
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
    table = np.zeros((_MOST_HEVC_SETS, 2), np.int64)
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
    coded = (~HEVC_IDR[kind]).nonzero()[0]
    order = np.zeros(count, np.int64)
    order[coded] = bits.fixed(sequence.order_bits, coded)
    bits.check()
    return HevcSlices(order, is_shown, drops_others)
