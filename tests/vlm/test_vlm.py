"""`ff.vlm` over processors with recorded attributes: rules, sizes, tokens, and seconds in the form that they read."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed import vlm
from framefeed._arrays import FloatArray
from framefeed.errors import FrameNotFound, LimitExceeded, MediaError, TimeUnavailable, UsageError
from framefeed.index import STILL_TIMELINE, Timeline
from framefeed.plan import choose_by
from framefeed.request import ClipContext
from framefeed.testing import ClipSpec, write_clip
from framefeed.vlm._metadata import describe_frames
from framefeed.vlm._processors import find_filter, make_metadata
from tests.corpus import corpus_file
from tests.fakes import FlatDecoder, steady_index
from tests.request.test_budgets import budget_of
from tests.vlm.golden import condense
from tests.vlm.processors import DESCRIBED, GOLDEN, VideoProcessor, make_processor

UNEVEN = [number * 40 + number % 7 * 5 for number in range(40)]
FILES = {"steady.mp4": 97, "long.mp4": 251, "short.mp4": 9}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for number, (name, count) in enumerate(FILES.items()):
        write_clip(folder / name, ClipSpec(num_frames=count, gop=12, height=90 + 20 * number, width=128))
    write_clip(folder / "uneven.mkv", ClipSpec(num_frames=40, pts=UNEVEN, time_base=Fraction(1, 1000)))
    return folder


@pytest.fixture(scope="module")
def catalog(videos: Path) -> ff.Catalog:
    return ff.scan(videos, progress=False)


# --- rules and sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESCRIBED)
def test_rules_are_those_of_the_attributes(name: str) -> None:
    processor = make_processor(name)
    attributes = GOLDEN["processors"][name]["attributes"]
    rule, size = vlm.rules(processor, fps=2, max_frames=64, batch_size=1)
    # Qwen3-VL samples odd counts too; the others make them even.
    multiple = 1 if name.startswith("qwen3") else attributes.get("temporal_patch_size") or 1
    assert (rule.fps, rule.max_frames, rule.multiple) == (2, 64, multiple)
    assert rule.min_frames == (attributes.get("min_frames") or 1)
    if name.startswith(("qwen", "glm")):
        assert size == budget_of(name)
    else:
        assert size == (attributes["size"]["height"], attributes["size"]["width"])
        with pytest.raises(UsageError, match=r"ff\.Uniform\("):
            vlm.rules(processor, fps=2, max_frames=64)
    assert vlm.rules(processor.video_processor, fps=2, max_frames=64, batch_size=1) == (rule, size)
    assert find_filter(processor.video_processor) == "bicubic"


def test_defaults_are_the_processors_own() -> None:
    rule, _ = vlm.rules(make_processor("qwen3_vl-published"))
    assert rule == ff.WholeVideo(2, min_frames=4, max_frames=768, multiple=1)
    rule, _ = vlm.rules(make_processor("qwen2_vl"), max_frames=2)
    assert rule == ff.WholeVideo(2.0, min_frames=2, max_frames=2, multiple=2)


@pytest.mark.parametrize("name", ["gemma4", "gemma4-published"])
def test_a_size_that_no_value_says_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"size=None.* do_resize=True"):
        vlm.rules(make_processor(name), fps=2)
    with pytest.raises(UsageError, match=r"size=None.* do_resize=True"):
        vlm.rules(make_processor("qwen2_vl", do_center_crop=True), fps=2)
    with pytest.raises(UsageError, match="filter= here"):
        find_filter(VideoProcessor("qwen2_vl", resample=0))
    with pytest.raises(UsageError, match="a processor with a video_processor"):
        vlm.rules(object(), fps=2)


def test_what_is_given_is_not_replaced_by_what_a_processor_has() -> None:
    processor = make_processor("qwen3_vl-published")
    for name in ("fps", "min_frames", "max_frames"):
        with pytest.raises(UsageError, match=name):
            vlm.rules(processor, **{name: 0})
    with pytest.raises(UsageError, match="max_frames: expected at least min_frames=9, got 6"):
        vlm.rules(processor, min_frames=9, max_frames=6)


@pytest.mark.parametrize("name", ["qwen2_vl", "internvl"])
@pytest.mark.parametrize("change", [{"do_center_crop": True}, {"do_resize": False}], ids=str)
def test_a_processor_that_crops_or_does_not_resize_is_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="crops pictures, or does not resize them"):
        vlm.rules(make_processor(name, **change), fps=2, batch_size=1)


class Sizes(SimpleNamespace):
    """Sizes as newer processors have them, by attribute and by name."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def test_sizes_may_be_objects() -> None:
    for name in ("qwen3_vl", "internvl"):
        own = make_processor(name, size=Sizes(**GOLDEN["processors"][name]["attributes"]["size"]))
        assert vlm.rules(own, fps=2, batch_size=1) == vlm.rules(make_processor(name), fps=2, batch_size=1)


def test_the_filter_is_read_by_its_number_in_pillow() -> None:
    from PIL import Image

    for number, name in ((Image.Resampling.BILINEAR, "bilinear"), (Image.Resampling.BICUBIC, "bicubic")):
        assert find_filter(VideoProcessor("qwen2_vl", resample=number)) == name
    assert find_filter(VideoProcessor("qwen2_vl", resample=None)) == "bicubic"


class Resizing(VideoProcessor):
    """A video processor that resizes as it is told, with ``more`` columns."""

    more = 0

    def resize(self, video: Any, *, size: Any, resample: Any, factor: int, temporal_factor: int, **capped: bool) -> Any:
        assert (size, resample, capped == {"cap_pixels_per_frame": True}) == (
            self.size, self.resample, bool(self.values.get("cap_pixels_per_frame"))
        )  # fmt: skip
        assert (factor, temporal_factor) == (self.patch_size * self.merge_size, self.temporal_patch_size)
        rows, columns = budget_of(self.name).for_frames(video.shape[1]).fit(*video.shape[-2:])[0]
        return video[..., :1, :1].expand(*video.shape[:-2], rows, columns + self.more)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl-capped", "qwen3_vl-published", "glm4v"])
def test_sizes_are_compared_with_those_that_a_processor_gives(name: str) -> None:
    pytest.importorskip("torch")
    assert vlm.rules(Resizing(name), fps=2)[1] == budget_of(name)

    class Wider(Resizing):
        more = 28

    class Failing(Resizing):
        def resize(self, video: Any, **options: Any) -> Any:
            raise RuntimeError("no memory")

    with pytest.raises(UsageError, match=r"Wider resizes 2 frames of 480 x 640 to \(\d+, \d+\), and PixelBudget"):
        vlm.rules(Wider(name), fps=2)
    with pytest.raises(UsageError, match=r"Failing resizes 2 frames of 480 x 640 to RuntimeError: no memory, and"):
        vlm.rules(Failing(name), fps=2)


@pytest.mark.parametrize(("name", "multiple"), [("qwen2_vl", 2), ("qwen3_vl", 1)])
def test_as_many_frames_as_the_processor_samples_at_constant_rates(name: str, multiple: int) -> None:
    cases = [case for case in GOLDEN["indices"][name] if set(case) == {"N", "rate", "duration", "fps", "indices"}]
    num_equal = 0
    for case in cases:
        recorded, count = case["indices"], case["N"]
        if isinstance(recorded, str) or count > 60_000 or case["rate"] is None:
            continue
        rate = Fraction(str(case["rate"]))
        number = recorded["count"] if isinstance(recorded, dict) else len(recorded)
        rule = ff.WholeVideo(case["fps"], min_frames=4, max_frames=768, multiple=multiple)
        own = len(choose_by(rule, Timeline.whole(steady_index(count, fps=rate)), ClipContext(0, 0, 0)).ordinals)
        # Theirs: no more than the file has, and one index too many where an index is the number of frames.
        if own != number:
            assert own > count or (number == own + 1), case
            continue
        num_equal += 1
    assert num_equal >= 50


def test_as_trained_asks_with_exact_facts_and_gives_what_it_gets() -> None:
    for case in itertools.islice(GOLDEN["indices"]["qwen3_vl"], 0, None, 3):
        if isinstance(case["indices"], str) or case["N"] > 60_000 or isinstance(case["indices"], dict):
            continue
        processor = VideoProcessor("qwen3_vl", case["indices"])
        rate = Fraction(str(case["rate"]))
        if case["duration"] != pytest.approx(float(case["N"] / rate)):
            continue
        rule, timeline = (
            vlm.AsTrained(processor, fps=case.get("fps")),
            Timeline.whole(steady_index(case["N"], fps=rate)),
        )
        chosen = choose_by(rule, timeline, ClipContext(0, 0, 0))
        assert condense(chosen.ordinals.tolist()) == condense(case["indices"])
        ((facts, arguments),) = processor.asked
        assert (facts.total_num_frames, facts.fps) == (case["N"], float(rate))
        assert facts.duration == pytest.approx(case["duration"], rel=1e-15)
        assert arguments == {"fps": case.get("fps")}


def test_an_index_behind_the_end_is_cut_and_said() -> None:
    rule = vlm.AsTrained(VideoProcessor("qwen2_vl", [0, 15, 30]))
    with pytest.warns(UserWarning, match="asks for frame 30 of 30 frames"):
        chosen = choose_by(rule, Timeline.whole(steady_index(30, fps=30)), ClipContext(0, 0, 0))
    assert chosen.ordinals.tolist() == [0, 15, 29]


def test_as_trained_is_a_value() -> None:
    rule = vlm.AsTrained(VideoProcessor("qwen2_vl", [0, 1]), fps=2, max_frames=8)
    again = pickle.loads(pickle.dumps(rule))
    assert repr(again) == repr(rule)
    assert "fps=2, max_frames=8" in repr(rule)
    other = vlm.AsTrained(VideoProcessor("qwen2_vl", [0, 1], min_frames=6), fps=2, max_frames=8)
    assert repr(other) != repr(rule)


def test_facts_are_objects_of_the_processors_library(monkeypatch: pytest.MonkeyPatch) -> None:
    class Facts(SimpleNamespace):
        pass

    monkeypatch.setitem(sys.modules, "transformers.video_utils", SimpleNamespace(VideoMetadata=Facts))
    made = make_metadata({"fps": 2.0, "frames_indices": [0, 1]})
    assert (type(made), made.fps, made.frames_indices) == (Facts, 2.0, [0, 1])


def test_as_trained_asks_about_the_window_and_about_stills() -> None:
    processor, index = VideoProcessor("qwen2_vl", [0, 3]), steady_index(100, start=700)
    rule = vlm.AsTrained(processor)
    assert choose_by(rule, Timeline.within(index, 1.0, 3.0), ClipContext(0, 0, 0)).ordinals.tolist() == [25, 28]
    processor.indices = [0, 0]
    assert choose_by(rule, STILL_TIMELINE, ClipContext(0, 0, 0)).ordinals.tolist() == [0, 0]
    (window, _), (still, _) = processor.asked
    assert (window.total_num_frames, window.fps, window.duration) == (50, 25.0, 2.0)
    assert still.total_num_frames == 1
    assert (window.height, window.width) == index.stream.displayed


def test_the_text_of_as_trained_has_no_order_and_names_the_version() -> None:
    class Turned(VideoProcessor):
        __module__ = "numpy.of_processors"

        def to_dict(self) -> dict[str, Any]:
            return dict(reversed(self.values.items()))

    class Plain(VideoProcessor):
        __module__ = "numpy.of_processors"

    plain = repr(vlm.AsTrained(Plain("qwen2_vl"), fps=2, size=8))
    assert plain.startswith(f"AsTrained(Plain {np.__version__} ")
    assert plain.replace("Plain", "Turned") == repr(vlm.AsTrained(Turned("qwen2_vl"), size=8, fps=2))


# --- tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in DESCRIBED if name.startswith(("qwen", "glm"))])
def test_tokens_are_those_that_the_processor_counts(name: str) -> None:
    num_equal = 0
    # What Qwen2VL counts knows no cap.
    plain = name.replace("qwen2_5_vl-capped", "qwen2_5_vl-published")
    budget = budget_of(plain)
    for length, height, width, _, tokens in GOLDEN["tokens"][plain]:
        if length % 2 or min(height, width) < budget.multiple or isinstance(tokens, str):
            continue
        rows, columns = budget.for_frames(length).fit(height, width)[0]
        plan = SimpleNamespace(shapes=lambda shape=(length, rows, columns): [shape])
        assert vlm.count_tokens(plan, make_processor(name)).tolist() == [tokens]  # type: ignore[arg-type]
        num_equal += 1
    assert num_equal >= 8


def test_tokens_of_a_plan(catalog: ff.Catalog) -> None:
    processor = make_processor("qwen3_vl-published")
    rule, size = vlm.rules(processor, fps=4, max_frames=16)
    plan = ff.plan_clips(catalog, rule, size=size, unequal=True, seed=0, shuffle=False)
    shapes = plan.shapes()
    assert [tuple(np.array(clip.shape)[[0, 2, 3]]) for clip in plan] == shapes
    assert vlm.count_tokens(plan, processor).tolist() == [-(-t // 2) * h // 32 * w // 32 for t, h, w in shapes]
    by_frame = SimpleNamespace(video_processor=VideoProcessor("internvl"), image_seq_length=256)
    assert vlm.count_tokens(plan, by_frame).tolist() == [256 * t for t, _, _ in shapes]
    with pytest.raises(UsageError, match="does not say the tokens"):
        vlm.count_tokens(plan, make_processor("llava_onevision"))
    with pytest.raises(UsageError, match="no multiples of 32"):
        vlm.count_tokens(ff.plan_clips(catalog, rule, size=(33, 64), unequal=True, seed=0), processor)


def plan_shaped(*shapes: tuple[int, int, int]) -> Any:
    return SimpleNamespace(shapes=lambda: list(shapes))


def test_tokens_of_an_odd_number_of_frames_and_of_no_clips() -> None:
    processor = make_processor("qwen2_vl")
    assert vlm.count_tokens(plan_shaped((3, 56, 84), (4, 56, 84), (1, 28, 28)), processor).tolist() == [12, 12, 1]
    assert vlm.count_tokens(plan_shaped(), processor).tolist() == []
    for shape in ((2, 55, 56), (2, 56, 55)):
        with pytest.raises(UsageError, match=rf"{shape[1]} x {shape[2]} \(position 1\) are no multiples of 28"):
            vlm.count_tokens(plan_shaped((2, 56, 56), shape), processor)


# --- seconds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "end", "is_grid"),
    [([0, 0.5, 1.0], 1.6, True), ([0, 0.36, 0.72], 1.1, True), ([12.0, 12.5, 13.0], 13.5, False),
     ([0, 0.4, 1.0], 1.2, False), ([0], 0.04, False), ([0, 0, 0, 0], np.nan, False), ([7.125], 9.0, False)],
)  # fmt: skip
def test_what_a_processor_computes_are_the_seconds(seconds: list[float], end: float, is_grid: bool) -> None:
    facts = describe_frames(np.array(seconds), end, (48, 64))
    assert np.allclose(np.array(facts["frames_indices"]) / facts["fps"], seconds, rtol=0, atol=1e-6)
    assert (facts["total_num_frames"] == len(seconds) and facts["fps"] != 1e6) == is_grid
    assert (facts["height"], facts["width"], facts["video_backend"]) == (48, 64, "framefeed")
    if len(seconds) > 1 and seconds[-1] > seconds[0] and not np.isnan(end):  # as Qwen2.5-VL computes the rate
        rate = len(seconds) / facts["total_num_frames"] * facts["fps"]
        assert len(seconds) / rate == pytest.approx(facts["duration"], abs=1e-6)
    moved = describe_frames(np.array(seconds), end, (48, 64), "window")
    assert np.allclose(np.array(moved["frames_indices"]) / moved["fps"], np.array(seconds) - seconds[0], atol=1e-6)


def batch_of(*clips: list[float]) -> dict[str, Any]:
    """What `ff.torch.list_clips` gives of clips at these seconds, whose last frames are shown for 0.1 s."""
    return {
        "seconds": [np.array(seconds, dtype=np.float64) for seconds in clips],
        "end_seconds": np.array([seconds[-1] + 0.1 for seconds in clips]),
        "data": [np.zeros((len(seconds), 3, 48, 64), np.uint8) for seconds in clips],
        "source": [f"{number}.mp4" for number in range(len(clips))],
        "ok": np.ones(len(clips), np.bool_),
    }


def test_what_a_processor_computes_is_rounded_and_has_one_duration() -> None:
    chance = np.random.default_rng(0)
    for count in (1, 2, 9):
        for step in (0.1, 1.3, 700.0):
            uneven: FloatArray = np.cumsum(chance.uniform(0, step, count))
            grid: FloatArray = np.array([number * step for number in range(count)], np.float64)
            for seconds in (uneven, uneven[0] + grid, grid):
                end = float(seconds[-1] + step)
                plain, moved = (describe_frames(seconds, end, (48, 64), origin) for origin in ("video", "window"))
                for facts, times in ((plain, seconds), (moved, seconds - seconds[0])):
                    assert np.abs(np.array(facts["frames_indices"]) / facts["fps"] - times).max() < 0.6e-6
                    assert facts["total_num_frames"] >= 1
                assert plain["duration"] == moved["duration"]
                if count != 2:  # two frames are at equal distances, whatever the end is
                    assert plain["duration"] == pytest.approx(end - seconds[0])
                if seconds is not uneven and count > 1:  # a processor reads the frames of a window as 0, 1, 2, ...
                    assert (moved["frames_indices"], moved["total_num_frames"]) == (list(range(count)), count)
                    assert moved["fps"] == pytest.approx(1 / step)


@pytest.mark.parametrize("end", [np.nan, 3.0, 2.5])
def test_one_frame_of_no_duration_is_of_one_unit(end: float) -> None:
    facts = describe_frames(np.array([3.0]), end, (48, 64))
    assert (facts["duration"], facts["total_num_frames"], facts["frames_indices"]) == (0.0, 1, [3_000_000])


def test_a_rate_is_that_of_all_clips_of_more_than_one_frame() -> None:
    assert vlm.fps(batch_of([0.0], [7.5])) == 2.0
    assert vlm.fps(batch_of([7.5], [3.0, 3.25, 3.5], [0.0, 0.25])) == 4.0
    for other in ([0.0, 0.501], [0.0, 0.5, 1.1], [1.0, 1.0]):
        with pytest.raises(UsageError, match="one fps="):
            vlm.fps(batch_of([0.0, 0.5, 1.0], other))


def load(plan: ff.EpochPlan, **options: Any) -> Iterator[ff.ClipBatch]:
    with ff.ClipLoader(plan, batch_size=2, **options) as loader:
        yield from loader


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 2}, {"workers": 2, "kind": "processes"}])
def test_a_loaded_clip_is_that_of_a_plan(catalog: ff.Catalog, options: dict[str, Any]) -> None:
    processor = make_processor("qwen3_vl", size={"shortest_edge": 4096, "longest_edge": 32 * 32 * 64})
    rule, size = vlm.rules(processor, fps=4, max_frames=10)
    plan = ff.plan_clips(catalog, rule, size=size, filter="bicubic", unequal=True, seed=0, shuffle=True)
    for batch in load(plan, **options):
        each = zip(batch.data, vlm.metadata(batch), batch.sources, batch.end_seconds, strict=True)
        for clip, facts, source, end in each:
            alone = vlm.load_video(source, processor=processor, fps=4, max_frames=10)
            frames, alone_facts = alone
            assert np.array_equal(clip, frames)
            assert (facts, end) == (alone_facts, alone.end_seconds)
            assert repr(alone).startswith("VideoClip(frames [")


def test_a_window_of_a_plan_is_that_of_load_video(videos: Path, tmp_path: Path) -> None:
    table = tmp_path / "list.csv"
    table.write_text(f"path,begin,end\n{videos}/long.mp4,1.013,3.5\n{videos}/uneven.mkv,0.21,0.9\n", encoding="utf-8")
    catalog = ff.scan(table, progress=False)
    plan = ff.plan_clips(catalog, ff.WholeVideo(6), within=("begin", "end"), unequal=True, seed=0, shuffle=False)
    (batch,) = load(plan, workers=0)
    for slot, (name, start, end) in enumerate([("long.mp4", 1.013, 3.5), ("uneven.mkv", 0.21, 0.9)]):
        alone = vlm.load_video(videos / name, fps=6, start=start, end=end, filter="bilinear")
        assert np.array_equal(batch.data[slot], alone.frames)
        assert batch.seconds[slot][0] == pytest.approx(start, abs=1e-9)
        assert np.array_equal(batch.seconds[slot], alone.seconds)
        assert vlm.metadata(batch)[slot] == alone.metadata
        moved = vlm.load_video(videos / name, fps=6, start=start, end=end, filter="bilinear", origin="window")
        assert moved.metadata == vlm.metadata(batch, origin="window")[slot]
        assert moved.metadata["frames_indices"][0] == 0


def test_one_rate_of_a_batch(catalog: ff.Catalog, videos: Path) -> None:
    plan = ff.plan_clips(catalog, ff.WholeVideo(4), unequal=True, seed=0, size=(32, 32), shuffle=False)
    assert {vlm.fps(batch) for batch in load(plan, workers=0)} == {4.0}
    plan = ff.plan_clips(catalog, ff.WholeVideo(4, min_frames=20), unequal=True, seed=0, size=(32, 32), shuffle=False)
    with pytest.raises(UsageError, match=r"one fps="):
        [vlm.fps(batch) for batch in load(plan, workers=0)]


def test_a_failed_clip_has_no_metadata(videos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes((videos / "long.mp4").read_bytes())
    catalog = ff.scan([str(broken), str(videos / "steady.mp4")], progress=False)
    data = bytearray(broken.read_bytes())
    data[2000:] = bytes(len(data) - 2000)
    broken.write_bytes(data)
    plan = ff.plan_clips(catalog, ff.WholeVideo(4), unequal=True, seed=0, shuffle=False)
    (batch,) = load(plan, workers=0, on_error="skip")
    with pytest.raises(UsageError, match=r"clip 0 of this batch failed.*on_error='substitute'"):
        vlm.metadata(batch)
    with pytest.raises(UsageError, match="expected a ClipBatch"):
        vlm.metadata([batch])  # type: ignore[arg-type]


def test_a_rate_that_depends_on_the_duration_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"give fps=, or plan with ff\.vlm\.AsTrained"):
        vlm.rules(make_processor("glm4v"))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (TypeError("int / None"), UsageError, "give fps= or num_frames="),
        (ValueError("32 of 9"), FrameNotFound, "32 of 9"),
        (ZeroDivisionError("by zero"), FrameNotFound, "among 9 frames"),
    ],
)
def test_what_a_processor_cannot_sample_is_said(error: Exception, kind: type[Exception], message: str) -> None:
    class Failing(VideoProcessor):
        def sample_frames(self, metadata: Any, **arguments: Any) -> Any:
            raise error

    with pytest.raises(kind, match=message):
        choose_by(vlm.AsTrained(Failing("qwen2_vl")), Timeline.whole(steady_index(9)), ClipContext(0, 0, 0))


def test_streams_are_refused(catalog: ff.Catalog) -> None:
    plan = ff.plan_clips(streams={"a": catalog, "b": catalog}, rule=ff.Uniform(2), on="source", seed=0, size=(32, 32))
    batch = next(load(plan, workers=0))
    with pytest.raises(UsageError, match=r"streams \['a', 'b'\]"):
        vlm.metadata(batch)
    with pytest.raises(UsageError, match=r"plan\.streams\['a'\]\.shapes\(\)"):
        plan.shapes()


# --- one video ------------------------------------------------------------------------------------------


def test_bad_windows_and_arguments(videos: Path) -> None:
    steady = videos / "steady.mp4"
    with pytest.raises(FrameNotFound, match="nothing is shown"):
        vlm.load_video(steady, start=99.0)
    with pytest.raises(UsageError, match="an end after the start"):
        vlm.load_video(steady, start=2.0, end=1.0)
    with pytest.raises(UsageError, match="either rule=, or fps="):
        vlm.load_video(steady, rule=ff.Uniform(2), fps=2)
    with pytest.raises(UsageError, match="origin"):
        vlm.load_video(steady, origin="file")  # type: ignore[arg-type]
    with pytest.raises(MediaError, match=r"nothing\.mp4"):
        vlm.load_video(videos / "nothing.mp4")
    with pytest.raises(UsageError, match=r"more than 1\.1 times"):
        vlm.load_video(steady, size=ff.PixelBudget(28, max_ratio=1.1))


def test_other_rules_sizes_and_sources(videos: Path, tmp_path: Path) -> None:
    uniform = vlm.load_video(videos / "long.mp4", rule=ff.Uniform(5), size=ff.Cover(32, 48))
    assert uniform.frames.shape == (5, 3, 32, 48)
    with ff.VideoDecoder(videos / "long.mp4", size=ff.Cover(32, 48), filter="bicubic") as decoder:
        assert np.array_equal(uniform.frames, decoder.get_frames_at(uniform.indices).data)
    assert vlm.load_video((videos / "short.mp4").read_bytes(), fps=2, min_frames=4).frames.shape[0] == 4
    with pytest.raises(UsageError, match="no processor="):
        vlm.load_video(videos / "long.mp4", processor=make_processor("gemma4"), fps=2)
    own_size = vlm.load_video(videos / "long.mp4", processor=make_processor("gemma4"), fps=2, size=(96, 48))
    assert own_size.frames.shape[1:] == (3, 96, 48)
    still = tmp_path / "still.png"
    with ff.VideoDecoder(videos / "short.mp4") as decoder:
        from PIL import Image

        Image.fromarray(decoder[0].transpose(1, 2, 0)).save(still)
    picture = vlm.load_video(still, processor=make_processor("qwen3_vl-published"), fps=2)
    assert picture.frames.shape[0] == 4
    assert picture.metadata["duration"] == 0.0
    listed = vlm.load_video(ff.ImageSequence([str(still)] * 6, fps=2), fps=1)
    assert listed.seconds.tolist() == [0.0, 1.0, 2.0]


def test_fetch_videos_gives_their_frames_with_true_seconds(videos: Path) -> None:
    processor = VideoProcessor("qwen3_vl", [0, 3, 39, 40])
    with pytest.warns(UserWarning, match="asks for frame 40 of 40"):
        frames, facts = vlm.fetch_videos(str(videos / "uneven.mkv"), processor.sample_frames)
    index = ff.build_index(videos / "uneven.mkv")
    expected = index.pts_seconds[[0, 3, 39, 39]] - index.pts_seconds[0]
    assert frames.shape == (4, 3, 96, 128)
    assert np.allclose(np.array(facts.frames_indices) / facts.fps, expected, rtol=0, atol=1e-6)
    ((asked, _),) = processor.asked
    assert asked.total_num_frames == len(index)
    clips, all_facts = vlm.fetch_videos([str(videos / "short.mp4")] * 2)
    assert [clip.shape[0] for clip in clips] == [9, 9]
    assert [facts.total_num_frames for facts in all_facts] == [9, 9]


def test_nothing_of_their_libraries_is_imported(videos: Path) -> None:
    code = (
        "import sys, framefeed as ff\n"
        f"ff.vlm.load_video({str(videos / 'short.mp4')!r}, fps=2)\n"
        "assert not {'torch', 'transformers', 'qwen_vl_utils', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("options", [{"fps": 2}, {"min_frames": 2}, {"max_frames": 2}], ids=str)
def test_a_rule_stands_alone(videos: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="either rule=, or fps="):
        vlm.load_video(videos / "steady.mp4", rule=ff.Uniform(2), **options)


def test_times_of_the_stream_are_those_of_the_frames(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "late.mkv", ClipSpec(num_frames=10, start_seconds=1.5, height=48, width=64))
    clip, index = vlm.load_video(path, fps=60), ff.build_index(path)
    assert clip.pts_seconds.tolist() == index.pts_seconds[clip.indices].tolist()
    assert clip.seconds.tolist() == pytest.approx([number / 60 for number in range(24)])


def test_decoders_and_limits_are_those_that_are_given(videos: Path) -> None:
    clip = vlm.load_video(videos / "steady.mp4", fps=5, backend=FlatDecoder())
    assert clip.frames[:, 0, 0, 0].tolist() == clip.indices.tolist() == list(range(0, 95, 5))
    with pytest.raises(LimitExceeded, match="max_packets=3"):
        vlm.load_video(videos / "steady.mp4", fps=5, limits=ff.Limits(max_packets=3))


def test_a_still_is_that_of_a_plan(tmp_path: Path) -> None:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "still.jpg")
    plan = ff.plan_clips(ff.scan(tmp_path, progress=False), ff.Uniform(1), size=(60, 80), seed=0)
    (batch,) = load(plan, workers=0)
    alone = vlm.load_video(tmp_path / "still.jpg", rule=ff.Uniform(1), size=(60, 80), filter="bilinear")
    assert np.array_equal(batch.data[0], alone.frames)


@pytest.mark.parametrize("rule", [ff.WholeVideo(2), ff.Uniform(4)], ids=repr)
def test_a_video_without_times_is_named(rule: ff.ClipRule) -> None:
    raw = corpus_file("raw.h264")
    with pytest.raises(TimeUnavailable, match=r"raw\.h264"):
        vlm.load_video(raw, rule=rule)
    for source in (str(raw), [str(corpus_file("base.mp4")), str(raw)]):
        with pytest.raises(TimeUnavailable, match=r"raw\.h264"):
            vlm.fetch_videos(source)
