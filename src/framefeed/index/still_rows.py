"""Facts of many still pictures at the speed of the system calls: one open, one fstat, one read and one close a file.

What is not answered by the first bytes of a plain file, whatever it is, is left to the slow route, which says why.
"""

from __future__ import annotations

import os
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
_ROTATION, _MIRRORED = (np.array(each) for each in zip(*map(orientation_of, range(9)), strict=True))
"""By EXIF's orientation."""
IntArray = npt.NDArray[np.int64]
_REGULAR = 0o100000
_KIND = 0o170000
"""Of ``st_mode``, as ``stat.S_ISREG`` has it: a million calls of it are felt."""


@dataclass(slots=True)
class StillRows:
    """Pictures that were understood, and the positions of files that were not.

    Attributes:
        numbers: Size, modification time, number of the kind, columns, rows, orientation and number of frames of one
            picture after the other.
        fingerprints: Of each picture.
        others: Positions of the files that the slow route has to look at.
    """

    numbers: list[int] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    _kinds: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def read(self, paths: Sequence[str], start: int) -> None:
        """Read the headers of files.

        Args:
            paths: Of files that were regular ones when they were listed.
            start: Position of the first.
        """
        kinds, add, sign = self._kinds, self.numbers.extend, self.fingerprints.append
        # Looked up once: names of other modules would be a tenth of the loop.
        open_, fstat, pread, close, header_of = os.open, os.fstat, os.pread, os.close, still_header
        most = DEFAULT_LIMITS.max_side
        for position, path in enumerate(paths, start):
            try:
                descriptor = open_(path, _FLAGS)
            except (OSError, ValueError):
                self.others.append(position)
                continue
            try:
                facts = fstat(descriptor)
                if facts.st_mode & _KIND != _REGULAR:
                    raise OddHeader("not a regular file")
                size = facts.st_size
                head = pread(descriptor, HEAD_BYTES, 0)
                container, codec, width, height, mode, _, orientation, frames, _ = header_of(
                    head, partial(pread, descriptor), size
                )
                if width > most or height > most or width * height > DEFAULT_LIMITS.max_pixels:
                    raise OddHeader("larger than the limits")
            except (OddHeader, OSError):
                self.others.append(position)
                continue
            finally:
                close(descriptor)
            kind = kinds.setdefault((container, codec, mode), len(kinds))
            add((size, facts.st_mtime_ns, kind, width, height, orientation, frames))
            sign(head_fingerprint(head, size))

    def batch(self, *, as_index_of_one: bool) -> pa.RecordBatch:
        """Put the rows into columns of ``SURVEYED``.

        Args:
            as_index_of_one: Say one frame for each, which is what can be planned, whatever the header counts.
        """
        count = len(self.fingerprints)
        numbers = np.fromiter(self.numbers, np.int64, len(self.numbers)).reshape(count, 7)
        size, mtime, kinds, width, height, orientation, frames = numbers.T
        turned = np.isin(_ROTATION[orientation], (90, 270))
        names = list(zip(*self._kinds, strict=True)) or [(), (), ()]
        known: dict[str, Any] = {
            "kind": _repeated("image", count),
            "container": _taken(names[0], kinds),
            "codec": _taken(names[1], kinds),
            "width": np.where(turned, height, width),
            "height": np.where(turned, width, height),
            "coded_width": width,
            "coded_height": height,
            "rotation": _ROTATION[orientation],
            "mirrored": _MIRRORED[orientation],
            "pixel_format": _taken(names[2], kinds),
            "num_frames": np.ones(count, np.int64) if as_index_of_one else frames,
            "bytes": size,
            "mtime_ns": mtime,
            "fingerprint": pa.array(self.fingerprints, pa.string()),
        }
        return pa.RecordBatch.from_arrays(
            [_column(known.get(name), kind, count) for name, kind in zip(SURVEYED.names, SURVEYED.types, strict=True)],
            schema=SURVEYED,
        )


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(np.ascontiguousarray(values), kind)


def _repeated(text: str, count: int) -> pa.Array:
    return _taken((text,), np.zeros(count, np.int64))


def _taken(names: Sequence[str], codes: IntArray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string())).cast(
        pa.string()
    )
