"""Proxies of a catalog's media: the table that their maker writes beside them, and catalogs that read them.

A proxy is a smaller copy of a video or picture, with a picture for each frame of the original. Its row in the table
has the merged frame index: times and sizes as displayed of the original, packets of the proxy.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from framefeed._arrays import IntArray
from framefeed._files import replacing, write_errors
from framefeed._names import check_local_path, escape, resolve_name
from framefeed._units import format_count
from framefeed._values import MediaInfo
from framefeed.catalog._arrow import gather_rows
from framefeed.catalog._assembly import CatalogData
from framefeed.catalog._catalog_rows import CatalogRows
from framefeed.catalog._columns import FACTS, Facts
from framefeed.catalog._frame_rows import HeaderClaims, pack_row, read_index
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, SCHEMA, FrameTables
from framefeed.catalog._plan_columns import PROXY_COLUMN, find_pictures, number_sources
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.index import FrameIndex
from framefeed.media import source_name
from framefeed.parallel import raise_shortage

TABLE_NAME = "proxies.parquet"
"""Name of the table in the folder of the proxies."""
FORMAT = 1
_MOST_RATIO = 64
"""Uncompressed bytes of a table, at most, as a multiple of those of its file."""
_KEY = b"framefeed proxies"
TIME_FACTS = ("num_frames", "duration_seconds", "average_fps", "times_from")
"""Columns of a catalog that differ where a video's frames have other numbers or times, such as by ``assume_fps``."""
PROXY_SCHEMA = pa.schema(
    [
        ("original", pa.string()),  # path, URL or name, without secrets, by `escape`
        ("fingerprint", pa.string()),  # of the original
        ("bytes", pa.int64()),  # of the original
        ("kind", pa.string()),  # codec, size and distance of key frames of the original
        # As in the catalog, for the frames of one file may be given other times.
        *((name, FACTS[name]) for name in TIME_FACTS),
        ("proxy", pa.string()),  # path in the folder; null where the original stays
        ("reason", pa.string()),  # why the original stays
        ("proxy_bytes", pa.int64()),
        ("psnr", pa.float64()),  # of the luma planes of some frames, the mean, in dB
        ("psnr_worst", pa.float64()),  # the smallest of these
        ("ssim", pa.float64()),  # the mean
        ("rgb_psnr", pa.float64()),  # of red, green and blue, the mean
        ("quality", pa.int64()),  # crf of the encoder, or quality of the JPEG
        ("seconds", pa.float64()),  # CPU time of writing
        ("numbers", SCHEMA.types[0]),  # the row of the frame tables, see `pack_row`; null where the original stays
        ("row", pa.large_binary()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTable:
    """The originals of a folder of proxies, and what became of each; a row for each, of ``PROXY_SCHEMA``."""

    folder: str
    settings: Mapping[str, Any]
    rows: pa.Table

    def find_rows(self, fingerprints: Sequence[str | None], names: Sequence[str]) -> IntArray:
        """Find the row of each original by fingerprint and name, int64 [R]; -1 where there is none.

        A fingerprint tells the versions of one file apart, not every two files. Of an original that lies elsewhere now,
        the file name is the same, and of several the one with the most folders in common.
        """
        known: dict[str, list[tuple[list[str], int]]] = {}
        columns = (self.rows[name].to_pylist() for name in ("fingerprint", "original"))
        for row, (fingerprint, original) in enumerate(zip(*columns, strict=True)):
            known.setdefault(fingerprint, []).append((_list_parts(original), row))
        found = np.full(len(names), -1, np.int64)
        for number, (fingerprint, name) in enumerate(zip(fingerprints, names, strict=True)):
            parts = _list_parts(escape(name)) if fingerprint in known else []
            counts = [(_count_common(parts, each), row) for each, row in known.get(fingerprint or "", ())]
            most = max((count for count, _ in counts), default=0)
            best = [row for count, row in counts if count == most]
            if most and len(best) == 1:
                found[number] = best[0]
        return found

    def count_reasons(self) -> list[tuple[str, int]]:
        """Count the originals that stay themselves by reason, the most frequent first."""
        reasons = Counter(text.split(": ")[0] for text in self.rows["reason"].drop_null().to_pylist())
        return reasons.most_common()


def _list_parts(name: str) -> list[str]:
    """List the file name of a path, and then its folders."""
    return name.split("/")[::-1]


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the parts that two names have in common, from the file name on; the same name counts most."""
    if one == other:
        return len(one) + 1
    return next((number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def pack_index(index: FrameIndex, info: MediaInfo | None) -> dict[str, bytes]:
    """Store a frame index as the last two columns of a row, with the claims of the original's header."""
    names = ("num_frames", "duration_seconds", "average_fps")
    claims = HeaderClaims(*(getattr(info, f"{name}_from_header", None) for name in names))
    numbers, row = pack_row(index, claims)
    return {"numbers": numbers, "row": row}


def unpack_index(row: Mapping[str, Any]) -> FrameIndex:
    """Read the frame index of a row, as `pack_index` stored it; a damaged one is a ValueError."""
    return read_index(row["numbers"], memoryview(row["row"]))


def write_proxy_table(folder: str, settings: Mapping[str, Any], rows: pa.Table) -> None:
    """Write the table of a folder of proxies; after a crash the old or the new one is complete."""
    path = os.path.join(folder, TABLE_NAME)
    table = rows.replace_schema_metadata({_KEY: json.dumps({"format": FORMAT, **settings}).encode()})
    with write_errors(path), replacing(path) as scratch:
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)


def read_proxy_table(folder: str) -> ProxyTable:
    """Read the table of a folder of proxies.

    Raises:
        MissingMedia: There is no such folder, or no table in it.
        UnreadableMedia: It is damaged, or of another version.
    """
    path = os.path.join(folder, TABLE_NAME)
    if not os.path.isfile(path):
        raise MissingMedia(
            f"{folder}: has no proxies, as there is no {TABLE_NAME} in it: make them with ff.make_proxies(catalog, "
            "folder), which also continues an interrupted run",
            source=folder,
        )
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        size = os.path.getsize(path)
        # Fingerprints differ, and frame indexes are compressed already: no row takes less than a byte of the file.
        if file.metadata.num_rows > size or sum(group.total_byte_size for group in groups) > _MOST_RATIO * size:
            raise ValueError("it claims more bytes than a table of its size has")
        rows = file.read()
        settings = json.loads((rows.schema.metadata or {})[_KEY])
        if settings.pop("format") != FORMAT or not rows.schema.equals(PROXY_SCHEMA):
            raise ValueError("another version of framefeed wrote it")
        if not all(isinstance(each, str | None) for each in settings["decisions"].values()):
            raise ValueError("its decisions are no texts")
        rows.validate(full=True)
        odd = [each for each in rows["proxy"].to_pylist() if each is not None and _is_outside(each)]
        if odd:
            raise ValueError(f"{odd[0]!r} is no path in the folder")
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise_shortage(error, path, "read")
        raise UnreadableMedia(
            f"{path}: not readable as a table of proxies: {error}; make them again with ff.make_proxies",
            source=path,
        ) from error
    return ProxyTable(folder, settings, rows)


def _is_outside(path: str) -> bool:
    return "\0" in path or any(part in ("", ".", "..") for part in path.split("/"))


def check_no_proxies(catalog: CatalogRows) -> None:
    """Check that a catalog is one of originals."""
    if catalog.proxy_sizes is not None and (catalog.proxy_sizes[0] > 0).any():
        raise UsageError(
            "this catalog reads proxies already: begin with the catalog of the originals, such as cat.parquet (on the "
            "command line too)"
        )


def attach_proxies(catalog: CatalogRows, folder: str) -> CatalogData:
    """Give the data of a catalog whose rows read their proxies where there are some; see `Catalog.with_proxies`."""
    check_no_proxies(catalog)
    proxies = read_proxy_table(os.path.abspath(check_local_path("folder", folder, "small/")))
    data = catalog.compact()
    if data.facts.has_proxies:  # Of a selection, none is left.
        data = replace(data, facts=Facts.of_table(data.facts.table().drop_columns([PROXY_COLUMN])))
    names = [catalog.shown_name(row) for row in range(len(catalog))]
    found = proxies.find_rows(data.facts.column("fingerprint").to_pylist(), names)
    _check_known(catalog, proxies, found)
    paths = [None if path is None else os.path.join(proxies.folder, path) for path in proxies.rows["proxy"].to_pylist()]
    texts = pa.array([paths[row] if row >= 0 else None for row in found.tolist()], FACTS[PROXY_COLUMN])
    has_proxy = texts.is_valid().to_numpy(zero_copy_only=False)
    if not has_proxy.any():
        return data
    table = data.facts.table()
    _check_times(catalog, proxies, table, np.where(has_proxy, found, -1))
    numbers = number_sources(table.column("source").combine_chunks())
    first = np.unique(numbers, return_index=True)[1]
    old = data.facts.plan_columns.frame_rows[first] if data.frames is not None else np.full(len(first), -1, np.int64)
    batches = [] if data.frames is None else list(data.frames.batches)
    count = sum(batch.num_rows for batch in batches)
    wanted = np.where(has_proxy[first], found[first] + count, old)
    made = proxies.rows.select(SCHEMA.names).cast(SCHEMA).combine_chunks().to_batches()
    frames = FrameTables(list(gather_rows([*batches, *made], wanted[wanted >= 0], ROWS_PER_BATCH)))
    return replace(data, facts=Facts.of_table(table.append_column(PROXY_COLUMN, texts)), frames=frames)


def _check_known(catalog: CatalogRows, proxies: ProxyTable, found: IntArray) -> None:
    """Refuse originals that have changed since their proxies were made; warn of those that are not in the table."""
    usable = catalog.usable_rows
    unknown = usable[found[usable] < 0]
    if not len(unknown):
        return
    names = set(proxies.rows["original"].to_pylist())
    changed = [row for row in unknown.tolist() if escape(catalog.shown_name(row)) in names]
    advice = f"make their proxies with ff.make_proxies(catalog, {proxies.folder!r}), which keeps the others"
    if changed:
        name = catalog.shown_name(changed[0])
        more = "" if len(changed) == 1 else f", and {format_count(len(changed) - 1, 'other file')} too"
        raise StaleSource(f"{name}: has changed since its proxy was made{more}: {advice}", source=name, stage="open")
    warnings.warn(
        f"{len(unknown)} of {len(usable)} rows are of files that {proxies.folder} does not know, such as "
        f"{catalog.shown_name(int(unknown[0]))}: they are read themselves; {advice}",
        UserWarning,
        stacklevel=4,
    )


def _check_times(catalog: CatalogRows, proxies: ProxyTable, table: pa.Table, found: IntArray) -> None:
    """Refuse videos whose frames have other numbers or times than when their proxies were made; -1 has none."""
    at = np.flatnonzero((found >= 0) & ~find_pictures(table.column("kind")))
    now, before = table.select(TIME_FACTS).take(at), proxies.rows.select(TIME_FACTS).take(found[at])
    pairs = zip(*(zip(*each.to_pydict().values(), strict=True) for each in (before, now)), strict=True)
    changed = [row for row, (one, other) in zip(at.tolist(), pairs, strict=True) if one != other]
    if changed:
        name = source_name(resolve_name(table.column("source")[changed[0]].as_py(), catalog._data.root))
        raise StaleSource(
            f"{name}: its frames have other numbers or times than when its proxy was made, such as by another "
            "assume_fps= or verify=: scan it as then, or make the proxies of this catalog in another folder",
            source=name,
            stage="open",
        )
