"""Loaders over plans of buckets: batches of one shape, on any workers and ranks, resumed, cached, with faults."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import framefeed as ff
from framefeed.errors import UsageError
from framefeed.testing import ClipSpec, write_clip
from tests.corpus import corpus_file
from tests.load.laws import check_resume, content
from tests.remote import served

pytestmark = pytest.mark.usefixtures("kept_processes")

SIZES = ((48, 80), (80, 48), (64, 64))
BUCKETS = [(length, *size) for length in (5, 9) for size in ((32, 48), (48, 32), (32, 32))]
UNEVEN = [0, 40, 80, 900, 940, 1000, 1500, 1540, 1580, 1620, 1700, 2400, 2440, 2480]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen videos of three shapes, one of variable rate, two cut by edit lists, and a text that is no video."""
    folder = tmp_path_factory.mktemp("videos")
    for number in range(13):
        height, width = SIZES[number % 3]
        spec = ClipSpec(14 + 5 * (number % 4), height=height, width=width, fps=24, gop=6, seed=number)
        write_clip(folder / f"{number:02}.mp4", spec)
    write_clip(folder / "20.mkv", ClipSpec(14, pts=UNEVEN, time_base=Fraction(1, 1000), height=48, width=80))
    (folder / "30.mp4").write_text("no video")
    return folder


@pytest.fixture(scope="module")
def catalog(videos: Path) -> ff.Catalog:
    table = ff.scan(videos, progress=False).table
    texts = [None if number == 3 else f"text of {Path(name).name}" for number, name in
             enumerate(table["source"].to_pylist())]  # fmt: skip
    return ff.scan(table.select(["source"]).append_column("text", [texts]), columns={"path": "source"}, progress=False)


def make_plan(catalog: Any, **options: Any) -> ff.EpochPlan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        given = {"fps": 12, "global_batch": 2, "seed": 1, "columns": ("text",), **options}
        return ff.plan_buckets(catalog, BUCKETS, **given)


def load(plan: ff.EpochPlan, **options: Any) -> list[ff.ClipBatch]:
    with ff.ClipLoader(plan, **{"workers": 0, **options}) as loader:
        return list(loader)


def test_a_batch_is_a_step_of_one_bucket_with_its_texts(catalog: ff.Catalog) -> None:
    plan = make_plan(catalog)
    batches = load(plan)
    with ff.ClipLoader(plan) as loader:
        assert len(loader) == len(batches) == sum(each.steps for each in plan.describe().buckets.buckets)
    texts = catalog.table["text"].to_pylist()
    for batch in batches:
        assert batch.bucket in BUCKETS
        length, height, width = batch.bucket
        assert batch.data.shape == (2, length, 3, height, width)
        assert batch.ok.all()
        assert batch.valid.all()
        assert batch["text"] == [texts[row] for row in batch.rows.tolist()]
        assert batch.draw.shape == (2,)
        for slot, position in enumerate(batch.positions.tolist()):
            assert batch.keys[slot] == plan[position].key
    draws = np.concatenate([batch.draw for batch in batches])
    assert len(set(draws.tolist())) == len(draws)
    assert 0 <= draws.min() < 0.35 < 0.65 < draws.max() < 1
    assert any(None in batch["text"] for batch in batches)
    with ff.ClipLoader(make_plan(catalog, world_size=2), workers=0) as loader:
        assert loader.batch_size == 1
    assert set(load(plan.with_epoch(1))[0].draw.tolist()).isdisjoint(draws.tolist())
    again = pickle.loads(pickle.dumps(batches[0]))
    assert content(again) == content(batches[0])
    assert again.bucket == batches[0].bucket
    with pytest.raises(UsageError, match="keys"):
        again.keys  # noqa: B018


@pytest.mark.parametrize("options", [{"global_batch": 4}, {"global_batch": None, "batch_size": 2}])
@pytest.mark.parametrize("tail", ["pad", "stream"])
def test_a_resumed_run_is_an_uninterrupted_one(catalog: ff.Catalog, options: dict[str, Any], tail: str) -> None:
    plan = make_plan(catalog, tail=tail, rank=1, world_size=2, **options)
    check_resume(lambda workers: ff.ClipLoader(plan, workers=workers))


def test_other_ranks_go_on_with_the_same_steps(catalog: ff.Catalog) -> None:
    """The clips of each step, and their draws, are those of one rank that was not interrupted."""
    options = {"global_batch": 6, "min_steps": 0, "per_video": "all"}
    whole = load(make_plan(catalog, **options))
    assert len(whole) > 5
    states = {}
    for rank in range(3):
        with ff.ClipLoader(make_plan(catalog, **options, rank=rank, world_size=3), workers=0) as loader:
            batches = iter(loader)
            next(batches), next(batches)
            states[rank] = json.loads(json.dumps(loader.state_dict()))
    rests = []
    for rank in range(2):
        with ff.ClipLoader(make_plan(catalog, **options, rank=rank, world_size=2), workers=1) as loader:
            loader.load_state_dict(states[0] if rank else list(states.values()))
            rests.append(list(loader))
    for one, first, second in zip(whole[2:], *rests, strict=True):
        assert one.bucket == first.bucket == second.bucket
        data = np.empty_like(one.data)
        data[0::2], data[1::2] = first.data, second.data
        np.testing.assert_array_equal(data, one.data)
        assert sorted([*first.draw, *second.draw]) == sorted(one.draw)


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 1, "kind": "processes"}])
def test_workers_of_any_kind_deliver_the_same(catalog: ff.Catalog, options: dict[str, Any]) -> None:
    plan = make_plan(catalog, horizontal_flip=0.5)
    given = load(plan, **options)
    assert list(map(content, given)) == list(map(content, load(plan)))
    assert [batch.keys for batch in given] == [batch.keys for batch in load(plan)]


def test_a_cache_gives_the_same_frames(catalog: ff.Catalog, tmp_path: Path) -> None:
    plan = make_plan(catalog, start=0)
    expected = list(map(content, load(plan)))
    for _ in range(2):
        with ff.ClipLoader(plan, workers=1, cache=ff.FrameCache(tmp_path)) as loader:
            assert list(map(content, loader)) == expected
            share = loader.stats().cached_share
    assert share == 1


def test_a_clip_is_that_of_a_plain_plan(catalog: ff.Catalog) -> None:
    """Also of the video of variable rate: no frame is past the end."""
    for batch in load(make_plan(catalog, start=0)):
        length, height, width = batch.bucket
        for slot, row in enumerate(batch.rows.tolist()):
            own = ff.plan_clips(
                catalog.take([row]), ff.Dense(length, fps=12, start=0), seed=0, size=ff.Cover(height, width)
            )
            (expected,) = load(own, batch_size=1)
            np.testing.assert_array_equal(batch.data[slot], expected.data[0])


def test_a_substitute_is_of_the_same_bucket(catalog: ff.Catalog, tmp_path: Path) -> None:
    plan = make_plan(catalog)
    good = load(plan)
    (victim,) = {str(good[0].sources[0])}
    held = Path(victim).read_bytes()
    Path(victim).write_bytes(held[:100])
    try:
        with ff.ClipLoader(plan, workers=0, on_error="substitute") as loader:
            batches = list(loader)
            assert len(loader.ledger)
    finally:
        Path(victim).write_bytes(held)
    for batch, own in zip(batches, good, strict=True):
        assert batch.bucket == own.bucket
        assert batch.data.shape == own.data.shape
        assert not any(source == victim for source, ok in zip(batch.sources, batch.ok, strict=True) if ok)
        assert batch.draw.tolist() == own.draw.tolist()
        for key, own_key, source in zip(batch.keys, own.keys, own.sources, strict=True):
            assert (key == own_key) == (source != victim)


def test_a_transform_and_a_dtype_get_clips_of_each_bucket(catalog: ff.Catalog) -> None:
    plan = make_plan(catalog)
    for batch, own in zip(load(plan, transform=halve), load(plan), strict=True):
        np.testing.assert_array_equal(batch.data, own.data[:, :, :, ::2])
        assert batch.bucket == own.bucket
    for batch, own in zip(load(plan, dtype="float32"), load(plan), strict=True):
        assert batch.data.shape == own.data.shape
        assert batch.data.dtype == np.float32


def test_shapes_of_batches_are_known_as_far_as_buckets_agree(catalog: ff.Catalog) -> None:
    def describe(plan: ff.EpochPlan, **options: Any) -> tuple[int | None, ...]:
        with ff.ClipLoader(plan, workers=0, **options) as loader:
            shape: tuple[int | None, ...] = loader.describe_batches().arrays["data"].shape
            return shape

    plan = make_plan(catalog)
    assert describe(plan) == (None, None, 3, None, None)
    assert describe(plan, transform=halve) == (None,) * 5
    with pytest.warns(UserWarning, match="left out"):
        one = ff.plan_buckets(catalog, [(5, 32, 48)], fps=12, global_batch=2, seed=0)
    assert describe(one) == (None, 5, 3, 32, 48)


def halve(clip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return clip[:, :, ::2]


def test_a_loader_takes_no_batch_size_for_them_and_needs_one_for_others(catalog: ff.Catalog) -> None:
    plan = make_plan(catalog)
    for options in ({"batch_size": 2}, {"drop_last": True}):
        with pytest.raises(UsageError, match="this plan has the batches"):
            ff.ClipLoader(plan, **options)
    with pytest.warns(UserWarning, match="left out"):
        plain = ff.plan_clips(catalog, ff.Uniform(2), seed=0, size=(8, 8))
    with pytest.raises(UsageError, match="batch_size: give a number"):
        ff.ClipLoader(plain)
    (batch, *_) = load(plain, batch_size=3)
    assert batch.bucket is None
    assert len(batch.draw) == 3


def test_a_data_loader_takes_the_batches_of_the_plan(catalog: ff.Catalog) -> None:
    torch = pytest.importorskip("torch")
    plan = make_plan(catalog.filter(pc.field("text").is_valid()), rank=1, world_size=2)
    loader = torch.utils.data.DataLoader(ff.torch.ClipDataset(plan), batch_sampler=plan.batches(), num_workers=0)
    for items, batch in zip(loader, load(plan), strict=True):
        np.testing.assert_array_equal(items["data"].numpy(), batch.data)
        assert items["text"] == batch["text"]
        assert items["position"].tolist() == batch.positions.tolist()


def test_keys_are_of_contents_and_forms(catalog: ff.Catalog, videos: Path, tmp_path: Path) -> None:
    plan = make_plan(catalog, start=0)
    keys = plan.keys()
    assert keys == [clip.key for clip in plan]
    assert len(set(keys)) == len({clip.row for clip in plan})
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in sorted(videos.iterdir()):
        (moved / path.name).write_bytes(path.read_bytes())
    table = ff.scan(moved, progress=False)
    with pytest.warns(UserWarning, match="left out"):
        other = ff.plan_buckets(table, BUCKETS, fps=12, global_batch=2, seed=9, start=0)
    assert set(other.keys()) == set(keys)
    flipped = make_plan(catalog, start=0, horizontal_flip=1.0).keys()
    bicubic = make_plan(catalog, start=0, filter="bicubic").keys()
    assert len({*keys, *flipped, *bicubic}) == 3 * len(set(keys))
    assert set(make_plan(catalog, start=0, rank=1, world_size=2).keys()) < set(keys)


def test_a_mixture_keeps_their_steps(catalog: ff.Catalog) -> None:
    """Each step is of one bucket of one part, and the shares are those of the weights."""
    parts = [(make_plan(catalog, global_batch=4), 3), (make_plan(catalog, seed=2, global_batch=2, max_crop=0.5), 1)]
    whole = ff.mix_plans(parts, num_clips=80, seed=5, tail="drop")
    batches = load(whole)
    for batch in batches:
        (part,) = set(batch["plan"].tolist())
        assert len(batch) == (4, 2)[part]
        assert batch.bucket == (batch.data.shape[1], *batch.data.shape[3:])
        plan = parts[part][0]
        assert batch.bucket in plan.clips.buckets
        assert batch["text"] == [catalog.table["text"][row].as_py() for row in batch.rows.tolist()]
    clips = [sum(len(batch) for batch in batches if batch["plan"][0] == part) for part in (0, 1)]
    assert 48 <= clips[0] <= 60
    assert 12 <= clips[1] <= 20
    table = whole.describe().buckets
    assert sum(each.steps for each in table.buckets) == len(batches)
    assert list(map(content, load(pickle.loads(pickle.dumps(whole))))) == list(map(content, batches))
    ranks = [load(ff.mix_plans(parts, num_clips=80, seed=5, tail="drop", rank=rank, world_size=2)) for rank in (0, 1)]
    for one, *shares in zip(batches, *ranks, strict=True):
        assert sorted(np.concatenate([share.positions for share in shares])) == sorted(one.positions)
    mixed = ff.mix_plans(parts, num_clips=14, seed=5, tail="stream", world_size=2)
    check_resume(lambda workers: ff.ClipLoader(mixed, workers=workers))


def test_a_mixture_of_other_plans_needs_lists(catalog: ff.Catalog) -> None:
    with pytest.warns(UserWarning, match="left out"):
        plain = ff.plan_clips(catalog, ff.Uniform(5), seed=0, size=(32, 48), columns=("text",))
    with pytest.raises(UsageError, match=r"parts\[1\]: one is a plan of buckets"):
        ff.mix_plans([(make_plan(catalog), 1), (plain, 1)], num_clips=12, seed=0)
    with pytest.raises(UsageError, match="plan all parts alike"):
        ff.mix_plans([(make_plan(catalog), 1), (make_plan(catalog, accumulate=2), 1)], num_clips=12, seed=0)
    mixture = ff.mix_plans([(make_plan(catalog), 1), (plain, 1)], num_clips=12, seed=0, unequal=True)
    for batch in load(mixture, batch_size=4):
        assert batch.bucket is None
        assert {(len(clip), *clip.shape[2:]) for clip in batch.data} <= set(BUCKETS)


def test_without_steps_the_clips_come_in_their_order_in_lists(catalog: ff.Catalog) -> None:
    for plan in (make_plan(catalog), ff.mix_plans([(make_plan(catalog), 1)], num_clips=12, seed=0)):
        loose = pickle.loads(pickle.dumps(plan.without_steps()))
        assert loose.fingerprint == plan.fingerprint
        clips = [clip for batch in load(plan) for clip in batch.data]
        given = [clip for batch in load(loose, batch_size=3) for clip in batch.data]
        assert len(given) == len(clips)
        assert all(map(np.array_equal, given, clips))
    plain = ff.plan_clips(catalog.without(catalog.errors), ff.Uniform(2), seed=0, size=(8, 8))
    assert plain.without_steps() is plain


def test_epochs_of_a_stream_differ_in_length(catalog: ff.Catalog, tmp_path: Path) -> None:
    """A loader knows the largest batch of any epoch, a cache is built for all, and a mixture takes no such plan."""
    plan = make_plan(
        catalog, tail="stream", start=0, min_steps=0, global_batch=lambda bucket: 1 if bucket[0] == 5 else 7
    )
    lengths = [len(plan.with_epoch(epoch)) for epoch in range(4)]
    assert len(set(lengths)) > 1
    with ff.ClipLoader(plan, workers=0) as loader:
        assert loader.batch_size == 7
        found = [batch.data.nbytes for _ in range(4) for batch in loader]
    assert len(found) == sum(len(plan.with_epoch(epoch).order.step_buckets) for epoch in range(4))
    report = ff.cache.build(plan, ff.FrameCache(tmp_path), epochs=4)
    assert report.clips == sum(lengths)
    with ff.ClipLoader(plan.with_epoch(3), workers=0, cache=ff.FrameCache(tmp_path)) as loader:
        list(loader)
        assert loader.stats().cached_share == 1
    with pytest.raises(UsageError, match="tail='stream'"):
        ff.mix_plans([(plan, 1)], num_clips=12, seed=0, unequal=True)


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from PIL import Image

    folder = tmp_path_factory.mktemp("stills")
    for number, size in enumerate([(96, 64), (64, 96), (96, 64)]):
        Image.effect_noise(size, 40).convert("RGB").save(folder / f"{number}.jpg")
    write_clip(folder / "9.mp4", ClipSpec(30, height=64, width=96, fps=24))
    write_clip(folder / "8.mp4", ClipSpec(1, height=64, width=96, fps=24))
    return folder


def test_stills_are_of_one_frame_and_videos_never(stills: Path) -> None:
    catalog = ff.scan(stills, progress=False)
    with pytest.warns(UserWarning, match="1: shorter than 5 frames"):
        plan = ff.plan_buckets(catalog, [(1, 32, 48), (1, 48, 32), (5, 32, 48)], fps=12, global_batch=1, seed=0)
    found = {Path(str(batch.sources[0])).name: batch.bucket for batch in load(plan)}
    assert found == {"0.jpg": (1, 32, 48), "2.jpg": (1, 32, 48), "1.jpg": (1, 48, 32), "9.mp4": (5, 32, 48)}
    with pytest.warns(UserWarning, match="3: a still picture, and no bucket has T = 1"):
        plan = ff.plan_buckets(catalog, [(5, 32, 48)], fps=12, global_batch=1, seed=0)
    assert {Path(str(batch.sources[0])).name for batch in load(plan)} == {"9.mp4"}


UNUSUAL = (
    "vfr.mp4", "vfr.mkv", "edit_list.mp4", "edit_list_twice.mp4", "header_count.avi", "start_8s.mp4",
    "negative_pts.mkv", "fields.mp4", "ntsc.mp4", "shuffled_pts.mkv", "late_key.mp4", "wrap.ts",
    "hidden_vp8.webm", "rotated_90.mp4",
)  # fmt: skip
"""Of variable rate, cut by edit lists, begun late, with wrong counts in headers, with frames that never come."""


def test_clips_of_unusual_files_are_on_the_screen_at_their_times(tmp_path: Path) -> None:
    folder = tmp_path / "unusual"
    folder.mkdir()
    for name in UNUSUAL:
        (folder / name).symlink_to(corpus_file(name))
    catalog = ff.scan(folder, progress=False)
    assert not len(catalog.errors)
    buckets = [(length, *size) for length in range(5, 64, 4) for size in ((32, 48), (48, 32))]
    plan = ff.plan_buckets(catalog, buckets, fps=10, batch_size=1, seed=0, start=0, max_crop=0.5)
    assert len(plan) == len(UNUSUAL)
    for batch in load(plan):
        entry = catalog[int(batch.rows[0])]
        index, (length, height, width) = entry.frame_index, batch.bucket
        assert (height < width) == (Path(str(entry.source)).name != "rotated_90.mp4")
        wanted = index.pts_seconds[0] + np.arange(length) / 10
        ends = float(index.end_pts * index.time_base)
        assert wanted[-1] < ends <= wanted[-1] + 0.4 + 1e-9 or length == 61
        numbers = index.index_at(wanted)
        with ff.VideoDecoder(entry, size=ff.Cover(height, width)) as decoder:
            np.testing.assert_array_equal(batch.data[0], decoder.get_frames_at(numbers).data)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_clips_of_urls_are_those_of_the_files(catalog: ff.Catalog, videos: Path, kind: Any) -> None:
    pytest.importorskip("urllib3", reason="objects are read by ranges with it")
    paths = sorted(videos.glob("*.m*"))
    with served({f"/{path.name}": path.read_bytes() for path in paths}) as server:
        table = ff.scan([f"{server}/{path.name}" for path in paths], progress=False)
        given = load(make_plan(table, columns=()), workers=1, kind=kind)
    own = load(make_plan(catalog, columns=()))
    for one, other in zip(given, own, strict=True):
        assert one.bucket == other.bucket
        assert one.positions.tolist() == other.positions.tolist()
        np.testing.assert_array_equal(one.data, other.data)
        assert [Path(str(name)).name for name in one.sources] == [Path(str(name)).name for name in other.sources]
