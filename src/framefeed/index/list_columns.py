"""Which column of a list holds the paths, what the others are called, and paths built from several columns."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from framefeed._checks import shown
from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError
from framefeed.index.list_text import PATH_COLUMNS, ListTable, count_media
from framefeed.index.names import unescape


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How lists are read, where they do not say it themselves.

    Attributes:
        columns: Column of the list, by name or by number from 0, for each name that it is to have: "path", "label", ...
        path_template: Path built from columns, in the words of ``str.format``: ``"{label}/{youtube_id}.mp4"``.
        folder: Folder that relative paths count from; None for that of the list.

    Raises:
        UsageError: Something is not of its kind, or both name the paths.
    """

    columns: Mapping[str, str | int] | None = None
    path_template: str | None = None
    folder: str | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not _is_mapping(self.columns):
            raise UsageError(
                'columns must be a dict such as {"path": 0, "label": 1}, from the name of each column in the catalog '
                f"to its number or name in the list, got {shown(self.columns)}"
            )
        if self.path_template is None:
            return
        if not isinstance(self.path_template, str) or not self.template_fields:
            raise UsageError(
                f'path_template must be text with columns in braces, such as "{{label}}/{{id}}.mp4", got '
                f"{shown(self.path_template)}"
            )
        if "path" in (self.columns or {}):
            raise UsageError("both columns['path'] and path_template say what the paths are: give one of the two")

    @property
    def template_fields(self) -> list[str]:
        """Columns that the template names."""
        try:
            parts = list(string.Formatter().parse(self.path_template or ""))
        except ValueError as error:
            raise UsageError(f"path_template={self.path_template!r} cannot be read: {error}") from error
        return [name for _, name, _, _ in parts if name]

    @property
    def wanted(self) -> set[str]:
        """Names that a list must have."""
        return {*self.template_fields, *(name for name in (self.columns or {}).values() if isinstance(name, str))}


def _is_mapping(columns: object) -> bool:
    return isinstance(columns, Mapping) and all(
        isinstance(new, str) and isinstance(old, (str, int)) and not isinstance(old, bool)
        for new, old in columns.items()
    )


def renamed(found: ListTable, options: ListOptions) -> ListTable:
    """Give columns the names that are asked for; without a header, the others get names by their numbers.

    Raises:
        UsageError: A column that is asked for is not there.
    """
    names = found.table.column_names
    chosen = {_column_at(names, old, has_header=found.has_header): new for new, old in (options.columns or {}).items()}
    if not found.has_header:
        # A path and one value: the value is the label.
        plain = {1: "label"} if len(names) == 2 and not chosen else {}
        names = [plain.get(at, f"column_{at}") for at in range(len(names))]
    names = [chosen.get(at, name) for at, name in enumerate(names)]
    if len(set(names)) < len(names):
        raise UsageError(
            f"two columns would have the same name ({', '.join(names)}): give the other one a name too, with columns="
        )
    return replace(found, table=found.table.rename_columns(names))


def _column_at(names: list[str], wanted: str | int, *, has_header: bool) -> int:
    if isinstance(wanted, int):
        if -len(names) <= wanted < len(names):
            return wanted % len(names)
        raise UsageError(f"it has no column {wanted}: its {len(names)} columns are numbered 0 to {len(names) - 1}")
    if not has_header:
        raise UsageError(
            f"it has no header, so columns have no names: in place of {wanted!r}, give the column's number from 0"
        )
    if wanted in names:
        return names.index(wanted)
    raise _unknown_column(names, wanted)


def _unknown_column(names: list[str], wanted: str) -> UsageError:
    known = ", ".join(map(repr, names))
    return UsageError(f"it has no column {wanted!r}: its columns are {known}{did_you_mean(wanted, names)}")


def path_column(table: pa.Table) -> str:
    """Choose the column of paths: by its name, else the one that holds names of media files.

    Raises:
        UsageError: It cannot be told.
    """
    names = table.column_names
    lowered = {name.strip().lower(): name for name in reversed(names)}
    by_name = next((lowered[name] for name in PATH_COLUMNS if name in lowered), None)
    if by_name is not None or len(names) == 1:
        return by_name or str(names[0])
    counts = {name: count_media(table.column(name)) for name in names}
    best = max(names, key=counts.__getitem__)
    if counts[best]:
        return str(best)
    raise UsageError(
        f"none of its columns ({', '.join(names)}) holds names of media files: say which one holds the paths, as in "
        f'columns={{"path": "{names[0]}"}}, or build paths from several, as in '
        f'path_template="{{{names[0]}}}/{{{names[1]}}}.mp4"'
    )


def built_paths(table: pa.Table, renamed_table: pa.Table, options: ListOptions) -> Iterator[str | UsageError]:
    """Build the path of each row by the template; an error where its values do not fit.

    Args:
        table: Columns by the names of the list, which the template may use.
        renamed_table: The same by the names that are asked for, which it may use too.
        options: Hold the template.

    Raises:
        UsageError: The template names a column that is not there, or more of it than its value.
    """
    template, fields = options.path_template or "", options.template_fields
    known = {name: each.column(name) for each in (renamed_table, table) for name in each.column_names}
    for field in fields:
        if field not in known:
            # Also "{label.name}" and "{label[0]}": values are text and numbers.
            raise _unknown_column(table.column_names, field)
    columns = [known[name].to_pylist() for name in fields]
    for number, values in enumerate(zip(*columns, strict=True)):
        row = {name: _plain(value) for name, value in zip(fields, values, strict=True)}
        missing = [name for name, value in row.items() if value is None]
        if missing:
            yield UsageError(f"row {number}: has no {missing[0]}, which path_template needs")
            continue
        try:
            yield template.format_map(row)
        except ValueError as error:
            yield UsageError(f"row {number}: {row} does not fit path_template={template!r}: {error}")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, str):
        return unescape(value)
    # 12.0 of a column with fractions or gaps fits {:06d} as 12 does.
    return int(value) if isinstance(value, float) and value.is_integer() else value
