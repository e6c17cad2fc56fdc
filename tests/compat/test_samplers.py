"""Samplers draw what torchvision's draw: the same clips from the same seed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from framefeed.compat.torchvision import RandomClipSampler, UniformClipSampler, VideoClips
from framefeed.compat.torchvision.samplers import DistributedSampler
from framefeed.errors import UsageError
from tests.compat.torchvision_oracles import sample_at_random, sample_uniformly

COUNTS = st.lists(st.integers(0, 40), max_size=6)


def make(counts: list[int]) -> VideoClips:
    """Clips of one frame, in videos that no file has."""
    metadata = {
        "video_paths": [f"{number}.mp4" for number in range(len(counts))],
        "video_pts": [torch.arange(count) for count in counts],
        "video_fps": [25.0] * len(counts),
    }
    return VideoClips([], 1, _precomputed_metadata=metadata)


@given(COUNTS, st.integers(1, 12))
def test_uniform(counts: list[int], each: int) -> None:
    sampler = UniformClipSampler(make(counts), each)
    chosen = list(sampler)
    assert chosen == sample_uniformly(counts, each)
    assert len(chosen) == len(sampler) == each * sum(map(bool, counts))
    assert list(sampler) == chosen


@given(COUNTS, st.integers(1, 12), st.integers(0, 9))
def test_random(counts: list[int], most: int, seed: int) -> None:
    sampler = RandomClipSampler(make(counts), most)
    torch.manual_seed(seed)
    chosen = list(sampler)
    torch.manual_seed(seed)
    assert chosen == sample_at_random(counts, most)
    assert len(chosen) == len(sampler) == len(set(chosen)) == sum(min(count, most) for count in counts)


def test_nearly_the_same_draws_are_noticed() -> None:
    counts = [9, 0, 30]
    torch.manual_seed(3)
    right = sample_at_random(counts, 4)
    torch.manual_seed(3)
    by_video = [first + clip for first, count in ((0, 9), (9, 30)) for clip in torch.randperm(count).tolist()[:4]]
    for wrong in (by_video, sorted(right), [1, 3, 5, 7, 13, 19, 25, 31]):
        assert wrong not in (right, sample_uniformly(counts, 4))


@pytest.mark.parametrize("count", [4_344_884, 10_997_452])
def test_uniform_rounds_as_float32_does(count: int) -> None:
    clips = make([1, 1])
    clips._num_clips = [count, 484]
    expected = sample_uniformly([count, 484], 9)
    assert list(UniformClipSampler(clips, 9)) == expected
    exact = torch.linspace(count, count + 483, 9, dtype=torch.float64).floor().to(torch.int64).tolist()
    assert expected[9:] != exact, "which is another clip"


@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_processes_share_the_groups(groups: int, size: int, world: int, shuffle: bool, epoch: int) -> None:
    data = range(groups * size)
    samplers = [DistributedSampler(data, world, rank, shuffle, size) for rank in range(world)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])}
    order = torch.arange(len(data))
    if shuffle:
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    cut = [order.tolist()[first : first + size] for first in range(0, len(data), size)]
    for place in range(len(samplers[0]) // size):
        for rank, share in enumerate(shares):
            assert share[place * size : (place + 1) * size] == cut[(place * world + rank) % groups]


def test_a_sampler_is_shared_by_what_it_draws() -> None:
    inner = UniformClipSampler(make([5, 9]), 2)
    assert list(DistributedSampler(inner, 2, 1, group_size=2)) == [5, 13]


@pytest.mark.parametrize(
    ("make_wrong", "advice"),
    [
        (lambda: UniformClipSampler([1, 2], 3), "video_clips: expected a VideoClips"),  # type: ignore[arg-type]
        (lambda: RandomClipSampler(None, 3), "dataset.video_clips"),  # type: ignore[arg-type]
        (lambda: UniformClipSampler(make([3]), 0), "num_clips_per_video"),
        (lambda: RandomClipSampler(make([3]), 0), "max_clips_per_video"),
        (lambda: DistributedSampler(range(5), 1, 0, group_size=2), "group_size: expected a divisor of the 5 clips"),
        (lambda: DistributedSampler(range(5), 2, 2), "rank: expected 0 to 1, got 2"),
    ],
)
def test_a_wrong_argument_is_named(make_wrong: Any, advice: str) -> None:
    with pytest.raises(UsageError, match=advice) as raised:
        make_wrong()
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), UsageError)
    if "video_clips" in advice:
        assert isinstance(raised.value, TypeError), "as torchvision raises"
