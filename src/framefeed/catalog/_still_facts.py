"""Make the frame indexes of still pictures from the columns of a catalog, without Arrow's scalars.

Plans and loaders ask for the index of each picture at least once an epoch, and 14 scalars take 20 microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import BoolArray, IntArray
from framefeed.index import FrameIndex, build_still_index, describe_still_stream
from framefeed.media import SourceIdentity

_NO_TIME = -1
"""Stands for an unknown modification time: times before 1970 are negative, but no file has this one."""
_MOST_RECENT = 1024
"""Indexes that are kept: those of the batches that a loader prepares, as it asks for each twice."""


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """A column of few different texts: row r has ``texts[codes[r]]``; null is ""."""

    codes: npt.NDArray[np.int32]
    texts: list[str]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Texts:
        encoded = column.fill_null("").combine_chunks().dictionary_encode()
        return cls(encoded.indices.to_numpy(), encoded.dictionary.to_pylist())

    def __getitem__(self, row: int) -> str:
        text: str = self.texts[self.codes[row]]
        return text


class StillFacts:
    """The columns that a picture's frame index is made from; ``is_still`` of rows that need no other facts, [R]."""

    def __init__(self, column: Callable[[str], pa.ChunkedArray], is_still: BoolArray) -> None:
        self._is_still = is_still & column("error").is_null().to_numpy()
        self._containers, self._codecs = _Texts.of(column("container")), _Texts.of(column("codec"))
        self._formats = _Texts.of(column("pixel_format"))
        names = ("coded_width", "coded_height", "rotation", "bytes")
        self._widths, self._heights, self._rotations, self._bytes = (_read_numbers(column(name), -1) for name in names)
        self._is_mirrored = column("mirrored").fill_null(False).to_numpy()
        self._is_damaged = _read_numbers(column("num_damaged_frames"), 0) > 0
        self._mtimes = _read_numbers(column("mtime_ns"), _NO_TIME)
        self._fingerprints = column("fingerprint").combine_chunks()
        self._recent: dict[int, FrameIndex] = {}

    def frame_index(self, row: int) -> FrameIndex | None:
        """Make the frame index of a row; None for a row that failed, or is no still picture."""
        # Without a lock: threads that ask for a picture at once may each make its index.
        index = self._recent.get(row)
        if index is None and self._is_still[row]:
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            index = self._recent[row] = self._make_index(row)
        return index

    def _make_index(self, row: int) -> FrameIndex:
        stream = describe_still_stream(
            self._containers[row],
            self._codecs[row],
            (int(self._widths[row]), int(self._heights[row])),
            self._formats[row],
            int(self._rotations[row]),
            mirrored=bool(self._is_mirrored[row]),
        )
        mtime_ns, fingerprint = int(self._mtimes[row]), self._fingerprints[row].as_py()
        identity = SourceIdentity(int(self._bytes[row]), None if mtime_ns == _NO_TIME else mtime_ns, fingerprint or "")
        return build_still_index(stream, identity, is_damaged=bool(self._is_damaged[row]))


def _read_numbers(column: pa.ChunkedArray, fill: int) -> IntArray:
    numbers: IntArray = column.cast(pa.int64()).fill_null(fill).to_numpy()
    return numbers
