"""The estimate of a cache of pictures says what the cache will do."""

from __future__ import annotations

from pathlib import Path

import framefeed as ff
from tests.media.pictures import write_folder


def test_the_codec_is_that_of_the_cache_for_whole_pictures_too(tmp_path: Path) -> None:
    write_folder(tmp_path / "pictures", 8)
    plan = ff.plan_clips(ff.scan(tmp_path / "pictures"), ff.Uniform(1), seed=0, crop=ff.RandomResizedCrop(8))
    for codec in ("auto", "zstd"):
        with ff.FrameCache(tmp_path / codec, codec=codec) as cache:
            estimate = ff.cache.estimate(plan, cache)
            ff.cache.build(plan, cache)
            assert {kind.codec for kind in cache.info().kinds} == {estimate.codec}
