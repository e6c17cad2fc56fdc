"""framefeed for JAX: ``ff.jax``."""

from framefeed.errors import MissingDependency

try:
    import jax as _  # noqa: F401 - first, so that a missing JAX has one message
except ImportError as error:
    raise MissingDependency("framefeed.jax needs JAX, which is not installed: pip install 'framefeed[jax]'") from error

from framefeed.adapters.jax._iterate import DeviceBatches, iterate

__all__ = ["DeviceBatches", "iterate"]
