"""Make rows of the members of a tar archive: a row for each medium, with the values beside it in its sample.

Samples are those of WebDataset; see `SampleGrouper`. Values are kept as text until those of all archives are known:
their types depend on all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._names import PartName
from framefeed._shown import show_name
from framefeed._values import Limits, make_limit_error
from framefeed.archives import NO_FILE, SKIPPED, ArchiveDamage, MemberKind, MemberTable, SampleGrouper, split_name
from framefeed.errors import FramefeedError, UnreadableMedia
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, get_suffix, to_strings

TEXT_FIELDS = ("txt", "text", "transcript")
"""Fields that become columns of their names, as they are."""
NUMBER_FIELDS = ("cls", "cls2", "class", "count", "index", "inx", "id")
"""Fields that become columns of their names, "cls" the label: whole numbers if all values are, else text."""
_JSON_FIELDS = frozenset({"json", "jsn"})
_VALUE_FIELDS = _JSON_FIELDS.union(TEXT_FIELDS, NUMBER_FIELDS)
MOST_JSON_COLUMNS = 1000
"""Names of values in JSON, of a whole scan."""
# Bytes that a byte of a value counts against `Limits.max_header_bytes`: it may have a megabyte by default.
_VALUE_COST = 2**8


@dataclass(frozen=True, slots=True)
class ArchiveRows:
    """The rows of one archive, in its order."""

    container: str
    names: list[str]
    offset: IntArray  # first byte of each medium in the archive, [R]; -1 of rows with an error
    size: IntArray
    keys: pa.Array  # of each row's sample
    fields: pa.Array  # of each row in its sample
    errors: dict[int, FramefeedError]  # by row
    texts: dict[str, pa.Array] = field(default_factory=dict)  # values of the text and number fields, by field
    json: dict[str, pa.Array] = field(default_factory=dict)  # values by name, as JSON; at most ``MOST_JSON_COLUMNS``
    left_out: bool = False  # whether there were more names of values in JSON
    version: str = ""
    columns: pa.Table | None = None  # of a Parquet file, beside the media
    files: frozenset[int] = frozenset()  # rows whose names are those of files, not of parts
    classes: tuple[str, ...] = ()  # of a Parquet file, in the order of their numbers, if it says them
    remark: str = ""  # a warning about the labels of a Parquet file

    def __len__(self) -> int:
        return len(self.names)


class RowList:
    """Rows of one container as they are added."""

    def __init__(self, container: str) -> None:
        self.container = container
        self.names = list[str]()
        self.errors = dict[int, FramefeedError]()
        self._offsets, self._sizes = list[int](), list[int]()
        self._keys, self._fields = list[str | None](), list[str | None]()

    def add(self, name: str, offset: int, size: int, key: str | None = None, field_name: str | None = None) -> int:
        """Add a row; return its number."""
        self.names.append(name)
        self._offsets.append(offset)
        self._sizes.append(size)
        self._keys.append(key)
        self._fields.append(field_name)
        return len(self.names) - 1

    def add_error(
        self, name: str, error: FramefeedError, key: str | None = None, field_name: str | None = None
    ) -> None:
        """Add a row that cannot be read."""
        self.errors[self.add(name, -1, 0, key, field_name)] = error

    def finish(self, **others: Any) -> ArchiveRows:
        """Return the rows, with other fields of theirs."""
        numbers = np.array(self._offsets, np.int64), np.array(self._sizes, np.int64)
        samples = to_strings(self._keys), to_strings(self._fields)
        return ArchiveRows(self.container, self.names, *numbers, *samples, self.errors, **others)


def make_error_row(container: str, error: FramefeedError) -> ArchiveRows:
    """Make the one row of an archive that cannot be read."""
    rows = RowList(container)
    rows.add_error(container, error)
    return rows.finish()


@dataclass(slots=True)
class _Sparse:
    """Values of some rows."""

    rows: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def add(self, rows: list[int], value: str) -> None:
        """Give rows one value."""
        self.rows += rows
        self.values += [value] * len(rows)

    def to_arrow(self, num_rows: int) -> pa.Array:
        """Make a column, null where there is no value."""
        indices = np.full(num_rows, -1)
        indices[self.rows] = np.arange(len(self.rows))
        return to_strings(self.values).take(pa.array(indices, mask=indices < 0))


class _BadValue(Exception):
    """A value cannot be read."""


class TarRowMaker:
    """Makes rows of the tables of one walk, in order; ``read`` reads values: bytes of the archive at an offset."""

    def __init__(self, container: str, limits: Limits, read: Callable[[int, int], bytes]) -> None:
        self._shown = show_name(container)
        self._limits = limits
        self._read = read
        self._grouper = SampleGrouper()
        self._rows = RowList(container)
        self._texts: dict[str, _Sparse] = {}
        self._json: dict[str, _Sparse] = {}
        self._left_out = False
        self._damage: ArchiveDamage | None = None
        # Of the sample that is read now.
        self._sample = SKIPPED
        self._sample_rows: list[int] = []
        self._values: dict[str, str] = {}
        self._object: dict[str, str] = {}
        self._error: FramefeedError | None = None

    def add(self, table: MemberTable) -> None:
        """Add the next members of the archive."""
        samples = self._grouper.group(table)
        columns = (table.names, table.offset.tolist(), table.size.tolist(), table.kind.tolist())
        numbers, keys, fields = samples.sample.tolist(), samples.keys, samples.fields
        for row, (name, offset, size, kind) in enumerate(zip(*columns, strict=True)):
            if numbers[row] == SKIPPED:
                if kind not in (MemberKind.FILE, MemberKind.FOLDER) and get_suffix(name) in ALL_MEDIA_SUFFIXES:
                    key, label = split_name(name) or (None, None)
                    error = self._explain_kind(name, kind, table.targets.get(row, ""))
                    self._rows.add_error(name, error, key, label)
                continue
            if numbers[row] != self._sample:
                self._end_sample()
                self._sample = numbers[row]
            field_name = fields[row]
            is_value = field_name in _VALUE_FIELDS
            if not is_value and f".{field_name.rpartition('.')[2]}" not in ALL_MEDIA_SUFFIXES:
                continue
            unreadable = None if kind == MemberKind.FILE else self._explain_kind(name, kind, "")
            if is_value:
                self._error = self._error or unreadable or self._read_value(name, field_name, offset, size)
            elif unreadable is None:
                self._sample_rows.append(self._rows.add(name, offset, size, keys[row], field_name))
            else:
                self._rows.add_error(name, unreadable, keys[row], field_name)
        self._damage = table.damage

    def _explain_kind(self, name: str, kind: int, target: str) -> UnreadableMedia:
        return self._make_error(name, NO_FILE[MemberKind(kind)].format(target=target))

    def _make_error(self, name: str, reason: str) -> UnreadableMedia:
        message = f"{self._shown}: the member {name!r} {reason}"
        return UnreadableMedia(message, source=self._shown, stage="open")

    def _read_value(self, name: str, field_name: str, offset: int, size: int) -> FramefeedError | None:
        """Read a value beside the media of a sample; return why it cannot be used."""
        if size * _VALUE_COST > self._limits.max_header_bytes:
            claim = f"a member {name!r} of {size} bytes, read as a value,"
            return make_limit_error(self._limits, "max_header_bytes", claim, self._shown, "open")
        try:
            text = self._read_text(offset, size)
            if field_name in _JSON_FIELDS:
                self._object |= _parse_object(text)
            elif field_name in NUMBER_FIELDS:
                self._values[field_name] = text.strip()
                if not self._values[field_name]:
                    raise _BadValue("is empty")
            else:
                self._values[field_name] = text
        except _BadValue as bad:
            return self._make_error(name, f"{bad}: correct it, or leave it out of the archive")
        return None

    def _read_text(self, offset: int, size: int) -> str:
        data = self._read(offset, size)
        if len(data) < size:
            raise _BadValue("ends early, because the archive got shorter while it was read")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _BadValue(f"is not UTF-8 (at its byte {error.start})") from error

    def _end_sample(self) -> None:
        """Give the rows of a sample its values, or its error."""
        doubled = self._grouper.doubled.get(self._sample)
        rows = self._sample_rows
        if doubled is not None and rows:
            name = self._rows.names[rows[0]]
            self._error = self._make_error(
                name, f"is in a sample with two fields {doubled!r}: give the second another key, or leave it out"
            )
        if self._error is not None:
            self._rows.errors.update(dict.fromkeys(rows, self._error))
        elif rows:
            for field_name, text in self._values.items():
                self._texts.setdefault(field_name, _Sparse()).add(rows, text)
            for key, text in self._object.items():
                if key in self._json or len(self._json) < MOST_JSON_COLUMNS:
                    self._json.setdefault(key, _Sparse()).add(rows, text)
                else:
                    self._left_out = True
        self._sample_rows, self._values, self._object, self._error = [], {}, {}, None

    def finish(self, version: str = "") -> ArchiveRows:
        """End the archive, and return its rows."""
        self._end_sample()
        self._refuse_repeats()
        container = self._rows.container
        self._rows.names = [PartName("tar", name, container).text for name in self._rows.names]
        if self._damage is not None:
            self._rows.add_error(container, self._damage.error)
        count = len(self._rows.names)
        return self._rows.finish(
            texts={name: column.to_arrow(count) for name, column in self._texts.items()},
            json={name: column.to_arrow(count) for name, column in self._json.items()},
            left_out=self._left_out,
            version=version,
        )

    def _refuse_repeats(self) -> None:
        """Make errors of media with one name, and give each a name of its own: a name in a catalog is of one medium."""
        names = self._rows.names
        if len(set(names)) == len(names):
            return
        counts, met = Counter(names), Counter[str]()
        for row, name in enumerate(names):
            if counts[name] > 1:
                reason = f"is {counts[name]} times in the archive: give each a name of its own, or leave the others out"
                self._rows.errors.setdefault(row, self._make_error(name, reason))
                met[name] += 1
                names[row] = name if met[name] == 1 else f"{name} (number {met[name]})"


def _parse_object(text: str) -> dict[str, str]:
    """Parse JSON to its values by name, each as JSON again; what is no object is called "json"."""
    try:
        parsed = json.loads(text)
        values = parsed if isinstance(parsed, dict) else {"json": parsed}
        return {name: json.dumps(value) for name, value in values.items()}
    except json.JSONDecodeError as error:
        raise _BadValue(f"is not JSON ({error.msg} at its character {error.pos + 1})") from error
    except (ValueError, RecursionError) as error:
        raise _BadValue(f"is JSON that cannot be read ({error})") from error
