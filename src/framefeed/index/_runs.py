"""Plan the decoding of frames of one source: the packets to send, in runs; predict its CPU seconds.

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
from framefeed.bitstreams import Codec
from framefeed.errors import FrameNotFound
from framefeed.index._frame_index import FrameIndex
from framefeed.index._pictures import has_picture_files

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
    stream, delivered = index.stream, len(runs.ordinals)
    pixels = stream.width * stream.height
    if has_picture_files(index):
        return runs.num_decoded * (SECONDS_PER_FILE + pixels * SECONDS_PER_FILE_PIXEL)
    sent_bytes = int(np.maximum(0, index.packets.size[runs.send]).sum())
    opens = 0 if stream.contiguous else runs.num_runs
    return (
        runs.num_decoded * (SECONDS_PER_PICTURE + pixels * SECONDS_PER_DECODED_PIXEL)
        + sent_bytes * Codec.of(stream.codec).seconds_per_byte
        + delivered * (SECONDS_PER_DELIVERED + pixels * SECONDS_PER_DELIVERED_PIXEL)
        + opens * SECONDS_PER_OPEN
    )
