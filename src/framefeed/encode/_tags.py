"""Colours of a written video: the tags that the file carries, and the matrix and range that match them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fractions import Fraction

import av
from av.video.reformatter import ColorRange, Colorspace

from framefeed.encode._codecs import VideoOptions, choose_codec, find_container
from framefeed.errors import UsageError
from framefeed.index import StreamFacts
from framefeed.media import MATRICES

_UNSPECIFIED = 2
_RGB = 0
_BT709 = 1
_BT601 = 5
_LIMITED, _FULL = 1, 2

# ITU-T H.273 codes that x265 takes too; it refuses reserved ones, which damaged files have.
_PRIMARIES = frozenset({1, *range(4, 13)})
_TRANSFERS = frozenset({1, *range(4, 19)})
# ITU-T H.273 codes of the matrices that swscale has.
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    # swscale's own choice, with which decoders read a stream that names none.
    _UNSPECIFIED: Colorspace.ITU601,
}


@dataclass(frozen=True, slots=True)
class VideoTags:
    """What a video says about its colours and the shape of its samples."""

    primaries: int = _UNSPECIFIED  # ITU-T H.273 code; 2 is unspecified
    transfer: int = _UNSPECIFIED  # ITU-T H.273 code of the transfer characteristic; 2 is unspecified
    space: int = _UNSPECIFIED  # ITU-T H.273 code of the matrix from RGB; 2 is unspecified, which is read as BT.601
    range: int = 0  # libav's: 0 unspecified, which is read as limited; 1 limited, 2 full
    pixel_aspect_ratio: Fraction | None = None  # width to height of one sample; None where unknown

    @classmethod
    def of(cls, stream: StreamFacts, pixel_aspect_ratio: Fraction | None = None) -> VideoTags:
        """Take the tags of a source, whose pictures are written as displayed.

        Leave out the ratio, `StreamDetails.pixel_aspect_ratio`, if the pictures that are written have another size.
        A source of RGB pictures, such as PNG files, has the matrix 0. VP8 is always BT.601, and need not say so; other
        codecs are read as what players guess from the height.
        """
        if pixel_aspect_ratio and stream.rotation % 180:
            pixel_aspect_ratio = 1 / pixel_aspect_ratio
        space, range_ = stream.color_space, stream.color_range
        if space == _UNSPECIFIED and _has_rgb(stream.pixel_format):
            space, range_ = _RGB, _FULL
        elif space == _UNSPECIFIED and stream.codec == "vp8":  # RFC 6386, section 9.2: no other is defined
            space = _BT601
        return cls(stream.color_primaries, stream.color_transfer, space, range_, pixel_aspect_ratio or None)

    def fit(self, options: VideoOptions) -> VideoTags:
        """Replace what pictures of a codec and pixel format cannot have; drop codes that mean nothing.

        RGB pictures have no matrix and the full range; JPEG pictures have the full range and the matrix of BT.601.
        Pictures of a source that is RGB, or has a matrix that swscale does not have, get BT.709 in limited range.
        """
        tags = replace(
            self,
            primaries=self.primaries if self.primaries in _PRIMARIES else _UNSPECIFIED,
            transfer=self.transfer if self.transfer in _TRANSFERS else _UNSPECIFIED,
        )
        if options.is_rgb:
            return replace(tags, space=_RGB, range=_FULL)
        if options.rule.is_jpeg or options.coded_format.startswith("yuvj"):
            return replace(tags, space=_BT601 if options.rule.is_jpeg else self._yuv_space(), range=_FULL)
        is_limited = options.rule.is_limited or self.space == _RGB
        return replace(tags, space=self._yuv_space(), range=_LIMITED if is_limited else self.range)

    def _yuv_space(self) -> int:
        if self.space in _MATRICES:
            return self.space
        return _BT709 if self.space in MATRICES else _UNSPECIFIED

    @property
    def matrix(self) -> Colorspace:
        """Swscale's name of the matrix; for RGB any."""
        return _MATRICES.get(self.space, Colorspace.ITU601)

    @property
    def swscale_range(self) -> ColorRange:
        """Swscale's name of the range."""
        return ColorRange.JPEG if self.range == _FULL else ColorRange.MPEG


def _has_rgb(pixel_format: str) -> bool:
    if not pixel_format:
        return False
    try:
        form = av.VideoFormat(pixel_format, 2, 2)
    except ValueError:  # one of Pillow's modes: Pillow decodes these pictures to RGB
        return True
    return form.is_rgb or form.has_palette


def resolve_video(
    path: str | os.PathLike[str], options: VideoOptions, tags: VideoTags
) -> tuple[VideoOptions, VideoTags]:
    """Fill in all that the final container decides; segments of a video are written with the result.

    Args:
        path: Of the final video.
        options: How it is encoded; without a codec, the container chooses it.
        tags: Tags of the source.

    Returns:
        Options with a codec, and the tags that the file can carry: neither a .avi file nor the bitstream of mpeg4 or
        ffv1 names colours, so pictures get those that readers assume, BT.601 in limited range.

    Raises:
        UsageError: As `check_video_output` about the codec; or the file could not carry the shape of the samples.
    """
    options = choose_codec(path, options)
    tags = tags.fit(options)
    container = find_container(path).name
    if container == "avi" and not options.rule.has_color_tags and not options.is_rgb:
        tags = VideoTags(pixel_aspect_ratio=tags.pixel_aspect_ratio)
    aspect = tags.pixel_aspect_ratio or 1
    if aspect != 1 and container in ("mkv", "webm", "avi") and not options.rule.has_aspect_tag:
        raise UsageError(
            f"{os.fsdecode(path)}: a .{container} file of {options.codec} cannot say that its pixels are not square "
            f"({aspect.numerator}:{aspect.denominator}): write .mp4, choose h264, or resize the pictures to square "
            "pixels"
        )
    return options, tags
