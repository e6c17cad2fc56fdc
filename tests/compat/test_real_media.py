"""Real files: clips by torchvision's metadata are, to the last bit, what PyAV decodes for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from framefeed.compat.torchvision import VideoClips
from tests.reference import open_media

SIZE = 8
FILES = (
    "pytorch-vision/WUzgd7C1pWA.mp4", "pytorch-vision/v_SoccerJuggling_g23_c01.avi", "gradio/video_sample.avi",
    "ExoPlayer/video_big_buck_bunny.mp4", "mmaction2/demo.mp4",
)  # fmt: skip


def decode_by_theirs(path: str) -> tuple[list[tuple[int, Any]], float]:
    """(pts, picture) of all frames sorted by their times, and the rate."""
    with open_media(path) as container:
        stream = container.streams.video[0]
        frames = [(frame.pts, frame.to_rgb().to_ndarray()) for frame in container.decode(stream)]
        return sorted(frames, key=lambda frame: frame[0]), float(stream.average_rate)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("rate", [None, 15, 7])
def test_clips_of_real_files(name: str, rate: int | None, media_root: Path) -> None:
    path = str(media_root / "video" / name)
    frames, fps = decode_by_theirs(path)
    metadata = {
        "video_paths": [path],
        "video_pts": [torch.tensor([pts for pts, _ in frames])],
        "video_fps": [fps],
    }
    theirs = VideoClips([], SIZE, 5, rate, _precomputed_metadata=metadata)
    ours = VideoClips([path], SIZE, 5, rate)
    assert (ours.metadata["video_fps"], len(ours)) == ([fps], len(theirs))
    picture_of = dict(frames)
    for idx in sorted({0, len(ours) // 2, len(ours) - 1}):
        wanted = np.stack([picture_of[pts] for pts in theirs.clips[0][idx].tolist()])
        for clips in (theirs, ours):
            assert (clips.get_clip(idx)[0].numpy() == wanted).all()
