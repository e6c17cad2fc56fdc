"""OpenCV with all its threads, which `framefeed.bench.baselines.opencv` limits to one where it is imported."""

from __future__ import annotations

import cv2


def use_all_threads() -> None:
    """Let OpenCV use as many threads as it does by default, as loops of their own have it."""
    cv2.setNumThreads(-1)
