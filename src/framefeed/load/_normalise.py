"""Normalise pixels: a byte x of channel c becomes (x / 255 - mean[c]) / std[c] in another dtype.

A byte of a channel has one value, on every path. In float32 it is (x - m) / (255 * std) + (m - 255 * mean) / (255 *
std), each step in float32, with the integer m that is nearest to 255 * mean: the difference of two integers is exact,
so that no digits are lost where x / 255 is near the mean. In float16 and bfloat16 it is the exact value, rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import AnyArray, FloatArray
from framefeed._cached import cached_property
from framefeed._checks import check_choice, describe_value, expected, is_number
from framefeed.decode import Pixels
from framefeed.errors import UsageError

_ARRAYS: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
}
"""Dtype of the arrays of each dtype: NumPy has no bfloat16, which is the upper half of a float32."""
_LARGEST = 10
"""Larger means and deviations are of values from 0 to 255."""
_VALUES_AT_ONCE = 1 << 18
"""1 MiB of float32, which stay in the cache of a core from one step to the next."""
_PAIRS_AT_ONCE = 1 << 16
_CHANNELS = 3
"""Of decoded pictures."""


@dataclass(frozen=True)
class Normaliser:
    """Writes clips, uint8 [T, C, H, W], as numbers.

    ``mean`` and ``std`` have one number, or one for each channel, of x / 255, as in
    ``Normaliser("float32", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))``.
    """

    dtype: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, dtype: Any, mean: Any, std: Any, *, has_transform: bool) -> Normaliser | None:
        """Check the arguments of a loader; None if there are none.

        Without ``dtype`` it is "float32" beside mean and std. A transform decides the number of channels.
        """
        if dtype is None and mean is None and std is None:
            return None
        name = "float32" if dtype is None else _name_dtype(dtype)
        if (mean is None) != (std is None):
            given, other = ("mean", "std") if std is None else ("std", "mean")
            raise UsageError(f"{given}: expected {other} with it, got none: pixels become (x / 255 - mean) / std")
        means = _check_channels("mean", 0.0 if mean is None else mean)
        stds = _check_channels("std", 1.0 if std is None else std)
        counts = {len(means), len(stds), 1 if has_transform else _CHANNELS} - {1}
        if len(counts) > 1:
            raise UsageError(
                f"mean and std: expected a number, or one for each of the channels, got {len(means)} and {len(stds)} "
                f"numbers{'' if has_transform else f' for {_CHANNELS} channels'}"
            )
        made = cls(name, means, stds)
        if not made._is_finite():
            raise UsageError(f"std: expected numbers that give values of {name}, got {stds}: give larger ones")
        if name == "bfloat16":
            _import_torch()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the tables.
        return (Normaliser, (self.dtype, self.mean, self.std))

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Dtype of the arrays that are written; of bfloat16 its bits."""
        return _ARRAYS[self.dtype]

    def check(self, clip: Any) -> None:
        """Check that a result of a transform can be normalised."""
        channels = max(len(self.mean), len(self.std))
        if isinstance(clip, np.ndarray) and clip.dtype == np.uint8 and clip.ndim == 4:
            if channels in (1, clip.shape[1]):
                return
            raise UsageError(
                f"transform: expected a result of {channels} channels [T, C, H, W], as mean and std have, got "
                f"{list(clip.shape)}"
            )
        has_form = hasattr(clip, "dtype") and hasattr(clip, "shape")
        given = f"{clip.dtype} {list(clip.shape)}" if has_form else describe_value(clip)
        raise UsageError(
            f"transform: expected it to return uint8 [T, C, H, W], which dtype, mean and std make {self.dtype} of, got "
            f"{given}: return such a clip, or leave out dtype, mean and std"
        )

    def write(self, clip: Pixels, out: AnyArray) -> None:
        """Write a clip, uint8 [T, C, H, W], to contiguous memory of the same shape."""
        if not clip.size:
            return
        if self.dtype == "float32":
            self._compute(clip, out)
            return
        for picture, target in zip(clip, out, strict=True):
            for channel, plane in enumerate(picture):
                pixels = np.ascontiguousarray(plane).reshape(-1)
                self._write_plane(channel % len(self.table), pixels, target[channel].reshape(-1))

    def deliver(self, data: Any) -> object:
        """Return arrays of a batch, or a list of them, as the caller gets them: of bfloat16 as tensors of PyTorch."""
        if self.dtype != "bfloat16":
            return data
        if isinstance(data, list):
            return [self.deliver(each) for each in data]
        torch = _import_torch()
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)

    # --- float32 --------------------------------------------------------------------------------------

    @cached_property
    def _exact_parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The integer nearest to 255 * mean, 255 * std, and the rest, float64 [C, 1]; C is 1 if all channels agree."""
        mean, std = np.broadcast_arrays(255 * np.array(self.mean), 255 * np.array(self.std))
        middle = np.rint(mean)
        with np.errstate(all="ignore"):  # of the least numbers of float64, which _is_finite finds
            return middle[:, np.newaxis], std[:, np.newaxis], ((middle - mean) / std)[:, np.newaxis]

    @cached_property
    def _parts(self) -> tuple[npt.NDArray[np.float32], ...]:
        with np.errstate(all="ignore"):
            return tuple(part.astype(np.float32) for part in self._exact_parts)

    def _compute(self, clip: Pixels, out: AnyArray) -> None:
        frames, channels = clip.shape[:2]
        pixels, target = clip.reshape(frames, channels, -1), out.reshape(frames, channels, -1)
        area = pixels.shape[2]
        num_frames = max(1, _VALUES_AT_ONCE // (channels * area))
        num_pixels = area if num_frames > 1 else max(1, _VALUES_AT_ONCE // channels)
        middle, std, rest = self._parts
        has_mean = bool(middle.any() or rest.any())
        for frame in range(0, frames, num_frames):
            for first in range(0, area, num_pixels):
                part = np.s_[frame : frame + num_frames, :, first : first + num_pixels]
                values = target[part]
                # A cast, and then steps in place: a ufunc that casts works on small pieces.
                np.copyto(values, pixels[part])
                if has_mean:
                    np.subtract(values, middle, out=values)
                np.divide(values, std, out=values)
                if has_mean:
                    np.add(values, rest, out=values)

    # --- 16 bits, for which a table takes less than a cast of NumPy --------------------------------------

    @cached_property
    def table(self) -> AnyArray:
        """Value of each byte in each channel, [C, 256]; C is 1 if all channels agree."""
        middle, std, rest = self._exact_parts
        values = np.arange(256, dtype=np.uint8)
        with np.errstate(all="ignore"):
            if self.dtype == "float32":
                made = np.empty((1, len(middle), 1, 256), np.float32)
                self._compute(np.broadcast_to(values, made.shape), made)
                return made.reshape(-1, 256)
            exact = (values - middle) / std + rest
            return exact.astype(np.float16) if self.dtype == "float16" else _round_to_bfloat16(exact)

    def _is_finite(self) -> bool:
        table = self.table
        if self.dtype == "bfloat16":
            return bool(((table & _INFINITE) != _INFINITE).all())
        return bool(np.isfinite(table).all())

    @cached_property
    def _pairs(self) -> list[npt.NDArray[np.uint32]]:
        """Values of two bytes that lie side by side, for each channel: half as many are looked up."""
        pairs = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
        return [np.ascontiguousarray(values[pairs]).view(np.uint32).reshape(-1) for values in self.table]

    def _write_plane(self, channel: int, pixels: Pixels, target: AnyArray) -> None:
        even = len(pixels) // 2 * 2
        indices, words = pixels[:even].view(np.uint16), target[:even].view(np.uint32)
        for first in range(0, len(indices), _PAIRS_AT_ONCE):
            part = slice(first, first + _PAIRS_AT_ONCE)
            # With "raise", NumPy would take the values to memory of its own first.
            np.take(self._pairs[channel], indices[part], out=words[part], mode="clip")
        target[even:] = self.table[channel][pixels[even:]]


_INFINITE = np.uint16(0x7F80)
"""Bits of the exponent of bfloat16, all set in infinity and NaN."""


def _round_to_bfloat16(values: FloatArray) -> npt.NDArray[np.uint16]:
    """Round to the bits of the nearest bfloat16, halves to even.

    First to float32 with its last bit set if it is not exact ("round to odd"), so that the second rounding is as from
    the values themselves (Boldo and Melquiond: When double rounding is odd, 2005).
    """
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    bits -= np.abs(single.astype(np.float64)) > np.abs(values)
    bits |= bits.view(np.float32).astype(np.float64) != values
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def _name_dtype(dtype: Any) -> str:
    name = dtype
    if isinstance(dtype, (type, np.dtype)):
        name = np.dtype(dtype).name if isinstance(dtype, np.dtype) or issubclass(dtype, np.generic) else dtype
    elif not isinstance(dtype, str) and str(dtype).startswith("torch."):
        name = str(dtype).removeprefix("torch.")
    check_choice("dtype", name, tuple(_ARRAYS))
    return str(name)


def _check_channels(name: str, given: Any) -> tuple[float, ...]:
    listed = given.tolist() if hasattr(given, "tolist") else given  # arrays, tensors and numbers of NumPy
    is_row = isinstance(listed, Sequence) and not isinstance(listed, (str, bytes, AbstractSet, Mapping))
    values = tuple(listed) if is_row else (listed,)
    least = "above 0" if name == "std" else f"from -{_LARGEST}"
    if not values or not all(is_number(value) and abs(value) <= _LARGEST for value in values):  # NaN is not
        example = "(0.229, 0.224, 0.225)" if name == "std" else "(0.485, 0.456, 0.406)"
        what = f"a number of x / 255 {least} to {_LARGEST}, or one for each channel, such as {example}"
        raise expected(name, f"{what}; divide those for pixels of 0 to 255 by 255", given)
    if name == "std" and min(values) <= 0:
        raise expected(name, "numbers above 0, by which pixels can be divided", given)
    return tuple(map(float, values))


def _import_torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            "dtype='bfloat16': NumPy has no such type, and PyTorch, whose tensors the batches would be, is not "
            "installed: pip install 'framefeed[torch]', or use float16"
        ) from error
    return torch
