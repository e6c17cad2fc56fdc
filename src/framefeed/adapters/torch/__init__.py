"""framefeed for PyTorch: ``ff.torch``."""

from framefeed.errors import MissingDependency

try:
    import torch as _  # noqa: F401 - first, so that a missing PyTorch has one message
except ImportError as error:
    raise MissingDependency(
        "framefeed.torch needs PyTorch, which is not installed: pip install 'framefeed[torch]'"
    ) from error

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._data_loader import DataLoader
from framefeed.adapters.torch._later import raise_absent, to_device
from framefeed.adapters.torch._video_decoder import VideoDecoder

__getattr__ = raise_absent
__all__ = ["ClipDataset", "DataLoader", "VideoDecoder", "to_device"]
