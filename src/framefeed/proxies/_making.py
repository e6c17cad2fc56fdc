"""Make the proxy of one video or picture, and check each of its pictures against the original."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from time import thread_time
from typing import Any

import numpy as np

from framefeed._arrays import ByteArray, FloatArray, IntArray
from framefeed._files import make_scratch_path, replacing, write_errors
from framefeed._values import MediaInfo
from framefeed.catalog import pack_index
from framefeed.decode import BaseDecoder, ClipSlot, DecodeCounts, allocate_pixels, make_auto_decoder, make_writer
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.encode import ProxyShrinker, ProxyWriter, encode_still, read_planes, view_samples
from framefeed.errors import CorruptMedia, FormatChanged
from framefeed.index import (
    FrameIndex,
    build_still_index,
    describe_still_stream,
    has_picture_files,
    index_media,
)
from framefeed.media import MediaSource
from framefeed.proxies._kinds import RESIZED
from framefeed.proxies._quality import Quality, compare, is_same_picture, sum_up
from framefeed.request import OutputSpec

DECODER: BaseDecoder = make_auto_decoder(PyAVDecoder())
"""Shared by all threads."""

_QUALITIES = 18, 14, 10
"""crf of the first encoding, and of those where its quality is not enough."""
_JPEG_QUALITIES = 95, 98, 100
UNDECODABLE = "not all of its frames can be decoded, or they do not come in order"
TOO_MUCH_LOST = "its pictures lose too much at the best setting"
NUM_COMPARED = 12
"""Frames of a video whose pictures are compared in full; of the others the means of 64 parts."""


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """How proxies are made."""

    short_side: int = 256  # rows or columns of the shorter side
    gop: int = 8  # distance of key frames, in frames


class StaysItself(Exception):
    """An original has no proxy, for the reason that is the message."""


@dataclass(frozen=True, slots=True)
class MadeProxy:
    """What was written for an original."""

    index: FrameIndex  # times and displayed size of the original, packets of the proxy
    quality: Quality
    setting: int  # crf of the encoder, or quality of the JPEG
    seconds: float  # CPU time of this thread, without that of frames that were not asked for

    def to_row(self, info: MediaInfo | None) -> dict[str, Any]:
        """Return the columns of its row in the table of proxies; ``info`` is what the original's header claims."""
        assert self.index.identity is not None
        facts = {"proxy_bytes": self.index.identity.bytes, "quality": self.setting, "seconds": self.seconds}
        return {**facts, **asdict(self.quality), **pack_index(self.index, info)}


def scale_size(displayed: tuple[int, int], short_side: int) -> tuple[int, int]:
    """Scale (height, width) to a short side; the long side becomes the nearest even number."""
    height, width = displayed
    long_side = 2 * round(short_side * max(displayed) / min(displayed) / 2)
    return (short_side, long_side) if height <= width else (long_side, short_side)


def make_proxy(
    source: MediaSource,
    index: FrameIndex,
    path: str,
    settings: ProxySettings,
    mark: str,
    frames: IntArray | None = None,
) -> MadeProxy:
    """Make the proxy of one source.

    Args:
        source: The original.
        index: Its frame index.
        path: The file to write, which appears whole or not at all.
        settings: Size and distance of key frames.
        mark: Fingerprint of the original, which the file names.
        frames: Frames that become the proxy, ascending, for an estimate; None for all.

    Raises:
        StaysItself: The original is better used as it is.
        MediaError: It cannot be read.
        UsageError: The file cannot be written.
    """
    source.check_identity(index.identity)
    comment = json.dumps({"framefeed": "proxy", "original": mark, **asdict(settings)})
    is_still = has_picture_files(index) and len(index) == 1
    ordinals = np.arange(len(index), dtype=np.int64) if frames is None else frames
    scratch = make_scratch_path(path)
    video = None if is_still else _Video(source, index, scratch, settings, ordinals)
    write = partial(_make_still, source, index, scratch, settings) if video is None else video.make
    setting, *more = _JPEG_QUALITIES if is_still else _QUALITIES
    began = thread_time()
    try:
        own, quality = write(comment, setting)
        while not quality.is_enough and more:
            setting = more.pop(0)
            own, quality = write(comment, setting)
        if not quality.is_enough:
            raise StaysItself(TOO_MUCH_LOST)
        source.check_identity(index.identity)
        with write_errors(path):
            os.replace(scratch, path)
    except (StaysItself, FormatChanged, CorruptMedia) as error:
        # Of a file that was replaced while it was read, nothing else is known.
        source.check_identity(index.identity)
        if isinstance(error, StaysItself):
            raise
        raise StaysItself(RESIZED if isinstance(error, FormatChanged) else UNDECODABLE) from error
    finally:
        with suppress(OSError):
            os.unlink(scratch)
    height, width = index.stream.displayed
    merged = replace(
        index,
        key_frame_indices=own.key_frame_indices,
        built_from="packets" if is_still else "decode",
        frame_packet=own.frame_packet,
        frame_start=own.frame_start,
        packets=own.packets,
        stream=replace(own.stream, shown_width=width, shown_height=height),
        identity=own.identity,
        damaged_frame_indices=np.empty(0, np.int64),
        **({} if frames is None else _cut(index, frames)),
    )
    extra = 0.0 if video is None else video.extra_seconds
    return MadeProxy(merged, quality, setting, thread_time() - began - extra)


def _cut(index: FrameIndex, frames: IntArray) -> dict[str, Any]:
    return {"pts": index.pts[frames].copy(), "duration": index.duration[frames].copy()}


class _Video:
    """Makes the proxy of a video from some of its frames, or all."""

    def __init__(
        self, source: MediaSource, index: FrameIndex, path: str, settings: ProxySettings, ordinals: IntArray
    ) -> None:
        self._source, self._index, self._path, self._ordinals = source, index, path, ordinals
        self._settings = settings
        self._size = scale_size(index.stream.displayed, settings.short_side)
        self._compared = np.unique(np.linspace(0, len(ordinals) - 1, NUM_COMPARED).round().astype(np.int64)).tolist()
        self._right: dict[int, tuple[ByteArray, ByteArray]] = {}
        self._sums: list[FloatArray] = []
        self._counts, self._decode_seconds = DecodeCounts(), 0.0

    def make(self, comment: str, crf: int) -> tuple[FrameIndex, Quality]:
        """Write the file, and read it again; return its own index, and how near its pictures are."""
        self._right, self._sums = {}, []
        self._counts, self._decode_seconds = DecodeCounts(), 0.0
        shrinker = ProxyShrinker(self._index.stream, self._size)
        rate = self._index.average_fps
        with ProxyWriter(
            self._path,
            shrinker,
            None if rate is None else Fraction(rate).limit_denominator(1001),
            quality=crf,
            gop=self._settings.gop,
            comment=comment,
        ) as writer:
            stored = self._index.stream.width, self._index.stream.height
            for number, frame in enumerate(self._decode()):
                if (frame.width, frame.height) != stored and not has_picture_files(self._index):
                    raise StaysItself(RESIZED)
                small = shrinker.shrink(frame)
                self._sums.append(sum_up(view_samples(small.planes[0])))
                if number in self._compared:
                    self._right[number] = view_samples(small.planes[0]).copy(), self._read_rgb(frame)
                del frame
                writer.write(small)
            if writer.num_pictures != len(self._ordinals):
                raise StaysItself(f"the encoder wrote {writer.num_pictures} of {len(self._ordinals)} pictures")
        return self._check()

    def _read_rgb(self, frame: Any) -> ByteArray:
        """Read the pixels that the original delivers at the size of the proxy, uint8 [H, W, 3]."""
        output = OutputSpec(self._size, dimension_order="NHWC")
        pixels: ByteArray = np.empty((*self._size, 3), np.uint8)
        make_writer(frame, self._index, self._source.name)(output, pixels)
        return pixels

    def _decode(self) -> Iterator[Any]:
        """Yield the pictures of the frames, each once and in order."""
        pictures = DECODER.iter_native(self._source, self._index, self._ordinals, self._counts)
        for expected in self._ordinals.tolist():
            began = thread_time()
            ordinal, frame = next(pictures, (-1, None))
            self._decode_seconds += thread_time() - began
            if ordinal != expected:
                raise StaysItself(UNDECODABLE)
            yield frame

    @property
    def extra_seconds(self) -> float:
        """CPU time of decoding frames that were not asked for, up to the first one of a part."""
        decoded = self._counts.frames_decoded
        return self._decode_seconds * max(0, decoded - len(self._ordinals)) / decoded if decoded else 0.0

    def _check(self) -> tuple[FrameIndex, Quality]:
        """Compare the file with what was to be written: number, order and pictures of its frames."""
        media = MediaSource.of(self._path)
        own = index_media(media, "none")[1]
        count = len(self._ordinals)
        is_regular = len(own) == len(own.packets) == count and bool((own.frame_packet == np.arange(count)).all())
        if not is_regular or own.stream.displayed != self._size:
            raise StaysItself(f"the encoder wrote {len(own)} of {count} pictures, or in another order")
        pairs, number = [], 0
        for ordinal, frame in DECODER.iter_native(media, own, np.arange(count)):
            beside = self._sums[max(0, number - 1) : number] + self._sums[number + 1 : number + 2]
            seen = sum_up(view_samples(frame.planes[0]))
            if ordinal != number or not is_same_picture(self._sums[number], seen, beside):
                break
            if number in self._right:
                pairs.append((self._right[number], read_planes(frame)))
            number += 1
            del frame
        if number < count:
            raise StaysItself(f"the encoder wrote another picture for frame {number} of {count}")
        return own, compare(pairs)


def _make_still(
    source: MediaSource, index: FrameIndex, path: str, settings: ProxySettings, comment: str, quality: int
) -> tuple[FrameIndex, Quality]:
    """Write a JPEG picture, and read it again."""
    size = scale_size(index.stream.displayed, settings.short_side)
    output = OutputSpec(size, dimension_order="NHWC", still_quality="scaled")
    right = _decode_picture(source, index, output)
    data = encode_still(right, "JPEG", quality, software=comment, chroma="4:2:0")
    with write_errors(path), replacing(path) as scratch, open(scratch, "wb") as file:
        file.write(data)
    media = MediaSource.of(path)
    stream = describe_still_stream("jpeg", "mjpeg", (size[1], size[0]), "RGB", 0, mirrored=False)
    own = build_still_index(stream, media.identity())
    seen = _decode_picture(media, own, OutputSpec(dimension_order="NHWC"))
    luma, seen_luma = compute_luma(right), compute_luma(seen)
    if not is_same_picture(sum_up(luma), sum_up(seen_luma)):
        raise StaysItself("the encoder wrote another picture")
    return own, compare([((luma, right), (seen_luma, seen))])


def _decode_picture(source: MediaSource, index: FrameIndex, output: OutputSpec) -> ByteArray:
    shape = (1, *output.shape(*index.stream.displayed))
    slot = ClipSlot(
        np.zeros(1, np.int64), output, allocate_pixels(shape, f"{source.name}: a picture", source=source.name)
    )
    DECODER.decode(source, index, [slot]).raise_first()
    picture: ByteArray = slot.out[0]
    return picture


def compute_luma(rgb: ByteArray) -> ByteArray:
    """Compute the luma of RGB, uint8 [H, W, 3], as JPEG does: ITU-R BT.601, full range."""
    luma: ByteArray = (rgb @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)
    return luma
