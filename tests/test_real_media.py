"""Every real video: random targets are what reading the file in order gives, or the file's fault has a name.

One reference decode a file, thrown away with the test. The whole takes about two minutes of one core.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.backends.pyav_pools import thread_pools
from framefeed.errors import EmptyVideo, MediaError, UnreadableMedia
from framefeed.index.build import build_index
from framefeed.index.frame_index import FrameIndex
from framefeed.media.probe import probe
from framefeed.media.source import MediaSource
from framefeed.plan.runs import plan_runs
from tests.conftest import CHECKOUT
from tests.decode.law import Product, check_frames
from tests.reference import read_reference

pytestmark = pytest.mark.slow

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
LONG = {"androidx-media/long_1080p_lowbitrate.mp4": 1500}
"""Only so many first frames are compared: reading it to its end takes as long as half of all the others."""
WAYS = (
    (PyAVDecoder(), "path"),
    (PyAVDecoder(skip=False), "bytes"),
    (PyAVDecoder(direct=False), "file"),
    (PyAVDecoder(skip=False, direct=False), "path"),
)
BUDGET_PIXELS = 25_000_000
"""Pictures of so many pixels are decoded in each way; at least one request, at most ``MAX_REQUESTS``."""
MAX_REQUESTS = 6


@pytest.mark.parametrize("name", VIDEOS or ["no media folder"])
def test_random_targets_of_a_real_video(name: str, media_root: Path) -> None:
    path = media_root / "video" / name
    if name in BROKEN:
        kind, reason = BROKEN[name]
        for asked in (build_index, probe):
            with pytest.raises(MediaError) as raised:
                asked(path)
            assert type(raised.value) is kind, reason
        return
    index, reference = build_index(path), read_reference(path, limit=LONG.get(name))
    assert not reference.breaks_off
    assert sum(frame.is_suspect for frame in reference.frames) == DAMAGED.get(name, 0)
    chance = random.Random(name)
    for decoder, kind in WAYS:
        with _opened(path, kind) as source:
            reader = Product(source, index, decoder, limit=LONG.get(name))
            check_frames(reader, reference, list(_requests(index, len(reference), chance)))
    thread_pools().clear()


def _requests(index: FrameIndex, readable: int, chance: random.Random) -> Iterator[list[int]]:
    """Random targets: single frames, the ends, clips in any order; as many as the budget of pixels pays for."""
    left = BUDGET_PIXELS
    for _ in range(MAX_REQUESTS):
        count = chance.choice((1, 1, 2, 5, 16))
        request = [chance.randrange(readable) for _ in range(count)]
        left -= plan_runs(index, request).num_decoded * index.stream.width * index.stream.height
        yield request
        if left < 0:
            return


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[MediaSource]:
    if kind == "file":
        with path.open("rb") as file:
            yield MediaSource.of(file)
    else:
        yield MediaSource.of(path.read_bytes() if kind == "bytes" else path)
