"""Index picture files: an image sequence has one frame per file, a still picture one frame."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from framefeed._arrays import IntArray
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


def has_picture_files(index: FrameIndex) -> bool:
    """Whether each frame is a picture file of its own, which only the backend "still" reads."""
    return index.stream.container == SEQUENCE_CONTAINER or index.stream.container in _STILLS


def build_still_index(info: MediaInfo, identity: SourceIdentity | None) -> FrameIndex:
    """Index a still picture: one frame at 0 s of unknown duration, in ticks of a second.

    Args:
        info: Claims of its header.
        identity: Identity of the file, or None to skip the check for changes.
    """
    container = info.container if info.container in _STILLS else OTHER_STILL
    zero = np.zeros(1, dtype=np.int64)
    sizes = np.array([info.bytes], dtype=np.int64)
    return _build_index(info, container, zero, zero, Fraction(1), sizes, identity)


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
    return info, build_still_index(info, identity)


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
    index = _build_index(info, SEQUENCE_CONTAINER, times.pts, times.duration, times.time_base, files.sizes, identity)
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


def _build_index(
    info: MediaInfo,
    container: str,
    pts: IntArray,
    duration: IntArray,
    time_base: Fraction,
    sizes: IntArray,
    identity: SourceIdentity | None,
) -> FrameIndex:
    """Build an index of one packet per picture."""
    stream = StreamFacts(
        stream_index=0,
        container=container,
        codec=info.codec,
        extradata=None,
        width=info.coded_width,
        height=info.coded_height,
        pixel_format=info.pixel_format,
        rotation=info.rotation,
        mirrored=info.mirrored,
        contiguous=True,  # Each file is one range of bytes.
    )
    count = len(pts)
    numbers = np.arange(count, dtype=np.int64)
    flags = np.full(count, KEY, dtype=np.uint8)
    return FrameIndex(
        pts=pts,
        duration=duration,
        time_base=time_base,
        key_frame_indices=numbers.copy(),
        built_from="packets",
        frame_packet=numbers,
        frame_start=numbers.copy(),
        packets=PacketTable(offset=np.zeros(count, dtype=np.int64), size=sizes, pts=pts, flags=flags),
        stream=stream,
        identity=identity,
    )


def _check_stream(media: MediaSource, stream_index: int | None) -> None:
    if stream_index not in (None, 0):
        message = f"{media.name}: pictures have one stream, number 0, and no stream {stream_index}"
        raise NoVideoStream(message, source=media.name, stage="open")
