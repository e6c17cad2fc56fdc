"""Types of NumPy arrays, by their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]

_BOOLS = frozenset((bool, np.bool_))


def has_bools(values: object) -> bool:
    """Whether a bool is given, or is among numbers, where NumPy makes 0 or 1 of it."""
    if isinstance(values, (list, tuple)):
        return not _BOOLS.isdisjoint(map(type, values))
    return np.asarray(values).dtype.kind == "b"
