"""Name the columns of a list, find the column of paths, or build the paths from several columns by a template."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from framefeed._checks import describe_value
from framefeed._names import unescape
from framefeed._nearest import did_you_mean
from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.errors import UsageError
from framefeed.media import StorageOptions
from framefeed.scanning._list_table import (
    LABEL,
    PATH_COLUMNS,
    URL_COLUMNS,
    ListTable,
    count_media,
    has_text,
)
from framefeed.scanning._list_template import ListText, TemplatePart, fill_template, parse_template

_NUMBERED = re.compile(r"column_\d+")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options for reading lists, and the names of the columns of archives and Parquet files."""

    columns: Mapping[str, str | int] | None = None  # new name -> name in the list, or number from 0
    path_template: str | None = None
    folder: str | None = None  # where relative paths start; None for that of the list
    limits: Limits = DEFAULT_LIMITS  # of a list by URL
    storage_options: StorageOptions | None = field(default=None, repr=False)
    has_numbered_classes: bool = False  # whether the call gives the classes as integers

    def __post_init__(self) -> None:
        is_mapping = isinstance(self.columns, Mapping) and all(
            isinstance(new, str) and isinstance(old, (str, int)) and not isinstance(old, bool)
            for new, old in self.columns.items()
        )
        if self.columns is not None and not is_mapping:
            raise UsageError(
                'columns must be a dict such as {"path": 0, "label": 1}, from the name of each column in the catalog '
                f"to its number or name in the list, got {describe_value(self.columns)}"
            )
        if self.path_template is None:
            return
        if not isinstance(self.path_template, str) or not self.template_fields:
            raise UsageError(
                f'path_template must be text with columns in braces, such as "{{label}}/{{id}}.mp4", got '
                f"{describe_value(self.path_template)}"
            )
        if "path" in (self.columns or {}):
            raise UsageError("both columns['path'] and path_template say what the paths are: give one of the two")

    @property
    def template_parts(self) -> list[TemplatePart]:
        return parse_template(self.path_template or "")

    @property
    def template_fields(self) -> list[str]:
        return [part.name for part in self.template_parts if part.name is not None]

    @property
    def required_names(self) -> set[str]:
        """Names of columns that a list must have."""
        return {*self.template_fields, *(name for name in (self.columns or {}).values() if isinstance(name, str))}

    @property
    def has_numbers(self) -> bool:
        """Whether columns are named by their numbers, as in a list without a header."""
        is_number = any(isinstance(old, int) for old in (self.columns or {}).values())
        return is_number or any(map(_NUMBERED.fullmatch, self.template_fields))


def rename_columns(listed: ListTable, options: ListOptions) -> ListTable:
    """Rename columns by the options; without a header, name the others by their numbers.

    A column ``Label`` or ``LABEL`` is renamed to ``label`` if there is no such column.
    """
    old = list(listed.columns)
    chosen = {_find_column(listed, each, new): new for new, each in (options.columns or {}).items()}
    names = list(old)
    if not listed.has_header:
        # A list of paths with one value: the value is the label.
        plain = {1: LABEL} if len(names) == 2 and not chosen else {}
        names = [plain.get(at, f"column_{at}") for at in range(len(names))]
    names = [chosen.get(at, name) for at, name in enumerate(names)]
    if LABEL not in names:
        alike = [at for at, name in enumerate(names) if at not in chosen and name.strip().lower() == LABEL]
        if len(alike) > 1:
            first, second = (names[at] for at in alike[:2])
            raise UsageError(
                f"both columns {first!r} and {second!r} may be the label: say which one, as in "
                f'columns={{"label": "{first}"}}'
            )
        names = [LABEL if at in alike else name for at, name in enumerate(names)]
    _check_unique(names, listed, options)
    return replace(listed, columns=dict(zip(names, listed.columns.values(), strict=True)))


def rename_chosen(listed: ListTable, options: ListOptions) -> ListTable:
    """Rename the columns that the options name; all others keep their names."""
    chosen = options.columns or {}
    for new, old in chosen.items():
        if isinstance(old, int):
            known = ", ".join(map(repr, listed.columns))
            raise UsageError(f"its columns have names, and no numbers: give one for {new!r} in place of {old}: {known}")
    position_of = {_find_column(listed, old, new): new for new, old in chosen.items()}
    names = [position_of.get(at, name) for at, name in enumerate(listed.columns)]
    _check_unique(names, listed, options)
    return replace(listed, columns=dict(zip(names, listed.columns.values(), strict=True)))


def _check_unique(names: Sequence[str], listed: ListTable, options: ListOptions) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        asked = {new: each for new, each in (options.columns or {}).items() if new == twice}
        other: str | int = twice if listed.has_header else int(twice.removeprefix("column_"))
        example = _to_json({**asked, f"other_{twice}": other})
        raise UsageError(
            f"columns={_to_json(asked)} would give two columns one name, {twice!r}: it has a column {other!r} "
            f"too, of {', '.join(map(repr, listed.columns))}: give that one another name, as in columns={example}"
        )


def _find_column(listed: ListTable, old: str | int, new: str) -> int:
    names = list(listed.columns)
    if isinstance(old, int):
        if -len(names) <= old < len(names):
            return old % len(names)
        count, first = f"{len(names)} column{'' if len(names) == 1 else 's'}, 0 to {len(names) - 1}", ""
        row = next((row for row in range(len(listed)) if row not in listed.bad), None)
        if row is not None and listed.is_text and not listed.has_header:
            cells = [column[row] for column in listed.columns.values()]
            values = [unescape(cell if isinstance(cell, str) else cell.as_py()) for cell in cells]
            hint = "; blanks separate values only if all are numbers: use tabs or commas" if " " in values[-1] else ""
            first = f" ({listed.describe_row(row)} is read as {', '.join(map(repr, values))}{hint})"
        raise UsageError(f"it has {count}, and no column {old}{first}")
    if not listed.has_header:
        raise UsageError(
            f"it has no header, and so no column {old!r}: give its number from 0, as in columns={{{_to_json(new)}: 0}}"
        )
    if old in names:
        return names.index(old)
    alike = [at for at, name in enumerate(names) if name.strip().lower() == old.strip().lower()]
    if len(alike) == 1:
        return alike[0]
    if new in names and not did_you_mean(old, names):
        raise UsageError(
            f"it has no column {old!r}, but {', '.join(map(repr, names))}: in columns= the new name comes first, "
            f"then the name in the list: columns={_to_json({old: new})}"
        )
    raise _unknown_column(names, old)


def _unknown_column(names: Sequence[str], old: str) -> UsageError:
    known = ", ".join(map(repr, names))
    return UsageError(f"it has no column {old!r}: its columns are {known}{did_you_mean(old, names)}")


def find_path_column(listed: ListTable) -> str:
    """Find the column of paths: by its name, by its values, which end like media files, or by a name of a URL."""
    names = list(listed.columns)
    lowered = {name.strip().lower(): name for name in reversed(names)}
    by_name = next((lowered[name] for name in PATH_COLUMNS if name in lowered), None)
    if by_name is not None or len(names) == 1:
        return by_name or names[0]
    counts = {name: count_media(column) for name, column in listed.columns.items()}
    most = max(counts.values())
    both = [name for name in names if 2 * counts[name] >= most > 0]
    text = [name for name, column in listed.columns.items() if has_text(column)]
    by_url = next((lowered[name] for name in URL_COLUMNS if lowered.get(name) in (both or text)), None)
    if by_url is not None or len(both) == 1:
        return by_url or both[0]

    def show(name: str) -> str:
        return _to_json({"path": name if listed.has_header else names.index(name)})

    if both:
        raise UsageError(
            f"its columns {', '.join(map(repr, both))} all hold names of media files: say which one holds the paths, "
            f"as in columns={show(both[0])}"
        )
    raise UsageError(
        f"none of its columns ({', '.join(names)}) holds names of media files: say which one holds the paths, as in "
        f"columns={show(names[0])}, or build paths from several, as in "
        f'path_template="{{{names[0]}}}/{{{names[1]}}}.mp4"'
    )


def build_paths(listed: ListTable, renamed: ListTable, options: ListOptions) -> Iterator[str | UsageError]:
    """Build the path of each row by the template; yield an error for a row whose values do not fit.

    The template may use the list's own names of columns, and those that it is ``renamed`` to.
    """
    parts, fields = options.template_parts, options.template_fields
    # Without a header, the names of the list are only the numbers of its columns.
    known = {**renamed.columns, **listed.columns} if listed.has_header else renamed.columns
    for needed in fields:
        if needed not in known:
            names = list((listed if listed.has_header else renamed).columns)
            if not needed.isdecimal() or int(needed) >= len(names):
                raise _unknown_column(names, needed)
            raise UsageError(
                f"path_template takes the names of columns, not their numbers: write {{{names[int(needed)]}}} in place "
                f"of {{{needed}}}"
            )
    columns = [column if isinstance(column := known[name], list) else column.to_pylist() for name in fields]
    for number, values in enumerate(zip(*columns, strict=True)):
        row = {name: _to_template_value(value, listed) for name, value in zip(fields, values, strict=True)}
        empty = [name for name, value in row.items() if value is None or value == ""]
        try:
            if empty:
                needed = f"path_template={options.path_template!r} needs it: add it, or remove the line"
                raise UsageError(f"{empty[0]} is empty, and {needed}")
            yield fill_template(parts, row)
        except UsageError as error:
            yield UsageError(f"{listed.describe_row(number)}: {error}")


def _to_template_value(value: Any, listed: ListTable) -> Any:
    if isinstance(value, bytes):
        return ListText(os.fsdecode(value))
    if isinstance(value, str):
        text = unescape(value)
        return ListText(text.strip() if listed.is_text else text)
    # 12.0, from a column with fractions or gaps, fits {:06d} like 12.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_json(value: object) -> str:
    """Write text or a dict for the examples in messages."""
    return json.dumps(value, ensure_ascii=False)
