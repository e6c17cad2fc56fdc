"""What reaches the terminal: always printable, one line a line, and JSON that every parser accepts."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np

from framefeed.index.names import escape, visible
from framefeed.index.targets import cannot_write

MAX_LINE = 2000
"""A message longer than a screen of text is not read; names may be 4096 bytes long, tags of a file megabytes."""


def printable(text: str) -> str:
    r"""Show what a terminal must not get, control characters and undecodable bytes, as escapes such as ``\x1b``."""
    half = MAX_LINE // 2
    return visible(text if len(text) <= MAX_LINE else f"{text[:half]} ... {text[-half:]}")


def say(*lines: str) -> None:
    """Print lines on standard output, at once.

    Raises:
        UsageError: It takes no more.
        BrokenPipeError: Its reader has read enough.
    """
    with _naming_standard_output():
        _write(sys.stdout, lines)


def complain(*lines: str) -> None:
    """Print lines on standard error; where that is closed, nothing is printed."""
    try:
        _write(sys.stderr, [f"framefeed: {line}" for line in lines])
    except OSError:
        return


def say_json(document: Mapping[str, Any]) -> None:
    r"""Print one JSON document.

    File names are as they are; bytes that are not UTF-8 are stored as a catalog stores them, as NUL and four
    hexadecimal digits (``framefeed.index.names``), because JSON has no lone surrogates. NaN is null.
    """
    with _naming_standard_output():
        _write(sys.stdout, [json.dumps(_plain(document), indent=2, allow_nan=False)], raw=True)


@contextmanager
def _naming_standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write("standard output", error) from error


def table(rows: Sequence[Sequence[str]], alignment: str, indent: str = "") -> list[str]:
    """Align columns.

    Args:
        rows: Cells, of one length each.
        alignment: A letter a column: "l" to the left, "r" to the right.
        indent: Before each line.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        sides = zip(row, widths, alignment, strict=True)
        cells = [cell.rjust(width) if side == "r" else cell.ljust(width) for cell, width, side in sides]
        lines.append(f"{indent}{'  '.join(cells)}".rstrip())
    return lines


def leave_standard_output() -> None:
    """Flush, or else throw away what the reader does not take: otherwise the interpreter complains when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _write(stream: TextIO, lines: Sequence[str], raw: bool = False) -> None:
    encoding = stream.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in (lines if raw else map(printable, lines)))
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return escape(value) if isinstance(value, str) else value
