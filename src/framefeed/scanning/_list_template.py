"""Build paths by a template such as ``{label}/{id:06d}.mp4``, with the formats of ``str.format``."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from framefeed.errors import UsageError

_MAX_SIZE = 1000
"""Largest width and precision: a path has at most 4,096 bytes, and 99999999999 characters do not fit into memory."""
_EXAMPLES = (0, 0.0, "")
_NUMBER_FORMATS = tuple("bcdeEfFgGnoxX%")
_INTEGER = re.compile(r"\s*[+-]?\d+(\.0*)?\s*")
_FLOAT = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")


class TemplatePart(NamedTuple):
    """Fixed text of a template, and the column whose value follows it; None after the last one."""

    text: str
    name: str | None
    spec: str

    @property
    def field(self) -> str:
        """The column in the syntax of the template, with braces."""
        return f"{{{self.name}{self.spec and ':' + self.spec}}}"


def parse_template(template: str) -> list[TemplatePart]:
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"path_template={template!r} cannot be read: {error}") from error
    conversion = next((conversion for *_, conversion in fields if conversion), None)
    if conversion is not None:
        raise UsageError(f"path_template={template!r} has !{conversion}, a conversion: leave it out")
    parts = [TemplatePart(text, name, spec or "") for text, name, spec, _ in fields]
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
    if "%" in part.spec:  # The format of a date, such as %Y, may be anything.
        return ""
    for example in _EXAMPLES:
        with suppress(ValueError):
            format(example, part.spec)
            return ""
    return "has a format that does not fit numbers or text: expected one of str.format, such as 06d for numbers"


def fill_template(parts: Sequence[TemplatePart], row: Mapping[str, Any]) -> str:
    # Not with str.format, for which "{video.id}" and "{box[0]}" are not names of columns, but parts of a value.
    texts = list[str]()
    for part in parts:
        texts.append(part.text)
        if part.name is None:
            continue
        value = row[part.name]
        try:
            texts.append(format(value, part.spec))
        except (OverflowError, ValueError, TypeError) as error:
            needed = "text" if part.spec.endswith("s") else "text or a number"
            if _is_number_format(part.spec):
                needed = "an integer" if part.spec[-1] in "bcdoxX" else "a number"
            reason = f"and {part.field} in path_template needs {needed}"
            if isinstance(error, OverflowError):
                reason = f"outside of the range of {part.field} in path_template"
            message = f"{part.name} is {value!r:.100}, {reason}: correct the line, or the template"
            raise UsageError(message) from error
    return "".join(texts)


def _is_number_format(spec: str) -> bool:
    """Whether a format of ``str.format`` is for numbers, such as ``06d``, ``.2f`` and ``06``."""
    return spec[-1:] in _NUMBER_FORMATS or spec.startswith("0")


class ListText(str):
    """Text of a list that fits the formats of numbers if it is one: ``"7"`` fits ``{:06d}``."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if not _is_number_format(spec):
            return super().__format__(spec)
        if _INTEGER.fullmatch(self):
            return format(int(self.partition(".")[0]), spec)
        if _FLOAT.fullmatch(self):
            return format(float(self), spec)
        raise ValueError(f"{spec!r} is a format of numbers")
