"""Index picture files: an image sequence has one frame per file, a still picture one frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from framefeed._stopping import check_stop
from framefeed._values import DEFAULT_LIMITS, KEY, Limits, MediaInfo, PacketTable
from framefeed.errors import EmptyVideo, MediaError, NoVideoStream
from framefeed.index._frame_index import FrameIndex, StreamFacts
from framefeed.index._probe import probe_sequence
from framefeed.index._stills import build_still_index, describe_still_stream
from framefeed.media import SEQUENCE_CONTAINER, ImageSequence, MediaSource, SequenceSource
from framefeed.pictures import decode_jpeg, decode_still, find_damage, probe_image


def index_still(
    media: MediaSource, verify: str, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index a still picture; with verify="full" it must also decode, and is damaged or not."""
    _check_stream(media, stream_index)
    # The same identity as in a scan of many still pictures.
    identity = media.head_identity()
    info = probe_image(media, limits)
    is_damaged = verify == "full" and _is_damaged(media.head(media.stat().bytes), media.name, limits)
    return info, build_still_index(_describe(info, info.container), identity, is_damaged=is_damaged)


def _is_damaged(data: bytes, name: str, limits: Limits) -> bool:
    """Decode a picture, and say whether it is damaged."""
    check_stop()
    if decode_jpeg(data, name, limits) is not None:
        return False
    decode_still(data, name, limits, accepts_damage=True)
    return find_damage(data) is not None


def index_sequence(
    media: SequenceSource, verify: str, stream_index: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index an image sequence.

    ``verify``: "none" reads the header of the first file, "ends" those of all; "full" decodes all, marks those that are
    damaged, and leaves out of the index those that do not decode.
    ``stream_index``: none or 0.

    Raises:
        EmptyVideo: There is no file, or none decodes.
    """
    identity = media.identity()
    _check_stream(media, stream_index)
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
    decodable, damaged = list[int](), list[int]()
    for number, path in enumerate(files.paths):
        data = media.read_file(number, identity)
        try:
            is_damaged = _is_damaged(data, path, limits)
        except MediaError:
            check_stop()  # A timeout says nothing about the picture.
            continue
        if is_damaged:
            damaged.append(len(decodable))
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
        damaged_frame_indices=np.array(damaged, dtype=np.int64),
    )


def make_image_sequence(folder: str, index: FrameIndex) -> ImageSequence:
    """Recreate the image sequence of a folder from its index: by its rate, or by its times if they are irregular."""
    pts = index.packets.pts
    if index.duration.any() and np.array_equal(pts, np.arange(len(pts))):
        return ImageSequence(folder, fps=1 / index.time_base)
    return ImageSequence(folder, timestamps=[float(ticks * index.time_base) for ticks in pts.tolist()])


def _describe(info: MediaInfo, container: str) -> StreamFacts:
    size = info.coded_width, info.coded_height
    return describe_still_stream(container, info.codec, size, info.pixel_format, info.rotation, mirrored=info.mirrored)


def _check_stream(media: MediaSource, stream_index: int | None) -> None:
    if stream_index not in (None, 0):
        message = f"{media.name}: pictures have one stream, number 0, and no stream {stream_index}"
        raise NoVideoStream(message, source=media.name, stage="open")
