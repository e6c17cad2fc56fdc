"""Sort the originals of a catalog by kind: codec, size and distance of key frames; some get no proxy at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from framefeed._names import escape, is_url, make_printable, split_part
from framefeed.catalog import TIME_FACTS, Catalog, check_no_proxies, explain_missing_frames, list_unindexed_rows
from framefeed.errors import FramefeedError, UsageError
from framefeed.media import SEQUENCE_CONTAINER
from framefeed.parallel import SAYS_NOTHING_OF_FILES, raise_shortage

_HEIGHTS = (144, 240, 360, 480, 540, 720, 1080, 1440, 2160, 4320)
_MEGAPIXELS = (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48)
_GOPS = (1, 2, 8, 16, 32, 64, 128, 256)
DAMAGED = "it has damaged frames, which must stay what they are"
RESIZED = "its pictures change their size"
ALPHA = "it has an alpha channel"
FAILED = "cannot be read: "
"""Begins the reason of an original that is tried again by the next run."""


@dataclass(frozen=True, slots=True)
class Original:
    """A file of a catalog."""

    row: int  # its first row in the catalog
    name: str  # path, URL or name, without secrets
    fingerprint: str
    bytes: int
    num_frames: int
    height: int  # as displayed
    width: int
    kind: str
    is_still: bool
    times: Mapping[str, Any]  # by the names of TIME_FACTS
    reason: str | None = None  # why it gets no proxy, whatever a sample says

    @property
    def key(self) -> str:
        """Fingerprint and name: a fingerprint tells the versions of one file apart, not every two files."""
        return f"{self.fingerprint} {escape(self.name)}"

    @property
    def work(self) -> int:
        """Pixels of all frames."""
        return self.num_frames * self.height * self.width


def list_originals(catalog: Catalog, short_side: int) -> list[Original]:
    """List the files of a catalog that can be read, each once, in the order of the rows.

    Raises:
        UsageError: The catalog reads proxies already, or has no frame indexes.
    """
    check_no_proxies(catalog)
    if len(list_unindexed_rows(catalog)):
        raise UsageError(explain_missing_frames(catalog))
    rows = catalog.usable_rows
    names = (
        "fingerprint",
        "bytes",
        "codec",
        "kind",
        "container",
        "pixel_format",
        "num_key_frames",
        "num_damaged_frames",
    )
    table = catalog.table.select([*names, *TIME_FACTS]).take(rows)
    facts = {name: table.column(name).to_pylist() for name in table.column_names}
    heights, widths, counts = (
        values[rows].tolist() for values in (catalog.heights, catalog.widths, catalog.num_frames)
    )
    changes = catalog.changes_size[rows].tolist()
    originals: dict[str, Original] = {}
    for number, row in enumerate(rows.tolist()):
        fingerprint = facts["fingerprint"][number]
        name = catalog.shown_name(row)
        if not fingerprint or f"{fingerprint} {name}" in originals:
            continue
        height, width, count = heights[number], widths[number], counts[number]
        is_sequence = facts["container"][number] == SEQUENCE_CONTAINER
        is_still = facts["kind"][number] == "image" or (is_sequence and count == 1)
        reason = None
        if facts["num_damaged_frames"][number]:
            reason = DAMAGED
        elif changes[number]:
            reason = RESIZED
        elif has_alpha(facts["pixel_format"][number] or ""):
            reason = ALPHA
        elif min(height, width) <= short_side:
            reason = f"its pictures are not larger than {short_side} pixels"
        originals[f"{fingerprint} {name}"] = Original(
            row,
            name,
            fingerprint,
            facts["bytes"][number] or 0,
            count,
            height,
            width,
            name_kind(facts["codec"][number] or "", height, width, count, facts["num_key_frames"][number]),
            is_still,
            {name: facts[name][number] for name in TIME_FACTS},
            reason,
        )
    return list(originals.values())


def list_files(catalog: Catalog) -> set[str]:
    """List the paths of all files of a catalog on this machine, also of those that failed; of members the archive."""
    names = {catalog.shown_name(row) for row in range(len(catalog))}
    parts = {name: split_part(name) for name in names if is_url(name)}
    names = {part.container for part in parts.values() if part is not None} | names - set(parts)
    return {os.path.abspath(name) for name in names if not is_url(name) and not name.startswith("<")}


def name_kind(codec: str, height: int, width: int, num_frames: int, num_key_frames: int | None) -> str:
    """Name the kind of a file: ``h264 720p GOP 256`` or ``mjpeg 12 MP``, of a list of sizes and distances."""
    if not num_key_frames or num_frames <= 1:
        megapixels = _find_nearest(height * width / 1e6, _MEGAPIXELS)
        return f"{codec} {megapixels:g} MP"
    gop = _find_nearest(num_frames / num_key_frames, _GOPS)
    return f"{codec} {_find_nearest(min(height, width), _HEIGHTS):g}p GOP {gop:g}"


def _find_nearest(value: float, known: tuple[float, ...]) -> float:
    """Find the nearest of some positive numbers by ratio."""
    return min(known, key=lambda each: abs(np.log(max(value, 1e-6) / each)))


def has_alpha(pixel_format: str) -> bool:
    """Whether pictures of a pixel format, by libav's or Pillow's name, have an alpha channel."""
    name = pixel_format.lower()
    return name.startswith(("yuva", "gbrap", "ya8", "ya16")) or name in ("rgba", "bgra", "argb", "abgr", "la", "pa")


def explain_failure(error: FramefeedError | MemoryError, name: str, stage: str) -> str:
    """Explain why an original cannot be read; an error that says nothing of the file is raised."""
    if isinstance(error, SAYS_NOTHING_OF_FILES):
        raise error
    raise_shortage(error, name, stage)
    if not isinstance(error, FramefeedError):
        raise error
    return make_printable(f"{FAILED}{error}")
