"""Names of qwen-vl-utils 0.0.14: ``from framefeed.compat.qwen_vl_utils import process_vision_info``."""

from __future__ import annotations

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import torch as _  # noqa: F401 - first, so that a missing PyTorch has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.compat.qwen_vl_utils needs PyTorch, which {describe_absence(error, 'torch')}: "
        "pip install 'framefeed[torch]'"
    ) from error

from framefeed.compat.qwen_vl_utils._rules import smart_nframes, smart_resize
from framefeed.compat.qwen_vl_utils._vision import extract_vision_info, fetch_image, fetch_video, process_vision_info

__all__ = [
    "extract_vision_info",
    "fetch_image",
    "fetch_video",
    "process_vision_info",
    "smart_nframes",
    "smart_resize",
]
