"""The still backend: pictures in files of their own, alone or as an image sequence, through Pillow.

What becomes of a picture that is not RGB of 8 bits:
    - Alpha is dropped, as a video's is: the colour stored under it stays, nothing is blended. A palette's too.
    - Grey and black-and-white become three equal channels.
    - Grey of 16 bits is v / 257, rounded: 65535 becomes 255. Colour of 16 bits is what Pillow makes of it: v >> 8.
    - CMYK and YCbCr by Pillow's formulas, without an ICC profile. Profiles, gamma and chromaticities are not applied.
    - 32-bit whole numbers, floats and L*a*b* have no rule: UnsupportedCodec.

They are turned upright; then the one recipe of ``decode.convert`` applies, as for a video of rgb24 frames: how a file
is stored makes no difference. JPEG is always decoded at full size: reduced decoding gives other pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from av.video.frame import VideoFrame
from PIL import Image

from framefeed.decode.auto import check_kind
from framefeed.decode.convert import Converter
from framefeed.decode.decoder import ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode.places import Places, Write, naming
from framefeed.errors import (
    CorruptMedia,
    FormatChanged,
    FrameNotFound,
    LimitExceeded,
    MediaError,
    StaleSource,
    UnsupportedCodec,
)
from framefeed.index.frame_index import FrameIndex, StreamFacts
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.sequence import SequenceSource
from framefeed.media.source import MediaSource, read_bytes
from framefeed.media.stills import decode_still
from framefeed.plan.request import OutputSpec

_UNMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}


class StillDecoder:
    """Decodes stills and image sequences, one thread a call; files are opened when they are wanted, and not kept.

    Args:
        limits: What a file may claim.
    """

    name = "still"

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        report = DecodeReport(errors=[None] * len(slots))
        places = Places(slots, report, source)
        self._check(source, index, places.waiting)
        damage: dict[int, MediaError] = {}
        for ordinal in places.waiting:
            try:
                write = self._picture(source, index, ordinal, report.counts)
            except (CorruptMedia, UnsupportedCodec, LimitExceeded) as error:
                damage[ordinal] = error
            else:
                places.fill(ordinal, write)
        for number, ordinals in places.slots_waiting().items():
            report.errors[number] = _missing(source, ordinals, damage[ordinals[0]])
        return report

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) for consecutive frames; see ``PictureStream.pictures``."""
        self._check(source, index, stretch)
        shape = output.shape(*index.stream.displayed)
        for ordinal in stretch:
            try:
                write = self._picture(source, index, ordinal, DecodeCounts())
            except (CorruptMedia, UnsupportedCodec, LimitExceeded):
                continue
            out = np.empty(shape, dtype=np.uint8)
            with naming(source):
                write(output, out)
            yield ordinal, out

    def close(self) -> None:
        """Nothing is kept open."""

    def _check(self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int]) -> None:
        check_kind(self, index, source.name)
        bad = [ordinal for ordinal in ordinals if not 0 <= ordinal < len(index)]
        if bad:
            raise FrameNotFound(f"{source.name}: there is no frame {bad[0]}: the index has {len(index)} frames")

    def _picture(self, source: MediaSource, index: FrameIndex, ordinal: int, counts: DecodeCounts) -> Write:
        """Decode one picture; what is returned writes it in any form."""
        number = int(index.frame_packet[ordinal])
        data, name = self._read(source, index, number)
        counts.opens += 1
        counts.runs += 1
        counts.packets_sent += 1
        counts.bytes_read += len(data)
        upright = rgb_pixels(decode_still(data, name, self._limits), name)
        counts.frames_decoded += 1
        return partial(_write, VideoFrame.from_ndarray(upright, "rgb24"), (index.stream, name))

    def _read(self, source: MediaSource, index: FrameIndex, number: int) -> tuple[bytes, str]:
        size, most = int(index.packets.size[number]), self._limits.max_packet_bytes
        if size > most:
            raise LimitExceeded(f"{source.name}: picture {number} has {size} bytes, more than {most}")
        if isinstance(source, SequenceSource):
            return source.read_file(number, index.identity), source.files().paths[number]
        source.check_identity(index.identity)
        with source.opened() as reader:
            data = read_bytes(reader, 0, size)
        # What was read while another file took its place is nobody's picture (D09).
        source.check_identity(index.identity)
        if len(data) != size:
            raise StaleSource(f"{source.name}: has {len(data)} bytes, and {size} when it was indexed: index it again",
                              source=source.name, stage="decode")  # fmt: skip
        return data, source.name


def rgb_pixels(image: Image.Image, name: str) -> Pixels:
    """Bring a decoded picture to RGB, uint8 [H, W, 3], by the rules at the top.

    Raises:
        UnsupportedCodec: There is no rule for its pixels.
    """
    mode = image.mode
    if mode.startswith("I;16"):
        grey = ((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    # Nothing is blended; Pillow would warn of transparency that it cannot keep.
    image.info.pop("transparency", None)
    try:
        if mode in ("I", "F"):
            raise ValueError("32-bit numbers have no range that says what is white")
        opaque = image.convert(_UNMULTIPLIED[mode]) if mode in _UNMULTIPLIED else image
        return np.asarray(opaque if mode == "RGB" else opaque.convert("RGB"))
    except ValueError as error:
        message = f"{name}: no rule leads from pixels of kind {mode!r} to RGB ({error}): convert it to 8 or 16 bits"
        raise UnsupportedCodec(message, source=name, stage="decode") from error


def _write(frame: VideoFrame, expected: tuple[StreamFacts, str], output: OutputSpec, out: Pixels) -> None:
    stream, name = expected
    height, width = stream.displayed
    if (frame.height, frame.width) != (height, width) and (output.crop or not output.size):
        raise FormatChanged(
            f"{name} is {frame.width}x{frame.height} as displayed, not {width}x{height}: give size=(height, width) "
            "without crop to bring all to one size"
        )
    upright = replace(stream, width=frame.width, height=frame.height, rotation=0, mirrored=False)
    _converter().write(frame, upright, output, out)


def _missing(source: MediaSource, ordinals: Sequence[int], first: MediaError) -> MediaError:
    """Build the error of one slot; each has its own, for loaders write into them where the clip lies."""
    if not isinstance(first, CorruptMedia):
        return type(first)(str(first), source=source.name, stage="decode")
    message = str(first) if len(ordinals) == 1 else f"{first} (and so are {len(ordinals) - 1} more of those asked for)"
    return CorruptMedia(f"{message}; frame {ordinals[0]}", frames=ordinals, source=source.name, stage="decode")


_local = threading.local()


def _converter() -> Converter:
    """This thread's, which keeps swscale's set-up."""
    converter: Converter | None = getattr(_local, "converter", None)
    if converter is None:
        converter = _local.converter = Converter()
    return converter
