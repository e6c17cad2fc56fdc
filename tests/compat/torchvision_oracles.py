"""What torchvision 0.22 documents, written as plainly as possible: lists, no strides, no shortcuts."""

from __future__ import annotations

import math
from fractions import Fraction

import torch


def list_windows(num_frames: int, fps: float | None, size: int, step: int, frame_rate: float | None) -> list[list[int]]:
    """Frame numbers of all clips of a video."""
    if fps is None or frame_rate is None:
        numbers = list(range(num_frames))
    elif (fps / frame_rate).is_integer():
        numbers = list(range(num_frames))[:: int(fps / frame_rate)]
    else:
        count = math.floor(num_frames * frame_rate / fps)
        # In float32, as torch.arange(count, dtype=torch.float32) * step has it.
        numbers = (torch.arange(count, dtype=torch.float32) * (fps / frame_rate)).floor().to(torch.int64).tolist()
    firsts = range(0, len(numbers), step)
    return [numbers[first : first + size] for first in firsts if first + size <= len(numbers)]


def list_read(pts: list[int], start: Fraction | int, end: Fraction | int | None) -> list[int]:
    """Numbers of the frames of ``read_video`` between two ticks, both included."""
    chosen = [number for number, tick in enumerate(pts) if start <= tick and (end is None or tick <= end)]
    before = [number for number, tick in enumerate(pts) if tick < start]
    return [before[-1], *chosen] if start > 0 and start not in pts and before else chosen


def sample_uniformly(counts: list[int], each: int) -> list[int]:
    """Clips of each video from its first to its last, at equal distances."""
    chosen, first = [], 0
    for count in counts:
        if count:
            chosen += torch.linspace(first, first + count - 1, each).floor().to(torch.int64).tolist()
        first += count
    return chosen


def sample_at_random(counts: list[int], most: int) -> list[int]:
    """Some clips of each video, all in random order, by the draws of torch's generator."""
    drawn, first = [], 0
    for count in counts:
        drawn += [first + clip for clip in torch.randperm(count).tolist()[:most]]
        first += count
    return [drawn[place] for place in torch.randperm(len(drawn)).tolist()]
