"""Facts of many still pictures at the speed of the system calls: one open, one fstat, one read and one close a file.

What is not answered by the first bytes of a plain file, whatever it is, is left to the slow route, which says why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.index.facts import FACTS
from framefeed.media.headers import OddHeader, orientation_of, still_header
from framefeed.media.limits import DEFAULT_LIMITS
from framefeed.media.sniff import HEAD_BYTES
from framefeed.media.source import head_fingerprint

SURVEYED = pa.schema([(name, kind) for name, kind in FACTS.items() if name not in ("source", "label")])
"""What a survey finds out: the facts of a catalog without what the listing knows."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_ORIENTATIONS = range(9)
IntArray = npt.NDArray[np.int64]
Row = tuple[int, int, int, int, int, int, int, str]
"""Kind of picture, columns, rows, orientation, pictures, bytes, mtime_ns, fingerprint."""


@dataclass(slots=True)
class StillRows:
    """Pictures that were understood, and the positions of files that were not.

    Attributes:
        rows: One for each picture, in order.
        others: Positions of the files that the slow route has to look at.
        bytes_read: Of all files.
    """

    rows: list[Row] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    bytes_read: int = 0
    _kinds: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def read(self, paths: Sequence[str], start: int) -> None:
        """Read the headers of files.

        Args:
            paths: Of files that were regular ones when they were listed.
            start: Position of the first.
        """
        rows, kinds, others = self.rows, self._kinds, self.others
        read_bytes = 0
        most_side, most_pixels = DEFAULT_LIMITS.max_side, DEFAULT_LIMITS.max_pixels
        # Names of the module's are looked up once: a million times they would be a tenth of the loop.
        open_, fstat, pread, close, header_of = os.open, os.fstat, os.pread, os.close, still_header
        for position, path in enumerate(paths, start):
            try:
                descriptor = open_(path, _FLAGS)
            except (OSError, ValueError):
                others.append(position)
                continue
            try:
                facts = fstat(descriptor)
                if not stat.S_ISREG(facts.st_mode):
                    raise OddHeader("not a regular file")
                head = pread(descriptor, HEAD_BYTES, 0)
                read_bytes += len(head)
                header = header_of(head, partial(pread, descriptor))
                width, height = header.width, header.height
                if width > most_side or height > most_side or width * height > most_pixels:
                    raise OddHeader("larger than the limits")
            except (OddHeader, OSError):
                others.append(position)
                continue
            finally:
                close(descriptor)
            size = facts.st_size
            kind = kinds.setdefault((header.container, header.codec, header.mode), len(kinds))
            rows.append(
                (kind, width, height, header.orientation, header.num_frames, size, facts.st_mtime_ns,
                 head_fingerprint(head, size))
            )  # fmt: skip
        self.bytes_read += read_bytes

    def batch(self, *, as_index_of_one: bool) -> pa.RecordBatch:
        """Put the rows into columns of ``SURVEYED``.

        Args:
            as_index_of_one: Say one frame for each, which is what can be planned, whatever the header counts.
        """
        count = len(self.rows)
        columns = list(zip(*self.rows, strict=True)) or [()] * 8
        kinds, width, height, orientation, frames, size, mtime = (np.array(each, np.int64) for each in columns[:7])
        rotation, mirrored = (np.array(each) for each in zip(*map(orientation_of, _ORIENTATIONS), strict=True))
        rotation, mirrored = rotation[orientation], mirrored[orientation]
        turned = np.isin(rotation, (90, 270))
        names = list(zip(*self._kinds, strict=True)) or [(), (), ()]
        known: dict[str, Any] = {
            "kind": _repeated("image", count),
            "container": _taken(names[0], kinds),
            "codec": _taken(names[1], kinds),
            "width": np.where(turned, height, width),
            "height": np.where(turned, width, height),
            "coded_width": width,
            "coded_height": height,
            "rotation": rotation,
            "mirrored": mirrored.astype(bool),
            "pixel_format": _taken(names[2], kinds),
            "num_frames": np.ones(count, np.int64) if as_index_of_one else frames,
            "bytes": size,
            "mtime_ns": mtime,
            "fingerprint": pa.array(columns[7], pa.string()),
        }
        return pa.RecordBatch.from_arrays(
            [_column(known.get(name), kind, count) for name, kind in zip(SURVEYED.names, SURVEYED.types, strict=True)],
            schema=SURVEYED,
        )


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _repeated(text: str, count: int) -> pa.Array:
    return _taken((text,), np.zeros(count, np.int64))


def _taken(names: Sequence[str], codes: IntArray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string())).cast(
        pa.string()
    )
