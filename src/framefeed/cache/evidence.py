"""Whether a source still holds what a stored frame was made of.

The stamp of a file, which costs one call to the system, says whether anybody touched it since. Where somebody did, or
a copy stands in its place, the encoded bytes that the frame depends on decide: those of its group of pictures up to
the frame itself. So an edit that keeps size and time, head and tail is found out too, and a copied data set keeps its
cache.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import xxhash

from framefeed.cache.stored import IntArray, WordArray
from framefeed.index.frame_index import FrameIndex
from framefeed.index.sequence_index import holds_pictures
from framefeed.media.sequence import SequenceSource
from framefeed.media.source import ByteReader, MediaSource, ns_in_64_bits

NO_STAMP = 0
"""Of what is no file: only the bytes themselves can tell."""
_PIECE = 1 << 20
"""Bytes read and hashed at once."""
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
        if isinstance(self._source, SequenceSource):
            paths = self._source.files().paths
            files = [paths[number] for number in self._index.frame_packet[ordinals].tolist()]
            return np.array([stamp_of(path) for path in files], dtype=np.uint64)
        return np.full(len(ordinals), self.stamp, dtype=np.uint64)

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
            hashes = _hashes(reader, spans)
        return np.array([hashes[span] for span in spans], dtype=np.uint64)


def stamp_of(path: str) -> int:
    """Hash times, number and size of a file; ``NO_STAMP`` where it cannot be looked at."""
    try:
        facts = os.stat(path)
    except OSError:
        return NO_STAMP
    times = ns_in_64_bits(facts.st_mtime_ns), ns_in_64_bits(facts.st_ctime_ns)
    return xxhash.xxh3_64_intdigest(_STAMP.pack(*times, facts.st_ino & (2**64 - 1), facts.st_size)) or 1


Span = tuple[int, int]


def _spans(index: FrameIndex, ordinals: IntArray, size: int) -> list[Span]:
    """First and end byte of what each frame depends on, whatever else lies between."""
    table, starts, packets = index.packets, index.frame_start, index.frame_packet
    order = None if index.stream.contiguous else np.sort(table.offset)
    spans: list[Span] = []
    for ordinal in ordinals.tolist():
        part = slice(max(0, int(starts[ordinal])), int(packets[ordinal]) + 1)
        offsets = table.offset[part]
        first = int(offsets.min(initial=size))
        if first < 0 or part.stop <= part.start:
            spans.append((0, size))
            continue
        if order is None:
            end = int((offsets + table.size[part]).max())
        else:
            # A packet of such a container is spread over what lies up to the next one.
            place = int(np.searchsorted(order, offsets.max(), "right"))
            end = int(order[place]) if place < len(order) else size
        spans.append((first, min(end, size)))
    return spans


def _hashes(reader: ByteReader, spans: Sequence[Span]) -> dict[Span, int]:
    """Hash each span, reading what several begin with once."""
    found: dict[Span, int] = {}
    for first, group in groupby(sorted(set(spans)), key=lambda span: span[0]):
        at, digest = first, xxhash.xxh3_64()
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
