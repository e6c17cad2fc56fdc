"""Clips as a decoder gets them: our index, our packets with their numbers as pts, and reference planes of the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.device.rows import Trial, Unavailable, describe, require_module

Planes = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Luma [H, W] and chroma [H/2, W/2, 2], as in NV12; values of more than 8 bits in the low bits."""
_PADDING = 64
"""Zero bytes behind a packet, which libavcodec wants."""
# Decoders of the CPU, where the first of that name is another.
_CPU_DECODERS = {"av1": "libdav1d"}


@dataclass(frozen=True)
class Run:
    """Packets to send to a flushed decoder, and the frames that they give.

    Attributes:
        send: Numbers of packets.
        ordinals: Frame by number of its packet.
    """

    send: Sequence[int]
    ordinals: dict[int, int]


class Clip:
    """One clip of the pack, indexed here.

    Attributes:
        index: Our ``FrameIndex``.
        ordinal_of: Frame by number of its packet.
        packet_bytes: The bytes of each packet in decode order.
    """

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        framefeed = require_module("framefeed")
        self.path = path
        self.name: str = facts["name"]
        self.codec: str = facts["codec"]
        self.kind: str = facts["kind"]
        self.trait: str = facts["trait"]
        self.is_fast: bool = facts["is_fast"]
        self.index = framefeed.build_index(path)
        numbers = enumerate(self.index.frame_packet.tolist())
        self.ordinal_of = {packet: ordinal for ordinal, packet in numbers if packet >= 0}
        self.packet_bytes = self._read_packets()
        self._reference: dict[int, Planes] | None = None

    def _read_packets(self) -> list[bytes]:
        packets = self.index.packets
        if self.index.stream.contiguous:
            data = self.path.read_bytes()
            ranges = zip(packets.offset.tolist(), packets.size.tolist(), strict=True)
            return [data[offset : offset + size] for offset, size in ranges]
        av = require_module("av")
        with av.open(str(self.path)) as container:
            stream = container.streams[self.index.stream.stream_index]
            found = [bytes(packet) for packet in container.demux(stream) if packet.size]
        if len(found) != len(packets):
            raise Unavailable(f"{self.name}: the index has {len(packets)} packets, and the container {len(found)}")
        return found

    def packets(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yield packets by number, their number as pts, and the packet that drains a decoder."""
        av = require_module("av")
        for number in numbers:
            data = self.packet_bytes[number]
            padded = memoryview(bytearray(data) + bytearray(_PADDING))
            packet = av.Packet(padded[: len(data)])
            packet.pts = number
            yield packet
        yield None

    def plan(self, ordinals: Iterable[int]) -> list[Run]:
        """Plan runs of packets for some frames; pictures that no other refers to are left out where that is exact."""
        index = self.index
        by_start: dict[int, dict[int, int]] = {}
        for ordinal in sorted(set(ordinals), key=lambda number: int(index.frame_packet[number])):
            start = int(index.frame_start[ordinal])
            by_start.setdefault(start, {})[int(index.frame_packet[ordinal])] = ordinal
        runs = []
        for start, frames in by_start.items():
            send = range(start, max(frames) + 1)
            if index.stream.skips_exactly:
                disposable = index.packets.is_disposable
                runs.append(Run([n for n in send if n in frames or not disposable[n]], frames))
            else:
                runs.append(Run(send, frames))
        return runs

    def make_cpu_decoder(self) -> Any:
        """Make libavcodec's decoder of the CPU."""
        av = require_module("av")
        return self.configure(av.CodecContext.create(_CPU_DECODERS.get(self.codec, self.codec), "r"))

    def configure(self, context: Any, options: dict[str, str] | None = None) -> Any:
        """Give a decoder one thread, the stream's configuration and options, and open it."""
        context.thread_count = 1
        context.options = dict(options or {})
        if self.index.stream.extradata is not None:
            context.extradata = self.index.stream.extradata
        context.open()
        return context

    def decode(self, context: Any, run: Run) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, frame) of a run from a flushed decoder; what the index does not have is dropped."""
        context.flush_buffers()
        for packet in self.packets(run.send):
            for frame in context.decode(packet):
                ordinal = run.ordinals.get(frame.pts)
                if ordinal is not None:
                    yield ordinal, frame

    @property
    def whole(self) -> Run:
        """All packets and frames."""
        return Run(range(len(self.index.packets)), self.ordinal_of)

    @property
    def reference(self) -> dict[int, Planes]:
        """Planes of each frame, decoded once by the CPU from first to last."""
        if self._reference is None:
            decoded = self.decode(self.make_cpu_decoder(), self.whole)
            self._reference = {ordinal: read_cpu_planes(frame) for ordinal, frame in decoded}
        return self._reference


def open_clips(trial: Trial, *kinds: str, is_fast: bool | None = None) -> Iterator[Clip]:
    """Yield the clips of some kinds; one that cannot be indexed becomes a row."""
    for facts in trial.read_list()["clips"]:
        if facts["kind"] in kinds and is_fast in (None, facts["is_fast"]):
            try:
                yield Clip(trial.media / facts["name"], facts)
            except Unavailable:
                raise
            except Exception as error:  # the trial goes on with the other clips
                trial.add("index", "failed", clip=facts["name"], reason=describe(error))


def open_fast_clip(trial: Trial, codec: str = "h264") -> Clip:
    """Open the clip with which the speed of a codec is measured."""
    for clip in open_clips(trial, "plain", is_fast=True):
        if clip.codec == codec:
            return clip
    raise Unavailable(f"the pack has no clip of {codec} for speeds")


def read_cpu_planes(frame: Any) -> Planes:
    """Copy the planes of a frame in memory (planar 4:2:0) into the arrangement of NV12."""
    if frame.format.name not in ("yuv420p", "yuvj420p", "yuv420p10le"):
        raise Unavailable(f"the CPU's frames are {frame.format.name}, which is not compared")
    luma, blue, red = (_read_plane(plane, frame.format.name) for plane in frame.planes)
    return luma, np.stack([blue, red], axis=-1)


def _read_plane(plane: Any, pixel_format: str) -> npt.NDArray[Any]:
    dtype = np.dtype("<u2" if pixel_format.endswith("10le") else np.uint8)
    rows = np.frombuffer(plane, dtype).reshape(plane.height, plane.line_size // dtype.itemsize)
    return rows[:, : plane.width].copy()


@dataclass(frozen=True)
class Difference:
    """Mean and largest absolute difference of all samples that both pictures have."""

    mean: float
    worst: int


def compare(planes: Planes, reference: Planes) -> Difference:
    """Compare two pictures; of unequal planes, the part that both have."""
    total, count, worst = 0, 0, 0
    for ours, theirs in zip(planes, reference, strict=True):
        rows, columns = min(ours.shape[0], theirs.shape[0]), min(ours.shape[1], theirs.shape[1])
        first, second = ours[:rows, :columns], theirs[:rows, :columns]
        gap = np.maximum(first, second) - np.minimum(first, second)  # unsigned, so never below zero
        total, count = total + int(gap.sum(dtype=np.int64)), count + gap.size
        worst = max(worst, int(gap.max(initial=0)))
    return Difference(total / max(1, count), worst)
