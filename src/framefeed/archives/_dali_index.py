"""Read and write the index files of DALI's WebDataset reader (``wds2idx``), versions 1.1 and 1.2.

The first line is the version and the count of samples; then a line is a sample, of each field: extension, offset and
size of the data and, in 1.2, the member's name, with blanks between.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framefeed._values import ByteReader, Limits, announce_reads
from framefeed.archives._headers import BLOCK, SIZE, OddHeader, decode_names, read_headers, read_number
from framefeed.archives._tables import MemberKind, MemberTable
from framefeed.archives._windows import LOCAL_READS, ReadSizes, Window
from framefeed.errors import UsageError

_WORDS = {b"v1.1": 3, b"v1.2": 4}
_MOST_DIGITS = 19
_HEADERS_AT_ONCE = 4096


class OddIndex(Exception):
    """An index does not say what the archive's headers say, or cannot be read: the archive is walked then."""


def read_dali_index(
    index: bytes, reader: ByteReader, limits: Limits, reads: ReadSizes = LOCAL_READS
) -> tuple[MemberTable, list[int]]:
    """Read an index, and check it against the header before each member.

    It lists the members with a field alone, so others, and what a walk calls them, are not known.

    Args:
        index: The file's bytes.
        reader: The archive.
        limits: ``max_members`` bounds the members.
        reads: Bytes of one read of the archive.

    Returns:
        The members, and the row of the first member of each sample.

    Raises:
        OddIndex: Some entry is not as its header says, or the text is not as DALI writes it. Nothing of it is used.
    """
    words, firsts = _split_lines(index, limits)
    offset, size = _read_column(words, 1), _read_column(words, 2)
    window = Window(reader, reads)
    if len(offset) and (offset[0] < BLOCK or (offset[1:] - BLOCK < offset[:-1] + size[:-1]).any()):
        raise OddIndex("members lie over each other")
    if (offset % BLOCK).any() or (size > window.end - offset).any():
        raise OddIndex("a member does not begin at a block, or ends beyond the archive")
    # By URL many headers are asked for at once.
    announce_reads(reader, lambda: zip((offset - BLOCK).tolist(), offset.tolist(), strict=True))
    names: list[bytes] = []
    for row in range(0, len(offset), _HEADERS_AT_ONCE):
        rows = slice(row, row + _HEADERS_AT_ONCE)
        names += _check_headers(window, offset[rows].tolist(), size[rows].tolist(), row)
    if len(words[0]) > 3 and [entry[3] for entry in words] != names:
        raise OddIndex("a member has another name")
    for entry, name in zip(words, names, strict=True):
        if split_extension(name) != entry[0]:
            raise OddIndex(f"a member has another extension than {entry[0]!r}")
    return MemberTable(decode_names(names), offset, size, np.full(len(names), MemberKind.FILE, np.uint8)), firsts


def _split_lines(index: bytes, limits: Limits) -> tuple[list[list[bytes]], list[int]]:
    """Split the text to the words of each member; give the first member of each line too."""
    lines = index.split(b"\n")
    head = lines[0].split()
    if len(head) != 2 or head[0] not in _WORDS or lines[-1]:
        raise OddIndex("its first line is no version and count, or its last one is not ended")
    count = _WORDS[head[0]]
    members: list[list[bytes]] = []
    firsts: list[int] = []
    for line in lines[1:-1]:
        words = line.split(b" ")
        if len(words) % count:
            raise OddIndex(f"a line of {len(words)} words")
        firsts.append(len(members))
        members += (words[at : at + count] for at in range(0, len(words), count))
        if len(members) > limits.max_members:
            raise OddIndex(f"it has over {limits.max_members} members")
    if head[1] != b"%d" % len(firsts) or not members:
        raise OddIndex(f"it has {len(firsts)} lines, not {head[1]!r}")
    return members, firsts


def _read_column(members: list[list[bytes]], column: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    words = [entry[column] for entry in members]
    if not all(word.isdigit() and len(word) < _MOST_DIGITS for word in words):
        raise OddIndex("an offset or a size is no number")
    return np.array(words, np.bytes_).astype(np.int64)


def _check_headers(window: Window, offsets: list[int], sizes: list[int], taken: int) -> list[bytes]:
    """Compare headers with offsets and sizes; return the names."""
    blocks: list[bytes] = []
    for offset, size in zip(offsets, sizes, strict=True):
        start = offset - BLOCK
        if not 0 <= start - window.base <= len(window.data) - BLOCK:
            window.move(start, taken + len(blocks))
        block = window.read(start, BLOCK)
        try:
            if len(block) < BLOCK or read_number(block[SIZE]) != size:
                raise OddIndex(f"the member at byte {offset} has not {size} bytes")
        except OddHeader as odd:
            raise OddIndex(f"the member at byte {offset}: {odd}") from odd
        blocks.append(block)
    headers = read_headers(b"".join(blocks))
    if not headers.is_sound.all() or (headers.kind != MemberKind.FILE).any():
        raise OddIndex("there is no header of a file before a member")
    return headers.names


def split_extension(name: bytes) -> bytes | None:
    """Return what DALI calls the extension; None if it passes over the member."""
    start = name.rfind(b"/") + 1
    dot = name.find(b".", start)
    return None if dot <= start else name[dot + 1 :]


def write_dali_index(table: MemberTable) -> bytes:
    """Write the index that DALI's ``wds2idx`` writes for an archive.

    Members without a dot, which ``wds2idx`` lists under wrong names, are left out.

    Raises:
        UsageError: No member has an extension, or a name has a blank, which the format cannot say.
    """
    lines: list[list[bytes]] = []
    last: bytes | None = None
    for name, extension, offset, size in _list_fields(table):
        if len(name.split()) != 1 or not extension:
            raise UsageError(
                f"idx: the member {name.decode('utf-8', 'replace')!r} cannot stand in an index of DALI's, which has "
                "blanks between its words: write no index, or rename the member"
            )
        key = name[: len(name) - len(extension) - 1]
        if key != last:
            lines.append([])
        last = key
        lines[-1].append(b"%s %d %d %s" % (extension, offset, size, name))
    if not lines:
        raise UsageError("idx: no member of the archive has an extension, so there is nothing to index")
    return b"v1.2 %d\n" % len(lines) + b"".join(b" ".join(line) + b"\n" for line in lines)


def _list_fields(table: MemberTable) -> Iterator[tuple[bytes, bytes, int, int]]:
    for name, offset, size, kind in table:
        encoded = name.encode("utf-8", "surrogateescape")
        extension = split_extension(encoded)
        if kind == MemberKind.FILE and extension is not None:
            yield encoded, extension, offset, size
