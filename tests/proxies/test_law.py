"""The law: both catalogs plan the same numbers and times, in any way of asking, and pixels are near the original's."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed as ff
from framefeed.testing import find_stamp, read_stamps, write_clip
from tests.proxies.originals import (
    FRAMES,
    HARD,
    LEAST_DB,
    PLAIN,
    SIDE,
    fill,
    make,
    measure_db,
    rows_of,
    scan,
    stamps_of,
    still_bytes,
)

SEEDS = 3
RULES: dict[str, Any] = {
    "uniform": ff.Uniform(5),
    "dense by frames": ff.Dense(6, stride=3),
    "dense by time": ff.Dense(6, fps=20),
    "rates": ff.Rates([(2.0, 3), (10.0, 4)]),
    "random segments": ff.RandomSegments(4),
    "at seconds": ff.AtSeconds([0.3, Fraction(1, 7), 1.1], pick="nearest"),
    "at indices": ff.AtIndices([0, 11, 3, -1]),
    "every frame": ff.EveryFrame(),
    "whole video": ff.WholeVideo(5),
}
FORMS: dict[str, dict[str, Any]] = {
    "as it is": {"unequal": True},
    "short side": {"size": 80, "unequal": True},
    "size": {"size": (64, 72)},
    "long side": {"size": ff.LongSide(100), "unequal": True},
    "resize and crop": {"size": ff.ResizeCrop(72, 64)},
    "letterbox": {"size": ff.Letterbox(90, 90)},
    "cover": {"size": ff.Cover(64, 64)},
    "box": {"crop": (11, 17, 199, 201), "size": (50, 60)},
    "box as it is": {"crop": (11, 17, 199, 201)},
    "centre": {"crop": ff.CenterCrop(201, 200), "size": (64, 64)},
    "random box": {"crop": ff.RandomCrop(160, 180), "size": (48, 48)},
    "random area": {"crop": ff.RandomResizedCrop(40, scale=(0.3, 1.0))},
}
TOO_LARGE = {"as it is", "box as it is"}
"""Forms for which proxies are too small."""
OPTIONS: list[dict[str, Any]] = [{}, {"clips_per_video": 3, "shuffle": "videos", "horizontal_flip": 0.5}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("law") / "in", HARD)


@pytest.fixture(scope="module")
def originals(folder: Path) -> ff.Catalog:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of frames without times
        return scan(folder, label_from="parent")


@pytest.fixture(scope="module")
def out(originals: ff.Catalog, folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.proxies._estimate.LEAST_GAIN", 0.0)
        make(originals, folder.parent / "out")
    return folder.parent / "out"


@pytest.fixture(scope="module")
def proxies(originals: ff.Catalog, out: Path) -> ff.Catalog:
    return originals.with_proxies(out)


def name_of(catalog: ff.Catalog, row: int) -> str:
    return Path(str(catalog[row].source)).name


def plan_both(originals: ff.Catalog, proxies: ff.Catalog, *words: Any, **options: Any) -> tuple[Any, Any]:
    """Plan over both catalogs, which give the same warnings but for that of small proxies."""
    plans, remarks = [], []
    for catalog in (originals, proxies):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plans.append(ff.plan_clips(catalog, *words, **{"seed": 5, **options}))
        said = [re.sub(r"/\S+", "", str(each.message)) for each in caught]  # without names of files
        remarks.append([each for each in said if "its proxy has only" not in each])
    assert remarks[0] == remarks[1]
    return plans[0], plans[1]


def assert_same_or_none(one: Any, other: Any) -> None:
    assert (one is None) == (other is None)
    if one is not None:
        np.testing.assert_array_equal(one, other, strict=True)


def assert_same_clips(one: ff.EpochPlan, other: ff.EpochPlan, *, of_files: bool = False) -> None:
    """All that two plans say of their clips is the same, but for the files."""
    assert of_files or one.fingerprint == other.fingerprint
    assert of_files or one.state_dict() == other.state_dict()
    assert [each.error for each in one.excluded] == [each.error for each in other.excluded]
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert (first.position, first.row, first.line) == (second.position, second.row, second.line)
        for left, right in zip(first.takes, second.takes, strict=True):
            for name in ("indices", "pts_seconds", "pick_error_seconds", "valid", "segment", "seconds", "damaged"):
                assert_same_or_none(getattr(left, name), getattr(right, name))
            for name in ("output", "on_damaged", "flipped", "placement", "displayed", "picture_shape"):
                assert getattr(left, name) == getattr(right, name)
            np.testing.assert_equal(left.end_seconds, right.end_seconds)
            assert_same_or_none(left.facts.pts, right.facts.pts)
            assert left.facts.time_base == right.facts.time_base


def test_all_hard_originals_have_proxies(originals: ff.Catalog, out: Path) -> None:
    rows = rows_of(out)
    assert set(rows) == set(HARD) == {name_of(originals, row) for row in range(len(originals))}
    assert {name: row["reason"] for name, row in rows.items() if row["reason"]} == {}
    for row in rows.values():
        assert row["psnr"] >= 38
        assert row["ssim"] >= 0.97
        assert row["psnr_worst"] <= row["psnr"]
        assert 0 < row["proxy_bytes"] == (out / row["proxy"]).stat().st_size <= row["bytes"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_both_catalogs_plan_the_same_clips(originals: ff.Catalog, proxies: ff.Catalog, rule: str, form: str) -> None:
    options = dict(FORMS[form])
    if rule == "whole video":
        options["unequal"] = True
    if form in TOO_LARGE:
        with pytest.raises(ff.UsageError, match=r"its proxy has only .*make proxies with short_side="):
            plan_both(originals, proxies, RULES[rule], **options)
        return
    for more in OPTIONS[: 1 if rule == "every frame" else None]:
        assert_same_clips(*plan_both(originals, proxies, RULES[rule], **options, **more))


@given(
    rule=st.sampled_from(sorted(RULES)),
    form=st.sampled_from(sorted(set(FORMS) - TOO_LARGE)),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 3),
    ranks=st.integers(1, 4),
    rows=st.lists(st.integers(0, len(HARD) - 1), min_size=1, max_size=8),
)
def test_any_plan_of_any_rows_is_the_same(
    originals: ff.Catalog,
    proxies: ff.Catalog,
    rule: str,
    form: str,
    seed: int,
    epoch: int,
    ranks: int,
    rows: list[int],
) -> None:
    options = {**FORMS[form], "unequal": True, "seed": seed, "epoch": epoch, "world_size": ranks, "rank": ranks - 1}
    expected, error = refuse_or_plan(originals[rows], RULES[rule], options)
    planned, own_error = refuse_or_plan(proxies[rows], RULES[rule], options)
    assert error == own_error
    if expected is not None:
        assert planned is not None
        assert_same_clips(expected, planned)


def refuse_or_plan(catalog: ff.Catalog, rule: Any, options: dict[str, Any]) -> tuple[ff.EpochPlan | None, str]:
    """Plan, or give the error without names of files."""
    try:
        return plan_both(catalog, catalog, rule, **options)[0], ""
    except ff.UsageError as error:
        return None, re.sub(r"/\S+", "", str(error))


def test_rows_and_columns_are_those_of_the_originals(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    assert proxies.table.drop_columns(["framefeed_proxy"]).equals(originals.table)
    assert proxies.classes == originals.classes
    assert proxies.fingerprint == originals.fingerprint
    for name in ("heights", "widths", "num_frames", "changes_size", "lacks_times", "usable_rows"):
        assert_same_or_none(getattr(originals, name), getattr(proxies, name))
    for row in range(len(originals)):
        index, own = originals[row].frame_index, proxies[row].frame_index
        assert proxies[row].info == originals[row].info
        assert proxies[row].columns == originals[row].columns
        assert index is not None
        assert own is not None
        assert (own.stream.displayed, own.time_base, own.times_from) == (
            index.stream.displayed,
            index.time_base,
            index.times_from,
        )
        for name in ("pts", "duration", "pts_seconds"):
            assert_same_or_none(getattr(index, name), getattr(own, name))


def test_clips_are_dealt_to_ranks_by_the_cost_of_the_originals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.proxies._estimate.LEAST_GAIN", 0.0)
    folder = fill(tmp_path / "in", ["plain.mp4", "still.jpg", "still.png"])
    for number, codec in enumerate(("mpeg2video", "mpeg4", "libx265", "ffv1")):
        spec = replace(PLAIN, codec=codec, codec_options={"b": "4M"} if codec.startswith("mpeg") else {}, seed=number)
        write_clip(folder / f"{codec}.mkv", replace(spec, gop=None if codec == "ffv1" else 12))
    (folder / "several").mkdir()
    for number in range(FRAMES):
        (folder / "several" / f"{number:02}.jpg").write_bytes(still_bytes("JPEG", number=number, quality=99))
    originals = scan(
        [*sorted(path for path in folder.iterdir() if path.is_file()), folder / "several"],
        image_folders="video",
        fps=25,
    )
    proxies = make(originals, tmp_path / "out")
    rule = ff.Uniform(3)
    assert sum(str(entry.source).startswith(str(tmp_path / "out")) for entry in proxies) >= 6
    for rank in range(2):
        options = {"balance": "cost", "world_size": 2, "rank": rank, "clips_per_video": 3, "size": (48, 64)}
        assert_same_clips(*plan_both(originals, proxies, rule, **options))


# --- pixels -------------------------------------------------------------------------------------------


def row_of(originals: ff.Catalog, name: str) -> int:
    return next(row for row in range(len(originals)) if name_of(originals, row) == name)


def read_numbers(pictures: Any, name: str) -> list[int]:
    return [find_stamp(pictures[0]).number] if name == "turned.jpg" else read_stamps(pictures)


@pytest.mark.parametrize("name", HARD)
def test_each_frame_of_a_proxy_is_that_of_its_original(originals: ff.Catalog, proxies: ff.Catalog, name: str) -> None:
    row = row_of(originals, name)
    index = proxies[row].frame_index
    assert index is not None
    height, width = index.stream.upright
    assert min(height, width) == SIDE
    assert (height % 2, width % 2) == (0, 0)
    forms: dict[str, Any] = {"size": (height, width), "dimension_order": "NHWC"}
    with ff.VideoDecoder(originals[row], **forms) as first, ff.VideoDecoder(proxies[row], **forms) as second:
        right, own = first.get_all_frames(), second.get_all_frames()
        assert (first.metadata.height, first.metadata.width) == (second.metadata.height, second.metadata.width)
        assert_same_or_none(right.pts_seconds, own.pts_seconds)
        assert_same_or_none(right.duration_seconds, own.duration_seconds)
    assert read_numbers(own.data, name) == ([7] if len(own.data) == 1 else stamps_of(name))
    assert min(measure_db(*pair) for pair in zip(right.data, own.data, strict=True)) >= LEAST_DB


@pytest.mark.parametrize("form", sorted(set(FORMS) - TOO_LARGE))
def test_a_clip_shows_the_same_part_of_the_same_frames(originals: ff.Catalog, proxies: ff.Catalog, form: str) -> None:
    options = {**FORMS[form], "unequal": True, "horizontal_flip": 0.5}
    for first, second in zip(
        *(batches_of(plan) for plan in plan_both(originals, proxies, ff.Uniform(3), **options)), strict=True
    ):
        assert first.ok.all()
        assert second.ok.all()
        for name in ("pts_seconds", "seconds", "end_seconds", "valid", "positions", "rows", "boxes", "flipped", "draw"):
            np.testing.assert_equal(getattr(first, name), getattr(second, name))
        for right, own in zip(first.data, second.data, strict=True):
            # Edges of crops are moved to whole pixels of the proxy, up to half of one: that is 25 dB at hard edges.
            assert measure_db(right, own) >= (17 if "crop" in options else 24)


def batches_of(plan: ff.EpochPlan, **options: Any) -> Iterator[ff.ClipBatch]:
    with ff.ClipLoader(plan, **{"batch_size": 4, "workers": 0, **options}) as loader:
        yield from loader


# --- ways of asking -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan(proxies: ff.Catalog) -> ff.EpochPlan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ff.plan_clips(
            proxies, ff.Dense(4, stride=2), seed=SEEDS, size=(48, 64), columns=["label"], clips_per_video=2
        )


@pytest.fixture(scope="module")
def fresh(plan: ff.EpochPlan) -> list[ff.ClipBatch]:
    return list(batches_of(plan))


def assert_same_batches(one: Sequence[ff.ClipBatch], other: Sequence[ff.ClipBatch]) -> None:
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert first.errors == second.errors == [None] * len(first.ok)
        for name in ("data", "pts_seconds", "valid", "positions", "rows", "seconds", "end_seconds"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name), strict=True)
        np.testing.assert_array_equal(first["label"], second["label"])


def test_threads_give_what_one_gives(plan: ff.EpochPlan, fresh: list[ff.ClipBatch]) -> None:
    assert_same_batches(list(batches_of(plan, workers=3)), fresh)


@pytest.mark.slow
def test_processes_give_what_one_gives(plan: ff.EpochPlan, fresh: list[ff.ClipBatch]) -> None:
    assert_same_batches(list(batches_of(plan, workers=2, kind="processes")), fresh)


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_a_cache_gives_what_it_was_given(proxies: ff.Catalog, tmp_path: Path, codec: str, form: Any) -> None:
    plan = plan_both(proxies, proxies, ff.Uniform(4), size=(48, 64), columns=["label"])[0]
    fresh = list(batches_of(plan))
    with ff.FrameCache(tmp_path / "cache", codec=codec, form=form) as cache:
        for _ in range(2):
            assert_same_batches(list(batches_of(plan, cache=cache)), fresh)
    with ff.FrameCache(tmp_path / "cache", codec=codec, form=form) as cache:
        assert_same_batches(list(batches_of(plan, cache=cache)), fresh)


def test_a_cache_never_gives_the_originals_pictures_for_those_of_proxies(
    originals: ff.Catalog, proxies: ff.Catalog, tmp_path: Path
) -> None:
    plans = plan_both(originals, proxies, ff.Uniform(3), size=(48, 64))
    fresh = [list(batches_of(plan)) for plan in plans]
    with ff.FrameCache(tmp_path / "cache", form="planes") as cache:
        for plan, expected in zip([*plans, *plans], [*fresh, *fresh], strict=True):
            for one, other in zip(batches_of(plan, cache=cache), expected, strict=True):
                np.testing.assert_array_equal(one.data, other.data)


def test_a_saved_catalog_is_the_same(plan: ff.EpochPlan, proxies: ff.Catalog, fresh: Any, tmp_path: Path) -> None:
    proxies.to_parquet(tmp_path / "small.parquet")
    for again in (ff.Catalog.open(tmp_path / "small.parquet"), pickle.loads(pickle.dumps(proxies))):
        assert again.table.equals(proxies.table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = ff.plan_clips(
                again, ff.Dense(4, stride=2), seed=SEEDS, size=(48, 64), columns=["label"], clips_per_video=2
            )
        assert other.fingerprint == plan.fingerprint
        assert_same_batches(list(batches_of(other)), fresh)
    assert_same_batches(list(batches_of(pickle.loads(pickle.dumps(plan)))), fresh)


def test_a_saved_catalog_of_originals_takes_proxies(
    originals: ff.Catalog, out: Path, fresh: Any, tmp_path: Path
) -> None:
    originals.to_parquet(tmp_path / "cat.parquet")
    small = ff.Catalog.open(tmp_path / "cat.parquet").with_proxies(str(out))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = ff.plan_clips(
            small, ff.Dense(4, stride=2), seed=SEEDS, size=(48, 64), columns=["label"], clips_per_video=2
        )
    assert_same_batches(list(batches_of(plan)), fresh)


def test_a_selection_takes_proxies_as_the_whole_does(originals: ff.Catalog, proxies: ff.Catalog, out: Path) -> None:
    rows = [7, 2, 2, 11, 0]
    one, other = proxies[rows], originals[rows].with_proxies(out)
    assert [entry.source for entry in one] == [entry.source for entry in other]
    assert one.fingerprint == other.fingerprint
    assert_same_clips(*plan_both(one, other, ff.Uniform(3), size=(48, 64)))
    for first, second in zip(
        *(batches_of(ff.plan_clips(each, ff.Uniform(3), seed=0, size=(48, 64))) for each in (one, other)), strict=True
    ):
        np.testing.assert_array_equal(first.data, second.data)


def test_a_data_set_of_torch_gives_the_same_clips(plan: ff.EpochPlan, fresh: list[ff.ClipBatch]) -> None:
    data = ff.torch.ClipDataset(plan)
    clips = np.concatenate([batch.data for batch in fresh])
    for number in range(0, len(plan), 5):
        np.testing.assert_array_equal(np.asarray(data[number]["data"]), clips[number])


def test_a_checkpoint_of_originals_goes_on_with_proxies(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    one, other = plan_both(originals, proxies, ff.Dense(3, stride=2), size=(48, 64), epoch=1)
    with ff.ClipLoader(one, batch_size=4, workers=0) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ff.ClipLoader(other.with_epoch(0), batch_size=4, workers=0) as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    expected = [batch.positions.tolist() for batch in batches_of(other)][1:]
    assert [batch.positions.tolist() for batch in rest] == expected


# --- mixtures, buckets, requests ----------------------------------------------------------------------


def test_mixtures_are_the_same(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    mixed = []
    for catalog in (originals, proxies):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = [
                (ff.plan_clips(catalog, ff.Dense(4, stride=2), seed=1, size=(48, 64)), 2.0),
                (ff.plan_clips(originals, ff.Uniform(4), seed=2, size=(48, 64)), 1.0),
            ]
        mixed.append(ff.mix_plans(parts, num_clips=20, seed=3))
    assert_same_clips(*mixed)
    for first, second in zip(*map(batches_of, mixed), strict=True):
        assert second.ok.all()
        np.testing.assert_array_equal(first.pts_seconds, second.pts_seconds)


def test_buckets_are_the_same(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    rows = [row for row in range(len(originals)) if "no_times" not in name_of(originals, row)]
    plans = [
        ff.plan_buckets(
            catalog[rows], [(1, 64, 80), (9, 64, 80), (17, 80, 64)], fps=20, batch_size=1, seed=0, max_crop=0.5
        )
        for catalog in (originals, proxies)
    ]
    assert_same_clips(*plans)
    for plan in plans:
        with ff.ClipLoader(plan, workers=0) as loader:
            assert all(batch.ok.all() for batch in loader)


def test_requests_by_entry_are_the_same(originals: ff.Catalog, proxies: ff.Catalog) -> None:
    plans = []
    for catalog in (originals, proxies):
        requests: list[Any] = []
        for row in range(len(catalog)):
            if len(stamps_of(name_of(originals, row))) == FRAMES and catalog[row].frame_index.times_from == "pts":  # type: ignore[union-attr]
                requests.append(ff.DecodeRequest(catalog[row], [3, 0, -1] if ".mp4" in str(row) else [0, 0]))
                requests.append(ff.DecodeRequest(catalog[row], seconds=[0.0, 0.21]))
        plans.append(ff.plan_requests(requests, size=(48, 64)))
    # Their fingerprints are those of the files that are read.
    assert_same_clips(*plans, of_files=True)
    for first, second in zip(*map(batches_of, plans), strict=True):
        np.testing.assert_array_equal(first.pts_seconds, second.pts_seconds)
        assert second.ok.all()
        assert min(measure_db(*pair) for pair in zip(first.data, second.data, strict=True)) >= 24


def test_streams_are_the_same(originals: ff.Catalog, proxies: ff.Catalog, folder: Path) -> None:
    videos = [row for row in range(len(originals)) if name_of(originals, row) in ("plain.mp4", "variable.mp4")]
    given = {"rule": ff.Dense(3, stride=2), "seed": 0, "size": (48, 64), "on": "label"}
    one = originals[videos[:1]], originals[videos[1:]]
    two = proxies[videos[:1]], proxies[videos[1:]]
    first, second = (ff.plan_clips(streams={"a": a, "b": b}, **given) for a, b in (one, two))  # type: ignore[arg-type]
    assert first.fingerprint == second.fingerprint
    for left, right in zip(batches_of(first), batches_of(second), strict=True):
        for name in ("a", "b"):
            np.testing.assert_array_equal(left.pts_seconds[name], right.pts_seconds[name])
            assert measure_db(left.data[name], right.data[name]) >= 24
