"""framefeed for JAX: ``ff.jax``."""

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import jax as _  # noqa: F401 - first, so that a missing JAX has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.jax needs JAX, which {describe_absence(error, 'jax')}: pip install 'framefeed[jax]'"
    ) from error

from framefeed.adapters.jax._iterate import DeviceBatches, iterate

__all__ = ["DeviceBatches", "iterate"]
