"""The folder of proxies while they are made: its lock, the names of files, and a journal for the next run.

::

    small/
        train/a.mp4           proxies, in the tree of their originals; each appears whole
        proxies.parquet       the table of all originals, written last
        .proxies.jsonl        a line for each finished original, until the table is written
        .proxies.lock         held by the process that writes
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from framefeed._files import lock_folder, remove_scratch, write_errors
from framefeed._names import is_url, split_part
from framefeed.catalog import PROXY_SCHEMA, TABLE_NAME, read_proxy_table, write_proxy_table
from framefeed.errors import MediaError, UsageError
from framefeed.parallel import ClosedByWith

JOURNAL_NAME, LOCK_NAME = ".proxies.jsonl", ".proxies.lock"
_BINARY = ("numbers", "row")
_MOST_BYTES = 200
"""Of the name of a file or folder; most file systems take 255."""
_ENDINGS = {True: ".jpg", False: ".mp4"}


def name_proxies(names: Sequence[str], are_stills: Sequence[bool], fingerprints: Sequence[str]) -> list[str]:
    """Name the proxies of originals, as paths in their folder: in the originals' tree, each once."""
    is_local = [not is_url(name) and os.path.isabs(name) for name in names]
    folders = [os.path.dirname(name) for name, local in zip(names, is_local, strict=True) if local]
    root = os.path.commonpath(folders) if folders else os.sep
    taken, paths = set[str](), list[str]()
    for name, local, is_still, fingerprint in zip(names, is_local, are_stills, fingerprints, strict=True):
        part = split_part(name)
        text = os.path.relpath(name, root) if local else name if part is None else f"{part.container}/{part.member}"
        parts = [_shorten(each) for each in re.split(r"[/\\]+", re.sub(r"^[a-z0-9+]+://", "", text))]
        path = "/".join(each for each in parts if each not in ("", ".", "..")) or fingerprint
        ending = _ENDINGS[is_still]
        stem, own = os.path.splitext(path)
        path = f"{stem}{ending}" if own.lower() == ending else f"{path}{ending}"
        if path.casefold() in taken:
            path = f"{path.removesuffix(ending)}-{fingerprint[:12]}{ending}"
        taken.add(path.casefold())
        paths.append(path)
    return paths


def _shorten(name: str) -> str:
    return os.fsencode(name)[:_MOST_BYTES].decode("utf-8", "ignore").replace(":", "_").replace("\0", "_")


class ProxyFolder(ClosedByWith):
    """An open folder of proxies: one run writes to it at a time.

    Args:
        path: The folder; it is made if there is none.
        settings: Those of the run; what another run with others has made is made again.
        resume: Whether what an earlier run has finished is kept.

    Attributes:
        rows: Finished originals, each as the columns of its row, by fingerprint.
        kept_settings: Those of the earlier run, or None.

    Raises:
        UsageError: Another run writes to the folder, or it cannot be made.
    """

    def __init__(self, path: str, settings: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self.decisions: dict[str, Any] = {}
        self._settings = dict(settings)
        with write_errors(path):
            os.makedirs(path, exist_ok=True)
            try:
                self._lock = lock_folder(path, LOCK_NAME)
            except BlockingIOError as error:
                raise UsageError(
                    f"{path}: another run of make_proxies is writing to this folder: wait until it has ended, or "
                    "choose another folder"
                ) from error
        try:
            if resume:
                self._read_table()
                self._read_journal()
            # As the first lines of a new journal, so that a torn line of the old one is gone.
            with write_errors(path):
                self._journal = open(os.path.join(path, JOURNAL_NAME), "w", encoding="utf-8")  # noqa: SIM115
            self._write_line({"settings": self._settings, "decisions": self.decisions})
            for row in self.rows.values():
                self._write_line(row)
        except BaseException:
            os.close(self._lock)
            raise

    def _read_table(self) -> None:
        with suppress(MediaError):
            table = read_proxy_table(self.path)
            decisions = dict(table.settings).get("decisions", {})
            if {name: table.settings.get(name) for name in self._settings} == self._settings:
                self.rows = {row["fingerprint"]: row for row in table.rows.to_pylist()}
                self.decisions = decisions

    def _read_journal(self) -> None:
        """Read the lines of an interrupted run of the same settings, up to a torn or damaged one."""
        path = os.path.join(self.path, JOURNAL_NAME)
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError), open(path, encoding="utf-8") as file:
            head = json.loads(file.readline())
            if head["settings"] != self._settings:
                return
            self.decisions |= head["decisions"]
            for line in file:
                row = json.loads(line)
                if "decisions" in row:
                    self.decisions |= row["decisions"]
                    continue
                decoded = {name: row[name] and base64.b64decode(row[name]) for name in _BINARY}
                self.rows[row["fingerprint"]] = {**dict.fromkeys(PROXY_SCHEMA.names), **row, **decoded}

    def decide(self, decisions: Mapping[str, Any]) -> None:
        """Keep what was decided of kinds of files, for the next run too."""
        self.decisions |= decisions
        self._write_line({"decisions": dict(decisions)})

    def add(self, row: Mapping[str, Any]) -> None:
        """Record a finished original, by the columns of its row; those without a value may be left out."""
        whole = {**dict.fromkeys(PROXY_SCHEMA.names), **row}
        self.rows[whole["fingerprint"]] = whole
        self._write_line(whole)

    def _write_line(self, values: Mapping[str, Any]) -> None:
        text = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in values.items()
        }
        path = os.path.join(self.path, JOURNAL_NAME)
        with write_errors(path):
            self._journal.write(json.dumps(text) + "\n")
            self._journal.flush()

    def finish(self, fingerprints: Sequence[str]) -> None:
        """Write the table, with the rows of these originals first and in this order, and end the journal."""
        others = [each for each in self.rows if each not in set(fingerprints)]
        rows = [self.rows[each] for each in (*fingerprints, *others)]
        table = pa.Table.from_pylist(rows, schema=PROXY_SCHEMA)
        write_proxy_table(self.path, {**self._settings, "decisions": self.decisions}, table)
        with suppress(OSError):
            os.unlink(os.path.join(self.path, JOURNAL_NAME))

    def forget(self, fingerprint: str) -> None:
        """Leave out a row, to make it again."""
        self.rows.pop(fingerprint, None)

    def close(self) -> None:
        """Unlock the folder; the journal stays for the next run, unless the table was written."""
        self._journal.close()
        with suppress(OSError):
            os.close(self._lock)

    def sweep(self, folders: set[str]) -> None:
        """Remove what processes left in these folders that were killed while they wrote a file."""
        for folder in folders:
            remove_scratch(folder)


def check_outside(out: str, names: Sequence[str]) -> None:
    """Check that a folder of proxies does not lie where the next scan of the originals would find it.

    Raises:
        UsageError: It is the folder of the originals, or one in it.
    """
    folders = {os.path.dirname(name) for name in names if not is_url(name) and os.path.isabs(name)}
    if not folders:
        return
    root, own = os.path.realpath(os.path.commonpath(sorted(folders))), os.path.realpath(out)
    if root == os.sep:  # of folders that have nothing in common
        inside = next(
            (
                each
                for each in sorted(folders)
                if os.path.commonpath([os.path.realpath(each), own]) == os.path.realpath(each)
            ),
            None,
        )
    else:
        inside = root if os.path.commonpath([root, own]) == root else None
    if inside is not None:
        raise UsageError(
            f"out: {out} is in {inside}, the folder of the originals, so that the next scan would find the proxies "
            "too: choose a folder outside of it"
        )


__all__ = ["TABLE_NAME", "ProxyFolder", "check_outside", "name_proxies"]
