"""The parts of ``bench cache``: what is compared, how a file is forgotten, what is made of figures."""

import math
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framefeed.bench._media import BenchVideo
from framefeed.bench._runner import Reading, Rounds, Timings
from framefeed.bench.baselines import Peers, load_module
from framefeed.bench.cache._advice import (
    Advice,
    CacheOption,
    Pick,
    Setting,
    advice_lines,
    advise,
    loss_lines,
    make_option,
)
from framefeed.bench.cache._checking import CROP, check, draw_crops
from framefeed.bench.cache._pages import count_pages, count_resident_pages, forget, measure_disk
from framefeed.bench.cache._reads import compare_exact
from framefeed.bench.cache._sample import near_keys, take_sample, video_of
from framefeed.bench.cache._suite import PEERS
from framefeed.cache import CodecChoice, CodecFigures, Conditions, choose_codec
from framefeed.decode import Pixels
from framefeed.errors import MissingMedia
from framefeed.testing import ClipSpec, write_clip


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> BenchVideo:
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return BenchVideo(write_clip(path, ClipSpec(num_frames=40, height=48, width=64, gop=10, rotation=90)))


# --- samples --------------------------------------------------------------------------------------


def test_a_sample_holds_each_frame_as_the_decoder_gives_it(video: BenchVideo) -> None:
    sample = take_sample(video, 7, (24, 32), Rounds())
    assert [frame.ordinal for frame in sample.frames] == near_keys(video, 7) == [2, 8, 14, 20, 25, 31, 37]
    assert sample.share == 7 / 40
    assert sorted(sample.order) == list(range(7))
    assert {frame.rgb.shape for frame in sample.frames} == {(64, 48, 3)}
    assert {frame.small.shape for frame in sample.frames} == {(3, 24, 32)}
    assert {frame.planes.size for frame in sample.frames} == {48 * 64 * 3 // 2}


def test_a_sample_is_no_larger_than_fits(video: BenchVideo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.bench.cache._sample.MAX_BYTES", 3 * 48 * 64 * 2)
    assert len(take_sample(video, 7, (24, 32), Rounds())) == 2
    assert len(take_sample(video, 1000, (24, 32), Rounds())) == 2


def test_where_decoding_would_take_long_frames_move_towards_their_key_frames(
    video: BenchVideo, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = video.index.key_frame_indices

    def groups(ordinals: list[int]) -> list[int]:
        return np.searchsorted(keys, ordinals, side="right").tolist()

    spread = near_keys(video, 8)
    monkeypatch.setattr("framefeed.bench.cache._sample._AHEAD_PIXELS", 48 * 64 * 12)
    moved = near_keys(video, 8)
    assert moved == sorted(set(moved)) != spread
    assert groups(moved) == groups(spread)
    assert sum(ordinal - keys[group - 1] for ordinal, group in zip(moved, groups(moved), strict=True)) <= 2 * 12


def test_the_first_video_that_can_be_read_is_measured(video: BenchVideo, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video")
    with pytest.raises(MissingMedia):
        video_of([tmp_path], tmp_path, Rounds())
    assert video_of([tmp_path, video.path], tmp_path, Rounds()).path == video.path


# --- what comes back ------------------------------------------------------------------------------


def pictures(count: int) -> list[Pixels]:
    chance = np.random.Generator(np.random.Philox(key=count))
    return list(chance.integers(0, 256, (count, 64, 96, 3), dtype=np.uint8))


def test_frames_that_are_equal_are_found_equal() -> None:
    originals = pictures(4)
    checked = check(((number, originals[number].copy()) for number in (2, 0, 3, 1)), originals, crops=True)
    assert (checked.differing, checked.missing, checked.worst) == ([], [], None)
    assert math.isinf(checked.psnr_worst)


def one_bit(frames: list[Pixels]) -> list[tuple[int, Pixels]]:
    frames[2][50, 90, 1] ^= 1
    return list(enumerate(frames))


def swapped(frames: list[Pixels]) -> list[tuple[int, Pixels]]:
    return [(0, frames[0]), (1, frames[1]), (2, frames[3]), (3, frames[3])]


@pytest.mark.parametrize("wrong", [one_bit, swapped])
def test_a_frame_that_differs_is_named(wrong: object) -> None:
    checked = check(wrong([frame.copy() for frame in pictures(4)]), pictures(4))
    assert (checked.differing, checked.missing) == ([2], [])
    assert not math.isinf(checked.psnr_worst)


def test_a_frame_that_does_not_come_or_has_another_shape_is_missing() -> None:
    originals = pictures(4)
    checked = check([(0, originals[0]), (1, originals[1][:-1]), (3, originals[3])], originals)
    assert (checked.differing, checked.missing) == ([], [1, 2])


def test_the_square_that_differs_most_is_cut_out_of_all_formats() -> None:
    originals = [np.full((100, 130, 3), 100, np.uint8) for _ in range(3)]
    came = [frame.copy() for frame in originals]
    came[0][:8, :8] += 3
    came[1][60:90, 80:110] += 50
    checked = check(enumerate(came), originals, crops=True)
    assert checked.worst is not None
    assert checked.worst.number == 1
    assert (checked.worst.top, checked.worst.left) == (40, 80)
    assert np.array_equal(checked.worst.stored, came[1][40 : 40 + CROP, 80 : 80 + CROP])
    assert checked.psnr_worst < checked.psnr_mean
    other = check(enumerate(originals), originals, crops=True, at=checked.worst)
    assert other.same is not None
    assert (other.worst, other.same.number) == (None, 1)
    assert np.array_equal(other.same.stored, checked.worst.original)
    sheet = draw_crops([("worst", [("a", checked.worst), ("b", other.same)])])
    assert sheet.shape[1] > 4 * 4 * CROP


def test_pictures_smaller_than_a_square_have_crops_too() -> None:
    originals = [np.zeros((10, 20, 3), np.uint8)]
    checked = check([(0, originals[0] + 1)], originals, crops=True)
    assert checked.worst is not None
    assert checked.worst.original.shape == (10, 20, 3)


# --- formats of one file a frame ------------------------------------------------------------------


def test_every_exact_format_that_is_installed_gives_frames_back(video: BenchVideo, tmp_path: Path) -> None:
    sample = take_sample(video, 3, (24, 32), Rounds())
    for form in Peers.find(PEERS).list_all("FORMATS"):
        read = pickle.loads(pickle.dumps(form.read))
        for frame in sample.frames:
            path = str(tmp_path / f"frame{form.suffix}")
            form.write(path, frame.rgb)
            assert read(path).shape == frame.rgb.shape, form.name
            assert np.array_equal(read(path), frame.rgb) or not form.is_exact, form.name


def test_the_formats_of_the_write_up_are_all_there() -> None:
    names = [form.name for form in Peers.find(PEERS).list_all("FORMATS")]
    for module, titles in (
        ("opencv", [*(f"JPEG q{quality} (OpenCV)" for quality in (70, 80, 90, 95, 100)), "PNG (OpenCV)"]),
        ("joblib", ["joblib raw", "joblib gzip 1", "joblib gzip 3",
                           *(f"joblib lz4 {level}" for level in (1, 2, 3, 5))]),
    ):  # fmt: skip
        assert isinstance(load_module(module), str) or set(titles) <= set(names)


# --- cold -----------------------------------------------------------------------------------------


def test_pages_of_a_file_are_dropped_or_a_reason_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10 * 4096 + 1))
    assert count_resident_pages(str(path)) == count_pages(str(path)) > 0
    why = forget([str(path)])
    assert (why is None) == (count_resident_pages(str(path)) == 0)
    path.read_bytes()
    assert count_resident_pages(str(path)) == count_pages(str(path))


def test_pages_of_files_in_memory_cannot_be_dropped() -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("no /dev/shm here")
    path = shm / f"framefeed-test-{os.getpid()}"
    try:
        path.write_bytes(bytes(8192))
        assert "stayed in memory" in str(forget([str(path)]))
    finally:
        path.unlink()


def test_files_whose_pages_cannot_be_dropped_have_a_reason(tmp_path: Path) -> None:
    assert "FileNotFoundError" in str(forget([str(tmp_path / "none")]))
    (tmp_path / "empty").touch()
    assert forget([str(tmp_path / "empty")]) is None


def test_the_disk_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    speed = measure_disk(str(tmp_path / "disk"), 3 << 20)
    assert isinstance(speed, str) or (speed["read"] > 0 and speed["write"] > 0)
    assert list(tmp_path.iterdir()) == []


# --- figures --------------------------------------------------------------------------------------


def test_ours_are_compared_with_the_level_of_lz4_that_reads_fastest() -> None:
    seconds = {"joblib lz4 1": 4.0, "joblib lz4 5": 3.0, "PNG (OpenCV)": 30.0, "framefeed zstd, planes": 2.0,
               "framefeed lz4, RGB": 1.5}  # fmt: skip
    nbytes = {"joblib lz4 1": 80.0, "joblib lz4 5": 60.0, "PNG (OpenCV)": 30, "framefeed zstd, planes": 30.0,
              "framefeed lz4, RGB": 90.0}  # fmt: skip
    timings = Timings({name: {n: Reading(took, took) for n in range(3)} for name, took in seconds.items()})
    by_key = {comparison.key: comparison.figures for comparison in compare_exact(timings, nbytes).comparisons}
    speed = by_key["speed of joblib lz4, its fastest level"]["framefeed zstd, planes"]
    assert (speed.against, speed.value.median) == ("joblib lz4 5", 1.5)
    assert by_key["bytes of joblib lz4, its fastest level"]["framefeed zstd, planes"].value == 0.5
    assert list(by_key["speed of joblib lz4 1"]) == ["framefeed lz4, RGB", "framefeed zstd, planes"]
    assert list(by_key["speed of framefeed lz4, RGB"]) == ["framefeed zstd, planes"]
    assert "bytes of PNG (OpenCV)" in by_key


def test_overheads_are_taken_round_by_round() -> None:
    timings = Timings()
    for number, load in enumerate((1.0, 5.0, 2.0)):
        timings.add("without", number, Reading(load, load))
        timings.add("filling", number, Reading((1.1 + number / 100) * load, 1.2 * load))
    overhead = timings.ratio("filling", "without").scale(100, -100)
    assert (overhead.low, overhead.median, overhead.high) == pytest.approx((10, 11, 12))
    assert timings.ratio("filling", "without", "wall").scale(100, -100).median == pytest.approx(20)


# --- advice ---------------------------------------------------------------------------------------


def figures_of(codec: str, raw: int, stored: int, write_ms: float, read_ms: float) -> CodecFigures:
    return CodecFigures(codec, True, 50, 50 * raw, 50 * stored, 50 * write_ms / 1e3, 50 * read_ms / 1e3)


DECODING = CacheOption(20.0)
RAW = CacheOption(0.025, 0.1, 150_000, "output", figures_of("raw", 150_000, 150_000, 0.01, 0.02))
LZ4 = CacheOption(0.06, 0.3, 60_000, "output", figures_of("lz4", 150_000, 60_000, 0.2, 0.06))
PLANES = CacheOption(1.3, 2.0, 220_000, "planes", figures_of("zstd", 1_400_000, 220_000, 1.5, 1.0))
WAYS = [RAW, LZ4, PLANES]
HERE = Setting(2, 500.0, True, 1000, "224x224", 2**34)


def picked(advice: Advice) -> dict[str, str]:
    return {pick.where: pick.option.codec for pick in advice.picks}


def test_from_memory_the_processor_decides_and_from_the_disk_the_bytes() -> None:
    fixed, free = advise(DECODING, WAYS, HERE)
    assert picked(fixed) == {"memory": "raw", "disk": "lz4"}
    assert picked(free) == {"memory": "zstd", "disk": "zstd"}
    assert [pick.gain for pick in fixed.picks] == pytest.approx([800, 500e6 / 60_000 / 100])
    assert [pick.passes for pick in (*fixed.picks, *free.picks)] == [1] * 4


@pytest.mark.parametrize("memory_bytes", [0, 10**8, 2 * 10**8, 10**12])
@pytest.mark.parametrize("disk_mb", [100.0, 1e6])
def test_the_advice_is_what_auto_takes(memory_bytes: int, disk_mb: float) -> None:
    advice = advise(DECODING, WAYS, replace(HERE, memory_bytes=memory_bytes, disk_mb=disk_mb))[0]
    taken = choose_codec(
        [RAW.figures, LZ4.figures], Conditions(150_000 * 1000, None, memory_bytes, disk_mb * 1e6)
    ).codec
    assert advice.auto == taken
    assert taken in picked(advice).values()


def test_what_the_disk_takes_to_write_leaves_no_codec_out() -> None:
    long_written = replace(RAW, write_ms=10 * LZ4.write_ms)
    assert picked(advise(DECODING, [long_written, LZ4], HERE)[0])["memory"] == "raw"
    slow = replace(RAW, figures=replace(RAW.figures, write_seconds=10 * LZ4.figures.write_seconds))
    assert picked(advise(DECODING, [slow, LZ4], HERE)[0])["memory"] == "lz4"


def test_a_choice_of_neither_memory_nor_disk_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choose(figures: Sequence[CodecFigures], conditions: Conditions) -> CodecChoice:
        codec = {0: "raw", HERE.memory_bytes: "lz4"}.get(conditions.memory_bytes, "zstd")
        return CodecChoice(codec, tuple(figures), f"{codec}: so it is")

    monkeypatch.setattr("framefeed.bench.cache._advice.choose_codec", choose)
    options = [RAW, LZ4, replace(LZ4, figures=replace(LZ4.figures, codec="zstd"))]
    (advice,) = advise(DECODING, options, HERE)
    assert picked(advice) == {"memory": "zstd", "disk": "raw", "here": "lz4"}
    lines = advice_lines(DECODING, [advice], HERE)
    assert [line for line in lines if "auto" in line] == [line for line in lines if 'codec="lz4"' in line]
    assert [line.strip() for line in lines if "so it is" in line] == [f"{pick.reason}" for pick in advice.picks]


def test_random_crops_are_never_advised_to_keep_outputs() -> None:
    assert [advice.use for advice in advise(DECODING, [RAW, LZ4], HERE)] == ["fixed"]
    assert [advice.use for advice in advise(DECODING, [PLANES], HERE)] == ["free"]


def test_a_cache_that_is_hardly_faster_is_not_worth_it() -> None:
    quick = CacheOption(1.7)
    (free,) = advise(quick, [PLANES], HERE)
    assert {pick.option for pick in free.picks} == {quick}
    assert "stay with the original" in "\n".join(advice_lines(quick, [free], HERE))


def test_storing_that_takes_longer_than_decoding_is_paid_back_later() -> None:
    slow = replace(LZ4, read_ms=0.1, write_ms=100.0)
    assert {pick.passes for pick in advise(DECODING, [slow], HERE)[0].picks} == {6}


def test_the_advice_names_what_it_rests_on() -> None:
    advices = advise(DECODING, WAYS, HERE)
    text = "\n".join(advice_lines(DECODING, advices, HERE))
    for part in ("2 cores", "500 MB/s (measured cold)",
                 "while the cache fits in memory: FrameCache(path, codec=\"raw\"",
                 "read from this disk: FrameCache(path, codec=\"lz4\"", "60 MB for all 1,000 frames",
                 "memory, and read from this disk: FrameCache(path, codec=\"zstd\", form=\"planes\")",
                 "limited by the disk", "the next pass", *(pick.reason for each in advices for pick in each.picks),
                 ):  # fmt: skip
        assert part in text
    assert "assumed" in advice_lines(DECODING, [], replace(HERE, is_measured=False))[0]


def entry_of(**facts: object) -> dict[str, object]:
    figures = {"num_frames": 50, "raw_bytes": 450, "stored_bytes": 250, "write_seconds": 1.0, "read_seconds": 0.5}
    return {"group": "framefeed", "name": "framefeed lz4", "form": "planes", "bytes_a_frame": 5, "write_cpu_ms": 2.0,
            "wrong": [], "read_cpu_ms": {"rgb": 1.0, "small": 0.5}, "codec_figures": figures, **facts}  # fmt: skip


def test_lines_of_the_table_become_options() -> None:
    figures = CodecFigures("lz4", True, 50, 450, 250, 1.0, 0.5)
    assert make_option(entry_of()) == CacheOption(0.5, 2.0, 5, "planes", figures)
    assert make_option(entry_of(form="224x224")) == CacheOption(0.5, 2.0, 5, "output", figures)
    assert make_option(entry_of(group="original")) == CacheOption(0.5)
    assert make_option(entry_of(wrong=["differs"])) is None
    assert make_option(entry_of(read_cpu_ms={"rgb": 1.0})) is None
    lossy = entry_of()
    del lossy["codec_figures"]
    assert make_option(lossy) is None


def test_loss_is_offered_where_it_saves_half_and_never_what_is_wrong() -> None:
    def lossy(codec: str, nbytes: int, worst: float, wrong: Sequence[str] = ()) -> dict[str, object]:
        return {
            "group": "framefeed", "name": f"framefeed {codec}", "form": "planes", "is_exact": False, "wrong": wrong,
            "bytes_a_frame": nbytes, "mb_whole": nbytes, "psnr_db": {"mean": worst + 5, "worst": worst},
        }  # fmt: skip

    entries = [lossy("a", 50, 40.0), lossy("b", 100, 45.0), lossy("c", 120, 50.0), lossy("d", 90, 60.0, ["lost"])]
    option = replace(PLANES, nbytes=200)
    exact = Advice("free", (Pick("disk", option, 1, 5.0, 1, ""),), "zstd")
    (line,) = loss_lines(entries, [exact], has_crops=True)
    assert 'codec="b"' in line
    assert "look at the crops" in line
    (line,) = loss_lines(entries, [exact], has_crops=False)
    assert "look at" not in line
    assert "--crops FOLDER" in line
    assert loss_lines(entries, [Advice("free", (Pick("disk", DECODING, 1, 1.0, None, ""),), "zstd")], True) == []
