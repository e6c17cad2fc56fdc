"""Choose the reader of a picture's header by its first two bytes."""

from __future__ import annotations

import struct

from framefeed.pictures._gif import read_gif_header
from framefeed.pictures._jpeg import read_jpeg_header
from framefeed.pictures._png import read_png_header
from framefeed.pictures._reads import PICTURE_HEAD_BYTES, More, OddHeader, StillHeader
from framefeed.pictures._webp import read_webp_header

_READERS = {
    b"\xff\xd8": read_jpeg_header,
    b"\x89P": read_png_header,
    b"GI": read_gif_header,
    b"RI": read_webp_header,
}


def read_still_header(head: bytes, more: More, size: int = 0) -> StillHeader:
    """Read what the header of a JPEG, PNG, GIF or WebP claims, as Pillow understands it.

    ``head``: the first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
    ``size``: bytes of the file, 0 if unknown. With it, EXIF behind the pixels of a PNG is read, and a cut PNG or
    WebP is noticed.

    Raises:
        OddHeader: Another format, damaged, or so rare that ``probe_image`` asks Pillow.
    """
    if not size and len(head) < PICTURE_HEAD_BYTES:
        size = len(head)
    try:
        return _READERS[head[:2]](head, more, size)
    except (KeyError, IndexError, struct.error) as error:
        raise OddHeader(f"of no known kind, or cut off ({error!r})") from error
