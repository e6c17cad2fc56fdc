"""What decoding costs in counts, where no machine is noisy: short versions of the workloads of the bench."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decode.length import count_decoding, draw_pairs
from benchmarks.media import OwnStore
from framefeed._values import DISPOSABLE, KEY
from framefeed.bench._frames import OUTPUT
from framefeed.bench._media import BenchVideo
from framefeed.bench._runner import Rounds
from framefeed.bench.baselines import SIZE
from framefeed.decode import ClipSlot, DecodeCounts
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.testing import ClipSpec, write_clip

FRAMES = 300
T = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("counts")


@pytest.fixture(scope="module")
def long_gops(folder: Path) -> BenchVideo:
    """As x264 makes them by default: GOPs of 250, B-frames, most of them disposable."""
    spec = ClipSpec(num_frames=FRAMES, gop=250, b_frames=3, codec_options={"preset": "medium"})
    return BenchVideo(write_clip(folder / "long_gops.mp4", spec))


def decode(video: BenchVideo, clips: list[list[int]], decoder: PyAVDecoder | None = None) -> DecodeCounts:
    slots = [
        ClipSlot(np.array(clip, dtype=np.int64), OUTPUT, np.empty((len(clip), 3, SIZE, SIZE), dtype=np.uint8))
        for clip in clips
    ]
    report = (decoder or PyAVDecoder()).decode(video.source, video.index, slots)
    report.raise_first()
    return report.counts


def every(stride: int, start: int) -> list[int]:
    return list(range(start, start + T * stride, stride))


def needed(video: BenchVideo, ordinals: list[int]) -> set[int]:
    """The packets from key frame to frame, without disposable pictures, from the packet table alone."""
    index, packets = video.index, set[int]()
    keys = np.flatnonzero(index.packets.flags & KEY)
    for packet in index.frame_packet[ordinals].tolist():
        start = int(keys[keys <= packet][-1])
        packets |= {n for n in range(start, packet) if not index.packets.flags[n] & DISPOSABLE} | {packet}
    return packets


@pytest.mark.parametrize(("stride", "start"), [(1, 0), (4, 37), (4, 200), (17, 20)])
def test_only_what_is_needed_is_read_and_decoded(long_gops: BenchVideo, stride: int, start: int) -> None:
    ordinals = every(stride, start)
    packets = needed(long_gops, ordinals)
    counts = decode(long_gops, [ordinals])
    assert counts.packets_sent == counts.frames_decoded == len(packets)
    assert counts.bytes_read == int(long_gops.index.packets.size[sorted(packets)].sum())
    assert counts.frames_delivered == counts.frames_converted == T


@pytest.fixture(scope="module")
def store(folder: Path) -> OwnStore:
    return OwnStore((), folder / "store", Rounds(), test_frames=64, repeats=20)


@pytest.mark.slow
def test_the_length_of_a_video_costs_no_decoding(store: OwnStore) -> None:
    short, long = store.test_video, store.long_test_video
    assert len(long) == 20 * len(short)
    pairs = draw_pairs(short, long, rounds=2, clips=3)
    assert {clip.ordinals[0] // len(short) for row in pairs["long"] for clip in row} != {0}
    of_short, of_long = (count_decoding([clip for row in pairs[which] for clip in row]) for which in ("short", "long"))
    ignored = {"opens", "contexts_made"}
    assert {k: v for k, v in asdict(of_long).items() if k not in ignored} == {
        k: v for k, v in asdict(of_short).items() if k not in ignored
    }
