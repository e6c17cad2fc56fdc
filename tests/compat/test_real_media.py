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


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_clips_of_real_files(name: str, media_root: Path) -> None:
    path = str(media_root / "video" / name)
    with open_media(path) as container:
        stream = container.streams.video[0]
        frame_of: dict[int, Any] = {frame.pts: frame for frame in container.decode(stream)}
        fps = float(stream.average_rate)
    metadata = {"video_paths": [path], "video_pts": [torch.tensor(sorted(frame_of))], "video_fps": [fps]}
    theirs, ours = VideoClips([], SIZE, _precomputed_metadata=metadata), VideoClips([path], SIZE)
    assert ours.metadata["video_fps"] == [fps]
    for rate in (None, 15, 7):
        for clips in (theirs, ours):
            clips.compute_clips(SIZE, 5, rate)
        assert len(ours) == len(theirs)
        for idx in sorted({0, len(ours) // 2, len(ours) - 1}):
            pictures = [frame_of[pts].to_rgb().to_ndarray() for pts in theirs.clips[0][idx].tolist()]
            for clips in (theirs, ours):
                assert (clips.get_clip(idx)[0].numpy() == np.stack(pictures)).all()
