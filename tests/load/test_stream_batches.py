"""Batches of several streams that differ in size, length and fate: each slot is that of its own clip and stream."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from shutil import copyfile
from typing import Any

import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.errors import CorruptMedia, LoadError, UnreadableMedia, UsageError
from framefeed.index import FrameIndex
from framefeed.load import ClipBatch, ClipLoader
from framefeed.plan import (
    AtIndices,
    AtSeconds,
    EpochPlan,
    Uniform,
    mean_clip_bytes,
    mix_plans,
    plan_clips,
    plan_requests,
)
from framefeed.request import DecodeRequest, Letterbox
from framefeed.scanning import scan
from tests.damaged import damaged_clip
from tests.fakes import DamagedSources, FakeCatalog, SlopedDecoder, steady_index
from tests.load.stream_media import fast, plan_both, slow

pytestmark = pytest.mark.usefixtures("kept_processes")

SIZES = {"low": [(8, 10), (6, 12), (10, 6), (7, 7)], "high": [(18, 12), (11, 15), (12, 12), (20, 9)]}
WORKERS = [{"workers": 0}, {"workers": 2}, {"workers": 1, "kind": "processes"}]


class StreamCatalog(FakeCatalog):
    """Videos "NAME/video0.mp4" and so on; no two of a stream have one size."""

    _rows = None
    name = ""

    @classmethod
    def of(cls, name: str) -> Any:
        """Make the catalog of a stream."""
        catalog = cls([steady_index(9)] * 4, sizes=SIZES[name])
        catalog.name = name
        return catalog

    def source(self, row: int) -> str:
        return f"{self.name}/video{row}.mp4"

    def shown_name(self, row: int) -> str:
        return self.source(row)


def unequal_plan(**options: Any) -> EpochPlan:
    streams = {name: StreamCatalog.of(name) for name in SIZES}
    return plan_clips(None, AtIndices([0, 3]), streams=streams, on="stem", seed=2, unequal=True, **options)


def load_one(plan: EpochPlan, *spoiled: str, **options: Any) -> ClipBatch:
    decoder = SlopedDecoder(DamagedSources(*spoiled))
    given = {"batch_size": len(plan), "workers": 0, "backend": decoder, **options}
    with ClipLoader(plan, **given) as loader:
        (batch,) = list(loader)
    return batch


def find_video(batch: ClipBatch, name: str, slot: int) -> int:
    """Number of the video in a slot of a stream, by its name."""
    folder, video = PurePosixPath(batch.sources[name][slot]).parts
    assert folder == name
    return int(video.removeprefix("video").removesuffix(".mp4"))


def assert_unequal(batch: ClipBatch) -> None:
    """Each slot has the pixels of its source, in the size of its stream."""
    for name, sizes in SIZES.items():
        for slot, clip in enumerate(batch.data[name]):
            assert find_video(batch, name, slot) == batch.rows[slot]
            assert clip.shape == (2, 3, *sizes[batch.rows[slot]])
            drawn = [SlopedDecoder().draw(ordinal, clip.shape[1:]) for ordinal in (0, 3)]
            assert np.array_equal(clip, drawn if batch.ok[slot] else np.zeros_like(clip))


@pytest.mark.parametrize("options", WORKERS[:2], ids=str)
def test_clips_of_any_size_have_that_of_their_stream(options: dict[str, Any]) -> None:
    assert_unequal(load_one(unequal_plan(), **options))


@pytest.mark.parametrize("options", WORKERS, ids=str)
def test_D04_a_substitute_of_another_size_replaces_all_streams(options: dict[str, Any]) -> None:
    for spoiled in ("low/video1.mp4", "high/video2.mp4"):
        batch = load_one(unequal_plan(), spoiled, on_error="substitute", **options)
        assert batch.ok.all()
        assert sorted(batch.positions.tolist()) == [0, 1, 2, 3]
        assert len(set(batch.rows.tolist())) == 3
        assert_unequal(batch)


def test_D04_a_clip_without_a_substitute_is_its_own_again() -> None:
    everything = [f"high/video{row}.mp4" for row in range(4)]
    plan = unequal_plan()
    batch = load_one(plan, *everything, on_error="substitute", max_failed=None)
    assert not batch.ok.any()
    assert_unequal(batch)
    assert [plan[position].row for position in batch.positions.tolist()] == batch.rows.tolist()
    for slot, error in enumerate(batch.errors):
        assert error is not None
        assert error.position == batch.positions[slot]
        assert f"high/video{batch.rows[slot]}.mp4: frame 2 did not come (stream 'high')" in str(error)


def test_D04_a_substitute_has_the_lengths_of_the_batch() -> None:
    """Only one clip of the epoch has as many frames in each stream as that which fails."""
    source = {name: [catalog.source(row) for row in range(4)] for name, catalog in (("a", slow()), ("b", fast()))}
    lengths = [(1, 2), (1, 1), (2, 2), (1, 2)]
    requests = [
        {"a": DecodeRequest(source["a"][n], [n] * one), "b": DecodeRequest(source["b"][n], [n] * other)}
        for n, (one, other) in enumerate(lengths)
    ]
    for seed in range(4):
        plan = plan_requests(requests, size=(24, 32), seed=seed)
        decoder = SlopedDecoder(before=DamagedSources(source["b"][0]))
        with ClipLoader(plan, batch_size=1, workers=0, on_error="substitute", backend=decoder) as loader:
            batch = next(iter(loader))
            (entry,) = loader.ledger
        assert entry.source == source["b"][0]
        assert batch.ok.all()
        assert batch.rows.tolist() == [3]
        assert [batch.data[name].shape[1] for name in "ab"] == [1, 2]
        assert batch.sources["a"] == [source["a"][3]]


# --- transforms -------------------------------------------------------------------------------------


def reverse_names(clips: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return dict(reversed(clips.items()))


@pytest.mark.parametrize("options", WORKERS[:2], ids=str)
def test_a_transform_may_return_the_streams_in_any_order(options: dict[str, Any]) -> None:
    plan = plan_both()
    plain = load_one(plan, workers=0, backend="auto")
    batch = load_one(plan, backend="auto", transform=reverse_names, **options)
    for name in plain.data:
        assert np.array_equal(batch.data[name], plain.data[name])


def test_a_transform_that_returns_more_streams_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"a dict of the streams \['slow', 'fast'\], got \['slow', 'fast', 'more'\]"):
        load_one(plan_both(), backend="auto", transform=lambda clips, rng: {**clips, "more": clips["slow"]})


def test_clips_that_share_a_source_are_decoded_together_for_a_transform() -> None:
    sources = [str(slow().source(row)) for row in range(4)]
    pairs = [(0, 1), (2, 3), (1, 2), (3, 3)]
    requests = [
        {name: DecodeRequest(sources[row], [row]) for name, row in zip("ab", pair, strict=True)} for pair in pairs
    ]
    decoder = SlopedDecoder()
    batch = load_one(plan_requests(requests), backend=decoder, transform=lambda clips, rng: clips)
    assert sorted(decoder.calls) == sorted((source, [*sum(pairs, ())].count(n)) for n, source in enumerate(sources))
    assert batch.sources["b"] == [sources[row] for _, row in pairs]


def test_a_result_that_does_not_fit_is_the_error_of_its_clip_and_stream() -> None:
    plan = plan_both(Uniform(2), shuffle=False)

    def cut(clips: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        drawn = rng.random()
        (position,) = [
            number
            for number in range(len(plan))
            if plan.order.generator_at(plan.global_position(number)).random() == drawn
        ]
        short = {3: "slow", 5: "fast"}.get(position)
        return {name: clip[:1] if name == short else clip for name, clip in clips.items()}

    batch = load_one(plan, backend="auto", transform=cut, on_error="skip")
    assert np.flatnonzero(~batch.ok).tolist() == [3, 5]
    for slot, name in ((3, "slow"), (5, "fast")):
        assert f"for the stream {name!r} as for the first clip" in str(batch.errors[slot])
        assert not any(each[slot].any() for each in batch.data.values())
        assert not any(each[slot].any() for each in batch.valid.values())


def test_where_all_clips_fail_zeros_have_the_form_of_each_streams_result() -> None:
    def grow(clips: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"slow": clips["slow"].astype(np.float32), "fast": clips["fast"][:1, :1].astype(np.int16)}

    plan = plan_both(Uniform(2))
    sources = [fast().source(row) for row in range(4)]
    batch = load_one(plan, *map(str, sources), transform=grow, on_error="skip")
    assert all(isinstance(error, CorruptMedia) for error in batch.errors), "no transform is called without a stream"
    assert (batch.data["slow"].shape, batch.data["slow"].dtype) == ((8, 2, 3, 48, 64), np.float32)
    assert (batch.data["fast"].shape, batch.data["fast"].dtype) == ((8, 1, 1, 72, 96), np.int16)


def test_an_error_of_a_transform_is_of_no_stream() -> None:
    def fail(clips: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        raise ValueError("mine")

    batch = load_one(plan_both(Uniform(2)), transform=fail, on_error="skip")
    for error in batch.errors:
        assert isinstance(error, LoadError)
        assert "(stream" not in str(error)


@pytest.mark.filterwarnings("ignore:on_damaged:UserWarning")
def test_damaged_frames_of_each_stream_are_skipped_from_a_cache_too(tmp_path: Path) -> None:
    damaged = damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))
    catalogs = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        copyfile(damaged, tmp_path / name / "scene.mp4")
        catalogs[name] = scan(tmp_path / name, verify="full", workers=0)
    numbers = np.flatnonzero(catalogs["one"].frame_index(0).is_damaged(np.arange(40)))
    rule = AtIndices([0, int(numbers[0]), 1])
    plan = plan_clips(None, rule, streams=catalogs, on="stem", seed=0, size=(24, 32), on_damaged="skip")
    expected = load_one(plan, backend="auto")
    with FrameCache(tmp_path / "cache", codec="raw", form="output") as cache:
        for _ in range(2):
            batch = load_one(plan, backend="auto", cache=cache, transform=lambda clips, rng: clips)
            cache.flush()
            for name in catalogs:
                assert batch.valid[name].tolist() == [[True, False, True]]
                assert batch.data[name][0, [0, 2]].any()
                assert np.array_equal(batch.data[name], expected.data[name])


# --- what is said before ----------------------------------------------------------------------------


def test_batches_are_described_as_they_are() -> None:
    sources = [str(catalog.source(0)) for catalog in (slow(), fast())]
    requests = [{"a": DecodeRequest(sources[0], [n]), "b": DecodeRequest(sources[1], [n, n, n])} for n in range(4)]
    plan = plan_requests(requests, size={"a": (24, 32), "b": Letterbox(40, 20)}, horizontal_flip=0.5)
    batch = load_one(plan, backend="auto", dtype="float32")
    with ClipLoader(plan, batch_size=4, workers=0, dtype="float32", drop_last=True) as loader:
        arrays = loader.describe_batches().arrays
    for name, spec in arrays.items():
        value = getattr(batch, name)
        if isinstance(value, dict):
            assert {key: (each.shape, each.dtype) for key, each in spec.items()} == {
                key: (each.shape, each.dtype) for key, each in value.items()
            }
        else:
            assert (spec.shape, spec.dtype) == (value.shape, value.dtype)
    assert 4 * mean_clip_bytes(plan) == sum(each.nbytes // 4 for each in batch.data.values()), "one byte, not float32"
    assert plan.frames_per_clip is None
    assert list(batch.boxes) == ["b"]
    assert batch.boxes["b"].tolist() == [[12, 0, 15, 20]] * 4


def test_rows_of_a_mixture_are_those_of_its_parts() -> None:
    parts = []
    for seed, name in enumerate(("day", "night")):
        catalogs = {stream: StreamCatalog.of(stream) for stream in SIZES}
        for stream, catalog in catalogs.items():
            catalog.name = f"{name}_{stream}"
        parts.append(plan_clips(None, AtIndices([0]), streams=catalogs, on="stem", seed=seed, size=(6, 6)))
    plan = mix_plans([(part, 1) for part in parts], num_clips=8, seed=0)
    found = plan.clips_at(np.arange(len(plan)))
    for position, clip in enumerate(plan):
        sources = [plan.clips.sources.source(rows[position]) for rows in found.rows]
        assert sources == [clip[name].source for name in clip]
    batch = load_one(plan)
    assert sorted(batch["plan"].tolist()) == [0] * 4 + [1] * 4
    for slot, (part, row) in enumerate(zip(batch["plan"], batch.rows, strict=True)):
        for stream in SIZES:
            assert batch.sources[stream][slot] == f"{('day', 'night')[part]}_{stream}/video{row}.mp4"


class DamagedCatalog(StreamCatalog):
    """Its file of frame tables is damaged in row 2."""

    def frame_index(self, row: int) -> FrameIndex:
        if row == 2:
            raise UnreadableMedia("catalog.frames: damaged frame table, row 2", source="catalog.frames", stage="index")
        return super().frame_index(row)


@pytest.mark.parametrize("options", WORKERS[:2], ids=str)
def test_the_error_of_a_clip_that_cannot_be_planned_names_its_stream(options: dict[str, Any]) -> None:
    streams = {"low": StreamCatalog.of("low"), "high": DamagedCatalog.of("high")}
    plan = plan_clips(None, AtIndices([0]), streams=streams, on="stem", seed=2, shuffle=False, unequal=True)
    batch = load_one(plan, on_error="skip", **options)
    assert batch.ok.tolist() == [True, True, False, True]
    assert str(batch.errors[2]).startswith("catalog.frames: damaged frame table, row 2 (stream 'high')")
    short = StreamCatalog.of("high")
    short.indexes = [steady_index(2), *[steady_index(9)] * 3]
    rule = AtSeconds([0.2], policy="error")
    plan = plan_clips(None, rule, streams={**streams, "high": short}, on="stem", seed=2, unequal=True)
    batch = load_one(plan, on_error="skip", **options)
    (error,) = [error for error in batch.errors if error is not None]
    assert error.source == "high/video0.mp4"
    assert str(error).startswith("high/video0.mp4 (stream 'high'): the wanted time 0.200000 s")
