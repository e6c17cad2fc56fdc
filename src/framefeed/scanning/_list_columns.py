"""Name the columns of a list, find the column of paths, or build paths from several columns by a template.

A template such as ``{label}/{id:06d}.mp4`` uses the formats of ``str.format``.
"""

from __future__ import annotations

import json
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from framefeed._checks import describe_value
from framefeed._names import unescape
from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError
from framefeed.scanning._list_text import PATH_COLUMNS, URL_COLUMNS, ListTable, count_media
from framefeed.scanning._list_values import ListText, is_number_format, is_text_column

_MAX_SIZE = 1000
"""Largest width and precision: a path has at most 4,096 bytes, and 99999999999 characters do not fit into memory."""
_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}
_EXAMPLES = (0, 0.0, "")


class TemplatePart(NamedTuple):
    """Fixed text of a template, and the column whose value follows it.

    Attributes:
        text: The fixed text.
        name: Name of the column; None after the last one.
        spec: Format of the value, or "".
        conversion: "s", "r" or "a", or None.
    """

    text: str
    name: str | None
    spec: str
    conversion: str | None

    @property
    def field(self) -> str:
        """The column in the syntax of the template, with braces."""
        conversion = f"!{self.conversion}" if self.conversion else ""
        return f"{{{self.name}{conversion}{self.spec and ':' + self.spec}}}"


def parse_template(template: str) -> list[TemplatePart]:
    """Parse a template into its parts.

    Raises:
        UsageError: It is not a template, or one of its formats cannot be used.
    """
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"path_template={template!r} cannot be read: {error}") from error
    parts = [TemplatePart(text, name, spec or "", conversion) for text, name, spec, conversion in fields]
    for part in parts:
        reason = "" if part.name is None else _explain_bad_part(part)
        if reason:
            raise UsageError(f"path_template={template!r}: {part.field} {reason}")
    return parts


def _explain_bad_part(part: TemplatePart) -> str:
    """Explain why a part is invalid, and how to correct it; "" for a valid part."""
    if not part.name:
        return (
            "names no column: write the name of a column into the braces, such as {label}, or {column_0} for the first "
            "column of a list without a header"
        )
    if "{" in part.spec:
        return f"has braces inside braces: write a number there, as in {{{part.name}:>6}}"
    if any(len(digits) > 4 or int(digits) > _MAX_SIZE for digits in re.findall(r"\d+", part.spec)):
        return f"has a width or precision above {_MAX_SIZE:,}: write a smaller number"
    if part.conversion and part.conversion not in _CONVERSIONS:
        return f"has an unknown conversion: expected !s, !r or !a, found !{part.conversion}"
    if "%" in part.spec:  # The format of a date, such as %Y, may be anything.
        return ""
    for example in ("",) if part.conversion else _EXAMPLES:
        with suppress(ValueError):
            format(example, part.spec)
            return ""
    values = f"text, which !{part.conversion} gives" if part.conversion else "numbers or text"
    return f"has a format that does not fit {values}: expected one of str.format, such as 06d for numbers"


def fill_template(parts: Sequence[TemplatePart], row: Mapping[str, Any]) -> str:
    """Fill the values of a row into a template.

    Raises:
        UsageError: A value does not fit its format.
    """
    # Not with str.format, for which "{video.id}" and "{box[0]}" are not names of columns, but parts of a value.
    texts = list[str]()
    for part in parts:
        texts.append(part.text)
        if part.name is None:
            continue
        value = row[part.name]
        try:
            texts.append(format(_CONVERSIONS[part.conversion](value) if part.conversion else value, part.spec))
        except (OverflowError, ValueError, TypeError) as error:
            needed = "text" if part.spec.endswith("s") else "text or a number"
            if is_number_format(part.spec):
                needed = "an integer" if part.spec[-1] in "bcdoxX" else "a number"
            reason = f"and {part.field} in path_template needs {needed}"
            if isinstance(error, OverflowError):
                reason = f"outside of the range of {part.field} in path_template"
            message = f"{part.name} is {value!r:.100}, {reason}: correct the line, or the template"
            raise UsageError(message) from error
    return "".join(texts)


_LABEL = "label"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options for reading lists.

    Attributes:
        columns: New name of a column ("path", "label", ...) -> its name in the list, or its number from 0.
        path_template: Path built from columns, in the syntax of ``str.format``: ``"{label}/{youtube_id}.mp4"``.
        folder: Folder where relative paths start; None for that of the list.

    Raises:
        UsageError: An option has a wrong type, or both name the paths.
    """

    columns: Mapping[str, str | int] | None = None
    path_template: str | None = None
    folder: str | None = None

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
        """Parts of the template."""
        return parse_template(self.path_template or "")

    @property
    def template_fields(self) -> list[str]:
        """Names of the columns that the template uses."""
        return [part.name for part in self.template_parts if part.name is not None]

    @property
    def number_fields(self) -> set[str]:
        """Names of the columns that the template formats as numbers."""
        parts = self.template_parts
        return {part.name for part in parts if part.name is not None and part.spec and is_number_format(part.spec)}

    @property
    def required_names(self) -> set[str]:
        """Names of columns that a list must have."""
        return {*self.template_fields, *(name for name in (self.columns or {}).values() if isinstance(name, str))}


def rename_columns(listed: ListTable, options: ListOptions) -> ListTable:
    """Rename columns by the options; without a header, name the others by their numbers.

    A column ``Label`` or ``LABEL`` is renamed to ``label`` if there is no such column.

    Raises:
        UsageError: A column is missing, two columns would have the same name, or several may be the label.
    """
    old = listed.table.column_names
    chosen = {_find_column(listed, each, new): new for new, each in (options.columns or {}).items()}
    names = list(old)
    if not listed.has_header:
        # A list of paths with one value: the value is the label.
        plain = {1: _LABEL} if len(names) == 2 and not chosen else {}
        names = [plain.get(at, f"column_{at}") for at in range(len(names))]
    names = [chosen.get(at, name) for at, name in enumerate(names)]
    if _LABEL not in names:
        alike = [at for at, name in enumerate(names) if at not in chosen and name.strip().lower() == _LABEL]
        if len(alike) > 1:
            first, second = (names[at] for at in alike[:2])
            raise UsageError(
                f"both columns {first!r} and {second!r} may be the label: say which one, as in "
                f'columns={{"label": "{first}"}}'
            )
        names = [_LABEL if at in alike else name for at, name in enumerate(names)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise _two_of_one_name(twice, old, options.columns or {}, listed.has_header)
    return replace(listed, table=listed.table.rename_columns(names))


def _two_of_one_name(twice: str, old: Sequence[str], columns: Mapping[str, str | int], has_header: bool) -> UsageError:
    asked = {new: each for new, each in columns.items() if new == twice}
    if not asked:
        return UsageError(f"two columns have one name ({twice!r}): give each column of the list another name")
    other: str | int = twice if has_header else int(twice.removeprefix("column_"))
    example = _to_json({**asked, f"other_{twice}": other})
    return UsageError(
        f"columns={_to_json(asked)} would give two columns one name, {twice!r}: the list has a column {other!r} too "
        f"(it has {', '.join(map(repr, old))}): give that one another name, as in columns={example}"
    )


def _find_column(listed: ListTable, old: str | int, new: str) -> int:
    names = listed.table.column_names
    if isinstance(old, int):
        if -len(names) <= old < len(names):
            return old % len(names)
        count = f"{len(names)} column{'' if len(names) == 1 else 's'}, 0 to {len(names) - 1}"
        raise UsageError(f"it has {count}, and no column {old}{_describe_first_row(listed)}")
    if not listed.has_header:
        raise UsageError(
            f"it has no header, and so no column {old!r}: give its number from 0, as in columns={{{_to_json(new)}: 0}}"
        )
    if old in names:
        return int(names.index(old))
    alike = [at for at, name in enumerate(names) if name.strip().lower() == old.strip().lower()]
    if len(alike) == 1:
        return alike[0]
    if new in names and not did_you_mean(old, names):
        raise UsageError(
            f"it has no column {old!r}, but {', '.join(map(repr, names))}: in columns= the new name comes first, "
            f"then the name in the list: columns={_to_json({old: new})}"
        )
    raise _unknown_column(names, old)


def _describe_first_row(listed: ListTable) -> str:
    """Describe how the first valid row was split, and how values are separated."""
    row = next((row for row in range(len(listed.table)) if row not in listed.bad), None)
    if row is None:
        return ""
    values = [_to_template_value(value) for value in listed.table.slice(row, 1).to_pylist()[0].values()]
    hint = "; blanks separate values only if all are numbers: use tabs or commas"
    has_blank = listed.line_of is not None and not listed.has_header and " " in str(values[-1])
    return f" ({listed.describe_row(row)} is read as {', '.join(map(repr, values))}{hint if has_blank else ''})"


def _unknown_column(names: list[str], old: str) -> UsageError:
    known = ", ".join(map(repr, names))
    return UsageError(f"it has no column {old!r}: its columns are {known}{did_you_mean(old, names)}")


def find_path_column(table: pa.Table) -> str:
    """Find the column of paths: by its name, by its values, which end like media files, or by a name of a URL.

    Raises:
        UsageError: No column, or more than one, is suitable.
    """
    names = table.column_names
    lowered = {name.strip().lower(): name for name in reversed(names)}
    by_name = next((lowered[name] for name in PATH_COLUMNS if name in lowered), None)
    if by_name is not None or len(names) == 1:
        return by_name or str(names[0])
    counts = {name: count_media(table.column(name)) for name in names}
    best = max(names, key=counts.__getitem__)
    both = [name for name in names if 2 * counts[name] >= counts[best] > 0]
    is_text = {name for name in names if is_text_column(table.column(name).type)}
    urls = [lowered[name] for name in URL_COLUMNS if lowered.get(name) in (both or is_text)]
    if urls:
        return str(urls[0])
    if len(both) > 1:
        raise UsageError(
            f"its columns {', '.join(map(repr, both))} all hold names of media files: say which one holds the paths, "
            f'as in columns={{"path": "{both[0]}"}}'
        )
    if both:
        return str(best)
    raise UsageError(
        f"none of its columns ({', '.join(names)}) holds names of media files: say which one holds the paths, as in "
        f'columns={{"path": "{names[0]}"}}, or build paths from several, as in '
        f'path_template="{{{names[0]}}}/{{{names[1]}}}.mp4"'
    )


def build_paths(listed: ListTable, renamed_table: pa.Table, options: ListOptions) -> Iterator[str | UsageError]:
    """Build the path of each row by the template; yield an error for a row whose values do not fit.

    Args:
        listed: The list with its own column names, which the template may use.
        renamed_table: Its table with the new column names, which the template may use too.
        options: Options with a template.

    Raises:
        UsageError: The template uses a column that does not exist.
    """
    parts, fields = options.template_parts, options.template_fields
    # Without a header, the names of the list are only the numbers of its columns.
    tables = (renamed_table, listed.table) if listed.has_header else (renamed_table,)
    known = {name: each.column(name) for each in tables for name in each.column_names}
    for field in fields:
        if field in known:
            continue
        names = tables[-1].column_names
        by_number = {str(number): name for number, name in enumerate(names)}
        if field in by_number:
            raise UsageError(
                "path_template takes the names of columns, not their numbers: write "
                f"{{{by_number[field]}}} in place of {{{field}}}"
            )
        raise _unknown_column(names, field)
    columns = [known[name].to_pylist() for name in fields]
    for number, values in enumerate(zip(*columns, strict=True)):
        row = {name: _to_template_value(value) for name, value in zip(fields, values, strict=True)}
        empty = [name for name, value in row.items() if value is None or value == ""]
        if empty:
            yield UsageError(
                f"{listed.describe_row(number)}: {empty[0]} is empty, and path_template={options.path_template!r} "
                "needs it: add it, or remove the line"
            )
            continue
        try:
            yield fill_template(parts, row)
        except UsageError as error:
            yield UsageError(f"{listed.describe_row(number)}: {error}")


def _to_json(value: object) -> str:
    """Write text or a dict for the examples in messages."""
    return json.dumps(value, ensure_ascii=False)


def _to_template_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return ListText(os.fsdecode(value))
    if isinstance(value, str):
        return ListText(unescape(value))
    # 12.0, from a column with fractions or gaps, fits {:06d} like 12.
    return int(value) if isinstance(value, float) and value.is_integer() else value
