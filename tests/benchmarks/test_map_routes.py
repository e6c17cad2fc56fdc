"""Rows about mapped videos, made small."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.map import functions, outputs, rows
from benchmarks.map.outputs import SMALL, check_small, compare_output, write_small
from benchmarks.map.routes import ROUTES, Job
from framefeed.bench import BenchVideo, Contender, Reading, Rounds, Timings, ready, run_row
from framefeed.bench.baselines import Peers, load_module
from framefeed.errors import MissingMedia
from framefeed.testing import ClipSpec, draw_stamp, write_clip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BenchVideo:
    return write_small(tmp_path_factory.mktemp("small"))


def write_mapped(path: Path, *, order: list[int] | None = None, marks: bool = True) -> Path:
    """Write what a route should make of the small clip, or something else."""
    order = order or list(range(SMALL.num_frames))

    def draw(number: int) -> Any:
        picture = draw_stamp(order[number], SMALL.height, SMALL.width)
        return functions.draw_mark(picture, order[number]) if marks else picture

    return write_clip(path, replace(SMALL, num_frames=len(order), draw=draw))


def test_a_mapped_clip_is_read_frame_by_frame(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    assert check_small(write_mapped(out), is_marked=True) == []
    swapped = [1, 0, *range(2, SMALL.num_frames)]
    assert "in order" in check_small(write_mapped(out, order=swapped), is_marked=True)[0]
    assert "in order" in check_small(write_mapped(out, order=swapped[2:]), is_marked=True)[0]
    assert "made them" in check_small(write_mapped(out, marks=False), is_marked=True)[0]


def test_the_long_output_is_compared_with_its_source(tmp_path: Path, small: BenchVideo) -> None:
    out = tmp_path / "out.mp4"
    wrong, quality = compare_output(small, write_mapped(out), is_marked=True)
    assert wrong == []
    assert quality is not None
    assert quality.psnr > 30
    later = [*range(1, SMALL.num_frames), 0]
    wrong, _ = compare_output(small, write_mapped(out, order=later, marks=False), is_marked=False)
    assert "not the source's frame" in wrong[0]
    wrong, quality = compare_output(small, write_mapped(out, order=later[:9]), is_marked=True)
    assert (wrong, quality) == ([f"expected {SMALL.num_frames} frames, got 9"], None)
    out.write_bytes(b"no video")
    assert compare_output(small, out, is_marked=True)[1] is None


def test_tiles_are_put_together_again() -> None:
    frame = np.random.Generator(np.random.Philox(key=1)).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    tiles = functions.stack_tiles(frame, 3)
    assert tiles.shape == (4, 24, 32, 3)
    assert np.array_equal(functions.join_tiles(tiles), frame)
    assert np.array_equal(tiles[1], frame[:24, 32:])


def test_functions_take_about_as_long_as_asked_and_mark_the_frame() -> None:
    frame = np.full((48, 64, 3), 100, dtype=np.uint8)
    for name, work in (("lock", functions.hold_lock), ("free", functions.free_lock)):
        turns = functions.find_turns(work, 0.002)
        assert turns >= 1
        function = functions.NAMED[name](turns)
        assert function(frame, index=1, pts_seconds=0.0)[-1, -1, 0] == 235
        assert function(frame, index=2, pts_seconds=0.0)[-1, -1, 0] == 16
        assert frame[0, 0, 0] == 100


@pytest.mark.parametrize("function", ["lock", "tiles", "identity"])
def test_the_loop_maps_every_frame(tmp_path: Path, small: BenchVideo, function: str) -> None:
    if isinstance(why := load_module("opencv"), str):
        pytest.skip(why)
    job = Job("loop", str(small.path), str(tmp_path / "out.mp4"), function, "25", turns=2)
    assert ROUTES["loop"](job)() == 0
    assert check_small(Path(job.out), is_marked=function != "identity") == []


@pytest.mark.slow
def test_stored_frames_become_the_same_video(tmp_path: Path, small: BenchVideo) -> None:
    for name in ("opencv", "torch"):
        if isinstance(why := load_module(name), str):
            pytest.skip(why)
    fields = {"format": "PNG (OpenCV)", "module": "opencv"}
    job = Job("store", str(small.path), str(tmp_path / "out.mp4"), "tiles", "25", **fields)
    result = job.run()
    assert result["stored"] == sum(each.stat().st_size for each in Path(f"{job.out}.frames").iterdir())
    assert check_small(Path(job.out), is_marked=True) == []


def test_worse_outputs_of_ours_are_named() -> None:
    quality = {
        "framefeed, threads": outputs.Quality(38.0, 1.0),
        "OpenCV loop": outputs.Quality(40.0, 1.0),
        "JPEG q70": outputs.Quality(31.0, 1.0),
    }
    assert rows.find_unequal(quality) == ["framefeed, threads: 38.0 dB, and OpenCV loop has 40.0 dB"]
    assert rows.find_unequal({"framefeed": outputs.Quality(38.0, 1.0)}) == []


def make_peers(*names: str) -> Peers:
    return Peers({name: object() for name in names})


def test_rates_are_short_fractions(tmp_path: Path) -> None:
    video = BenchVideo(write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=9, fps=Fraction(24000, 1001))))
    assert rows.start_job(video, tmp_path, "loop", "lock").rate == "24000/1001"
    uneven = ClipSpec(num_frames=4, pts=(0, 33, 71, 99), time_base=Fraction(1, 1000))
    job = rows.start_job(BenchVideo(write_clip(tmp_path / "b.mp4", uneven)), tmp_path, "loop", "lock")
    assert Fraction(job.rate).denominator < 2000


def test_the_bound_is_the_loop_on_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: BenchVideo) -> None:
    monkeypatch.setattr(rows, "FUNCTION_SECONDS", 0.0001)
    row = rows.lock_row("lock", small, make_peers("opencv", "pyav"), tmp_path)
    took = {rows.LOOP: Reading(cpu=12.0, wall=10.0), rows.PROCESSES: Reading(cpu=12.0, wall=8.0)}
    timings = Timings({name: dict.fromkeys(range(3), each) for name, each in took.items()})
    figures = {each.key: each.figures for each in row.conclude(timings).comparisons}
    assert figures["lock"]["wall"].value.median == pytest.approx(1.25)
    assert figures["bound"]["wall"].value.median == pytest.approx(10 / 6)
    assert figures["bound"]["share"].value.median == pytest.approx(1.25 * 6 / 10)


def test_a_row_needs_the_loop(tmp_path: Path, small: BenchVideo) -> None:
    with pytest.raises(MissingMedia, match="no cv2"):
        rows.lock_row("lock", small, Peers(missing={"opencv": "no cv2", "pyav": ""}), tmp_path)


def test_a_route_is_timed_checked_and_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: BenchVideo
) -> None:
    """The runs are replaced by ready outputs, so that no library is needed."""

    def run(job: Job) -> dict[str, Any]:
        write_mapped(Path(job.out))
        return {"cpu": 2.0, "wall": 1.0, "stored": 0}

    monkeypatch.setattr(Job, "run", run)
    entries = [rows.Entry("ours", rows.start_job(small, tmp_path, "ours", "lock"))]
    row = run_row(rows.make_row("lock", "a title", small, entries, tmp_path, lambda timings, outcome: []), Rounds(2))
    (line,) = row["contenders"]
    assert (line["num_wrong"], line["cpu_seconds"], line["amount"]) == (0, [2.0, 2.0], SMALL.num_frames)
    assert row["facts"]["PSNR_of_luma_dB"]["ours"] > 30
    assert not os.path.exists(tmp_path / "small_mapped.mp4")


def test_a_contender_is_checked_by_its_small_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = write_small(tmp_path)
    monkeypatch.setattr(Job, "run", lambda job: write_mapped(Path(job.out), order=[0, 2, 1]) and {})
    entries = [rows.Entry("ours", rows.start_job(video, tmp_path, "ours", "lock"))]
    row = rows.make_row("lock", "a title", video, entries, tmp_path, lambda timings, outcome: [])
    assert "in order" in (row.check(Contender("ours", ready(lambda number: None))) or [""])[0]
