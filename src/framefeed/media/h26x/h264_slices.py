"""First slice headers of many H.264 pictures at once: ITU-T H.264 (08/2021) 7.3.3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.h264_sets import H264Picture, H264Sequence
from framefeed.media.h26x.slice_bits import SliceBits
from framefeed.media.h26x.units import BoolArray, IntArray

IDR = 5
_MOST_SETS = 256
_P, _B, _I = 0, 1, 2
_KINDS = 5
_END_OF_CHANGES = 3
_CHANGE_NUMBERS = np.array([1, 1, 1, 0])
"""Numbers behind each modification of a list of references, 7.3.3.1."""
_RESET, _MOST_MARK = 5, 6
_MARK_NUMBERS = np.array([0, 1, 1, 2, 1, 0, 1])
"""Numbers behind each memory management control operation, 7.3.3.3."""
_MOST_REFERENCES = 32
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
    kind, picture = bits.golomb() % _KINDS, bits.golomb()
    _check_sets(picture, pictures)
    if bool((kind > _I).any()) or bool((is_idr & (kind != _I)).any()):
        raise OddUnits("slices of an unknown type, or IDR pictures that refer to others")
    number = bits.fixed(sequence.number_bits)
    is_field = np.zeros(len(bits), bool)
    if sequence.has_fields:
        is_field = bits.fixed(1).astype(bool)
    bits.pass_golomb(is_idr.nonzero()[0])
    order, bottom = np.zeros(len(bits), np.int64), np.zeros(len(bits), np.int64)
    if sequence.order_kind == 0:
        order = bits.fixed(sequence.order_bits)
        bottom = _read_bottom(bits, picture, pictures)
    resets = np.zeros(len(bits), bool)
    if sequence.order_kind != 1 and not is_field.any():
        rows = (is_reference & ~is_idr).nonzero()[0]
        resets[rows] = _read_marks(bits, rows, kind[rows], _columns(picture[rows], pictures), sequence.has_chroma)
    bits.check()
    return H264Slices(number, order, bottom, is_field, kind == _B, resets)


def _check_sets(picture: IntArray, pictures: dict[int, H264Picture]) -> None:
    if not set(picture.tolist()) <= pictures.keys():
        raise OddUnits("slices of unknown parameter sets")


def _read_bottom(bits: SliceBits, picture: IntArray, pictures: dict[int, H264Picture]) -> IntArray:
    bottom = np.zeros(len(bits), np.int64)
    numbers = [one.number for one in pictures.values() if one.has_bottom_order]
    if numbers:
        rows = np.isin(picture, numbers).nonzero()[0]
        bottom[rows] = bits.signed(rows)
    return bottom


def _columns(picture: IntArray, pictures: dict[int, H264Picture]) -> IntArray:
    """Look up what each slice's picture parameter set says: lists' lengths and weights, int64 [4, S]."""
    table = np.zeros((_MOST_SETS, 4), np.int64)
    for one in pictures.values():
        table[one.number] = *one.references, one.has_weights, one.has_weights_of_two
    columns: IntArray = table[picture].T
    return columns


def _read_marks(bits: SliceBits, rows: IntArray, kind: IntArray, columns: IntArray, has_chroma: bool) -> BoolArray:
    """Read on to the marks of references; say of each picture whether one takes all of them back."""
    b_rows = (kind == _B).nonzero()[0]
    refers = (kind != _I).nonzero()[0]
    bits.skip(1, rows[b_rows])
    first, second, weights, weights_of_two = columns
    second = np.where(kind == _B, second, 0)
    changed = refers[bits.fixed(1, rows[refers]) == 1]
    first[changed] = bits.golomb(rows[changed]) + 1
    changed = changed[kind[changed] == _B]
    second[changed] = bits.golomb(rows[changed]) + 1
    if int(max(first.max(initial=0), second.max(initial=0))) > _MOST_REFERENCES:
        raise OddUnits("lists of too many references")
    for some in (refers, b_rows):
        _pass_changes(bits, rows[some[bits.fixed(1, rows[some]) == 1]])
    weighted = np.where(kind == _B, weights_of_two, weights * (kind == _P)).nonzero()[0]
    if len(weighted):
        _pass_weights(bits, rows[weighted], (first + second)[weighted], has_chroma)
    marked = (bits.fixed(1, rows) == 1).nonzero()[0]
    resets = np.zeros(len(rows), bool)
    resets[marked] = _has_reset(bits, rows[marked])
    return resets


def _pass_changes(bits: SliceBits, rows: IntArray) -> None:
    """Pass over the changes of a list of references, 7.3.3.1."""
    for _ in range(_MOST_STEPS):
        if not len(rows):
            return
        change = bits.golomb_with(rows, _CHANGE_NUMBERS)
        if int(change.max()) > _END_OF_CHANGES:
            raise OddUnits("changes of references of an unknown kind")
        rows = rows[change < _END_OF_CHANGES]
    raise OddUnits("endless changes of references")


def _pass_weights(bits: SliceBits, rows: IntArray, references: IntArray, has_chroma: bool) -> None:
    """Pass over a table of weights, 7.3.3.2: for each reference flags for luma and chroma, each with its numbers."""
    flags = 2 if has_chroma else 1
    bits.pass_golomb(rows, flags)
    left = references.copy()
    while len(rows):
        # References without weights are pairs of zeros.
        without = np.minimum(bits.zeros(rows) // flags, left)
        bits.skip(without * flags, rows)
        left -= without
        rows, left = rows[left > 0], left[left > 0]
        for pairs in (1, 2)[:flags]:
            weighted = rows[bits.fixed(1, rows) == 1]
            for _ in range(pairs):
                bits.pass_golomb(weighted, 2)
        left -= 1
        rows, left = rows[left > 0], left[left > 0]


def _has_reset(bits: SliceBits, rows: IntArray) -> BoolArray:
    """Read memory management control operations, 7.3.3.3; say of each picture whether one is 5."""
    resets = np.zeros(len(rows), bool)
    active = np.arange(len(rows))
    for _ in range(_MOST_STEPS):
        if not len(active):
            return resets
        mark = bits.golomb_with(rows[active], _MARK_NUMBERS)
        if int(mark.max()) > _MOST_MARK:
            raise OddUnits("marks of references of an unknown kind")
        resets[active[mark == _RESET]] = True
        active = active[mark > 0]
    raise OddUnits("endless marks of references")
