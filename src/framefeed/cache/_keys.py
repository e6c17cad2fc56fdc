"""Whose frames they are: everything that decides the pixels of a stream's frames, as text and as 16 bytes.

A frame is known by the key of its stream and the number of its packet there: the number is the same however the file
was indexed, where ordinals may differ (design/0001-a-frame-is-known-by-its-packet.md).

Whether a source still holds what a stored frame was made of.

The stamp of a file, which costs one call to the system, says whether it was touched since. Where it was, or a copy
stands in its place, the encoded bytes that the frame depends on decide: those of its group of pictures up to the frame
itself, and the beginning of a container that sets the decoder up. So an edit that keeps size and time, head and tail
is found out too, and a copied data set keeps its cache.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import groupby
from time import sleep, time_ns
from typing import Literal

import numpy as np
import xxhash

from framefeed._arrays import IntArray, WordArray
from framefeed.index import FrameIndex, StreamFacts, holds_pictures
from framefeed.media import ByteReader, MediaSource, SequenceSource, SourceIdentity, ns_in_64_bits, read_bytes
from framefeed.parallel import shortage_in
from framefeed.plan import OutputSpec

KEY_VERSION = 1
"""Another number, and nothing that was stored before is found."""

Form = Literal["output", "planes"]
FORMS: tuple[Form, ...] = ("output", "planes")
EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides the pixels of a stored frame besides its source.

    Attributes:
        form: "output" for the pixels that were asked for, "planes" for those that the decoder made.
        output: Their form; None for planes.
        decoder: What decides the decoder's pixels, as it says itself.
        pixels: "exact", or the recipe of a lossy codec.
    """

    form: Form
    output: OutputSpec | None
    decoder: str
    pixels: str = EXACT


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Key of one stream's frames.

    Attributes:
        digest: 16 bytes.
        description: What it is the digest of, JSON text.
    """

    digest: bytes
    description: str


@lru_cache(maxsize=4096)
def stream_key(source_bytes: int, fingerprint: str, stream: StreamFacts, recipe: Recipe) -> StreamKey:
    """Make the key of one stream's frames in one form.

    Neither the path nor the modification time has a part in it: a copy of the file has the same frames.

    Args:
        source_bytes: Size of the source.
        fingerprint: Hash of parts of it.
        stream: Which of its streams, and how that is decoded and shown.
        recipe: What else decides the pixels.
    """
    facts = asdict(stream)
    facts["extradata"] = None if stream.extradata is None else xxhash.xxh3_128_hexdigest(stream.extradata)
    described = {
        "schema": KEY_VERSION,
        "source": {"bytes": source_bytes, "fingerprint": fingerprint},
        "stream": facts,
        "recipe": asdict(recipe),
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return StreamKey(xxhash.xxh3_128_digest(text.encode()), text)


def key_of(identity: SourceIdentity, stream: StreamFacts, recipe: Recipe) -> StreamKey:
    """Make the key of an indexed source's frames; see ``stream_key``."""
    return stream_key(identity.bytes, identity.fingerprint, stream, recipe)


NO_STAMP = 0
"""Of what is no file: only the bytes themselves can tell."""
_TICK_NS = 10_000_000
"""Two changes of a file may get the same time from the kernel's clock if they are this close: 100 ticks a second, the
slowest that Linux is built with."""
_SECONDS_NS = 2_000_000_000
"""The same where a file system keeps whole seconds, or every other one."""
_PIECE = 1 << 20
"""Bytes read and hashed at once."""
_NEAR = 512
"""Packets among which the next frame's is looked for first: no codec reorders so far."""
_STAMP = struct.Struct("<qqQq")


class Evidence:
    """What is known of one source now.

    Args:
        source: Where the bytes are.
        index: The source's frames.
    """

    def __init__(self, source: MediaSource, index: FrameIndex) -> None:
        self._source = source
        self._index = index

    @property
    def stamp(self) -> int:
        """Stamp of the one file that all frames are from; ``NO_STAMP`` where there is none."""
        return stamp_of(self._source.path) if self._source.kind == "path" else NO_STAMP

    def stamps(self, ordinals: IntArray) -> WordArray:
        """Stamp the file of each frame, uint64 [N]; ``NO_STAMP`` where there is none."""
        return self._stamped(ordinals, stamp_of)

    def lasting_stamps(self, ordinals: IntArray) -> WordArray:
        """Stamp the file of each frame before it is decoded, uint64 [N]; see ``lasting_stamp_of``."""
        return self._stamped(ordinals, lasting_stamp_of)

    def _stamped(self, ordinals: IntArray, stamp: Callable[[str], int]) -> WordArray:
        if isinstance(self._source, SequenceSource):
            paths = self._source.files().paths
            files = [paths[number] for number in self._index.frame_packet[ordinals].tolist()]
            return np.array([stamp(path) for path in files], dtype=np.uint64)
        own = stamp(self._source.path) if self._source.kind == "path" else NO_STAMP
        return np.full(len(ordinals), own, dtype=np.uint64)

    def contents(self, ordinals: IntArray) -> WordArray:
        """Hash the encoded bytes that each frame depends on, uint64 [N].

        Raises:
            MediaError: The source cannot be read, or is not what was indexed.
        """
        if isinstance(self._source, SequenceSource):
            numbers = self._index.frame_packet[ordinals].tolist()
            files = (self._source.read_file(number, self._index.identity) for number in numbers)
            return np.array([xxhash.xxh3_64_intdigest(data) for data in files], dtype=np.uint64)
        size = self._source.stat().bytes
        spans = [(0, size)] * len(ordinals) if holds_pictures(self._index) else _spans(self._index, ordinals, size)
        with self._source.opened() as reader:
            hashes = _hashes(reader, spans, _header_bytes(self._index))
        return np.array([hashes[span] for span in spans], dtype=np.uint64)


def stamp_of(path: str) -> int:
    """Hash times, number and size of a file; ``NO_STAMP`` where it cannot be looked at.

    Raises:
        OSError: Something ran out, which says nothing about the file.
    """
    try:
        facts = os.stat(path)
    except OSError as error:
        if shortage_in(error) is not None:
            raise
        return NO_STAMP
    return _hash_facts(facts)


def lasting_stamp_of(path: str) -> int:
    """Stamp a file so that any later change gives it another stamp; ``NO_STAMP`` where that cannot be known.

    It cannot where the file was changed so recently that the clock of its file system may still show the same time. A
    tick of the kernel's clock is waited for. Where the file system keeps whole seconds, or its clock is ahead of this
    machine's, the frames are stored another time.

    Raises:
        OSError: Something ran out, which says nothing about the file.
    """
    stamp, age = _stamp_and_age(path)
    if 0 <= age < _TICK_NS:
        sleep((_TICK_NS - age + 1) / 1e9)
        stamp, age = _stamp_and_age(path)
    return stamp if age >= _TICK_NS else NO_STAMP


def _stamp_and_age(path: str) -> tuple[int, int]:
    """Stamp a file, and tell how many nanoseconds ago it was changed, less what its file system's clock leaves out."""
    try:
        facts = os.stat(path)
    except OSError as error:
        if shortage_in(error) is not None:
            raise
        return NO_STAMP, _TICK_NS
    coarse = 0 if facts.st_ctime_ns % 1_000_000_000 else _SECONDS_NS
    age = time_ns() - facts.st_ctime_ns - coarse
    return _hash_facts(facts), age


def _hash_facts(facts: os.stat_result) -> int:
    times = ns_in_64_bits(facts.st_mtime_ns), ns_in_64_bits(facts.st_ctime_ns)
    return xxhash.xxh3_64_intdigest(_STAMP.pack(*times, facts.st_ino & (2**64 - 1), facts.st_size)) or 1


Span = tuple[int, int]


def _spans(index: FrameIndex, ordinals: IntArray, size: int) -> list[Span]:
    """First and end byte of what each frame depends on, whatever else lies between."""
    table = index.packets
    parts = list(zip(np.maximum(index.frame_start[ordinals], 0).tolist(), _stops(index, ordinals), strict=True))
    if index.stream.contiguous:
        spans = [
            (int(table.offset[first:stop].min()), int((table.offset + table.size)[first:stop].max()))
            for first, stop in parts
        ]
    else:
        places = np.sort(table.offset[table.offset >= 0])
        spans = [_spread_span(table.offset[: max(stop, first + 1)], first, places, size) for first, stop in parts]
    return [(max(0, first), min(end, size)) for first, end in spans]


def _stops(index: FrameIndex, ordinals: IntArray) -> list[int]:
    """Number after the last packet of each frame: packets that give no frame of their own belong to the one before.

    Such as second fields, and frames that are never shown.
    """
    packets = index.frame_packet
    own = packets[ordinals]
    near = np.sort(packets[(packets > own.min()) & (packets <= own.max() + _NEAR)])
    places = np.searchsorted(near, own, "right")
    stops = []
    for packet, place in zip(own.tolist(), places.tolist(), strict=True):
        later = near[place : place + 1] if place < len(near) else packets[packets > packet]
        stops.append(int(later.min(initial=len(index.packets))))
    return stops


def _spread_span(offsets: IntArray, first: int, places: IntArray, size: int) -> Span:
    """The same in a container that spreads packets, or begins several in one place and tells only the first.

    Args:
        offsets: Of the packets up to the last one that is needed; -1 where unknown.
        first: Number of the first one.
        places: All known offsets, rising.
        size: Of the file.
    """
    known = offsets[first:][offsets[first:] >= 0]
    before = offsets[:first][offsets[:first] >= 0]
    if not len(known) or offsets[first] < 0:
        known = np.append(known, before.max(initial=0))
    # What is left of a packet may lie in the piece of the file in which the next one begins.
    place = int(np.searchsorted(places, known.max(), "right")) + 1
    return int(known.min()), int(places[place]) if place < len(places) else size


def _header_bytes(index: FrameIndex) -> int:
    """How much of the file's beginning decides the pixels: a container that is read anew sets its codec up from there.

    Not only its header: also the first packets, which libav looks at for what the header does not say.
    """
    return 0 if index.stream.contiguous or holds_pictures(index) else _PIECE


def _hashes(reader: ByteReader, spans: Sequence[Span], header_bytes: int) -> dict[Span, int]:
    """Hash each span together with the file's header, reading what several begin with once."""
    found: dict[Span, int] = {}
    header = read_bytes(reader, 0, header_bytes)
    for first, group in groupby(sorted(set(spans)), key=lambda span: span[0]):
        at, digest = first, xxhash.xxh3_64(header)
        for span in group:
            for piece in _pieces(reader, at, span[1]):
                digest.update(piece)
            at = span[1]
            found[span] = digest.intdigest()
    return found


def _pieces(reader: ByteReader, start: int, stop: int) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(max(0, min(_PIECE, stop - start))))
    for at in range(start, stop, _PIECE):
        piece = buffer[: min(_PIECE, stop - at)]
        yield piece[: reader.read_into(piece, at)]
