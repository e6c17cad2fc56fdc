"""``load_clip`` gives what a loader gives, also of a text and in another process, and refuses another file."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed.errors import CorruptMedia, MissingMedia, StaleSource, UsageError
from framefeed.plan import EpochPlan, plan_requests
from framefeed.testing import make_lerobot
from tests.corpus import corpus_file
from tests.damaged import damaged_clip
from tests.fakes import FlatDecoder
from tests.load.stream_media import plan_both
from tests.makers import FRAMES, folder, plan_of, plan_over
from tests.patience import PATIENCE_SECONDS
from tests.remote import served


def assert_as_loaded(plan: EpochPlan) -> None:
    """Compare clips that came as texts with the batches of a loader."""
    batches = list(ff.ClipLoader(plan, batch_size=1, workers=0))
    for clip, loaded in zip(plan, batches, strict=True):
        assert loaded.errors == [None]
        batch = ff.load_clip(ff.PlannedClip.from_json(clip.to_json()))
        names = ("data", "pts_seconds", "valid", "seconds", "end_seconds", "positions", "rows", "ok", "boxes")
        for name in names:
            assert_equal(getattr(batch, name), getattr(loaded, name))
        assert batch.sources == loaded.sources
        assert_equal(batch.flipped, np.zeros(1, np.bool_) if loaded.flipped is None else loaded.flipped)


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_equal(one[name], other[name])
    elif one is None or other is None:
        assert one is other
    else:
        assert one.dtype == other.dtype
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@pytest.mark.parametrize(
    "options",
    [{}, {"size": ff.Letterbox(40, 40, fill=9), "horizontal_flip": 0.5}, {"crop": ff.RandomCrop(20, 30), "size": 16}],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:.* past the end", "ignore:.* shorter than this rule")
def test_clips_are_those_of_a_loader(options: dict[str, Any]) -> None:
    assert_as_loaded(plan_of(**options))
    assert_as_loaded(plan_over(plan_of().catalog, ff.Rates([(4, 4), (9, 8)]), **options))


def test_clips_of_several_streams_are_those_of_a_loader() -> None:
    assert_as_loaded(plan_both(size=ff.Letterbox(40, 40), horizontal_flip=0.5))


def test_pictures_and_sequences_are_those_of_a_loader(tmp_path: Path) -> None:
    for number in range(3):
        Image.new("RGB", (64, 48), (number * 40, 0, 9)).save(tmp_path / f"{number}.jpg")
    sources = [tmp_path / "1.jpg", ff.ImageSequence(tmp_path, fps=25)]
    assert_as_loaded(plan_requests([ff.DecodeRequest(each, indices=[0]) for each in sources], size=(12, 16)))
    for depth in ("header", "frames"):
        assert_as_loaded(plan_over(ff.scan(tmp_path, depth=depth, workers=0), ff.Uniform(1), size=(12, 16)))


def test_cameras_of_robots_are_those_of_a_loader(tmp_path: Path) -> None:
    robots = ff.lerobot.open(make_lerobot(tmp_path / "set", cameras=("top",), image_keys=("wrist",), episodes=(4, 3)))
    assert_as_loaded(robots.plan({"top": [-0.1, 0.0], "wrist": [-0.1, 0.0]}, seed=0))


@pytest.mark.filterwarnings("ignore:.* damaged frames in .* may be in clips")
def test_damaged_frames_are_those_of_a_loader() -> None:
    scanned = ff.scan(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), verify="full", workers=0)
    for on_damaged in ("skip", "deliver"):
        assert_as_loaded(plan_over(scanned, ff.AtIndices([2, 12, 13, 12]), on_damaged=on_damaged, horizontal_flip=1.0))
    with pytest.raises(CorruptMedia):
        ff.load_clip(plan_over(scanned, ff.AtIndices([2, 13]))[0])


def test_another_process_gives_the_same_bytes() -> None:
    plan = plan_of(ff.Rates([(5.5, 6)]), clips_per_video=1, horizontal_flip=0.5)
    code = """
import sys, framefeed as ff
from tests.load.test_load_clip import hash_clip
for text in sys.stdin:
    clip = ff.PlannedClip.from_json(text, strict=True)
    assert clip.to_json() == text.rstrip()
    print(hash_clip(clip))
"""
    lines = "\n".join(clip.to_json() for clip in plan)
    run = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(run, input=lines, check=True, timeout=3 * PATIENCE_SECONDS, capture_output=True, text=True)
    assert done.stdout.split() == list(map(hash_clip, plan))


def hash_clip(clip: ff.PlannedClip) -> str:
    """Hash the pixels and times of a clip."""
    batch = ff.load_clip(clip)
    digest = hashlib.sha256(clip.pick_error_seconds.tobytes())
    for array in (batch.data, batch.pts_seconds, batch.seconds, batch.valid):
        digest.update(array.tobytes())
    return digest.hexdigest()


def test_another_file_is_stale(tmp_path: Path) -> None:
    one, other = sorted(folder().rglob("*.mp4"))[:2]
    path = shutil.copy(one, tmp_path / "video.mp4")
    clip = plan_requests([ff.DecodeRequest(path, indices=[3, 5])])[0]
    text = clip.to_json()
    moved = shutil.copy(one, tmp_path / "moved.mp4")
    assert_equal(ff.load_clip(ff.PlannedClip.from_json(text, source=moved)).data, ff.load_clip(clip).data)
    shutil.copy(other, path)
    with pytest.raises(StaleSource, match=r"video\.mp4: is another file .* \(\d+ bytes, now \d+\): give from_json"):
        ff.load_clip(ff.PlannedClip.from_json(text))
    Path(path).unlink()
    with pytest.raises(MissingMedia) as caught:
        ff.load_clip(ff.PlannedClip.from_json(text))
    assert caught.value.position == 0


def test_a_missing_source_is_that_of_the_clip(tmp_path: Path) -> None:
    path = shutil.copy(sorted(folder().rglob("*.mp4"))[0], tmp_path / "video.mp4")
    clip = plan_requests([ff.DecodeRequest(path, indices=[number]) for number in range(3)])[2]
    Path(path).unlink()
    with pytest.raises(MissingMedia) as caught:
        ff.load_clip(clip)
    assert caught.value.position == clip.position == 2


def test_decoders_and_limits_are_those_that_are_given() -> None:
    clip = plan_of(ff.AtIndices([0, 7, 3]), size=(8, 8))[0]
    assert ff.load_clip(clip, backend=FlatDecoder()).data[0, :, 0, 0, 0].tolist() == [0, 7, 3]
    with pytest.raises(ff.LimitExceeded, match="max_packets=3"):
        ff.load_clip(clip, limits=ff.Limits(max_packets=3))
    with pytest.raises(UsageError, match="storage_options"):
        ff.load_clip(clip, storage_options=3)  # type: ignore[arg-type]


def test_other_times_or_numbers_of_the_same_file_are_stale() -> None:
    text = plan_of(ff.Uniform(4))[0].to_json()
    for key, value in (
        ("pts", [0, 1, 2, 3]),
        ("time_base", [1, 7]),
        ("indices", [0, 1, 2, 999]),
        ("indices", [0, 1, 2, FRAMES - 3]),  # the number of frames itself
        ("displayed", [9, 9]),
    ):
        edited = json.loads(text)
        edited["parts"][""][0][key] = value
        with pytest.raises(StaleSource, match="its frames have other numbers, times or sizes here"):
            ff.load_clip(ff.PlannedClip.from_json(json.dumps(edited)))


def test_a_signed_url_is_given_again() -> None:
    media = corpus_file("base.mp4").read_bytes()
    with served({"/v.mp4?sig=Zq7Secret": media, "/v.mp4?sig=Zq7New": media}) as server:
        options = {server: {"headers": {"Authorization": "Zq7Options"}}}
        url = f"{server}/v.mp4?sig=Zq7Secret".replace("http://", "http://user:Zq7Password@")
        clip = plan_requests(
            [ff.DecodeRequest(f"{server}/v.mp4?sig=Zq7Secret", indices=[4, 2])], storage_options=options
        )[0]
        text = clip.to_json()
        assert "Zq7" not in text
        assert ff.PlannedClip.from_json(text, source=url).to_json() == text
        again = ff.PlannedClip.from_json(text, source=f"{server}/v.mp4?sig=Zq7New")
        batch = ff.load_clip(again, storage_options=options)
        path = plan_requests([ff.DecodeRequest(corpus_file("base.mp4"), indices=[4, 2])])[0]
        assert_equal(batch.data, ff.load_clip(path).data)


def test_wrong_arguments_are_named() -> None:
    clip = plan_of()[0]
    with pytest.raises(UsageError, match="clip: expected a PlannedClip"):
        ff.load_clip(clip.to_json())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limits"):
        ff.load_clip(clip, limits=3)  # type: ignore[arg-type]
    with pytest.raises(ff.LimitExceeded):
        ff.load_clip(clip, limits=replace(ff.Limits(), max_side=10))
