"""Check in a container's bytes that it rotates no pictures; libav reports rotation for decoded frames only."""

from __future__ import annotations

import re

from framefeed._values import ByteReader, read_bytes
from framefeed.bitstreams import STREAM_FORMATS
from framefeed.media import VideoContainer
from framefeed.mp4 import IDENTITY, OddMovie, TooManyBoxes, read_movie

_NEVER_TURN = STREAM_FORMATS | {"flv", "ivf", "mpeg", "mpegts"}
_SEGMENT, _CLUSTER, _TRACKS = 0x18538067, 0x1F43B675, 0x1654AE6B
_EBML = 0x1A45DFA3
# RFC 9559 5.1.4.1.28.45 to 47: ProjectionPoseYaw, ProjectionPosePitch, ProjectionPoseRoll; RFC 8794 5 and 7.3: what
# holds a value takes 4 or 8 bytes, and says so in 1 to 8 bytes.
_POSE = re.compile(
    rb"\x76[\x73-\x75](?:[\x84\x88]|(?:\x40|\x20\0|\x10\0{2}|\x08\0{3}|\x04\0{4}|\x02\0{5}|\x01\0{6})[\x04\x08])"
)
_HEAD_SIZES = (2**13, 2**16)
"""Bytes read in turn until the first cluster is within them; codebooks of Vorbis may fill the smaller head."""
_MAX_ID_BYTES, _MAX_SIZE_BYTES = 4, 8


def is_upright(container: VideoContainer) -> bool:
    """Whether no picture of an open container is rotated or mirrored; False if unknown."""
    name = container.format_name
    reader = container.reader
    if not name.startswith("mov"):
        return name in _NEVER_TURN or (name.startswith("matroska") and _has_no_pose(reader))
    try:
        tracks = read_movie(reader, reader.stat().bytes, container.limits).tracks
    except (OddMovie, TooManyBoxes):
        return False
    return any(track.number == container.stream.index and track.matrix == IDENTITY for track in tracks)


def _has_no_pose(reader: ByteReader) -> bool:
    """Whether nothing before a Matroska file's first cluster can be the pose of a projection."""
    for size in _HEAD_SIZES:
        head = read_bytes(reader, 0, size)
        end = _find_cluster(head)
        if end is not None:
            return _POSE.search(head, 0, end) is None
    return False


def _find_cluster(head: bytes) -> int | None:
    """Find the offset of the first cluster, if tracks come before it and all of that is in ``head``."""
    element = _read_element(head, 0)
    if element is None or element[0] != _EBML or element[2] is None:
        return None
    at, has_tracks = element[1] + element[2], False
    while (element := _read_element(head, at)) is not None:
        kind, start, size = element
        if kind == _CLUSTER:
            return at if has_tracks else None
        if kind == _SEGMENT:
            at = start
        elif size is None:
            return None
        else:
            has_tracks = has_tracks or kind == _TRACKS
            at = start + size
    return None


def _read_element(data: bytes, at: int) -> tuple[int, int, int | None] | None:
    """Read an element's identifier, the offset of its data, and their size, None if unknown (RFC 8794 5 and 6)."""
    length = _read_length(data, at)
    if length is None or length > _MAX_ID_BYTES:
        return None
    start = at + length
    size_length = _read_length(data, start)
    if size_length is None:
        return None
    end = start + size_length
    bits = 7 * size_length
    size = int.from_bytes(data[start:end], "big") & ((1 << bits) - 1)
    return int.from_bytes(data[at:start], "big"), end, None if size == (1 << bits) - 1 else size


def _read_length(data: bytes, at: int) -> int | None:
    """Read the length of a number in bytes from its first byte; None if the number is not whole."""
    if at >= len(data):
        return None
    length = 9 - data[at].bit_length()
    return length if length <= _MAX_SIZE_BYTES and at + length <= len(data) else None


def convert_display_matrix(matrix: tuple[int, ...] | None) -> tuple[int, bool]:
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
