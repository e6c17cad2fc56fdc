"""The ledger of a folder of mapped videos: JSON Lines about finished outputs, failed files and single frames."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framefeed._files import remove_scratch, replacing, write_errors
from framefeed._names import escape, unescape
from framefeed.cli._io import make_printable
from framefeed.cli._map_jobs import Job
from framefeed.errors import DeadlineExceeded, MediaError, UsageError
from framefeed.media import MediaSource

LEDGER = "framefeed-map.jsonl"
WRITTEN, FAILED = "written", "failed"
Line = dict[str, Any]


class MapLedger:
    """Lines about each file, in a file that each finished or failed video is appended to.

    Each line has ``file``, ``frame``, ``reason`` and ``action``: "written" for a finished output, "failed" for a file
    as a whole, else what was done with one frame. A file has the lines of its last finished output until a new one is
    finished, and behind them those of a failure since. An output that was written with other settings is not finished.
    """

    def __init__(self, folder: str, settings: Mapping[str, Any]) -> None:
        self.path = os.path.join(folder, LEDGER)
        self._settings = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()
        self._lines: dict[str, list[Line]] = {}
        for line in _read_lines(self.path):
            self._lines.setdefault(line["file"], []).append(line)

    def find_finished(self, job: Job) -> Line | None:
        """Find the line of an output of this run's settings, if neither its source nor itself has changed since."""
        for line in self._lines.get(escape(job.name), ()):
            if line["action"] != WRITTEN or line.get("settings") != self._settings:
                continue
            stamps = _stamp_outputs(line.get("outputs", ()))
            is_same = stamps is not None and stamps == line.get("stamps")
            if is_same and line.get("fingerprint") == _hash_source(job.source):
                return line
        return None

    def count_faults(self, name: str) -> int:
        """Count the frames of a finished output that were left out, or kept as they were."""
        return sum(line.get("frame") is not None for line in self._lines.get(escape(name), ()))

    def has_written(self, path: str) -> bool:
        """Whether a line of an earlier run names a file as its output."""
        name = escape(os.path.abspath(path))
        return any(name in line.get("outputs", ()) for lines in self._lines.values() for line in lines)

    def begin(self, names: Iterable[str]) -> None:
        """Forget the failures of some files; the lines of a finished output stay until a new one is finished."""
        for name in map(escape, names):
            lines = self._lines.pop(name, [])
            num_kept = max((number for number, line in enumerate(lines, 1) if line["action"] == WRITTEN), default=0)
            if num_kept:
                self._lines[name] = lines[:num_kept]
        remove_scratch(os.path.dirname(self.path))
        self._rewrite()

    def _rewrite(self) -> None:
        with write_errors(self.path), replacing(self.path) as scratch, open(scratch, "w", encoding="utf-8") as file:
            file.writelines(_dump_line(line) for lines in self._lines.values() for line in lines)

    def add_written(self, job: Job, outputs: Sequence[str], counts: Mapping[str, int], frames: Sequence[Line]) -> None:
        """Add a finished output, and the frames of it that have no picture of their own, in place of an earlier one."""
        facts: Line = {
            "outputs": [escape(os.path.abspath(path)) for path in outputs],
            **counts,
            "settings": self._settings,
            "fingerprint": _hash_source(job.source),
        }
        facts["stamps"] = _stamp_outputs(facts["outputs"])
        name = escape(job.name)
        has_earlier = self._lines.pop(name, None) is not None
        line = {"file": name, "frame": None, "reason": None, "action": WRITTEN, **facts}
        self._lines[name] = [*({"file": name, **frame} for frame in frames), line]
        if has_earlier:
            self._rewrite()
        else:
            self._append(self._lines[name])

    def add_failed(self, name: str, error: BaseException) -> None:
        """Append a file that failed as a whole."""
        name, reason = escape(name), make_printable(f"{type(error).__name__}: {error}")
        line = {"file": name, "frame": None, "reason": reason, "action": FAILED}
        self._lines.setdefault(name, []).append(line)
        self._append([line])

    def _append(self, lines: Iterable[Line]) -> None:
        with write_errors(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(map(_dump_line, lines)))


def _dump_line(line: Line) -> str:
    return json.dumps(line, allow_nan=False) + "\n"


def _read_lines(path: str) -> list[Line]:
    """Read the lines of an earlier run; a last line that a killed process has not finished is dropped."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = file.read().split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        texts = ["?", ""]
    lines = []
    for number, text in enumerate(texts[:-1], 1):
        try:
            line = json.loads(text)
            if not isinstance(line["file"], str) or not isinstance(line["action"], str):
                raise TypeError(text)
        except (ValueError, TypeError, KeyError):
            raise UsageError(
                f"{path}: line {number} is none of a ledger of 'framefeed map': move the file away, or choose another "
                "folder"
            ) from None
        lines.append(line)
    return lines


def _hash_source(source: str) -> str | None:
    try:
        return MediaSource.of(source).fingerprint()
    except (MediaError, DeadlineExceeded):  # it is gone, or was never there
        return None


def _stamp_outputs(outputs: Sequence[str]) -> list[list[int]] | None:
    """Size and time of each file, or number of entries and time of each folder; None if one is missing."""
    stamps = []
    for path in map(unescape, outputs):
        try:
            facts = os.stat(path)
            stamps.append([len(os.listdir(path)) if os.path.isdir(path) else facts.st_size, facts.st_mtime_ns])
        except OSError:
            return None
    return stamps
