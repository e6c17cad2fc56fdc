"""Identify stored frames by a key, and check whether their source has changed.

A stored frame is identified by the key of its stream and by its packet number. The packet number is the same however
the file was indexed, while ordinals may differ (design/0001-a-frame-is-known-by-its-packet.md).

A file's stamp costs one call to the system and shows whether the file was touched. If it was, or was replaced by a
copy, its fingerprint is compared with the one in the key, so a copied data set keeps its cache. An edit that keeps
size and fingerprint is detected only by comparing the encoded bytes that the frame depends on: those of its group of
pictures up to the frame, and the beginning of a container that sets the decoder up. They are hashed for strict caches,
and for pictures, whose fingerprint may cover their head alone.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from time import sleep, time_ns
from typing import Literal

import numpy as np
import xxhash

from framefeed._arrays import IntArray, WordArray
from framefeed._shortage import SuppressFaults
from framefeed._values import ByteReader, clamp_ns, read_bytes
from framefeed.bitstreams import Codec, split_nal_units
from framefeed.index import FrameIndex, StreamFacts, has_picture_files
from framefeed.media import FileStamp, MediaSource, SequenceSource, SourceIdentity
from framefeed.request import OutputSpec

KEY_VERSION = 1
"""A change makes all frames stored before unusable."""

Form = Literal["output", "planes"]
FORMS: tuple[Form, ...] = ("output", "planes")
EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Recipe:
    """All facts besides the source that decide the pixels of a stored frame."""

    form: Form  # "output" for pixels after crop and resize, "planes" for the decoder's own pictures
    output: OutputSpec | None  # size, crop and dimension order; None for planes
    decoder: str  # recipe of the decoder
    pixels: str = EXACT  # "exact", or the recipe of a lossy codec


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Key of one stream's frames: a description, JSON text, and its hash of 16 bytes."""

    digest: bytes
    description: str


@lru_cache(maxsize=4096)
def make_key(identity: SourceIdentity, stream: StreamFacts, recipe: Recipe) -> StreamKey:
    """Make the key of one stream's frames in one form.

    It contains neither path nor modification time: a copy of the file has the same frames.
    """
    facts, how = asdict(stream), asdict(recipe)
    if recipe.output is not None:
        # The decoder's recipe names what a quality changes; and keys of videos stay what they were.
        del how["output"]["still_quality"]
        if recipe.output.filter == "bilinear" or recipe.output.size is None:
            del how["output"]["filter"]
    for name in ("shown_width", "shown_height"):
        if not facts[name]:  # no proxy: keys of other streams stay what they were
            del facts[name]
    facts["extradata"] = None if stream.extradata is None else _hash_configuration(stream.codec, stream.extradata)
    described = {
        "schema": KEY_VERSION,
        "source": {"bytes": identity.bytes, "fingerprint": identity.fingerprint},
        "stream": facts,
        "recipe": how,
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return StreamKey(xxhash.xxh3_128_digest(text.encode()), text)


def _hash_configuration(codec: str, extradata: bytes) -> str:
    if Codec.of(codec).units is not None and extradata.startswith((b"\0\0\1", b"\0\0\0\1")):
        # Of one stream, FFmpeg 8 begins each unit with a start code of 3 bytes, and 9 with one of 4.
        extradata = b"\0\0\1".join(bytes(unit).rstrip(b"\0") for unit in split_nal_units(extradata, 0))
    return xxhash.xxh3_128_hexdigest(extradata)


def find_key_facts(index: FrameIndex) -> StreamFacts:
    """Give the facts of a stream for its key: those of an index that read its packets, as one by URL has not.

    Without them it is assumed that packets carry parameter sets and that none may be left out, which decodes more and
    gives the same frames. So a cache that was filled from files serves the same objects by URL, and the reverse.
    """
    stream = index.stream
    is_assumed = stream.inband_parameters and not stream.skips_exactly and index.built_from == "packets"
    if is_assumed and stream.contiguous and Codec.of(stream.codec).units is not None:
        return replace(stream, inband_parameters=False, skips_exactly=True)
    return stream


NO_STAMP = 0
"""Stamp of a source that is not a file: only its bytes can be compared."""
_TICK_NS = 10_000_000
"""Two changes of a file may get the same time from the kernel's clock if they are this close: 100 ticks a second, the
slowest that Linux is built with."""
_COARSE_TICK_NS = 2_000_000_000
"""The same for a file system that keeps whole or even seconds."""
_CHUNK_BYTES = 1 << 20
"""Read and hashed at once."""
_REORDERED_PACKETS = 512
"""The next frame's packet is searched for among these first: no codec reorders so far."""
_STAMP = struct.Struct("<qqQq")
NO_CONTENT = 0
"""In place of the hash of a frame's encoded bytes: they were not hashed when it was stored."""
_MAX_CONFIRMED = 1 << 14
_CONFIRMED: set[tuple[str, int, str]] = set()
"""Path, stamp and fingerprint of files that have it. Without a lock: threads use single operations."""


class SourceCheck:
    """Stamps and hashes of one source as it is now, which are compared with those of stored frames."""

    def __init__(self, source: MediaSource, index: FrameIndex) -> None:
        self.source = source
        self.index = index

    def read_stamps(self, ordinals: IntArray, *, are_lasting: bool = False) -> WordArray:
        """Stamp the file of each frame, uint64 [N]; ``NO_STAMP`` if it is not a file.

        Lasting stamps are those of `read_lasting_stamp`, to be taken before the frames are decoded.
        """
        stamp = read_lasting_stamp if are_lasting else read_stamp
        if isinstance(self.source, SequenceSource):
            paths = self.source.files().paths
            files = [paths[number] for number in self.index.frame_packet[ordinals].tolist()]
            return np.array([stamp(path) for path in files], dtype=np.uint64)
        path = self.source.local_path
        own = NO_STAMP if path is None else stamp(path)
        return np.full(len(ordinals), own, dtype=np.uint64)

    @property
    def is_known_by_content(self) -> bool:
        """Whether frames have a hash of their bytes in any cache, because a fingerprint says too little."""
        return isinstance(self.source, SequenceSource) or has_picture_files(self.index)

    def has_fingerprint(self) -> bool:
        """Whether the source has the fingerprint that is part of its key; a file is read once a process and stamp."""
        assert self.index.identity is not None
        source, fingerprint = self.source, self.index.identity.fingerprint
        if source.is_remote:
            source.check_identity(self.index.identity)  # compares it, once a process
            return True
        if (path := source.local_path) is None:
            return source.fingerprint() == fingerprint
        stamp = read_stamp(path)
        confirmed = (source.name, stamp, fingerprint)
        if confirmed in _CONFIRMED:
            return True
        if stamp == NO_STAMP or source.fingerprint() != fingerprint:
            return False
        now, age = _stamp_and_age(path)
        if now == stamp and age >= _TICK_NS:
            if len(_CONFIRMED) >= _MAX_CONFIRMED:
                _CONFIRMED.clear()
            _CONFIRMED.add(confirmed)
        return now == stamp

    def hash_contents(self, ordinals: IntArray) -> WordArray:
        """Hash the encoded bytes that each frame depends on, uint64 [N]; none is ``NO_CONTENT``."""
        if isinstance(self.source, SequenceSource):
            numbers = self.index.frame_packet[ordinals].tolist()
            files = (self.source.read_file(number, self.index.identity) for number in numbers)
            return np.array([xxhash.xxh3_64_intdigest(data) or 1 for data in files], dtype=np.uint64)
        size = self.source.stat().bytes
        is_whole_file = has_picture_files(self.index)
        spans = [(0, size)] * len(ordinals) if is_whole_file else _find_spans(self.index, ordinals, size)
        # A container that is read anew sets its codec up from its header and from the first packets, which libav reads
        # for what the header does not say.
        header_bytes = 0 if self.index.stream.contiguous or is_whole_file else _CHUNK_BYTES
        with self.source.opened() as reader:
            hashes = _hash_spans(reader, spans, header_bytes)
        return np.array([hashes[span] for span in spans], dtype=np.uint64)


def read_stamp(path: str) -> int:
    """Hash times, inode number and size of a file; ``NO_STAMP`` if they cannot be read. Only a shortage is raised."""
    return _stamp_and_age(path)[0]


def read_lasting_stamp(path: str) -> int:
    """Stamp a file so that any later change gives it another stamp; ``NO_STAMP`` if that is not certain.

    It is not certain if the file was changed so recently that the clock of its file system may still show the same
    time. This function waits for one tick of the kernel's clock. It does not wait for a file system that keeps whole
    seconds, or whose clock is ahead of this machine's: the frames are then stored at another use.
    """
    stamp, age = _stamp_and_age(path)
    if 0 <= age < _TICK_NS:
        sleep((_TICK_NS - age + 1) / 1e9)
        stamp, age = _stamp_and_age(path)
    return stamp if age >= _TICK_NS else NO_STAMP


def _stamp_and_age(path: str) -> tuple[int, int]:
    """Stamp a file; return (stamp, nanoseconds since its last change, less the resolution of its time)."""
    with SuppressFaults(OSError):
        facts = os.stat(path)
        coarse = 0 if facts.st_ctime_ns % 1_000_000_000 else _COARSE_TICK_NS
        age = time_ns() - facts.st_ctime_ns - coarse
        return _hash_facts(facts), age
    return NO_STAMP, _TICK_NS


def _hash_facts(facts: os.stat_result) -> int:
    return _hash_numbers(facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_size)


def hash_stamp(stamp: FileStamp) -> int:
    """Hash a file's stamp; the result is that of `read_stamp`."""
    return _hash_numbers(stamp.mtime_ns, stamp.ctime_ns, stamp.inode, stamp.nbytes)


def _hash_numbers(mtime_ns: int, ctime_ns: int, inode: int, nbytes: int) -> int:
    packed = _STAMP.pack(clamp_ns(mtime_ns), clamp_ns(ctime_ns), inode & (2**64 - 1), nbytes)
    return xxhash.xxh3_64_intdigest(packed) or 1


Span = tuple[int, int]


def _find_spans(index: FrameIndex, ordinals: IntArray, size: int) -> list[Span]:
    """Find the first and end byte of the packets that each frame depends on; other data may lie between."""
    table = index.packets
    parts = list(zip(np.maximum(index.frame_start[ordinals], 0).tolist(), _find_stops(index, ordinals), strict=True))
    if index.stream.contiguous:
        spans = [
            (int(table.offset[first:stop].min()), int((table.offset + table.size)[first:stop].max()))
            for first, stop in parts
        ]
    else:
        sorted_offsets = np.sort(table.offset[table.offset >= 0])
        spans = [
            _find_spread_span(table.offset[: max(stop, first + 1)], first, sorted_offsets, size)
            for first, stop in parts
        ]
    return [(max(0, first), min(end, size)) for first, end in spans]


def _find_stops(index: FrameIndex, ordinals: IntArray) -> list[int]:
    """Find the number after the last packet of each frame.

    Packets without a frame of their own, such as second fields and hidden frames, belong to the frame before.
    """
    packets = index.frame_packet
    own = packets[ordinals]
    near = np.sort(packets[(packets > own.min()) & (packets <= own.max() + _REORDERED_PACKETS)])
    following = np.searchsorted(near, own, "right")
    stops = []
    for packet, i in zip(own.tolist(), following.tolist(), strict=True):
        later = near[i : i + 1] if i < len(near) else packets[packets > packet]
        stops.append(int(later.min(initial=len(index.packets))))
    return stops


def _find_spread_span(offsets: IntArray, first: int, sorted_offsets: IntArray, size: int) -> Span:
    """Find the span in a container that splits packets, or has the offset only of the first of several packets.

    Args:
        offsets: Of the packets up to the last one that is needed; -1 if unknown.
        first: Number of the first packet.
        sorted_offsets: All known offsets, ascending.
        size: Of the file.
    """
    known = offsets[first:][offsets[first:] >= 0]
    before = offsets[:first][offsets[:first] >= 0]
    if not len(known) or offsets[first] < 0:
        known = np.append(known, before.max(initial=0))
    # The rest of a packet may lie in the part of the file in which the next packet begins.
    i = int(np.searchsorted(sorted_offsets, known.max(), "right")) + 1
    return int(known.min()), int(sorted_offsets[i]) if i < len(sorted_offsets) else size


def _hash_spans(reader: ByteReader, spans: Sequence[Span], header_bytes: int) -> dict[Span, int]:
    """Hash each span together with the file's header; the common beginning of several spans is read once."""
    hashes: dict[Span, int] = {}
    header = read_bytes(reader, 0, header_bytes)
    for start, group in groupby(sorted(set(spans)), key=lambda span: span[0]):
        digest = xxhash.xxh3_64(header)
        for first, stop in group:
            buffer = memoryview(bytearray(max(0, min(_CHUNK_BYTES, stop - start))))
            for offset in range(start, stop, _CHUNK_BYTES):
                chunk = buffer[: min(_CHUNK_BYTES, stop - offset)]
                digest.update(chunk[: reader.read_into(chunk, offset)])
            start = stop
            hashes[first, stop] = digest.intdigest() or 1
    return hashes
