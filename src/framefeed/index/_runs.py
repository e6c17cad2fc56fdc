"""Plan the decoding of frames of one source: the packets to send, in runs; predict its CPU seconds.

Rules:
    - A frame is decoded from ``frame_start`` on, never from later; so no leading picture is lost.
    - Frames are decoded in packet order: no GOP is decoded twice, whatever the order of the request.
    - A new run begins only if its jump saves more pictures than it costs (``jump_cost``).
    - Pictures that no other refers to are not even read, unless they are requested.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._values import DISPOSABLE
from framefeed.bitstreams import Codec
from framefeed.errors import FrameNotFound
from framefeed.index._frame_index import FrameIndex
from framefeed.index._stills import has_picture_files

DIRECT_JUMP_COST = 0
"""Cost of a jump, in pictures, if packets are read from the file directly: draining decodes no extra picture."""
DEMUXER_JUMP_COST = 12
"""Cost of a jump through a container: a seek, and the packets read until its target is verified."""
MOST_HELD_BACK = 17
"""Pictures that a decoder holds back: the largest reorder depth of H.264 and HEVC, and the picture being decoded."""


class RunKind(enum.Enum):
    """How a run is decoded."""

    UNDAMAGED = "undamaged"
    """By any decoder; frames behind damage are decoded again by a new one."""
    SHARED = "shared packets"
    """By a new decoder that gets every packet: frames of one packet are told apart by their order."""
    DAMAGED = "damaged"
    """By a new decoder that gets every packet and goes on after damage."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRun:
    """Packets that a decoder sends one after the other, and the frames that it delivers."""

    kind: RunKind  # how they are decoded
    # Packet numbers to send from a flushed state, ascending; after them the decoder is drained, int64 [S].
    send: IntArray
    ordinals: IntArray  # requested frames, ascending by packet, each once, int64 [W]
    packets: IntArray  # number of the packet that gives each of them, int64 [W]
    before: IntArray  # how many frames that packet gives before each of them, int64 [W]


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRuns:
    """The runs that decode some frames of one source, in the order of decoding."""

    runs: tuple[DecodeRun, ...]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def num_decoded(self) -> int:
        """Number of pictures that the decoder must decode."""
        return sum(len(run.send) for run in self.runs)

    @property
    def num_frames(self) -> int:
        """Number of frames that are delivered."""
        return sum(len(run.ordinals) for run in self.runs)

    @property
    def send(self) -> IntArray:
        """Packet numbers to send, run after run, int64 [S]."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(run.send for run in self.runs)])

    def __repr__(self) -> str:
        return f"DecodeRuns({self.num_frames} frames from {self.num_decoded} packets in {len(self)} runs)"


def plan_runs(
    index: FrameIndex, ordinals: npt.ArrayLike, *, skip: bool = True, with_damage: bool = False
) -> DecodeRuns:
    """Plan the cheapest exact decoding of some frames of one source.

    ``ordinals``: frames in any order, repeats allowed, of one clip or many, int [T].
    ``skip``: leave out pictures that no other refers to, if that is proven exact for the stream.
    ``with_damage``: plan for frames that are delivered damaged or not.
    """
    # Few calls of NumPy: after a picture was decoded, each runs from cold caches, ten times as long as in a benchmark.
    frames = np.asarray(ordinals, dtype=np.int64)
    if not (frames[1:] > frames[:-1]).all():
        frames = np.unique(frames)
    if len(frames) and (frames[0] < 0 or frames[-1] >= len(index)):
        bad = int(frames[0] if frames[0] < 0 else frames[-1])
        raise FrameNotFound(f"there is no frame {bad}: the index has {len(index)} frames")
    runs: list[DecodeRun] = []
    if index.shares_packet is not None:
        is_shared = index.shares_packet[frames]
        runs += _plan_shared(index, frames[is_shared], RunKind.DAMAGED if with_damage else RunKind.SHARED)
        frames = frames[~is_shared]
    packets = index.frame_packet[frames]
    if (packets[1:] < packets[:-1]).any():
        frames = frames[packets.argsort(kind="stable")]
    runs += _plan_damaged(index, frames) if with_damage else _plan_undamaged(index, frames, skip=skip)
    return DecodeRuns(tuple(runs))


def _plan_undamaged(index: FrameIndex, frames: IntArray, *, skip: bool) -> list[DecodeRun]:
    packets, before = index.frame_packet[frames], np.zeros(len(frames), dtype=np.int64)
    stops = packets + 1 if index.frame_stop is None else index.frame_stop[frames]
    # An earlier start is always correct, so the earlier start of a later frame serves the frames before it too.
    starts = np.minimum.accumulate(index.frame_start[frames][::-1])[::-1]
    flags = index.packets.flags if skip and index.stream.skips_exactly else None
    jump_cost = DIRECT_JUMP_COST if index.stream.contiguous else DEMUXER_JUMP_COST
    # A run ends where a jump to the next frame's start costs less than decoding on.
    gaps = (starts[1:] > stops[:-1]).nonzero()[0].tolist()
    ends = [gap + 1 for gap in gaps if _count_decoded(int(stops[gap]), int(starts[gap + 1]), flags) > jump_cost]
    runs = []
    for first, stop in pairwise([0, *ends, len(frames)] if len(frames) else ()):
        own = slice(first, stop)
        send = _select_packets(int(starts[first]), int(stops[stop - 1]), flags, packets[own])
        runs.append(DecodeRun(RunKind.UNDAMAGED, send, frames[own], packets[own], before[own]))
    return runs


def _plan_damaged(index: FrameIndex, frames: IntArray) -> list[DecodeRun]:
    """Plan frames that may be damaged.

    A decoder replaces damage with parts of earlier pictures, and may change them until the picture is output. So that a
    picture does not depend on the other frames of a call, each start is a run of its own, with enough packets after
    the last one that no picture is held back.
    """
    starts, runs = index.frame_start[frames], []
    for start in np.unique(starts).tolist():
        own = frames[starts == start]
        packets = index.frame_packet[own]
        stop = int(packets[-1]) + 1 if index.frame_stop is None else int(index.frame_stop[own[-1]])
        send = np.arange(start, min(stop + MOST_HELD_BACK, len(index.packets)), dtype=np.int64)
        runs.append(DecodeRun(RunKind.DAMAGED, send, own, packets, np.zeros_like(own)))
    return runs


def _plan_shared(index: FrameIndex, frames: IntArray, kind: RunKind) -> list[DecodeRun]:
    """Plan frames whose packets give several frames; each start is a run of its own."""
    by_start: dict[int, list[tuple[int, int, int]]] = {}
    for ordinal in frames.tolist():
        packet = int(index.frame_packet[ordinal])
        siblings = np.flatnonzero(index.frame_packet == packet)
        before = int(np.searchsorted(siblings, ordinal))
        by_start.setdefault(int(index.frame_start[siblings].min()), []).append((packet, before, ordinal))
    runs = []
    for start, rows in by_start.items():
        packets, before, ordinals = np.array(sorted(rows), dtype=np.int64).T
        send = np.arange(start, packets[-1] + 1, dtype=np.int64)
        runs.append(DecodeRun(kind, send, ordinals, packets, before))
    return runs


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
    keep[requested[requested >= first] - first] = True  # a packet that is not known is -1
    selected: IntArray = numbers[keep]
    return selected


# Fitted to the CPU time of loading clips of 8 frames to 224 x 224 in one thread: 169 real videos of 15 codecs and 170
# pictures, on two busy x86-64 cores. 96 % of the videos took half to twice what is predicted. The seconds of a byte
# are a column of the table of codecs: a byte of a dense stream takes longer.
SECONDS_PER_PICTURE = 4e-5
"""For each decoded picture of any size."""
SECONDS_PER_DECODED_PIXEL = 0.5e-9
SECONDS_PER_DELIVERED = 3e-4
"""For each delivered frame of any size."""
SECONDS_PER_DELIVERED_PIXEL = 2.8e-9
"""For each pixel of the frame before it is resized."""
SECONDS_PER_OPEN = 1e-3
"""For each run through a container; not for packets that are read from the file directly."""
SECONDS_PER_FILE = 1.2e-3
"""For each picture of any size in its own file."""
SECONDS_PER_FILE_PIXEL = 1e-8
"""For each pixel of such a picture: JPEG 0.9, PNG 0.8, WebP 1.4, AVIF 1.6."""


def predict_seconds(index: FrameIndex, runs: DecodeRuns) -> float:
    """Predict the CPU seconds of runs, and of resizing their frames."""
    stream, delivered = index.stream, runs.num_frames
    pixels = stream.width * stream.height
    if has_picture_files(index):
        return runs.num_decoded * (SECONDS_PER_FILE + pixels * SECONDS_PER_FILE_PIXEL)
    sent_bytes = int(np.maximum(0, index.packets.size[runs.send]).sum())
    opens = 0 if stream.contiguous else len(runs)
    return (
        runs.num_decoded * (SECONDS_PER_PICTURE + pixels * SECONDS_PER_DECODED_PIXEL)
        + sent_bytes * Codec.of(stream.codec).seconds_per_byte
        + delivered * (SECONDS_PER_DELIVERED + pixels * SECONDS_PER_DELIVERED_PIXEL)
        + opens * SECONDS_PER_OPEN
    )
