"""The libav side of media: open with an allow-list, choose the stream, walk packets, decode to facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, cast

import av

# PyAV imports these at the first opening, which a shortage of memory then fails as an ImportError.
import av.audio.codeccontext
import av.audio.stream
import av.subtitles.codeccontext
import av.subtitles.stream
import av.video.codeccontext
import av.video.stream
from av.buffer import Buffer
from av.container import InputContainer
from av.packet import Packet as AvPacket
from av.sidedata.sidedata import SideDataContainer
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from framefeed.errors import CorruptMedia, LimitExceeded, NoVideoStream, UnreadableMedia, UnsupportedCodec
from framefeed.media.foreign import (
    FOREIGN,
    LogLine,
    check_memory,
    largest_picture,
    libav_log,
    translated,
)
from framefeed.media.libav_input import LibavInput
from framefeed.media.libav_options import WITHHELD, libav_options, without_withheld
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.source import ByteReader, MediaSource
from framefeed.parallel.stopping import check_stop

STREAM_FORMATS = frozenset({"h264", "hevc", "vvc", "obu", "av1", "m4v", "mpegvideo", "mjpeg", "vc1", "h263", "h261"})
"""Bare streams without a container's timestamps and positions."""
_KEPT_LINES = 16
"""Of libav's log, for the messages of errors."""
_BATCH_PACKETS = 64
_BATCH_BYTES = 2**18
"""What is held at once where all packets are read; one more packet may go beyond it."""


if TYPE_CHECKING:
    Packet = AvPacket[VideoStream]
else:  # PyAV's class takes its stream's type in its stub only.
    Packet = AvPacket


@dataclass(frozen=True, slots=True)
class DecodedFact:
    """One frame that a decoder gave: everything but its pixels.

    Attributes:
        packet: Number of the packet whose picture this is, in demuxing order; -1 where the decoder does not say.
        width: Columns before rotation.
        height: Rows before rotation.
        coded_width: Columns as stored: the decoder knows them once it has decoded, and forgets them when reopened.
        coded_height: Rows as stored.
        pixel_format: libav's name.
        is_key: Flagged as a key frame.
        is_corrupt: Flagged as damaged.
    """

    packet: int
    width: int
    height: int
    coded_width: int
    coded_height: int
    pixel_format: str
    is_key: bool
    is_corrupt: bool


class VideoContainer:
    """An open container and its chosen video stream; one owner at a time.

    Args:
        source: Where the bytes are.
        stream_index: The stream to use, or None for the best one.
        limits: What the file may claim.
        headers_only: Keep libav from decoding a first picture of VP9 and AV1: pixel format and VP9's colours stay
            unknown until ``open_whole``.

    Attributes:
        log: The first errors that libav logged of it, each once.
        matrix: The nine numbers of the display matrix of the first frame that was decoded, or None.
        has_decoded: Whether a frame was decoded, so that ``matrix`` is known.

    Raises:
        UnreadableMedia: Not a container of the allow-list, or damaged.
        NoVideoStream: Nothing but audio, subtitles or cover pictures; or not a video stream at that index.
        UnsupportedCodec: No decoder for it, or encrypted.
        LimitExceeded: It claims more than ``limits``.
    """

    def __init__(
        self,
        source: MediaSource,
        stream_index: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        headers_only: bool = False,
    ) -> None:
        self.source = source
        self.limits = limits
        self._headers_only = headers_only
        self._open(stream_index)

    def _open(self, stream_index: int | None) -> None:
        self._knows_encoder = False
        self._is_fresh = True
        self.log: list[LogLine] = []
        self.matrix: tuple[int, ...] | None = None
        self.has_decoded = False
        self._input = LibavInput(self.source)  # refuses a FIFO or a folder before libav sees it
        try:
            self._container = self._opened()
            if self._headers_only and len(self._container.streams.video) > 1 and self._has_withheld():
                # Which one is the best depends on how much libav reads of each.
                self._headers_only = False
                self.close()
                self._open(stream_index)
                return
            try:
                self.stream = self._choose(stream_index)
                self._check()
                self._configure(self.stream.codec_context)
            except BaseException:
                self._container.close()
                raise
        except BaseException:
            self._input.close_reader()
            raise

    def _has_withheld(self) -> bool:
        contexts = (stream.codec_context for stream in self._container.streams.video)
        return any(context is None or context.codec.canonical_name in WITHHELD for context in contexts)

    def _opened(self) -> InputContainer:
        self._input.bound_header(self.limits)
        options = libav_options(self.limits, self._headers_only)
        try:
            with libav_log() as lines, translated(self.source.name, "open", self.limits.max_packet_bytes, lines):
                opened = av.open(self._input, options=options, metadata_errors="replace")
        finally:
            self._input.raise_error()
        self.keep_log(without_withheld(lines))
        return cast("InputContainer", opened)

    def _configure(self, context: av.VideoCodecContext) -> None:
        context.thread_count = 1
        context.thread_type = "NONE"
        # Options of the container never reach the decoder: they must be set on its own context (S04).
        context.options = {"max_pixels": str(self.limits.max_pixels)}

    def keep_log(self, lines: Sequence[LogLine]) -> None:
        """Keep what libav logged for the message of an error; the first errors say best what is wrong."""
        for line in lines:
            if len(self.log) < _KEPT_LINES and line not in self.log:
                self.log.append(line)

    def reopen(self) -> bool:
        """Stand at the first packet, whatever the container can seek; False where it stands there already."""
        if self._is_fresh:
            return False
        index, options = self.stream.index, self.decoder().options
        self.close()
        self._open(index)
        self.decoder().options = options
        return True

    def open_whole(self) -> bool:
        """Open anew without ``headers_only``; False where nothing more would be known of the stream."""
        if not self._headers_only or self.codec_name not in WITHHELD:
            return False
        self._headers_only = self._is_fresh = False
        return self.reopen()

    def learn_encoder(self) -> None:
        """Let the decoder see the first packet where that says how the rest must be read, before decoding elsewhere.

        MPEG-4 part 2 encoders sign their first packet, and libavcodec works around each one's habits: DivX's packed
        B-frames, Xvid's own inverse transform.
        """
        if self._knows_encoder or self.codec_name != "mpeg4":
            return
        context = self.decoder()
        # Another opening: this one stays where it is.
        with VideoContainer(self.source, self.stream.index, self.limits) as beginning:
            for first in islice(beginning.packets(), 1):
                # What it says of its encoder comes before its picture, which may be damaged.
                decode_packet(self, first)
        context.flush_buffers()
        self._knows_encoder = True

    def _choose(self, wanted: int | None) -> VideoStream:
        streams = list(self._container.streams)
        if len(streams) > self.limits.max_streams:
            raise LimitExceeded(
                f"{self.source.name}: has {len(streams)} streams, more than {self.limits.max_streams}",
                source=self.source.name,
            )
        videos = [s for s in self._container.streams.video if not s.disposition & Disposition.attached_pic]
        if wanted is not None:
            videos = [s for s in videos if s.index == wanted]
        if not videos:
            found = ", ".join(sorted({str(s.type) for s in streams})) or "nothing"
            where = "" if wanted is None else f" at index {wanted}"
            raise NoVideoStream(
                f"{self.source.name}: has no video stream{where} (found: {found}; cover pictures do not count)",
                source=self.source.name,
                stage="open",
            )
        # av_find_best_stream: the same stream as ffplay and TorchCodec take, but for cover pictures.
        best = self._container.streams.best("video")
        return next((s for s in videos if best is not None and s.index == best.index), min(videos, key=_preference))

    def _check(self) -> None:
        context = self.stream.codec_context
        name = self.source.name
        if self.is_encrypted:
            raise UnsupportedCodec(f"{name}: its video is encrypted", source=name, stage="open")
        if context is None:
            raise UnsupportedCodec(
                f"{name}: this build of FFmpeg has no decoder for its video", source=name, stage="open"
            )
        self.limits.check_picture(
            max(context.width, context.coded_width), max(context.height, context.coded_height), name
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether the sample description says that the packets are encrypted (ISO/IEC 23001-7)."""
        context = self.stream.codec_context
        return context is not None and str(context.codec_tag).lower() in ("encv", "drmi")

    @property
    def is_whole_picture(self) -> bool:
        """Whether the chosen stream is the file's primary one, and none is a tile of a larger picture."""
        tiles = [stream for stream in self._container.streams.video if stream.disposition & Disposition.dependent]
        return bool(self.stream.disposition & Disposition.default) and not tiles

    @property
    def format_name(self) -> str:
        """Libav's name of the container format."""
        return str(self._container.format.name)

    @property
    def codec_name(self) -> str:
        """Canonical codec name: "av1" whichever library decodes it."""
        return str(self.stream.codec_context.codec.canonical_name)

    @property
    def reader(self) -> ByteReader:
        """Its bytes, while it is open."""
        return self._input.reader

    def packets(self) -> Iterator[Packet]:
        """Demux the stream's packets from where the container stands; empty ones are left out.

        A packet of no bytes repeats the picture before it (Theora, AVI): no decoder gives a frame for it.
        """
        for batch in self._demuxed(1):
            yield from batch

    def batches(self) -> Iterator[list[Packet]]:
        """Demux as `packets`, some at a time, to read them all: the container stands behind those given.

        A list is emptied when the next one is asked for.
        """
        return self._demuxed(_BATCH_PACKETS)

    def _demuxed(self, most: int) -> Iterator[list[Packet]]:
        self._is_fresh = False
        demuxed = self._container.demux(self.stream)
        while batch := self._next_packets(demuxed, most):
            yield batch
            batch.clear()  # so that the next ones find their memory in the processor's cache

    def _next_packets(self, demuxed: Iterator[Packet], most: int) -> list[Packet]:
        """Demux until there are ``most`` packets, or as many bytes as a batch may hold; none at the end."""
        batch: list[Packet] = []
        bytes_left, most_bytes, libav_input = _BATCH_BYTES, self.limits.max_packet_bytes, self._input
        check_stop()
        libav_input.bound_packet(self.limits)
        try:
            with libav_log(), translated(self.source.name, "index", most_bytes):
                for packet in demuxed:
                    size = packet.size
                    if size > most_bytes:
                        raise self._too_large(size)
                    if size:
                        batch.append(packet)
                        bytes_left -= size
                        if len(batch) >= most or bytes_left <= 0:
                            break
                    if libav_input.has_failed:
                        break
                    libav_input.bound_packet(self.limits)
        except IndexError as error:  # of PyAV, where a stream comes that the header has not
            raise UnreadableMedia(
                f"{self.source.name}: its packets are of other streams than its header says: it is damaged",
                source=self.source.name,
                stage="index",
            ) from error
        finally:
            libav_input.raise_error()
        return batch

    def _too_large(self, size: int) -> LimitExceeded:
        return LimitExceeded(
            f"{self.source.name}: a packet of {size} bytes, more than {self.limits.max_packet_bytes}",
            source=self.source.name,
        )

    def seek(self, offset: int, *, by_byte: bool = False) -> None:
        """Move to a key frame at or before ``offset``, in ticks or bytes; where it lands must be verified."""
        self._is_fresh = False
        self._input.unbound()
        try:
            with libav_log(), translated(self.source.name, "decode", self.limits.max_packet_bytes):
                self._container.seek(offset, stream=self.stream, backward=True, unsupported_byte_offset=by_byte)
        finally:
            self._input.raise_error()

    def try_seek(self, offset: int) -> bool:
        """As ``seek``; False where the container cannot."""
        try:
            self.seek(offset)
        except CorruptMedia:
            return False
        return True

    def decoder(self) -> av.VideoCodecContext:
        """The stream's own decoder, as libav set it up: one thread, limits enforced."""
        return self.stream.codec_context

    def make_decoder(self) -> av.VideoCodecContext:
        """Make another decoder for the stream, set up as its own one was before it decoded anything."""
        # Nothing is written. But only here, and where it opens a file, PyAV gives a decoder all that the container
        # says: `CodecContext.create` gives none of it, and where the chroma samples lie cannot be set afterwards.
        with av.open(os.devnull, "w", format="null") as output:
            context = output.add_stream_from_template(self.stream, opaque=True).codec_context
        context.codec_tag = self.decoder().codec_tag
        self._configure(context)
        return context

    def close(self) -> None:
        """Close the container; more than once is fine."""
        self._container.close()
        self._input.close_reader()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _preference(stream: VideoStream) -> tuple[bool, int, int]:
    """Order the streams of a file whose best one is a cover picture."""
    context: Any = stream.codec_context
    area = context.width * context.height if context is not None else 0
    return (not stream.disposition & Disposition.default, -area, stream.index)


def decode_facts(
    container: VideoContainer,
    packets: Iterator[tuple[int, Packet]],
    *,
    drain: bool = True,
    refused: list[int] | None = None,
) -> Iterator[DecodedFact]:
    """Decode to facts; damaged packets give no frame and stop nothing.

    Args:
        container: Its decoder is used, from a flushed state.
        packets: (number, packet); the packet's pts is overwritten with its number, by which its frame is known:
            every decoder of FFmpeg hands a packet's pts to the frame, and none but it computes with it.
        drain: Ask for the frames that the decoder holds back at the end.
        refused: Takes the numbers of the packets that the decoder could not decode.
    """
    for number, packet in packets:
        packet.pts = number
        for frame in decode_packet(container, packet, refused):
            yield _fact_of(frame, container)
    if drain:
        for frame in decode_packet(container, None):
            yield _fact_of(frame, container)


def decode_alone(container: VideoContainer, packet: Packet) -> list[DecodedFact]:
    """Decode the first packet to the facts of its frame, if one comes; the decoder is flushed afterwards."""
    facts = list(decode_facts(container, iter([(0, packet)])))
    container.decoder().flush_buffers()
    return facts


def decode_packet(
    container: VideoContainer, packet: Packet | None, refused: list[int] | None = None
) -> list[VideoFrame]:
    """Decode one packet with a container's own decoder, or ask it for what it holds back; a damaged one gives nothing.

    Raises:
        MemoryError: What looks like damage may be a lack of memory.
    """
    check_stop()
    context = container.decoder()
    with libav_log() as lines:
        try:
            return context.decode(packet)
        except FOREIGN as error:
            check_memory(error, lines, 4 * context.width * context.height, largest_picture(container.limits))
            if refused is not None and packet is not None:
                refused.append(cast("int", packet.pts))
            return []
        finally:
            container.keep_log(lines)


def _fact_of(frame: VideoFrame, container: VideoContainer) -> DecodedFact:
    """Everything but the pixels of a decoded frame."""
    context = container.decoder()
    if not container.has_decoded:
        container.has_decoded = True
        container.matrix = _matrix(frame)
    return DecodedFact(
        packet=-1 if frame.pts is None else frame.pts,
        width=frame.width,
        height=frame.height,
        coded_width=context.coded_width or frame.width,
        coded_height=context.coded_height or frame.height,
        pixel_format=frame.format.name,
        is_key=bool(frame.key_frame),
        is_corrupt=bool(frame.is_corrupt),
    )


def _matrix(frame: VideoFrame) -> tuple[int, ...] | None:
    try:
        # Not frame.side_data: that would have the frame refer to what refers to it, and every picture would stay in
        # memory until the cyclic collector runs.
        side_data = cast("Any", SideDataContainer)(frame)
        data = cast("Buffer | None", side_data.get("DISPLAYMATRIX"))
    except ValueError:
        # PyAV 18.1 has no name for every kind of side data of FFmpeg 8.1 (EXIF of a TIFF): its angle is all there is.
        return _QUARTERS.get(frame.rotation % 360)
    if data is None:
        return None
    raw = bytes(data)
    return tuple(int.from_bytes(raw[i : i + 4], "little", signed=True) for i in range(0, 36, 4))


# Display matrices of turns counter-clockwise.
_QUARTERS = {90: (0, -1, 0, 1, 0, 0, 0, 0, 1), 180: (-1, 0, 0, 0, -1, 0, 0, 0, 1), 270: (0, 1, 0, -1, 0, 0, 0, 0, 1)}


def orientation(matrix: tuple[int, ...] | None) -> tuple[int, bool]:
    """Turn a display matrix into (degrees counter-clockwise, mirrored after that).

    The matrix maps stored to displayed points, x right and y down: x' = a x + c y, y' = b x + d y
    (ISO/IEC 14496-12 6.2.2). Angles that are no multiple of 90 degrees are left alone: (0, False).
    """
    if matrix is None:
        return 0, False
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    mirrored = a * d - b * c < 0
    if mirrored:
        a, c = -a, -c
    if b == c == 0 and a and d:
        return (0 if a > 0 else 180), mirrored
    if a == d == 0 and b and c:
        return (90 if c > 0 else 270), mirrored
    return 0, False
