"""The members of an archive as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from framefeed._arrays import ByteArray, IntArray
from framefeed.errors import MediaError, UsageError


class MemberKind(IntEnum):
    """What a member of an archive is. Bytes of ``FILE`` alone can be read in place."""

    FILE = 0
    FOLDER = 1
    HARD_LINK = 2
    SYMLINK = 3
    DEVICE = 4
    SPARSE = 5
    """A file whose holes are left out of the archive."""
    OTHER = 6
    """A label, a part of another archive, or a kind that is not known."""


NO_FILE = {
    MemberKind.FOLDER: "is a folder",
    MemberKind.HARD_LINK: "is a hard link to {target!r}: read that member",
    MemberKind.SYMLINK: "is a link to {target!r}: read that member",
    MemberKind.DEVICE: "is a device or a pipe",
    MemberKind.SPARSE: "is a sparse file, whose holes are left out: write the archive again without --sparse",
    MemberKind.OTHER: "is of a kind that is not read",
}
"""Why a member cannot be read, and what to do about it; ``target`` is in ``MemberTable.targets``."""


class Member(NamedTuple):
    """One row of a `MemberTable`."""

    name: str
    offset: int
    size: int
    kind: MemberKind


@dataclass(frozen=True, slots=True)
class ArchiveDamage:
    """What an archive lacks; the members in its table are whole."""

    offset: int  # byte of the header, or of the zeros in its place, where it was met
    member: str | None  # name of the member that is cut; None if it concerns no member
    error: MediaError  # names the archive and what to do


@dataclass(frozen=True, slots=True, eq=False)
class MemberTable:
    """Members of an archive, in its order. Two may have one name."""

    # As the archive has them; bytes that are no UTF-8 are surrogates in those of tar. They are labels: a name that
    # climbs (``../x``, ``/x``) is no path, as nothing is ever unpacked.
    names: Sequence[str]
    offset: IntArray  # byte of the data in the archive, int64 [M]
    size: IntArray  # bytes of the data in the archive, int64 [M]; within the archive. 0 for kinds that have none
    kind: ByteArray  # `MemberKind`, uint8 [M]
    targets: dict[int, str] = field(default_factory=dict)  # what links of tar archives link to, by row
    # Why members that their kind does not exclude cannot be read, and what to do about it, by row, in the words of
    # ``NO_FILE``; their offset and size are 0.
    reasons: dict[int, str] = field(default_factory=dict)
    # What ended the walk early, or is missing; None if nothing is, and if the walk goes on.
    damage: ArchiveDamage | None = None

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.offset) == len(self.size) == len(self.kind):
            raise UsageError("a table of members needs four columns of one length")

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"MemberTable({len(self)} members{', damaged' if self.damage else ''})"

    def __iter__(self) -> Iterator[Member]:
        rows = zip(self.names, self.offset.tolist(), self.size.tolist(), self.kind.tolist(), strict=True)
        return (Member(name, offset, size, MemberKind(kind)) for name, offset, size, kind in rows)


def join_tables(tables: Sequence[MemberTable]) -> MemberTable:
    """Join the tables of one walk."""
    names: list[str] = []
    targets: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for table in tables:
        targets.update((len(names) + row, target) for row, target in table.targets.items())
        reasons.update((len(names) + row, reason) for row, reason in table.reasons.items())
        names += table.names
    return MemberTable(
        names,
        np.concatenate([np.empty(0, np.int64), *(table.offset for table in tables)]),
        np.concatenate([np.empty(0, np.int64), *(table.size for table in tables)]),
        np.concatenate([np.empty(0, np.uint8), *(table.kind for table in tables)]),
        targets,
        reasons,
        tables[-1].damage if tables else None,
    )
