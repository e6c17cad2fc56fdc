"""What codec="auto" means for a cache that was begun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import framefeed.cache._choosing
from framefeed.cache._choosing import choose_exact_codec, find_stored_codec
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._estimate import estimate
from framefeed.cache.store._format import Kind
from framefeed.decode import PlaneLayout
from tests.cache.builders import built
from tests.load.media import plan_of

LAYOUT = PlaneLayout("yuv420p", 64, 48)


def kind(codec: str, layout: PlaneLayout = LAYOUT) -> Kind:
    return Kind(codec, layout.text)


def test_a_cache_keeps_its_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framefeed.cache._choosing, "choose_auto_codec", None)  # Nothing is measured.
    samples = [np.zeros(LAYOUT.nbytes, np.uint8)]
    for label in ("raw", "lz4hc", "zstd:3"):
        kinds = {kind(label): (3, 100), kind("jpeg:90"): (9, 100), kind("lz5"): (9, 9), kind("zstd:2"): (1, 10**6)}
        assert choose_exact_codec(LAYOUT, samples, None, None, kinds).label == label


def test_frames_of_other_layouts_do_not_decide() -> None:
    other = PlaneLayout("yuv420p", 64, 50)
    for kinds in (
        {},
        {kind("raw", other): (5, 100)},
        {kind("raw"): (0, 0)},
        {kind("jpeg:90"): (3, 5)},
        {kind("?"): (1, 1)},
    ):
        assert find_stored_codec(LAYOUT, kinds) is None
    deep = PlaneLayout("yuv420p10le", 64, 48)
    assert find_stored_codec(deep, {kind("magicyuv", deep): (3, 5)}) is None, "it does not take them"


def test_build_and_estimate_choose_for_all_frames_of_the_plan(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "b") as cache:
        estimate(plan, cache, clips=2, epochs=3)
        assert cache.state.planned is not None
        size = cache.state.planned.estimate_size()
        assert size.clips == 3 * len(plan)
        assert size.raw_bytes == size.frames * 3 * 24 * 32
        built(plan, cache, epochs=3)
        assert cache.state.planned is None
        assert size.frames == pytest.approx(cache.info().num_frames, rel=0.1)  # other draws of the same rule


@pytest.mark.parametrize("codec", ["lz4hc", "raw"])
def test_an_estimate_keeps_the_codec_of_stored_frames(codec: str, tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c", codec=codec) as cache:
        built(plan, cache)
    with FrameCache(tmp_path / "c") as cache:
        said = estimate(plan, cache, clips=2)
        assert (said.codec, len(said.codecs)) == (codec, 1)
        assert said.reason == f"{codec}: the cache already has such frames with this codec"
        assert len(estimate(plan_of(size=(32, 32)), cache, clips=2).codecs) > 1
