"""Read the files of a data set: JSON, lines of JSON and tables, in a folder or below a URL."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from framefeed._files import open_regular, raise_file_error, stat_regular
from framefeed._names import is_url, make_absolute
from framefeed._shown import show_name, strip_url
from framefeed._values import Limits, make_limit_error, read_bytes
from framefeed.catalog import cache_file, find_odd_text
from framefeed.errors import MediaError, MissingMedia, UnreadableMedia
from framefeed.media import MediaSource, StorageOptions, copy_object, read_version
from framefeed.parallel import try_again_in_shortage

_LFS = b"version https://git-lfs"
_LFS_ADVICE = "is a Git LFS pointer in place of the file: run 'git lfs pull' in its folder"


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


_WITH_NAN, _WITHOUT_NAN = json.JSONDecoder(), json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass(frozen=True)
class Files:
    """The files of a data set."""

    root: str  # absolute path of the folder, or its URL; other names of files are relative to it
    limits: Limits  # ``max_header_bytes`` bounds each file of JSON, ``max_members`` the rows of a table
    storage_options: StorageOptions | None = field(default=None, repr=False)

    def join(self, name: str) -> str:
        return make_absolute(name, self.root)

    def is_there(self, name: str) -> bool:
        try:
            self.find_version(name)
        except MissingMedia:
            return False
        return True

    def find_version(self, name: str) -> str:
        """Find which version of a file is there: another text means other bytes."""
        path = self.join(name)

        def find() -> str:
            if is_url(path):
                source = MediaSource.of(path, self.storage_options)
                with source.opened() as reader:
                    return read_version(source, reader)
            facts = stat_regular(path)
            return f"{facts.st_size} {facts.st_mtime_ns}"

        return try_again_in_shortage(find, path, "open")

    def read(self, name: str) -> bytes:
        return try_again_in_shortage(lambda: self._read(name), self.join(name), "open")

    def _read(self, name: str) -> bytes:
        path, most = self.join(name), self.limits.max_header_bytes
        with MediaSource.of(path, self.storage_options).opened() as reader:
            size = reader.stat().bytes
            if size > most:
                raise make_limit_error(self.limits, "max_header_bytes", f"{size} bytes", show_name(path), "open")
            data = read_bytes(reader, 0, size)
        if data.startswith(_LFS):
            self.refuse(name, _LFS_ADVICE)
        return data

    def read_json(self, name: str, *, has_nan: bool = False) -> dict[str, Any]:
        """Read a JSON file that holds an object; with ``has_nan``, as of statistics, NaN and Infinity are numbers."""
        return self._parse(name, self._decode(name), "", has_nan)

    def read_lines(self, name: str, *, has_nan: bool = False) -> list[dict[str, Any]]:
        """Read a file that holds an object of JSON in each line."""
        lines = self._decode(name).splitlines()
        return [
            self._parse(name, line, f"line {number}: ", has_nan) for number, line in enumerate(lines, 1) if line.strip()
        ]

    def _decode(self, name: str) -> str:
        try:
            return self.read(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.refuse(name, f"is not UTF-8 ({error})", error)

    def _parse(self, name: str, text: str, where: str, has_nan: bool) -> dict[str, Any]:
        try:
            value = (_WITH_NAN if has_nan else _WITHOUT_NAN).decode(text)
        except (ValueError, RecursionError) as error:
            self.refuse(name, f"{where}is no JSON ({error})", error)
        if not isinstance(value, dict):
            self.refuse(name, f"{where}expected an object of JSON, got {type(value).__name__}")
        return value

    def read_table(self, name: str, keep: Callable[[str], bool]) -> pa.Table:
        """Read the columns of a Parquet file for whose names ``keep`` is true."""
        path = self.join(name)

        def read() -> pa.Table:
            local = self._copy(path) if is_url(path) else path
            with os.fdopen(open_regular(local), "rb") as file, pq.ParquetFile(file) as parquet:
                if parquet.metadata.num_rows > self.limits.max_members:
                    rows = f"{parquet.metadata.num_rows} rows"
                    raise make_limit_error(self.limits, "max_members", rows, show_name(path), "open")
                names = [column for column in parquet.schema_arrow.names if keep(column)]
                table = parquet.read(columns=names, use_threads=False)
            for column, values in zip(table.column_names, table.columns, strict=True):
                if (odd := find_odd_text(values)) is not None:
                    raise ValueError(f"the text {odd[1]!r} in row {odd[0]} of the column {column!r} is not UTF-8")
            return table

        try:
            return try_again_in_shortage(read, path, "read")
        except MediaError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None and not is_url(path):
                raise_file_error(error, path, "read")
            with io.FileIO(open_regular(self._copy(path) if is_url(path) else path)) as file:
                is_pointer = file.read(len(_LFS)) == _LFS
            what = _LFS_ADVICE if is_pointer else f"cannot be read as a Parquet file ({str(error).rstrip('.')})"
            self.refuse(name, what, error)

    def _copy(self, url: str) -> str:
        """Copy a table to the user's cache folder, unless it is there; return its path."""
        source = MediaSource.of(url, self.storage_options)
        with source.opened() as reader:
            version = read_version(source, reader)
            return cache_file("tables", strip_url(url), version, ".parquet", lambda path: copy_object(reader, path))

    def refuse(self, name: str, what: str, cause: BaseException | None = None) -> NoReturn:
        """Raise UnreadableMedia for a file; where ``what`` has no next step, that is to copy the data set again."""
        shown = show_name(self.join(name))
        advice = "" if ": " in what else ": correct it, or copy the data set again"
        raise UnreadableMedia(f"{shown}: {what}{advice}", source=shown, stage="open") from cause
