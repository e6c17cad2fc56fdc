"""H.264 that no encoder in PyAV writes: one field a packet, and parameter sets without a reorder depth.

Syntax after ITU-T H.264, clauses 7.3.2.1 (sequence parameter set), 7.3.3 (slice header) and 7.3.5 (macroblock).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.pathologies.bitstreams.bits import BitReader, BitWriter, escape, join_units, split_units, unescape

_SPS, _PPS, _IDR, _NON_IDR = 7, 8, 5, 1
_HIGH_PROFILES = (100, 110, 122, 244)
_MB = 16

Planes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def remove_usability_information(stream: bytes) -> bytes:
    """Remove the video usability information, which has the reorder depth, from the SPS of a byte stream."""
    units = split_units(stream)
    for number, unit in enumerate(units):
        if unit[0] & 31 == _SPS:
            reader, writer = BitReader(unescape(unit)), BitWriter()
            skip_to_usability_flag(reader)
            for bit in reader.before():
                writer.fixed(bit, 1)
            units[number] = escape(writer.fixed(0, 1).payload())
    return join_units(units)


def has_usability_information(sps: bytes) -> bool:
    """Whether a sequence parameter set (a NAL unit) has usability information, such as the reorder depth."""
    reader = BitReader(unescape(sps))
    skip_to_usability_flag(reader)
    return bool(reader.fixed(1))


def skip_to_usability_flag(reader: BitReader) -> None:
    """Read a sequence parameter set up to vui_parameters_present_flag."""
    reader.fixed(8)
    profile = reader.fixed(8)
    reader.fixed(16)
    reader.golomb()
    if profile in _HIGH_PROFILES:
        for _ in range(3):
            reader.golomb()
        # transform bypass, scaling matrices: x264 writes none by default.
        assert reader.fixed(2) == 0
    reader.golomb()
    if reader.golomb() == 0:
        reader.golomb()
    reader.golomb()
    reader.fixed(1)
    reader.golomb()
    reader.golomb()
    if not reader.fixed(1):
        reader.fixed(1)
    reader.fixed(1)
    if reader.fixed(1):
        for _ in range(4):
            reader.golomb()


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: number of its frame since the IDR picture, number of that picture, and which half it is."""

    frame: int
    gop: int
    bottom: bool

    @property
    def is_idr(self) -> bool:
        return self.frame == 0 and not self.bottom


def code_fields(pictures: Sequence[Planes], gop: int) -> list[bytes]:
    """Code pictures as pairs of fields (PAFF), losslessly: macroblocks are either raw or copied from the field before.

    Args:
        pictures: Y [H, W], U and V [H/2, W/2] of each frame; H a multiple of 32, W of 16.
        gop: Distance of IDR pictures; the others depend on their predecessors.

    Returns:
        Access units as byte streams, two a frame: top field, bottom field.
    """
    height, width = pictures[0][0].shape
    parameters = join_units([_write_sequence_parameters(height, width), _write_picture_parameters()])
    units = []
    for ordinal, picture in enumerate(pictures):
        for bottom in (False, True):
            field = _Field(ordinal % gop, ordinal // gop, bottom)
            intra = field.frame == 0
            before = None if intra else _select_field(pictures[ordinal - 1], bottom)
            coded = join_units([_write_slice(field, _select_field(picture, bottom), before)])
            units.append(parameters + coded if field.is_idr else coded)
    return units


def _select_field(picture: Planes, bottom: bool) -> Planes:
    return picture[0][int(bottom) :: 2], picture[1][int(bottom) :: 2], picture[2][int(bottom) :: 2]


def _write_sequence_parameters(height: int, width: int) -> bytes:
    writer = BitWriter().fixed(0x60 | _SPS, 8).fixed(77, 8).fixed(0, 8).fixed(30, 8)  # Main profile, level 3
    writer.golomb(0, 0, 0, 4)  # id, 4 bits of frame_num, order count type 0 with 8 bits
    writer.golomb(2).fixed(0, 1)  # two reference frames, no gaps
    writer.golomb(width // _MB - 1, height // (2 * _MB) - 1)
    # Not frames only; no MBAFF; direct_8x8_inference; no cropping; no usability information.
    return escape(writer.fixed(0, 1).fixed(0, 1).fixed(1, 1).fixed(0, 1).fixed(0, 1).payload())


def _write_picture_parameters() -> bytes:
    writer = BitWriter().fixed(0x60 | _PPS, 8).golomb(0, 0).fixed(0, 2)  # CAVLC, no bottom order count
    writer.golomb(0, 0, 0).fixed(0, 3).golomb(0, 0, 0)  # one reference each, no weights, QP and chroma offsets 0
    return escape(writer.fixed(1, 1).fixed(0, 2).payload())  # deblocking is switched off in each slice


def _write_slice(field: _Field, planes: Planes, before: Planes | None) -> bytes:
    writer = BitWriter().fixed(0x60 | (_IDR if field.is_idr else _NON_IDR), 8)
    writer.golomb(0, 7 if before is None else 5, 0)
    writer.fixed(field.frame % 16, 4).fixed(1, 1).fixed(int(field.bottom), 1)
    if field.is_idr:
        writer.golomb(field.gop % 2)
    writer.fixed((2 * field.frame + field.bottom) % 256, 8)
    if before is not None:
        writer.fixed(0, 2)  # references as they come: the same half of the frame before
    writer.fixed(0, 2 if field.is_idr else 1)  # reference marking: sliding window
    writer.golomb(0, 1)  # QP offset 0, no deblocking
    _write_macroblocks(writer, planes, before)
    return escape(writer.payload())


def _write_macroblocks(writer: BitWriter, planes: Planes, before: Planes | None) -> None:
    rows, columns = planes[0].shape[0] // _MB, planes[0].shape[1] // _MB
    skipped = 0
    for position in range(rows * columns):
        row, column = divmod(position, columns)
        block = _cut_block(planes, row, column)
        if before is not None:
            if block == _cut_block(before, row, column):
                skipped += 1
                continue
            writer.golomb(skipped)
            skipped = 0
        writer.golomb(25 if before is None else 30).raw(block)  # I_PCM
    if skipped:
        writer.golomb(skipped)


def _cut_block(planes: Planes, row: int, column: int) -> bytes:
    parts = []
    for plane, size in zip(planes, (_MB, _MB // 2, _MB // 2), strict=True):
        parts.append(plane[row * size : (row + 1) * size, column * size : (column + 1) * size].tobytes())
    return b"".join(parts)
