"""PlaneLayout: pixel format, size and colour properties of a decoded picture, as values and as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from av.video.format import VideoFormat

from framefeed._checks import expected
from framefeed.errors import UsageError
from framefeed.media.limits import DEFAULT_LIMITS
from framefeed.plan.request import OutputSpec

RGB_PLANAR = "rgbp"
"""Pixel format of an output uint8 [3, H, W], red, green, blue: no format of libav, whose gbrp has another order."""

CHROMA_LOCATIONS = ("unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom")
"""libav's names by AVChromaLocation, which are ITU-T H.273's ChromaLocType plus one."""

_RANGES = 3
_FORMATS = re.compile(
    r"(yuv[aj]?4\d\dp|gbra?p|gray)(9|10|12|14|16)?(le|be)?|nv(12|16|21|24|42)|p[024]1[026](le|be)|ya(8|16(le|be))|"
    r"rgb24|bgr24|rgba|bgra|argb|abgr|0rgb|rgb0|bgr0|0bgr|(rgb|bgr)48(le|be)|(rgba|bgra)64(le|be)|pal8|mono[wb]|"
    r"y[uv]y[uv]422|uyvy422"
)
"""Pixel formats of libav that are known to be converted: of others swscale refuses some, and does not survive a few."""
_MATRICES = frozenset({0, 1, 2, 4, 5, 6, 7, 9})
"""Codes of ITU-T H.273 that swscale converts from."""
_SCAN = {"p": False, "i": True}


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """Properties from which a decoded picture can be rebuilt, together with the bytes of its planes.

    Example:
        >>> PlaneLayout("yuv420p", 1280, 720, color_space=1).text
        'yuv420p 1280x720 1 0 p 0'

    Attributes:
        pixel_format: libav's name, or ``RGB_PLANAR``.
        width: Columns.
        height: Rows.
        color_space: ITU-T H.273 code of the matrix; 2 is unspecified.
        color_range: libav's: 0 unspecified, 1 limited, 2 full.
        interlaced: Whether odd and even rows were recorded at two times.
        chroma_location: Location of chroma samples, an index into ``CHROMA_LOCATIONS``.
    """

    pixel_format: str
    width: int
    height: int
    color_space: int = 2
    color_range: int = 0
    interlaced: bool = False
    chroma_location: int = 0

    def __post_init__(self) -> None:
        _check_size(self.width, self.height)
        if not geometry(self.pixel_format, self.width, self.height):
            raise expected("pixel_format", "an FFmpeg pixel format that is stored in memory", self.pixel_format)
        if not (0 <= self.color_space < 256 and 0 <= self.color_range < _RANGES):
            raise UsageError(
                f"expected color_space 0 to 255 and color_range 0 to {_RANGES - 1}, got {self.color_space} and "
                f"{self.color_range}"
            )
        if not 0 <= self.chroma_location < len(CHROMA_LOCATIONS):
            raise expected("chroma_location", f"0 to {len(CHROMA_LOCATIONS) - 1}", self.chroma_location)

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """(rows, bytes of a row) of each plane, in order."""
        return geometry(self.pixel_format, self.width, self.height)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(rows * row_bytes for rows, row_bytes in self.planes)

    @property
    def is_convertible(self) -> bool:
        """Whether swscale is known to convert such pictures safely."""
        return self.color_space in _MATRICES and _FORMATS.fullmatch(self.pixel_format) is not None

    @property
    def is_settled(self) -> bool:
        """Whether conversion reads only samples of the planes, so that equal planes give equal pixels.

        It is False for two kinds: of some interlaced pictures swscale reads one row of chroma too many in the lower
        field, and of a Bayer pattern with an odd number of rows or columns it reads beyond the last sample.
        """
        return _is_settled(self.pixel_format, self.width, self.height, self.interlaced)

    @property
    def text(self) -> str:
        """The layout as one line of text for ``parse``."""
        scan = "i" if self.interlaced else "p"
        numbers = f"{self.color_space} {self.color_range} {scan} {self.chroma_location}"
        return f"{self.pixel_format} {self.width}x{self.height} {numbers}"

    @staticmethod
    def parse(text: str) -> PlaneLayout:
        """Read a layout from its ``text``.

        Raises:
            UsageError: The text is not a layout, its pixel format is unknown, or its picture exceeds the limits.
        """
        return _parsed(text)


def output_layout(output: OutputSpec, height: int, width: int) -> PlaneLayout:
    """Give the layout of an output picture, for a source that is displayed at height x width."""
    planar = output.dimension_order == "NCHW"
    shape = output.shape(height, width)
    rows, columns = shape[1:] if planar else shape[:2]
    return PlaneLayout(RGB_PLANAR if planar else "rgb24", columns, rows)


def _check_size(width: int, height: int) -> None:
    limits = DEFAULT_LIMITS
    if not (0 < width <= limits.max_side and 0 < height <= limits.max_side) or width * height > limits.max_pixels:
        raise UsageError(
            f"expected a picture with sides of 1 to {limits.max_side} and at most {limits.max_pixels} pixels, got "
            f"{width}x{height}"
        )


@lru_cache(maxsize=1024)
def geometry(pixel_format: str, width: int, height: int) -> tuple[tuple[int, int], ...]:
    """Give (rows, bytes of a row) of each plane; empty for an unknown format, or one that is not stored in memory."""
    if pixel_format == RGB_PLANAR:
        return ((height, width),) * 3
    try:
        form = VideoFormat(pixel_format, width, height)
    except ValueError:
        return ()
    if form.name != pixel_format:  # another name of the same format
        return ()
    if form.has_palette:
        return ((height, width), (1, 1024))
    parts = form.components
    planes = []
    for number in range(max((part.plane for part in parts), default=-1) + 1):
        of_plane = [part for part in parts if part.plane == number]
        columns = of_plane[0].width
        bits = sum(-(-part.bits // 8) * 8 for part in of_plane)
        if all(part.plane == 0 for part in parts):
            bits = form.padded_bits_per_pixel
            # Packed chroma that several columns share is whole for the last of them too.
            shared = next(count for count in (4, 2, 1) if form.chroma_width(count) == 1)
            columns = -(-columns // shared) * shared
        planes.append((of_plane[0].height, -(-columns * bits // 8)))
    return tuple(planes)


@lru_cache(maxsize=1024)
def _is_settled(pixel_format: str, width: int, height: int, interlaced: bool) -> bool:
    if pixel_format == RGB_PLANAR:
        return True
    form = VideoFormat(pixel_format, width, height)
    if form.is_bayer:
        return not (width % 2 or height % 2)
    return not interlaced or form.chroma_height(height // 2) <= form.chroma_height() // 2


@lru_cache(maxsize=1024)
def _parsed(text: str) -> PlaneLayout:
    try:
        pixel_format, size, color_space, color_range, scan, location = text.split(" ")
        width, height = size.split("x")
        layout = PlaneLayout(
            pixel_format, int(width), int(height), int(color_space), int(color_range), _SCAN[scan], int(location)
        )
    except (ValueError, KeyError) as error:
        raise UsageError(f"expected the text of a PlaneLayout, got {text[:80]!r}: {error}") from error
    if layout.text != text:
        raise UsageError(f"expected the text of a PlaneLayout such as {layout.text!r}, got {text[:80]!r}")
    return layout
