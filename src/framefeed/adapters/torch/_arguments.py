"""Convert TorchCodec's arguments to those of ``framefeed.VideoDecoder``; errors have TorchCodec's types."""

from __future__ import annotations

import io
import operator
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import torch

from framefeed.decode import RefusedValue, WrongKind
from framefeed.errors import FrameNotFound, UsageError

T = TypeVar("T")
_DTYPES: dict[object, torch.dtype] = {None: torch.uint8, torch.uint8: torch.uint8, torch.float32: torch.float32}
_MOST_THREADS = 1024
"""Each thread needs the memory of a picture and of its decoding."""
_NO_ORDINAL = 2.0**62
"""Larger than any frame number; float tensors may have values that int64 has not."""


def check_device(device: Any) -> torch.device:
    """Refuse all devices but the CPU."""
    try:
        given = torch.get_default_device() if device is None else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise WrongKind(f"device must be 'cpu' or None, got {device!r}") from error
    if given.type != "cpu" or given.index:
        raise RefusedValue(f"device={str(given)!r} is not in this version: use device='cpu', then tensor.to(device)")
    return given


def as_dtype(dtype: Any) -> torch.dtype:
    """Convert TorchCodec's ``output_dtype``."""
    if isinstance(dtype, str) and dtype == "auto":
        raise UsageError(
            "output_dtype='auto' is not in this version: use torch.uint8, or torch.float32 (of 8-bit pixels)"
        )
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise WrongKind(f"output_dtype must be torch.uint8 or torch.float32, got {dtype!r}")
    if dtype not in _DTYPES:
        raise UsageError(f"output_dtype must be torch.uint8 or torch.float32, got {dtype}")
    return _DTYPES[dtype]


def as_thread_count(threads: Any) -> int:
    """Convert TorchCodec's ``num_ffmpeg_threads``; to FFmpeg, a negative number means one thread."""
    if threads is None:
        raise UsageError("num_ffmpeg_threads must be an integer, got None: with 0, FFmpeg chooses the number")
    number = _as_integer(threads, "num_ffmpeg_threads")
    if number > _MOST_THREADS:
        raise RefusedValue(f"num_ffmpeg_threads must be at most {_MOST_THREADS}, got {number}")
    return 1 if number < 0 else number


def as_stream(stream_index: Any) -> int | None:
    return None if stream_index is None else _as_integer(stream_index, "stream_index")


def as_source(source: T) -> T | bytes:
    """Convert a tensor of encoded bytes to bytes, and refuse objects that are no source."""
    if isinstance(source, torch.Tensor):
        if source.dtype != torch.uint8 or source.ndim != 1:
            raise WrongKind("source: expected a 1-D uint8 tensor with the encoded bytes of a file")
        return source.cpu().numpy().tobytes()
    if isinstance(source, io.TextIOBase):
        raise WrongKind("source: expected a file object in binary mode, got one in text mode: open(path, 'rb')")
    if isinstance(source, str) and not source:
        raise RefusedValue("source: expected a path, got an empty string")
    if not isinstance(source, (str, bytes, bytearray, memoryview)) and not any(
        hasattr(source, name) for name in ("__fspath__", "read", "source", "kind", "as_media_source")
    ):
        raise WrongKind(f"Unknown source type: {type(source)}. Use a path, encoded bytes, a tensor of them or a file.")
    return source


def as_ordinal(index: T) -> T | int:
    """Convert a frame number of any type but Python's float to an int, if its value is an integer."""
    if isinstance(index, (int, float, str, bytes)) or not hasattr(index, "__int__"):
        return index
    try:
        number = int(index)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # arrays, NaN, infinity
        return index
    return number if bool(number == index) else index


def as_ordinals(indices: object) -> object:
    """Convert frame numbers, also a single one, and tensors of floats whose values are integers."""
    if not isinstance(indices, torch.Tensor):
        return _as_flat(_untensor(indices))
    values = indices.detach().cpu()
    if not values.is_floating_point():
        return np.atleast_1d(values.numpy())
    numbers = np.atleast_1d(values.to(torch.float64).numpy())
    if not np.isfinite(numbers).all():
        raise FrameNotFound(f"there is no frame {numbers[~np.isfinite(numbers)][0]}: frame indices must be integers")
    if (numbers != np.floor(numbers)).any():
        raise WrongKind(f"frame indices must be integers, got {indices!r}: round the tensor first")
    return np.clip(numbers, -_NO_ORDINAL, _NO_ORDINAL).astype(np.int64)


def as_times(seconds: object) -> object:
    """Convert times, also a single one, and tensors of any type."""
    if not isinstance(seconds, torch.Tensor):
        return _as_flat(_untensor(seconds))
    values = seconds.detach().cpu()
    return np.atleast_1d((values if values.is_complex() else values.to(torch.float64)).numpy())


def as_scalar(value: T) -> T | float:
    """Convert a tensor of one number to that number; other values stay."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.is_complex():
            raise WrongKind(f"expected one number, got {value!r}")
        return value.item()
    return value


def _as_integer(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise WrongKind(f"{name} must be an integer, got {value!r}") from error


def _untensor(values: object) -> object:
    """Convert tensors in a list to numbers; TorchCodec's samplers pass times so."""
    if isinstance(values, (list, tuple)) and any(isinstance(value, torch.Tensor) for value in values):
        return [value.tolist() if isinstance(value, torch.Tensor) else value for value in values]
    return values


def _as_flat(values: object) -> object:
    if isinstance(values, (int, float, Fraction)) and not isinstance(values, bool):
        return [values]
    return values[None] if isinstance(values, np.ndarray) and not values.ndim else values
