"""Find members of an archive, or values of a Parquet file."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from framefeed._names import PartName, split_part
from framefeed._shown import show_name
from framefeed._values import DEFAULT_LIMITS, ByteReader, Limits
from framefeed.errors import CorruptMedia, LimitExceeded, MediaError, MissingMedia, UnreadableMedia
from framefeed.media._identity import find_container_version, make_changed_error
from framefeed.media._readers import ValueReader

if TYPE_CHECKING:
    from framefeed.archives import ArchiveDamage, MemberTable, ReadSizes

Location = tuple[int, int]
"""First byte in the container, and number of bytes."""
READ_BY_ARROW = -1
"""In place of the first byte: of a value of a Parquet file that is compressed or encoded."""
_ARCHIVES, _PACKED_VALUES = "framefeed.archives", "framefeed.catalog"
# Names of the largest integers have 19 digits.
_MOST_DIGITS = 19


def find_member(
    part: PartName, reader: ByteReader, name: str, *, is_remote: bool, limits: Limits = DEFAULT_LIMITS
) -> Location:
    """Find the first byte and the size of a part, or raise why it cannot be read in place."""
    place = find_members(part.scheme, [part.member], reader, name, is_remote=is_remote, limits=limits)[part.member]
    if isinstance(place, MediaError):
        raise place
    return place


def find_members(
    scheme: str,
    members: Collection[str],
    reader: ByteReader,
    name: str,
    *,
    is_remote: bool,
    limits: Limits = DEFAULT_LIMITS,
    stamp: Hashable = None,
) -> dict[str, Location | MediaError]:
    """Find members of one container, which is read once for all of them, or why they cannot be read.

    Args:
        scheme: "tar", "zip" or "parquet".
        members: Their names.
        reader: The container.
        name: Of the container, for messages.
        is_remote: Whether each read takes a request.
        limits: What the container may claim.
        stamp: That of `MediaSource.make_stamp`; None reads what is known of it anew.
    """
    archives = import_archives()
    reads = archives.REMOTE_READS if is_remote else archives.LOCAL_READS
    places = dict[str, Location | MediaError]()
    if scheme == "parquet":
        file = import_packed_values().PackedFile(reader, name, limits, stamp)
        for member in members:
            try:
                places[member] = file.find_value(*split_value(member, name), reads)
            except MediaError as error:
                places[member] = error
        return places
    asked = frozenset(members)
    if scheme == "zip":
        command, damage = "unzip -l", _find_in_zip(places, asked, reader, name, limits)
    else:
        command, damage = "tar --list", _find_in_tar(places, asked, reader, name, limits, reads)
    for absent in asked - places.keys():
        message = f"{name}: has no member {absent!r}: `{command}` shows all names"
        places[absent] = MissingMedia(message, source=name, stage="open") if damage is None else damage.error
    return places


def _find_in_tar(
    places: dict[str, Location | MediaError],
    asked: frozenset[str],
    reader: ByteReader,
    name: str,
    limits: Limits,
    reads: ReadSizes,
) -> ArchiveDamage | None:
    """Add where members lie; return what the archive lacks so far."""
    archives = import_archives()
    damage: ArchiveDamage | None = None
    for table in archives.walk_tar(reader, name, limits, reads):
        damage = table.damage
        for member in table:
            if member.name in asked and member.kind == archives.MemberKind.FILE:
                places.setdefault(member.name, (member.offset, member.size))
        if len(places) == len(asked):
            break
    return damage


def _find_in_zip(
    places: dict[str, Location | MediaError], asked: frozenset[str], reader: ByteReader, name: str, limits: Limits
) -> ArchiveDamage | None:
    """Add where members lie, or why they cannot be read; return what the archive lacks."""
    archives = import_archives()
    table: MemberTable = archives.read_zip(reader, name, limits, asked)
    # Of several members of one name the last one holds.
    for row, member in reversed(list(enumerate(table))):
        if member.name in places:
            continue
        if (reason := table.reasons.get(row)) is not None:
            message = f"{name}: the member {member.name!r} {reason}"
            places[member.name] = UnreadableMedia(message, source=name, stage="open")
        elif member.kind == archives.MemberKind.FILE:
            places[member.name] = member.offset, member.size
    return table.damage


def split_value(member: str, name: str) -> tuple[str, int]:
    """Split the name of a value to its column and its row."""
    column, _, row = member.rpartition("/")
    if not (row.isascii() and row.isdigit() and len(row) <= _MOST_DIGITS):
        raise MissingMedia(
            f"{name}: has no value {member!r}: expected parquet://COLUMN/ROW::{name}, with the number of the row "
            "in the file, from 0",
            source=name,
            stage="open",
        )
    return column, int(row)


def find_kept_value(text: str, stamp: Hashable, name: str, limits: Limits) -> Any:
    """Find a value in the row group that was read last, within the limits, or None; the file is not opened."""
    part = split_part(text)
    assert part is not None
    return import_packed_values().find_kept_value(stamp, *split_value(part.member, name), limits)


def read_value(
    text: str, reader: ByteReader, stamp: Hashable, name: str, known: str | None, limits: Limits, *, is_remote: bool
) -> ValueReader:
    """Read a value that was there when its file was indexed, in the version ``known``.

    Raises:
        StaleSource: The file has another version, and no such value, or none that can be read within the limits.
        MediaError: The file is damaged, or the row group is larger than the limits allow.
    """
    part = split_part(text)
    assert part is not None
    column, row = split_value(part.member, name)
    try:
        value = import_packed_values().PackedFile(reader, name, limits, stamp).read_value(column, row)
    except (UnreadableMedia, CorruptMedia, LimitExceeded) as error:
        is_of_contents = error.stage == "open"  # and not of a disk or a server
        is_known_to_differ = known and find_container_version(reader, is_remote=is_remote) != known
        # Without a version a value that was there is damaged by a change, but the limits may have changed too.
        is_changed = is_known_to_differ or (not known and not isinstance(error, LimitExceeded))
        if not is_of_contents or not is_changed:
            raise
        raise make_changed_error(show_name(text)) from error
    return ValueReader(value, reader.stat().mtime_ns, getattr(reader, "version", None))


def import_archives() -> Any:
    """Import what reads archives, by its name: other media need none of it."""
    return import_module(_ARCHIVES)


def import_packed_values() -> Any:
    """Import what reads Parquet, by its name: catalogs stand above media, and all other media need no Arrow."""
    return import_module(_PACKED_VALUES)
