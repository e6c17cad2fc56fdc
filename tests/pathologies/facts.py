"""Recipes of files that are hard to read, and facts that prove the property of a written file."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import av.container
from av.buffer import Buffer
from av.stream import Disposition
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from framefeed.testing import find_stamp

Turn = tuple[int, bool]


@dataclass(frozen=True, slots=True)
class PacketFacts:
    """One packet from the demuxer."""

    pts: int | None
    dts: int | None
    size: int
    is_key: bool
    is_discarded: bool


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """One frame from the decoder.

    A turn is a rotation in degrees counter-clockwise and whether the picture is mirrored left to right after it.

    Attributes:
        display_turn: Turn of the display matrix.
        digest: CRC of the luma, to compare pictures.
        stamp: The drawn number; None if it cannot be read in any orientation.
        stamp_turn: Turn after which the stamp is upright.
    """

    pts: int | None
    is_key: bool
    is_corrupt: bool
    is_interlaced: bool
    height: int
    width: int
    pixel_format: str
    display_turn: Turn
    digest: int
    stamp: int | None = None
    stamp_turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class MediaFacts:
    """One video stream, read from beginning to end in one thread.

    Attributes:
        path: Path of the file.
        packets: Packets in the order of the file.
        frames: Frames in the order of the decoder.
        errors: Names of the errors of the demuxer and the decoder; reading went on after them.
        time_base: Unit of all times; None if there is no such stream.
        num_frames_from_header: Number of frames that the container claims; 0 if it has none.
        average_rate: Average rate that the container claims.
        base_rate: Base rate that the container claims.
        container_keys: Packet numbers that the container's own index flags as key frames, in decode order.
        is_attached_picture: Whether the stream is a cover picture.
        sample_aspect_ratio: Width to height of one sample; None where the container does not say.
    """

    path: Path
    packets: tuple[PacketFacts, ...] = ()
    frames: tuple[FrameFacts, ...] = ()
    errors: tuple[str, ...] = ()
    time_base: Fraction | None = None
    num_frames_from_header: int = 0
    average_rate: Fraction | None = None
    base_rate: Fraction | None = None
    container_keys: tuple[int, ...] = ()
    is_attached_picture: bool = False
    sample_aspect_ratio: Fraction | None = None

    @property
    def stamps(self) -> tuple[int | None, ...]:
        """Numbers of the frames, in the order of the decoder."""
        return tuple(frame.stamp for frame in self.frames)

    @property
    def digests(self) -> tuple[int, ...]:
        """Checksums of the frames, in the order of the decoder."""
        return tuple(frame.digest for frame in self.frames)

    @property
    def frame_pts(self) -> tuple[int | None, ...]:
        """Times of the frames, in the order of the decoder."""
        return tuple(frame.pts for frame in self.frames)

    @property
    def true_keys(self) -> tuple[int, ...]:
        """Ordinals of the frames that the decoder calls key frames."""
        return tuple(ordinal for ordinal, frame in enumerate(self.frames) if frame.is_key)

    @property
    def num_leading(self) -> int:
        """Packets that follow a key frame in the file and are shown before it."""
        count, key_pts = 0, None
        for packet in self.packets:
            if packet.is_key:
                key_pts = packet.pts
            elif key_pts is not None and packet.pts is not None and packet.pts < key_pts:
                count += 1
        return count

    @property
    def longest_b_run(self) -> int:
        """Most packets in a row that are shown before one that precedes them in the file."""
        longest = run = 0
        latest: int | None = None
        for packet in self.packets:
            if packet.pts is None:
                continue
            is_earlier = latest is not None and packet.pts < latest
            run = run + 1 if is_earlier else 0
            latest = packet.pts if latest is None else max(latest, packet.pts)
            longest = max(longest, run)
        return longest

    @property
    def num_backward(self) -> int:
        """Number of frames whose time is not later than that of the frame before."""
        known = [pts for pts in self.frame_pts if pts is not None]
        return sum(later <= earlier for earlier, later in pairwise(known))

    @property
    def gaps(self) -> set[int]:
        """Distances of neighbouring frames, in units of the time base."""
        known = [pts for pts in self.frame_pts if pts is not None]
        return {later - earlier for earlier, later in pairwise(known)}


def read_facts(path: str | os.PathLike[str], stream_index: int | None = None) -> MediaFacts:
    """Read a video stream to its end.

    Args:
        path: The file; damaged and unreadable ones too.
        stream_index: Index among all streams; None for the first video stream.

    Returns:
        Its facts. They are empty with one error if the file cannot be opened, and empty if it has no such stream.
    """
    try:
        container = av.open(os.fspath(path))
    except (av.FFmpegError, OSError) as error:
        return MediaFacts(Path(path), errors=(type(error).__name__,))
    with container:
        videos = [stream for stream in container.streams.video if stream_index in (None, stream.index)]
        return _read_stream(Path(path), container, videos[0]) if videos else MediaFacts(Path(path))


def find_missed_by_seeking(facts: MediaFacts, step: int = 1) -> list[int]:
    """Find frames that a plain seek misses: a seek to the key frame before, then decoding of one frame.

    Args:
        facts: A file whose frames have times.
        step: Distance of the frames to try.

    Returns:
        Ordinals of frames after which the seek lands, so that decoding from there does not give them.
    """
    missed = []
    with av.open(os.fspath(facts.path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for ordinal, pts in list(enumerate(facts.frame_pts))[::step]:
            assert pts is not None
            container.seek(pts, stream=stream, backward=True)
            frame = next(container.decode(stream), None)
            if frame is None or frame.pts is None or frame.pts > pts:
                missed.append(ordinal)
    return missed


def _read_stream(path: Path, container: av.container.InputContainer, stream: VideoStream) -> MediaFacts:
    stream.codec_context.thread_count = 1
    errors: list[str] = []
    packets: list[PacketFacts] = []
    frames: list[FrameFacts] = []
    reformatter = VideoReformatter()
    # Read before the first packet, because some demuxers extend their index from packets.
    container_keys = tuple(number for number, entry in enumerate(stream.index_entries) if entry.is_keyframe)
    for packet in _read_packets(container, stream, errors):
        if packet.size:
            packets.append(PacketFacts(packet.pts, packet.dts, packet.size, packet.is_keyframe, packet.is_discard))
        try:
            frames += [_describe_frame(frame, reformatter) for frame in stream.decode(packet if packet.size else None)]
        except av.FFmpegError as error:
            errors.append(type(error).__name__)
    return MediaFacts(
        path,
        tuple(packets),
        tuple(frames),
        tuple(errors),
        stream.time_base,
        stream.frames,
        stream.average_rate,
        stream.base_rate,
        container_keys,
        bool(stream.disposition & Disposition.attached_pic),
        stream.sample_aspect_ratio,
    )


def _read_packets(
    container: av.container.InputContainer, stream: VideoStream, errors: list[str]
) -> Iterator[av.Packet[Any]]:
    """Yield every packet up to the first error, then an empty one that drains the decoder."""
    try:
        for packet in container.demux(stream):
            if packet.size:
                yield packet
    except av.FFmpegError as error:
        errors.append(type(error).__name__)
    yield av.Packet()


def _describe_frame(frame: av.VideoFrame, reformatter: VideoReformatter) -> FrameFacts:
    luma = reformatter.reformat(frame, format="gray", threads=1).to_ndarray()
    facts = FrameFacts(
        frame.pts,
        frame.key_frame,
        frame.is_corrupt,
        frame.interlaced_frame,
        frame.height,
        frame.width,
        frame.format.name,
        _read_display_turn(frame),
        zlib.crc32(luma.tobytes()),
    )
    try:
        reading = find_stamp(luma)
    except ValueError:
        return facts
    return replace(facts, stamp=reading.number, stamp_turn=(reading.rotation, reading.mirrored))


def _read_display_turn(frame: av.VideoFrame) -> Turn:
    """Read the display matrix: x' = ax + cy, y' = bx + dy, with y downwards."""
    try:
        matrix = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:
        # PyAV 18.1 does not know every type of side data that FFmpeg 8.1 attaches, such as EXIF to TIFF.
        return (frame.rotation % 360, False)
    if not isinstance(matrix, Buffer):
        return (0, False)
    a, b, _, c, d = struct.unpack_from("=5i", bytes(matrix))
    mirrored = a * d - b * c < 0
    return (round(math.degrees(math.atan2(-b, -a if mirrored else a))) % 360, mirrored)


@dataclass(frozen=True, slots=True)
class Pathology:
    """Named recipe for one file that many readers read wrongly.

    Attributes:
        name: File name, with the ending that its container has.
        number: Case number of the failure catalogue, such as ``"M04"``.
        trait: The property that makes the file hard, as a sentence.
        write: Function that writes the file to a path.
        proof: Predicate: whether the written file has the property.
        stamps: Numbers of the frames that a sequential decode gives, in its order; None where damage makes them
            unpredictable, empty where there is no video.
        stream_index: Index, among all streams, of the one that the stamps are about.
    """

    name: str
    number: str
    trait: str
    write: Callable[[Path], None]
    proof: Callable[[MediaFacts], bool]
    stamps: tuple[int, ...] | None = ()
    stream_index: int = 0


def verify(pathology: Pathology, facts: MediaFacts) -> None:
    """Check that a file has the property of its pathology, and the frames that the pathology lists.

    Args:
        pathology: The recipe of the file.
        facts: Facts of the file: ``read_facts(path, pathology.stream_index)``.

    Raises:
        AssertionError: The file lacks the property, for example after a change of an encoder, or has other frames.
    """
    if not pathology.proof(facts):
        raise AssertionError(f"{pathology.name}: the file lacks its property: {pathology.trait}")
    if pathology.stamps is not None and facts.stamps != pathology.stamps:
        raise AssertionError(f"{pathology.name}: expected the frames {pathology.stamps}, got {facts.stamps}")
