"""Several streams in a clip: each is what a plan of it alone would give, at the times of the first."""

from __future__ import annotations

import pickle
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framefeed.cache import FrameCache, build
from framefeed.catalog import Catalog
from framefeed.decode import BaseDecoder, find_decoder
from framefeed.errors import FrameNotFound, LoadError, TimeUnavailable, UsageError
from framefeed.load import ClipBatch, ClipLoader
from framefeed.plan import Dense, EpochPlan, EveryFrame, RandomSegments, Uniform, mix_plans, plan_clips, plan_requests
from framefeed.request import CenterCrop, DecodeRequest, Letterbox, RandomCrop, RandomResizedCrop
from framefeed.scanning import scan
from framefeed.testing import read_stamps
from tests.corpus import corpus_file
from tests.damaged import damaged_clip
from tests.load.stream_media import FAST_SIZE, fast, folder, plan_both, slow

pytestmark = pytest.mark.usefixtures("kept_processes")


def load_all(plan: EpochPlan, **options: Any) -> list[ClipBatch]:
    with ClipLoader(plan, **{"batch_size": 3, "workers": 2, **options}) as loader:
        return list(loader)


def assert_same(ours: list[ClipBatch], expected: list[ClipBatch]) -> None:
    for batch, other in zip(ours, expected, strict=True):
        for name in ("positions", "rows", "ok"):
            assert np.array_equal(getattr(batch, name), getattr(other, name))
        for name in other.columns:
            assert np.array_equal(batch.columns[name], other.columns[name])
        for name in other.data:
            assert np.array_equal(batch.data[name], other.data[name])
            assert np.array_equal(batch.valid[name], other.valid[name])
            assert np.array_equal(batch.pts_seconds[name], other.pts_seconds[name], equal_nan=True)
            assert batch.sources[name] == other.sources[name]


def test_the_first_stream_is_that_of_its_plan_alone_and_the_other_follows_by_time() -> None:
    alone = plan_clips(slow(), RandomSegments(4), seed=7, clips_per_video=2, columns=["label"])
    for epoch in (0, 1):
        plan = plan_both().with_epoch(epoch)
        for batch, single in zip(load_all(plan), load_all(alone.with_epoch(epoch)), strict=True):
            assert np.array_equal(batch.data["slow"], single.data)
            assert np.array_equal(batch.pts_seconds["slow"], single.pts_seconds)
            assert batch.sources["slow"] == single.sources
            assert np.array_equal(batch.rows, single.rows)
            assert np.array_equal(batch["label"], single["label"])
            assert batch.data["fast"].shape[1:] == (4, 3, *FAST_SIZE)
            for slot, position in enumerate(batch.positions.tolist()):
                request: Any = plan[position]
                stamps = read_stamps(batch.data["slow"][slot])
                assert read_stamps(batch.data["fast"][slot]) == [100 + 2 * stamp for stamp in stamps]
                assert request["slow"].indices.tolist() == stamps
                names = {Path(batch.sources[name][slot]).stem for name in batch.sources}
                assert len(names) == 1


@pytest.mark.parametrize(
    "options",
    [{"workers": 0}, {"workers": 1}, {"batch_size": 8}, {"kind": "processes"}],
    ids=["none", "one", "whole", "processes"],
)
def test_batches_do_not_depend_on_workers(options: dict[str, Any]) -> None:
    plan = plan_both()
    size = options.get("batch_size", 3)
    assert_same(load_all(plan, **options), load_all(plan, workers=2, batch_size=size))


def flip_all(clips: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    sign = int(rng.integers(2)) * 2 - 1
    return {name: np.ascontiguousarray(clip[:, :, :, ::sign]).astype(np.float32) for name, clip in clips.items()}


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_transform_gets_all_streams_with_one_generator(kind: str) -> None:
    plan = plan_both()
    plain = load_all(plan)
    expected = [
        flip_all(
            {name: clip[slot] for name, clip in batch.data.items()},
            plan.order.generator_at(plan.global_position(position)),
        )
        for batch in plain
        for slot, position in enumerate(batch.positions.tolist())
    ]
    batches = load_all(plan, transform=flip_all, kind=kind)
    clips = [{name: each[slot] for name, each in batch.data.items()} for batch in batches for slot in range(len(batch))]
    for ours, other in zip(clips, expected, strict=True):
        assert all(np.array_equal(ours[name], other[name]) for name in other)


def test_a_transform_that_returns_no_dict_of_the_streams_is_an_error() -> None:
    with pytest.raises(
        UsageError, match=r"expected it to return a dict of the streams \['slow', 'fast'\], got \['slow'\]"
    ):
        load_all(plan_both(), transform=lambda clips, rng: {"slow": clips["slow"]})
    with pytest.raises(UsageError, match="expected it to return a dict") as raised:
        load_all(plan_both(), transform=lambda clips, rng: clips["slow"])
    assert "(stream" not in str(raised.value)
    with pytest.raises(LoadError, match="the transform received a dict by stream of NumPy arrays"):
        load_all(plan_both(), transform=lambda clips, rng: clips.astype("float32"))


def test_wrong_guesses_at_batches_and_calls_are_answered() -> None:
    batch = load_all(plan_both())[0]
    with pytest.raises(UsageError, match=r"fast is not a column of the plan, but a stream: write batch.data\['fast'\]"):
        batch["fast"]
    with pytest.raises(UsageError, match=r"got a dict of .*: give it as streams=, with on="):
        plan_clips({"slow": slow(), "fast": fast()}, Uniform(2), seed=0, on="stem")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="requests: expected a list, got one dict"):
        plan_requests({"slow": DecodeRequest(source="a.mp4", indices=[0])})  # type: ignore[arg-type]


def test_pixels_are_normalised_in_each_stream() -> None:
    for batch, plain in zip(load_all(plan_both(), dtype="float32"), load_all(plan_both()), strict=True):
        for name in plain.data:
            assert np.allclose(batch.data[name], plain.data[name] / np.float32(255))


def test_resumed_is_uninterrupted() -> None:
    plan = plan_both()
    expected = load_all(plan)
    for count in range(len(expected)):
        with ClipLoader(plan, batch_size=3, workers=1) as loader:
            batches = iter(loader)
            for _ in range(count):
                next(batches)
            state = loader.state_dict()
        with ClipLoader(pickle.loads(pickle.dumps(plan)), batch_size=3, workers=1) as loader:
            loader.load_state_dict(state)
            assert_same(list(loader), expected[count:])


def test_a_plan_is_pickled_with_its_join() -> None:
    plan = plan_both(size={"slow": (24, 32), "fast": 36}, crop={"slow": None, "fast": CenterCrop(72)}, shuffle="videos")
    again = pickle.loads(pickle.dumps(plan.with_epoch(2)))
    assert again.fingerprint == plan.fingerprint
    assert again.epoch == 2
    assert_same(load_all(again), load_all(plan.with_epoch(2)))
    other = plan_both(size={"slow": (24, 32), "fast": 36})
    assert other.fingerprint != plan.fingerprint


@pytest.mark.filterwarnings("ignore:2 of 8 rows")
def test_other_partners_are_another_plan() -> None:
    def join(slow_values: str, fast_values: str) -> EpochPlan:
        streams = {}
        for name, catalog, values in (("slow", slow(), slow_values), ("fast", fast(), fast_values)):
            files = [catalog.source(row) for row in range(len(catalog))]
            streams[name] = scan(pa.table({"path": files, "take": list(values)}), workers=0)
        return plan_clips(None, Uniform(2), streams=streams, on="take", seed=0)

    plan = join("abcd", "abcd")
    assert join("wxyz", "wxyz").fingerprint == plan.fingerprint, "names of takes choose nothing else"
    others = [join("abcd", "bacd"), join("abcd", "abc-"), join("abcd", "-bcd")]
    for plans in ([plan, *others], [each.streams["fast"] for each in (plan, *others)]):
        assert len({each.fingerprint for each in plans}) == 4
    for other in others:
        with pytest.raises(UsageError, match=r"another plan: these differ: .*catalog \(other rows"):
            plan.with_state(other.state_dict())


def test_sizes_differ_by_stream() -> None:
    batch = load_all(plan_both(size={"slow": (24, 32), "fast": 36}))[0]
    assert batch.data["slow"].shape == (3, 4, 3, 24, 32)
    assert batch.data["fast"].shape == (3, 4, 3, 36, 48)
    boxed = load_all(plan_both(size={"slow": Letterbox(40, 40), "fast": (36, 48)}))[0]
    assert boxed.boxes["slow"].tolist() == [[5, 0, 30, 40]] * 3
    assert list(boxed.boxes) == ["slow"]


@pytest.mark.parametrize("crop", [RandomResizedCrop(scale=(0.3, 0.8)), RandomCrop(24, 32)], ids=["resized", "fixed"])
def test_one_draw_takes_the_same_part_of_each_picture(crop: Any) -> None:
    plan = plan_both(crop=crop, size=(24, 32))
    boxes = set()
    for request in plan:
        first, other = (request[name].output.crop for name in ("slow", "fast"))  # type: ignore[index]
        ratio = FAST_SIZE[0] / 48
        assert np.allclose(np.array(other), np.array(first) * ratio, atol=1)
        boxes.add(first)
    assert len(boxes) > 1
    # The first stream has the crop of its plan alone.
    alone = plan_clips(slow(), RandomSegments(4), seed=7, clips_per_video=2, crop=crop, size=(24, 32))
    assert [request["slow"].output for request in plan] == [request.output for request in alone]  # type: ignore[index]


def test_crops_by_stream_draw_the_same_numbers() -> None:
    plan = plan_both(crop={"slow": RandomCrop(24, 32), "fast": RandomCrop(36, 48)})
    for request in plan:
        first, other = (np.array(request[name].output.crop) for name in ("slow", "fast"))  # type: ignore[index]
        assert np.allclose(other[:2], first[:2] * 1.5, atol=1.5)


def test_a_flip_flips_all_streams() -> None:
    batch = load_all(plan_both(horizontal_flip=0.5), batch_size=8)[0]
    assert batch.flipped is not None
    assert 0 < batch.flipped.sum() < 8
    plain = load_all(plan_both(), batch_size=8)[0]
    for name, clips in batch.data.items():
        for clip, other, is_flipped in zip(clips, plain.data[name], batch.flipped, strict=True):
            assert np.array_equal(clip, other[..., ::-1] if is_flipped else other)


def test_every_frame_has_its_partner() -> None:
    batches = load_all(plan_both(EveryFrame(), clips_per_video=1), batch_size=40)
    pairs = [
        (read_stamps(first)[0], read_stamps(other)[0])
        for batch in batches
        for first, other in zip(batch.data["slow"], batch.data["fast"], strict=True)
    ]
    assert sorted(pairs) == sorted((k, 100 + 2 * k) for k in range(30) for _ in range(4))


def test_frames_past_the_end_are_not_valid_in_any_stream() -> None:
    plan = plan_both(Dense(4, fps=1, start=0.0), clips_per_video=1)
    for request in plan:
        assert request["slow"].valid.tolist() == [True, True, False, False]  # type: ignore[index]
        assert request["fast"].valid.tolist() == [True, True, False, False]  # type: ignore[index]
        assert request["fast"].indices.tolist() == [0, 30, 30, 30]  # type: ignore[index]


def test_the_tolerance_names_the_stream() -> None:
    # Frames of the fast stream lead: every second one lies half a frame beside one of the slow stream.
    plan = plan_clips(
        None, EveryFrame(), streams={"fast": fast(), "slow": slow()}, on="stem", seed=0, shuffle=False,
        tolerance_seconds=0.01,
    )  # fmt: skip
    assert plan[0]["slow"].indices.tolist() == [0]  # type: ignore[index]
    with pytest.raises(FrameNotFound, match=r"scene_\d.mp4 \(stream 'slow'\): .*tolerance_seconds=0.01") as raised:
        plan[1]
    assert raised.value.position == 1


def test_a_cache_serves_all_streams(tmp_path: Path) -> None:
    plan = plan_both(Uniform(4), size=(24, 32))
    cache = FrameCache(tmp_path / "cache")
    expected = load_all(plan)
    assert_same(load_all(plan, cache=cache), expected)
    cache.flush()
    before = cache.stats().frames_hit
    assert_same(load_all(plan, cache=cache), expected)
    assert cache.stats().frames_hit - before == 8 * 4 * 2
    cache.close()


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, Catalog]:
    """Catalogs of copies; the fast file of scene 1 is gone after the scan."""
    copytree(folder(), tmp_path / "media")
    catalogs = {name: scan(tmp_path / "media" / name, workers=0) for name in ("slow", "fast")}
    (tmp_path / "media" / "fast" / "scene_1.mp4").unlink()
    return catalogs


@pytest.mark.parametrize("rule", [Uniform(4), RandomSegments(4)], ids=["fixed", "random"])
def test_a_cache_is_built_ahead(rule: Any, tmp_path: Path) -> None:
    plan = plan_both(rule, size=(24, 32))
    with FrameCache(tmp_path / "cache") as cache:
        some = build(plan, cache, workers=1, clips=4)
        assert (some.clips, some.rest_clips) == (4, 4)
        assert some.frames_stored > 0
        report = build(plan, cache, workers=1)
        assert report.is_complete
        assert report.clips == 8
        assert_same(load_all(plan, cache=cache), load_all(plan))
        assert cache.stats().frames_missed == 0


def test_a_sample_fails_as_a_whole_and_the_ledger_names_the_stream(broken: dict[str, Catalog]) -> None:
    plan = plan_clips(None, Uniform(4), streams=broken, on="stem", seed=0, shuffle=False)
    for kind in ("threads", "processes"):
        with ClipLoader(plan, batch_size=4, workers=1, kind=kind, on_error="skip") as loader:
            (batch,) = list(loader)
            assert batch.ok.tolist() == [True, False, True, True]
            for name in ("slow", "fast"):
                assert not batch.data[name][1].any()
                assert np.isnan(batch.pts_seconds[name][1]).all()
                assert not batch.valid[name][1].any()
                assert batch.data[name][2].any()
            assert "(stream 'fast')" in str(batch.errors[1])
            (entry,) = loader.ledger
            assert entry.source.endswith("fast/scene_1.mp4")
            assert "(stream 'fast')" in entry.reason
            assert "fast/scene_1.mp4: 1 clip skipped: MissingMedia: no such file (stream 'fast')" in str(loader.ledger)


def test_a_substitute_replaces_all_streams(broken: dict[str, Catalog]) -> None:
    plan = plan_clips(None, Uniform(4), streams=broken, on="stem", seed=0, shuffle=False)
    with ClipLoader(plan, batch_size=4, workers=1, on_error="substitute") as loader:
        (batch,) = list(loader)
        (entry,) = loader.ledger
    assert batch.ok.all()
    assert entry.substitute is not None
    assert entry.substitute != 1
    for name in ("slow", "fast"):
        assert np.array_equal(batch.data[name][1], batch.data[name][entry.substitute])
        assert batch.sources[name][1] == batch.sources[name][entry.substitute]
    assert batch.rows[1] == batch.rows[entry.substitute]


def test_an_error_is_raised_with_its_position(broken: dict[str, Catalog]) -> None:
    plan = plan_clips(None, Uniform(4), streams=broken, on="stem", seed=0, shuffle=False)
    with ClipLoader(plan, batch_size=4, workers=1) as loader, pytest.raises(FileNotFoundError, match="stream 'fast'"):
        next(iter(loader))


def test_requests_name_the_streams_one_by_one() -> None:
    sources = {"slow": [slow().source(row) for row in range(3)], "fast": [fast().source(row) for row in range(3)]}
    requests = [
        {
            "slow": DecodeRequest(source=sources["slow"][n], indices=[n, n + 1]),
            "fast": DecodeRequest(source=sources["fast"][n], seconds=[0.5]),
        }
        for n in range(3)
    ]
    plan = plan_requests(requests, columns={"weight": [0.5, 1.5, 2.5]}, shuffle=True, seed=3, size=(24, 32))
    batches = load_all(pickle.loads(pickle.dumps(plan)))
    assert [batch["weight"].tolist() for batch in batches] == [[[0.5, 1.5, 2.5][row] for row in batches[0].rows]]
    for slot, row in enumerate(batches[0].rows.tolist()):
        assert batches[0].data["slow"].shape == (3, 2, 3, 24, 32)
        assert batches[0].data["fast"].shape == (3, 1, 3, 24, 32)
        assert batches[0].sources["fast"][slot] == sources["fast"][row]
        assert batches[0].pts_seconds["fast"][slot].tolist() == [0.5]
    for wrong in ([{"slow": requests[0]["slow"]}, requests[1]], [requests[0], requests[0]["slow"]]):
        with pytest.raises(UsageError, match=r"requests\[1\]: expected one of dicts with the same streams"):
            plan_requests(wrong)  # type: ignore[arg-type]


def test_streams_of_one_file_are_decoded_once() -> None:
    source = slow().source(0)
    one = DecodeRequest(source=source, indices=[3, 4])
    plan = plan_requests([{"a": one, "b": one, "c": DecodeRequest(source=source, indices=[5])}])
    decoder = CountingDecoder()
    for transform in (None, lambda clips, rng: clips):
        decoder.calls.clear()
        (batch,) = load_all(plan, batch_size=1, workers=0, backend=decoder, transform=transform)
        assert decoder.calls == [[[3, 4], [3, 4], [5]]], "one call, so that a GOP is decoded once"
        assert np.array_equal(batch.data["a"], batch.data["b"])
        assert read_stamps(batch.data["c"][0]) == [5]


class CountingDecoder(BaseDecoder):
    """Decodes as the usual decoder does, and notes the frames of each call."""

    name = "counting"

    def __init__(self) -> None:
        self.calls: list[list[list[int]]] = []
        self._inner = find_decoder("pyav")

    def decode(self, source: Any, index: Any, slots: Any) -> Any:
        self.calls.append([slot.indices.tolist() for slot in slots])
        return self._inner.decode(source, index, slots)


def test_mixtures_of_streams() -> None:
    first, other = (
        plan_both(Uniform(2), size=(24, 32)),
        plan_both(Uniform(2), size=(24, 32), seed=8, columns=["label"]),
    )
    mix = mix_plans([(first, 0.5), (other, 0.5)], num_clips=12, seed=0)
    seen = 0
    for batch in load_all(pickle.loads(pickle.dumps(mix)), batch_size=4):
        for slot in range(4):
            names = {Path(batch.sources[name][slot]).stem for name in batch.sources}
            assert names == {Path(slow().source(int(batch.rows[slot]))).stem}
            stamps = read_stamps(batch.data["slow"][slot]), read_stamps(batch.data["fast"][slot])
            assert stamps[1] == [100 + 2 * stamp for stamp in stamps[0]]
            seen += 1
    assert seen == 12
    assert mix.describe().sampled_frames == 12 * 2 * 2
    for name in ("picture_shape", "clip_shape"):
        with pytest.raises(UsageError, match=rf"take plan.streams\['slow'\].{name}|picture_shape"):
            getattr(mix, name)
    with pytest.raises(UsageError, match=r"the streams of parts\[0\] and parts\[1\] differ"):
        mix_plans([(first, 1), (plan_clips(slow(), Uniform(2), seed=0, size=(24, 32)), 1)], num_clips=4, seed=0)
    with pytest.raises(UsageError, match=r"the pictures of stream 'fast' of parts\[0\] and parts\[1\] differ"):
        mix_plans(
            [(first, 1), (plan_both(Uniform(2), size={"slow": (24, 32), "fast": (24, 24)}), 1)], num_clips=4, seed=0
        )


def test_a_description_counts_all_streams() -> None:
    alone = plan_clips(slow(), Uniform(4), seed=7)
    described, single = plan_both(Uniform(4), clips_per_video=1).describe(), alone.describe()
    assert described.clips == single.clips
    assert described.sampled_frames == 2 * single.sampled_frames
    assert described.predicted_cpu_seconds > single.predicted_cpu_seconds
    with pytest.raises(UsageError, match=r"take plan.streams\['slow'\].picture_shape"):
        plan_both().picture_shape  # noqa: B018
    assert plan_both().streams["fast"].picture_shape == (3, *FAST_SIZE)
    requests = [{name: DecodeRequest(source=slow().source(0), indices=[0] * n) for n, name in enumerate("ab", 1)}]
    assert plan_requests(requests).frames_per_clip is None
    assert "on average" in str(plan_requests(requests).describe())


def test_wrong_joins_are_errors(tmp_path: Path) -> None:
    both = {"slow": slow(), "fast": fast()}
    for options, match in [
        ({"on": None}, "on: expected the name of the column that joins the catalogs"),
        ({"streams": {}}, "streams: expected a dict of catalogs by name"),
        ({"streams": {"slow": slow(), "fast": 3}}, r"streams\['fast'\]: expected a Catalog"),
        ({"streams": {"slow": slow().take([0]), "fast": fast().take([0])}}, "no value is in all catalogs: 'slow' has"),
        ({"size": {"slow": (24, 32)}}, r"size: expected a value for each stream, \['slow', 'fast'\], got them for"),
    ]:
        with pytest.raises(UsageError, match=match):
            plan_clips(None, Uniform(2), **{"streams": both, "on": "stem", "seed": 0, **options})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected a catalog, or streams= with several catalogs, got both"):
        plan_clips(slow(), Uniform(2), streams=both, on="stem", seed=0)
    with pytest.raises(UsageError, match="got neither"):
        plan_clips(None, Uniform(2), seed=0)
    with pytest.raises(UsageError, match="on, pick and tolerance_seconds are for streams="):
        plan_clips(slow(), Uniform(2), on="stem", seed=0)


def test_a_stream_without_times_cannot_follow_or_lead(tmp_path: Path) -> None:
    copyfile(corpus_file("raw.h264"), tmp_path / "scene_0.h264")
    untimed = scan(tmp_path, workers=0)
    timed = slow().take([[Path(str(slow().source(row))).stem for row in range(len(slow()))].index("scene_0")])
    for streams in ({"untimed": untimed, "timed": timed}, {"timed": timed, "untimed": untimed}):
        with pytest.warns(UserWarning, match=r"2 of 2 rows .* \(stream 'untimed'\): .* assume_fps="):
            plan = plan_clips(None, Uniform(2), streams=streams, on="stem", seed=0, size=(24, 32))
        assert len(plan) == 0
        assert {source for source, _ in plan.excluded} == {untimed[0].source, timed[0].source}
    requests = [{name: DecodeRequest(each[0], [0]) for name, each in streams.items()}]
    assert len(plan_requests(requests, size=(24, 32))[0]) == 2
    requests = [{name: DecodeRequest(each[0], seconds=[0]) for name, each in streams.items()}]
    with pytest.raises(TimeUnavailable, match=r"scene_0\.h264: request 0: ") as raised:
        plan_requests(requests, size=(24, 32))
    assert raised.value.position == 0


def test_known_damage_of_a_stream_that_follows_is_warned_of(tmp_path: Path) -> None:
    copyfile(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), tmp_path / "scene_0.mp4")
    damaged = scan(tmp_path, verify="full", workers=0)
    timed = slow().take([[Path(str(slow().source(row))).stem for row in range(len(slow()))].index("scene_0")])
    with pytest.warns(
        UserWarning, match=r"3 damaged frames in 1 of 1 rows may be in clips of this plan \(first .*scene_0"
    ):
        plan_clips(None, Uniform(2), streams={"timed": timed, "damaged": damaged}, on="stem", seed=0, size=(24, 32))
