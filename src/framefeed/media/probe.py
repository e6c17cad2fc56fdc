"""probe: what the headers of one file claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from framefeed.errors import UnsupportedCodec
from framefeed.media.container import Packet, VideoContainer
from framefeed.media.decoding import DecodedFact, decode_facts, orientation
from framefeed.media.details import claimed_duration
from framefeed.media.empty import no_frame
from framefeed.media.headers import image_info
from framefeed.media.info import MediaInfo, shown_size
from framefeed.media.limits import Limits, limits_or_default
from framefeed.media.mp4.opening import movie_info
from framefeed.media.sequence import SequenceSource
from framefeed.media.sequence_probe import sequence_info
from framefeed.media.sniff import HEAD_BYTES, beyond_pillow, sniff
from framefeed.media.source import MediaSource, read_bytes
from framefeed.parallel.shortage import try_again_in_shortage


def probe(source: Any, *, limits: Limits | None = None) -> MediaInfo:
    """Read what the headers of one file claim.

    Args:
        source: Path, URL, bytes, seekable binary file object, `ImageSequence` or catalog entry. The content decides
            whether it is a picture or a video.
        limits: What the file may claim; None for the defaults of `Limits`.

    Raises:
        UnreadableMedia: It is not media: text, empty, a folder, a FIFO or a playlist, missing (MissingMedia), or its
            header is damaged.
        NoVideoStream: It has only sound, or only a cover picture.
        EmptyVideo: Its video stream gives no frame. If the tables of an MP4 file suffice, no frame is decoded, and
            damage to all of its pictures is found only when it is indexed.
        UnsupportedCodec: There is no decoder for it, or it is encrypted.
        LimitExceeded: It claims more than ``limits``.
        ResourceExhausted: Memory or file descriptors ran out, also after a second try.
    """
    media = MediaSource.of(source)
    return try_again_in_shortage(partial(_probe, media, limits_or_default(limits)), media.name, "open")


def _probe(media: MediaSource, limits: Limits) -> MediaInfo:
    if isinstance(media, SequenceSource):
        media.stat()
        return sequence_info(media, limits)
    with media.opened() as reader:
        head = read_bytes(reader, 0, HEAD_BYTES)
        is_image = sniff(head, media.name) == "image"
        info = None if is_image else movie_info(reader, head, media.name, limits)
    if is_image:
        return _heic_info(media, head, limits) if beyond_pillow(head) == "HEIC" else image_info(media, limits)
    return info or _info_from_libav(media, limits)


def _info_from_libav(media: MediaSource, limits: Limits) -> MediaInfo:
    with VideoContainer(media, limits=limits) as container:
        return video_info(container, first_fact(container))


def _heic_info(media: MediaSource, head: bytes, limits: Limits) -> MediaInfo:
    # A larger picture is an item of type "grid" (ISO/IEC 23008-12 6.6.2.3): libav hands out its tiles.
    if b"grid" in head:
        raise _in_tiles(media.name)
    with VideoContainer(media, limits=limits) as container:
        if not container.is_whole_picture:
            raise _in_tiles(media.name)
        info = video_info(container, first_fact(container))
        return replace(info, kind="image", num_frames_from_header=1, average_fps_from_header=None)


def _in_tiles(name: str) -> UnsupportedCodec:
    return UnsupportedCodec(
        f"{name}: is a HEIC picture made of tiles, which are not put together in this version: "
        "convert it to JPEG, PNG or AVIF",
        source=name,
        stage="open",
    )


def first_fact(container: VideoContainer) -> DecodedFact:
    """Decode up to the first frame, wherever it comes: rotation is known only with it.

    Raises:
        EmptyVideo: No packet gives a frame, which is when an index would have none.
        UnsupportedCodec: They are encrypted.
        LimitExceeded: None does because they claim to be larger than the limits.
    """
    fact = next(decode_facts(container, enumerate(_clear(container))), None)
    if fact is None:
        raise no_frame(container, "open")
    return fact


def _clear(container: VideoContainer) -> Iterator[Packet]:
    name = container.source.name
    for packet in container.packets():
        if packet.has_sidedata("encryption_info"):
            raise UnsupportedCodec(f"{name}: its video is encrypted: decrypt the file first", source=name, stage="open")
        yield packet


def video_info(container: VideoContainer, fact: DecodedFact) -> MediaInfo:
    """Describe an open container, given its first frame."""
    stream = container.stream
    rotation, mirrored = orientation(container.matrix)
    width, height = shown_size(fact.width, fact.height, rotation)
    container.limits.check_picture(fact.width, fact.height, container.source.name)
    return MediaInfo(
        kind="video",
        container=container.format_name,
        codec=container.codec_name,
        width=width,
        height=height,
        coded_width=fact.coded_width,
        coded_height=fact.coded_height,
        rotation=rotation,
        mirrored=mirrored,
        pixel_format=fact.pixel_format,
        num_frames_from_header=stream.frames or None,
        duration_seconds_from_header=claimed_duration(container),
        average_fps_from_header=float(stream.average_rate) if stream.average_rate else None,
        bytes=container.reader.stat().bytes,
    )
