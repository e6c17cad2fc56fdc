"""FrameIndex + wanted frames -> decode runs: where to start, what to send, what to deliver, and what it costs.

Rules:
    - A frame is decoded from ``frame_start`` on, never from later; so no leading picture is lost.
    - Frames are visited in packet order: no GOP is decoded twice, whatever the order of the request.
    - A new run begins only where a jump saves more pictures than it costs (``jump_cost``).
    - Pictures that no other refers to are not even read, unless they are wanted themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed.errors import FrameNotFound
from framefeed.index import DISPOSABLE, FrameIndex

DIRECT_JUMP_COST = 0
"""Pictures that one jump is worth when packets are read straight from the file: draining gives no extra picture."""
DEMUXER_JUMP_COST = 12
"""The same through a container: a seek and the packets read until its landing is verified."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRuns:
    """Work for a decoder, as arrays, so that its loop decides nothing.

    Attributes:
        send: Packet numbers to send, run after run, int64 [S].
        bounds: Run r sends ``send[bounds[r]:bounds[r + 1]]`` from a flushed state and is drained, int64 [R + 1].
        ordinals: The wanted frames, ascending by packet, each once, int64 [W].
        packets: Number of the packet that gives each of them, int64 [W].
    """

    send: IntArray
    bounds: IntArray
    ordinals: IntArray
    packets: IntArray

    @property
    def num_runs(self) -> int:
        """How often decoding starts anew."""
        return len(self.bounds) - 1

    @property
    def num_decoded(self) -> int:
        """Predicted cost: pictures that the decoder must decode."""
        return len(self.send)

    def __repr__(self) -> str:
        return f"DecodeRuns({len(self.ordinals)} frames from {len(self.send)} packets in {self.num_runs} runs)"


def plan_runs(index: FrameIndex, ordinals: npt.ArrayLike, *, skip: bool = True) -> DecodeRuns:
    """Plan the cheapest exact decoding of some frames of one source.

    Args:
        index: The source's frames.
        ordinals: Wanted frames in any order, repeats allowed, of one clip or many, int [T].
        skip: Leave out pictures that no other refers to, where that is proven exact for the stream.

    Raises:
        FrameNotFound: An ordinal is not in the index.
    """
    wanted = np.unique(np.asarray(ordinals, dtype=np.int64))
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= len(index)):
        bad = int(wanted[0] if wanted[0] < 0 else wanted[-1])
        raise FrameNotFound(f"there is no frame {bad}: the index has {len(index)} frames")
    wanted = wanted[np.argsort(index.frame_packet[wanted], kind="stable")]
    packets = index.frame_packet[wanted]
    stops = packets + 1 if index.frame_stop is None else index.frame_stop[wanted]
    # Starting earlier is always right, so a later frame's earlier start serves the frames before it too.
    starts = np.minimum.accumulate(index.frame_start[wanted][::-1])[::-1]
    droppable = _droppable(index, skip)
    jump_cost = DIRECT_JUMP_COST if index.stream.contiguous else DEMUXER_JUMP_COST
    sent = [_kept(first, last, droppable, packets) for first, last in _spans(starts, stops, droppable, jump_cost)]
    bounds = np.cumsum([0, *(len(part) for part in sent)], dtype=np.int64)
    send = np.concatenate(sent) if sent else np.empty(0, dtype=np.int64)
    return DecodeRuns(send=send, bounds=bounds, ordinals=wanted, packets=packets)


def _droppable(index: FrameIndex, skip: bool) -> npt.NDArray[np.uint8] | None:
    return index.packets.flags if skip and index.stream.skips_exactly else None


def _spans(
    starts: IntArray, stops: IntArray, flags: npt.NDArray[np.uint8] | None, jump_cost: int
) -> list[tuple[int, int]]:
    """Join frames into spans of packets, half-open."""
    spans: list[tuple[int, int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if spans and _num_decoded(spans[-1][1], start, flags) <= jump_cost:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((start, stop))
    return spans


def _num_decoded(first: int, stop: int, flags: npt.NDArray[np.uint8] | None) -> int:
    if first >= stop:
        return 0
    if flags is None:
        return stop - first
    return int(np.count_nonzero((flags[first:stop] & DISPOSABLE) == 0))


def _kept(first: int, stop: int, flags: npt.NDArray[np.uint8] | None, wanted_packets: IntArray) -> IntArray:
    numbers = np.arange(first, stop, dtype=np.int64)
    if flags is None:
        return numbers
    keep = (flags[first:stop] & DISPOSABLE) == 0
    inside = wanted_packets[(wanted_packets >= first) & (wanted_packets < stop)]
    keep[inside - first] = True
    kept: IntArray = numbers[keep]
    return kept
