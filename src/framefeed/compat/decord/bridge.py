"""What VideoReader gives: arrays of NumPy ("native"), or tensors of PyTorch or TensorFlow. One choice a thread.

As in decord, a thread begins with "native".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from framefeed._absence import describe_absence
from framefeed._checks import check_choice
from framefeed.compat.decord._array import NDArray
from framefeed.decode import Pixels
from framefeed.errors import MissingDependency, UsageError

__all__ = ["bridge_out", "reset_bridge", "set_bridge", "to_tensorflow", "to_torch", "use_tensorflow", "use_torch"]

Convert = Callable[[Pixels], Any]


def _as_native(pixels: Pixels) -> Any:
    return pixels.view(NDArray)


def _load_torch() -> Convert:
    import torch

    # Without its copy of the array's memory; frames may be views that torch cannot take as they are.
    return lambda pixels: torch.from_numpy(np.ascontiguousarray(pixels))


def _load_tensorflow() -> Convert:
    import tensorflow as tf

    convert: Convert = tf.convert_to_tensor
    return convert


_LOADERS: dict[str, Callable[[], Convert]] = {
    "native": lambda: _as_native,
    "tensorflow": _load_tensorflow,
    "torch": _load_torch,
}
_UNSUPPORTED = ("mxnet", "tvm")


class _Choice(threading.local):
    name = "native"
    convert: Convert = staticmethod(_as_native)


_CHOICE = _Choice()


def set_bridge(new_bridge: str) -> None:
    """Choose what the readers of this thread give.

    Args:
        new_bridge: "native", "torch" or "tensorflow".

    Raises:
        UsageError: It is none of them.
        MissingDependency: The framework is not installed.
    """
    if isinstance(new_bridge, str) and new_bridge in _UNSUPPORTED:
        raise UsageError(f"new_bridge: there is no bridge to {new_bridge}: use 'native', and convert its NumPy arrays")
    check_choice("new_bridge", new_bridge, _LOADERS)
    _CHOICE.name, _CHOICE.convert = new_bridge, _load(new_bridge, f"bridge.set_bridge({new_bridge!r})")


def _load(name: str, caller: str) -> Convert:
    try:
        return _LOADERS[name]()
    except ImportError as error:
        raise MissingDependency(
            f"{caller} needs {name}, which {describe_absence(error, name)}: pip install 'framefeed[{name}]'"
        ) from error


def reset_bridge() -> None:
    """Let the readers of this thread give NumPy arrays again."""
    set_bridge("native")


def use_torch() -> AbstractContextManager[None]:
    """Give tensors of PyTorch inside of a ``with`` block."""
    return _using("torch")


def use_tensorflow() -> AbstractContextManager[None]:
    """Give tensors of TensorFlow inside of a ``with`` block."""
    return _using("tensorflow")


def bridge_out(native_arr: Pixels) -> Any:
    """Convert pixels to what the readers of this thread give."""
    return _CHOICE.convert(native_arr)


def to_torch(decord_arr: Pixels) -> Any:
    """Convert what a reader gave as "native" to a tensor of PyTorch on the same memory.

    Raises:
        MissingDependency: PyTorch is not installed.
    """
    return _load("torch", "bridge.to_torch")(decord_arr)


def to_tensorflow(decord_arr: Pixels) -> Any:
    """Convert what a reader gave as "native" to a tensor of TensorFlow.

    Raises:
        MissingDependency: TensorFlow is not installed.
    """
    return _load("tensorflow", "bridge.to_tensorflow")(decord_arr)


@contextmanager
def _using(name: str) -> Iterator[None]:
    before = _CHOICE.name
    set_bridge(name)
    try:
        yield
    finally:
        set_bridge(before)
