"""`ff.vlm` over processors with recorded attributes: rules, sizes, tokens, and seconds in the form that they read."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed import vlm
from framefeed.errors import FrameNotFound, MediaError, TimeUnavailable, UsageError
from framefeed.index import Timeline
from framefeed.plan import choose_by
from framefeed.request import ClipContext
from framefeed.testing import ClipSpec, write_clip
from framefeed.vlm._metadata import describe_frames
from framefeed.vlm._processors import find_filter
from tests.fakes import steady_index
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


def test_a_video_without_times_is_named(tmp_path: Path) -> None:
    raw = tmp_path / "raw.h264"
    write_clip(raw, ClipSpec(num_frames=12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = ff.build_index(raw)
        if index.has_timestamps:
            pytest.skip("this stream declares a rate")
        with pytest.raises(TimeUnavailable):
            vlm.load_video(raw)
