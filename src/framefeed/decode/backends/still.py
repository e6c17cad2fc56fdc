"""StillDecoder: decode picture files, alone or as an image sequence: JPEG with simplejpeg, others with Pillow.

Conversion of pictures that are not 8-bit RGB:
    - Alpha is dropped, as in videos, also that of a palette: the stored colour is kept, nothing is blended.
    - Grey and black-and-white become three equal channels.
    - 16-bit grey is v / 257, rounded: 65535 becomes 255. 16-bit colour is v >> 8, which is Pillow's conversion.
    - CMYK and YCbCr: Pillow's formulas. ICC profiles, gamma and chromaticities are not applied.
    - 32-bit integers, floats and L*a*b* are not converted: UnsupportedCodec, already from ``probe`` and ``scan``.

Pictures are turned upright. Then the recipe of ``decode._convert`` applies, as for a video of rgb24 frames.

JPEG is decoded by simplejpeg, and by Pillow what simplejpeg refuses; at full size both give the same pixels. With
``OutputSpec.still_quality="scaled"`` it is decoded at a half, a quarter or an eighth of its size where that is enough:
see ``decode._reduction``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache

import numpy as np
import PIL
from av.video.frame import VideoFrame
from PIL import Image

from framefeed._arrays import IntArray
from framefeed._shortage import try_again_in_shortage
from framefeed._values import DEFAULT_LIMITS, Limits, make_limit_error, read_bytes
from framefeed.decode._convert import describe_conversion
from framefeed.decode._decoder import BaseDecoder, ClipSlot, DecodeCounts, DecodeReport, Ordinals, Pixels
from framefeed.decode._reduction import SCALE_MARK, find_reduction
from framefeed.decode._registry import check_kind
from framefeed.decode._slots import (
    WHOLE_PICTURE,
    PendingFrames,
    convert_picture,
    copy_error,
    make_writer,
    name_picture,
    suggest_next_step,
)
from framefeed.errors import CorruptMedia, FrameNotFound, LimitExceeded, MediaError, StaleSource, UnsupportedCodec
from framefeed.index import MIXED, FrameIndex
from framefeed.media import MediaSource, SequenceSource
from framefeed.pictures import (
    JPEG_LIBRARY,
    PLUGGED_CODECS,
    UNCONVERTIBLE_MODES,
    decode_jpeg,
    decode_still,
    describe_plug_ins,
    make_mode_error,
    probe_image,
    reduce_size,
)
from framefeed.request import OutputSpec

# Errors of one picture, which the others of a sequence need not have.
_PICTURE_ERRORS = (CorruptMedia, UnsupportedCodec, LimitExceeded)
# Pillow's modes of premultiplied alpha, and the modes without it.
_UNMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}


class StillDecoder(BaseDecoder):
    """Decode still pictures and image sequences, in the calling thread; no file stays open between calls.

    ``reduction`` divides height and width of the JPEGs that ``iter_native`` gives. With ``accepts_damage``, damaged
    pictures are given too, if there is anything to see.
    """

    name = "still"

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, reduction: int = 1, accepts_damage: bool = False) -> None:
        self._limits = limits
        self.reduction = reduction
        self._accepts_damage = accepts_damage

    def for_output(self, index: FrameIndex, output: OutputSpec) -> StillDecoder:
        """Return the decoder of the reduction that an output has; see ``BaseDecoder.for_output``."""
        return self._at(find_reduction(index, output))

    def _at(self, reduction: int, *, accepts_damage: bool = False) -> StillDecoder:
        if (reduction, accepts_damage) == (self.reduction, self._accepts_damage):
            return self
        return StillDecoder(limits=self._limits, reduction=reduction, accepts_damage=accepts_damage)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        report = DecodeReport(errors=[None] * len(slots))
        groups: dict[tuple[int, bool], list[int]] = {}
        for number, slot in enumerate(slots):
            groups.setdefault((find_reduction(index, slot.output), slot.accepts_damaged), []).append(number)
        for (reduction, accepts_damage), numbers in groups.items():
            pending = PendingFrames(slots, report, source, numbers)
            self._check(source, index, pending.waiting)
            self._at(reduction, accepts_damage=accepts_damage)._fill(source, index, pending, report)
        return report

    def _fill(self, source: MediaSource, index: FrameIndex, pending: PendingFrames, report: DecodeReport) -> None:
        errors: dict[int, MediaError] = {}
        for ordinal in pending.waiting:
            try:
                frame, name = self._decode_picture(source, index, ordinal, report.counts)
            except _PICTURE_ERRORS as error:
                errors[ordinal] = error
            else:
                pending.fill(ordinal, make_writer(frame, index, name))
        for slot, ordinals in pending.slots_waiting().items():
            report.errors[slot] = _make_error(source, index, ordinals, errors[ordinals[0]])

    def list_ranges(self, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> list[tuple[int, int]]:
        """List the whole file of a picture; see ``BaseDecoder.list_ranges``."""
        is_sequence = index.identity is None or len(index) != 1
        return [] if is_sequence else [(0, int(index.packets.size[0]))]

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (ordinal, picture) of some frames, not converted; see ``BaseDecoder.iter_native``."""
        distinct = list(dict.fromkeys(np.asarray(ordinals, dtype=np.int64).tolist()))
        self._check(source, index, distinct)
        for ordinal in distinct:
            try:
                frame, _ = self._decode_picture(source, index, ordinal, counts or DecodeCounts())
            except _PICTURE_ERRORS:
                continue
            yield ordinal, frame

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, RGB pixels) of some frames, each in new memory; see ``BaseDecoder.iter_rgb``."""
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.for_output(index, output).iter_native(source, index, ordinals):
            write = make_writer(frame, index, name_picture(source, int(index.frame_packet[ordinal])))
            yield ordinal, convert_picture(write, output, shape, source)

    def recipe(self, index: FrameIndex) -> str:
        """Name the libraries and versions that decide the pixels; see ``BaseDecoder.recipe``."""
        return _make_recipe(index.stream.codec, self.reduction)

    def _check(self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int]) -> None:
        check_kind(self, index, source.name)
        bad = [ordinal for ordinal in ordinals if not 0 <= ordinal < len(index)]
        if bad:
            raise FrameNotFound(f"{source.name}: there is no frame {bad[0]}: the index has {len(index)} frames")

    def _decode_picture(
        self, source: MediaSource, index: FrameIndex, ordinal: int, counts: DecodeCounts
    ) -> tuple[VideoFrame, str]:
        """Decode one picture, upright, and name its file."""

        def decode() -> tuple[VideoFrame, str]:
            data, name = self._read(source, index, int(index.frame_packet[ordinal]))
            counts.opens += 1
            counts.runs += 1
            counts.packets_sent += 1
            counts.bytes_read += len(data)
            if self.reduction == 1:
                frame = self._decode_data(data, name, 1)
            else:
                frame = self._decode_reduced(data, name, index, is_one_of_many=isinstance(source, SequenceSource))
            counts.frames_decoded += 1
            return frame, name

        return try_again_in_shortage(decode, source.name, "decode")

    def _decode_reduced(self, data: bytes, name: str, index: FrameIndex, *, is_one_of_many: bool) -> VideoFrame:
        """Decode a picture reduced; or whole, as its pixel format says, if the reduction is for another picture."""
        if not is_one_of_many or self._is_like_first(data, index):
            frame = self._decode_data(data, name, self.reduction)
            if (frame.height, frame.width) == reduce_size(*index.stream.upright, self.reduction):
                return frame
        whole: Pixels = self._decode_data(data, name, 1).to_ndarray()  # type: ignore[assignment]  # of rgb24
        return VideoFrame.from_ndarray(np.ascontiguousarray(whole[:, :, ::-1]), WHOLE_PICTURE)

    def _is_like_first(self, data: bytes, index: FrameIndex) -> bool:
        """Whether a picture of a sequence has the size and orientation of the first, which is that of the index."""
        try:
            info = probe_image(MediaSource.of(data), self._limits)
        except MediaError:
            return False
        first = index.stream
        size, turn = (info.height, info.width), (info.rotation, info.mirrored)
        return size == first.upright and turn == (first.rotation, first.mirrored)

    def _decode_data(self, data: bytes, name: str, reduction: int) -> VideoFrame:
        upright = decode_jpeg(data, name, self._limits, reduction)
        if upright is not None:
            return VideoFrame.from_numpy_buffer(upright, "rgb24")
        return VideoFrame.from_ndarray(convert_to_rgb(self._decode_by_pillow(data, name, reduction), name), "rgb24")

    def _decode_by_pillow(self, data: bytes, name: str, reduction: int) -> Image.Image:
        try:
            return decode_still(data, name, self._limits, reduction, accepts_damage=self._accepts_damage)
        except CorruptMedia:
            if reduction == 1:
                raise
        # libjpeg reduces no lossless pictures.
        return decode_still(data, name, self._limits, accepts_damage=self._accepts_damage)

    def _read(self, source: MediaSource, index: FrameIndex, number: int) -> tuple[bytes, str]:
        size = int(index.packets.size[number])
        if size > self._limits.max_packet_bytes:
            raise make_limit_error(
                self._limits, "max_packet_bytes", f"picture {number} of {size} bytes", source.name, "decode"
            )
        if isinstance(source, SequenceSource):
            return source.read_file(number, index.identity), name_picture(source, number)
        source = source.with_limits(self._limits)
        source.check_identity(index.identity)
        with closing(source.reader(index.identity)) as reader:
            data = read_bytes(reader, 0, size)
        # If the file was replaced while it was read, the data belong to neither file (D09).
        source.check_identity(index.identity)
        if len(data) != size:
            raise StaleSource(
                f"{source.name}: has {len(data)} bytes now, and had {size} when it was indexed: index it again with "
                "ff.scan or ff.build_index",
                source=source.name,
                stage="decode",
            )
        return data, source.name


@cache
def _make_recipe(codec: str, reduction: int) -> str:
    plug_ins = describe_plug_ins(PLUGGED_CODECS if codec == MIXED else frozenset({codec}))
    recipe = f"still, Pillow {PIL.__version__}, {plug_ins}{describe_conversion()}"
    if codec in ("mjpeg", MIXED):
        recipe += f", {JPEG_LIBRARY}"
    return recipe if reduction == 1 else f"{recipe}{SCALE_MARK}{reduction}"


def convert_to_rgb(image: Image.Image, name: str) -> Pixels:
    """Convert a decoded picture to RGB, uint8 [H, W, 3], by the rules at the top of this module."""
    mode = image.mode
    if mode.startswith("I;16"):
        grey = ((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    # Without this, Pillow warns of transparency that it cannot keep.
    image.info.pop("transparency", None)
    if mode in UNCONVERTIBLE_MODES:
        raise make_mode_error(mode, name, "decode")
    opaque = image.convert(_UNMULTIPLIED[mode]) if mode in _UNMULTIPLIED else image
    try:
        return np.asarray(opaque if mode == "RGB" else opaque.convert("RGB"))
    except ValueError as error:  # a mode of a later Pillow
        raise make_mode_error(mode, name, "decode") from error


def _make_error(source: MediaSource, index: FrameIndex, ordinals: Sequence[int], first: MediaError) -> MediaError:
    """Make the error of one slot; each slot needs its own, because loaders write the clip's position into it."""
    if not isinstance(first, CorruptMedia):
        return copy_error(first, str(first), source.name)
    more = "" if len(ordinals) == 1 else f" and {len(ordinals) - 1} more"
    advice = (
        "run ff.scan with verify='full' to find such pictures: plans then leave out those that do not decode at all, "
        "and catalog.filter(num_damaged_frames=0) the others"
    )
    if isinstance(source, SequenceSource) or index.num_damaged_frames:
        advice = suggest_next_step(index, ordinals)
    return CorruptMedia(
        f"{first}; frame {ordinals[0]}{more}; {advice}", frames=ordinals, source=source.name, stage="decode"
    )
