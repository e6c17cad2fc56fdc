"""framefeed for Ray: ``ff.ray``."""

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import ray.data as _  # noqa: F401 - first, so that a missing Ray has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.ray needs Ray Data, which {describe_absence(error, 'ray')}: pip install 'framefeed[ray]'"
    ) from error

from framefeed.adapters.ray._collate import collate
from framefeed.adapters.ray._dataset import dataset
from framefeed.adapters.ray._scan import scan

__all__ = ["collate", "dataset", "scan"]
