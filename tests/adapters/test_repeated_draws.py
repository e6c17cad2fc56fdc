"""A position that is drawn again gives the same item; with several clips of a video, each draw gives another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch.utils.data import DataLoader, Sampler

import framefeed as ff
from tests.makers import VIDEOS, catalog

DRAWN = [4, 4, 1, 4, 0, 1, 4]
"""Videos that a sampler with replacement draws."""
CLIPS = 5


class AnotherEachTime(Sampler[int]):
    """That of docs/five-wishes.md."""

    def __init__(self, videos: Sequence[int], clips_per_video: int) -> None:
        self.videos, self.clips_per_video = videos, clips_per_video

    def __len__(self) -> int:
        return len(self.videos)

    def __iter__(self) -> Iterator[int]:
        draws = Counter[int]()
        for video in self.videos:
            yield video * self.clips_per_video + draws[video] % self.clips_per_video
            draws[video] += 1


def dim(clip: torch.Tensor) -> torch.Tensor:
    return clip.float() * torch.rand(1)


def dataset_of(epoch: int = 0) -> ff.torch.ClipDataset:
    plan = ff.plan_clips(
        catalog(), ff.Dense(4, fps=5), seed=3, epoch=epoch, shuffle=False, clips_per_video=CLIPS, size=(24, 32)
    )
    return ff.torch.ClipDataset(plan, transform=dim)


def load(loader: DataLoader[dict[str, torch.Tensor]]) -> list[tuple[int, int, torch.Tensor]]:
    """(position, row, clip) of each item."""
    return [
        (int(position), int(row), clip)
        for batch in loader
        for position, row, clip in zip(batch["position"], batch["row"], batch["data"], strict=True)
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("epoch", [0, 1])
def test_an_item_depends_on_seed_epoch_and_position_alone(workers: int, epoch: int) -> None:
    dataset = dataset_of(epoch)
    items = load(DataLoader(dataset, batch_size=3, sampler=[7, 7, 2, 7], num_workers=workers))
    assert [position for position, _, _ in items] == [7, 7, 2, 7]
    for position, _, clip in items:
        assert torch.equal(clip, dataset_of(epoch)[position]["data"])
    assert not torch.equal(items[0][2], dataset_of(epoch + 1)[7]["data"])


@pytest.mark.parametrize("workers", [0, 2])
def test_each_draw_of_a_video_gives_another_clip(workers: int) -> None:
    sampler = AnotherEachTime(DRAWN, CLIPS)
    items = load(DataLoader(dataset_of(), batch_size=3, sampler=sampler, num_workers=workers))
    assert [row for _, row, _ in items] == DRAWN
    assert max(DRAWN) < VIDEOS
    for number, (_, row, clip) in enumerate(items):
        assert not any(torch.equal(clip, other) for _, own, other in items[:number] if own == row)
        assert torch.equal(clip, load(DataLoader(dataset_of(), sampler=[items[number][0]]))[0][2])


def test_a_run_that_is_resumed_gives_the_same_clips() -> None:
    def loader() -> ff.torch.DataLoader:
        return ff.torch.DataLoader(dataset_of(), batch_size=2, sampler=AnotherEachTime(DRAWN, CLIPS), num_workers=2)

    whole = load(loader())
    begun = loader()
    iterator = iter(begun)
    next(iterator)
    state = begun.state_dict()
    del iterator
    resumed = loader()
    resumed.load_state_dict(state)
    rest = load(resumed)
    assert [each[:2] for each in rest] == [each[:2] for each in whole[2:]]
    assert all(torch.equal(own, expected) for (*_, own), (*_, expected) in zip(rest, whole[2:], strict=True))
