"""Columns of int64 in few bytes, exact for every value: what a column's pattern predicts is left out.

A column is stored as its difference from a prediction (nothing, the value before, or the position), less a reference,
in the narrowest of eight widths; the few numbers that such a width cannot hold are kept apart as patches (the scheme
of PFOR: Zukowski et al., Super-scalar RAM-CPU cache compression, 2006). All arithmetic is modulo 2**64, so that no
number is too large. Even distances, such as constant-rate times, take no byte a frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from framefeed._arrays import IntArray, WordArray

PLAIN, DELTA, RAMP = 0, 1, 2
"""What predicts a number: nothing, the number before it, its position."""
_PATCHED = 0x20
_WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)
"""Bits a number."""
_BITS = np.array(_WIDTHS)
_FIRST_TOO_LARGE = np.array([1 << width for width in _WIDTHS[:-1]], np.uint64)
_REFERENCES: tuple[struct.Struct | None, ...] = (None, struct.Struct("<b"), struct.Struct("<i"), struct.Struct("<q"))
_PLACE_BITS = 12
"""About what the place of a patch takes."""
_PATCHES_BITS = 100
"""About what having patches at all takes."""
_CHEAP_BITS = 2
"""A prediction that leaves as few bits a number is taken without trying the next."""
_WORD = (1 << 64) - 1
_FIRST = struct.Struct("<q")
_COUNT = struct.Struct("<I")


class Damaged(ValueError):
    """The bytes are not what was written."""


class _Fit(NamedTuple):
    """How a column would be stored.

    Attributes:
        bits: Estimated size.
        order: Its prediction.
        first: The first number, for ``DELTA``.
        reference: Taken off every difference.
        width: Place in ``_WIDTHS``.
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
    return _packed(values, orders or (PLAIN,), may_patch=True) if len(values) else b""


def _packed(values: IntArray, orders: tuple[int, ...], may_patch: bool) -> bytes:
    best: _Fit | None = None
    for order in orders:
        fit = _fitted(values, order, may_patch)
        best = fit if best is None or fit.bits < best.bits else best
        if best.bits <= _CHEAP_BITS * len(values):
            break
    assert best is not None
    return _written(best)


def _fitted(values: IntArray, order: int, may_patch: bool) -> _Fit:
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
    # Patches below the reference pay where most numbers are one and the same.
    is_sparse = may_patch and ordered[len(ordered) // 4] == ordered[3 * len(ordered) // 4]
    places = (least, middle) if is_sparse else (least,)
    bits, width, reference = min(_width_for(ordered, at, may_patch) for at in places)
    return _Fit(bits, order, first, reference, width, differences)


def _width_for(ordered: IntArray, at: int, may_patch: bool) -> tuple[int, int, int]:
    """(bits, width, reference) of the best width if the number at a place of the sorted column is the reference."""
    reference = ordered[at]
    at = int(ordered.searchsorted(reference))
    above = ordered[at:].view(np.uint64) - reference.view(np.uint64)
    patches = np.zeros(len(_WIDTHS), np.int64)
    patches[:-1] = len(ordered) - above.searchsorted(_FIRST_TOO_LARGE)
    bits = len(ordered) * _BITS
    if may_patch:
        bits += patches * (_PLACE_BITS + _BITS[-1 if at else int(patches.argmin())]) + _PATCHES_BITS * (patches > 0)
    else:
        bits[patches > 0] = np.iinfo(np.int64).max
    width = int(bits.argmin())
    return int(bits[width]), width, int(reference)


def _written(fit: _Fit) -> bytes:
    width = _WIDTHS[fit.width]
    residuals = fit.differences.view(np.uint64) - np.uint64(fit.reference & _WORD)
    patches = np.flatnonzero(residuals >> np.uint64(width)) if width < 64 else np.empty(0, np.int64)
    reference = _reference_code(fit.reference)
    head = [bytes([fit.width | fit.order << 3 | (_PATCHED if len(patches) else 0) | reference << 6])]
    if fit.order == DELTA:
        head.append(_FIRST.pack(fit.first))
    if (coder := _REFERENCES[reference]) is not None:
        head.append(coder.pack(fit.reference))
    if len(patches):
        residuals[patches] = 0
        kept = fit.differences[patches]
        head += [_COUNT.pack(len(patches)), _packed(patches, (DELTA,), False), _packed(kept, (PLAIN,), False)]
    return b"".join([*head, _bits_of(residuals, width)])


def _reference_code(reference: int) -> int:
    if reference == 0:
        return 0
    return 1 if -(1 << 7) <= reference < 1 << 7 else 2 if -(1 << 31) <= reference < 1 << 31 else 3


def _bits_of(words: WordArray, width: int) -> bytes:
    if width == 0:
        return b""
    if width >= 8:
        return bytes(words.astype(f"<u{width // 8}"))
    per_byte = 8 // width
    digits = np.zeros((-(-len(words) // per_byte), per_byte), np.uint8)
    digits.reshape(-1)[: len(words)] = words
    return bytes(np.bitwise_or.reduce(digits << _SHIFTS[width], axis=1, dtype=np.uint8))


_SHIFTS = {width: np.arange(0, 8, width, dtype=np.uint8) for width in (1, 2, 4)}
"""Where a byte keeps its numbers of fewer than 8 bits."""


@dataclass(slots=True)
class Cursor:
    """Reads numbers out of untrusted bytes, from the front.

    Attributes:
        data: The bytes.
        at: Place of the next one.
    """

    data: memoryview
    at: int = 0

    def take(self, count: int) -> memoryview:
        """Take the next bytes.

        Raises:
            Damaged: There are not so many.
        """
        stop = self.at + count
        if stop > len(self.data):
            raise Damaged(f"it ends after {len(self.data)} bytes, and claims {stop}")
        part = self.data[self.at : stop]
        self.at = stop
        return part

    def fields(self, coder: struct.Struct) -> tuple[Any, ...]:
        """Take what a struct describes."""
        return coder.unpack(self.take(coder.size))

    def column(self, count: int) -> IntArray:
        """Take a column that `pack` stored.

        Args:
            count: Its length n, which the caller has checked against what may be allocated.

        Returns:
            int64 [n], of its own memory.
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
            return _even(order, first, reference, count)
        words = self._words(count, width)
        words += np.uint64(reference & _WORD)
        if patches is not None:
            words[patches[0]] = patches[1]
        return _undone(words, order, first)

    def _patches(self, count: int) -> tuple[IntArray, WordArray]:
        (number,) = self.fields(_COUNT)
        if not 0 < number <= count:
            raise Damaged(f"{number} patches of {count} numbers")
        places = self._column(number, may_patch=False)
        if int(places.min()) < 0 or int(places.max()) >= count:
            raise Damaged("a patch lies outside of its column")
        return places, self._column(number, may_patch=False).view(np.uint64)

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
        for place, shift in enumerate(_SHIFTS[width]):
            digits[:, place] = packed >> shift & np.uint8((1 << width) - 1)
        return digits.reshape(-1)[:count].astype(np.uint64)


def _even(order: int, first: int, reference: int, count: int) -> IntArray:
    """A column whose differences are all the same."""
    if order == PLAIN:
        return np.full(count, reference, np.int64)
    if order == RAMP:
        return (np.arange(count, dtype=np.uint64) + np.uint64(reference & _WORD)).view(np.int64)
    steps = np.arange(count + 1, dtype=np.uint64) * np.uint64(reference & _WORD)
    return (steps + np.uint64(first & _WORD)).view(np.int64)


def _undone(words: WordArray, order: int, first: int) -> IntArray:
    if order == RAMP:
        words += np.arange(len(words), dtype=np.uint64)
    elif order == DELTA:
        values = np.empty(len(words) + 1, np.uint64)
        values[0] = first & _WORD
        values[1:] = words
        return np.cumsum(values, dtype=np.uint64).view(np.int64)
    return words.view(np.int64)
