"""The order in which the first pictures are shown, from their slice headers: whether the container's times agree.

Sources: ITU-T H.264 (08/2021) 7.3.3 and 8.2.1, ITU-T H.265 (08/2021) 7.3.6.1 and 8.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.mp4.samples import IntArray

WordArray = npt.NDArray[np.uint64]

HEAD_PACKETS = 64
"""Packets at the start whose order is looked at: more than any decoder holds back."""
_H264_IDR = 5
_HEVC_IDR = (19, 20)
_HEVC_BLA = (16, 17, 18)
_HEVC_IRAP = (16, 23)
_MOST_ZEROS = 12


@dataclass(frozen=True, slots=True)
class OrderSyntax:
    """How a slice header writes the picture's order.

    Attributes:
        codec: "h264" or "hevc".
        order_bits: Bits of the order.
        before: Bits of H.264's frame number, or HEVC's flags between picture parameter set and slice type.
        has_output_flag: HEVC's flag behind the slice type.
    """

    codec: str
    order_bits: int
    before: int
    has_output_flag: bool = False


@dataclass(frozen=True, slots=True)
class SliceHeads:
    """The first slices of the first packets, columns of length H.

    Attributes:
        kind: NAL unit type, int64.
        bits: The 64 bits behind the NAL unit header.
    """

    kind: IntArray
    bits: WordArray


class _Bits:
    """Numbers at the same place of many slice headers; ``available`` of the 64 bits of each are known."""

    def __init__(self, bits: WordArray, available: IntArray) -> None:
        self._bits = bits.copy()
        self._used = np.zeros(len(bits), np.int64)
        self._available = available

    def fixed(self, count: int, where: npt.NDArray[np.bool_] | None = None) -> IntArray:
        """Read ``count`` bits of each, or of some of them."""
        value = (self._bits >> np.uint64(64 - count)).astype(np.int64)
        used = np.full(len(value), count) if where is None else where * count
        self._pass(used)
        return value if where is None else np.where(where, value, 0)

    def golomb(self, where: npt.NDArray[np.bool_] | None = None) -> None:
        """Pass over an Exp-Golomb number of each, or of some of them."""
        _, length = np.frexp((self._bits >> np.uint64(48)).astype(np.float64))
        zeros = 16 - length.astype(np.int64)
        if bool((zeros > _MOST_ZEROS).any() if where is None else (zeros > _MOST_ZEROS)[where].any()):
            raise OddMovie("slice headers of long numbers")
        self._pass(2 * zeros + 1 if where is None else where * (2 * zeros + 1))

    def _pass(self, used: IntArray) -> None:
        self._bits <<= used.astype(np.uint64)
        self._used += used

    @property
    def is_enough(self) -> bool:
        """Whether all numbers lay within the bits that are known."""
        return bool((self._used <= self._available).all())


def shown_order(heads: SliceHeads, syntax: OrderSyntax) -> tuple[IntArray, bool]:
    """Number the packets in the order in which their pictures are shown.

    Returns:
        The numbers, int64 [H], and whether all orders are even: then pictures that follow each other are two apart.

    Raises:
        OddMovie: A slice header is longer than what is looked at, or restarts the order in mid-stream.
    """
    bits = _payload(heads.bits)
    is_reset, order = _h264(bits, heads, syntax) if syntax.codec == "h264" else _hevc(bits, heads, syntax)
    if not bits.is_enough:
        raise OddMovie("long slice headers")
    unwrapped = _unwrapped(order, is_reset, syntax.order_bits)
    return np.lexsort((unwrapped, np.cumsum(is_reset))).astype(np.int64), not bool((order & 1).any())


def _payload(stored: WordArray) -> _Bits:
    """Take out bytes against emulated start codes, H.264 7.4.1: in their place fewer bits are known."""
    data = stored.astype(">u8").view(np.uint8).reshape(-1, 8)
    zeros = data[:, :7] == 0
    has_emulated = (zeros[:, :6] & zeros[:, 1:] & (data[:, 2:] == 3)).any(axis=1)
    available = np.full(len(stored), 64)
    if not has_emulated.any():
        return _Bits(stored, available)
    stored = stored.copy()
    for row in np.flatnonzero(has_emulated).tolist():
        payload = data[row].tobytes().replace(b"\0\0\3", b"\0\0")
        stored[row] = int.from_bytes(payload.ljust(8, b"\0"), "big")
        available[row] = 8 * len(payload)
    return _Bits(stored, available)


def _h264(bits: _Bits, heads: SliceHeads, syntax: OrderSyntax) -> tuple[npt.NDArray[np.bool_], IntArray]:
    is_reset = heads.kind == _H264_IDR
    for _ in range(3):  # first macroblock, slice type, picture parameter set
        bits.golomb()
    bits.fixed(syntax.before)
    bits.golomb(is_reset)
    return is_reset, bits.fixed(syntax.order_bits)


def _hevc(bits: _Bits, heads: SliceHeads, syntax: OrderSyntax) -> tuple[npt.NDArray[np.bool_], IntArray]:
    if bool(np.isin(heads.kind[1:], _HEVC_BLA).any()):
        raise OddMovie("broken links")
    is_reset = np.isin(heads.kind, _HEVC_IDR)
    bits.fixed(1)
    bits.fixed(1, (heads.kind >= _HEVC_IRAP[0]) & (heads.kind <= _HEVC_IRAP[1]))
    bits.golomb()
    if syntax.before:
        bits.fixed(syntax.before)
    bits.golomb()
    if syntax.has_output_flag:
        raise OddMovie("pictures that may not be shown")
    return is_reset, bits.fixed(syntax.order_bits, ~is_reset)


def _unwrapped(order: IntArray, is_reset: npt.NDArray[np.bool_], order_bits: int) -> IntArray:
    """Add the bits that are not written: each picture is nearer to the one before it than half the range."""
    span = 1 << order_bits
    steps = np.diff(order, prepend=order[:1])
    steps = (steps + span // 2) % span - span // 2
    steps[is_reset] = 0
    total = np.cumsum(steps)
    starts = np.flatnonzero(is_reset)
    if len(starts):
        total = total - total[starts[np.maximum(np.searchsorted(starts, np.arange(len(order)), side="right") - 1, 0)]]
    return total.astype(np.int64)
