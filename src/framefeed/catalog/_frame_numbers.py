"""Pack columns of int64 into few bytes, without loss.

A column is stored as its differences from a prediction (0, the previous value, or the position), minus a reference, in
the narrowest of eight widths; the few numbers that do not fit are stored apart as patches (PFOR: Zukowski et al.,
Super-scalar RAM-CPU cache compression, 2006). All arithmetic is modulo 2**64, so that no number is too large. Even
distances, such as constant-rate times, take no bytes per frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from framefeed._arrays import IntArray, WordArray

PLAIN, DELTA, RAMP = 0, 1, 2
"""Predictions of a number: 0, the previous number, or its position."""
_PATCHED = 0x20
_WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)
"""Bits a number."""
_BITS = np.array(_WIDTHS)
_FIRST_TOO_LARGE = np.array([1 << width for width in _WIDTHS[:-1]], np.uint64)
_REFERENCES: tuple[struct.Struct | None, ...] = (None, struct.Struct("<b"), struct.Struct("<i"), struct.Struct("<q"))
_POSITION_BITS = 12
"""Estimated size of the position of a patch."""
_PATCHES_BITS = 100
"""Estimated fixed size of patches."""
_CHEAP_BITS = 2
"""A prediction with so few bits per number is used without trying the next one."""
_WORD = (1 << 64) - 1
_FIRST = struct.Struct("<q")
_COUNT = struct.Struct("<I")


class Damaged(ValueError):
    """Bytes that `pack` did not write."""


class _Fit(NamedTuple):
    """One possible packing of a column.

    Attributes:
        bits: Estimated size.
        order: Its prediction.
        first: The first number, for ``DELTA``.
        reference: Subtracted from every difference.
        width: Index in ``_WIDTHS``.
        differences: From the prediction, int64 [n], or [n - 1] for ``DELTA``.
    """

    bits: int
    order: int
    first: int
    reference: int
    width: int
    differences: IntArray


def pack(values: IntArray, *orders: int) -> bytes:
    """Store a column; its length is not part of it.

    Args:
        values: int64 [n].
        orders: Predictions to try in this order; ``PLAIN`` if none is given.
    """
    return _pack(values, orders or (PLAIN,), may_patch=True) if len(values) else b""


def _pack(values: IntArray, orders: tuple[int, ...], may_patch: bool) -> bytes:
    best: _Fit | None = None
    for order in orders:
        fit = _fit_order(values, order, may_patch)
        best = fit if best is None or fit.bits < best.bits else best
        if best.bits <= _CHEAP_BITS * len(values):
            break
    assert best is not None
    return _write_fit(best)


def _fit_order(values: IntArray, order: int, may_patch: bool) -> _Fit:
    words: WordArray = values.view(np.uint64)
    first = 0
    if order == DELTA:
        words, first = words[1:] - words[:-1], int(values[0])
    elif order == RAMP:
        words = np.subtract(words, np.arange(len(words), dtype=np.uint64))
    differences: IntArray = words.view(np.int64)
    if not len(differences) or bool((differences == differences[0]).all()):
        return _Fit(0, order, first, int(differences[0]) if len(differences) else 0, 0, differences)
    ordered = np.sort(differences)
    least, middle = 0, len(ordered) // 2
    # Patches below the reference pay if most numbers are equal.
    is_sparse = may_patch and ordered[len(ordered) // 4] == ordered[3 * len(ordered) // 4]
    candidates = (least, middle) if is_sparse else (least,)
    bits, width, reference = min(_choose_width(ordered, position, may_patch) for position in candidates)
    return _Fit(bits, order, first, reference, width, differences)


def _choose_width(ordered: IntArray, position: int, may_patch: bool) -> tuple[int, int, int]:
    """Choose (bits, width, reference) with the number at a position of the sorted column as the reference."""
    reference = ordered[position]
    first = int(ordered.searchsorted(reference))
    above = ordered[first:].view(np.uint64) - reference.view(np.uint64)
    patches = np.zeros(len(_WIDTHS), np.int64)
    patches[:-1] = len(ordered) - above.searchsorted(_FIRST_TOO_LARGE)
    bits = len(ordered) * _BITS
    if may_patch:
        bits += patches * (_POSITION_BITS + _BITS[-1 if first else int(patches.argmin())]) + _PATCHES_BITS * (
            patches > 0
        )
    else:
        bits[patches > 0] = np.iinfo(np.int64).max
    width = int(bits.argmin())
    return int(bits[width]), width, int(reference)


def _write_fit(fit: _Fit) -> bytes:
    width = _WIDTHS[fit.width]
    residuals = fit.differences.view(np.uint64) - np.uint64(fit.reference & _WORD)
    patches = np.flatnonzero(residuals >> np.uint64(width)) if width < 64 else np.empty(0, np.int64)
    reference = _choose_reference_code(fit.reference)
    head = [bytes([fit.width | fit.order << 3 | (_PATCHED if len(patches) else 0) | reference << 6])]
    if fit.order == DELTA:
        head.append(_FIRST.pack(fit.first))
    if (coder := _REFERENCES[reference]) is not None:
        head.append(coder.pack(fit.reference))
    if len(patches):
        residuals[patches] = 0
        kept = fit.differences[patches]
        head += [_COUNT.pack(len(patches)), _pack(patches, (DELTA,), False), _pack(kept, (PLAIN,), False)]
    return b"".join([*head, _pack_bits(residuals, width)])


def _choose_reference_code(reference: int) -> int:
    if reference == 0:
        return 0
    return 1 if -(1 << 7) <= reference < 1 << 7 else 2 if -(1 << 31) <= reference < 1 << 31 else 3


def _pack_bits(words: WordArray, width: int) -> bytes:
    if width == 0:
        return b""
    if width >= 8:
        return bytes(words.astype(f"<u{width // 8}"))
    per_byte = 8 // width
    digits = np.zeros((-(-len(words) // per_byte), per_byte), np.uint8)
    digits.reshape(-1)[: len(words)] = words
    return bytes(np.bitwise_or.reduce(digits << _SHIFTS[width], axis=1, dtype=np.uint8))


_SHIFTS = {width: np.arange(0, 8, width, dtype=np.uint8) for width in (1, 2, 4)}
"""Bit offsets of the numbers of fewer than 8 bits in a byte."""


@dataclass(slots=True)
class ByteCursor:
    """Reader of numbers from untrusted bytes.

    Attributes:
        data: The bytes.
        offset: Offset of the next byte.
    """

    data: memoryview
    offset: int = 0

    def take(self, count: int) -> memoryview:
        """Take the next bytes.

        Raises:
            Damaged: There are fewer.
        """
        stop = self.offset + count
        if stop > len(self.data):
            raise Damaged(f"it ends after {len(self.data)} bytes, and claims {stop}")
        part = self.data[self.offset : stop]
        self.offset = stop
        return part

    def fields(self, coder: struct.Struct) -> tuple[Any, ...]:
        """Take the fields of a struct."""
        return coder.unpack(self.take(coder.size))

    def column(self, count: int) -> IntArray:
        """Take a column that `pack` stored.

        Args:
            count: Its length n; the caller has checked that so many numbers may be allocated.

        Returns:
            A new array, int64 [n].
        """
        return self._column(count, may_patch=True) if count else np.empty(0, np.int64)

    def _column(self, count: int, may_patch: bool) -> IntArray:
        code = int(self.take(1)[0])
        order, first = code >> 3 & 3, 0
        if order > RAMP or (code & _PATCHED and not may_patch):
            raise Damaged(f"a column of the unknown kind {code}")
        if order == DELTA:
            (first,) = self.fields(_FIRST)
            count -= 1
        coder = _REFERENCES[code >> 6]
        reference = 0 if coder is None else self.fields(coder)[0]
        patches = self._patches(count) if code & _PATCHED else None
        width = _WIDTHS[code & 7]
        if width == 0 and patches is None:
            return _make_even_column(order, first, reference, count)
        words = self._words(count, width)
        words += np.uint64(reference & _WORD)
        if patches is not None:
            words[patches[0]] = patches[1]
        return _undo_prediction(words, order, first)

    def _patches(self, count: int) -> tuple[IntArray, WordArray]:
        (number,) = self.fields(_COUNT)
        if not 0 < number <= count:
            raise Damaged(f"{number} patches of {count} numbers")
        positions = self._column(number, may_patch=False)
        if int(positions.min()) < 0 or int(positions.max()) >= count:
            raise Damaged("a patch lies outside of its column")
        return positions, self._column(number, may_patch=False).view(np.uint64)

    def _words(self, count: int, width: int) -> WordArray:
        if width == 0:
            return np.zeros(count, np.uint64)
        data = self.take((count * width + 7) // 8)
        if width >= 8:
            return np.frombuffer(data, f"<u{width // 8}").astype(np.uint64)
        packed = np.frombuffer(data, np.uint8)
        if width == 1:
            return np.unpackbits(packed, count=count, bitorder="little").astype(np.uint64)
        digits = np.empty((len(packed), 8 // width), np.uint8)
        for digit, shift in enumerate(_SHIFTS[width]):
            digits[:, digit] = packed >> shift & np.uint8((1 << width) - 1)
        return digits.reshape(-1)[:count].astype(np.uint64)


def _make_even_column(order: int, first: int, reference: int, count: int) -> IntArray:
    """Make a column whose differences are all equal."""
    if order == PLAIN:
        return np.full(count, reference, np.int64)
    if order == RAMP:
        return (np.arange(count, dtype=np.uint64) + np.uint64(reference & _WORD)).view(np.int64)
    steps = np.arange(count + 1, dtype=np.uint64) * np.uint64(reference & _WORD)
    return (steps + np.uint64(first & _WORD)).view(np.int64)


def _undo_prediction(words: WordArray, order: int, first: int) -> IntArray:
    if order == RAMP:
        words += np.arange(len(words), dtype=np.uint64)
    elif order == DELTA:
        values = np.empty(len(words) + 1, np.uint64)
        values[0] = first & _WORD
        values[1:] = words
        return np.cumsum(values, dtype=np.uint64).view(np.int64)
    return words.view(np.int64)
