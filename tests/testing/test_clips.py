"""Clips come out as they were asked for, and the same twice."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from framefeed.testing import AudioSpec, ClipSpec, clip_bytes, write_clip
from framefeed.testing._stamps import read_stamp
from tests.codec_clips import CODECS
from tests.pathologies import read_facts


def test_default_clip_counts_its_frames(tmp_path: Path) -> None:
    facts = read_facts(write_clip(tmp_path / "clip.mp4"))
    assert facts.stamps == tuple(range(100))
    assert (facts.frames[0].height, facts.frames[0].width) == (96, 128)
    assert sum(packet.is_key for packet in facts.packets) == 4


def test_stamps_survive_conversion_to_half_size(tmp_path: Path) -> None:
    with av.open(write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=10))) as container:
        for number, frame in enumerate(container.decode(video=0)):
            assert read_stamp(frame.to_ndarray(format="rgb24", width=64, height=48)) == number
            assert read_stamp(frame.to_ndarray(format="gbrp")) == number


@pytest.mark.parametrize("size", [(48, 64), (90, 120), (97, 131), (120, 160)])
def test_same_spec_same_bytes(size: tuple[int, int]) -> None:
    spec = ClipSpec(height=size[0], width=size[1], pixel_format="yuv444p")
    assert len({clip_bytes(spec, "mp4") for _ in range(4)}) == 1


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp8", "vp9", "av1", "mpeg4"])
def test_same_codec_same_bytes(codec: str, tmp_path: Path) -> None:
    clip = CODECS[codec]
    one, other = (write_clip(tmp_path / f"{name}{clip.suffix}", clip.spec) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_own_times_are_kept(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=4, pts=(0, 33, 71, 500), time_base=Fraction(1, 1000), b_frames=0)
    assert read_facts(write_clip(tmp_path / "clip.mkv", spec)).frame_pts == (0, 33, 71, 500)


def test_streams_keep_their_own_frames(tmp_path: Path) -> None:
    first, second = ClipSpec(num_frames=9, first_stamp=100), ClipSpec(num_frames=12, fps=50, height=48, width=64)
    path = write_clip(tmp_path / "clip.mp4", first, AudioSpec(0.3), second)
    assert read_facts(path, 0).stamps == tuple(range(100, 109))
    assert read_facts(path, 1).time_base is None
    assert read_facts(path, 2).stamps == tuple(range(12))


def test_own_pictures_are_drawn(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=3, draw=lambda ordinal: np.full((96, 128, 3), 100 * ordinal, np.uint8))
    with av.open(write_clip(tmp_path / "clip.mp4", spec)) as container:
        means = [frame.to_ndarray(format="rgb24").mean() for frame in container.decode(video=0)]
    assert means == pytest.approx([0, 100, 200], abs=3)


def test_contradicting_specs_are_refused() -> None:
    with pytest.raises(ValueError, match="pts: expected one for each"):
        ClipSpec(num_frames=3, pts=(0, 1))
    with pytest.raises(ValueError, match="90 degrees"):
        ClipSpec(rotation=45)
