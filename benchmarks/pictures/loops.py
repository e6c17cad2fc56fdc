"""What people write for pictures without a loader: read a file, decode, resize, one after the other in a plain loop."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from framefeed.bench import SIZE
from framefeed.decode import Pixels

LoadPicture = Callable[[str], Pixels]
"""A file to RGB, uint8 [224, 224, 3]."""
_SMALL = (SIZE, SIZE)


def by_pillow(path: str) -> Pixels:
    """Decode at full size, and resize with antialiasing."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize(_SMALL, Image.Resampling.BILINEAR))


def by_pillow_draft(path: str) -> Pixels:
    """Decode at the eighth, quarter or half that has twice the size, as ``Image.thumbnail`` does, and resize."""
    with Image.open(path) as image:
        image.draft("RGB", (2 * SIZE, 2 * SIZE))
        return np.asarray(image.convert("RGB").resize(_SMALL, Image.Resampling.BILINEAR))


def by_simplejpeg(path: str) -> Pixels:
    """Decode at full size with simplejpeg, and resize with Pillow."""
    pixels = simplejpeg.decode_jpeg(Path(path).read_bytes(), "RGB")
    return np.asarray(Image.fromarray(pixels).resize(_SMALL, Image.Resampling.BILINEAR))


def make_opencv_loop() -> LoadPicture:
    """Decode at full size with OpenCV, and resize with INTER_AREA, in one thread."""
    import cv2

    cv2.setNumThreads(1)

    def load(path: str) -> Pixels:
        pixels = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
        return np.asarray(cv2.resize(pixels, _SMALL, interpolation=cv2.INTER_AREA))

    return load


def make_opencv_reduced_loop() -> LoadPicture:
    """Decode with OpenCV at the half, quarter or eighth that has twice the size, and resize with INTER_AREA."""
    import cv2

    cv2.setNumThreads(1)
    flags = {2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4, 8: cv2.IMREAD_REDUCED_COLOR_8}

    def load(path: str) -> Pixels:
        data = Path(path).read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            short = min(image.size)
        flag = next((flags[by] for by in (8, 4, 2) if short >= 2 * SIZE * by), cv2.IMREAD_COLOR)
        pixels = cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), flag), cv2.COLOR_BGR2RGB)
        return np.asarray(cv2.resize(pixels, _SMALL, interpolation=cv2.INTER_AREA))

    return load


def load_batches(load: LoadPicture, paths: Sequence[str], batch_size: int) -> None:
    """Load all pictures, and stack them to batches of [B, 224, 224, 3]."""
    for first in range(0, len(paths), batch_size):
        np.stack([load(path) for path in paths[first : first + batch_size]])


class TrainingPictures:
    """A torch map-style data set: Pillow's random resized crop and flip, then torch's arithmetic, as torchvision's.

    ``torchvision.transforms.v2`` does the same: RandomResizedCrop(224), RandomHorizontalFlip, ToImage,
    ToDtype(float32, scale=True), Normalize.
    """

    def __init__(
        self, paths: Sequence[str], labels: Sequence[int], mean: Sequence[float], std: Sequence[float]
    ) -> None:
        self._paths, self._labels, self._mean, self._std = paths, labels, mean, std

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Any:
        import torch

        with Image.open(self._paths[number]) as image:
            whole = image.convert("RGB")
        width, height = whole.size
        area = width * height * torch.empty(1).uniform_(0.08, 1.0).item()
        ratio = float(torch.exp(torch.empty(1).uniform_(np.log(3 / 4), np.log(4 / 3))).item())
        columns = min(width, max(1, round((area * ratio) ** 0.5)))
        rows = min(height, max(1, round((area / ratio) ** 0.5)))
        left = int(torch.randint(width - columns + 1, (1,)).item())
        top = int(torch.randint(height - rows + 1, (1,)).item())
        small = whole.crop((left, top, left + columns, top + rows)).resize(_SMALL, Image.Resampling.BILINEAR)
        if torch.rand(1).item() < 0.5:
            small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        picture = torch.from_numpy(np.array(small)).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (self._mean, self._std))
        return picture.sub_(mean).div_(std), self._labels[number]
