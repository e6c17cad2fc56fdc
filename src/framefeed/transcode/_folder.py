"""The work folder of a run beside its output: finished segments, so that an interrupted run can be continued.

::

    .out.mp4-0123456789abcdef.map/
        identity.json     what the run is about; the segments of another identity are removed
        000003-0.nut      the first video of segment 3, renamed when it is whole
        000003.json       description of segment 3: hashes of its files, frames that failed; written last

Names and JSON only; nothing is pickled. The process that writes holds a lock on the folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import xxhash

from framefeed._files import SCRATCH, lock_folder, remove_scratch, replacing, unlock, write_errors
from framefeed.errors import FramefeedError, UsageError
from framefeed.parallel import ClosedByWith
from framefeed.transcode._targets import SegmentRecord, hash_file

_IDENTITY = "identity.json"
_OWN = re.compile(rf"identity\.json|\d{{6}}\.json|\d{{6}}-\d+\.nut|{SCRATCH.pattern}")
_VIDEO = re.compile(r"\d{6}-\d+\.nut")
_RECORD = re.compile(r"(\d{6})\.json")
_SHOWN_CHARACTERS = 40
_MAX_JSON_BYTES = 64 << 20


def name_work_folder(out: str) -> str:
    """Return the path of the work folder of an output."""
    folder, name = os.path.split(os.path.abspath(out))
    digest = xxhash.xxh3_64_hexdigest(os.fsencode(name))
    return os.path.join(folder, f".{name[:_SHOWN_CHARACTERS]}-{digest}.map")


def has_unfinished_run(out: str) -> bool:
    """Whether an interrupted run that writes an output has left its work folder."""
    return os.path.isdir(name_work_folder(out))


class WorkFolder(ClosedByWith):
    """An open work folder: one run writes to it at a time.

    Args:
        resume: Whether finished segments of the same identity are kept.
        images: Folder of the images, if that is what segments consist of.

    Attributes:
        records: Finished segments by number: those of earlier runs, and those that were added.

    Raises:
        UsageError: Another run, of this or another process, writes the output, or the folder cannot be made.
    """

    def __init__(self, out: str, identity: Mapping[str, Any], *, resume: bool, images: str | None = None) -> None:
        self.path = name_work_folder(out)
        self._images = images
        self.records: dict[int, SegmentRecord] = {}
        with write_errors(self.path):
            try:
                self._lock = lock_folder(self.path)
            except BlockingIOError as error:
                raise UsageError(
                    f"{out}: another run of map_video is writing this output: wait until it has ended, or write to "
                    "another file or folder"
                ) from error
        try:
            self._begin(json.loads(json.dumps(identity)), resume)
        except BaseException:
            with suppress(OSError):  # Not empty: it has other files, or segments.
                os.rmdir(self.path)
            self._unlock()
            raise

    def _begin(self, identity: Any, resume: bool) -> None:
        names = os.listdir(self.path)
        foreign = [name for name in names if not _OWN.fullmatch(name)]
        if foreign:
            raise UsageError(
                f"{self.path}: is a folder for the work of map_video, and has other files such as {foreign[0]!r}: move "
                "them away"
            )
        if names and self._images is None:  # A run was killed, perhaps while it joined the segments.
            remove_scratch(os.path.dirname(self.path))
        if not resume or self._read(_IDENTITY) != identity:
            self._sweep()
            self._write(_IDENTITY, identity)
            return
        for match in filter(None, map(_RECORD.fullmatch, names)):
            values = self._read(match[0])
            with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError, FramefeedError):
                record = SegmentRecord.from_json(values)
                if record.number == int(match[1]) and self._is_whole(record):
                    self.records[record.number] = record
        self._sweep()

    def _is_whole(self, record: SegmentRecord) -> bool:
        """Whether all files of a segment are as they were written."""
        for name, mark in record.files.items():
            if self._images is None:
                if not _VIDEO.fullmatch(name) or hash_file(os.path.join(self.path, name)) != mark:
                    return False
            else:
                path = os.path.join(self._images, os.path.basename(name))
                if not os.path.isfile(path) or str(os.path.getsize(path)) != mark:
                    return False
        return True

    def add(self, record: SegmentRecord) -> None:
        """Record a finished segment, whose files are in the folder."""
        self._write(f"{record.number:06d}.json", record.to_json())
        self.records[record.number] = record

    def find(self, record: SegmentRecord, number: int) -> str:
        """Return the path of one of a segment's videos."""
        return os.path.join(self.path, list(record.files)[number])

    def remove(self) -> None:
        """Delete the folder, and unlock it: the output is complete, or nothing is worth keeping."""
        self.records.clear()
        self._sweep()
        with suppress(OSError):
            os.unlink(os.path.join(self.path, _IDENTITY))
        with suppress(OSError):
            os.rmdir(self.path)
        self._unlock()

    def close(self) -> None:
        """Delete what is unfinished, and unlock the folder; finished segments stay."""
        if self._lock < 0:
            return
        # The next run may replace the images of an unfinished segment.
        has_images = self._images is not None and bool(os.listdir(self._images))
        if not self.records and not has_images:
            self.remove()
            return
        self._sweep()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            unlock(self._lock)
            self._lock = -1

    def _sweep(self) -> None:
        """Delete the files of unrecorded segments, and what processes left beside the output that were killed."""
        for name in os.listdir(self.path):
            is_kept = name == _IDENTITY or (name[:6].isdecimal() and int(name[:6]) in self.records)
            if _OWN.fullmatch(name) and not is_kept:
                with suppress(OSError):
                    os.unlink(os.path.join(self.path, name))
        if self._images is not None:
            remove_scratch(self._images)

    def _read(self, name: str) -> Any:
        """Read a JSON file; None if it is missing or damaged."""
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                return json.loads(file.read(_MAX_JSON_BYTES))
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, name: str, values: Any) -> None:
        path = os.path.join(self.path, name)
        with write_errors(path), replacing(path) as scratch, open(scratch, "w", encoding="utf-8") as file:
            json.dump(values, file)
