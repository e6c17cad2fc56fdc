"""Make segments in one worker: decode, call the function, encode."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from framefeed._arrays import IntArray
from framefeed.decode import Pixels
from framefeed.errors import CorruptMedia, FramefeedError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.transcode._calling import FrameCaller, FrameOutcome
from framefeed.transcode._options import UserFunction
from framefeed.transcode._reading import FrameReader, describe_damage
from framefeed.transcode._results import FrameFault, add_context, name_frame
from framefeed.transcode._segments import Segment
from framefeed.transcode._targets import SegmentOutput, SegmentRecord, Target
from framefeed.transcode._timetable import Timetable

FRAME, DONE, BEATS, ATTEMPT = range(4)
"""Columns of a worker's row on the board: the frame in work, pictures of its segment that are done, a number that
changes whenever a step is done, and the attempt that a process has begun."""
NUM_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class MapJob:
    """All that a worker needs; ``times`` are the pictures of the output, ``folder`` is the work folder."""

    source: MediaSource
    index: FrameIndex
    times: Timetable
    segments: tuple[Segment, ...]
    user: UserFunction
    target: Target
    folder: str

    def __repr__(self) -> str:
        return f"the map of {self.source.name}"

    def name_frame_in_work(self, row: IntArray) -> tuple[int, str]:
        """Return number and name of a worker's frame, by its row of the board, int64 [4]."""
        frame = min(int(row[FRAME]), len(self.index) - 1)
        return frame, name_frame(frame, float(self.index.pts_seconds[frame]))


class SegmentWorker:
    """Makes segments, one after the other, in one thread; ``row`` is the worker's row of the board, int64 [4]."""

    def __init__(self, job: MapJob, row: IntArray) -> None:
        self.row = row
        self._job = job
        self._reader = FrameReader(job.source, job.index)
        self._caller = FrameCaller(job.user, job.source.name, job.index.pts_seconds, job.target.check)

    def work(self, segment: Segment) -> Generator[None, None, SegmentRecord]:
        """Make a segment in steps; closing the generator removes what was written."""
        job, faults = self._job, list[FrameFault]()
        self.row[DONE] = 0
        output = job.target.open(segment, job.times, job.folder)
        ordinals = job.times.ordinals[segment.first : segment.stop]
        try:
            for frames, pixels in self._read_batches(segment, faults):
                if frames:
                    self.row[FRAME] = frames[0]
                    outcomes = self._caller(frames, pixels)
                    # The next batch is read into memory of its own.
                    frames, pixels = [], []
                    for outcome in outcomes:
                        if outcome.fault is not None:
                            faults.append(outcome.fault)
                        begin, end = np.searchsorted(ordinals, [outcome.frame, outcome.frame + 1]).tolist()
                        for position in range(begin, end) if outcome.result else ():
                            self._add(output, segment.first + position, outcome)
                        self.row[DONE] = end
                self.row[BEATS] += 1
                yield
            return output.finish(sorted(faults, key=lambda fault: fault.frame))
        except BaseException:
            output.discard()
            raise

    def _add(self, output: SegmentOutput, position: int, outcome: FrameOutcome) -> None:
        try:
            output.add(position, outcome.result)
        except FramefeedError as error:
            add_context(error, outcome.frame, self._job.source.name, "write")
            raise

    def _read_batches(self, segment: Segment, faults: list[FrameFault]) -> Iterator[tuple[list[int], list[Pixels]]]:
        """Yield the frames of each call; an empty list now and then while the decoder catches up."""
        times, size = self._job.times, self._job.user.batch_size or 1
        ordinals = np.unique(times.ordinals[segment.first : segment.stop])
        # Up to the picture at which decoding begins anew.
        behind = (each.first for each in self._job.segments[segment.number + 1 :] if each.is_start)
        following = np.unique(times.ordinals[segment.stop : next(behind, len(times))])
        frames, pixels = list[int](), list[Pixels]()
        self.row[FRAME] = ordinals[0]
        for item in self._reader.read(ordinals, following):
            if item is None:
                yield [], []
                continue
            ordinal, decoded = item
            del item
            if isinstance(decoded, CorruptMedia):
                faults.append(describe_damage(self._job.index, ordinal, decoded))
                yield [], []
                continue
            frames.append(ordinal)
            pixels.append(decoded)
            del decoded
            if len(frames) == size:
                yield frames, pixels
                frames, pixels = [], []
            self.row[FRAME] = ordinal + 1
        if frames:
            yield frames, pixels

    def close(self) -> None:
        """Close the decoder."""
        self._reader.close()
