"""The libav side of media: open with an allow-list, choose the stream, walk packets, decode to facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
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

from framefeed.errors import CorruptMedia, NoVideoStream, UnreadableMedia, UnsupportedCodec
from framefeed.media.foreign import (
    FOREIGN,
    LogLine,
    check_memory,
    largest_picture,
    libav_log,
    translated,
)
from framefeed.media.libav_input import LibavInput
from framefeed.media.limits import DEFAULT_LIMITS, Limits, allows, limit_exceeded, padded_pixels
from framefeed.media.source import MediaSource
from framefeed.parallel.stopping import check_stop

FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,ogg,flv,ivf,h264,hevc,vvc,obu,av1,asf,mxf,nut,mjpeg,vc1,dv,"
    "yuv4mpegpipe,h263,h261,gif,apng,swf,rm,wtv,nsv,"
    "wav,mp3,aac,flac,amr,ac3,eac3,aiff,caf"
)
"""Demuxers that may open media; none of them opens a second file (S01). Audio ones only tell "no video stream"."""
STREAM_FORMATS = frozenset({"h264", "hevc", "vvc", "obu", "av1", "m4v", "mpegvideo", "mjpeg", "vc1", "h263", "h261"})
"""Bare streams without a container's timestamps and positions."""
# avformat_new_stream of libavformat/options.c, after which a demuxer says that memory ran out.
_TOO_MANY_STREAMS = "Number of streams exceeds max_streams"
_KEPT_LINES = 16
"""Of libav's log, for the messages of errors."""


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

    Attributes:
        log: The first errors that libav logged of it, each once.
        matrix: The nine numbers of the display matrix of the first frame that was decoded, or None.
        has_decoded: Whether a frame was decoded, so that ``matrix`` is known.
        too_large: (width, height) of the first picture that was refused for its size, or None.

    Raises:
        UnreadableMedia: Not a container of the allow-list, or damaged.
        NoVideoStream: Nothing but audio, subtitles or cover pictures; or not a video stream at that index.
        UnsupportedCodec: No decoder for it, or encrypted.
        LimitExceeded: It claims more than ``limits``.
    """

    def __init__(self, source: MediaSource, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.source = source
        self.limits = limits
        self._open(stream_index)

    def _open(self, stream_index: int | None) -> None:
        self._knows_encoder = False
        self._is_fresh = True
        self.log: list[LogLine] = []
        self.matrix: tuple[int, ...] | None = None
        self.has_decoded = False
        self.too_large: tuple[int, int] | None = None
        self._input = LibavInput(self.source)  # refuses a FIFO or a folder before libav sees it
        try:
            self._container = self._opened()
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

    def _opened(self) -> InputContainer:
        self._input.bound_header(self.limits)
        try:
            with libav_log() as lines, translated(self.source.name, "open", self.limits.max_packet_bytes, lines):
                opened = av.open(self._input, options=_options(self.limits), metadata_errors="replace")
        except (UnreadableMedia, MemoryError):
            if any(_TOO_MANY_STREAMS in message for _, _, message in lines):
                claim = f"more than {self.limits.max_streams + 1} streams"
                raise limit_exceeded(self.limits, "max_streams", claim, self.source.name, "open") from None
            raise
        finally:
            self._input.raise_error()
        self.keep_log(lines)
        return cast("InputContainer", opened)

    def _configure(self, context: av.VideoCodecContext) -> None:
        context.thread_count = 1
        context.thread_type = "NONE"
        # Options of the container never reach the decoder: they must be set on its own context (S04).
        context.options = {"max_pixels": str(padded_pixels(self.limits, self.codec_name))}

    def keep_log(self, lines: Sequence[LogLine]) -> None:
        """Keep what libav logged for the message of an error; the first errors say best what is wrong."""
        for line in lines:
            if len(self.log) < _KEPT_LINES and line not in self.log:
                self.log.append(line)

    def accepts(self, picture: av.VideoCodecContext | VideoFrame) -> bool:
        """Whether the limits allow a picture of this size; one that is too large is remembered.

        libav's own check leaves a margin, and compares some sizes after padding, which it reports as lack of memory.
        """
        size = picture.width, picture.height
        if allows(self.limits, *size):
            return True
        self.too_large = self.too_large or size
        return False

    def reopen(self) -> bool:
        """Stand at the first packet, whatever the container can seek; False where it stands there already."""
        if self._is_fresh:
            return False
        index, options = self.stream.index, self.decoder().options
        self.close()
        self._open(index)
        self.decoder().options = options
        return True

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
            raise limit_exceeded(self.limits, "max_streams", f"{len(streams)} streams", self.source.name, "open")
        videos = [s for s in self._container.streams.video if not s.disposition & Disposition.attached_pic]
        if wanted is not None:
            videos = [s for s in videos if s.index == wanted]
        if not videos:
            found = ", ".join(sorted({str(s.type) for s in streams})) or "nothing"
            where = "" if wanted is None else f" at index {wanted}"
            advice = "" if streams else ": the file may be cut short, copy it again"
            raise NoVideoStream(
                f"{self.source.name}: has no video stream{where} (found: {found}; cover pictures do not count){advice}",
                source=self.source.name,
                stage="open",
            )
        return min(videos, key=_preference)

    def _check(self) -> None:
        context = self.stream.codec_context
        name = self.source.name
        if self.is_encrypted:
            raise UnsupportedCodec(f"{name}: its video is encrypted", source=name, stage="open")
        if context is None:
            raise UnsupportedCodec(
                f"{name}: this build of FFmpeg has no decoder for its video", source=name, stage="open"
            )
        self.limits.check_picture(context.width, context.height, name)

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

    def packets(self) -> Iterator[Packet]:
        """Demux the stream's packets from where the container stands; empty ones are left out.

        A packet of no bytes repeats the picture before it (Theora, AVI): no decoder gives a frame for it.
        """
        self._is_fresh = False
        demuxed = self._container.demux(self.stream)
        while True:
            check_stop()
            self._input.bound_packet(self.limits)
            try:
                with libav_log(), translated(self.source.name, "index", self.limits.max_packet_bytes):
                    packet = next(demuxed, None)
            except IndexError as error:  # of PyAV, where a stream comes that the header has not
                raise UnreadableMedia(
                    f"{self.source.name}: its packets are of other streams than its header says: it is damaged",
                    source=self.source.name,
                    stage="index",
                ) from error
            finally:
                self._input.raise_error()
            if packet is None:
                return
            if packet.size > self.limits.max_packet_bytes:
                claim = f"a packet of {packet.size} bytes"
                raise limit_exceeded(self.limits, "max_packet_bytes", claim, self.source.name, "index")
            if packet.size:
                yield packet

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


def _options(limits: Limits) -> dict[str, str]:
    return {
        "format_whitelist": FORMATS,
        "protocol_whitelist": "file",
        "max_streams": str(limits.max_streams + 1),
        # Reaches the decoders that probing runs, in containers that know their streams before it.
        "max_pixels": str(padded_pixels(limits)),
    }


def _preference(stream: VideoStream) -> tuple[bool, int, int]:
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
    """Decode to facts; damaged packets and pictures beyond the limits give no frame and stop nothing.

    Args:
        container: Its decoder is used, from a flushed state.
        packets: (number, packet); the packet's pts is overwritten with its number, by which its frame is known:
            every decoder of FFmpeg hands a packet's pts to the frame, and none but it computes with it.
        drain: Ask for the frames that the decoder holds back at the end.
        refused: Takes the numbers of the packets that the decoder could not decode.
    """
    last: list[tuple[int, Packet | None]] = [(-1, None)] if drain else []
    for number, packet in chain(packets, last):
        if packet is not None:
            packet.pts = number
        for frame in decode_packet(container, packet, refused):
            if container.accepts(frame):
                yield _fact_of(frame, container)
            elif refused is not None and frame.pts is not None:
                refused.append(frame.pts)


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
            if container.accepts(context):
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
