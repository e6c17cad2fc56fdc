"""NDArray: a NumPy array with the methods of decord's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.compat.decord._context import Context, cpu


class NDArray(np.ndarray[Any, np.dtype[np.uint8]]):
    """Pixels, uint8 [H, W, C] or [N, H, W, C]: a NumPy array that also has decord's methods."""

    def asnumpy(self) -> npt.NDArray[np.uint8]:
        """Return the pixels as a plain NumPy array, on the same memory."""
        return self.view(np.ndarray)

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule on the same memory."""
        return self.__dlpack__()

    @property
    def ctx(self) -> Context:
        """The device that holds the pixels: the CPU."""
        return cpu(0)

    context = ctx
