"""Refuse ``from framefeed.torch.samplers import``, for scripts that import TorchCodec's samplers."""

from framefeed.adapters import torch

torch.__getattr__("samplers")
