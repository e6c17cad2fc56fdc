"""The ffmpeg program as a route, the choice of a video, and the scene that stands for a film."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.map import suite
from benchmarks.map.suite import choose_video, make_identity_row
from benchmarks.media import OwnStore
from benchmarks.scene import Scene
from framefeed.bench import BenchVideo, Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia
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


def test_a_video_of_720_rows_is_chosen_before_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "LEAST_FRAMES", 12)
    low = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=12, height=64, width=64))
    high = write_clip(tmp_path / "b.mp4", ClipSpec(num_frames=12, height=720, width=64))
    short = write_clip(tmp_path / "c.mp4", ClipSpec(num_frames=8))

    def choose(*media: Path) -> Path:
        return choose_video(OwnStore(media, tmp_path / "work", Rounds())).path

    assert choose(low, high) == high
    assert choose(low) == low
    with pytest.raises(MissingMedia, match="12 frames"):
        choose(short)


def test_a_scene_moves_and_is_the_same_each_time() -> None:
    first, again = Scene(96, 128), Scene(96, 128)
    frames = [first.draw(number) for number in range(3)]
    assert frames[0].shape == (96, 128, 3)
    assert np.array_equal(frames[2], again.draw(2))
    assert all(np.mean(one != other) > 0.5 for one, other in pairwise(frames))
