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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from typing import Any

import pyarrow as pa

from framefeed._files import lock_folder, remove_scratch, replacing, unlock, write_errors
from framefeed._names import escape, is_url, split_part
from framefeed.catalog import PROXY_SCHEMA, TABLE_NAME, ProxyTable, get_frames_path, read_proxy_table, write_proxy_table
from framefeed.errors import MediaError, UsageError
from framefeed.parallel import ClosedByWith
from framefeed.proxies._kinds import Original

CATALOG_NAME = "catalog.parquet"
"""Of the catalog that the command saves."""
JOURNAL_NAME, LOCK_NAME = ".proxies.jsonl", ".proxies.lock"
_BINARY = ("numbers", "row")
_MOST_BYTES = 200
"""Of the name of a file or folder; most file systems take 255."""
_MARK = b'{"framefeed": "proxy", '
"""Begins the text in each proxy that names its original."""
_BLOCK = 2**20
_OWN_NAMES = (TABLE_NAME, JOURNAL_NAME, LOCK_NAME, CATALOG_NAME, get_frames_path(CATALOG_NAME))
_ENDINGS = {True: ".jpg", False: ".mp4"}


def find_root(files: Iterable[str]) -> str:
    """Find the folder that has all files on this machine; the root of all if they have nothing in common."""
    folders = {os.path.dirname(each) for each in files}
    return os.path.commonpath(folders) if folders else os.sep


class ProxyNames:
    """Names of proxies, as paths in their folder: in the tree of their originals, each once, whatever its case.

    Args:
        root: Folder of the originals.
        kept: Paths that are taken.
        is_free: Whether a path may be written to.
    """

    def __init__(self, root: str, kept: Iterable[str] = (), is_free: Callable[[str], bool] = lambda path: True) -> None:
        self._root, self._is_free = root, is_free
        self._files, self._folders = set[str](), set[str]()
        for path in kept:
            self._take(path)

    def name(self, original: str, fingerprint: str, *, is_still: bool) -> str:
        """Name the proxy of an original, which no other has."""
        part = split_part(original)
        text = original if part is None else f"{part.container}/{part.member}"
        if not is_url(text) and os.path.isabs(text):
            text = os.path.relpath(text, self._root)
        parts = [_shorten(each) for each in re.split(r"[/\\]+", re.sub(r"^[a-z0-9+]+://", "", text))]
        path, ending = (
            "/".join(each for each in parts if each not in ("", ".", "..")) or fingerprint,
            _ENDINGS[is_still],
        )
        stem, own = os.path.splitext(path)
        path = stem if own.lower() == ending else path
        # The last ones lie in no folder, whose name may be that of a file.
        stems = chain([path, f"{path}-{fingerprint[:12]}"], (f"{fingerprint}-{number}" for number in count(1)))
        found = next(each for each in (stem + ending for stem in stems) if self._is_new(each) and self._is_free(each))
        self._take(found)
        return found

    def _is_new(self, path: str) -> bool:
        file, *folders = _list_with_folders(path)
        return file not in self._files and file not in self._folders and self._files.isdisjoint(folders)

    def _take(self, path: str) -> None:
        file, *folders = _list_with_folders(path)
        self._files.add(file)
        self._folders.update(folders)


def _list_with_folders(path: str) -> list[str]:
    """List a path and the folders that it is in, as file systems that do not tell cases apart see them."""
    parts = path.casefold().split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _shorten(name: str) -> str:
    return os.fsencode(name)[:_MOST_BYTES].decode("utf-8", "ignore").replace(":", "_").replace("\0", "_")


def _get_key(row: Mapping[str, Any]) -> str:
    """Get the key of a row, as `Original.key`."""
    return f"{row['fingerprint']} {row['original']}"


def _format_line(values: Mapping[str, Any]) -> str:
    """Write a line of the journal."""
    text = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in values.items()
    }
    return json.dumps(text) + "\n"


class ProxyFolder(ClosedByWith):
    """An open folder of proxies: one run writes to it at a time.

    Args:
        path: The folder; it is made if there is none.
        settings: Those of the run, which must be those of an earlier run that it resumes.
        resume: Whether what an earlier run has finished is kept.

    Attributes:
        rows: Finished originals, each as the columns of its row, by `Original.key`.
        decisions: Reason by kind of file, None for kinds that get proxies.

    Raises:
        UsageError: Another run writes to the folder, it cannot be made, or it has proxies of other settings.
    """

    def __init__(self, path: str, settings: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self.decisions: dict[str, Any] = {}
        self._settings = dict(settings)
        self._before = set[str]()
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
            self._read_table(resume=resume)
            if resume:
                self._read_journal()
            # As the first lines of a new journal, so that a torn line of the old one is gone.
            lines = [{"settings": self._settings, "decisions": self.decisions}, *self.rows.values()]
            journal = os.path.join(path, JOURNAL_NAME)
            with write_errors(journal):
                with replacing(journal) as scratch, open(scratch, "w", encoding="utf-8") as file:
                    file.writelines(map(_format_line, lines))
                self._journal = open(journal, "a", encoding="utf-8")  # noqa: SIM115
        except BaseException:
            unlock(self._lock)
            raise

    def _read_table(self, *, resume: bool) -> None:
        with suppress(MediaError):
            table = read_proxy_table(self.path)
            self._before = {path for path in table.rows["proxy"].to_pylist() if path is not None}
            if not resume:
                return
            for name, value in self._settings.items():
                if table.settings.get(name) != value:
                    raise UsageError(
                        f"{self.path}: has proxies of {name}={table.settings.get(name)}, not {value}: choose another "
                        "folder, or make all anew with resume=False (on the command line: --no-resume)"
                    )
            self.rows = {_get_key(row): row for row in table.rows.to_pylist()}
            self.decisions = dict(table.settings["decisions"])

    def _read_journal(self) -> None:
        """Read the lines of an interrupted run of the same settings, up to a torn or damaged one."""
        path = os.path.join(self.path, JOURNAL_NAME)
        with (
            suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
            open(path, encoding="utf-8") as file,
        ):
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
                whole = {**dict.fromkeys(PROXY_SCHEMA.names), **row, **decoded}
                pa.Table.from_pylist([whole], schema=PROXY_SCHEMA)  # else a ValueError or TypeError
                self.rows[_get_key(row)] = whole

    def decide(self, decisions: Mapping[str, Any]) -> None:
        """Keep what was decided of kinds of files, for the next run too."""
        self.decisions |= decisions
        self._write_line({"decisions": dict(decisions)})

    def add(self, row: Mapping[str, Any]) -> None:
        """Record a finished original, by the columns of its row; those without a value may be left out."""
        whole = {**dict.fromkeys(PROXY_SCHEMA.names), **row}
        self.rows[_get_key(whole)] = whole
        self._write_line(whole)

    def _write_line(self, values: Mapping[str, Any]) -> None:
        with write_errors(os.path.join(self.path, JOURNAL_NAME)):
            self._journal.write(_format_line(values))
            self._journal.flush()

    def finish(self, keys: Sequence[str]) -> None:
        """Write the table, with the rows of these originals first and in this order, and end the journal."""
        own = set(keys)
        rows = [self.rows[each] for each in (*keys, *(each for each in self.rows if each not in own))]
        table = pa.Table.from_pylist(rows, schema=PROXY_SCHEMA)
        write_proxy_table(self.path, {**self._settings, "decisions": self.decisions}, table)
        with suppress(OSError):
            os.unlink(os.path.join(self.path, JOURNAL_NAME))
        for name in self._before - {row["proxy"] for row in rows}:
            if self._may_write(name):  # It is not there any more, or a proxy of an earlier run.
                with suppress(OSError):
                    os.unlink(os.path.join(self.path, name))

    def adopt(self, originals: Sequence[Original]) -> None:
        """Take over what an earlier run has finished of originals that lie elsewhere now."""
        own = {each.key for each in originals}
        missing = [each for each in originals if each.key not in self.rows]
        others = [row for key, row in self.rows.items() if key not in own]
        table = ProxyTable(self.path, {}, pa.Table.from_pylist(others, schema=PROXY_SCHEMA))
        found = table.find_rows([each.fingerprint for each in missing], [each.name for each in missing])
        for original, at in zip(missing, found.tolist(), strict=True):
            if at >= 0 and (row := self.rows.pop(_get_key(others[at]), None)) is not None:
                self.add({**row, "original": escape(original.name)})

    def name(self, root: str, originals: Sequence[Original]) -> list[str]:
        """Name the proxies of originals: those that are there keep their names, and no other file is overwritten."""
        current, names = {each.key for each in originals}, {escape(each.name) for each in originals}
        for key, row in list(self.rows.items()):
            if row["original"] in names and key not in current:  # The original has changed.
                self.forget(key)
        kept = {key: row["proxy"] for key, row in self.rows.items() if row["proxy"] is not None}
        given = ProxyNames(root, [*kept.values(), *_OWN_NAMES], self._may_write)
        return [
            kept.get(each.key) or given.name(each.name, each.fingerprint, is_still=each.is_still) for each in originals
        ]

    def _may_write(self, path: str) -> bool:
        """Whether there is no file at a path, or the proxy of an earlier run that is in no table."""
        whole = os.path.join(self.path, path)
        if not os.path.lexists(whole):
            return True
        if not os.path.isfile(whole):
            return False
        before = b""
        with suppress(OSError), open(whole, "rb") as file:
            while part := file.read(_BLOCK):
                if _MARK in before + part:
                    return True
                before = (before + part)[-len(_MARK) :]
        return False

    def forget(self, key: str) -> None:
        """Leave out a row, to make it again."""
        self.rows.pop(key, None)

    def close(self) -> None:
        """Unlock the folder; the journal stays for the next run, unless the table was written."""
        self._journal.close()
        unlock(self._lock)

    def sweep(self, folders: set[str]) -> None:
        """Remove what processes left in these folders that were killed while they wrote a file."""
        for folder in folders:
            remove_scratch(folder)


def check_outside(out: str, files: Iterable[str]) -> None:
    """Check that a folder of proxies does not lie where the next scan of these files would find it.

    Raises:
        UsageError: It is the folder of the files, or one in it.
    """
    folders = {os.path.realpath(os.path.dirname(name)) for name in files}
    if not folders:
        return
    root, own = os.path.commonpath(folders), os.path.realpath(out)
    # Folders that have nothing in common are looked at one by one.
    inside = next((each for each in (sorted(folders) if root == os.sep else [root]) if _is_in(own, each)), None)
    if inside is not None:
        raise UsageError(
            f"out: {out} is in {inside}, the folder of the originals, so that the next scan would find the proxies "
            "too: choose a folder outside of it"
        )


def check_targets(out: str, names: Iterable[str], files: Iterable[str]) -> None:
    """Check that no proxy would be written into a folder of originals, such as through a link."""
    folders = {os.path.realpath(os.path.dirname(each)) for each in files}
    for folder in {os.path.dirname(os.path.join(out, name)) for name in names}:
        if os.path.realpath(folder) in folders:
            raise UsageError(
                f"out: {folder} is a folder of the originals, and the next scan would find the proxies too: choose "
                "another folder for them"
            )


def _is_in(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


__all__ = ["TABLE_NAME", "ProxyFolder", "ProxyNames", "check_outside", "check_targets", "find_root"]
