"""EpisodeAwareSampler: rows of episodes without their ends, by lerobot's name and arguments."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from framefeed._arrays import has_bools
from framefeed._checks import check_integer
from framefeed.errors import UsageError


class EpisodeAwareSampler(Sampler[int]):
    """Gives the rows of episodes, without some at their beginnings and ends; with torch's generator if shuffled.

    Args:
        dataset_from_indices: First row of each episode.
        dataset_to_indices: The row behind its last.
        episode_indices_to_use: Numbers of the episodes that are given; None for all.
        drop_n_first_frames: Number of rows left out at the beginning of each episode.
        drop_n_last_frames: Number of rows left out at its end.
        shuffle: Whether the rows are shuffled, in another order in each epoch.

    Attributes:
        indices: The rows, in their order.
        shuffle: As given.

    Raises:
        UsageError: The two lists differ in their lengths, or a number of rows is negative.
    """

    def __init__(
        self,
        dataset_from_indices: Iterable[Any],
        dataset_to_indices: Iterable[Any],
        episode_indices_to_use: Container[int] | None = None,
        drop_n_first_frames: int = 0,
        drop_n_last_frames: int = 0,
        shuffle: bool = False,
    ) -> None:
        starts, stops = ([int(row) for row in rows] for rows in (dataset_from_indices, dataset_to_indices))
        if len(starts) != len(stops):
            raise UsageError(
                f"dataset_to_indices: expected one for each of {len(starts)} dataset_from_indices, got {len(stops)}"
            )
        first, last = (
            check_integer(name, number)
            for name, number in (
                ("drop_n_first_frames", drop_n_first_frames),
                ("drop_n_last_frames", drop_n_last_frames),
            )
        )
        if min(first, last) < 0:
            raise UsageError(f"drop_n_first_frames and drop_n_last_frames: expected 0 or more, got {first} and {last}")
        if isinstance(episode_indices_to_use, Iterable) and has_bools(list(episode_indices_to_use)):
            raise UsageError("episode_indices_to_use: expected numbers of episodes, got True or False: no mask")
        self.indices = [
            row
            for episode, (start, stop) in enumerate(zip(starts, stops, strict=True))
            if episode_indices_to_use is None or episode in episode_indices_to_use
            for row in range(start + first, stop - last)
        ]
        self.shuffle = shuffle

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(len(self.indices)).tolist() if self.shuffle else range(len(self.indices))
        return (self.indices[number] for number in order)

    def __len__(self) -> int:
        return len(self.indices)
