"""How close each contender's resize comes to a careful one: PSNR over some frames of a video."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.bench._media import BenchVideo
from framefeed.bench._ours import OUR_METHOD, OURS
from framefeed.bench._peer import Method

Picture = npt.NDArray[np.uint8]
NUM_FRAMES = 24


def spread_ordinals(num_frames: int, count: int = NUM_FRAMES) -> list[int]:
    """Frames from the middle of equal parts of a video."""
    return [(2 * part + 1) * num_frames // (2 * count) for part in range(min(count, num_frames))]


def psnr(pictures: Picture, reference: Picture) -> float:
    """Peak signal-to-noise ratio in dB of 8-bit pictures; infinite where they are equal."""
    error = float(np.mean((pictures.astype(np.float64) - reference) ** 2))
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))


def compare_resizing(video: BenchVideo, methods: Sequence[Method], reference: Picture) -> dict[str, Any]:
    """PSNR of each method to the reference, and how far ours is above the decoder's own resize of TorchCodec.

    Args:
        video: Where the frames come from.
        methods: Of the peers.
        reference: Its frames ``spread_ordinals(len(video))``, resized with care, uint8 [T, H, W, 3].
    """
    ordinals = spread_ordinals(len(video))
    decibels: dict[str, float] = {}
    for method in (OUR_METHOD, *methods):
        session = method.open(video)
        pictures = np.asarray(session.clip(ordinals))
        session.close()
        upright = pictures.transpose(0, 2, 3, 1) if method.layout == "NCHW" else pictures
        decibels[method.name] = round(psnr(upright, reference), 2)
    native = [decibels[method.name] for method in methods if method.library == "torchcodec" and method.resizes_itself]
    return {
        "video": video.path.name,
        "frames": len(ordinals),
        "psnr_db": decibels,
        "above_torchcodec_db": round(decibels[OURS] - max(native), 2) if native else None,
        "floor_db": 0.0,
        "aim_db": 5.0,
    }
