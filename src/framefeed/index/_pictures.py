"""Pictures as frames: an image sequence is an index of its files, a still picture an index of one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from framefeed._arrays import IntArray
from framefeed.errors import EmptyVideo, MediaError, NoVideoStream
from framefeed.index._frame_index import KEY, BuiltFrom, FrameIndex, PacketTable, StreamFacts
from framefeed.media import (
    DEFAULT_LIMITS,
    SEQUENCE_CONTAINER,
    ImageSequence,
    Limits,
    MediaInfo,
    MediaSource,
    SequenceSource,
    SourceIdentity,
    decode_still,
    image_info,
    sequence_info,
)
from framefeed.parallel import check_stop

OTHER_STILL = "image"
"""`StreamFacts.container` of a still picture in a container that is not listed here."""

_STILLS = frozenset({"avif", "bmp", "gif", "heic", "heif", "jpeg", "jxl", "mpo", "png", "tiff", "webp", OTHER_STILL})
"""No demuxer is known by one of these names but that of GIF, and whatever is a GIF is a picture here."""
_ONE_SECOND = Fraction(1)


def holds_pictures(index: FrameIndex) -> bool:
    """Whether each frame is a picture file of its own, which the backend "still" reads and no other."""
    return index.stream.container == SEQUENCE_CONTAINER or index.stream.container in _STILLS


def still_index(info: MediaInfo, identity: SourceIdentity | None) -> FrameIndex:
    """Index a still picture: one frame at 0 s of unknown duration, in ticks of a second.

    Args:
        info: What its header claims.
        identity: The file that was looked at, or None where changes are not looked for.
    """
    zero = np.zeros(1, dtype=np.int64)
    sizes = np.array([info.bytes], dtype=np.int64)
    container = info.container if info.container in _STILLS else OTHER_STILL
    return _index_of(_facts(info, container), (zero, zero, _ONE_SECOND), sizes, "packets", identity)


def index_still(
    media: MediaSource, verify: str, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index a still picture; with verify="full" it must also decode."""
    _check_stream(media, stream_index)
    found = media.stat()
    # As a survey of many stills identifies them.
    identity = SourceIdentity(found.bytes, found.mtime_ns, media.head_fingerprint())
    info = image_info(media, limits)
    if verify == "full":
        decode_still(media.head(media.stat().bytes), media.name, limits)
    return info, still_index(info, identity)


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
    info = sequence_info(media, limits, first_only=verify == "none")
    times = media.sequence.times(len(files))
    whole = _whole_index(info, (times.pts, times.duration, times.time_base), files.sizes, identity)
    if verify != "full":
        return info, whole
    return info, _kept(whole, _decodable(media, identity, limits), media.name)


def sequence_of(folder: str, index: FrameIndex) -> ImageSequence:
    """Give back the sequence of a folder that was indexed: its rate, or its times where they are irregular.

    Args:
        folder: Path of the folder.
        index: Made of the sequence of that folder.
    """
    pts = index.packets.pts
    if index.duration.any() and np.array_equal(pts, np.arange(len(pts))):
        return ImageSequence(folder, fps=1 / index.time_base)
    return ImageSequence(folder, timestamps=[float(ticks * index.time_base) for ticks in pts.tolist()])


def _whole_index(
    info: MediaInfo, times: tuple[IntArray, IntArray, Fraction], sizes: IntArray, identity: SourceIdentity
) -> FrameIndex:
    return _index_of(_facts(info, SEQUENCE_CONTAINER), times, sizes, "packets", identity)


def _facts(info: MediaInfo, container: str) -> StreamFacts:
    # Each file is one range of bytes: reading one costs nothing of the others.
    return StreamFacts(
        stream_index=0,
        container=container,
        codec=info.codec,
        extradata=None,
        width=info.coded_width,
        height=info.coded_height,
        pixel_format=info.pixel_format,
        rotation=info.rotation,
        mirrored=info.mirrored,
        contiguous=True,
    )


def _index_of(
    stream: StreamFacts,
    times: tuple[IntArray, IntArray, Fraction],
    sizes: IntArray,
    built_from: BuiltFrom,
    identity: SourceIdentity | None,
) -> FrameIndex:
    pts, duration, time_base = times
    count = len(pts)
    numbers = np.arange(count, dtype=np.int64)
    flags = np.full(count, KEY, dtype=np.uint8)
    return FrameIndex(
        pts=pts,
        duration=duration,
        time_base=time_base,
        key_frame_indices=numbers.copy(),
        built_from=built_from,
        frame_packet=numbers,
        frame_start=numbers.copy(),
        packets=PacketTable(offset=np.zeros(count, dtype=np.int64), size=sizes, pts=pts, flags=flags),
        stream=stream,
        identity=identity,
    )


def _decodable(media: SequenceSource, identity: SourceIdentity, limits: Limits) -> IntArray:
    """Numbers of the files that decode, int64 [K]."""
    found = list[int]()
    for number, path in enumerate(media.files().paths):
        data = media.read_file(number, identity)
        try:
            decode_still(data, path, limits)
        except MediaError:
            check_stop()  # that time ran out is no fact about the picture
            continue
        found.append(number)
    return np.array(found, dtype=np.int64)


def _kept(whole: FrameIndex, numbers: IntArray, name: str) -> FrameIndex:
    if not len(numbers):
        raise EmptyVideo(f"{name}: none of its {len(whole)} pictures decodes", source=name, stage="index")
    return FrameIndex(
        pts=whole.pts[numbers],
        duration=whole.duration[numbers],
        time_base=whole.time_base,
        key_frame_indices=np.arange(len(numbers), dtype=np.int64),
        built_from="decode",
        frame_packet=numbers,
        frame_start=numbers.copy(),
        packets=whole.packets,
        stream=whole.stream,
        identity=whole.identity,
    )


def _check_stream(media: MediaSource, stream_index: int | None) -> None:
    if stream_index not in (None, 0):
        message = f"{media.name}: pictures have one stream, number 0, and no stream {stream_index}"
        raise NoVideoStream(message, source=media.name, stage="open")
