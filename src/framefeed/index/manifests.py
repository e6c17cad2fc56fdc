"""Manifests: lists of media in text, CSV or Parquet, whose lines become rows and whose columns are kept.

Text holds one path a line and nothing else: no comments, because a name may begin with ``#``, and blanks count. Where
the file holds NULs (``find -print0``), these separate the names instead of line ends. CSV has a header, unless its
first line names a media file already. The column of paths is called source, path, file, video, image, filename,
file_name, filepath or file_path, else it is the first. Relative paths are relative to the manifest's folder.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from framefeed.errors import MissingMedia, UnreadableMedia, UsageError
from framefeed.index.facts import FACTS, decoded
from framefeed.index.listing_suffixes import ALL_MEDIA_SUFFIXES, suffix_of
from framefeed.index.names import absolute, escape, unescape
from framefeed.media.regular_files import stat_regular
from framefeed.parallel.shortage import try_again_in_shortage

TEXT_SUFFIXES = frozenset({".txt", ".lst", ".list"})
CSV_SUFFIXES = frozenset({".csv", ".tsv"})
MANIFEST_SUFFIXES = TEXT_SUFFIXES | CSV_SUFFIXES | {".parquet"}
PATH_COLUMNS = ("source", "path", "file", "video", "image", "filename", "file_name", "filepath", "file_path")

# In lines of names: what makes `names.absolute` do more than to put a folder before a name. A false alarm costs time.
_ODD = ("\0", "//", "/./", "/../", "/\n", "/.\n", "/..\n", "\n./", "\n../", "\n.\n", "\n..\n", "\n\n")
_BLOCK_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The lines of a manifest.

    Attributes:
        folder: Absolute path of the folder that the names are relative to; "" where they are complete.
        names: Path or URL of each line; "" where it has none.
        columns: Its other columns.
    """

    folder: str
    names: list[str]
    columns: pa.Table

    @property
    def paths(self) -> list[str]:
        """Absolute path or URL of each line."""
        return [os.path.join(self.folder, name) for name in self.names] if self.folder else self.names


def read_manifest(path: str) -> Manifest:
    """Read a manifest; its ending says of what kind it is.

    Args:
        path: Absolute path.

    Raises:
        MissingMedia: There is no such file.
        UsageError: It cannot be understood.
    """
    try:
        stat_regular(path)
    except UnreadableMedia as error:
        kind = MissingMedia if isinstance(error, MissingMedia) else UnreadableMedia
        raise kind(f"manifest {error}", source=path, stage="open") from error
    if suffix_of(path) in TEXT_SUFFIXES:
        return _manifest_of(path, _text_names(try_again_in_shortage(partial(_read, path), path, "open")), pa.table({}))
    read = partial(_csv_table if suffix_of(path) in CSV_SUFFIXES else _parquet_table, path)
    try:
        table = try_again_in_shortage(read, path, "open")
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"manifest {path}: not readable as {suffix_of(path)[1:]}: {error}", source=path) from error
    return _manifest(path, table)


def path_column(names: Sequence[str]) -> str:
    """Choose the column that holds the paths: by its name, else the first."""
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[name] for name in PATH_COLUMNS if name in lowered), names[0])


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _text_names(data: bytes) -> list[str]:
    text = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf"))
    lines = [line for line in text.split("\0" if "\0" in text else "\n") if line]
    if lines and all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines if line != "\r"]
    return lines


def _csv_table(path: str) -> pa.Table:
    data = _read(path)
    delimiter = "\t" if suffix_of(path) == ".tsv" else ","
    text = io.TextIOWrapper(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), "utf-8", "surrogateescape", newline="")
    first = next(csv.reader(text, delimiter=delimiter), [])
    if not first:
        return pa.table({"source": pa.array([], pa.binary())})
    names = [escape(name) for name in first]
    has_header = not any(suffix_of(cell.strip()) in ALL_MEDIA_SUFFIXES for cell in first)
    if not has_header:
        names = ["source", *(f"column_{number}" for number in range(1, len(first)))]
    if len(set(names)) < len(names):
        raise UsageError(f"manifest {path}: its header names a column twice: {', '.join(names)}", source=path)
    return pcsv.read_csv(
        io.BytesIO(data),
        # One block: types are inferred from the first, and a word in the last line must not fail as "not a number".
        read_options=pcsv.ReadOptions(
            use_threads=False,
            column_names=names,
            skip_rows=int(has_header),
            block_size=min(max(len(data) + 1, 2**20), _BLOCK_LIMIT),
        ),
        parse_options=pcsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # As bytes: "007" stays "007", and names need not be UTF-8.
        convert_options=pcsv.ConvertOptions(column_types={path_column(names): pa.binary()}),
    )


def _parquet_table(path: str) -> pa.Table:
    table = pq.read_table(path, use_threads=False)
    if b"framefeed" in (table.schema.metadata or {}):
        # A catalog as a manifest: its facts will be found out anew.
        table = table.select([name for name in table.column_names if name in ("source", "label") or name not in FACTS])
    return table


def _manifest(path: str, table: pa.Table) -> Manifest:
    if not table.column_names:
        raise UsageError(f"manifest {path}: has no columns; name one {', '.join(PATH_COLUMNS)}", source=path)
    name = path_column(table.column_names)
    column = decoded(table.column(name))
    if not (_is_string(column.type) or _is_binary(column.type)):
        raise UsageError(
            f"manifest {path}: column {name!r} holds {column.type}, not paths; name the column of paths "
            f"{', '.join(PATH_COLUMNS)}",
            source=path,
        )
    others = {_free_name(other): _normal(table.column(other)) for other in table.column_names if other != name}
    return _manifest_of(path, [_path_of(value) for value in column.to_pylist()], pa.table(others))


def _manifest_of(path: str, names: list[str], columns: pa.Table) -> Manifest:
    folder, text = os.path.dirname(path), "\n".join(["", *names, ""])
    # A name may hold line ends itself: then lines are no names.
    if text.count("\n") == len(names) + 1 and not any(odd in text for odd in _ODD):
        # A million names are not taken apart for nothing: `absolute` would only put the folder before each, or not.
        num_complete = text.count("\n/")
        if num_complete in (0, len(names)) and folder != os.sep:
            return Manifest("" if num_complete else folder, names, columns)
    return Manifest("", [absolute(name, folder) for name in names], columns)


def _path_of(value: str | bytes | None) -> str:
    return os.fsdecode(value) if isinstance(value, bytes) else unescape(value or "")


def _free_name(name: str) -> str:
    """Keep a manifest's column apart from the fact of the same name."""
    return f"manifest_{name}" if name in FACTS and name != "label" else name


def _normal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bring a column into a type that comes back from a Parquet file as it went in; an empty string is a null."""
    column = decoded(column)
    if _is_binary(column.type):
        texts = [None if value is None else escape(os.fsdecode(value)) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    if _is_string(column.type):
        column = column.cast(pa.string())
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if column.type == pa.timestamp("s", getattr(column.type, "tz", None)):
        return column.cast(pa.timestamp("us", column.type.tz))
    return column.cast(pa.time32("ms")) if column.type == pa.time32("s") else column


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
