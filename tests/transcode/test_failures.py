"""What goes wrong in the function, in the source and at the output."""

from __future__ import annotations

import errno
import functools
import gc
import os
import resource
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import framefeed as ff
from framefeed import _stopping
from framefeed._files import replacing
from framefeed.testing import AudioSpec, ClipSpec, write_clip
from framefeed.transcode import _folder, _iterating, _map_video, _running
from framefeed.transcode._reading import FrameReader
from framefeed.transcode._segments import plan_segments
from framefeed.transcode._targets import VideoTarget
from framefeed.transcode._timetable import make_timetable
from tests.corpus import clip_file
from tests.damaged import damaged_clip
from tests.decode.forks import result_of_child
from tests.parallel.clocks import HandClock
from tests.parallel.functions import shared_memory
from tests.parallel.living import ending_time_of
from tests.patience import PATIENCE_SECONDS
from tests.transcode import functions
from tests.transcode.functions import HarmfulFunction, Recorded
from tests.transcode.hanging import HangingFunction

COUNT = 110


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("map") / "clip.mp4", ClipSpec(num_frames=COUNT, height=48, width=64))


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "out.mp4"


def lengths_of(clip: Path) -> list[int]:
    """Lengths of the segments."""
    index = ff.build_index(clip)
    return [len(each) for each in plan_segments(make_timetable(index, None, "clip"), index)]


def names_beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


def iterate(source: Any, function: Any, out: Path, **options: Any) -> Any:
    with ff.map_video(source, function, **options) as mapped:
        return list(mapped)


FORMS: dict[str, Callable[..., Any]] = {"video": ff.map_video, "iterator": iterate}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_frame_and_time(clip: Path, out: Path, calls: Path, form: str, workers: int) -> None:
    before = threading.active_count()
    with pytest.raises(ff.LoadError, match=r"frame 70 \(2\.800000 s\).*ArithmeticError: no result for 70") as caught:
        FORMS[form](clip, Recorded(calls, {70: "raise"}), out, workers=workers)
    error = caught.value
    assert (error.position, error.source, error.stage) == (70, str(clip), "function")
    assert isinstance(error.__cause__, ArithmeticError)
    assert "in __call__" in "".join(traceback.format_exception(error.__cause__))
    assert not out.exists()
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_ends_the_iteration(clip: Path, workers: int) -> None:
    def function(frame: Any, *, index: int, pts_seconds: float) -> int:
        if index == 3:
            raise ArithmeticError("no result")
        return index

    with ff.map_video(clip, function, workers=workers) as mapped:
        assert [next(mapped).index for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ff.LoadError, match="frame 3 "):
            next(mapped)
        assert next(mapped, None) is None


@pytest.mark.parametrize("form", FORMS)
def test_an_error_of_a_batch_names_its_first_and_last_frame(clip: Path, out: Path, calls: Path, form: str) -> None:
    function = HarmfulFunction(calls, {}, frozenset({9}), has_tiles=False)
    with pytest.raises(ff.LoadError, match=r"frame 8 \(0\.320000 s\) to frame 11 \(0\.440000 s\): ") as caught:
        FORMS[form](clip, function, out, workers=1, batch_size=4)
    assert caught.value.position == 8


@pytest.mark.slow
@pytest.mark.parametrize("form", ["iterator", pytest.param("video", marks=pytest.mark.test_all)])
def test_an_error_in_a_process_brings_its_traceback(clip: Path, out: Path, calls: Path, form: str) -> None:
    with pytest.raises(ff.LoadError, match="frame 70") as caught:
        FORMS[form](clip, Recorded(calls, {70: "raise"}), out, workers=1, kind="processes")
    assert (caught.value.position, caught.value.stage) == (70, "function")
    assert caught.value.remote_traceback is not None
    assert 'raise ArithmeticError(f"no result for {index}")' in caught.value.remote_traceback


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("is_video", [True, False])
def test_the_next_run_continues(clip: Path, out: Path, calls: Path, workers: int, is_video: bool) -> None:
    target = out if is_video else out.parent / "images"
    ff.map_video(clip, Recorded(calls), target, workers=0)
    whole = {path.name: path.read_bytes() for path in (target.parent if is_video else target).iterdir()}
    for path in [*calls.iterdir(), *([target] if is_video else target.iterdir())]:
        path.unlink()
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {80: "raise"}), target, workers=workers)
    result = ff.map_video(clip, Recorded(calls), target, workers=1)
    # Of several threads, the one with the error may be the first to be anywhere.
    assert (0 if workers else sum(lengths_of(clip)[:2])) <= result.num_resumed_frames < COUNT
    assert result.num_pictures == result.num_frames == COUNT
    numbers = calls_of(calls)
    assert set(numbers) == set(range(COUNT))
    # Frames of segments that were not finished are called twice.
    assert len(numbers) < 2 * COUNT - result.num_resumed_frames
    assert {path.name: path.read_bytes() for path in (target.parent if is_video else target).iterdir()} == whole


@pytest.mark.parametrize("is_cut", [False, True])
def test_images_that_are_missing_or_cut_are_made_again(clip: Path, out: Path, calls: Path, is_cut: bool) -> None:
    target = out.parent / "images"
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {80: "raise"}), target, workers=0)
    image = target / "frame_000003_0.120000000s.png"
    data = image.read_bytes()
    if is_cut:
        image.write_bytes(data[:-5])
    else:
        image.unlink()
    assert ff.map_video(clip, Recorded(calls), target, workers=0).num_resumed_frames == lengths_of(clip)[1]
    assert len(list(target.iterdir())) == COUNT
    assert image.read_bytes() == data


def test_frames_of_an_earlier_run_are_counted_once_where_fps_repeats_them(clip: Path, out: Path, calls: Path) -> None:
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {80: "raise"}), out, workers=0, fps=50)
    begun = len(calls_of(calls))
    result = ff.map_video(clip, Recorded(calls), out, workers=0, fps=50)
    assert (result.num_frames, result.num_pictures) == (COUNT, 2 * COUNT)
    assert result.num_resumed_frames == COUNT - (len(calls_of(calls)) - begun) > 0


def calls_of(folder: Path) -> list[int]:
    return Recorded(folder).calls()


def test_a_run_can_start_anew(clip: Path, out: Path, calls: Path) -> None:
    for options in ({"resume": False}, {"quality": 30}, {"fps": 25}, {"batch_size": None, "on_error": "skip"}):
        with pytest.raises(ff.LoadError):
            ff.map_video(clip, Recorded(calls, {80: "raise"}), out, workers=0, overwrite=True)
        assert ff.map_video(clip, Recorded(calls), out, workers=0, **options).num_resumed_frames == 0
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {80: "raise"}), out, workers=0, overwrite=True)
    assert ff.map_video(clip, functions.invert, out, workers=0).num_resumed_frames == 0


def test_another_setup_starts_anew(clip: Path, out: Path, calls: Path) -> None:
    def function(frame: Any, *, index: int, pts_seconds: float, state: Any) -> Any:
        if index == 80 and calls.exists():
            raise ArithmeticError("no result")
        return frame

    with pytest.raises(ff.LoadError):
        ff.map_video(clip, function, out, workers=0, setup=functions.load_offset)
    calls.rmdir()
    assert ff.map_video(clip, function, out, workers=0, setup=dict).num_resumed_frames == 0


@pytest.mark.parametrize("action", ["skip", "keep"])
@pytest.mark.parametrize("form", FORMS)
def test_failed_frames_are_skipped_or_kept(clip: Path, out: Path, calls: Path, action: str, form: str) -> None:
    def spoil(frame: Any, *, index: int, pts_seconds: float) -> Any:
        frame[:] = 7
        raise ArithmeticError(f"no result for {index}")

    def function(frame: Any, *, index: int, pts_seconds: float) -> Any:
        return spoil(frame, index=index, pts_seconds=pts_seconds) if index in (0, 31, 109) else frame

    with ff.map_video(clip, functions.keep, workers=1) as kept:
        frames = [frame.result for frame in kept]
    if form == "video":
        ledger = ff.map_video(clip, function, out, workers=2, on_error=action, codec="ffv1", quality=None)  # type: ignore[call-overload]
    else:
        with ff.map_video(clip, function, workers=2, on_error=action) as mapped:  # type: ignore[call-overload]
            given = {frame.index: frame.result for frame in mapped}
            assert sorted(given) == [n for n in range(COUNT) if action == "keep" or n not in (0, 31, 109)]
            assert action == "skip" or (given[31] == frames[31]).all()
            ledger = mapped
    assert [fault.frame for fault in ledger.ledger] == [0, 31, 109]
    fault = ledger.ledger[1]
    assert (fault.stage, fault.action) == ("function", {"skip": "skipped", "keep": "kept"}[action])
    assert fault.reason == "ArithmeticError: no result for 31"
    assert fault.pts_seconds == 31 / 25
    if form == "video":
        assert ledger.num_pictures == (COUNT if action == "keep" else COUNT - 3)
        written = ff.VideoDecoder(out, dimension_order="NHWC")[:]
        assert action == "skip" or (written[31] == frames[31]).all()


def test_faults_of_an_earlier_run_are_in_the_ledger(clip: Path, out: Path, calls: Path) -> None:
    def function(frame: Any, *, index: int, pts_seconds: float) -> Any:
        if index in (0, 3):
            raise ArithmeticError("no result")
        if index == 100 and calls.exists():
            raise MemoryError
        return frame

    with pytest.raises(ff.ResourceExhausted, match="memory"):
        ff.map_video(clip, function, out, workers=0, on_error="skip")
    calls.rmdir()
    result = ff.map_video(clip, function, out, workers=0, on_error="skip")
    assert result.num_resumed_frames > 0
    assert [(fault.frame, fault.pts_seconds) for fault in result.ledger] == [(0, 0.0), (3, 3 / 25)]
    assert result.num_pictures == COUNT - 2


def test_a_shortage_comes_before_the_error_of_a_frame(clip: Path, out: Path) -> None:
    together = threading.Barrier(2)

    def function(frame: Any, *, index: int, pts_seconds: float) -> Any:
        together.wait()
        raise MemoryError if index else ArithmeticError

    with pytest.raises(ff.ResourceExhausted, match="memory"):
        ff.map_video(clip, function, out, workers=2)


RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "float": (lambda frame: frame / 255.0, "float64"),  # others: test_pictures.py
    "odd width": (lambda frame: frame[:, 1:], "63 x 48.*yuv444p"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_wrong_results_name_the_frame(clip: Path, out: Path, kind: str) -> None:
    change, message = RESULTS[kind]
    with pytest.raises(ff.UsageError, match=message) as caught:
        ff.map_video(clip, lambda frame, **_: change(frame), out, workers=2)
    assert caught.value.position is not None
    assert names_beside(out) == []


@pytest.mark.parametrize("at", [40, 50, 75])
def test_another_size_names_both_frames(clip: Path, out: Path, at: int) -> None:
    def function(frame: Any, *, index: int, pts_seconds: float) -> Any:
        return frame[:32] if index >= at else frame

    with pytest.raises(ff.UsageError, match=r"64 x 32 .* for frame \d+.*64 x 48 for frame"):
        ff.map_video(clip, function, out, workers=2)
    with pytest.raises(ff.UsageError, match=r"gave 2 pictures for frame \d+, and 1 for frame"):
        ff.map_video(
            clip, lambda frame, *, index, pts_seconds: [frame] * (1 + (index >= at)),
            out.with_name("out{picture}.mp4"), workers=2,
        )  # fmt: skip


def test_an_odd_size_fits_other_pixel_formats(clip: Path, out: Path) -> None:
    ff.map_video(clip, lambda frame, **_: frame[1:, 1:], out, workers=1, pixel_format="yuv444p")
    assert ff.build_index(out).stream.displayed == (47, 63)


def test_functions_of_a_script_are_refused_with_processes(clip: Path, out: Path) -> None:
    for name, wrong in (
        ("function", {"function": lambda frame, **_: frame}),
        ("setup", {"setup": lambda: 1, "function": functions.add_state}),
    ):
        options: dict[str, Any] = {"function": functions.keep, **wrong}
        for target in (out, None):
            with pytest.raises(ff.UsageError, match=f'{name}: .*cannot be sent.*kind="threads"'):
                ff.map_video(clip, out=target, workers=1, kind="processes", **options)  # type: ignore[call-overload]
    assert names_beside(out) == []


def test_setup_that_fails(clip: Path, out: Path) -> None:
    def set_up() -> None:
        raise LookupError("no weights")

    for form in FORMS.values():
        for workers in (0, 1):
            with pytest.raises(ff.LoadError, match="setup raised LookupError: no weights") as caught:
                form(clip, functions.add_state, out, setup=set_up, workers=workers)
            assert caught.value.stage == "setup"


THREADS = [("threads", workers, form) for workers in (0, 2) for form in FORMS]
WISHES: dict[str, type[BaseException]] = {"exit": SystemExit, "raise interrupt": KeyboardInterrupt}
SLOW_IN_TEST_ALL = [pytest.mark.slow, pytest.mark.test_all]


@pytest.mark.parametrize(
    ("kind", "workers", "form", "fate"),
    [
        *((*each, fate) for each in THREADS for fate in WISHES),
        pytest.param("processes", 2, "video", "exit", marks=pytest.mark.slow),
        pytest.param("processes", 2, "iterator", "raise interrupt", marks=pytest.mark.slow),
        pytest.param("processes", 2, "video", "raise interrupt", marks=SLOW_IN_TEST_ALL),
        pytest.param("processes", 2, "iterator", "exit", marks=SLOW_IN_TEST_ALL),
    ],
)
def test_a_wish_to_stop_is_no_failed_frame(
    clip: Path, out: Path, calls: Path, kind: str, workers: int, form: str, fate: str
) -> None:
    with pytest.raises(WISHES[fate], match={"exit": "3", "raise interrupt": "my own"}[fate]):
        FORMS[form](clip, Recorded(calls, {70: fate}), out, workers=workers, kind=kind, on_error="skip")
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "workers", "form"),
    [
        *THREADS,
        pytest.param("processes", 2, "iterator", marks=pytest.mark.slow),
        pytest.param("processes", 2, "video", marks=SLOW_IN_TEST_ALL),
    ],
)
def test_a_setup_may_leave_the_program(clip: Path, out: Path, kind: str, workers: int, form: str) -> None:
    with pytest.raises(SystemExit, match="3"):
        FORMS[form](clip, functions.add_state, out, workers=workers, kind=kind, setup=functions.leave)
    assert names_beside(out) == []


CALLS_BESIDE_A_LATE_ONE = 2 * _iterating._CALLS_AHEAD - 1
"""Calls of an iterator with two workers that begin while the first of them hangs."""


@pytest.mark.parametrize("form", FORMS)
def test_a_thread_that_hangs_is_named(
    clip: Path, out: Path, form: str, hand_clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, is_alone, work = set(threading.enumerate()), threading.Event(), _running.SegmentRun._work

    def work_to_the_end(run: Any, worker: int) -> None:
        work(run, worker)
        is_alone.set()

    if form == "video":
        monkeypatch.setattr(_running.SegmentRun, "_work", work_to_the_end)
        monkeypatch.setattr(_running, "perf_counter", hand_clock)
        monkeypatch.setattr(_stopping, "perf_counter", hand_clock)
        function = HangingFunction(hand_clock, 60, is_alone)
    else:
        function = HangingFunction(hand_clock, 60, num_calls=60 + 1 + CALLS_BESIDE_A_LATE_ONE)
    try:
        with pytest.raises(ff.DeadlineExceeded, match=r"frame 60 \(2\.400000 s\).*deadline_seconds") as caught:
            FORMS[form](clip, function, out, workers=2, deadline_seconds=0.2)
        assert caught.value.position == 60
    finally:
        function.release.set()
    # Those of other tests, of pytest and of libraries stay.
    for thread in set(threading.enumerate()) - others:
        thread.join(PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_process_that_hangs_is_named_and_killed(clip: Path, out: Path, calls: Path) -> None:
    def list_hung() -> list[int]:
        return [int(path.name.split("-")[-1]) for path in calls.glob("000060-*")]

    function = Recorded(calls, {60: "hang"})
    with (
        ending_time_of(list_hung),
        pytest.raises(ff.DeadlineExceeded, match=r"frame 60.*deadline_seconds") as caught,
    ):
        ff.map_video(clip, function, out, workers=1, kind="processes", deadline_seconds=PATIENCE_SECONDS)
    assert caught.value.position == 60
    # Finished segments are kept, and nothing of the others.
    assert ff.map_video(clip, Recorded(calls), out, workers=1).num_resumed_frames >= 25


@pytest.mark.slow
@pytest.mark.parametrize("form", ["video", pytest.param("iterator", marks=pytest.mark.test_all)])
def test_a_frame_that_kills_two_processes_is_named(clip: Path, out: Path, calls: Path, form: str) -> None:
    with pytest.raises(ff.WorkerLost, match=r"frame 60 \(2\.4") as caught:
        FORMS[form](clip, Recorded(calls, {60: "die"}), out, workers=1, kind="processes")
    assert caught.value.position == 60
    assert calls_of(calls).count(60) == 2


@pytest.mark.parametrize(("fps", "at", "position"), [(None, 9, 8), (12.5, 18, 16)])
def test_a_call_of_several_frames_that_hangs_is_named_by_its_first(
    clip: Path, out: Path, fps: float | None, at: int, position: int, hand_clock: HandClock
) -> None:
    # Each is in the third call.
    function = HangingFunction(hand_clock, at, num_calls=3 + CALLS_BESIDE_A_LATE_ONE)
    try:
        with pytest.raises(ff.DeadlineExceeded, match=f"frame {position} ") as caught:
            iterate(clip, function, out, workers=2, deadline_seconds=0.2, batch_size=4, fps=fps)
        assert caught.value.position == position
    finally:
        function.release.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "fps", "at", "position"),
    [
        ("video", None, 9, 8),
        ("iterator", 12.5, 18, 16),
        pytest.param("iterator", None, 9, 8, marks=pytest.mark.test_all),
        pytest.param("video", 12.5, 18, 16, marks=pytest.mark.test_all),
    ],
)
def test_L04_a_call_of_several_frames_that_kills_two_processes_is_named_by_its_first(
    clip: Path, out: Path, calls: Path, form: str, fps: float | None, at: int, position: int
) -> None:
    function = HarmfulFunction(calls, {at: ("die", "die")}, frozenset(), has_tiles=False)
    with pytest.raises(ff.WorkerLost, match=f"frame {position} ") as caught:
        FORMS[form](clip, function, out, workers=1, kind="processes", batch_size=4, fps=fps)
    assert caught.value.position == position


@pytest.mark.slow
def test_L04_an_error_is_not_hidden_by_the_end_of_the_other_processes(clip: Path, out: Path, calls: Path) -> None:
    # The process of the first segment is in a call, and is killed after the error of the second one.
    fates = {0: "hang", lengths_of(clip)[0]: "raise beside 0"}
    with pytest.raises(ff.LoadError, match="ArithmeticError: no result") as caught:
        ff.map_video(clip, Recorded(calls, fates), out, workers=2, kind="processes")
    assert caught.value.position == lengths_of(clip)[0]


@pytest.mark.slow
def test_a_process_that_dies_once_is_replaced(clip: Path, out: Path, calls: Path) -> None:
    ff.map_video(clip, functions.invert, out.with_name("whole.mp4"), workers=1)
    result = ff.map_video(clip, Recorded(calls, {60: "die", 61: "die"}, times=1), out, workers=1, kind="processes")
    assert result.num_pictures == COUNT
    assert result.ledger == ()
    assert out.read_bytes() == out.with_name("whole.mp4").read_bytes()
    assert names_beside(out) == ["out.mp4", "whole.mp4"]


@pytest.fixture
def handled_interrupts() -> Iterator[None]:
    """Handle Ctrl-C as a program on a terminal does: tests in the background inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_ctrl_c_keeps_finished_segments(
    clip: Path, out: Path, calls: Path, kind: str, handled_interrupts: None
) -> None:
    before, is_remote = threading.active_count(), kind == "processes"
    fate = "interrupt and hang" if is_remote else "interrupt"
    function = Recorded(calls, {90: fate}, is_remote=is_remote)
    with pytest.raises(KeyboardInterrupt):
        ff.map_video(clip, function, out, workers=1, kind=kind)  # type: ignore[call-overload]
    assert threading.active_count() == before
    (folder,) = out.parent.iterdir()
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    result = ff.map_video(clip, Recorded(calls), out, workers=1)
    assert result.num_resumed_frames >= 75
    assert names_beside(out) == ["out.mp4"]


@pytest.mark.slow
def test_ctrl_c_frees_the_shared_memory_at_once(clip: Path, out: Path, calls: Path, handled_interrupts: None) -> None:
    held = set(shared_memory(None))
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            ff.map_video(
                clip, Recorded(calls, {40: "interrupt and hang"}, is_remote=True), out, workers=1, kind="processes"
            )
        assert set(shared_memory(None)) <= held
    finally:
        gc.enable()


def test_what_a_killed_program_left_beside_the_video_is_removed(clip: Path, out: Path) -> None:
    process = os.fork()
    if process == 0:
        # Killed when the segments have been joined, before the video appears.
        replace = os.replace
        os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL) if str(out) in paths else replace(*paths)
        ff.map_video(clip, functions.keep, out, workers=0)
        os._exit(3)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status)
    assert [name for name in names_beside(out) if name.endswith(".tmp")]
    with replacing(out.with_name("other")) as scratch:
        result = ff.map_video(clip, functions.keep, out, workers=0)
        assert names_beside(out) == [os.path.basename(scratch), "out.mp4"]
    assert result.num_resumed_frames == COUNT


def test_images_that_a_killed_process_left_are_removed(clip: Path, out: Path, calls: Path) -> None:
    target = out.parent / "images"
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {80: "raise"}), target, workers=0)
    (target / ".framefeed-0123456789abcdef.tmp").touch()
    (target / "other.tmp").touch()
    with replacing(target / "other") as scratch:  # of another program
        ff.map_video(clip, Recorded(calls), target, workers=0)
        left = {path.name for path in target.iterdir() if path.suffix == ".tmp"}
    assert left == {"other.tmp", os.path.basename(scratch)}


@pytest.mark.parametrize("packets", [(12, 13, 14, 15, 16, 30), tuple(range(12, 36))])
def test_damaged_frames_are_named_and_the_rest_is_mapped(out: Path, packets: tuple[int, ...]) -> None:
    path = damaged_clip("damage.mp4", packets)
    index = ff.build_index(path, verify="full")
    damaged = index.damaged_frame_indices.tolist()
    assert 0 < len(damaged) <= len(packets) < len(index)
    seen: list[int] = []

    def function(frame: Any, *, index: int, pts_seconds: float) -> Any:
        seen.append(index)
        return frame

    result = ff.map_video(path, function, out, workers=2)
    assert [(fault.frame, fault.stage, fault.action) for fault in result.ledger] == [
        (frame, "decode", "skipped") for frame in damaged
    ]
    assert sorted(seen) == sorted(set(range(len(index))) - set(damaged))
    assert result.num_pictures == len(index) - len(damaged)
    with ff.map_video(path, function, workers=1) as mapped:
        assert [frame.index for frame in mapped] == sorted(set(range(len(index))) - set(damaged))
        assert [fault.frame for fault in mapped.ledger] == damaged
        assert mapped.ledger == result.ledger
    # No advice for plans: map_video has left them out already.
    assert [fault.reason for fault in result.ledger] == [
        f"CorruptMedia: {path}: frame {frame} of {len(index)} cannot be decoded without damage" for frame in damaged
    ]


@pytest.mark.parametrize("name", ["images", None])
def test_the_ledger_is_in_the_order_of_the_frames(tmp_path: Path, name: str | None) -> None:
    path = damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))
    index = ff.build_index(path, verify="full")
    assert index.num_damaged_frames

    def function(frames: Any, *, index: Any, pts_seconds: Any) -> Any:
        raise ArithmeticError("no result")

    # A damaged frame is noticed before the call of the frames around it.
    target = name and tmp_path / name
    mapped = ff.map_video(path, function, target, workers=0, batch_size=7, on_error="skip")  # type: ignore[call-overload]
    if target is None:
        assert list(mapped) == []
    assert [fault.frame for fault in mapped.ledger] == list(range(len(index)))


def test_a_video_without_times_is_mapped_as_images_or_at_an_assumed_rate(tmp_path: Path, out: Path) -> None:
    clip = write_clip(tmp_path / "bare.h264", ClipSpec(num_frames=10))
    for fps in (None, 25):
        with pytest.raises(ff.TimeUnavailable, match=r"bare\.h264: .*write images.*ff\.scan.*assume_fps=25"):
            ff.map_video(clip, functions.keep, out, workers=0, fps=fps)
    assert ff.map_video(clip, functions.keep, tmp_path / "images", workers=0).num_pictures == 10
    assert ff.map_video(ff.scan([clip], assume_fps=25)[0], functions.keep, out, workers=0).num_pictures == 10


def test_sources_that_are_no_videos(tmp_path: Path, out: Path) -> None:
    audio = write_clip(tmp_path / "sound.m4a", AudioSpec())
    (tmp_path / "text.mp4").write_text("no video")
    for source, kind in (
        (audio, ff.NoVideoStream),
        (tmp_path / "text.mp4", ff.UnreadableMedia),
        (tmp_path / "missing.mp4", ff.UnreadableMedia),
        (clip_file("empty.mp4", ClipSpec(num_frames=0)), ff.MediaError),
    ):
        for form in FORMS.values():
            with pytest.raises(kind):
                form(source, functions.keep, out)
    assert names_beside(out) == []


OUTPUTS: dict[str, tuple[str, str]] = {
    "video": ("out.mp4", "out.mp4"),
    "one of several videos": ("tile{picture}.mp4", "tile1.mp4"),
    "image": ("images/", "images/frame_000003_0.120000000s.png"),
    "one of several images": ("images/", "images/frame_000003_0.120000000s_1.png"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_of_another_program_is_not_replaced(clip: Path, tmp_path: Path, name: str) -> None:
    out, other = f"{tmp_path}/{OUTPUTS[name][0]}", tmp_path / OUTPUTS[name][1]
    function = functions.tiles if "several" in name else functions.keep
    other.parent.mkdir(exist_ok=True)
    contents = {other.with_name("notes.png"): b"of no frame", other: b"of another program"}
    for path, content in contents.items():
        path.write_bytes(content)
    for options in ({}, {"resume": False}):
        with pytest.raises(ff.UsageError, match=rf"{other.name}: this file is already there, .* with overwrite=True"):
            ff.map_video(clip, function, out, workers=0, **options)
        assert {path: path.read_bytes() for path in other.parent.iterdir()} == contents
    ff.map_video(clip, function, out, workers=0, overwrite=True)
    assert [path.read_bytes() == content for path, content in contents.items()] == [True, False]


def test_an_empty_file_is_replaced(clip: Path, out: Path) -> None:
    out.touch()
    assert ff.map_video(clip, functions.keep, out, workers=0).num_pictures == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 80])
def test_images_of_an_interrupted_run_are_replaced(clip: Path, out: Path, calls: Path, at: int) -> None:
    target = out.parent / "images"
    with pytest.raises(ff.LoadError):
        ff.map_video(clip, Recorded(calls, {at: "raise"}), target, workers=0)
    assert len(list(target.iterdir())) == at
    assert ff.map_video(clip, Recorded(calls), target, workers=0).num_pictures == COUNT
    assert names_beside(out) == ["images"]


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_source_is_never_overwritten(clip: Path, tmp_path: Path, link: Callable[..., None] | None) -> None:
    data, out = clip.read_bytes(), clip
    if link is not None:
        out = tmp_path / "link.mp4"
        link(clip, out)
    with pytest.raises(ff.UsageError, match="is the source itself"):
        ff.map_video(clip, functions.invert, out)
    assert clip.read_bytes() == data


def test_one_of_several_videos_is_not_the_source(clip: Path, tmp_path: Path) -> None:
    source = tmp_path / "tile1.mp4"
    os.link(clip, source)
    with pytest.raises(ff.UsageError, match=r"tile1\.mp4 is the source itself"):
        ff.map_video(source, functions.tiles, tmp_path / "tile{picture}.mp4", workers=1)
    assert source.read_bytes() == clip.read_bytes()


def test_outputs_that_cannot_be_written(clip: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for wrong, message in (
        (tmp_path / "none" / "out.mp4", "no folder"),
        (tmp_path / "out.xyz", "expected a file name with one of the endings"),
        (tmp_path / "{picture}" / "out.mp4", "in the name of the file"),
        (tmp_path / "none" / "images", "cannot write"),
    ):
        with pytest.raises(ff.UsageError, match=message):
            ff.map_video(clip, functions.keep, wrong)

    def refuse(folder: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), folder)

    monkeypatch.setattr(_folder, "lock_folder", refuse)
    with pytest.raises(ff.UsageError, match=r"Read-only file system.*may be written to"):
        ff.map_video(clip, functions.keep, out)


def test_a_full_disk_stops_and_the_next_run_continues(clip: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []  # the identity and two segments

    def write(path: str, **options: Any) -> Any:
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return replacing(path, **options)

    monkeypatch.setattr(_folder, "replacing", write)
    with pytest.raises(ff.UsageError, match=r"No space left.*make room"):
        ff.map_video(clip, functions.keep, out, workers=1, on_error="skip")
    monkeypatch.undo()
    assert ff.map_video(clip, functions.keep, out, workers=1, on_error="skip").num_resumed_frames == sum(
        lengths_of(clip)[:2]
    )


def test_arguments_are_checked(clip: Path, out: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"function": "invert"}, "function: expected a function"),
        ({"workers": -1}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"kind": "thread"}, "did you mean 'threads'"),
        ({"setup": 3}, "setup"),
        ({"batch_size": 0}, "batch_size"),
        ({"on_error": "ignore"}, "on_error"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
        ({"fps": 0}, "fps"),
        ({"fps": "25"}, "fps"),
        ({"progress": 3}, "progress"),
        ({"resume": 1}, "resume"),
        ({"audio": "aac"}, "audio"),
        ({"codec": "h265"}, "codec"),
        ({"quality": 99}, "quality"),
        ({"pixel_format": "yuv"}, "pixel_format"),
        ({"gop": 0}, "gop"),
        ({"out": None, "codec": "h264"}, "without out="),
        ({"out": None, "audio": True}, "without out="),
        ({"out": 5}, "out"),
        ({"out": "a\0b.mp4"}, "out: expected a path without NUL"),
        ({"out": "a\0b"}, "out: expected a path without NUL"),
        ({"out": out.parent, "gop": 3}, "gop: is for videos"),
        ({"out": out.parent, "codec": "gif"}, "endings"),
        ({"out": out.parent, "quality": 50}, "quality: PNG"),
        ({"out": out.parent, "codec": "jpg", "quality": 0}, "quality"),
    ]
    for options, message in wrong:
        arguments = {"function": functions.keep, "out": out, **options}
        with pytest.raises(ff.UsageError, match=message):
            ff.map_video(clip, **arguments)
    assert names_beside(out) == []


class Wrapped:
    """Calls a function of one argument by its own signature."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, frame: Any, **_: Any) -> Any:
        return self.__wrapped__(frame)  # type: ignore[attr-defined]


def flip(frame: Any) -> Any:
    return frame[::-1]


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (flip, {}, r"expected function\(frame, \*, index, pts_seconds\), got .*:flip\(frame: .*argument 'index'"),
        (flip, {"batch_size": 2}, r"expected function\(frames, \*, index, pts_seconds\), got "),
        (functions.keep, {"setup": list}, r"expected function\(frame, \*, index, pts_seconds, state\), got .*'state'"),
        (functions.add_state, {}, "missing a required argument: 'state'"),
    ],
)
def test_a_function_of_other_parameters_is_refused_before_anything_is_read(
    function: Any, options: dict[str, Any], message: str, out: Path
) -> None:
    with pytest.raises(ff.UsageError, match=f"^function: .*{message}"):
        ff.map_video("missing.mp4", function, out, **options)


def test_functions_that_take_anything_are_called(clip: Path) -> None:
    accepted = (Wrapped(flip), functools.partial(functions.add_state, state=1), lambda *_, **__: None)
    for function in accepted:
        with ff.map_video(clip, function, workers=0) as mapped:
            assert next(mapped).index == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_disk_that_is_full_while_videos_are_written(tmp_path: Path, out: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=COUNT))

    def map_on_full_disks() -> list[dict[str, Any]]:
        """Map with room for no segment, then for segments only, then for all."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the limit kills instead of failing the write
        reports = []
        for limit in (4_000, 12_000, resource.RLIM_INFINITY):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                resumed, error = ff.map_video(clip, functions.keep, out, workers=1).num_resumed_frames, ""
            except ff.FramefeedError as caught:
                resumed, error = -1, f"{type(caught).__name__}: {caught}"
            reports.append({"error": error, "resumed": resumed, "left": names_beside(out)})
        return reports

    segments, joining, whole = result_of_child(map_on_full_disks)
    (work,) = joining["left"]
    for report, name in ((segments, f"{work}/0000"), (joining, "out.mp4")):
        assert report["error"].startswith("UsageError: cannot write")
        assert name in report["error"]
        assert "make room on the disk" in report["error"]
        assert report["left"] in ([], [work])
    assert (whole["error"], whole["resumed"], whole["left"]) == ("", COUNT, ["out.mp4"])


@pytest.mark.parametrize("shortage", ["details", "worker"])
def test_a_lack_of_memory_is_no_fact_about_the_source(
    clip: Path, out: Path, shortage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise MemoryError("refused")

    if shortage == "details":
        monkeypatch.setattr(_map_video, "read_stream_details", refuse)
    else:
        monkeypatch.setattr(VideoTarget, "open", refuse)
    with pytest.raises(ff.ResourceExhausted, match="ran out of memory"):
        ff.map_video(clip, functions.invert, out, workers=1)
    assert names_beside(out) == []


def test_an_iterator_without_memory_says_so(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise MemoryError("refused")

    monkeypatch.setattr(FrameReader, "read", refuse)
    mapped = ff.map_video(clip, functions.invert, workers=1)
    with mapped, pytest.raises(ff.ResourceExhausted, match="ran out of memory"):
        next(mapped)
