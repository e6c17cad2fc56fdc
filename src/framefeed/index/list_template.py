"""Paths built from the values of a line: ``{label}/{id:06d}.mp4``, with the formats of ``str.format``."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from framefeed.errors import UsageError
from framefeed.index.list_values import is_number_format

_MAX_SIZE = 1000
"""Largest width and precision: a path has at most 4,096 bytes, and 99999999999 characters do not fit into memory."""
_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}
_EXAMPLES = (0, 0.0, "")


class TemplatePart(NamedTuple):
    """Fixed text, and the column whose value follows it.

    Attributes:
        text: As it is in each path.
        name: Column; None behind the last one.
        spec: Format of the value, or "".
        conversion: "s", "r" or "a", or None.
    """

    text: str
    name: str | None
    spec: str
    conversion: str | None

    @property
    def field(self) -> str:
        """The column as it is written in the template, with its braces."""
        conversion = f"!{self.conversion}" if self.conversion else ""
        return f"{{{self.name}{conversion}{self.spec and ':' + self.spec}}}"


def template_parts(template: str) -> list[TemplatePart]:
    """Take a template apart.

    Raises:
        UsageError: It is not a template, or one of its formats cannot be used.
    """
    try:
        found = list(string.Formatter().parse(template))
    except ValueError as error:
        raise UsageError(f"path_template={template!r} cannot be read: {error}") from error
    parts = [TemplatePart(text, name, spec or "", conversion) for text, name, spec, conversion in found]
    for part in parts:
        reason = "" if part.name is None else _why_not(part)
        if reason:
            raise UsageError(f"path_template={template!r}: {part.field} {reason}")
    return parts


def _why_not(part: TemplatePart) -> str:
    """Say why a part cannot be used, and what to write instead; "" if it can."""
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
    # The format of a date, such as %Y, may be anything.
    if "%" not in part.spec and not any(_fits(part.spec, each) for each in (("",) if part.conversion else _EXAMPLES)):
        values = f"text, which !{part.conversion} gives" if part.conversion else "numbers or text"
        return f"has a format that does not fit {values}: expected one of str.format, such as 06d for numbers"
    return ""


def _fits(spec: str, value: object) -> bool:
    try:
        format(value, spec)
    except ValueError:
        return False
    return True


def fill_template(parts: Sequence[TemplatePart], row: Mapping[str, Any]) -> str:
    """Put the values of a row into a template.

    Raises:
        UsageError: A value does not fit its format.
    """
    # Not str.format: it takes "{video.id}" and "{box[0]}" as parts of a value, not as names of columns.
    return "".join(part.text + ("" if part.name is None else _formatted(part, row[part.name])) for part in parts)


def _formatted(part: TemplatePart, value: Any) -> str:
    try:
        return format(_CONVERSIONS[part.conversion](value) if part.conversion else value, part.spec)
    except OverflowError as error:
        reason = f"outside of the range of {part.field} in path_template"
        raise UsageError(_misfit(part, value, reason)) from error
    except (ValueError, TypeError) as error:
        reason = f"and {part.field} in path_template needs {_kind(part.spec)}"
        raise UsageError(_misfit(part, value, reason)) from error


def _misfit(part: TemplatePart, value: Any, reason: str) -> str:
    return f"{part.name} is {value!r:.100}, {reason}: correct the line, or the template"


def _kind(spec: str) -> str:
    """Say what values fit a format."""
    if spec[-1:] in tuple("bcdoxX"):
        return "an integer"
    if is_number_format(spec):
        return "a number"
    return "text" if spec.endswith("s") else "text or a number"
