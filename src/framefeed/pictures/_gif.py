"""Read GIF headers (GIF87a, GIF89a): screen, first picture, and the number of pictures."""

from __future__ import annotations

import struct

from framefeed.pictures._reads import PICTURE_HEAD_BYTES, More, OddHeader, StillHeader

_WINDOW_BYTES = 2**18
MAX_WALK_BYTES = 2**28
"""Bytes of a file in which pictures are counted."""
_MAX_STEPS = 2**20
_RUN = 64
_COMMENT = 0xFE
_GRAPHIC_CONTROL = 0xF9
_SCREEN = struct.Struct("<HHB").unpack_from
_PICTURE = struct.Struct("<HHHHB").unpack_from
# A palette of the shades of grey in order.
_GREYS = bytes(shade for value in range(256) for shade in (value, value, value))

_new = tuple.__new__


def read_gif_header(head: bytes, more: More, size: int) -> StillHeader:
    """Walk all blocks, as no header has the number of pictures; ``size`` is not used."""
    if not head.startswith((b"GIF87a", b"GIF89a")):
        raise OddHeader("no GIF of a known version")
    return _BlockWalk(head, more).read_header()


class _BlockWalk:
    """Walk over the blocks of one file."""

    def __init__(self, head: bytes, more: More) -> None:
        self._window = head
        self._base = 0
        self._offset = 6
        self._more = more
        self._is_last = len(head) < PICTURE_HEAD_BYTES
        self._steps = _MAX_STEPS

    def read_header(self) -> StillHeader:
        width, height, flags = _SCREEN(self._read(7))
        needs_palette = bool(flags & 0x80) and self._read_palette(flags)
        num_frames = 0
        while self._find_picture():
            left, top, columns, rows, flags = _PICTURE(self._read(9))
            own_palette = self._read_palette(flags) if flags & 0x80 else None
            self._read(1)  # bits of a code
            if not num_frames:
                width, height = max(width, left + columns), max(height, top + rows)
                needs_palette = needs_palette if own_palette is None else own_palette
            num_frames += 1
            self._skip_data()
        if not num_frames or not width or not height:
            raise OddHeader("no picture")
        mode = "P" if needs_palette else "L"
        return _new(StillHeader, ("gif", "gif", width, height, mode, 1, num_frames))

    def _read_palette(self, flags: int) -> bool:
        """Read a palette; return whether it has more than the shades of grey in order."""
        colors = self._read(6 << (flags & 7))
        return not _GREYS.startswith(colors)

    def _find_picture(self) -> bool:
        """Go behind the next picture's separator; return False at the end."""
        while True:
            self._steps -= 1
            if self._steps < 0:
                raise OddHeader("too many blocks")
            if self._offset >= len(self._window) and not self._refill():
                return False
            block = self._window[self._offset]
            self._offset += 1
            if block == 0x2C:
                return True
            if block == 0x3B:
                return False
            if block == 0x21:
                label, length = self._read(2)
                if label == _COMMENT:
                    self._offset -= 1
                else:
                    self._read(length)
                    if not length or (label == _GRAPHIC_CONTROL and length != 4):
                        raise OddHeader("an extension of another form")
                self._skip_data()
            # Other bytes between blocks are skipped, as decoders do.

    def _skip_data(self) -> None:
        """Skip the data blocks of a picture or extension; runs of equally long ones at once."""
        while self._offset < len(self._window) or self._refill():
            self._steps -= 1
            if self._steps < 0:
                raise OddHeader("too many blocks")
            step = self._window[self._offset] + 1
            if step == 1:
                self._offset += 1
                return
            lengths = self._window[self._offset : self._offset + _RUN * step : step]
            self._offset += step * (len(lengths) - len(lengths.lstrip(lengths[:1])))

    def _read(self, count: int) -> bytes:
        if self._offset + count > len(self._window):
            self._refill()
        part = self._window[self._offset : self._offset + count]
        if len(part) < count:
            raise OddHeader("ends early")
        self._offset += count
        return part

    def _refill(self) -> bool:
        """Move the window to the walk's offset; return False at the end of the file."""
        if self._is_last:
            return False
        self._base += self._offset
        if self._base > MAX_WALK_BYTES:
            raise OddHeader("too large to count its pictures")
        self._window = self._more(_WINDOW_BYTES, self._base)
        self._offset = 0
        self._is_last = len(self._window) < _WINDOW_BYTES
        return bool(self._window)
