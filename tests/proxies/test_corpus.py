"""Every hard file that can be generated gets a proxy with the same frames and times, or stays itself."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from framefeed.decode import ClipSlot, find_decoder
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.proxies._making import ProxySettings, StaysItself, make_proxy
from framefeed.request import OutputSpec
from tests.media.files import READABLE, readable_path
from tests.proxies.originals import measure_db

SETTINGS = ProxySettings(short_side=64)
STAY: dict[str, str] = {
    "flipped_bytes.mp4": "not all of its frames can be decoded",
    "truncated.avi": "not all of its frames can be decoded",
    "size_change.ts": "its pictures change their size",
    "size_change.h264": "its pictures change their size",
}
"""Of files that stay themselves, why."""


def decode(source: MediaSource, index: FrameIndex, size: tuple[int, int]) -> np.ndarray:
    output = OutputSpec(size, dimension_order="NHWC", still_quality="scaled")
    slot = ClipSlot(np.arange(len(index)), output, np.empty((len(index), *size, 3), np.uint8))
    find_decoder().decode(source, index, [slot]).raise_first()
    return slot.out


@pytest.mark.parametrize("name", READABLE)
def test_a_hard_file_has_the_same_frames_and_times_or_stays_itself(name: str, tmp_path: Path) -> None:
    path = readable_path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = build_index(path)
    source = MediaSource.of(path)
    out = tmp_path / "proxy.mp4"
    if min(index.stream.displayed) <= SETTINGS.short_side or not len(index):
        return  # `list_originals` leaves these out
    if name in STAY:
        with pytest.raises(StaysItself, match=STAY[name]):
            make_proxy(source, index, str(out), SETTINGS, "0" * 32)
        assert list(tmp_path.iterdir()) == []
        return
    made = make_proxy(source, index, str(out), SETTINGS, "0" * 32)
    assert made.quality.is_enough
    own = made.index
    for attribute in ("pts", "duration", "pts_seconds"):
        np.testing.assert_array_equal(getattr(index, attribute), getattr(own, attribute))
    assert (own.time_base, own.times_from, own.stream.displayed) == (
        index.time_base,
        index.times_from,
        index.stream.displayed,
    )
    size = own.stream.upright
    right, seen = decode(source, index, size), decode(MediaSource.of(out), own, size)
    scores = [measure_db(*pair) for pair in zip(right, seen, strict=True)]
    others = [measure_db(*pair) for pair in zip(right[1:], seen, strict=False)]
    assert min(scores) >= 24
    # The frame before is another one, unless it shows the same.
    for number, other in enumerate(others):
        assert scores[number] > other or (right[number + 1] == right[number]).mean() > 0.9
