"""Index picture files: an image sequence has one frame per file, a still picture one frame."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from framefeed._stopping import check_stop
from framefeed._values import DEFAULT_LIMITS, KEY, Limits, MediaInfo, PacketTable
from framefeed.errors import EmptyVideo, MediaError, NoVideoStream
from framefeed.index._frame_index import FrameIndex, StreamFacts
from framefeed.index._probe import probe_sequence
from framefeed.media import SEQUENCE_CONTAINER, ImageSequence, MediaSource, SequenceSource, SourceIdentity
from framefeed.pictures import decode_still, probe_image

OTHER_STILL = "image"
"""`StreamFacts.container` of a still picture in any other container."""

_STILLS = frozenset({"avif", "bmp", "gif", "heic", "heif", "jpeg", "jxl", "mpo", "png", "tiff", "webp", OTHER_STILL})
"""Of these names only "gif" is that of a demuxer too, and every GIF is a picture here."""

_ZERO, _NONE = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
_KEY_FLAG = np.full(1, KEY, dtype=np.uint8)
_KEY_FLAG.flags.writeable = False
_SECOND = Fraction(1)


def has_picture_files(index: FrameIndex) -> bool:
    """Whether each frame is a picture file of its own, which only the backend "still" reads."""
    return index.stream.container == SEQUENCE_CONTAINER or index.stream.container in _STILLS


@lru_cache(maxsize=1024)
def describe_picture_stream(
    container: str, codec: str, coded_size: tuple[int, int], pixel_format: str, rotation: int, *, mirrored: bool
) -> StreamFacts:
    """Describe a picture as a stream of one frame; pictures of one form share the description.

    Args:
        container: As its header names it.
        codec: Codec name.
        coded_size: (width, height) as stored.
        pixel_format: Name of the stored pixel format.
        rotation: Degrees counter-clockwise.
        mirrored: Whether it is mirrored after that.
    """
    known = container == SEQUENCE_CONTAINER or container in _STILLS
    return StreamFacts(
        stream_index=0,
        container=container if known else OTHER_STILL,
        codec=codec,
        extradata=None,
        width=coded_size[0],
        height=coded_size[1],
        pixel_format=pixel_format,
        rotation=rotation,
        mirrored=mirrored,
        contiguous=True,  # Each file is one range of bytes.
    )


def build_still_index(stream: StreamFacts, identity: SourceIdentity) -> FrameIndex:
    """Index a still picture: one frame at 0 s of unknown duration, in ticks of a second.

    Args:
        stream: From `describe_picture_stream`.
        identity: Identity of the file.
    """
    # What is the same in every picture is one object, so that what is computed of it can be kept.
    return FrameIndex(
        pts=_ZERO,
        duration=_ZERO,
        time_base=_SECOND,
        key_frame_indices=_ZERO,
        built_from="packets",
        frame_packet=_ZERO,
        frame_start=_ZERO,
        packets=PacketTable(offset=_ZERO, size=np.array([identity.bytes], dtype=np.int64), pts=_ZERO, flags=_KEY_FLAG),
        stream=stream,
        identity=identity,
        damaged_frame_indices=_NONE,
    )


def index_still(
    media: MediaSource, verify: str, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index a still picture; with verify="full" it must also decode."""
    _check_stream(media, stream_index)
    stat = media.stat()
    # The same identity as in a scan of many still pictures.
    identity = SourceIdentity(stat.bytes, stat.mtime_ns, media.head_fingerprint())
    info = probe_image(media, limits)
    if verify == "full":
        decode_still(media.head(media.stat().bytes), media.name, limits)
    return info, build_still_index(_describe(info, info.container), identity)


def index_sequence(
    media: SequenceSource, verify: str, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index an image sequence.

    Args:
        media: The sequence.
        verify: "none" reads the header of the first file, "ends" those of all; "full" decodes all, and leaves out of
            the index those that do not decode.
        stream_index: None or 0.
        limits: What the files may claim.

    Raises:
        FormatChanged: Two files differ in their displayed size.
        UnreadableMedia: A file is no picture, or missing.
        EmptyVideo: There is no file, or none decodes.
    """
    _check_stream(media, stream_index)
    identity = media.identity()
    files = media.files()
    info = probe_sequence(media, limits, first_only=verify == "none")
    times = media.sequence.times(len(files))
    numbers = np.arange(len(files), dtype=np.int64)
    index = FrameIndex(
        pts=times.pts,
        duration=times.duration,
        time_base=times.time_base,
        key_frame_indices=numbers.copy(),
        built_from="packets",
        frame_packet=numbers,
        frame_start=numbers.copy(),
        packets=PacketTable(
            offset=np.zeros_like(numbers),
            size=files.sizes,
            pts=times.pts,
            flags=np.full(len(files), KEY, dtype=np.uint8),
        ),
        stream=_describe(info, SEQUENCE_CONTAINER),
        identity=identity,
    )
    if verify != "full":
        return info, index
    decodable = list[int]()
    for number, path in enumerate(files.paths):
        data = media.read_file(number, identity)
        try:
            decode_still(data, path, limits)
        except MediaError:
            check_stop()  # A timeout says nothing about the picture.
            continue
        decodable.append(number)
    frames = np.array(decodable, dtype=np.int64)
    if not len(frames):
        raise EmptyVideo(f"{media.name}: none of its {len(index)} pictures decodes", source=media.name, stage="index")
    return info, replace(
        index,
        pts=index.pts[frames],
        duration=index.duration[frames],
        key_frame_indices=np.arange(len(frames), dtype=np.int64),
        built_from="decode",
        frame_packet=frames,
        frame_start=frames.copy(),
    )


def make_image_sequence(folder: str, index: FrameIndex) -> ImageSequence:
    """Recreate the image sequence of a folder from its index: by its rate, or by its times if they are irregular."""
    pts = index.packets.pts
    if index.duration.any() and np.array_equal(pts, np.arange(len(pts))):
        return ImageSequence(folder, fps=1 / index.time_base)
    return ImageSequence(folder, timestamps=[float(ticks * index.time_base) for ticks in pts.tolist()])


def _describe(info: MediaInfo, container: str) -> StreamFacts:
    size = info.coded_width, info.coded_height
    return describe_picture_stream(
        container, info.codec, size, info.pixel_format, info.rotation, mirrored=info.mirrored
    )


def _check_stream(media: MediaSource, stream_index: int | None) -> None:
    if stream_index not in (None, 0):
        message = f"{media.name}: pictures have one stream, number 0, and no stream {stream_index}"
        raise NoVideoStream(message, source=media.name, stage="open")
