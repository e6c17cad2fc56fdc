"""Damaged variants of media, and the law that pixels do not depend on how they are reached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from av.video.frame import VideoFrame

from framefeed.decode._planes import copy_planes, measure_planes
from framefeed.decode.backends._pyav_pools import get_thread_pools
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

Seen = dict[int, str]
"""Hash of the planes of each frame that came, by ordinal."""


def flip_bits(data: bytearray, rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> None:
    """Flip one to eight bits in packets."""
    for _ in range(int(rng.integers(1, 9))):
        offset, size = ranges[int(rng.integers(len(ranges)))]
        data[offset + int(rng.integers(size))] ^= 1 << int(rng.integers(8))


def zero_range(data: bytearray, rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> None:
    """Zero part of a packet."""
    offset, size = ranges[int(rng.integers(len(ranges)))]
    begin = int(rng.integers(size))
    length = min(size - begin, int(rng.integers(1, 2000)))
    data[offset + begin : offset + begin + length] = bytes(length)


def garble_packet(data: bytearray, rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> None:
    """Overwrite a whole packet but for its first four bytes."""
    offset, size = ranges[int(rng.integers(len(ranges)))]
    data[offset + 4 : offset + size] = rng.bytes(max(0, size - 4))


def damage_head(data: bytearray, rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> None:
    """Flip bits in the first bytes of the packets: headers and parameter sets."""
    for _ in range(int(rng.integers(1, 5))):
        offset, size = ranges[int(rng.integers(min(len(ranges), 8)))]
        data[offset + int(rng.integers(min(size, 48)))] ^= 1 << int(rng.integers(8))


def damage_parameters(data: bytearray, rng: np.random.Generator, ranges: Sequence[tuple[int, int]]) -> None:
    """Flip one bit of the decoder configuration in a container's header, or of a packet where there is none."""
    for name in (b"avcC", b"hvcC"):
        actual = data.find(name)
        if actual >= 0:
            data[actual + 12 + int(rng.integers(24))] ^= 1 << int(rng.integers(8))
            return
    damage_head(data, rng, ranges)


DAMAGES: dict[str, Callable[[bytearray, np.random.Generator, Sequence[tuple[int, int]]], None]] = {
    damage.__name__: damage for damage in (flip_bits, zero_range, garble_packet, damage_head, damage_parameters)
}


def packet_ranges(index: FrameIndex) -> list[tuple[int, int]]:
    """(offset, size) of the packets whose offset is known."""
    table = index.packets
    pairs = zip(table.offset.tolist(), table.size.tolist(), strict=True)
    return [(offset, size) for offset, size in pairs if offset >= 0 and size > 0]


def copy_native_planes(frame: VideoFrame) -> bytes:
    planes = measure_planes(frame.format.name, frame.width, frame.height)
    out = np.empty(sum(rows * row_bytes for rows, row_bytes in planes), np.uint8)
    copy_planes(frame, out)
    return out.tobytes()


def seen(source: MediaSource, index: FrameIndex, ordinals: Iterable[int], decoder: PyAVDecoder | None = None) -> Seen:
    """Decode frames in one call."""
    decoder = decoder or PyAVDecoder()
    came: Seen = {}
    for ordinal, frame in decoder.iter_native(source, index, list(ordinals)):
        came[ordinal] = hashlib.blake2b(copy_native_planes(frame), digest_size=8).hexdigest()
        del frame
    return came


def seen_alone(source: MediaSource, index: FrameIndex, ordinals: Iterable[int], *, is_fresh: bool) -> Seen:
    """Decode each frame in a call of its own, with new decoders or with pooled ones."""
    came: Seen = {}
    for ordinal in ordinals:
        if is_fresh:
            get_thread_pools().clear()
        came |= seen(source, index, [ordinal])
    return came


def differences(source: MediaSource, index: FrameIndex, rng: np.random.Generator, most: int = 8) -> list[str]:
    """Decode some frames in several ways; say which of them give other frames than new decoders do."""
    count = len(index)
    sample = sorted(rng.choice(count, min(count, most), replace=False).tolist())
    law = seen_alone(source, index, sample, is_fresh=True)
    shuffled = rng.permutation(sample).tolist()
    ways = {
        "pooled, each alone": lambda: seen_alone(source, index, shuffled, is_fresh=False),
        "pooled, all in one call": lambda: seen(source, index, sample),
        "again": lambda: seen(source, index, sample),
        "half of them": lambda: seen(source, index, shuffled[::2]),
        "without skipping": lambda: seen(source, index, sample, PyAVDecoder(skip=False)),
        "through the container": lambda: seen(source, index, sample, PyAVDecoder(direct=False)),
    }
    if count <= 200:
        ways["all frames"] = lambda: seen(source, index, range(count))
    actual = []
    for name, way in ways.items():
        came = way()
        expected = [i for i in sample if i in (shuffled[::2] if name == "half of them" else sample)]
        wrong = [i for i in expected if came.get(i) != law.get(i)]
        if wrong:
            actual.append(f"{name}: {[(i, law.get(i), came.get(i)) for i in wrong[:3]]}")
    return actual
