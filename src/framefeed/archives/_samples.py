"""Group the members of a tar archive to samples, by the rules of WebDataset (``tariterators.py``).

The key is the name up to the first dot behind its folders; what follows, in lower case, is the field. Neighbours of one
key are one sample; a key that comes back later is another sample, and each archive begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from framefeed._arrays import IntArray
from framefeed.archives._tables import MemberKind, MemberTable

SKIPPED = -1
"""Sample of a member that is in none."""
SkipReason = Literal["no file", "metadata", "no field"]
_METADATA = re.compile(r"__[^/]*__($|/)")
# WebDataset keeps these beside the fields of a sample, so it refuses them as doubled fields.
_OWN_FIELDS = ("__key__", "__url__")
_LINE_END = "\n"


@dataclass(frozen=True, slots=True)
class MemberSamples:
    """To which sample each member of a table belongs."""

    # Number of the sample, counted from 0 over the archive, int64 [M]; ``SKIPPED`` for members in none.
    sample: IntArray
    keys: Sequence[str]  # key of each member's sample; empty for members in none
    fields: Sequence[str]  # field of each member; empty for members in none


class SampleGrouper:
    """Groups the tables of one walk, in order.

    Attributes:
        num_samples: Samples so far.
        doubled: Field that a sample has twice, by the number of the sample: such a sample is an error.
        skipped: Count of the members in no sample, by the reason.
    """

    def __init__(self) -> None:
        self.num_samples = 0
        self.doubled: dict[int, str] = {}
        self.skipped: dict[SkipReason, int] = {"no file": 0, "metadata": 0, "no field": 0}
        self._key: str | None = None
        self._fields: set[str] = set()

    def group(self, table: MemberTable) -> MemberSamples:
        """Group the next members of the archive."""
        sample = np.full(len(table), SKIPPED, np.int64)
        keys, fields = [""] * len(table), [""] * len(table)
        is_file = ((table.kind == MemberKind.FILE) | (table.kind == MemberKind.SPARSE)).tolist()
        for row, name in enumerate(table.names):
            if not is_file[row]:
                self.skipped["no file"] += 1
            elif name.startswith("__") and is_metadata(name):
                self.skipped["metadata"] += 1
            elif (parts := split_name(name)) is None:
                self.skipped["no field"] += 1
            else:
                keys[row], fields[row] = parts
                sample[row] = self._add(*parts)
        return MemberSamples(sample, keys, fields)

    def _add(self, key: str, field: str) -> int:
        if key != self._key:
            self._key, self._fields = key, set(_OWN_FIELDS)
            self.num_samples += 1
        number = self.num_samples - 1
        if field in self._fields:
            self.doubled.setdefault(number, field)
        self._fields.add(field)
        return number


def is_metadata(name: str) -> bool:
    """Whether WebDataset passes over a member because of its name: ``__x__``, or a folder of such a name."""
    is_marked = "/" not in name and name.startswith("__") and name.endswith("__")
    return is_marked or _METADATA.match(name) is not None


def split_name(name: str) -> tuple[str, str] | None:
    """Split a name to key and field; None if it has no dot behind its folders, or nothing before that dot.

    As ``re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)`` does, but in time that grows with the name alone. Where the
    dot is the first letter behind a folder, the folder is the key, unless it has a dot itself.
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot < 0:
        return None
    if dot == start or _LINE_END in name:
        # `.*/` ends at a folder of the first line, and at least one letter lies between it and the dot.
        first_line = name.find(_LINE_END)
        limit = dot - 1 if first_line < 0 else min(dot - 1, first_line)
        begin = name.rfind("/", 0, max(limit, 0)) + 1
        if begin >= dot or "." in name[begin:dot]:
            return None
    return name[:dot], name[dot + 1 :].lower()
