"""Find the members of archives where they lie; bytes to facts, nothing is unpacked."""

from __future__ import annotations

from framefeed.archives._parquet_pages import NULL, ColumnChunk, OddPages, find_plain_values, read_column_chunks
from framefeed.archives._samples import SKIPPED, MemberSamples, SampleGrouper, split_name
from framefeed.archives._tables import NO_FILE, ArchiveDamage, Member, MemberKind, MemberTable
from framefeed.archives._tar import COMPRESSED_ENDINGS, explain_compressed, walk_tar
from framefeed.archives._windows import LOCAL_READS, REMOTE_READS, ReadSizes
from framefeed.archives._zip import REPLACED, read_zip, walk_zip

__all__ = [
    "COMPRESSED_ENDINGS",
    "LOCAL_READS",
    "NO_FILE",
    "NULL",
    "REMOTE_READS",
    "REPLACED",
    "SKIPPED",
    "ArchiveDamage",
    "ColumnChunk",
    "Member",
    "MemberKind",
    "MemberSamples",
    "MemberTable",
    "OddPages",
    "ReadSizes",
    "SampleGrouper",
    "explain_compressed",
    "find_plain_values",
    "read_column_chunks",
    "read_zip",
    "split_name",
    "walk_tar",
    "walk_zip",
]
