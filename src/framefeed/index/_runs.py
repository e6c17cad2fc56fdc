"""Plan the decoding of frames of one source: the packets to send, in runs.

Rules:
    - A frame is decoded from ``frame_start`` on, never from later; so no leading picture is lost.
    - Frames are decoded in packet order: no GOP is decoded twice, whatever the order of the request.
    - A new run begins only if its jump saves more pictures than it costs (``jump_cost``).
    - Pictures that no other refers to are not even read, unless they are requested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._values import DISPOSABLE
from framefeed.errors import FrameNotFound
from framefeed.index._frame_index import FrameIndex

DIRECT_JUMP_COST = 0
"""Cost of a jump, in pictures, if packets are read from the file directly: draining decodes no extra picture."""
DEMUXER_JUMP_COST = 12
"""Cost of a jump through a container: a seek, and the packets read until its target is verified."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRuns:
    """The packets that a decoder sends, in runs, and the frames that it delivers.

    Attributes:
        send: Packet numbers to send, run after run, int64 [S].
        bounds: Run r sends ``send[bounds[r]:bounds[r + 1]]`` from a flushed state and is drained, int64 [R + 1].
        ordinals: Requested frames, ascending by packet, each once, int64 [W].
        packets: Number of the packet that gives each of them, int64 [W].
    """

    send: IntArray
    bounds: IntArray
    ordinals: IntArray
    packets: IntArray

    @property
    def num_runs(self) -> int:
        """Number of runs."""
        return len(self.bounds) - 1

    @property
    def num_decoded(self) -> int:
        """Number of pictures that the decoder must decode."""
        return len(self.send)

    def __repr__(self) -> str:
        return f"DecodeRuns({len(self.ordinals)} frames from {len(self.send)} packets in {self.num_runs} runs)"


def plan_runs(index: FrameIndex, ordinals: npt.ArrayLike, *, skip: bool = True) -> DecodeRuns:
    """Plan the cheapest exact decoding of some frames of one source.

    Args:
        index: The source's frames.
        ordinals: Frames in any order, repeats allowed, of one clip or many, int [T].
        skip: Leave out pictures that no other refers to, if that is proven exact for the stream.

    Raises:
        FrameNotFound: An ordinal is not in the index.
    """
    frames = np.unique(np.asarray(ordinals, dtype=np.int64))
    if len(frames) and (frames[0] < 0 or frames[-1] >= len(index)):
        bad = int(frames[0] if frames[0] < 0 else frames[-1])
        raise FrameNotFound(f"there is no frame {bad}: the index has {len(index)} frames")
    frames = frames[np.argsort(index.frame_packet[frames], kind="stable")]
    packets = index.frame_packet[frames]
    stops = packets + 1 if index.frame_stop is None else index.frame_stop[frames]
    # An earlier start is always correct, so the earlier start of a later frame serves the frames before it too.
    starts = np.minimum.accumulate(index.frame_start[frames][::-1])[::-1]
    flags = index.packets.flags if skip and index.stream.skips_exactly else None
    jump_cost = DIRECT_JUMP_COST if index.stream.contiguous else DEMUXER_JUMP_COST
    spans = _join_spans(starts, stops, flags, jump_cost)
    sent = [_select_packets(first, stop, flags, packets) for first, stop in spans]
    bounds = np.cumsum([0, *(len(part) for part in sent)], dtype=np.int64)
    send = np.concatenate(sent) if sent else np.empty(0, dtype=np.int64)
    return DecodeRuns(send=send, bounds=bounds, ordinals=frames, packets=packets)


def _join_spans(
    starts: IntArray, stops: IntArray, flags: npt.NDArray[np.uint8] | None, jump_cost: int
) -> list[tuple[int, int]]:
    """Join the packets of frames to half-open spans, where a jump between them costs more than decoding on."""
    spans: list[tuple[int, int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if spans and _count_decoded(spans[-1][1], start, flags) <= jump_cost:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((start, stop))
    return spans


def _count_decoded(first: int, stop: int, flags: npt.NDArray[np.uint8] | None) -> int:
    if first >= stop:
        return 0
    if flags is None:
        return stop - first
    return int(np.count_nonzero((flags[first:stop] & DISPOSABLE) == 0))


def _select_packets(first: int, stop: int, flags: npt.NDArray[np.uint8] | None, requested: IntArray) -> IntArray:
    numbers = np.arange(first, stop, dtype=np.int64)
    if flags is None:
        return numbers
    keep = (flags[first:stop] & DISPOSABLE) == 0
    inside = requested[(requested >= first) & (requested < stop)]
    keep[inside - first] = True
    selected: IntArray = numbers[keep]
    return selected
