"""The parts of ``bench cache``: what is compared, how a file is forgotten, what is made of figures."""

import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.bench._media import BenchVideo
from framefeed.bench._runner import Reading, Rounds, Timings
from framefeed.bench.baselines import Peers
from framefeed.bench.cache._checking import CROP, check, draw_crops
from framefeed.bench.cache._pages import count_pages, count_resident_pages, forget, measure_disk
from framefeed.bench.cache._sample import near_keys, take_sample, video_of
from framefeed.bench.cache._suite import PEERS
from framefeed.bench.cache._table import choose_codecs, describe_choice
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


def test_overheads_are_taken_round_by_round() -> None:
    timings = Timings()
    for number, load in enumerate((1.0, 5.0, 2.0)):
        timings.add("without", number, Reading(load, load))
        timings.add("filling", number, Reading((1.1 + number / 100) * load, 1.2 * load))
    overhead = timings.ratio("filling", "without").scale(100, -100)
    assert (overhead.low, overhead.median, overhead.high) == pytest.approx((10, 11, 12))
    assert timings.ratio("filling", "without", "wall").scale(100, -100).median == pytest.approx(20)


# --- the choice -----------------------------------------------------------------------------------


def entry_of(codec: str, milliseconds: float, nbytes: int, form: str = "224x224", **facts: object) -> dict[str, object]:
    return {"group": "framefeed", "name": f"framefeed {codec}", "form": form, "bytes_a_frame": nbytes, "wrong": [],
            "is_exact": True, "read_cpu_ms": {"small": milliseconds}, **facts}  # fmt: skip


ORIGINAL = {"group": "original", "name": "original", "wrong": [], "is_exact": True, "read_cpu_ms": {"small": 20.0}}
RAW, LZ4 = entry_of("raw", 0.025, 150_000), entry_of("lz4", 0.06, 60_000)
PLANES = entry_of("zstd", 1.3, 220_000, "planes")


def choices(*entries: dict[str, object], disk: Any = None) -> list[tuple[str, str, str | None, float]]:
    rows = choose_codecs([ORIGINAL, *entries], 2, disk or {"read": 500.0})
    return [(row["form"], row["from"], row["codec"], row["gain"]) for row in rows]


def test_from_memory_the_processor_decides_and_from_the_disk_the_bytes() -> None:
    assert choices(RAW, LZ4, PLANES) == [
        ("output", "memory", "raw", 800.0),
        ("output", "disk", "lz4", 83.33),
        ("planes", "memory", "zstd", 15.38),
        ("planes", "disk", "zstd", 15.38),
    ]


def test_what_cannot_be_compared_is_not_chosen() -> None:
    wrong, lossy = entry_of("a", 0.001, 1, wrong=["differs"]), entry_of("jpeg:90", 0.001, 1, is_exact=False)
    theirs, whole = entry_of("b", 0.001, 1, group="theirs"), entry_of("c", 0.001, 1, read_cpu_ms={"rgb": 0.001})
    assert choices(LZ4, wrong, lossy, theirs, whole, disk="no fadvise here") == [("output", "memory", "lz4", 333.33)]
    assert choose_codecs([RAW], 2, {"read": 500.0}) == []


def test_a_cache_that_is_hardly_faster_is_not_worth_it() -> None:
    slow = entry_of("lz4", 15.0, 10, "planes")
    rows = choose_codecs([ORIGINAL, slow, LZ4], 2, {"read": 500.0})
    assert [row["codec"] for row in rows] == ["lz4", "lz4", None, None]
    lines = describe_choice(rows, 2)
    assert lines[1] == "the exact codec that reads fastest, with 2 threads"
    assert [line.split()[-1] for line in lines[3:]] == ["333", "83.3", "1.3", "1.3"]
    assert [("no cache: it is hardly faster" in line) for line in lines[3:]] == [False, False, True, True]
    assert describe_choice([], 2) == []
