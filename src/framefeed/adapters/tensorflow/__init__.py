"""framefeed for TensorFlow: ``ff.tensorflow``."""

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import tensorflow as tf  # noqa: F401 - first, so that a missing TensorFlow has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.tensorflow needs TensorFlow, which {describe_absence(error, 'tensorflow')}: "
        "pip install 'framefeed[tensorflow]'"
    ) from error

from framefeed.adapters.tensorflow._dataset import dataset

__all__ = ["dataset"]
