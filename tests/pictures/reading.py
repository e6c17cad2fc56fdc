"""Two readings of one picture: ours, with its reads counted, and Pillow's."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from framefeed.pictures._pillow import PILLOW_FORMATS
from framefeed.pictures._reads import PICTURE_HEAD_BYTES as HEAD_BYTES
from framefeed.pictures._reads import StillHeader
from framefeed.pictures._still import read_still_header
from tests.pictures.made import PILLOW_READS_XMP

IN_XMP = rb'tiff:Orientation="([0-9])'


class Facts(NamedTuple):
    """What both can say."""

    container: str
    width: int
    height: int
    mode: str
    orientation: int
    num_frames: int


@dataclass
class Reads:
    """A file in memory that counts what is read beyond its head.

    Attributes:
        data: All of it.
        apparent_bytes: A larger size that it claims to have; its bytes beyond ``data`` are zeros.
        calls: Bytes asked for, one number a call.
    """

    data: bytes
    apparent_bytes: int = 0
    calls: list[int] = field(default_factory=list)

    def more(self, count: int, offset: int) -> bytes:
        """Read as `os.pread` does."""
        assert count > 0
        assert 0 <= offset < 2**63
        self.calls.append(count)
        part = self.data[offset : offset + count]
        return part + bytes(max(0, min(count, self.apparent_bytes - offset) - len(part)))

    def header(self, *, knows_size: bool = True) -> StillHeader:
        """Read the header."""
        size = max(len(self.data), self.apparent_bytes)
        head = self.data[:HEAD_BYTES] + bytes(max(0, min(HEAD_BYTES, self.apparent_bytes) - len(self.data)))
        return read_still_header(head, self.more, size if knows_size else 0)


def our_facts(data: bytes, *, knows_size: bool = True) -> Facts:
    """Read by ``read_still_header``; raises OddHeader."""
    return facts_of(Reads(data).header(knows_size=knows_size))


def facts_of(header: StillHeader) -> Facts:
    return Facts(header.container, header.width, header.height, header.mode, header.orientation, header.num_frames)


def pillow_facts(data: bytes) -> Facts:
    """Read by Pillow; raises whatever it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=PILLOW_FORMATS) as image:
            width, height = image.size
            if isinstance(image, TiffImageFile):  # as stored; some versions give the size as displayed
                width, height = int(image.tag_v2[0x0100]), int(image.tag_v2[0x0101])
            orientation = int(image.getexif().get(0x0112, 1))
            xmp = image.info.get("xmp", b"")
            if not PILLOW_READS_XMP and 0x0112 not in image.getexif() and (said := re.search(IN_XMP, xmp)):
                orientation = int(said[1])
            orientation = orientation if 1 <= orientation <= 8 else 1
            num_frames = int(getattr(image, "n_frames", 1))
            return Facts(str(image.format).lower(), width, height, image.mode, orientation, num_frames)
