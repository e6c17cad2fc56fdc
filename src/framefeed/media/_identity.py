"""Identify sources: which file it was, and whether it is still that one."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import xxhash

from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed._shown import advise_indexing
from framefeed._values import ByteReader, SourceStat, announce_reads
from framefeed.errors import StaleSource
from framefeed.media.remote import ObjectVersion

FINGERPRINT_BLOCK = 64 * 1024
"""Bytes hashed at the head, at the middle and at the tail."""


# A type of its own, and not a stat whose fingerprint may be missing: a stat costs no read, and must not stand where
# frames are found again by their file's bytes. Only a failed row of a catalog has one that is empty.
@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Size, modification time, and hash of head, middle and tail: another file under the same name differs in one."""

    bytes: int
    mtime_ns: int | None
    fingerprint: str

    @property
    def stat(self) -> SourceStat:
        """What the file system said of the file."""
        return SourceStat(self.bytes, self.mtime_ns)


class FileStamp(NamedTuple):
    """What the file system says of a file: another file, or a changed one, has another stamp."""

    path: str
    device: int
    inode: int
    nbytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: str, facts: os.stat_result) -> FileStamp:
        """Make the stamp of a file from its facts."""
        return cls(path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


class ObjectIdentity:
    """One object in a key, equal to itself alone. The key keeps it: another at its address would be taken for it."""

    __slots__ = ("_object",)

    def __init__(self, an_object: object) -> None:
        self._object = an_object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectIdentity) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def list_hashed(size: int) -> list[tuple[int, int]]:
    """List the ranges of a file of so many bytes that its fingerprint is made of."""
    starts = sorted({0, max(0, (size - FINGERPRINT_BLOCK) // 2), max(0, size - FINGERPRINT_BLOCK)})
    return [(start, min(size, start + FINGERPRINT_BLOCK)) for start in starts]


HEAD_FINGERPRINT_PREFIX = "h"
"""First character of fingerprints made of a head alone; no hexadecimal digit."""


def hash_blocks(reader: ByteReader) -> str:
    """Hash the size, head, middle and tail of what a reader reads."""
    size = reader.stat().bytes
    digest, block = xxhash.xxh3_128(str(size).encode()), memoryview(bytearray(min(FINGERPRINT_BLOCK, size)))
    ranges = list_hashed(size)
    announce_reads(reader, lambda: ranges)
    for start, _ in ranges:
        digest.update(block[: reader.read_into(block, start)])
    return digest.hexdigest()


hash_head = xxhash.xxh3_128_hexdigest
"""Hash a head; the size of the file is the seed."""


def make_file_version(stat: SourceStat) -> str:
    """Write the version of a file with parts: its size and modification time."""
    return f"{stat.bytes} {stat.mtime_ns}"


def find_container_version(reader: ByteReader, *, is_remote: bool) -> str | None:
    """Find the version of an open file or object with parts; None of an object whose server names none."""
    if not is_remote:
        return make_file_version(reader.stat())
    version: ObjectVersion | None = getattr(reader, "version", None)
    return None if version is None else version.text or None


PROXY = "proxy"
"""``MediaSource.version`` of a proxy, which is not scanned anew but made anew."""


def make_changed_error(name: str, sizes: str = "", *, is_proxy: bool = False) -> StaleSource:
    """Build the error for a source with other bytes than the index knows."""
    advice = "make it again with ff.make_proxies, which keeps the others" if is_proxy else advise_indexing(name)
    message = f"{name}: the file has changed since it was {'made' if is_proxy else 'indexed'}{sizes}: {advice}"
    return StaleSource(message, source=name, stage="open")


_MOST_ACCEPTED = 2**16
"""Those that are forgotten are hashed again."""


class AcceptedSources:
    """Sources that have a fingerprint, those that were used last, by key; and the versions of those by URL."""

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self.clear()

    def add(self, key: Hashable, fingerprint: str, version: ObjectVersion | None = None) -> None:
        """Add a source; None leaves the version that is known."""
        with self._lock.value:
            known = self._sources.get((key, fingerprint))
            self._sources.put((key, fingerprint), (version or (known and known[0]),))

    def has(self, key: Hashable, fingerprint: str) -> bool:
        """Whether a source has a fingerprint, as far as is known."""
        with self._lock.value:
            return self._sources.get((key, fingerprint)) is not None

    def find_version(self, key: Hashable, fingerprint: str) -> ObjectVersion | None:
        """Find the version of an object with a fingerprint; None if it is not known."""
        with self._lock.value:
            known = self._sources.get((key, fingerprint))
        return known and known[0]

    def clear(self) -> None:
        """Forget all."""
        self._sources = Lru[tuple[Hashable, str], tuple[ObjectVersion | None]](_MOST_ACCEPTED)


ACCEPTED = AcceptedSources()
