"""Planes -> resized, normalised RGB: a reference in float64, and with torch alone.

All do the same: each plane is resized from where its samples lie (bilinear, antialiased), then converted by the matrix
and range of the stream, clipped to 0..255 and normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CENTRE, LEFT = 0.0, 0.25
"""Horizontal place of chroma samples: in the middle of two luma samples, or at the left one, in chroma samples."""
# Kr and Kb by ITU-T H.273's code of the matrix.
_LUMA_WEIGHTS = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}


@dataclass(frozen=True)
class Conversion:
    """RGB = matrix @ (Y, Cb, Cr) + offset, RGB and samples from 0 to 255."""

    matrix: Floats
    offset: Floats


def make_conversion(matrix_code: int = 6, *, is_full_range: bool = False) -> Conversion:
    """Derive the conversion of a stream; an unspecified matrix is BT.601, as swscale assumes (ITU-T H.273, 8.3)."""
    red, blue = _LUMA_WEIGHTS.get(matrix_code, _LUMA_WEIGHTS[6])
    green = 1 - red - blue
    rows = [
        [1, 0, 2 - 2 * red],
        [1, -2 * blue * (1 - blue) / green, -2 * red * (1 - red) / green],
        [1, 2 - 2 * blue, 0],
    ]
    scale = np.ones(3) if is_full_range else np.array([255 / 219, 255 / 224, 255 / 224])
    zero = np.array([0 if is_full_range else 16, 128, 128])
    matrix = np.array(rows) * scale
    return Conversion(matrix, -matrix @ zero)


def make_weights(source: int, target: int, shift: float = CENTRE) -> Floats:
    """Make the weights of an antialiased bilinear resize, float64 [target, source].

    Sample j lies at j + 0.5 - shift.
    """
    scale = source / target
    support = max(scale, 1.0)
    centres = (np.arange(target) + 0.5) * scale
    samples = np.arange(source) + 0.5 - shift
    weights = np.maximum(0, 1 - np.abs(samples - centres[:, None]) / support)
    return weights / weights.sum(axis=1, keepdims=True)


def resize_reference(luma: Any, chroma: Any, size: tuple[int, int], conversion: Conversion, siting: float) -> Floats:
    """Resize luma [N, H, W] and chroma [N, H/2, W/2, 2] to float64 [N, 3, h, w] by the definition."""
    planes = [(luma, CENTRE), (chroma[..., 0], siting), (chroma[..., 1], siting)]
    resized = [
        make_weights(plane.shape[1], size[0])
        @ plane.astype(np.float64)
        @ make_weights(plane.shape[2], size[1], shift).T
        for plane, shift in planes
    ]
    colours = np.einsum("rc,nchw->nrhw", conversion.matrix, np.stack(resized, axis=1))
    rgb = np.clip(colours + conversion.offset[:, None, None], 0, 255) / 255
    mean, std = (np.array(values)[:, None, None] for values in (MEAN, STD))
    normalised: Floats = (rgb - mean) / std
    return normalised


class TorchResize:
    """The same with torch: by ``interpolate``, which knows chroma in the middle only, or by two matrix products.

    Args:
        torch: The module.
        device: Where.
        frame: (height, width) of the frames.
        size: (height, width) of the result.
        conversion: Of the stream.
        siting: Of chroma; with ``by_products``.
    """

    def __init__(
        self,
        torch: Any,
        device: str,
        frame: tuple[int, int],
        size: tuple[int, int],
        conversion: Conversion,
        siting: float = LEFT,
    ) -> None:
        self._torch = torch
        self._size = size

        def put(values: Any) -> Any:
            return torch.tensor(np.asarray(values), dtype=torch.float32, device=device)

        std = np.array(STD) * 255
        self._matrix = put(conversion.matrix)
        self._offset = put(conversion.offset)[:, None, None]
        self._scale, self._shift = put(1 / std)[:, None, None], put(np.array(MEAN) / STD)[:, None, None]
        chroma = (frame[0] + 1) // 2, (frame[1] + 1) // 2
        self._rows, self._columns = put(make_weights(frame[0], size[0])), put(make_weights(frame[1], size[1]).T)
        self._chroma_rows = put(make_weights(chroma[0], size[0]))
        self._chroma_columns = put(make_weights(chroma[1], size[1], siting).T)

    def by_interpolate(self, luma: Any, chroma: Any) -> Any:
        """Resize uint8 planes to bfloat16 [N, 3, h, w]."""
        resize = self._torch.nn.functional.interpolate
        options = {"size": self._size, "mode": "bilinear", "antialias": True, "align_corners": False}
        lightness = resize(luma[:, None].float(), **options)
        colour = resize(chroma.permute(0, 3, 1, 2).float().contiguous(), **options)
        return self._finish(self._torch.cat([lightness, colour], dim=1))

    def by_products(self, luma: Any, chroma: Any) -> Any:
        """Resize uint8 planes to bfloat16 [N, 3, h, w]."""
        lightness = self._rows @ luma.float() @ self._columns
        colour = self._chroma_rows @ chroma.permute(0, 3, 1, 2).float() @ self._chroma_columns
        return self._finish(self._torch.cat([lightness[:, None], colour], dim=1))

    def of_rgb(self, pictures: Any) -> Any:
        """Resize uint8 RGB [N, 3, H, W] to bfloat16."""
        options = {"size": self._size, "mode": "bilinear", "antialias": True, "align_corners": False}
        resized = self._torch.nn.functional.interpolate(pictures.float(), **options)
        return self.normalise(resized.clamp(0, 255))

    def _finish(self, planes: Any) -> Any:
        rgb = self._torch.einsum("rc,nchw->nrhw", self._matrix, planes) + self._offset
        return self.normalise(rgb.clamp(0, 255))

    def normalise(self, rgb: Any) -> Any:
        """Normalise RGB from 0 to 255, float32 [N, 3, h, w], to bfloat16."""
        return (rgb * self._scale - self._shift).to(self._torch.bfloat16)
