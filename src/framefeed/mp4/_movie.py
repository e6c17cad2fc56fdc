"""Read the tracks of a moov box."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from framefeed._cached import cached_property
from framefeed._values import Limits
from framefeed.mp4._boxes import Box, FileLayout, OddMovie, find_boxes, list_boxes, require_box, unpack

Matrix = tuple[int, ...]

IDENTITY = (65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
_UNITY = (16, 16, 30)
"""Binary digits behind the point of the three columns of a matrix, ISO/IEC 14496-12 6.2.2."""
_ENABLED = 1
_MVHD = {0: Struct(">4xIII"), 1: Struct(">4xQQI")}
_MDHD = {0: Struct(">4xIIII"), 1: Struct(">4xQQIQ")}
_TKHD = {0: (Struct(">III"), 40), 1: (Struct(">QQI"), 52)}
_MATRIX = Struct(">9i")
_PICTURE = Struct(">II")
_ELST = {0: Struct(">IiI"), 1: Struct(">QqI")}
_MAX_EDITS = 2
_NO_FRAMES = frozenset({b"free", b"skip", b"wide", b"udta", b"meta", b"uuid", b"iods", b"pssh"})
"""Boxes of names, licences and padding."""
TABLES = frozenset({b"stts", b"ctts", b"stsz", b"stz2", b"stsc", b"stco", b"co64", b"stss", b"stsd"})


_TRACK_PARTS = (b"tkhd", b"mdia", b"edts", b"tref")
_NO_TRACK_PARTS = _NO_FRAMES | {b"tapt", b"tgas", b"load", b"clip", b"matt", b"imap"}
_MEDIA_PARTS = (b"mdhd", b"hdlr", b"minf")
_NO_MEDIA_PARTS = _NO_FRAMES | {b"elng"}
_INNER_PARTS = (b"dinf", b"stbl", b"hdlr")
_NO_INNER_PARTS = _NO_FRAMES | {b"vmhd", b"smhd", b"nmhd", b"gmhd", b"hmhd", b"sthd"}
_GROUPS = frozenset({b"sbgp", b"sgpd", b"csgp"})
_NO_TABLES = frozenset({b"sdtp", b"cslg", b"free", b"subs", b"stsh", b"padb", b"stdp"})
_OWN_DATA = bytes.fromhex("0000001c 64726566 00000000 00000001 0000000c 75726c20 00000001")
"""Payload of dinf in nearly every file: one dref box whose one entry is "url " with the flag for this file."""
_ONE = Struct(">I")
_COUNTED = Struct(">4xI")
_RUN = Struct(">II")
_MOST_GROUPED = 2**24
"""Most samples in groups; libav lists each of them."""


class Edit(NamedTuple):
    """One entry of an edit list: length in the movie's time scale, begin in the track's; begin -1 is a gap."""

    duration: int
    media_time: int


class Track(NamedTuple):
    """One trak box."""

    number: int  # libav's stream index
    track_id: int  # number by which fragments refer to it
    kind: bytes  # handler type, such as ``b"vide"``
    is_enabled: bool  # a default stream for libav
    matrix: Matrix  # the movie's and the track's display matrix as one
    time_scale: int
    duration: int  # in ticks, from the media header
    edits: tuple[Edit, ...]
    samples: Box
    tables: dict[bytes, Box]  # its boxes by kind
    entry: Box  # the one sample description; an empty box in a track without it that is no video
    groups: frozenset[bytes]  # kinds of sample groups, such as ``b"roll"``, without those for seeking
    chapters: tuple[int, ...]  # numbers of the tracks that are its chapters


@dataclass(frozen=True)
class Movie:
    """The moov box and its file."""

    data: bytes  # its payload; the boxes of the tracks point into it
    layout: FileLayout
    time_scale: int  # ticks a second of edit lists
    tracks: tuple[Track, ...]
    extends: Box | None  # the mvex box of a fragmented file
    chosen: Track | None = None  # the video track that counts; None if the header does not say

    @property
    def is_fragmented(self) -> bool:
        """Whether there are fragments; a header that announces them may come without."""
        return bool(self.layout.fragments)

    @cached_property
    def video(self) -> Track:
        """The video track that counts, or the only one."""
        if self.chosen is not None:
            return self.chosen
        videos = [track for track in self.tracks if track.kind == b"vide"]
        if len(videos) != 1:
            raise OddMovie(f"{len(videos)} video tracks")
        return videos[0]


def parse_movie(data: bytes, layout: FileLayout, limits: Limits) -> Movie:
    """Read a moov box's payload."""
    traks: list[Box] = []
    header: Box | None = None
    extends: Box | None = None
    for box in list_boxes(data, 0, len(data)):
        if box.kind == b"trak" and header is not None:
            traks.append(box)
        elif box.kind == b"mvhd" and header is None:
            header = box
        elif box.kind == b"mvex" and extends is None:
            extends = box
        elif box.kind not in _NO_FRAMES or (not traks and b"covr" in data[box.start : box.end]):
            raise OddMovie(f"an unexpected {box.kind!r} box in moov")
    if header is None or not traks:
        raise OddMovie("no header or no track")
    if len(traks) > limits.max_streams:
        raise OddMovie(f"{len(traks)} tracks")
    version = _read_version(data, header)
    time_scale = unpack(data, header, _MVHD[version])[2]
    if not 0 < time_scale < 2**31:
        raise OddMovie(f"a movie time scale of {time_scale}")
    # Up to the matrix: version and flags, times, time scale and duration, rate, volume, reserved.
    matrix = unpack(data, header, _MATRIX, 36 + 12 * version)
    tracks = tuple(_read_track(data, box, number, matrix) for number, box in enumerate(traks))
    chapters = {number for track in tracks for number in track.chapters}
    if any(track.kind == b"vide" and track.track_id in chapters for track in tracks):
        raise OddMovie("pictures of chapters")  # libav takes them for covers
    if len({track.track_id for track in tracks}) < len(tracks):
        raise OddMovie("two tracks of one number")
    # libav counts cover pictures as streams. Tables of numbers may be long, and are left out.
    num_covers = at = 0
    for track in tracks:
        for start, end in (at, track.samples.start), (track.entry.start, track.entry.end):
            num_covers += data.count(b"covr", start, end)
        at = track.samples.end
    if len(tracks) + num_covers + data.count(b"covr", at) > limits.max_streams:
        raise OddMovie("many cover pictures")
    return Movie(data, layout, time_scale, tracks, extends)


def _read_version(data: bytes, box: Box) -> int:
    if box.start >= box.end or data[box.start] > 1:
        raise OddMovie(f"a {box.kind!r} box of an unknown version")
    return data[box.start]


def _read_track(data: bytes, trak: Box, number: int, movie_matrix: Matrix) -> Track:
    parts = find_boxes(data, trak, _TRACK_PARTS, _NO_TRACK_PARTS)
    media = find_boxes(data, require_box(parts, b"mdia"), _MEDIA_PARTS, _NO_MEDIA_PARTS)
    handler = _read_handler(data, require_box(media, b"hdlr"))
    inner = find_boxes(data, require_box(media, b"minf"), _INNER_PARTS, _NO_INNER_PARTS)
    if b"hdlr" in inner and _read_handler(data, inner[b"hdlr"]) not in (b"alis", b"url "):
        raise OddMovie("two handlers in a track")
    _check_own_data(data, require_box(inner, b"dinf"))
    samples = require_box(inner, b"stbl")
    tables, entry, groups = _read_tables(data, samples, handler)
    time_scale, duration = unpack(data, media[b"mdhd"], _MDHD[_read_version(data, require_box(media, b"mdhd"))])[2:4]
    if not 0 < time_scale < 2**31:
        raise OddMovie(f"a time scale of {time_scale}")
    header = require_box(parts, b"tkhd")
    times, matrix_offset = _TKHD[_read_version(data, header)]
    track_id = unpack(data, header, times, 4)[2]
    if not track_id:
        raise OddMovie("a track without a number")
    matrix = unpack(data, header, _MATRIX, matrix_offset)
    unpack(data, header, _PICTURE, matrix_offset + 36)
    return Track(
        number=number,
        track_id=track_id,
        kind=handler,
        is_enabled=bool(data[header.start + 3] & _ENABLED),
        matrix=_multiply_matrices(matrix, movie_matrix),
        time_scale=time_scale,
        duration=duration,
        edits=_read_edits(data, parts[b"edts"]) if b"edts" in parts else (),
        samples=samples,
        tables=tables,
        entry=entry,
        groups=groups,
        chapters=_read_chapters(data, parts[b"tref"]) if b"tref" in parts else (),
    )


def _read_chapters(data: bytes, references: Box) -> tuple[int, ...]:
    """List the numbers of the tracks to which a track refers as its chapters."""
    numbers: list[int] = []
    for box in list_boxes(data, references.start, references.end):
        if box.kind == b"chap":
            count = (box.end - box.start) // _ONE.size
            numbers += [unpack(data, box, _ONE, number * _ONE.size)[0] for number in range(count)]
    return tuple(numbers)


def _read_handler(data: bytes, box: Box) -> bytes:
    if box.end - box.start < 24:
        raise OddMovie("a handler that breaks off")
    return data[box.start + 8 : box.start + 12]


def _check_own_data(data: bytes, dinf: Box) -> None:
    """Raise OddMovie if samples may lie in another file."""
    if data[dinf.start : dinf.end] == _OWN_DATA:
        return
    reference = require_box(find_boxes(data, dinf, (b"dref",), ()), b"dref")
    (count,) = unpack(data, reference, _COUNTED)
    entries = list_boxes(data, reference.start + 8, reference.end)
    if len(entries) != count:
        raise OddMovie(f"{count} places of samples")
    for entry in entries:
        if not unpack(data, entry, _ONE)[0] & 1:
            raise OddMovie("samples in another file")


def _read_tables(data: bytes, stbl: Box, handler: bytes) -> tuple[dict[bytes, Box], Box, frozenset[bytes]]:
    tables: dict[bytes, Box] = {}
    groups: set[bytes] = set()
    for box in list_boxes(data, stbl.start, stbl.end):
        if box.kind in TABLES and box.kind not in tables:
            tables[box.kind] = box
        elif box.kind in _GROUPS:
            grouping = data[box.start + 4 : box.start + 8]
            if grouping == b"sync" and box.kind != b"csgp":
                _check_sync_group(data, box)
            else:
                groups.add(grouping)
        elif box.kind not in _NO_TABLES:
            raise OddMovie(f"an unexpected {box.kind!r} box of samples")
    if handler != b"vide" and b"stsd" not in tables:
        return tables, Box(b"", stbl.start, stbl.start), frozenset(groups)
    description = require_box(tables, b"stsd")
    (count,) = unpack(data, description, _COUNTED)
    entries = list_boxes(data, description.start + 8, description.end)
    if count != 1 or len(entries) != 1:
        raise OddMovie(f"{count} sample descriptions")
    return tables, entries[0], frozenset(groups)


def _check_sync_group(data: bytes, box: Box) -> None:
    """Raise OddMovie unless a box of groups of key frames is whole; libav uses them for seeking alone."""
    version = _read_version(data, box)
    at = 8 + 4 * version
    (count,) = unpack(data, box, _ONE, at)
    # The newer version alone has the length of a description.
    width = _RUN.size if box.kind == b"sbgp" else version * unpack(data, box, _ONE, 8)[0]
    if not width or at + _ONE.size + count * width != box.end - box.start:
        raise OddMovie("groups of key frames that break off")
    if box.kind == b"sbgp":
        runs = _RUN.iter_unpack(data[at + box.start + _ONE.size : box.end])
        if sum(length for length, _ in runs) > _MOST_GROUPED:
            raise OddMovie("groups of too many key frames")


def _multiply_matrices(own: Matrix, movie: Matrix) -> Matrix:
    """Multiply two matrices of fixed-point numbers, as libav does."""
    if movie == IDENTITY:
        return own
    product = tuple(
        sum((own[3 * row + k] * movie[3 * k + column]) >> _UNITY[k] for k in range(3))
        for row in range(3)
        for column in range(3)
    )
    if any(not -(2**31) <= value < 2**31 for value in product):
        raise OddMovie("a display matrix of huge numbers")
    return product


def _read_edits(data: bytes, edts: Box) -> tuple[Edit, ...]:
    box = find_boxes(data, edts, (b"elst",), ()).get(b"elst")
    if box is None:
        return ()
    version = _read_version(data, box)
    entry = _ELST[version]
    count = unpack(data, box, _COUNTED)[0]
    if count > _MAX_EDITS or box.end - box.start != 8 + count * entry.size:
        raise OddMovie(f"{count} edits")
    edits = [unpack(data, box, entry, 8 + number * entry.size) for number in range(count)]
    if any(rate != 65536 for _, _, rate in edits):
        raise OddMovie("an edit at another speed")
    return tuple(Edit(duration, media_time) for duration, media_time, _ in edits)
