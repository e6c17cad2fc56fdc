"""Find one member of an archive."""

from __future__ import annotations

from framefeed._names import PartName
from framefeed._values import DEFAULT_LIMITS, ByteReader
from framefeed.archives import LOCAL_READS, REMOTE_READS, MemberKind, walk_tar
from framefeed.errors import MissingMedia, UsageError


def find_member(part: PartName, reader: ByteReader, name: str, *, is_remote: bool) -> tuple[int, int]:
    """Find the first byte and the size of a part.

    Args:
        part: Its name.
        reader: The container.
        name: Of the container, for messages.
        is_remote: Whether each read takes a request.

    Raises:
        MissingMedia: There is no such member.
        MediaError: The container is damaged before it.
    """
    if part.scheme != "tar":
        raise UsageError(f"{part.scheme}:// of {name}: not in this version: unpack it first")
    for table in walk_tar(reader, name, DEFAULT_LIMITS, REMOTE_READS if is_remote else LOCAL_READS):
        for member in table:
            if member.name == part.member and member.kind == MemberKind.FILE:
                return member.offset, member.size
        if table.damage is not None:
            raise table.damage.error
    raise MissingMedia(
        f"{name}: has no member {part.member!r}: `tar --list` shows all names", source=name, stage="open"
    )
