"""The ffmpeg program as a route, and the scene that stands for a film."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.map.suite import choose_video, make_identity_row
from benchmarks.media import OwnStore
from benchmarks.scene import Scene
from framefeed.bench import BenchVideo, Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.testing import ClipSpec, write_clip


@pytest.mark.test_all
def test_the_ffmpeg_program_encodes_every_frame(tmp_path: Path) -> None:
    peers = Peers.find(["benchmarks.peers.ffmpeg"])
    if peers.missing:
        pytest.skip(peers.missing["ffmpeg"])
    video = BenchVideo(write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=40)))
    (tmp_path / "row").mkdir()
    row = run_row(make_identity_row(video, peers, tmp_path / "row"), Rounds(1))
    if "ffmpeg" in row["failed"]:
        pytest.skip("this ffmpeg has no x264")
    assert [each["num_wrong"] for each in row["contenders"]] == [0, 0]
    assert row["comparisons"][0]["key"] == "identity"


def test_a_video_of_the_height_is_chosen(tmp_path: Path) -> None:
    high = write_clip(tmp_path / "high.mp4", ClipSpec(num_frames=250, height=720, width=64))
    low = write_clip(tmp_path / "low.mp4", ClipSpec(num_frames=250, height=64, width=64))
    assert choose_video(OwnStore((low, high), tmp_path, Rounds()), 720).path == high


def test_a_scene_moves_and_is_the_same_each_time() -> None:
    first, again = Scene(96, 128), Scene(96, 128)
    frames = [first.draw(number) for number in range(3)]
    assert frames[0].shape == (96, 128, 3)
    assert np.array_equal(frames[2], again.draw(2))
    assert all(np.mean(one != other) > 0.5 for one, other in pairwise(frames))
