"""A small folder of labelled videos for demos and end-to-end tests."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

from framefeed.testing._clips import ClipSpec, write_clip
from framefeed.testing._stamps import COLOURS


def make_folder(
    path: str | os.PathLike[str],
    classes: int = 2,
    videos_per_class: int = 4,
    seconds: float = 10.0,
    fps: Fraction | int = 30,
    size: tuple[int, int] = (120, 160),
) -> list[Path]:
    """Write videos whose frames show their own numbers, in one sub-folder per class.

    Classes differ in the colour of the picture and the direction in which it moves; videos of a class in texture
    and speed. In every video frame k reads as stamp k.

    Args:
        path: Folder to write to; created if missing.
        classes: Number of classes.
        videos_per_class: Number of videos of each class.
        seconds: Length of each video.
        fps: Frames per second.
        size: (height, width) of the picture.

    Returns:
        The files, sorted.
    """
    files = []
    for number in range(classes):
        colour, repeat = COLOURS[number % len(COLOURS)][0], number // len(COLOURS)
        folder = Path(path).expanduser() / (f"{colour}_{repeat + 1}" if repeat else colour)
        folder.mkdir(parents=True, exist_ok=True)
        for video in range(videos_per_class):
            spec = ClipSpec(
                num_frames=round(Fraction(seconds) * fps),
                height=size[0],
                width=size[1],
                fps=fps,
                gop=60,
                b_frames=2,
                codec_options={"preset": "ultrafast"},
                style=number,
                seed=video,
            )
            files.append(write_clip(folder / f"video_{video:03d}.mp4", spec))
    return sorted(files)
