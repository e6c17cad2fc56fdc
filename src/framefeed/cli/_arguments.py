"""A parser with one-line errors, and readers of option values: text to a value, or ArgumentTypeError."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from framefeed._names import refuse_url
from framefeed._nearest import did_you_mean
from framefeed._units import parse_bytes
from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.errors import UsageError

Item = TypeVar("Item")
Size = tuple[int, int] | int

_MINUS_LIST = re.compile(r"-[\d.][\d.,+-]*")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError: one line, and the exit code of a mistake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        raise UsageError(f"{message} ('{self.prog} --help' shows all arguments)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Check for unknown options before argparse reports anything missing."""
        if self._subparsers is None:
            for word in takewhile(lambda word: word != "--", args or ()):
                name = word.partition("=")[0]
                if name.startswith("--") and name not in self._option_string_actions:
                    nearest = did_you_mean(name, self._option_string_actions)
                    raise UsageError(f"unknown option {name}{nearest} ('{self.prog} --help' lists all options)")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or ())
        if choices and value not in choices:
            known, nearest = ", ".join(map(str, choices)), did_you_mean(value, choices)
            raise argparse.ArgumentError(action, f"expected one of {known}, got {value!r}{nearest}")


def add_workers_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--workers``, of threads."""
    parser.add_argument("--workers", type=read_workers, metavar="N",
                        help="number of threads, or auto (default: auto, the thread budget)")  # fmt: skip


def add_root_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--root``, of a catalog that is opened."""
    parser.add_argument("--root", metavar="FOLDER",
                        help="folder, or its URL, that relative paths in the catalog start from (default: the folder "
                        "of the catalog)")  # fmt: skip


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the limits that intact files may exceed."""
    parser.add_argument("--max-pixels", type=read_at_least(1), default=DEFAULT_LIMITS.max_pixels, metavar="N",
                        help="largest picture that is opened, in pixels (width times height) "
                        f"(default: {DEFAULT_LIMITS.max_pixels}, which is 8192 x 8192)")  # fmt: skip


def make_limits(args: argparse.Namespace) -> Limits:
    """Make the limits from the options."""
    return Limits(max_pixels=args.max_pixels)


def join_negative_numbers(words: Sequence[str]) -> list[str]:
    """Join an option and a list that begins with a minus, which argparse would read as another option.

    >>> join_negative_numbers(["clip", "a.mp4", "--indices", "-2,-1"])
    ['clip', 'a.mp4', '--indices=-2,-1']
    """
    joined: list[str] = []
    for word in words:
        if joined and re.fullmatch(r"--[a-z-]+", joined[-1]) and _MINUS_LIST.fullmatch(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def read_local_path(text: str) -> Path:
    """Read a path, which is no URL: ``Path`` would make a folder ``s3:`` of it."""
    try:
        return Path(refuse_url("path", text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_times(text: str) -> tuple[Fraction, ...]:
    """Read seconds, such as ``1.5,2``."""
    return tuple(_read_items(text, _read_seconds, "times in seconds, such as 1.5,2.0"))


def read_indices(text: str) -> tuple[int, ...]:
    """Read frame numbers, such as ``0,30,-1``."""
    return tuple(_read_items(text, int, "frame numbers, such as 0,30,-1"))


def read_rates(text: str) -> tuple[tuple[Fraction, int], ...]:
    """Read several rates in one clip: ``1:8,2:8`` is 8 frames at 1 per second, then 8 at 2 per second."""
    return tuple(_read_items(text, _read_rate_and_count, "FPS:FRAMES, both more than 0, such as 1:8,2:8"))


def read_size(text: str) -> Size:
    """Read a size of pictures: the short side, or ``HEIGHTxWIDTH``."""
    return _read_size(text, "the short side, such as 224, or HEIGHTxWIDTH, such as 224x320")


def read_rectangle(text: str) -> tuple[int, int]:
    """Read (height, width): ``HEIGHTxWIDTH``, or one number for both."""
    read = _read_size(text, "HEIGHTxWIDTH, such as 224x320, or one number for both, such as 224")
    return read if isinstance(read, tuple) else (read, read)


def _read_size(text: str, form: str) -> Size:
    height, cross, width = text.partition("x")
    try:
        parsed = (int(height), int(width)) if cross else int(height)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}") from None
    if min(parsed if isinstance(parsed, tuple) else (parsed,)) < 1:
        raise argparse.ArgumentTypeError(f"expected {form}, each at least 1, got {text!r}")
    return parsed


def read_rate(text: str) -> Fraction:
    """Read frames a second, such as ``25`` or ``30000/1001``."""
    try:
        fps = _read_ratio(text)
    except (ValueError, ZeroDivisionError):
        fps = Fraction(0)
    if fps <= 0:
        raise argparse.ArgumentTypeError(f"expected frames per second, such as 25 or 30000/1001, got {text!r}")
    return fps


def read_interval(text: str) -> Fraction:
    """Read a distance in time, such as ``1s``, ``500ms`` or ``0.5``; without a unit it is seconds."""
    number, unit = (text[:-2], 1000) if text.endswith("ms") else (text.removesuffix("s"), 1)
    try:
        seconds = _read_seconds(number) / unit
    except (ValueError, ZeroDivisionError):
        seconds = Fraction(0)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a time of more than 0, such as 1s, 500ms or 0.5, got {text!r}")
    return seconds


def read_at_least(least: int) -> Callable[[str], int]:
    """Make a reader of integers with a lower bound."""

    def whole(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
        return int(text)

    return whole


def read_workers(text: str) -> int | None:
    """Read a number of workers; ``auto`` is the thread budget."""
    if text == "auto":
        return None
    try:
        return read_at_least(0)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected auto, or an integer of at least 0, got {text!r}") from None


def read_byte_size(text: str) -> int:
    """Read a size in bytes, such as ``200GB``."""
    try:
        return parse_bytes(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_milliseconds(text: str) -> float:
    """Read milliseconds, at least 0, with a fraction."""
    number = _read_number(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of milliseconds, at least 0, got {text!r}")
    return number


def read_positive(unit: str) -> Callable[[str], float]:
    """Make a reader of numbers of more than 0, with a fraction; the unit is for messages."""

    def read(text: str) -> float:
        number = _read_number(text)
        if not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(f"expected a number of {unit}, more than 0, got {text!r}")
        return number

    return read


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_columns(text: str) -> dict[str, str | int]:
    """Read the columns of a list, such as ``path=0,label=1``."""
    columns: dict[str, str | int] = {}
    for part in text.split(","):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not (name and equals and column) or name in columns:
            raise argparse.ArgumentTypeError(f"expected NAME=COLUMN,..., such as path=0,label=1, got {text!r}")
        columns[name] = int(column) if column.isdecimal() else column
    return columns


def _read_items(text: str, read: Callable[[str], Item], form: str) -> Iterator[Item]:
    for part in text.split(","):
        try:
            yield read(part.strip())
        except (ValueError, ZeroDivisionError):
            raise argparse.ArgumentTypeError(f"expected {form}, got {part!r}") from None


def _read_seconds(text: str) -> Fraction:
    # Through float first: Fraction("1e999999999") is a number with a billion digits.
    if not abs(float(text)) < 1e12:
        raise ValueError(text)
    return Fraction(text)


def _read_ratio(text: str) -> Fraction:
    above, stroke, below = text.partition("/")
    return _read_seconds(above) / (_read_seconds(below) if stroke else 1)


def _read_rate_and_count(text: str) -> tuple[Fraction, int]:
    fps, _, count = text.partition(":")
    frames_per_second, frames = _read_ratio(fps), int(count)
    if frames_per_second <= 0 or frames <= 0:
        raise ValueError(text)
    return frames_per_second, frames
