"""Every real video: random targets are what reading the file in order gives, or the file's fault has a name.

One reference decode a file, thrown away with the test. `make test` reads every second file of each kind in one of four
ways, `make test-all` all in two, and the long form reads more of each file, more often and in all ways: three minutes.
"""

from __future__ import annotations

import json
import os
import random
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

from framefeed.decode import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder, get_thread_pools
from framefeed.errors import EmptyVideo, MediaError, UnreadableMedia
from framefeed.index import FrameIndex, build_index, index_media, plan_runs, probe
from framefeed.media import MediaSource
from tests.conftest import CHECKOUT
from tests.decode.law import Product, check_frames
from tests.lengths import IS_ALL, IS_LONG, either, sampled
from tests.reference import read_reference

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media"))
VIDEOS = sorted(os.fspath(path.relative_to(ROOT / "video")) for path in ROOT.glob("video/*/**/*") if path.is_file())

BROKEN: dict[str, tuple[type[MediaError], str]] = {
    "androidx-media/invalid-bitstream.webm": (EmptyVideo, "its one packet is no VP9"),
    "go-mp4/sample_qt.mp4": (EmptyVideo, "a header in whose media data nothing can be decoded"),
    "jcodec/test.264": (UnreadableMedia, "libav does not find out what it is"),
    "libwebm/invalid_vp9_bitstream-bug_1417.webm": (EmptyVideo, "its packets are no VP9"),
}
DAMAGED = {"decord/corrupted.mp4": 20}
"""Frames that may refer to damage that the decoder notices: these may be CorruptMedia, all others must come."""
LONG = {"androidx-media/long_1080p_lowbitrate.mp4": 1200, "marimo/docs-sql-validate-mode.mp4": 1000}
"""Only so many first frames are ever compared: reading the first to its end takes as long as all the others."""
FIRST_PIXELS = 25_000_000 if IS_ALL else 10_000_000
"""In the short forms, the first frames of so many pixels are compared."""
WAYS = (
    (PyAVDecoder(), "path"),
    (PyAVDecoder(skip=False), "bytes"),
    (PyAVDecoder(direct=False), "file"),
    (PyAVDecoder(skip=False, direct=False), "path"),
)
STEP = 2 if IS_ALL else 4
"""In the short forms, each file is read in every second or fourth of the ways, and each way has as many files."""
BUDGET_PIXELS = either(short=2_000_000, long=20_000_000)
"""Pictures of so many pixels are decoded in each way; at least one request, at most ``MAX_REQUESTS``."""
MAX_REQUESTS = either(short=2, long=6)


def _kind(name: str) -> object:
    """By which files are sampled: who made it, and the container; what is damaged is of its own kind."""
    return name if name in BROKEN or name in DAMAGED else (name.partition("/")[0], os.path.splitext(name)[1])


@pytest.mark.parametrize("name", sampled(VIDEOS, _kind, step=2) or ["no media folder"])
def test_random_targets_of_a_real_video(name: str, media_root: Path) -> None:
    path = media_root / "video" / name
    if name in BROKEN:
        kind, reason = BROKEN[name]
        for asked in (build_index, probe):
            with pytest.raises(MediaError) as raised:
                asked(path)
            assert type(raised.value) is kind, reason
        return
    index = build_index(path)
    limit = _limit(name, index)
    reference = read_reference(path, limit=limit)
    assert not reference.breaks_off
    assert sum(frame.is_suspect for frame in reference.frames) == DAMAGED.get(name, 0)
    chance = random.Random(name)
    ways = WAYS if IS_LONG else WAYS[zlib.crc32(name.encode()) % STEP :: STEP]
    for decoder, kind in ways:
        with _opened(path, kind) as source:
            reader = Product(source, index, decoder, limit=limit)
            check_frames(reader, reference, list(_requests(index, len(reference), chance)))
    get_thread_pools().clear()


def _limit(name: str, index: FrameIndex) -> int | None:
    if IS_LONG or name in DAMAGED:
        return LONG.get(name)
    return FIRST_PIXELS // (index.stream.width * index.stream.height)


def _requests(index: FrameIndex, readable: int, chance: random.Random) -> Iterator[list[int]]:
    """Random targets: single frames, the ends, clips in any order; as many as the budget of pixels pays for."""
    left = BUDGET_PIXELS
    for _ in range(MAX_REQUESTS):
        count = chance.choice((1, 1, 2, 5, 16))
        request = [chance.randrange(readable) for _ in range(count)]
        while len(request) > 1 and _num_pixels(index, request) > BUDGET_PIXELS:
            request = request[: len(request) // 2]
        left -= _num_pixels(index, request)
        yield request
        if left < 0:
            return


def _num_pixels(index: FrameIndex, request: list[int]) -> int:
    return plan_runs(index, request).num_decoded * index.stream.width * index.stream.height


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[MediaSource]:
    if kind == "file":
        with path.open("rb") as file:
            yield MediaSource.of(file)
    else:
        yield MediaSource.of(path.read_bytes() if kind == "bytes" else path)


# --- TorchCodec's own reference frames --------------------------------------------------------------

ORACLE = ROOT / "oracle" / "torchcodec"
FRAME_NAME = re.compile(r"(?P<video>.+?\.\w{3})\.(?:(?P<how>.+)\.)?stream(?P<stream>\d)\.frame(?P<frame>\d+)\.pt")
HOW: dict[str | None, dict[str, Any]] = {None: {}, "crop_300_200_50_35_exact_1": {"crop": (35, 50, 200, 300)}}
"""What ffmpeg's filter ``crop=300:200:50:35:exact=1`` means here; its scaled frames are made by another recipe."""


def _oracle_frames() -> list[str]:
    names = sorted(path.name for path in ORACLE.glob("*.pt"))
    return [name for name in names if (match := FRAME_NAME.fullmatch(name)) and match["how"] in HOW]


def _read_pt(media_root: Path, name: str) -> np.ndarray:
    read_pt = run_path(os.fspath(media_root / "oracle" / "read_pt.py"))["read_pt"]
    tensor: np.ndarray = read_pt(media_root / "oracle" / "torchcodec" / name)
    return tensor if tensor.shape[-1] == 3 else tensor.transpose(1, 2, 0)


@pytest.mark.parametrize("name", _oracle_frames() or ["no media folder"])
def test_P03_unscaled_rgb_is_torchcodecs(name: str, media_root: Path) -> None:
    match = FRAME_NAME.fullmatch(name)
    assert match is not None
    video = media_root / "video" / "torchcodec" / match["video"]
    with VideoDecoder(video, stream_index=int(match["stream"]), dimension_order="NHWC", **HOW[match["how"]]) as decoder:
        ours = decoder[int(match["frame"])]
    theirs = _read_pt(media_root, name)
    if "hdr" in name:  # ten bits: TorchCodec's were made with another path through swscale
        assert np.abs(ours.astype(int) - theirs).mean() < 2
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seconds", ["6.000000", "6.100000", "10.000000", "12.979633"])
def test_frames_by_time_are_those_of_ffmpegs_ss_option(seconds: str, media_root: Path) -> None:
    # `ffmpeg -ss t` drops what begins before t: the pick rule "next".
    with VideoDecoder(media_root / "video/torchcodec/nasa_13013.mp4", dimension_order="NHWC") as decoder:
        ours = decoder[decoder.frame_index.index_at(float(seconds), pick="next")]
    np.testing.assert_array_equal(ours, _read_pt(media_root, f"nasa_13013.mp4.time{seconds}.pt"))


@pytest.mark.parametrize(
    ("video", "stream"), [("nasa_13013.mp4", 0), ("nasa_13013.mp4", 3), ("nasa_13013_rotated.mp4", 0)]
)
def test_times_and_durations_are_torchcodecs(video: str, stream: int, media_root: Path) -> None:
    text = (media_root / "oracle" / "torchcodec" / f"{video}.stream{stream}.all_frames_info.json").read_text()
    rows = json.loads(text)
    index = index_media(media_root / "video" / "torchcodec" / video, stream_index=stream)[1]
    assert len(index) == len(rows)
    # Written to six digits.
    np.testing.assert_allclose(index.pts_seconds, [float(row["pts_time"]) for row in rows], atol=6e-7, rtol=0)
    durations = index.to_seconds(index.duration)
    np.testing.assert_allclose(durations, [float(row["duration_time"]) for row in rows], atol=6e-7, rtol=0)
