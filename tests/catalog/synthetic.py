"""Frame indexes and catalogs made of numbers: no media is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._values import MediaInfo, PacketTable, SourceStat
from framefeed.catalog._assembly import CatalogData, ListedRows, assemble_rows
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._columns import Facts
from framefeed.catalog._survey import SurveyOptions, SurveyResult
from framefeed.errors import UnreadableMedia
from framefeed.index import FrameIndex, StreamFacts
from framefeed.media import SourceIdentity


def frame_index(num_frames: int = 10, seed: int = 0, **changes: Any) -> FrameIndex:
    """An index whose every field differs from its default; random but for what must be in range."""
    random = np.random.default_rng(seed)
    num_packets = num_frames + 2

    def column(low: int, high: int, length: int = num_frames) -> np.ndarray:
        return random.integers(low, high, length, dtype=np.int64)

    given: dict[str, Any] = {
        "pts": np.cumsum(column(1, 2000)),
        "duration": column(0, 2000),
        "time_base": Fraction(1001, 24000 + seed),
        "key_frame_indices": np.flatnonzero(column(0, 2)).astype(np.int64),
        "built_from": "packets+ends",
        "frame_packet": column(-1, num_packets),
        "frame_start": column(0, num_packets),
        "packets": PacketTable(
            offset=column(-1, 2**40, num_packets),
            size=column(0, 2**20, num_packets),
            pts=column(-(2**63), 2**62, num_packets),
            flags=column(0, 8, num_packets).astype(np.uint8),
        ),
        "stream": StreamFacts(
            3,
            "matroska,webm",
            "hevc",
            b"\0\1\xff",
            639,
            481,
            "yuv420p10le",
            90,
            True,
            True,
            True,
            True,
            9,
            16,
            10,
            1,
            1440,
            962,
        ),
        "identity": SourceIdentity(1234 + seed, 2**60 + seed, f"abc{seed}"),
        "times_from": "dts",
        "time_shift": -1001,
        "changes_size": True,
    }
    return FrameIndex(**given | changes)


def same(one: Any, other: Any) -> bool:
    """Equality of values and dtypes, field by field."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def media_info(**changes: Any) -> MediaInfo:
    given: dict[str, Any] = {
        "kind": "video", "container": "mov", "codec": "h264", "width": 64, "height": 48, "coded_width": 64,
        "coded_height": 48, "rotation": 0, "mirrored": False, "pixel_format": "yuv420p", "num_frames_from_header": 11,
        "duration_seconds_from_header": 0.5, "average_fps_from_header": 20.0, "bytes": 1234,
    }  # fmt: skip
    return MediaInfo(**given | changes)


def finding(number: int, num_frames: int = 10) -> SurveyResult:
    index = frame_index(num_frames, number)
    identity = SourceIdentity(1234 + number, 2**60 + number, f"abc{number}")
    return SurveyResult(media_info(width=64 + number), index, identity)


def failure(number: int) -> SurveyResult:
    return SurveyResult(error=UnreadableMedia(f"video {number} is broken"))


def catalog(
    texts: Sequence[str], *, failed: Sequence[int] = (), labels: Sequence[Any] | None = None, **extra: Sequence[Any]
) -> Catalog:
    """A catalog in memory: one finding for each distinct text, numbered in order."""
    findings = [failure(n) if n in failed else finding(n) for n, _ in enumerate(dict.fromkeys(texts))]
    column = None if labels is None else pa.chunked_array([pa.array(labels)])
    rows = ListedRows(pa.array(texts, pa.string()), labels=column, extra=pa.table(dict(extra)))
    return Catalog(assemble_rows(rows, findings, SurveyOptions()))


def names(count: int) -> list[str]:
    return [f"/data/video_{number:03d}.mp4" for number in range(count)]


def catalog_of_table(table: pa.Table, classes: Sequence[str]) -> Catalog:
    """A catalog of depth "header" whose facts are those of a table."""
    return Catalog(CatalogData(Facts.of_table(table), None, tuple(classes), "ends", None))


def catalog_of_index(source: str, info: MediaInfo, index: FrameIndex, stat: SourceStat) -> Catalog:
    """A catalog of one source, with a frame index that the source need not have."""
    fingerprint = index.identity.fingerprint if index.identity else ""
    known = SurveyResult(info, index, SourceIdentity(stat.bytes, stat.mtime_ns, fingerprint))
    return Catalog(assemble_rows(ListedRows(pa.array([source])), [known], SurveyOptions()))
