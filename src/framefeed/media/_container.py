"""Open a container with libav, choose its video stream, demux and decode packets."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
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
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet as AvPacket
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from framefeed._stopping import check_stop
from framefeed._values import (
    DEFAULT_LIMITS,
    ByteReader,
    Limits,
    bound_padded_pixels,
    is_size_allowed,
    make_limit_error,
    read_bytes,
)
from framefeed.bitstreams import Codec
from framefeed.errors import CorruptMedia, LimitExceeded, NoVideoStream, UnreadableMedia, UnsupportedCodec
from framefeed.media._identity import SourceIdentity
from framefeed.media._libav_errors import (
    LIBAV_EXCEPTIONS,
    LogLine,
    bound_picture_bytes,
    check_memory,
    is_damage_logged,
    is_harmless,
    is_memory_there,
    libav_errors,
    libav_log,
    send_packet,
)
from framefeed.media._libav_input import (
    HEAD_BYTES,
    LibavInput,
    drop_withheld_lines,
    make_libav_options,
    name_known_format,
    needs_decoders,
)
from framefeed.media._libav_versions import open_input
from framefeed.media._source import MediaSource

# avformat_new_stream of libavformat/options.c, after which a demuxer says that memory ran out.
_TOO_MANY_STREAMS = "Number of streams exceeds max_streams"
_KEPT_LINES = 16
"""Lines of libav's log that are kept for the messages of errors."""
_OPENING_BYTES = 4 * 2**20
"""Memory that libav takes to open a file, about; without any it may crash."""
_BATCH_PACKETS = 64
_BATCH_BYTES = 2**18
"""Packets and bytes of a batch; the last packet may go beyond the bytes."""
_MOST_STRETCHES = 2**16
"""Of 64 KiB each: 4 GiB."""

if TYPE_CHECKING:
    Packet = AvPacket[VideoStream]
else:  # PyAV's class takes its stream's type in its stub only.
    Packet = AvPacket


class VideoContainer:
    """An open container and its chosen video stream; one owner at a time.

    Args:
        source: Where the bytes are.
        stream_index: The stream to use, or None for the best one.
        limits: What the file may claim.
        headers_only: Keep libav from decoding the first pictures of the codecs whose headers framefeed's provers
            read: pixel format, some colours and the reorder depth stay unknown until ``open_whole``.
        indexed: Which file it must be; see `MediaSource.reader`.

    Attributes:
        codec_name: Canonical name: "av1" whichever library decodes it.
        log: The first errors that libav logged, each once.
        matrix: The nine numbers of the display matrix of the first frame that was decoded, or None.
        has_decoded: Whether a frame was decoded, so that ``matrix`` is known.
        too_large: (width, height) of the first picture that was refused for its size, or None.
    """

    def __init__(
        self,
        source: MediaSource,
        stream_index: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        headers_only: bool = False,
        indexed: SourceIdentity | None = None,
    ) -> None:
        self.source, self._indexed = source.with_limits(limits), indexed
        self.limits = limits
        self._headers_only = headers_only
        self._decoder_options: dict[str, str] = {}
        if headers_only:
            # Without decoders libav reads further: a limit that is exceeded then may hold for the file all the same.
            with suppress(LimitExceeded):
                self._open(stream_index)
                return
            self._headers_only = False
        self._open(stream_index)

    def _open(self, stream_index: int | None) -> None:
        self._knows_encoder = False
        self._is_fresh = True
        self.log: list[LogLine] = []
        self.matrix: tuple[int, ...] | None = None
        self.has_decoded = False
        self.too_large: tuple[int, int] | None = None
        self._input = LibavInput(self.source, self._indexed)  # refuses a FIFO or a folder before libav sees it
        try:
            self._container = self._open_container()
            if self._headers_only and needs_decoders(self._container):
                self._headers_only = False
                self.close()
                self._open(stream_index)
                return
            try:
                self.stream = self._choose_stream(stream_index)
                self._check_stream()
                # Asked now: a decoder that libav could not open has no codec any more.
                self.codec_name = str(self.stream.codec_context.codec.canonical_name)
                self._configure(self.stream.codec_context)
            except BaseException:
                self._container.close()
                raise
        except BaseException:
            self._input.close_reader()
            raise

    @property
    def is_withheld(self) -> bool:
        """Whether libav opened it without a decoder for the chosen stream, and so knows less about it."""
        return self._headers_only and self.codec.is_withheld

    def _open_container(self) -> InputContainer:
        head = read_bytes(self._input.reader, 0, HEAD_BYTES)
        known = name_known_format(head)
        try:
            return self._open_as(known, head)
        except UnreadableMedia:
            if known is None or self._input.has_failed:
                raise
        # Probe all formats.
        self._input.seek(0)
        return self._open_as(None, head)

    def _open_as(self, file_format: str | None, head: bytes) -> InputContainer:
        self._input.bound_header(self.limits, head)
        options = make_libav_options(self.limits, self._headers_only)
        if not is_memory_there(_OPENING_BYTES):
            raise MemoryError("the system refuses the memory to open a file")
        try:
            with libav_log() as lines, libav_errors(self.source.name, "open", self.limits.max_packet_bytes, lines):
                opened = open_input(self._input, file_format, options)
        except (UnreadableMedia, MemoryError):
            if any(_TOO_MANY_STREAMS in message for _, _, message in lines):
                claim = f"more than {self.limits.max_streams + 1} streams"
                raise make_limit_error(self.limits, "max_streams", claim, self.source.name, "open") from None
            raise
        finally:
            self._input.raise_error()
        self.keep_log(drop_withheld_lines(lines))
        return opened

    def _configure(self, context: av.VideoCodecContext) -> None:
        context.thread_count = 1
        context.thread_type = "NONE"
        # Options of the container never reach the decoder: they must be set on its own context (S04).
        bound = str(bound_padded_pixels(self.limits, self.codec.size_factor))
        context.options = {"max_pixels": bound, **self._decoder_options}

    def set_decoder_options(self, **options: str) -> None:
        """Set libavcodec's options of the stream's decoders; of one that has decoded, from the next ``reopen`` on."""
        self._decoder_options = options
        if not self.decoder().is_open:
            self._configure(self.decoder())

    def keep_log(self, lines: Sequence[LogLine]) -> None:
        """Keep the first lines of libav's log for the messages of errors."""
        for line in lines:
            if len(self.log) < _KEPT_LINES and line not in self.log:
                self.log.append(line)

    def accepts(self, picture: av.VideoCodecContext | VideoFrame) -> bool:
        """Whether the limits allow a picture of this size; remember the first that is too large.

        libav's own check has a margin, compares some sizes after padding, and then reports a lack of memory.
        """
        size = picture.width, picture.height
        if is_size_allowed(self.limits, *size):
            return True
        self.too_large = self.too_large or size
        return False

    def reopen(self) -> bool:
        """Open it again at the first packet, without seeking; return False if it is there already."""
        if self._is_fresh:
            return False
        index = self.stream.index
        self.close()
        self._open(index)
        return True

    def open_whole(self) -> bool:
        """Open it again without ``headers_only``; return False if that tells no more about the stream."""
        if not self.is_withheld:
            return False
        self._headers_only = self._is_fresh = False
        return self.reopen()

    def learn_encoder(self) -> None:
        """Decode the first packet of MPEG-4 part 2, so that the decoder knows the encoder before it decodes elsewhere.

        Such encoders sign their first packet, and libavcodec works around each one's deviations: DivX's packed
        B-frames, Xvid's own inverse transform.
        """
        if self._knows_encoder or self.codec_name != "mpeg4":
            return
        context = self.decoder()
        # A second container, so that this one keeps its position.
        with VideoContainer(self.source, self.stream.index, self.limits, indexed=self._indexed) as beginning:
            for first in islice(beginning.packets(), 1):
                decode_packet(self, first)
        context.flush_buffers()
        self._knows_encoder = True

    def _choose_stream(self, stream_index: int | None) -> VideoStream:
        streams = list(self._container.streams)
        if len(streams) > self.limits.max_streams:
            raise make_limit_error(self.limits, "max_streams", f"{len(streams)} streams", self.source.name, "open")
        all_videos = [s for s in self._container.streams.video if not s.disposition & Disposition.attached_pic]
        videos = [s for s in all_videos if stream_index in (None, s.index)]
        if not videos:
            kinds = ", ".join(sorted({str(s.type) for s in streams})) or "nothing"
            if all_videos:
                kinds = "video at " + ", ".join(str(s.index) for s in all_videos)
            where = "" if stream_index is None else f" at index {stream_index}"
            advice = "" if streams else ": the file may be cut short, copy it again"
            raise NoVideoStream(
                f"{self.source.name}: has no video stream{where} (found: {kinds}; cover pictures do not count){advice}",
                source=self.source.name,
                stage="open",
            )
        # av_find_best_stream: the same stream as ffplay and TorchCodec take, but for cover pictures.
        best = self._container.streams.best("video")
        chosen = [s for s in videos if best is not None and s.index == best.index]
        if chosen:
            return chosen[0]
        # The best one is a cover picture: the default stream, then the largest, then the first.
        return min(videos, key=lambda s: (not s.disposition & Disposition.default, -_area(s), s.index))

    def _check_stream(self) -> None:
        context = self.stream.codec_context
        name = self.source.name
        if self.is_encrypted:
            raise UnsupportedCodec(f"{name}: its video is encrypted: decrypt the file first", source=name, stage="open")
        if context is None:
            raise UnsupportedCodec(
                f"{name}: this build of FFmpeg has no decoder for its video: convert it, for example to H.264",
                source=name,
                stage="open",
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
    def is_only_video(self) -> bool:
        """Whether the file has no other video stream, and no cover picture."""
        return len(self._container.streams.video) == 1

    @property
    def format_name(self) -> str:
        """Libav's name of the container format."""
        return str(self._container.format.name)

    @property
    def codec(self) -> Codec:
        """What is known of the codec."""
        return Codec.of(self.codec_name)

    @property
    def reader(self) -> ByteReader:
        """Reader of the file's bytes, while the container is open."""
        return self._input.reader

    def packets(self) -> Iterator[Packet]:
        """Demux the stream's packets from the container's position on; leave out empty ones.

        A packet of no bytes repeats the picture before it (Theora, AVI): no decoder gives a frame for it.
        """
        with self._demuxing() as demuxed:
            while batch := self._read_batch(demuxed, 1):
                yield batch[0]

    def batches(self) -> Iterator[list[Packet]]:
        """Demux as `packets`, in lists; each list is emptied before the next one is read."""
        with self._demuxing() as demuxed:
            while batch := self._read_batch(demuxed, _BATCH_PACKETS):
                yield batch
                batch.clear()  # the next packets reuse memory that is in the processor's cache

    @property
    def first_audio(self) -> AudioStream | None:
        """The file's first audio stream, or None; `UnsupportedCodec` if libav cannot decode it."""
        for stream in self._container.streams.audio:
            context = stream.codec_context
            if context is None or str(context.codec_tag).lower() in ("enca", "drms"):
                name = self.source.name
                reason = "is of a codec that this build of FFmpeg does not know" if context is None else "is encrypted"
                raise UnsupportedCodec(f"{name}: its audio {reason}: leave out the audio", source=name, stage="open")
            return stream
        return None

    def audio_packets(self, stream: AudioStream) -> Iterator[AvPacket[AudioStream]]:
        """Demux the packets of an audio stream of the container; the video's are left out."""
        self._is_fresh = False
        with closing(self._demux(stream)) as demuxed:
            while batch := self._read_batch(demuxed, 1):
                yield cast("AvPacket[AudioStream]", batch[0])

    def _demuxing(self) -> closing[Generator[Packet, None, None]]:
        self._is_fresh = False
        return closing(self._demux(self.stream))

    def _demux(self, stream: Any) -> Generator[Packet, None, None]:
        """Demux; behind a stretch without packets, of which MPEG-TS's demuxer says EAGAIN each 64 KiB, go on."""
        for _ in range(_MOST_STRETCHES):
            check_stop()
            # PyAV (18.1) never frees the packet of a generator that is dropped before its end without being closed.
            with closing(cast("Generator[Packet, None, None]", self._container.demux(stream))) as demuxed:
                try:
                    yield from demuxed
                except av.error.BlockingIOError:
                    continue
                return
        raise UnreadableMedia(
            f"{self.source.name}: most of it is no media: copy it again, or record it again",
            source=self.source.name,
            stage="index",
        )

    def _read_batch(self, demuxed: Iterator[Packet], most: int) -> list[Packet]:
        """Demux up to ``most`` packets, or the bytes of a batch; return none at the end."""
        batch: list[Packet] = []
        bytes_left, most_bytes = _BATCH_BYTES, self.limits.max_packet_bytes
        check_stop()
        self._input.bound_packet(self.limits)
        try:
            with libav_log(), libav_errors(self.source.name, "index", most_bytes):
                for packet in demuxed:
                    size = packet.size
                    if size > most_bytes:
                        claim = f"a packet of {size} bytes"
                        raise make_limit_error(self.limits, "max_packet_bytes", claim, self.source.name, "index")
                    if size:
                        batch.append(packet)
                        bytes_left -= size
                        if len(batch) >= most or bytes_left <= 0:
                            break
                    if self._input.has_failed:
                        break
                    self._input.bound_packet(self.limits)
        except IndexError as error:  # PyAV raises it for a stream that is not in the header
            raise UnreadableMedia(
                f"{self.source.name}: has packets of a stream that is not in its header: the file is damaged",
                source=self.source.name,
                stage="index",
            ) from error
        finally:
            self._input.raise_error()
        return batch

    def try_seek(self, offset: int) -> bool:
        """Seek to a key frame at or before ``offset`` ticks; return False if the container cannot.

        The caller verifies the position.
        """
        self._is_fresh = False
        self._input.remove_bound()
        try:
            with libav_log(), libav_errors(self.source.name, "decode", self.limits.max_packet_bytes):
                self._container.seek(offset, stream=self.stream, backward=True)
        except CorruptMedia:
            return False
        finally:
            self._input.raise_error()
        return True

    def decoder(self) -> av.VideoCodecContext:
        """The stream's own decoder, as libav set it up: one thread, limits enforced."""
        return self.stream.codec_context

    def make_decoder(self) -> av.VideoCodecContext:
        """Make another decoder for the stream, in the state of its own one before the first packet."""
        # Nothing is written. PyAV passes all codec parameters of the container to a decoder only here and when it
        # opens a file: `CodecContext.create` passes none, and the chroma location cannot be set afterwards.
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


def _area(stream: VideoStream) -> int:
    context: Any = stream.codec_context
    return context.width * context.height if context is not None else 0


def decode_packet(
    container: VideoContainer,
    packet: Packet | None,
    refused: list[int] | None = None,
    logged: list[int] | None = None,
    decoder: av.VideoCodecContext | None = None,
) -> list[VideoFrame]:
    """Decode one packet, None to drain the decoder; a damaged packet gives no frame.

    Args:
        container: An open container.
        packet: The packet.
        refused: Takes the pts of a packet that could not be decoded, or not to the end.
        logged: Takes the pts of a packet about which an error is logged.
        decoder: A decoder of the stream; None for the container's own.
    """
    check_stop()
    context = decoder or container.decoder()
    with libav_log() as lines:
        try:
            frames = send_packet(context, packet)
            if refused is not None and packet is not None and is_damage_logged(container.codec, lines):
                refused.append(cast("int", packet.pts))
            return frames
        except LIBAV_EXCEPTIONS as error:
            if container.accepts(context):
                check_memory(error, lines, 4 * context.width * context.height, bound_picture_bytes(container.limits))
            if refused is not None and packet is not None:
                refused.append(cast("int", packet.pts))
            return []
        finally:
            container.keep_log(lines)
            if logged is not None and packet is not None and not is_harmless(lines):
                logged.append(cast("int", packet.pts))
