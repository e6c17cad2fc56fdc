"""Find one member of an archive, or one value of a Parquet file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from framefeed._names import PartName, split_part
from framefeed._shown import show_name
from framefeed._values import DEFAULT_LIMITS, ByteReader
from framefeed.archives import LOCAL_READS, REMOTE_READS, MemberKind, read_zip, walk_tar
from framefeed.errors import CorruptMedia, MissingMedia, UnreadableMedia
from framefeed.media._identity import find_container_version, make_changed_error
from framefeed.media._readers import ValueReader

READ_BY_ARROW = -1
"""In place of the first byte: of a value of a Parquet file that is compressed or encoded."""
_PACKED_VALUES = "framefeed.catalog"
# Names of the largest integers have 19 digits.
_MOST_DIGITS = 19


def find_member(part: PartName, reader: ByteReader, name: str, *, is_remote: bool) -> tuple[int, int]:
    """Find the first byte and the size of a part.

    Args:
        part: Its name.
        reader: The container.
        name: Of the container, for messages.
        is_remote: Whether each read takes a request.

    Raises:
        MissingMedia: There is no such member.
        UnreadableMedia: It cannot be read in place.
        MediaError: The container is damaged before it.
    """
    if part.scheme == "zip":
        return _find_in_zip(part, reader, name)
    reads = REMOTE_READS if is_remote else LOCAL_READS
    if part.scheme == "parquet":
        found: tuple[int, int] = import_packed_values().find_packed_value(reader, name, *split_value(part, name), reads)
        return found
    for table in walk_tar(reader, name, DEFAULT_LIMITS, reads):
        for member in table:
            if member.name == part.member and member.kind == MemberKind.FILE:
                return member.offset, member.size
        if table.damage is not None:
            raise table.damage.error
    raise _make_absent_error(part, name, "tar --list")


def _find_in_zip(part: PartName, reader: ByteReader, name: str) -> tuple[int, int]:
    table = read_zip(reader, name, DEFAULT_LIMITS, part.member)
    for row, member in reversed(list(enumerate(table))):
        if (reason := table.reasons.get(row)) is not None:
            raise UnreadableMedia(f"{name}: the member {part.member!r} {reason}", source=name, stage="open")
        if member.kind == MemberKind.FILE:
            return member.offset, member.size
    if table.damage is not None:
        raise table.damage.error
    raise _make_absent_error(part, name, "unzip -l")


def _make_absent_error(part: PartName, name: str, command: str) -> MissingMedia:
    return MissingMedia(
        f"{name}: has no member {part.member!r}: `{command}` shows all names", source=name, stage="open"
    )


def split_value(part: PartName, name: str) -> tuple[str, int]:
    """Split the name of a value to its column and its row.

    Raises:
        MissingMedia: It has no row.
    """
    column, _, row = part.member.rpartition("/")
    if not (row.isascii() and row.isdigit() and len(row) <= _MOST_DIGITS):
        raise MissingMedia(
            f"{name}: has no value {part.member!r}: expected parquet://COLUMN/ROW::{name}, with the number of the row "
            "in the file, from 0",
            source=name,
            stage="open",
        )
    return column, int(row)


def read_value(
    text: str, reader: ByteReader, path: str, name: str, known: str | None, *, is_remote: bool
) -> ValueReader:
    """Read a value that was there when its file was indexed.

    Args:
        text: Its name.
        reader: The Parquet file.
        path: Path or URL of the file.
        name: Of the file, for messages.
        known: Version of the file that was indexed; None if it is not known.
        is_remote: Whether it is an object by URL.

    Raises:
        StaleSource: The file has another version, and no such value or none that can be read.
        MediaError: The file is damaged, or the row group is larger than the limits allow.
    """
    part = split_part(text)
    assert part is not None
    stat, version = reader.stat(), getattr(reader, "version", None)
    column, row = split_value(part, name)
    try:
        value = import_packed_values().read_packed_value(reader, name, column, row, (path, stat, version))
    except (UnreadableMedia, CorruptMedia) as error:
        is_of_contents = error.stage == "open"  # and not of a disk or a server
        if not is_of_contents or (known and find_container_version(reader, is_remote=is_remote) == known):
            raise
        raise make_changed_error(show_name(text)) from error
    return ValueReader(value, stat.mtime_ns, version)


def import_packed_values() -> Any:
    """Import what reads Parquet, by its name: catalogs stand above media, and all other media need no Arrow."""
    return import_module(_PACKED_VALUES)
