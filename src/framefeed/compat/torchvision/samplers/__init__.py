"""Samplers of clips, under the name of ``torchvision.datasets.samplers``."""

from __future__ import annotations

from framefeed.compat.torchvision._samplers import DistributedSampler, RandomClipSampler, UniformClipSampler

__all__ = ["DistributedSampler", "RandomClipSampler", "UniformClipSampler"]
