"""List the clips that could not be loaded, with reason and action."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from textwrap import shorten
from typing import Any, overload

from framefeed._checks import check_count_or_share
from framefeed._files import check_writable, replacing, write_errors
from framefeed._names import check_local_path, escape_invisible
from framefeed._per_process import PerProcess
from framefeed._units import format_count
from framefeed.errors import FramefeedError, LoadError, UsageError
from framefeed.load._batch import ClipBatch
from framefeed.media import ImageSequence, source_name
from framefeed.parallel import SharedLines

MAX_ENTRIES = 10_000
"""Further failures are only counted, in a few bytes each."""
_MAX_BYTES = 64 << 20
_MAX_FRAMES = 256
_MAX_REASON = 500
"""Characters of a stored reason."""
_PRINTED_FILES = 20
_BEGIN = b'{"source": '
_PRINTED_REASON = 200
"""Characters of a printed reason."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A clip that could not be loaded.

    Attributes:
        source: Path, URL or name of the file; of a URL only what is not secret.
        position: Global position of the clip in the epoch.
        epoch: Number of the epoch.
        frames: Frame numbers that the error names, at most the first 256; empty if it names none.
        reason: Type and message of the error.
        action: What was done: "skipped" means that the clip was delivered as zeros with ``ok`` False,
            "substituted" that another clip was delivered in its place.
        substitute: Global position of that other clip, or None.
        opened: Of a URL of which ``source`` hides a part, what opens it; else None. It is printed and written nowhere.
    """

    source: str
    position: int
    epoch: int
    frames: tuple[int, ...]
    reason: str
    action: str = "skipped"
    substitute: int | None = None
    opened: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        error: FramefeedError,
        source: str | bytes | ImageSequence,
        position: int,
        epoch: int,
        substitute: int | None = None,
    ) -> LedgerEntry:
        """Describe a clip by its error, and by the position of the clip in its place."""
        name = source_name(source)
        opened = source if isinstance(source, str) and source != name else None
        frames = tuple(int(frame) for frame in getattr(error, "frames", ())[:_MAX_FRAMES])
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
        action = "skipped" if substitute is None else "substituted"
        return cls(name, position, epoch, frames, reason, action, substitute, opened)


class _Known:
    """The failures that one process knows; ``lines`` is the file that they are read from, or None."""

    def __init__(self, lines: SharedLines | None) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        self.entries: list[LedgerEntry] = []
        self.positions: dict[int, set[int]] = {}
        self.unlisted: Counter[int] = Counter()

    def begin_in_child(self) -> _Known:
        """Begin in a forked child; read shared entries again: a thread of the parent may have been reading."""
        self._lock = threading.Lock()
        if self._lines is None:
            return self
        self._lines.rewind()
        return _Known(self._lines)

    def read(self) -> None:
        """Read what other processes have written."""
        if self._lines is not None:
            with self._lock:
                for line in self._lines.read():
                    # Part of a line is of an entry that could not be written, which was an error there.
                    with suppress(json.JSONDecodeError):
                        self.add(json.loads(line))

    def add(self, line: Any) -> None:
        """Add an entry, or the epoch of one that is only counted."""
        if isinstance(line, int):
            self.unlisted[line] += 1
            return
        entry = LedgerEntry(**{**line, "frames": tuple(line["frames"])})
        self.entries.append(entry)
        self.positions.setdefault(entry.epoch, set()).add(entry.position)


class Ledger(Sequence[LedgerEntry]):
    """The clips that could not be loaded, in the order in which they failed; at most the first 10,000.

    A ledger is a sequence of `LedgerEntry`. ``print(ledger)`` lists the files, each with the reason and what was done.

    Args:
        lines: File that worker processes write their entries to, or None if there are no worker processes.
        appended_to: File that entries are also appended to, see ``append_to``.
    """

    def __init__(self, lines: SharedLines | None = None, appended_to: str | None = None) -> None:
        self._lines = lines
        self._appended_to = appended_to
        self._known = PerProcess(partial(_Known, lines), _Known.begin_in_child)

    @classmethod
    def shared(cls) -> Ledger:
        """Make a ledger that is shared with worker processes; see `SharedLines`."""
        return cls(SharedLines(_MAX_BYTES))

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[object, ...]]:
        return Ledger, (self._lines, self._appended_to)

    def __repr__(self) -> str:
        failed, listed = self.num_failed, len(self)
        return f"Ledger({failed} failed clips{'' if failed == listed else f', {listed} of them listed'})"

    def __str__(self) -> str:
        failed, entries = self.num_failed, self[:]
        if not failed:
            return "no clip failed"
        groups: dict[tuple[str, str, str], list[LedgerEntry]] = {}
        for entry in entries:
            key = entry.opened or entry.source, entry.action, entry.reason.partition(":")[0]
            groups.setdefault(key, []).append(entry)
        num_files = len({name for name, _, _ in groups})
        lines = [f"{format_count(failed, 'failed clip')} of {format_count(num_files, 'file')}"]
        lines += [_format_line(group[0], len(group)) for group in list(groups.values())[:_PRINTED_FILES]]
        if len(groups) > _PRINTED_FILES:
            lines.append(f"  ... and {len(groups) - _PRINTED_FILES:,} more")
        if failed > len(entries):
            lines.append(f"  only the first {len(entries):,} failures are listed")
        return "\n".join(lines)

    def __len__(self) -> int:
        return len(self._read().entries)

    @overload
    def __getitem__(self, number: int) -> LedgerEntry: ...
    @overload
    def __getitem__(self, number: slice) -> list[LedgerEntry]: ...
    def __getitem__(self, number: int | slice) -> LedgerEntry | list[LedgerEntry]:
        return self._read().entries[number]

    @property
    def num_failed(self) -> int:
        """Number of failures, including those that are not listed."""
        known = self._read()
        return len(known.entries) + known.unlisted.total()

    def num_positions(self, epoch: int) -> int:
        """Count the positions of an epoch that failed, each once; unlisted failures count as often as they occurred."""
        known = self._read()
        return len(known.positions.get(epoch, ())) + known.unlisted[epoch]

    def record(self, entry: LedgerEntry) -> None:
        """Add a failure.

        Raises:
            LoadError: The file that is shared with worker processes cannot be written.
        """
        known = self._read()
        if self._appended_to is not None:
            _append_line(self._appended_to, entry)
        is_full = len(known.entries) >= MAX_ENTRIES
        line: Any = entry.epoch if is_full else asdict(entry)
        if self._lines is None:
            known.add(line)
            return
        try:
            self._lines.append(json.dumps(line).encode())
        except OSError as error:
            raise LoadError(
                f"cannot write the ledger of failed clips, {self._lines.path}: {error}; free space there, or set "
                "TMPDIR to another folder before the dataset is made"
            ) from error

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the listed failures to a file, one JSON object a line; an earlier one is replaced.

        Raises:
            UsageError: The file cannot be written, or another file is already there.
        """
        name = check_local_path("path", path, "failed.jsonl")
        check_writable(name, "ledger", "failed.jsonl", _is_ledger)
        with write_errors(name), replacing(name) as pending, open(pending, "w", encoding="ascii") as file:
            file.writelines(_dump_line(entry) for entry in self)

    def append_to(self, path: str | os.PathLike[str]) -> None:
        """Append each further failure to a file when it occurs, one JSON object a line, also those not listed here.

        So a run that is killed leaves its failures behind. Call it before the first batch, so that worker processes
        know of it.

        Raises:
            UsageError: The file cannot be written.
        """
        name = os.path.abspath(check_local_path("path", path, "failed.jsonl"))
        with write_errors(name), open(name, "ab"):
            pass
        self._appended_to = name

    def _read(self) -> _Known:
        known = self._known.value
        known.read()
        return known


def find_failed_source(batch: ClipBatch, slot: int, error: FramefeedError) -> Any:
    """Find the source of a clip that failed: of several streams, that which the error names."""
    if not isinstance(batch.sources, dict):
        return batch.sources[slot]
    sources = [of_stream[slot] for of_stream in batch.sources.values()]
    return next((source for source in sources if source_name(source) == error.source), sources[0])


def _is_ledger(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def _dump_line(entry: LedgerEntry) -> str:
    return json.dumps({name: value for name, value in asdict(entry).items() if name != "opened"}) + "\n"


def _append_line(path: str, entry: LedgerEntry) -> None:
    try:
        # Opened anew, so that forked processes share no file; written at once, so that lines do not mix.
        with open(path, "ab", buffering=0) as file:
            line = _dump_line(entry).encode()
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    except OSError as error:
        raise LoadError(
            f"cannot append to the file of failed clips, {path}: {error}; free space there, or leave out "
            "ledger.append_to"
        ) from error


def _format_line(entry: LedgerEntry, clips: int) -> str:
    kind, _, message = entry.reason.partition(": ")
    # The line is for several clips of a file, which it names itself.
    message = (
        message.removeprefix(entry.source)
        .removeprefix(": ")
        .lstrip()
        .removesuffix(f" (clip at position {entry.position})")
    )
    # A long message loses the advice at its end; only a long first part is cut.
    parts = escape_invisible(" ".join(message.split())).split("; ")
    while len(parts) > 1 and len("; ".join(parts)) > _PRINTED_REASON:
        parts.pop()
    reason = shorten("; ".join(parts), _PRINTED_REASON, placeholder=" ...")
    where = "" if entry.opened is None else f" (clip at position {entry.position})"
    return f"  {escape_invisible(entry.source)}{where}: {format_count(clips, 'clip')} {entry.action}: {kind}: {reason}"


def check_max_failed(max_failed: int | float | None, on_error: str) -> None:
    """Check that ``max_failed`` is a count or a share, or None, and fits to ``on_error``."""
    if max_failed is None:
        return
    if on_error == "raise":
        raise UsageError(
            "max_failed needs on_error='skip' or 'substitute': with on_error='raise' the first clip that fails raises "
            "its error"
        )
    check_count_or_share("max_failed", max_failed)


def make_max_failed_error(ledger: Ledger, max_failed: int | float | None, epoch: int, clips: int) -> LoadError | None:
    """Make the error that ends an epoch of so many clips if more failed than ``max_failed`` allows; else None."""
    if max_failed is None:
        return None
    failed = ledger.num_positions(epoch)
    if failed <= (max_failed * clips if isinstance(max_failed, float) else max_failed):
        return None
    last = ledger[-1]
    return LoadError(
        f"{failed} of {clips} clips of epoch {epoch} could not be loaded, more than max_failed={max_failed!r} allows; "
        f"the last one listed: {last.source}: {last.reason}. print(ledger) lists the files; leave them out with "
        "catalog.without(ledger), or raise max_failed",
        position=last.position,
        source=last.source,
        stage="load",
    )
