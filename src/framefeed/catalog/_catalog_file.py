"""Read and write the two files of a catalog: facts in ``cat.parquet``, frame tables in ``cat.frames.arrow`` beside it.

Two files cannot be replaced atomically, so the Parquet file decides. First the frame tables are written under a pending
name that contains their id. Then the Parquet file, whose header contains the same id, is moved to its name: now the new
catalog is valid, because a reader that does not find the id in ``cat.frames.arrow`` opens the pending name. Last, the
frame tables are moved to their own name. A crash at any step leaves the old or the new catalog complete.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from framefeed._arrays import IntArray
from framefeed._files import check_writable, flush_folder, holding_file, name_special_kind, remove_unlocked
from framefeed._names import make_printable
from framefeed._shortage import SuppressFaults
from framefeed.catalog._arrow import find_odd_text
from framefeed.catalog._columns import FACTS, OPTIONAL_FACTS, Facts, Label, get_fact, hash_column
from framefeed.catalog._frame_tables import FrameTables, hash_frame_tables, open_frame_tables, write_frame_tables
from framefeed.catalog._plan_columns import PlanColumns, make_plan_columns
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.index import Verify
from framefeed.parallel import raise_shortage, try_again_in_shortage

FORMAT = 7
"""Version of the files. Version 1 had frame tables of 62 bytes a frame, and workers copied every column for planning;
2 had no damaged frames; 3 had only the frames' own times, and no proofs; 5 had no checksums of numbers and of
columns for plans. 6, which lacks ``source_offset`` and ``source_version``, is read too."""
ROWS_PER_GROUP = 131_072
_KEY = b"framefeed"
_RATE = re.compile(r"[1-9]\d{0,18}(/[1-9]\d{0,18})?")
_OTHER_FORMATS = frozenset(
    {".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".xls", ".xlsx", ".ods", ".arrow", ".feather", ".ipc"}
    | {".html", ".db", ".sqlite", ".orc", ".pkl", ".pickle", ".npy", ".npz"}
)
"""Endings of other table formats, which are refused as names of a catalog."""
_ALL_DIFFERENT = frozenset({"source", "fingerprint", "bytes", "mtime_ns"})
"""Columns without repetitions: as dictionaries they would take memory and four times as long to read."""


@dataclass(frozen=True, slots=True)
class CatalogHeader:
    """Header of a catalog file."""

    fingerprint: str
    depth: str
    verify: Verify
    classes: Sequence[Label]  # of the whole catalog of which this file holds all rows or some
    frames_id: str | None = None  # of the frame tables that belong to the facts
    limits: str = ""
    assume_fps: str | None = None
    rules: int = 0  # version of the rules by which packets were believed
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The files of a saved catalog, which is pickled as their path."""

    path: str
    root: str | None  # as given to `Catalog.open`; of a catalog by URL the folder where relative sources start
    fingerprint: str  # of the whole file
    rows: IntArray | None = None  # of the file, that this view shows
    url: str | None = field(default=None, repr=False)  # of which the files are a copy


def format_rate(rate: Fraction | None) -> str | None:
    return None if rate is None else str(rate)


def get_frames_path(path: str) -> str:
    """Build the path of a catalog's frame tables; ``cat.parquet`` and ``cat.v2`` have different ones."""
    return f"{path.removesuffix('.parquet')}.frames.arrow"


def write_catalog(path: str, table: pa.Table, header: CatalogHeader, frames: FrameTables | None) -> CatalogHeader:
    """Write both files, so that a crash leaves the old catalog or the new one; return the header with ``frames_id``.

    The frames have one row for each distinct source of the table that has an index, in the order of their first rows.
    """
    check_target(path)
    folder = os.path.dirname(path) or "."
    try:
        before = _open_parquet(path)[1].frames_id
    except UnreadableMedia:  # Also a catalog of another format: its frame tables have their own name.
        before = None
    header = _set_frames_id(header, table, frames)
    pending = _get_pending_path(path, header.frames_id)
    new_facts, new_frames = f"{path}.{os.getpid()}.tmp", f"{path}.{os.getpid()}.frames.tmp"
    # Under the same id as before, the pending tables may be the only copy of the old catalog's tables.
    created = (new_facts, new_frames, *([pending] if before != header.frames_id else []))
    with ExitStack() as claims:
        try:
            with _removing_on_failure(created):
                for name in (new_frames, new_facts):
                    claims.enter_context(holding_file(name))
                if frames is not None and header.frames_id is not None:
                    columns = make_plan_columns(partial(get_fact, table))
                    write_frame_tables(new_frames, frames.batches, {_KEY: header.frames_id.encode()}, columns)
                    os.replace(new_frames, pending)
                    flush_folder(folder)  # After a power cut, facts must not exist without their frame tables.
                _write_parquet(new_facts, table.replace_schema_metadata({_KEY: json.dumps(asdict(header)).encode()}))
                os.replace(new_facts, path)
        except OSError as error:
            raise_shortage(error, path, "write")
            raise UsageError(
                f"cannot write {path}: {error.strerror or error}; nothing was changed: make room on the disk, or "
                "choose another folder"
            ) from error
        flush_folder(folder)
        if header.frames_id is None:
            _remove(get_frames_path(path))
        else:
            with suppress(FileNotFoundError):  # Another process that wrote the same catalog was faster.
                os.replace(pending, get_frames_path(path))
        flush_folder(folder)
    # Files of killed writers of this catalog, and the pending tables of an older one.
    file, stem = re.escape(os.path.basename(path)), re.escape(os.path.basename(path).removesuffix(".parquet"))
    pattern = re.compile(rf"{file}\.\d+(\.frames)?\.tmp|{stem}\.frames\.[0-9a-z]+\.arrow")
    remove_unlocked(folder, pattern, kept=os.path.basename(get_frames_path(path)))
    return header


@contextmanager
def _removing_on_failure(created: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _remove(*created)
        raise


def check_target(path: str) -> None:
    """Check that a catalog can be written to a path, and replaces nothing but a catalog."""
    if make_printable(path) != path:
        raise UsageError(
            f"cannot write {make_printable(path)}: Arrow opens only names that are UTF-8; choose another name"
        )
    stem, ending = os.path.splitext(path)
    if ending.lower() in _OTHER_FORMATS:
        raise UsageError(
            f"cannot write {path}: a catalog is a Parquet file: name it {stem}.parquet; for a {ending} file, write its "
            "table with another library, for example pyarrow.csv.write_csv(catalog.table, 'cat.csv')"
        )
    check_writable(path, "catalog", "cat.parquet", is_catalog)


def is_catalog(path: str) -> bool:
    """Whether a file is a catalog, of any format."""
    try:
        return _KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError, ValueError):  # A name that is not UTF-8 is a ValueError.
        return False


def read_frames_id(path: str) -> str | None:
    """Read the id of the frame tables of a catalog; None if it has none."""
    return _open_parquet(path)[1].frames_id


def open_catalog(path: str) -> tuple[Facts, CatalogHeader, FrameTables | None]:
    """Open both files; frame tables of another catalog are StaleSource."""

    def open_both() -> tuple[Facts, CatalogHeader, FrameTables | None]:
        try:
            return _open_both(path)
        except StaleSource:
            # Another process may have replaced both files between the two reads.
            return _open_both(path)

    return try_again_in_shortage(open_both, path, "open")


def has_frames_id(path: str, frames_id: str) -> bool:
    """Whether frame tables have an id."""
    return open_frame_tables(path)[1].get(_KEY) == frames_id.encode()


def _open_both(path: str) -> tuple[Facts, CatalogHeader, FrameTables | None]:
    file, header = _open_parquet(path)
    names = () if header.frames_id is None else (get_frames_path(path), _get_pending_path(path, header.frames_id))
    others = list[str]()
    for name in filter(_is_file, names):
        frames, metadata, columns, checksums = open_frame_tables(name)
        if metadata.get(_KEY) == str(header.frames_id).encode():
            plan_columns = PlanColumns(columns, file.metadata.num_rows, len(frames), name, frames.file, checksums)
            return _read_facts(path, file, plan_columns), header, frames
        others.append(name)
    if not others:
        return _read_facts(path, file, None), header, None
    raise StaleSource(
        f"{others[0]}: these frame tables belong to another catalog than {path}: scan again, or delete them to open "
        "the facts alone",
        source=path,
        stage="index",
    )


def _open_parquet(path: str) -> tuple[pq.ParquetFile, CatalogHeader]:
    if (kind := name_special_kind(path)) is not None:
        raise _unreadable(path, f"is {kind}, not a file")
    if not _is_file(path):
        raise MissingMedia(f"{path}: no such catalog file; {_SCAN_HINT}", source=path)
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        with suppress(OSError), open(path, "rb") as begun:
            if begun.read(len(MAGIC)) != MAGIC:
                what = (
                    "a catalog is a Parquet file, and this file is not one; if it is a list or a media file, scan it "
                )
                hint = f"framefeed scan {path} -o cat.parquet, or framefeed.scan"
                raise _unreadable(path, f"{what}first", hint) from error
        raise _unreadable(path, str(error).rstrip(".")) from error
    return file, _read_header(path, file.schema_arrow)


def _is_file(path: str) -> bool:
    """Whether there is a file; `os.path.isfile` says no in a shortage, too."""
    with SuppressFaults(OSError):
        return stat.S_ISREG(os.stat(path).st_mode)
    return False


def _read_facts(path: str, file: pq.ParquetFile, plan_columns: PlanColumns | None) -> Facts:
    def read(name: str) -> pa.ChunkedArray:
        read_table = partial(file.read, columns=[name], use_threads=False)
        try:
            column = try_again_in_shortage(read_table, path, "read").column(name)
            # The header of a page has no checksum.
            if len(column) != file.metadata.num_rows:
                raise ValueError(f"{len(column)} values for {file.metadata.num_rows} rows")
            if (odd := find_odd_text(column)) is not None:
                raise ValueError(f"the text {odd[1]!r} in row {odd[0]} is not UTF-8")
            return column
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise _unreadable(path, f"column {name}: {error}; delete it") from error

    return Facts(file.schema_arrow, file.metadata.num_rows, read, plan_columns)


def _read_header(path: str, schema: pa.Schema) -> CatalogHeader:
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        raise _unreadable(
            path, "framefeed did not write this file (if it is a list of media files, give it to framefeed.scan)"
        )
    try:
        fields = json.loads(text)
        # Checked first: another format may have other fields.
        if (version := dict(fields).get("format")) not in (FORMAT, FORMAT - 1):
            what = f"its format is {version}, but this version of framefeed reads format {FORMAT}"
            raise _unreadable(path, what, f"scan again, to the same name: {_SCAN_HINT}")
        header = CatalogHeader(**fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise _unreadable(path, f"{error}") from error
    ids = [header.fingerprint, *([] if header.frames_id is None else [header.frames_id])]
    if not all(isinstance(text, str) and text.isalnum() for text in ids):  # The id becomes part of a file name.
        raise _unreadable(path, "its fingerprint or id is no identifier")
    if header.depth not in ("frames", "header") or header.verify not in get_args(Verify):
        raise _unreadable(path, f"depth {header.depth!r}, verify {header.verify!r}")
    if header.assume_fps is not None and not _RATE.fullmatch(str(header.assume_fps)):
        raise _unreadable(path, f"assumed rate {header.assume_fps!r}")
    if type(header.rules) is not int:
        raise _unreadable(path, f"rules {header.rules!r}")
    if not isinstance(header.classes, list) or len({type(label) for label in header.classes} | {str}) > 2:
        raise _unreadable(path, "its classes are no list of labels")
    optional = {"label", *(name for name in OPTIONAL_FACTS if name not in schema.names)}
    plain = {name: kind for name, kind in FACTS.items() if name not in optional}
    wrong = [name for name, kind in plain.items() if name not in schema.names or schema.field(name).type != kind]
    if wrong or "label" not in schema.names:
        raise _unreadable(path, f"without the columns {', '.join(wrong or ['label'])} of a catalog")
    return header


MAGIC = b"PAR1"
"""First bytes of a Parquet file."""
_SCAN_HINT = "make one with 'framefeed scan FOLDER -o cat.parquet' or framefeed.scan"


def _unreadable(path: str, what: str, hint: str = _SCAN_HINT) -> UnreadableMedia:
    return UnreadableMedia(f"{path}: not readable as a catalog: {what}; {hint}", source=path, stage="index")


def _set_frames_id(header: CatalogHeader, table: pa.Table, frames: FrameTables | None) -> CatalogHeader:
    if frames is None:
        return replace(header, frames_id=None)
    # A hash of the content, so that two scans of the same files write the same bytes.
    digest = xxhash.xxh3_128(header.fingerprint.encode())
    for column in table.select(["source", "mtime_ns"]).itercolumns():
        hash_column(digest, column)
    digest.update(hash_frame_tables(frames))
    return replace(header, frames_id=digest.hexdigest())


def _get_pending_path(path: str, frames_id: str | None) -> str:
    return f"{path.removesuffix('.parquet')}.frames.{frames_id}.arrow"


def _write_parquet(path: str, table: pa.Table) -> None:
    with open(path, "wb") as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            compression_level=1,
            row_group_size=ROWS_PER_GROUP,
            use_dictionary=[name for name in table.column_names if name not in _ALL_DIFFERENT],
            write_page_checksum=True,
        )
        file.flush()
        os.fsync(file.fileno())


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
