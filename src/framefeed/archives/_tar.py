"""Walk a tar archive from header to header, without reading its data: ustar, GNU tar, pax and V7.

Headers are taken one by one, because each says where the next one is, and checked a few thousand at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from framefeed._values import ByteReader, Limits, make_limit_error
from framefeed.archives._headers import (
    BLOCK,
    KIND,
    LINK,
    NAME,
    SIZE,
    WITHOUT_DATA,
    OddHeader,
    cut,
    decode_names,
    has_holes,
    has_right_sum,
    name_from,
    read_headers,
    read_number,
    read_pax,
    size_from,
    target_from,
)
from framefeed.archives._tables import ArchiveDamage, MemberKind, MemberTable
from framefeed.archives._windows import LOCAL_READS, ReadSizes, Window
from framefeed.errors import CorruptMedia, MediaError, UnreadableMedia

# Bytes that a byte of an extended header counts against `Limits.max_header_bytes`: it may have a megabyte by default.
_EXTENSION_COST = 2**8
# From the size on: eleven octal digits, time and checksum, and the kind of an ordinary file. A file without links,
# long names and pax records has no other headers.
_PLAIN = re.compile(rb"([0-7]{11})[\0 ].{20}0", re.DOTALL)
_EXTENSIONS = frozenset(b"xXgLK")
_NO_MEMBER = "it ends behind an extended header, without the member"
_NO_END = (
    "it ends there, without the two blocks of zeros that end an archive, so members may be missing (if none are, add "
    "them: truncate -s %512 FILE, then head -c 1024 /dev/zero >> FILE)"
)
_END_BYTES = 2 * BLOCK
# Zeros behind the end fill a record, whose size divides that of the archive: 20 blocks as nearly all programs write it,
# or a power of two, for larger ones (`tar -b 128`). `tar --concatenate` may leave the zeros of two records.
_RECORD, _LARGEST_RECORD = 20 * BLOCK, 2**20
_MOST_ZEROS = 2 * _RECORD
_LARGEST = 2**63
# In headers of GNU tar's sparse files, and of the headers that continue them.
_SPARSE_GOES_ON, _SPARSE_GOES_ON_AGAIN = 482, 504
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gzip -dc FILE > NEW.tar"),
    b"BZh": ("bzip2", "bzip2 -dc FILE > NEW.tar"),
    b"\xfd7zXZ\0": ("xz", "xz -dc FILE > NEW.tar"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc FILE > NEW.tar"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc FILE > NEW.tar"),
}
_REFUSED = "is compressed with {method}, so its members cannot be read in place: unpack it first with {command}"
_ENDINGS_OF_METHODS = {
    b"\x1f\x8b": (".tar.gz", ".tgz", ".taz"),
    b"BZh": (".tar.bz2", ".tbz2", ".tbz"),
    b"\xfd7zXZ\0": (".tar.xz", ".txz"),
    b"\x28\xb5\x2f\xfd": (".tar.zst", ".tzst"),
    b"\x04\x22\x4d\x18": (".tar.lz4", ".tlz4"),
}
COMPRESSED_ENDINGS = {ending: magic for magic, endings in _ENDINGS_OF_METHODS.items() for ending in endings}
"""Lower-case endings of compressed archives, each with the first bytes of its method."""


def walk_tar(reader: ByteReader, name: str, limits: Limits, reads: ReadSizes = LOCAL_READS) -> Iterator[MemberTable]:
    """Walk from header to header, and yield the members by a few thousand.

    The archive ends at its first block of zeros, as for Python's ``tarfile``, or with the file behind a member. Of the
    limits, ``max_members`` bounds the headers of all kinds, ``max_header_bytes`` what one member's may take.

    Raises:
        UnreadableMedia: The file is no tar archive, or a compressed one. Anything later ends the walk as ``damage``.
    """
    walk = _Walk(Window(reader, reads), name, limits)
    while not walk.is_over:
        table = walk.take_members()
        if len(table) or table.damage is not None:
            yield table


def explain_compressed(name: str, ending: str) -> str | None:
    """Explain why an archive is not read, by the ending of its name; None if the ending is that of no compression.

    >>> print(explain_compressed("a.tgz", ".tgz").rpartition(": ")[2])
    unpack it first with gzip -dc FILE > NEW.tar
    """
    if ending not in COMPRESSED_ENDINGS:
        return None
    method, command = _COMPRESSED[COMPRESSED_ENDINGS[ending]]
    return f"{name}: {_REFUSED.format(method=method, command=command)}"


def make_no_tar_error(head: bytes, name: str, reason: str) -> UnreadableMedia:
    """Build the error for a file that is no tar archive, or a compressed one, by its first bytes."""
    what = f"is no tar archive: {reason}"
    if not head:
        what = "is empty (0 bytes), not a tar archive"
    for magic, (method, command) in _COMPRESSED.items():
        if head.startswith(magic):
            what = _REFUSED.format(method=method, command=command)
    return UnreadableMedia(f"{name}: {what}", source=name, stage="open")


@dataclass(slots=True)
class _Taken:
    """Headers that are not checked yet; what differs from what a header says itself is kept by row."""

    blocks: list[bytes] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    data: dict[int, int] = field(default_factory=dict)
    names: dict[int, bytes] = field(default_factory=dict)
    kinds: dict[int, MemberKind] = field(default_factory=dict)
    targets: dict[int, bytes] = field(default_factory=dict)
    extensions: list[int] = field(default_factory=list)

    def add(self, block: bytes, start: int, size: int) -> int:
        """Add a header; return its row."""
        self.blocks.append(block)
        self.start.append(start)
        self.size.append(size)
        return len(self.blocks) - 1


@dataclass(slots=True)
class _Ending:
    """Why the walk ended at a row: the member of the row is cut, or what the error says."""

    row: int
    offset: int
    is_cut: bool = False
    reason: str = ""
    error: MediaError | None = None


class _Walk:
    """A walk over one archive, until ``is_over``; `take_members` checks what `_take_headers` went through."""

    def __init__(self, window: Window, name: str, limits: Limits) -> None:
        self._window = window
        self._name = name
        self._limits = limits
        self._at = 0
        # First byte of the archive, of several that are joined.
        self._start = 0
        self._count = 0
        # Pax records and GNU tar's long names for the next member, and pax records for all that follow.
        self._next: dict[bytes, bytes] = {}
        self._all: dict[bytes, bytes] = {}
        # Offset of the header that must follow an extended one.
        self._awaited = -1
        # The first zeros before other members that are not the end of one of several archives.
        self._doubt: _Ending | None = None
        self._ending: _Ending | None = None
        self.is_over = False

    def take_members(self) -> MemberTable:
        """Take the next members, and check them."""
        taken = _Taken()
        self._take_headers(taken)
        self._count += len(taken.blocks)
        headers = read_headers(b"".join(taken.blocks))
        sound = len(taken.blocks) if headers.is_sound.all() else int(headers.is_sound.argmin())
        if sound < len(taken.blocks) and taken.start[sound] == 0:
            raise make_no_tar_error(taken.blocks[0], self._name, "the checksum of its first header is wrong")
        if sound < len(taken.blocks) and (self._ending is None or sound <= self._ending.row):
            self._ending = _Ending(sound, taken.start[sound], reason="a header whose checksum is wrong")
        kept = len(taken.blocks) if self._ending is None else self._ending.row
        return self._make_table(taken, headers.names, headers.kind, kept)

    def _make_table(self, taken: _Taken, names: list[bytes], kind: np.ndarray, kept: int) -> MemberTable:
        start, size = np.array(taken.start, np.int64), np.array(taken.size, np.int64)
        offset = start + BLOCK
        for row, at in taken.data.items():
            offset[row] = at
        for row, own in taken.kinds.items():
            kind[row] = own
        for row, long in taken.names.items():
            names[row] = long
        rows = np.delete(np.arange(kept), [row for row in taken.extensions if row < kept])
        new_rows = {row: new for new, row in enumerate(rows.tolist())} if taken.targets else {}
        targets = {
            new_rows[row]: target.decode("utf-8", "surrogateescape")
            for row, target in taken.targets.items()
            if row in new_rows
        }
        shown = decode_names(names)
        damage = self._describe(shown)
        listed = shown if len(rows) == len(shown) else [shown[row] for row in rows.tolist()]
        return MemberTable(listed, offset[rows], size[rows], kind[rows], targets, damage=damage)

    def _describe(self, names: list[str]) -> ArchiveDamage | None:
        ending = self._ending
        if ending is None:
            return None
        self.is_over = True
        member = names[ending.row] if ending.is_cut else None
        what = f"the data of the member {member!r} end beyond the archive's {self._window.end} bytes"
        # Of joined archives with a doubt, the offset is in their middle.
        behind = f", behind the member {names[ending.row - 1]!r}, whose data may be cut" if ending.row else ""
        reason = ending.reason if self._doubt else ending.reason + behind
        error = ending.error or CorruptMedia(
            f"{self._name}: is damaged at byte {ending.offset}: {what if ending.is_cut else reason}. The "
            "members that are listed can be read; for others copy the archive again, or write it anew",
            source=self._name,
            stage="open",
        )
        return ArchiveDamage(ending.offset, member, error)

    def _take_headers(self, taken: _Taken) -> None:
        """Go from header to header; sizes are believed, checksums are not looked at."""
        window, plain = self._window, _PLAIN.match
        blocks, starts, sizes = taken.blocks, taken.start, taken.size
        at, end = self._at, window.end
        data, base, last = window.data, window.base, len(window.data) - BLOCK
        while len(blocks) < window.reads.headers:
            start = at - base
            if not 0 <= start <= last:
                if not self._move(at, len(blocks)):
                    break
                data, base, last = window.data, window.base, len(window.data) - BLOCK
                continue
            match = plain(data, start + SIZE.start)
            if match is None or self._next or self._all:
                following = self._take_odd(taken, data[start : start + BLOCK], at)
                if following is None:
                    break
                at = following
                continue
            size = int(match[1], 8)
            blocks.append(data[start : start + BLOCK])
            starts.append(at)
            sizes.append(size)
            at += BLOCK + (size + BLOCK - 1 & -BLOCK)
            if at > end and starts[-1] + BLOCK + size > end:
                self._ending = _Ending(len(blocks) - 1, starts[-1], is_cut=True)
                break
        self._at = at
        row = max(self._limits.max_members - self._count, 0)
        if row < len(blocks) and (self._ending is None or row < self._ending.row):
            claim = f"over {self._limits.max_members} members"
            error = make_limit_error(self._limits, "max_members", claim, self._name, "open")
            self._ending = _Ending(row, starts[row], error=error)

    def _move(self, at: int, count: int) -> bool:
        """Read the window at a header; False at the end."""
        window = self._window
        if window.end < BLOCK:
            head = window.read(0, window.end)
            raise make_no_tar_error(head, self._name, f"it has {window.end} bytes, less than a header")
        if window.end - at >= BLOCK:
            window.move(at, self._count + count)
            if len(window.data) >= BLOCK:
                return True
            self._end(count, at, "the file got shorter while it was read")
        elif at < window.end and any(window.read(at, BLOCK)):
            self._end(count, at, "it ends within a header")
        else:
            self._end(count, min(at, window.end), _NO_MEMBER if self._awaited == at else _NO_END)
        return False

    def _end(self, row: int, at: int, reason: str) -> None:
        self._ending = _Ending(row, at, reason=reason)

    def _take_odd(self, taken: _Taken, block: bytes, at: int) -> int | None:
        """Take any header, with the extended headers before it; return the offset of the next one, None at the end."""
        row = len(taken.blocks)
        if not block[0] and block.count(0) == BLOCK:
            return self._take_zeros(row, at)
        try:
            size = read_number(block[SIZE])
            if block[KIND] in _EXTENSIONS:
                return self._take_extension(taken, block, at, size)
            return self._take_member(taken, block, at, size)
        except OddHeader as odd:
            # The row is added for its checksum: if that is wrong too, it is what the error says.
            taken.blocks[row:], taken.start[row:], taken.size[row:] = [block], [at], [0]
            self._end(row, at, f"a header is not as it should be: {odd}")
            return None

    def _take_zeros(self, row: int, at: int) -> int | None:
        """Check zeros in the place of a header; return where members go on behind them, None if they do not."""
        end, zeros = self._window.end, self._count_zeros(at)
        following = at + zeros - zeros % BLOCK
        is_last = at + zeros == end
        most = BLOCK + max(_MOST_ZEROS, min(end & -end, _LARGEST_RECORD))
        reason = ""
        if self._awaited == at:
            reason = _NO_MEMBER
        elif zeros < _END_BYTES:
            reason = "one block of zeros, where two end an archive"
        elif zeros > most:
            reason = "more zeros than end an archive: that part was never written, or is not downloaded yet"
        elif is_last and end % BLOCK:
            reason = f"its last block is cut, for its size is no multiple of {BLOCK}"
        elif not is_last and not self._is_joint(at, following):
            reason = "zeros in its middle, where members may be missing"
        if not is_last and self._awaited != at and has_right_sum(self._window.read(following, BLOCK)):
            if reason and not self._doubt:
                self._doubt = _Ending(0, at, reason=reason)
            self._start, self._next, self._all = following, {}, {}
            return following
        if not is_last and not reason:
            reason = "behind its end are other bytes, which are no archive"
        if reason:
            self._end(row, at, f"{reason} ({end - at} bytes from there on are not read)")
        elif self._doubt:
            self._end(row, self._doubt.offset, self._doubt.reason)
        self.is_over = True
        return None

    def _is_joint(self, at: int, following: int) -> bool:
        """Whether zeros before a header are the end of an archive: two blocks, or those that fill its last record.

        A part that was lost could be zeros of any other length, or have its end between two records.
        """
        is_filled = following - at <= BLOCK + _RECORD and (following - self._start) % _RECORD == 0
        return is_filled or following - at == _END_BYTES

    def _count_zeros(self, at: int) -> int:
        """Count the zeros at an offset, as far as the largest record goes."""
        zeros = 0
        for most in (_MOST_ZEROS, _LARGEST_RECORD):
            data = self._window.read(at, min(BLOCK + most + 1, self._window.end - at))
            zeros = len(data) - len(data.lstrip(b"\0"))
            if zeros <= BLOCK + most:
                break
        return zeros

    def _take_member(self, taken: _Taken, block: bytes, at: int, size: int) -> int | None:
        records = {**self._all, **self._next} if self._all else self._next
        kind = block[KIND]
        # V7 has no kind of its own for folders.
        is_old_folder = not kind and cut(block[NAME]).endswith(b"/")
        own = size_from(records)
        size = 0 if kind in WITHOUT_DATA or is_old_folder else size if own is None else own
        if size < 0:
            raise OddHeader(f"a size of {size} bytes")
        row = taken.add(block, at, min(size, _LARGEST - 1))
        data = at + BLOCK
        if kind == ord("S"):
            data = self._skip_sparse(block, at)
            taken.data[row] = data
        if is_old_folder:
            taken.kinds[row] = MemberKind.FOLDER
        elif has_holes(records):
            taken.kinds[row] = MemberKind.SPARSE
        if (name := name_from(records)) is not None:
            taken.names[row] = name
        if kind in b"12":
            taken.targets[row] = target_from(records) or cut(block[LINK])
        self._next = {}
        if data + size > self._window.end:
            self._ending = _Ending(row, at, is_cut=True)
            return None
        return data + (size + BLOCK - 1 & -BLOCK)

    def _skip_sparse(self, block: bytes, at: int) -> int:
        """Find the data of GNU tar's sparse file behind the headers that list its holes."""
        data, goes_on = at + BLOCK, block[_SPARSE_GOES_ON]
        most = data + BLOCK * self._limits.max_members
        while goes_on:
            more = self._window.read(data, BLOCK)
            if len(more) < BLOCK or data >= most:
                raise OddHeader("the list of holes of a sparse file does not end")
            data, goes_on = data + BLOCK, more[_SPARSE_GOES_ON_AGAIN]
        return data

    def _take_extension(self, taken: _Taken, block: bytes, at: int, size: int) -> int | None:
        """Take the records or the long name that an extended header has for the next member, or for all."""
        row = taken.add(block, at, 0)
        taken.extensions.append(row)
        if size < 0 or at + BLOCK + size > self._window.end:
            raise OddHeader(f"an extended header of {size} bytes, {self._window.end - at} before the end")
        if size * _EXTENSION_COST > self._limits.max_header_bytes and has_right_sum(block):
            claim = f"an extended header of {size} bytes"
            error = make_limit_error(self._limits, "max_header_bytes", claim, self._name, "open")
            self._ending = _Ending(row, at, error=error)
            return None
        payload = self._window.read(at + BLOCK, size)
        if len(payload) < size:
            raise OddHeader("the file got shorter while it was read")
        letter = chr(block[KIND])
        if letter in "LK":
            records = {b"path" if letter == "L" else b"linkpath": cut(payload)}
        else:
            records = read_pax(payload)
        if letter == "g":
            self._all.update(records)
        else:  # What an earlier header says of the member holds, as for tarfile.
            self._next = {**records, **self._next}
        following = at + BLOCK + (size + BLOCK - 1 & -BLOCK)
        if letter != "g" or self._awaited == at:
            self._awaited = following
        return following
