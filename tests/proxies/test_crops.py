"""Crops are of the original's pixels: they are moved to those of the proxy, or refused where they would enlarge."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.proxies._making import scale_size
from framefeed.request import PictureRule, as_crop
from framefeed.testing import write_clip
from tests.proxies.originals import PLAIN, SIDE, fill, make, measure_db, scan

SHOWN = (240, 320)
STORED = (96, 128)


FITS: list[tuple[Any, Any, bool]] = [
    (None, None, False),
    (96, None, True),
    (96, (0, 0, 240, 320), True),
    (104, None, False),
    ((96, 96), None, True),
    ((48, 48), (0, 0, 120, 120), True),
    ((60, 60), (0, 0, 120, 120), False),
    (None, (0, 0, 120, 120), False),
    ((64, 64), ff.CenterCrop(160, 160), True),
    ((80, 80), ff.CenterCrop(160, 160), False),
    ((64, 64), ff.RandomCrop(160, 160), True),
    ((90, 90), ff.RandomCrop(160, 160), False),
    (None, ff.RandomResizedCrop(48, scale=(0.25, 1.0)), True),
    (None, ff.RandomResizedCrop(64, scale=(0.08, 1.0)), False),
    (ff.Letterbox(96, 128), None, True),
    (ff.Cover(96, 128), None, True),
    (ff.Cover(128, 128), None, False),
    (ff.LongSide(128), None, True),
    (ff.LongSide(160), None, False),
    ((2, 2), (0, 0, 2, 2), False),
    # The original itself would be enlarged too.
    ((200, 200), (0, 0, 120, 120), False),
]


@pytest.mark.parametrize(("size", "crop", "fits"), FITS)
def test_a_crop_that_would_enlarge_a_proxy_is_found(size: Any, crop: Any, fits: bool) -> None:
    rule = PictureRule(size, None if crop is None else as_crop(crop))
    found = rule.find_enlarging(SHOWN, STORED)
    assert (found is None) == fits


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> tuple[ff.Catalog, ff.Catalog]:
    folder = fill(tmp_path_factory.mktemp("crops") / "in", ["plain.mp4", "variable.mp4"])
    catalog = scan(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.proxies._estimate.LEAST_GAIN", 0.0)
        return catalog, make(catalog, folder.parent / "out")


@pytest.mark.parametrize(("size", "crop", "fits"), FITS)
def test_a_plan_refuses_or_warns_where_a_proxy_would_be_enlarged(
    catalogs: tuple[ff.Catalog, ff.Catalog], size: Any, crop: Any, fits: bool
) -> None:
    remarks = []
    for catalog in catalogs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                ff.plan_clips(catalog, ff.Uniform(2), seed=0, size=size, crop=crop)
            except ff.UsageError as error:
                assert not isinstance(crop, ff.RandomResizedCrop)
                remarks.append([str(error)])
            else:
                remarks.append([str(each.message) for each in caught])
    if fits:
        assert remarks[0] == remarks[1]
    else:
        new = [each for each in remarks[1] if each not in remarks[0]]
        assert len(new) == 1
        assert "its proxy has only" in new[0]
        assert "make proxies with short_side=" in new[0]


def test_the_advised_short_side_is_enough(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_clip(tmp_path / "in" / "large.mp4", replace(PLAIN, num_frames=8, height=400, width=600))
    catalog = scan(tmp_path / "in")
    small = make(catalog, tmp_path / "out", short_side=64)
    for crop, size in (((0, 0, 300, 300), (120, 120)), (None, (100, 150)), (ff.CenterCrop(256, 256), (90, 90))):
        with pytest.raises(ff.UsageError) as caught:
            ff.plan_clips(small, ff.Uniform(2), seed=0, crop=crop, size=size)
        advised = int(str(caught.value).split("short_side=")[1].split(" ")[0])
        rule = PictureRule(size, None if crop is None else as_crop(crop))
        assert rule.find_enlarging((400, 600), scale_size((400, 600), advised)) is None
        assert advised < 400


@pytest.mark.parametrize("crop", [(0, 0, 120, 160), (120, 160, 120, 160), (0, 0, 240, 160), (50, 70, 130, 170)])
def test_a_box_shows_the_part_of_the_original(catalogs: tuple[ff.Catalog, ff.Catalog], crop: Any) -> None:
    size = crop[2] * SIDE // 240, crop[3] * SIDE // 240
    pictures = []
    for catalog in catalogs:
        with ff.VideoDecoder(catalog[0], crop=crop, size=size, dimension_order="NHWC") as decoder:
            pictures.append(decoder[:])
    assert pictures[0].shape == pictures[1].shape
    shifted = measure_db(pictures[0], np.roll(pictures[1], 3, axis=2))
    assert measure_db(*pictures) >= max(20, shifted + 3)
