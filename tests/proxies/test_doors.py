"""Every door that takes an entry of a catalog reads its proxy, with the frames and times of the original."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.testing import read_stamps
from tests.decode.test_engines import FakeEngine
from tests.proxies.originals import HARD, SIDE, TIMES, fill, make, measure_db, scan
from tests.transcode import functions

NAMES = ("plain.mp4", "turned.mp4", "variable.mp4", "no_times.h264", "still.jpg", "still.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("doors") / "in", NAMES)


@pytest.fixture(scope="module")
def originals(folder: Path) -> ff.Catalog:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scan(folder)


@pytest.fixture(scope="module")
def proxies(originals: ff.Catalog, folder: Path) -> ff.Catalog:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.proxies._estimate.LEAST_GAIN", 0.0)
        return make(originals, folder.parent / "out")


def pairs(originals: ff.Catalog, proxies: ff.Catalog) -> dict[str, tuple[ff.CatalogEntry, ff.CatalogEntry]]:
    return {Path(str(originals[row].source)).name: (originals[row], proxies[row]) for row in range(len(originals))}


def test_an_entry_says_where_its_proxy_is(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    assert set(pairs(originals, proxies)) == set(NAMES) <= set(HARD)
    for original, proxy in pairs(originals, proxies).values():
        assert Path(str(proxy.source)).parent.name == "out"
        assert repr(proxy) == repr(original)
        assert proxy.info == original.info


@pytest.mark.parametrize("name", NAMES)
def test_an_index_is_built_with_the_times_of_the_original(
    originals: ff.Catalog, proxies: ff.Catalog, name: str
) -> None:
    original, proxy = pairs(originals, proxies)[name]
    index = ff.build_index(proxy)
    assert index.identity == proxy.frame_index.identity  # type: ignore[union-attr]
    np.testing.assert_array_equal(index.pts_seconds, original.frame_index.pts_seconds)  # type: ignore[union-attr]
    assert index.stream.displayed == original.frame_index.stream.displayed  # type: ignore[union-attr]
    assert min(index.stream.upright) == SIDE


@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_reads_a_proxy(originals: ff.Catalog, proxies: ff.Catalog, name: str) -> None:
    original, proxy = pairs(originals, proxies)[name]
    options: dict[str, Any] = {"size": (72, 72), "dimension_order": "NHWC"}
    with ff.VideoDecoder(original, **options) as first, ff.VideoDecoder(proxy, **options) as second:
        assert len(first) == len(second)
        assert first.metadata.num_frames == second.metadata.num_frames
        assert first.metadata.average_fps == second.metadata.average_fps
        for number in (0, len(first) - 1):
            one, other = first.get_frame_at(number), second.get_frame_at(number)
            np.testing.assert_equal(one.pts_seconds, other.pts_seconds)
            assert measure_db(one.data, other.data) >= 26
        if name == "variable.mp4":
            for seconds in (0.0, 0.05, TIMES[7] / 1000):
                one, other = first.get_frame_played_at(seconds), second.get_frame_played_at(seconds)
                assert one.pts_seconds == other.pts_seconds
                assert read_stamps(one.data[None]) == read_stamps(other.data[None])


def test_a_decoder_of_whole_pictures_says_that_a_proxy_is_too_small(proxies: ff.Catalog, originals: ff.Catalog) -> None:
    _, proxy = pairs(originals, proxies)["plain.mp4"]
    with pytest.raises(
        ff.UsageError, match=r"becomes 240 x 320 pixels .* its proxy has only 96 x 128.*short_side=240.*originals"
    ):
        ff.VideoDecoder(proxy)
    with pytest.raises(ff.UsageError, match="its proxy has only"):
        ff.VideoDecoder(proxy, crop=(0, 0, 100, 100), size=(64, 64))
    with ff.VideoDecoder(proxy, crop=(0, 0, 200, 200), size=(64, 64)) as decoder:
        assert decoder[0].shape == (3, 64, 64)


def test_a_decoder_of_tensors_reads_a_proxy(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    entries = pairs(originals, proxies)["variable.mp4"]
    frames = [ff.torch.VideoDecoder(entry, size=(60, 80)).get_frames_at([0, 5, 23]) for entry in entries]
    np.testing.assert_array_equal(frames[0].pts_seconds.numpy(), frames[1].pts_seconds.numpy())
    assert read_stamps(frames[1].data.numpy()) == [0, 5, 23]
    with pytest.raises(ff.UsageError, match="its proxy has only 96 x 128"):
        ff.torch.VideoDecoder(entries[1])


@pytest.mark.parametrize("name", ["plain.mp4", "variable.mp4"])
def test_an_engine_that_knows_the_files_own_times_alone_refuses(
    originals: ff.Catalog, proxies: ff.Catalog, name: str
) -> None:
    original, proxy = pairs(originals, proxies)[name]
    engine = FakeEngine()
    try:
        with ff.VideoDecoder(original, size=(60, 80), backend=engine) as decoder:
            decoder[0]
        with (
            pytest.raises(ff.UnsupportedCodec, match=r"is a proxy.*Fake knows those of the file alone.*backend='pyav'"),
            ff.VideoDecoder(proxy, size=(60, 80), backend=engine) as decoder,
        ):
            decoder[0]
        plan = ff.plan_clips(proxies, ff.Uniform(2), seed=0, size=(48, 64))
        with ff.ClipLoader(plan, batch_size=1, workers=0, backend=engine) as loader, pytest.raises(ff.MediaError):
            list(loader)
    finally:
        engine.close()


def test_map_video_takes_the_original(originals: ff.Catalog, proxies: ff.Catalog, tmp_path: Path) -> None:
    with pytest.raises(
        ff.UsageError, match=r"variable\.mp4: is a proxy.*map the entry of the catalog of the originals"
    ):
        ff.map_video(pairs(originals, proxies)["variable.mp4"][1], functions.keep, tmp_path / "out.mp4", workers=0)


def test_a_clip_of_a_proxy_is_not_taken_for_one_of_its_file(proxies: ff.Catalog) -> None:
    row = next(row for row in range(len(proxies)) if "variable" in str(proxies[row].source))
    plan = ff.plan_clips(proxies[[row]], ff.Uniform(3), seed=0, size=(48, 64))
    with pytest.raises(ff.StaleSource, match=r"out/variable\.mp4"):
        ff.load_clip(plan[0])


# --- verification ---------------------------------------------------------------------------------------


def test_a_catalog_of_proxies_is_verified(proxies: ff.Catalog) -> None:
    found = proxies.verify(workers=0)
    assert found.differences == ()
    assert found.errors == ()


@pytest.mark.parametrize("how", ["other bytes", "other file", "gone"])
def test_verification_names_a_damaged_proxy(folder: Path, originals: ff.Catalog, tmp_path: Path, how: str) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.proxies._estimate.LEAST_GAIN", 0.0)
        rows = [row for row in range(len(originals)) if Path(str(originals[row].source)).name in NAMES[::2]]
        small = make(originals[rows], out)
    path = out / "plain.mp4"
    data = bytearray(path.read_bytes())
    if how == "other bytes":
        half = len(data) // 2
        data[half : half + 400] = bytes(400)
        path.write_bytes(data)
    elif how == "other file":
        shutil.copy(out / "variable.mp4", path)
    else:
        path.unlink()
    found = small.verify(workers=0)
    named = [each.source for each in found.differences] + [each.source for each in found.errors]
    assert named
    assert all("plain.mp4" in name for name in named)


def test_selections_of_a_catalog_keep_their_proxies(proxies: ff.Catalog) -> None:
    for catalog in (proxies.filter(kind="video"), proxies[1:3], proxies[[4, 0]], proxies.take([2])):
        for entry in catalog:
            assert Path(str(entry.source)).parent.name == "out"
    parts = proxies.split({"a": 0.5, "b": 0.5}, seed=0)
    assert sum(map(len, parts.values())) == len(proxies)
    assert all(Path(str(entry.source)).parent.name == "out" for part in parts.values() for entry in part)
