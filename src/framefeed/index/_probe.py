"""Read what the headers of a file, or of an image sequence's files, claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from framefeed._shortage import try_again_in_shortage
from framefeed._stopping import check_stop
from framefeed._values import (
    HEAD_BYTES,
    Limits,
    MediaInfo,
    PictureFormat,
    make_limit_error,
    read_bytes,
    resolve_limits,
)
from framefeed.errors import FormatChanged, UnsupportedCodec
from framefeed.index._movie import movie_info
from framefeed.index._movie_facts import Timing, make_media_info
from framefeed.media import (
    SEQUENCE_CONTAINER,
    MediaSource,
    Packet,
    SequenceSource,
    StorageOptions,
    VideoContainer,
    check_storage_options,
    decode_facts,
    make_empty_error,
    read_claimed_duration,
    read_rational,
    sniff,
)
from framefeed.pictures import name_undecoded_format, probe_image

_UNREAD_BOXES = (b"grid", b"clap", b"imir")
"""Of a HEIC (ISO/IEC 23008-12 6.5, 6.6) libav 8 gives the tiles of a grid, and ignores crops and mirrors."""
MIXED = "mixed"
"""Codec of a sequence whose files have several."""


def probe_sequence(source: SequenceSource, limits: Limits, *, first_only: bool = False) -> MediaInfo:
    """Describe a sequence by its first file, and check the headers of all.

    ``first_only``: read no header but the first: the others are taken to be like it.

    Raises:
        UsageError: There are not as many timestamps as files.
    """
    files = source.files()
    if len(files) > limits.max_packets:
        raise make_limit_error(limits, "max_packets", f"{len(files)} pictures", source.name, "open")
    times = source.sequence.times(len(files))
    first = probe_image(MediaSource.of(files.paths[0]), limits)
    codecs = {first.codec}
    for path in () if first_only else files.paths[1:]:
        check_stop()
        info = probe_image(MediaSource.of(path), limits)
        if (info.width, info.height) != (first.width, first.height):
            raise FormatChanged(
                f"{path}: is {info.width}x{info.height} as displayed, but the sequence begins with {first.width}x"
                f"{first.height} ({files.paths[0]}): all pictures of a sequence must have the same size",
                source=path,
                stage="index",
            )
        codecs.add(info.codec)
    last_duration = int(times.duration[-1])  # 0 if unknown
    span = (int(times.pts[-1]) - int(times.pts[0])) * times.time_base
    fps = source.sequence.fps or ((len(times.pts) - 1) / span if span else None)
    return replace(
        first,
        kind="video",
        container=SEQUENCE_CONTAINER,
        codec=first.codec if len(codecs) == 1 else MIXED,
        num_frames_from_header=len(files),
        duration_seconds_from_header=float(span + last_duration * times.time_base) if last_duration else None,
        average_fps_from_header=None if fps is None else float(fps),
        bytes=files.stat.bytes,
    )


def probe(source: Any, *, limits: Limits | None = None, storage_options: StorageOptions | None = None) -> MediaInfo:
    """Read what the headers of one file claim.

    Args:
        source: Path, URL, bytes, seekable binary file object, `ImageSequence` or catalog entry. The content decides
            whether it is a picture or a video.
        limits: What the file may claim; None for the defaults of `Limits`.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Raises:
        UnreadableMedia: It is not media: text, empty, a folder, a FIFO or a playlist, missing (MissingMedia), or its
            header is damaged.
        NoVideoStream: It has only sound, or only a cover picture.
        EmptyVideo: Its video stream gives no frame. If the tables of an MP4 file suffice, no frame is decoded, and
            damage to all of its pictures is found only when it is indexed.
        UnsupportedCodec: There is no decoder for it, or it is encrypted.
        MissingDependency: A picture whose format needs a plug-in of Pillow that is not installed.
        LimitExceeded: It claims more than ``limits``.
        ResourceExhausted: Memory or file descriptors ran out, also after a second try.
    """
    check_storage_options(storage_options)
    bounds = resolve_limits(limits)
    media = MediaSource.of(source, storage_options, limits=bounds)
    return try_again_in_shortage(partial(_probe, media, bounds), media.name, "open")


def _probe(media: MediaSource, limits: Limits) -> MediaInfo:
    if isinstance(media, SequenceSource):
        media.stat()
        return probe_sequence(media, limits)
    with media.opened() as reader:
        head = read_bytes(reader, 0, HEAD_BYTES)
        is_image = sniff(head, media.name) == "image"
        info = None if is_image else movie_info(reader, head, media.name, limits)
    if is_image and not is_libav_picture(media, head, limits):
        return probe_image(media, limits)
    if info is not None:
        return info
    with VideoContainer(media, limits=limits) as container:
        info = describe_video(container, decode_first_format(container))
    return describe_libav_picture(info) if is_image else info


def is_still(media: MediaSource, head: bytes, limits: Limits) -> bool:
    """Whether a file is a picture that the backend "still" decodes, by its first bytes."""
    return sniff(head, media.name) == "image" and not is_libav_picture(media, head, limits)


def is_libav_picture(media: MediaSource, head: bytes, limits: Limits) -> bool:
    """Whether a picture is decoded by libav, as a video of one frame: a HEIC whose pixels are one item."""
    if name_undecoded_format(head) != "HEIC" or any(kind in head for kind in _UNREAD_BOXES):
        return False
    with VideoContainer(media, limits=limits) as container:
        return container.is_whole_picture and container.stream.frames == 1


def describe_libav_picture(info: MediaInfo) -> MediaInfo:
    """Describe a picture that libav described as a video."""
    return replace(info, kind="image", num_frames_from_header=1, average_fps_from_header=None)


def decode_first_format(container: VideoContainer) -> PictureFormat:
    """Decode up to the first frame, which alone tells the rotation, and return its format."""
    fact = next(decode_facts(container, enumerate(_refuse_encrypted(container))), None)
    if fact is None:
        raise make_empty_error(container, "open")
    return fact.format


def _refuse_encrypted(container: VideoContainer) -> Iterator[Packet]:
    name = container.source.name
    for packet in container.packets():
        if packet.has_sidedata("encryption_info"):
            raise UnsupportedCodec(f"{name}: its video is encrypted: decrypt the file first", source=name, stage="open")
        yield packet


def describe_video(container: VideoContainer, picture: PictureFormat) -> MediaInfo:
    """Describe an open container, given the format of its first frame."""
    container.limits.check_picture(picture.width, picture.height, container.source.name)
    rate, frames = read_rational(container.stream.average_rate), container.stream.frames
    timing = Timing(frames or None, read_claimed_duration(container), float(rate) if rate else None)
    name, size = container.format_name, container.reader.stat().bytes
    return make_media_info(name, container.codec_name, picture, container.matrix, timing, size)
