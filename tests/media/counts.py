"""Damaged streams of H.264, HEVC, VP8, VP9 and AV1: each way of verifying gives the same frames under the same numbers.

``python -m tests.media.counts --streams 600 --log build/chaos_counts.log`` (``make chaos``). Each stream is a small
encode of which packets lost units, bytes or themselves, or have other bits in their headers. Its indexes by proof, by
its ends and in full are compared, and full verification with PyAV's sequential decoding.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np

from framefeed import FrameIndex, build_index
from framefeed.encode import restoring_scheduling
from framefeed.errors import FramefeedError
from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from tests.bitstreams import vpx_mutants
from tests.media.nal_mutants import join, split
from tests.programs import report_lines
from tests.seeds import read_options

X264, X265 = "scenecut=0:threads=1", "scenecut=0:log-level=none:pools=none:frame-threads=1"
_VPX = {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "good", "cpu-used": "5"}
ENCODES = {
    "h264": ("libx264", {"x264-params": f"{X264}:bframes=2:b-adapt=0"}),
    "h264 deep": ("libx264", {"x264-params": f"{X264}:bframes=5:b-pyramid=normal:b-adapt=0"}),
    "h264 open": ("libx264", {"x264-params": f"{X264}:open-gop=1:bframes=3:b-adapt=0:slices=2"}),
    "hevc": ("libx265", {"x265-params": f"{X265}:bframes=4:b-adapt=0"}),
    "hevc closed": ("libx265", {"x265-params": f"{X265}:open-gop=0:bframes=2:b-adapt=0:slices=2"}),
    "hevc plain": ("libx265", {"x265-params": f"{X265}:bframes=0"}),
    "vp8": ("libvpx", _VPX),
    "vp8 resilient": ("libvpx", {"error-resilient": "1"}),
    "vp9": ("libvpx-vp9", _VPX),
    "vp9 resilient": ("libvpx-vp9", {"error-resilient": "1"}),
    "av1": ("libsvtav1", {}),
    "av1 low delay": ("libsvtav1", {"svtav1-params": "pred-struct=1"}),
}
CONTAINERS = {"h26": (".mp4", ".mkv", ".ts"), "vp8": (".webm", ".ivf"), "vp9": (".webm", ".mp4", ".ivf"),
              "av1": (".webm", ".mp4", ".ivf")}  # fmt: skip
SHORT, LONG, GOP, HEIGHT, WIDTH = 36, 160, 12, 64, 96


@dataclass(frozen=True)
class Stream:
    """A damaged stream: which encode, which container, and the seed that decides the damage."""

    encode: str
    ending: str
    seed: int

    @property
    def num_frames(self) -> int:
        """In a third of them, those in the middle are neither among the first nor among the last that are decoded."""
        return LONG if self.seed % 3 == 0 else SHORT

    @property
    def codec(self) -> str:
        return self.encode.split()[0]

    def write(self, folder: Path) -> Path | None:
        """Write it; None where libav's muxer refuses its packets."""
        template, packets, time_base = _encoded(self.encode, self.num_frames)
        chance = random.Random(f"{self.encode} {self.ending} {self.seed}")
        packets = list(packets)
        for _ in range(chance.choice((1, 1, 2, 3))):
            packets = _damage(packets, self.codec, chance)
        path = folder / f"stream{self.ending}"
        try:
            if self.codec == "av1":
                _put_av1(path, self.encode, packets, time_base)
            else:
                put_packets(path, template, packets, time_base)
        except (av.FFmpegError, ValueError):
            return None
        return path


@lru_cache
def _encoded(name: str, num_frames: int) -> tuple[bytes, list[Coded], Fraction]:
    codec, options = ENCODES[name]
    spec = ClipSpec(num_frames, HEIGHT, WIDTH, codec=codec, gop=GOP, b_frames=None, codec_options=options)
    clip = clip_bytes(spec, "mp4" if codec.startswith("libx26") else "webm")
    return clip, *take_packets(clip)


def _put_av1(path: Path, encode: str, packets: Sequence[Coded], time_base: Fraction) -> None:
    """Write packets under the configuration of a new encoder: libav does not copy that of libdav1d."""
    codec, options = ENCODES[encode]
    with restoring_scheduling(), av.open(str(path), "w") as target:
        stream: Any = target.add_stream(codec, rate=25, options=dict(options))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        target.start_encoding()
        for coded in packets:
            packet = av.Packet(coded.data)
            packet.pts, packet.dts, packet.duration = coded.pts, coded.dts, coded.duration
            packet.time_base, packet.is_keyframe, packet.stream = time_base, coded.is_key, stream
            target.mux(packet)


def _damage(packets: list[Coded], codec: str, chance: random.Random) -> list[Coded]:
    if len(packets) < 2:
        return packets
    first = chance.randrange(len(packets))
    kind = chance.choice(("head", "head", "head", "bits", "unit", "unit", "cut", "lose", "twice", "swap", "kinds"))
    if kind == "lose":
        del packets[first : first + chance.choice((1, 1, 1, 3))]
    elif kind == "twice":
        packets.insert(first, packets[first])
    elif kind == "swap" and first:
        one, other = packets[first - 1], packets[first]
        packets[first - 1], packets[first] = replace(one, data=other.data), replace(other, data=one.data)
    elif kind == "kinds":
        # As `filter_units` does: all units of one kind are gone.
        gone = _kind(chance.choice(_units(packets[first].data, codec)), codec)
        for number, packet in enumerate(packets):
            units = [unit for unit in _units(packet.data, codec) if _kind(unit, codec) != gone]
            packets[number] = replace(packet, data=_joined(units, codec))
        packets = [packet for packet in packets if packet.data]
    else:
        data = _damaged(packets[first].data, codec, kind, chance)
        packets[first : first + 1] = [replace(packets[first], data=data)] if data else []
    return packets


def _damaged(data: bytes, codec: str, kind: str, chance: random.Random) -> bytes:
    units = _units(data, codec)
    if not any(units):
        return data
    number = chance.choice([number for number, unit in enumerate(units) if unit])
    unit = bytearray(units[number])
    if kind == "unit":
        del units[number]
        return _joined(units, codec)
    if kind == "cut":
        if chance.random() < 0.5:
            return data[: chance.randrange(1, len(data))] if len(data) > 1 else b""
        units[number] = bytes(unit[: chance.randrange(len(unit) + 1)])
    else:
        reach = min(len(unit), 24) if kind == "head" else len(unit)
        for _ in range(chance.choice((1, 1, 2, 8))):
            unit[chance.randrange(reach)] ^= 1 << chance.randrange(8)
        units[number] = bytes(unit)
    return _joined(units, codec)


def _units(data: bytes, codec: str) -> list[bytes]:
    """Take a packet apart: NAL units, units of AV1 with their headers, frames of a superframe."""
    if codec in ("h264", "hevc"):
        return split(data)
    if codec == "av1":
        try:
            return [vpx_mutants.join([unit]) for unit in vpx_mutants.units(data)]
        except IndexError:
            return [data]
    if codec == "vp9" and data[-1] & 0xE0 == 0xC0:
        length, count = (data[-1] >> 3 & 3) + 1, (data[-1] & 7) + 1
        index, frames, at = data[-1 - count * length : -1], list[bytes](), 0
        for number in range(count):
            size = int.from_bytes(index[number * length : (number + 1) * length], "little")
            frames.append(data[at : at + size])
            at += size
        return [frame for frame in frames if frame] or [data]
    return [data]


def _joined(units: Sequence[bytes], codec: str) -> bytes:
    if codec in ("h264", "hevc"):
        return join(units)
    if codec == "vp9" and len(units) > 1 and all(units):
        return vpx_mutants.superframe(*units)
    return b"".join(units)


def _kind(unit: bytes, codec: str) -> int:
    if not unit:
        return -1
    return {"h264": unit[0] & 31, "hevc": unit[0] >> 1 & 63, "av1": unit[0] >> 3 & 15}.get(codec, unit[0] >> 4)


def read_in_sequence(path: Path) -> list[int | None]:
    """Decode a file with PyAV in one thread; the times of its frames."""
    times: list[int | None] = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count, stream.codec_context.thread_type = 1, "NONE"
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
            except (StopIteration, av.FFmpegError):
                return times
            try:
                times += [frame.pts for frame in packet.decode()]
            except (av.FFmpegError, EOFError):
                continue


def index_or_none(path: Path, verify: str) -> FrameIndex | None:
    """Index a file; None where it is refused."""
    try:
        return build_index(path, verify)  # type: ignore[arg-type]
    except FramefeedError:
        return None


def faults_of(path: Path) -> tuple[str, list[str]]:
    """Say how a file was proved, and in what its indexes differ."""
    full = index_or_none(path, "full")
    faults = []
    others = {verify: index_or_none(path, verify) for verify in ("proof", "ends")}
    for verify, index in others.items():
        if (index is None) != (full is None):
            faults.append(f"{verify} {None if index is None else index.built_from} and full {full}")
        elif index is not None and full is not None and not np.array_equal(index.frame_packet, full.frame_packet):
            faults.append(
                f"{verify} {index.built_from} has {len(index)} frames, full {len(full)} of {len(full.packets)}"
            )
        elif index is not None and full is not None and not np.array_equal(index.pts, full.pts):
            faults.append(f"{verify} {index.built_from} has other times")
    if full is not None:
        times = read_in_sequence(path)
        if full.built_from == "decode":
            if len(times) != len(full):
                faults.append(f"full has {len(full)} frames, PyAV {len(times)}")
        else:
            given = len(full) - len(full.damaged_frame_indices)
            faults += [f"kept: {given} undamaged of {len(full)}, PyAV {len(times)}"] if given > len(times) else []
    proof = others["proof"]
    if proof is None or full is None:
        return "refused", faults
    return proof.built_from + ", with frames that do not come" * (full.built_from != "decode"), faults


def streams(count: int, first: int = 0) -> Iterator[Stream]:
    """List streams: all encodes and containers by turns."""
    kinds = [(name, ending) for name in ENCODES for ending in CONTAINERS.get(name.split()[0], CONTAINERS["h26"])]
    for number in range(first, first + count):
        yield Stream(*kinds[number % len(kinds)], number)


def sweep(count: int, first: int) -> tuple[list[str], int]:
    """Examine streams; lines about them, and the number of those that differ."""
    lines, wrong, tried = list[str](), 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="framefeed-counts-") as folder:
        for stream in streams(count, first):
            path = stream.write(Path(folder))
            if path is None:
                tried[f"{stream.codec}: refused by the muxer"] += 1
                continue
            built, faults = faults_of(path)
            tried[f"{stream.codec}: {built}"] += 1
            wrong += bool(faults)
            lines += [f"WRONG {stream}: {'; '.join(faults)}"] if faults else []
    lines += [f"{number} times {what}" for what, number in sorted(tried.items())]
    lines.append(f"{sum(tried.values())} streams: {f'{wrong} WRONG' if wrong else 'all agree'}")
    return lines, wrong


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, words, "streams", 600)
    lines, wrong = sweep(options.streams, options.first)
    report_lines(lines, options.log)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(importlib.import_module("tests.media.counts").main())
