"""What reaches the terminal: always printable, one line a line, and JSON that every parser accepts.

Exit codes.

Folders for what a command writes.

Where the time of a command goes.

Lists of failed files.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, TextIO

import numpy as np

from framefeed.catalog import Catalog, escape, visible, without_dots
from framefeed.catalog import printable as utf8
from framefeed.errors import UsageError
from framefeed.media import cannot_write, kind_at
from framefeed.plan import ClipRule, EpochPlan, plan_clips, unknown_damage

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
    hexadecimal digits (``framefeed.catalog._names``), because JSON has no lone surrogates. NaN is null.
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


class Exit(IntEnum):
    """How a command ends.

    Attributes:
        WELL: All well.
        MISTAKE: The user's mistake, the one file that the command is about cannot be read, or the machine ran out of
            memory, files or disk.
        FAILED_FILES: Finished; some files failed and are listed.
        BUG: Our bug; EX_SOFTWARE of ``sysexits.h``.
        INTERRUPTED: 128 + SIGINT, as shells have it.
    """

    WELL = 0
    MISTAKE = 1
    FAILED_FILES = 3
    BUG = 70
    INTERRUPTED = 130


def made_folder(folder: str) -> str:
    """Make a folder, and those above it, where they are missing.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        kind = kind_at(folder)
        is_taken = os.path.exists(folder) and kind != "a folder"
        reason = f"{kind or 'a file'} is already there" if is_taken else error.strerror
        raise UsageError(f"cannot make the folder {folder}: {reason}; choose another one") from error
    return folder


class Stages:
    """Adds up the seconds of named stages, in the order in which they first came.

    Attributes:
        seconds: Of each stage.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count what happens inside the block as time of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.of(stage) + time.perf_counter() - began

    def of(self, stage: str) -> float:
        """Seconds of one stage so far."""
        return self.seconds.get(stage, 0.0)

    @property
    def total(self) -> float:
        """Seconds since the beginning, those between stages included."""
        return time.perf_counter() - self._began

    def table(self) -> list[tuple[str, str, str]]:
        """Rows of stage, seconds and share of the total; what belongs to no stage comes last."""
        total = self.total
        seconds = {**self.seconds, "other": total - sum(self.seconds.values())}
        rows = [(stage, f"{spent:.1f} s", f"{spent / total:.0%}") for stage, spent in seconds.items()]
        return [*rows, ("total", f"{total:.1f} s", "")]


KNOWN_SHOWN = 3
"""Of the rows that failed in a scan, which has listed them all."""
SHOWN = 100
"""More lines than this are not read; the catalog and ``--json`` have them all."""

Failed = tuple[str, str, str]
"""Source, error type, message."""


def list_failed(failed: Sequence[Failed], *, known: int = 0) -> None:
    """List failures on standard error, one line each.

    Args:
        failed: What failed.
        known: How many of the first failed in a scan, which has listed them: only some are shown again.
    """
    shown = failed[known : known + SHOWN]
    lines = [f"failed: {_described(failure)}" for failure in shown]
    if known:
        told = [f"failed in the scan: {_described(failure)}" for failure in failed[:known][:KNOWN_SHOWN]]
        if known > KNOWN_SHOWN:
            told.append(
                f"failed in the scan: {known - KNOWN_SHOWN:,} more, not shown ('framefeed report' lists all {known:,})"
            )
        lines = told + lines
    rest = len(failed) - known - len(shown)
    complain(*lines, *([f"failed: {rest:,} more, not shown"] if rest else []))


def as_json(failures: Sequence[Failed]) -> list[dict[str, str]]:
    """The same for ``--json``."""
    return [{"source": source, "error_type": kind, "error": error} for source, kind, error in failures]


def quietly_planned(catalog: Catalog, rule: ClipRule, **options: Any) -> EpochPlan:
    """Make a plan; print its warnings as one line, without the one about failed rows, which a command lists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plan = plan_clips(catalog, rule, **options)
    remark = unknown_damage(catalog, plan.options.on_damaged)
    complain(*([] if remark is None else [remark]))
    return plan


def failures_of_plan(plan: EpochPlan) -> list[Failed]:
    """Return the rows that a plan leaves out, those that failed in the scan first."""
    return [(source, *error.split(": ", 1)) for source, error in plan.excluded]  # type: ignore[misc]


def _described(failure: Failed) -> str:
    source, kind, message = failure
    # Most messages begin with the name, or with the form in which a catalog keeps it: then it is not said twice.
    told = message.removeprefix(f"{source}: ").removeprefix(f"{utf8(source)}: ")
    return f"{without_dots(source)}: {told} ({kind})"
