"""GIF (GIF87a, GIF89a): screen, first picture, and a count of the pictures."""

from __future__ import annotations

import struct

from framefeed.media.headers._reach import PICTURE_HEAD_BYTES, More, OddHeader, StillHeader

_WINDOW_BYTES = 2**18
MAX_WALK_BYTES = 2**28
"""How far pictures are counted."""
_MAX_STEPS = 2**20
_RUN = 64
_COMMENT = 0xFE
_GRAPHIC_CONTROL = 0xF9
_SCREEN = struct.Struct("<HHB").unpack_from
_PICTURE = struct.Struct("<HHHHB").unpack_from
# A palette that is just the shades of grey needs no palette.
_GREYS = bytes(shade for value in range(256) for shade in (value, value, value))

_new = tuple.__new__


def read_gif_header(head: bytes, more: More, size: int) -> StillHeader:
    """Walk all blocks: nothing in a GIF says how many pictures follow; ``size`` is not needed."""
    if not head.startswith((b"GIF87a", b"GIF89a")):
        raise OddHeader("no GIF of a known version")
    return _BlockWalk(head, more).header()


class _BlockWalk:
    """Goes from block to block of one file."""

    def __init__(self, head: bytes, more: More) -> None:
        self._window = head
        self._base = 0
        self._at = 6
        self._more = more
        self._is_last = len(head) < PICTURE_HEAD_BYTES
        self._steps = _MAX_STEPS

    def header(self) -> StillHeader:
        width, height, flags = _SCREEN(self._take(7))
        needs_palette = bool(flags & 0x80) and self._palette(flags)
        num_frames = 0
        while self._next_picture():
            left, top, columns, rows, flags = _PICTURE(self._take(9))
            own_palette = self._palette(flags) if flags & 0x80 else None
            self._take(1)  # bits of a code
            if not num_frames:
                width, height = max(width, left + columns), max(height, top + rows)
                needs_palette = needs_palette if own_palette is None else own_palette
            num_frames += 1
            self._pass_data()
        if not num_frames or not width or not height:
            raise OddHeader("no picture")
        mode = "P" if needs_palette else "L"
        return _new(StillHeader, ("gif", "gif", width, height, mode, 8, 1, num_frames, num_frames > 1))

    def _palette(self, flags: int) -> bool:
        """Read a palette; tell whether it says anything."""
        colors = self._take(6 << (flags & 7))
        return not _GREYS.startswith(colors)

    def _next_picture(self) -> bool:
        """Go behind the next picture's separator; False at the end."""
        while True:
            self._steps -= 1
            if self._steps < 0:
                raise OddHeader("too many blocks")
            if self._at >= len(self._window) and not self._refill():
                return False
            block = self._window[self._at]
            self._at += 1
            if block == 0x2C:
                return True
            if block == 0x3B:
                return False
            if block == 0x21:
                self._pass_extension()
            # Anything else between blocks is stepped over, as decoders do.

    def _pass_extension(self) -> None:
        label, length = self._take(2)
        if label == _COMMENT:
            self._at -= 1
            self._pass_data()
            return
        self._take(length)
        if not length or (label == _GRAPHIC_CONTROL and length != 4):
            raise OddHeader("an extension of another form")
        self._pass_data()

    def _pass_data(self) -> None:
        """Go behind the blocks of a picture or extension, runs of equally long ones at once; or to the end."""
        while self._at < len(self._window) or self._refill():
            self._steps -= 1
            if self._steps < 0:
                raise OddHeader("too many blocks")
            step = self._window[self._at] + 1
            if step == 1:
                self._at += 1
                return
            lengths = self._window[self._at : self._at + _RUN * step : step]
            self._at += step * (len(lengths) - len(lengths.lstrip(lengths[:1])))

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._window):
            self._refill()
        part = self._window[self._at : self._at + count]
        if len(part) < count:
            raise OddHeader("ends early")
        self._at += count
        return part

    def _refill(self) -> bool:
        """Move the window to where the walk is; False at the end of the file."""
        if self._is_last:
            return False
        self._base += self._at
        if self._base > MAX_WALK_BYTES:
            raise OddHeader("too large to count its pictures")
        self._window = self._more(_WINDOW_BYTES, self._base)
        self._at = 0
        self._is_last = len(self._window) < _WINDOW_BYTES
        return bool(self._window)
