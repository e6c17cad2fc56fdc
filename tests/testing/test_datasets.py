"""The demo folder: labelled, self-naming, quick."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from framefeed.testing._clips import make_folder
from tests.pathologies import read_facts


def test_folder_has_a_subfolder_per_class(tmp_path: Path) -> None:
    files = make_folder(tmp_path, classes=7, videos_per_class=2, seconds=0.2)
    assert len(files) == len(set(files)) == 14 == len(list(tmp_path.rglob("*.mp4")))
    assert sorted({file.parent.name for file in files}) == sorted(
        ["red", "blue", "green", "yellow", "violet", "teal", "red_2"]
    )


def test_every_frame_names_itself(tmp_path: Path) -> None:
    for file in make_folder(tmp_path, seconds=1.0, fps=30, videos_per_class=1):
        facts = read_facts(file)
        assert facts.stamps == tuple(range(30))
        assert (facts.frames[0].height, facts.frames[0].width) == (120, 160)


def test_classes_differ_in_colour_and_motion(tmp_path: Path) -> None:
    red, blue = (_frames(file) for file in reversed(make_folder(tmp_path, videos_per_class=1, seconds=0.2)))
    assert red[..., 0].mean() > red[..., 2].mean() + 50
    assert blue[..., 2].mean() > blue[..., 0].mean() + 50
    assert _drift(red) > 0 > _drift(blue)


def _frames(file: Path) -> np.ndarray:
    with av.open(file) as container:
        return np.stack([frame.to_ndarray(format="rgb24")[60:] for frame in container.decode(video=0)]).astype(float)


def _drift(frames: np.ndarray) -> int:
    """Columns to the right by which the second picture looks most like the first."""
    gray = frames.mean(axis=3)
    shifts = range(-4, 5)
    errors = [np.abs(np.roll(gray[0], shift, axis=1) - gray[1]).mean() for shift in shifts]
    return shifts[int(np.argmin(errors))]
