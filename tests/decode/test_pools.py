"""What a thread keeps open between calls is bounded by number and by the size of pictures (L09, L10, S04)."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import av
import pytest

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.decode.backends._pyav_pools import (
    MAX_IDLE_BYTES,
    MAX_IDLE_PIXELS,
    FeedOptions,
    IdlePool,
    ThreadPools,
    make_decoder,
)
from framefeed.index import build_index
from framefeed.testing import ClipSpec, write_clip
from tests.codec_clips import CODECS
from tests.corpus import clip_file
from tests.lengths import either
from tests.programs import report_of


def _pool(closed: list[int], capacity: int = 3) -> IdlePool[int]:
    """Make a pool of numbers that stand for decoders of so many pixels."""
    return IdlePool(capacity, closed.append, lambda pixels: pixels)


def test_small_ones_are_bounded_by_number() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    for pixels in (1, 2, 3, 4):
        pool.give(pixels, pixels)
    assert (len(pool), closed) == (3, [1])


def test_large_ones_are_bounded_by_their_pixels() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    half = MAX_IDLE_PIXELS // 2
    for key in ("a", "b", "c"):
        pool.give(key, half)
    assert (len(pool), closed) == (2, [half])


def test_the_last_one_stays_for_its_next_user_however_large() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    pool.give("small", 1)
    pool.give("large", 2 * MAX_IDLE_PIXELS)
    assert (len(pool), closed) == (1, [1])
    assert pool.take("large") == 2 * MAX_IDLE_PIXELS


def test_readers_of_a_thread_keep_few_bytes_of_remote_files() -> None:
    class Reader:
        kept_bytes = MAX_IDLE_BYTES // 2
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    pools, readers = ThreadPools(), [Reader() for _ in range(4)]
    for number, reader in enumerate(readers):
        pools._readers.give(number, reader)  # type: ignore[arg-type]
    assert [reader.is_closed for reader in readers] == [True, True, False, False]
    pools.clear()


def test_too_large_a_one_is_closed_before_another_is_made() -> None:
    closed: list[int] = []
    pool = _pool(closed)
    pool.give("large", 2 * MAX_IDLE_PIXELS)
    assert pool.take("another") is None
    assert (len(pool), closed) == (0, [2 * MAX_IDLE_PIXELS])


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_S04_a_bare_decoder_refuses_too(codec: str) -> None:
    clip = clip_file(f"large_{codec}.mp4", replace(CODECS[codec].spec, num_frames=3, height=960, width=960))
    index = build_index(clip)
    first = int(index.packets.offset[0]), int(index.packets.size[0])
    data = clip.read_bytes()[first[0] : sum(first)] + bytes(64)
    packet = av.Packet(memoryview(data)[: first[1]])  # type: ignore[arg-type]

    def decoded(limits: Limits) -> int:
        context = make_decoder(index, FeedOptions(direct=True, threads=1, limits=limits))
        return len(context.decode(packet)) + len(context.decode(None))

    assert decoded(DEFAULT_LIMITS) == 1
    with pytest.raises(av.FFmpegError):
        decoded(Limits(max_pixels=100))


@pytest.mark.slow
@pytest.mark.long
def test_L09_thousands_of_files_with_128_descriptors(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=2, height=48, width=64, b_frames=0)
    for ending in (".mp4", ".mkv"):
        write_clip(tmp_path / f"clip{ending}", spec)
    most = report_of("tests.decode.many_files", os.fspath(tmp_path), str(either(short=300, long=10_000)))
    assert most["direct"] < 30
    assert most["contained"] < 30
    assert max(most.values()) < 100


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library does not count the memory in use")
def test_L10_a_clip_keeps_no_memory_of_c(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=12, height=48, width=64, b_frames=0)
    paths = [os.fspath(write_clip(tmp_path / f"clip{ending}", spec)) for ending in (".mp4", ".mkv")]
    # A packet of libav has 104 bytes, of PyAV more.
    assert max(report_of("tests.decode.heap_growth", "500", *paths)) < 60
