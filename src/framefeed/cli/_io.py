"""Output of commands: printable lines, JSON, tables, lists of failed files, exit codes, and times of stages."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import UnsupportedOperation
from typing import Any, TextIO

import numpy as np

from framefeed._files import make_write_error, name_special_kind
from framefeed._names import escape, escape_invisible, remove_dots
from framefeed._names import make_printable as utf8
from framefeed._shown import show_text
from framefeed._units import format_seconds, format_share
from framefeed.errors import UsageError

# Characters. Names may be 4096 bytes long and tags of a file megabytes; a longer message than this is not read.
MAX_LINE = 2000
# Files that failed in a scan: the scan has listed them all.
MAX_KNOWN_SHOWN = 3
# Other failed files: more lines are not read; the catalog and ``--json`` have them all.
MAX_SHOWN = 100

# Source, error type, message.
Failed = tuple[str, str, str]


def make_printable(text: str) -> str:
    r"""Shorten a long line, and escape control characters and undecodable bytes, as in ``\x1b``."""
    half = MAX_LINE // 2
    return escape_invisible(text if len(text) <= MAX_LINE else f"{text[:half]} ... {text[-half:]}")


def print_out(*lines: str) -> None:
    """Print lines on standard output, at once; nothing more is printed once its reader has closed it."""
    with _naming_standard_output():
        _write(sys.stdout, lines)


def print_error(*lines: str) -> None:
    """Print lines on standard error, unless its reader has closed it."""
    try:
        _write(sys.stderr, [f"framefeed: {line}" for line in lines])
    except OSError:
        _discard(sys.stderr)


def print_json(document: Mapping[str, Any]) -> None:
    r"""Print a JSON document.

    File names are as they are; bytes that are not UTF-8 are stored as a catalog stores them, as NUL and four
    hexadecimal digits (``framefeed._names``), because JSON has no lone surrogates. NaN is null.
    """
    with _naming_standard_output():
        _write(sys.stdout, [json.dumps(_to_json(document), indent=2, allow_nan=False)], raw=True)


@contextmanager
def _naming_standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard(sys.stdout)  # the command's files are still wanted
    except OSError as error:
        raise make_write_error("standard output", error) from error


def flush_or_discard_output() -> None:
    """Flush standard streams, or discard those whose readers have closed them, which Python would report at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Send what is written to a stream, and what its buffer still has, to the null device."""
    with suppress(UnsupportedOperation):  # a stream in memory
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def _write(stream: TextIO, lines: Sequence[str], raw: bool = False) -> None:
    encoding = stream.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in (lines if raw else map(make_printable, map(show_text, lines))))
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {escape(str(name)): _to_json(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, np.generic):
        return _to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return escape(show_text(value)) if isinstance(value, str) else value


class Exit(IntEnum):
    """Exit codes."""

    WELL = 0
    MISTAKE = 1
    FAILED_FILES = 3
    BUG = 70
    INTERRUPTED = 130


def ensure_folder(folder: str) -> str:
    """Make a folder and its parents, if they are missing."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        kind = name_special_kind(folder)
        is_taken = os.path.exists(folder) and kind != "a folder"
        reason = f"{kind or 'a file'} is already there" if is_taken else error.strerror
        raise UsageError(f"cannot make the folder {folder}: {reason}; choose another one") from error
    return folder


class Stages:
    """Adds up the seconds of named stages, in the order in which they first came."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.get(stage) + time.perf_counter() - began

    def get(self, stage: str) -> float:
        """Get the seconds of one stage so far."""
        return self.seconds.get(stage, 0.0)

    @property
    def total(self) -> float:
        """Seconds since the beginning, including those between stages."""
        return time.perf_counter() - self._began

    def list_rows(self) -> list[tuple[str, str, str]]:
        """List stage, seconds and share of the total; the time outside stages comes last."""
        total = self.total
        seconds = {**self.seconds, "other": total - sum(self.seconds.values())}
        rows = [(stage, format_seconds(spent), format_share(spent, total)) for stage, spent in seconds.items()]
        return [*rows, ("total", format_seconds(total), "")]


def print_failed(failed: Sequence[Failed], *, known: int = 0) -> None:
    """List failures on standard error, one line each.

    The scan has listed the first ``known`` of them: only some of these are shown again.
    """
    shown = failed[known : known + MAX_SHOWN]
    lines = [f"failed: {_describe_failure(failure)}" for failure in shown]
    if known:
        scanned = [f"failed in the scan: {_describe_failure(failure)}" for failure in failed[:known][:MAX_KNOWN_SHOWN]]
        if known > MAX_KNOWN_SHOWN:
            more = f"{known - MAX_KNOWN_SHOWN:,} more, not shown ('framefeed report' lists all {known:,})"
            scanned.append(f"failed in the scan: {more}")
        lines = scanned + lines
    rest = len(failed) - known - len(shown)
    print_error(*lines, *([f"failed: {rest:,} more, not shown"] if rest else []))


def list_as_json(failures: Sequence[Failed]) -> list[dict[str, str]]:
    """List failures as JSON objects."""
    return [{"source": source, "error_type": kind, "error": error} for source, kind, error in failures]


_ROW = re.compile(r" \(row \d+\)$")
"""What the name of a URL without its query ends with, which may stand for several rows."""


def _describe_failure(failure: Failed) -> str:
    source, kind, message = failure
    # Most messages begin with the name, as it is or as a catalog stores it: do not print it twice.
    name = _ROW.sub("", source)
    reason = message.removeprefix(f"{name}: ").removeprefix(f"{utf8(name)}: ")
    return f"{remove_dots(source)}: {reason} ({kind})"
