"""Find the members of archives where they lie; bytes to facts, nothing is unpacked."""

from __future__ import annotations

from framefeed.archives._dali_index import OddIndex, read_dali_index, write_dali_index
from framefeed.archives._samples import SKIPPED, MemberSamples, SampleGrouper, split_name
from framefeed.archives._tables import NO_FILE, MemberKind, TarDamage, TarMember, TarTable, join_tables
from framefeed.archives._tar import COMPRESSED_ENDINGS, explain_compressed, read_tar, walk_tar
from framefeed.archives._windows import LOCAL_READS, REMOTE_READS, ReadSizes

__all__ = [
    "COMPRESSED_ENDINGS",
    "LOCAL_READS",
    "NO_FILE",
    "REMOTE_READS",
    "SKIPPED",
    "MemberKind",
    "MemberSamples",
    "OddIndex",
    "ReadSizes",
    "SampleGrouper",
    "TarDamage",
    "TarMember",
    "TarTable",
    "explain_compressed",
    "join_tables",
    "read_dali_index",
    "read_tar",
    "split_name",
    "walk_tar",
    "write_dali_index",
]
