"""Lines of lists as text: which are comments, which are in quotes, and where a path ends and its values begin."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from framefeed.errors import UsageError
from framefeed.index.list_values import brief
from framefeed.index.listing_suffixes import ALL_MEDIA_SUFFIXES, suffix_of

SAMPLE = 1000
"""Lines by which a list is recognised."""
_ENDINGS = "|".join(suffix[1:] for suffix in sorted(ALL_MEDIA_SUFFIXES))
# No run of blanks can be split in two ways: to try them all would take time that grows with the square of its length.
_SEPARATOR = r"[ \t]*[,;][ \t]*|[ ]*\t[ \t]*|[ ]+"
# The shortest beginning of a line that ends like a media file, then what separates it from the values behind it.
_PATH_AND_VALUES = re.compile(rf"(.+?\.(?:{_ENDINGS}))({_SEPARATOR})(\S.*)", re.IGNORECASE)
_HAS_VALUES = re.compile(rf"\.(?:{_ENDINGS})(?:{_SEPARATOR})\S", re.IGNORECASE)
# As in CSV, a quote inside quotes is doubled.
_QUOTED = re.compile(rf'"((?:[^"]|"")+)"(?:({_SEPARATOR})(\S.*)|[ \t]*)')

NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")


class Parts(NamedTuple):
    """A line that is a path with values behind it.

    Attributes:
        path: Without quotes.
        separator: What stands between the path and the values.
        values: All of them, as one text.
    """

    path: str
    separator: str
    values: str


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a text list, without empty lines and comments.

    Attributes:
        texts: Each line.
        numbers: Number of each line in its file, from 1.
        may_quote: Whether a path may be in quotes; not where NULs separate the paths.
    """

    texts: list[str]
    numbers: Sequence[int]
    may_quote: bool = True

    def shown(self, number: int) -> str:
        """Name a line for a message, as in "line 3 ('a.mp4 1')"."""
        return f"line {self.numbers[number]} ({brief(self.texts[number])})"


def read_lines(data: bytes, folder: str) -> Lines:
    """Split a text into lines, or at NULs where it has them.

    Args:
        data: In UTF-8, but names need not be.
        folder: Folder that relative paths count from: a line that begins with # may be the name of a file in it.
    """
    text = os.fsdecode(data)
    if "\0" in text:
        lines = text.split("\0")
    else:
        lines = text.split("\n")
        if all(line.endswith("\r") for line in lines if line):
            lines = [line.removesuffix("\r") for line in lines]
    if not lines[-1]:
        lines.pop()
    may_comment = "\0" not in text and (text.startswith("#") or "\n#" in text)
    if not may_comment and all(lines):
        return Lines(lines, range(1, len(lines) + 1), "\0" not in text)
    kept = [
        number
        for number, line in enumerate(lines)
        if line and not (may_comment and line.startswith("#") and _is_comment(line, folder))
    ]
    return Lines([lines[number] for number in kept], [number + 1 for number in kept], "\0" not in text)


def _is_comment(line: str, folder: str) -> bool:
    parts = parts_of(line)
    path = line if parts is None else parts.path
    if _exists(line, folder) or _exists(path, folder):
        return False
    # "#1.mp4" may be a file that is missing: it is a line that was commented out only if there is a file "1.mp4".
    names_media = is_media(path) and line[1:2] not in "# \t"
    return not names_media or _exists(path[1:], folder)


def _exists(name: str, folder: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def is_media(name: str) -> bool:
    """Whether a text ends like the name of a media file."""
    return suffix_of(name.strip()) in ALL_MEDIA_SUFFIXES


def parts_of(line: str) -> Parts | None:
    """Take a line apart into a path and the values behind it; None where it is not such a line."""
    quoted = _QUOTED.fullmatch(line) if line.startswith('"') else None
    if quoted is not None:
        return None if quoted[3] is None else Parts(quoted[1].replace('""', '"'), quoted[2], quoted[3])
    # Names between NULs may hold line ends: the pattern fits none of them, but would try each ending in them.
    found = None if "\n" in line else _PATH_AND_VALUES.fullmatch(line)
    return None if found is None else Parts(found[1].strip('"'), found[2], found[3])


def has_values(lines: Lines) -> bool:
    """Whether most lines are a path with values behind it, and not a path alone."""
    sample = lines.texts[:SAMPLE]
    return bool(sample) and 2 * sum(parts_of(line) is not None for line in sample) >= len(sample)


def check_paths_alone(lines: Lines, folder: str) -> None:
    """Refuse a list of paths in which some lines have values behind the path.

    Args:
        lines: Most of them have none.
        folder: Folder that relative paths count from: a line may be the name of a file in it.

    Raises:
        UsageError: A line has values, and it is not the name of a file as a whole.
    """
    text = "\n".join(lines.texts)
    has_separator = any(separator in text for separator in " \t,;")
    is_quoted = lines.may_quote and (text.startswith('"') or '\n"' in text)
    if not has_separator or not (is_quoted or _HAS_VALUES.search(text)):
        return
    has = [parts_of(line) is not None for line in lines.texts]
    for number, line in enumerate(lines.texts):
        if has[number] and (line.startswith('"') or not is_media(line)) and not _exists(line, folder):
            raise UsageError(
                f"{lines.shown(number)} has a value behind its path, but most lines, such as "
                f"{lines.shown(has.index(False))}, are not a path with a known ending and a value: give every line a "
                'path and a value, and put a path with another ending into double quotes, as in "a.xyz" 3; if all '
                "lines are paths alone, put the list into a CSV file with one column"
            )


def paths_alone(lines: Lines, folder: str) -> list[str]:
    """Take each line as a path, without quotes around it.

    Args:
        lines: No line has values.
        folder: Folder that relative paths count from: if there is a file of such a name, quotes are part of names.
    """
    quoted = [line for line in lines.texts if line.startswith('"') and _QUOTED.fullmatch(line)]
    if not lines.may_quote or not quoted or _exists(quoted[0], folder):
        return lines.texts
    return [unquoted(line) for line in lines.texts]


def unquoted(text: str) -> str:
    """Remove the double quotes around a text."""
    found = _QUOTED.fullmatch(text) if text.startswith('"') else None
    return text if found is None or found[3] is not None else found[1].replace('""', '"')


def look_like_fields(lines: Sequence[str]) -> bool:
    """Whether lines seem to hold more than a path, though none of them names a media file."""
    return all(_has_suffixless_label(line) for line in lines[:SAMPLE])


def _has_suffixless_label(line: str) -> bool:
    words = re.split(r"[ \t,;]+", line.strip())
    is_numbered = len(words) > 1 and any(map(NUMBER.fullmatch, (words[0], words[-1])))
    return is_numbered and not any(is_media(word) for word in words)
