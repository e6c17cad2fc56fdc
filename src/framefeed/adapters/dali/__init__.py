"""framefeed for NVIDIA DALI: ``ff.dali``."""

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import nvidia.dali as _  # noqa: F401 - first, so that a missing DALI has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.dali needs NVIDIA DALI, which {describe_absence(error, 'nvidia.dali')}: "
        "pip install 'framefeed[dali]', or with CUDA 12 pip install nvidia-dali-cuda120"
    ) from error

from framefeed.adapters.dali._iterate import PipelineBatches, iterate
from framefeed.adapters.dali._pipeline import ClipPipeline, pipeline
from framefeed.adapters.dali._source import ClipSource, external_source

__all__ = ["ClipPipeline", "ClipSource", "PipelineBatches", "external_source", "iterate", "pipeline"]
