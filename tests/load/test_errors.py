"""L05: errors are raised at their position, in order, with their type, for any number of workers."""

from __future__ import annotations

import errno
import gc
import itertools
import pickle
import re
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from framefeed.decode import DecodeReport
from framefeed.errors import (
    CorruptMedia,
    DeadlineExceeded,
    FramefeedError,
    FrameNotFound,
    LoadError,
    MissingDependency,
    ResourceExhausted,
    StaleSource,
    UsageError,
)
from framefeed.load import _work
from framefeed.load._batch import BufferPools, ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.load._memory import make_memory
from framefeed.load._pending import PendingBatch, begin_batch
from framefeed.load._work import ClipCosts
from framefeed.parallel import OrderedOutcomes, RemoteCalls, check_sendable, is_sendable
from framefeed.plan import AtIndices, EpochPlan, PlannedClips, iterate_takes, plan_requests
from framefeed.request import DecodeRequest
from tests.fakes import FlatDecoder
from tests.load.laws import content, load_all
from tests.makers import catalog, plan_of
from tests.parallel.clocks import HandClock
from tests.patience import PATIENCE_SECONDS

MakeLoader = Callable[..., ClipLoader]


class Unpicklable(Exception):
    def __init__(self, lock: Any, *, needed: int) -> None:
        super().__init__(lock, needed)
        self.lock = threading.Lock()


def plan_of_rows(*holes: int) -> EpochPlan:
    """Twelve requests of two frames, those in ``holes`` of frames 0 and 13."""
    requests = [DecodeRequest(source=catalog()[row % 6], indices=[0, 13 if row in holes else 1]) for row in range(12)]
    return plan_requests(requests)


def fail_at(*holes: int, error: Any = None) -> dict[str, Any]:
    """A loader's plan and decoder: clips in ``holes`` fail."""
    made = error or (lambda: CorruptMedia("frame 13 did not come", frames=[13]))
    return {
        "plan": plan_of_rows(*holes),
        "backend": FlatDecoder(spoil=lambda ordinals: made() if 13 in ordinals else None),
    }


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_L05_an_error_comes_behind_all_batches_before_it(
    make_loader: MakeLoader, workers: int, batch_size: int
) -> None:
    loader = make_loader(**fail_at(6, 9), batch_size=batch_size, workers=workers)
    iterator = iter(loader)
    delivered = [position for _ in range(6 // batch_size) for position in next(iterator).positions.tolist()]
    with pytest.raises(CorruptMedia, match="frame 13") as caught:
        next(iterator)
    assert delivered == list(range(6 // batch_size * batch_size))
    error = caught.value
    assert (error.position, error.stage, error.source, error.frames) == (6, "decode", catalog()[0].source, (13,))
    assert re.fullmatch(r"frame 13 .*; .* give on_error='skip' .* \(clip at position 6\)", str(error))
    assert loader.state_dict()["delivered"] == 6 // batch_size


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_the_iterator_goes_on_behind_a_failed_batch(make_loader: MakeLoader, workers: int) -> None:
    loader = make_loader(**fail_at(1, 2, 9), batch_size=2, workers=workers)
    iterator, seen = iter(loader), []
    for _ in range(6):
        try:
            seen.append(next(iterator).positions.tolist())
        except CorruptMedia as error:
            seen.append([error.position])
    assert seen == [[1], [2], [4, 5], [6, 7], [9], [10, 11]]
    assert next(iterator, None) is None
    assert loader.epoch == 1


def test_L05_a_state_saved_after_an_error_leads_back_to_the_failed_batch(make_loader: MakeLoader) -> None:
    loader = make_loader(**fail_at(5), batch_size=2, workers=2)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(CorruptMedia):
        next(iterator)
    state = loader.state_dict()
    again = make_loader(**fail_at(5), batch_size=2, workers=2)
    again.load_state_dict(state)
    with pytest.raises(CorruptMedia):
        next(iter(again))
    sound = make_loader(plan_of_rows(5), batch_size=2, workers=2, backend=FlatDecoder(), on_error="skip")
    sound.load_state_dict(state)
    assert next(iter(sound)).positions.tolist() == [4, 5]
    next(iterator)
    assert loader.state_dict()["delivered"] == 4
    sound.load_state_dict(loader.state_dict())
    assert next(iter(sound)).positions.tolist() == [8, 9]


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_skipped_slots_are_marked_and_the_others_are_unchanged(make_loader: MakeLoader, workers: int) -> None:
    loader = make_loader(**fail_at(1, 6, 7), batch_size=4, workers=workers, on_error="skip")
    sound = make_loader(plan_of_rows(1, 6, 7), batch_size=4, workers=0, backend=FlatDecoder())
    for batch, whole in zip(loader, sound, strict=True):
        assert_skipped(batch, whole, {1, 6, 7})
    assert loader.stats().failed_clips == 3


def assert_skipped(batch: ClipBatch, whole: ClipBatch, holes: set[int]) -> None:
    assert len(batch) == len(whole)
    for slot, position in enumerate(batch.positions.tolist()):
        error = batch.errors[slot]
        assert batch.sources[slot] == whole.sources[slot]
        if position in holes:
            assert (isinstance(error, CorruptMedia), error and error.position) == (True, position)
            assert (bool(batch.ok[slot]), bool(batch.data[slot].any())) == (False, False)
            assert (np.isnan(batch.pts_seconds[slot]).all(), batch.valid[slot].any()) == (True, False)
        else:
            assert (error, bool(batch.ok[slot])) == (None, True)
            for name in ("data", "pts_seconds", "valid"):
                assert np.array_equal(getattr(batch, name)[slot], getattr(whole, name)[slot])


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_one_error_of_a_source_is_an_error_of_each_of_its_clips(make_loader: MakeLoader, workers: int) -> None:
    cause = OSError(5, "io")

    def refuse(name: str) -> None:
        if name == catalog()[2].source:
            raise StaleSource(f"{name} is another file", source=name, stage="open") from cause

    loader = make_loader(plan_of_rows(), batch_size=12, workers=workers, backend=FlatDecoder(refuse), on_error="skip")
    (batch,) = loader
    assert np.flatnonzero(~batch.ok).tolist() == [2, 8]
    errors = [batch.errors[2], batch.errors[8]]
    assert [error and (type(error), error.position, error.stage) for error in errors] == [
        (StaleSource, 2, "open"),
        (StaleSource, 8, "open"),
    ]
    assert [error and error.__cause__ for error in errors] == [cause, cause]
    assert [str(error).partition("is another file")[2] for error in errors] == [
        " (clip at position 2)",
        " (clip at position 8)",
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_frames_that_cannot_be_planned_fail_alone(workers: int) -> None:
    requests = [DecodeRequest(source=catalog()[row], indices=[0, 40 if row == 3 else 1]) for row in range(6)]
    plan = plan_requests(requests, policy="error")
    (batch,) = load_all(plan, batch_size=6, workers=workers, on_error="skip")
    assert batch.ok.tolist() == [True, True, True, False, True, True]
    with pytest.raises(FrameNotFound) as caught:
        list(ClipLoader(plan, batch_size=2, workers=workers))
    assert (caught.value.position, caught.value.stage) == (3, "plan")


def test_the_length_of_a_batch_is_that_of_the_clips_that_can_be_planned() -> None:
    indices = [[0, 40, 2], [0, 1], [40], [2, 3], [0, 1, 2]]
    plan = plan_requests([DecodeRequest(source=catalog()[0], indices=each) for each in indices], policy="error")
    batch, _ = load_all(plan, batch_size=4, on_error="skip")
    assert batch.ok.tolist() == [False, True, False, True]
    assert batch.data.shape[:2] == (4, 2)
    with pytest.raises(UsageError, match="position 1 of the plan has 2 and position 4 has 3"):
        list(ClipLoader(plan, batch_size=5, on_error="skip"))


FOREIGN_ERRORS: dict[str, Callable[[], Exception]] = {
    "value": lambda: ValueError("odd"),
    "stop": lambda: StopIteration("no more"),
    "unpicklable": lambda: Unpicklable(None, needed=1),
    "os": lambda: OSError(5, "io"),
}
"""Made anew for each test: an error that stays keeps the frames that it passed, and in them the loader, alive."""


@pytest.mark.parametrize("kind", FOREIGN_ERRORS)
@pytest.mark.parametrize("workers", [0, 2])
def test_L05_foreign_errors_are_wrapped_and_survive_pickling(make_loader: MakeLoader, kind: str, workers: int) -> None:
    error = FOREIGN_ERRORS[kind]()

    def refuse(name: str) -> None:
        raise error

    loader = make_loader(plan_of_rows(), batch_size=2, workers=workers, backend=FlatDecoder(refuse))
    with pytest.raises(
        LoadError, match=f"in the decoder .* for the clip at position 0: {type(error).__name__}"
    ) as caught:
        next(iter(loader))
    assert caught.value.__cause__ is error
    travelled = pickle.loads(pickle.dumps(caught.value))
    assert (type(travelled), travelled.position, travelled.stage) == (LoadError, 0, "decode")
    assert "Traceback" in travelled.remote_traceback


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_a_decoder_that_reports_for_other_slots_is_told(make_loader: MakeLoader, workers: int) -> None:
    class Confused(FlatDecoder):
        def decode(self, source: Any, index: Any, slots: Any) -> DecodeReport:
            return DecodeReport(errors=[])

    loader = make_loader(plan_of_rows(), batch_size=2, workers=workers, backend=Confused())
    with pytest.raises(UsageError, match="the decoder 'flat' returned 0 errors: expected a DecodeReport"):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("wish", [KeyboardInterrupt, SystemExit])
def test_L05_a_wish_to_stop_is_no_error_of_a_clip(
    make_loader: MakeLoader, workers: int, wish: type[BaseException]
) -> None:
    def refuse(name: str) -> None:
        raise wish

    loader = make_loader(plan_of_rows(), batch_size=2, workers=workers, backend=FlatDecoder(refuse), on_error="skip")
    iterator = iter(loader)
    with pytest.raises(wish):
        next(iterator)
    with pytest.raises(UsageError, match="has ended"):
        next(iterator)
    assert loader.epoch == 0


def _raise_stop(*_: Any) -> Any:
    raise KeyboardInterrupt


class _Stopping:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


def _begin_batch(plan: EpochPlan) -> PendingBatch:
    return begin_batch(plan, plan.clips_at(np.arange(2)), BufferPools(1, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda plan, take: _begin_batch(plan).plan_take(0),
        lambda plan, take: _begin_batch(plan).plan_takes(),
        lambda plan, take: _begin_batch(plan).substitute(0, 1),
        lambda plan, take: ClipCosts(plan.clips.sources).learn(0, take),
        lambda plan, take: make_memory([(1, 3, 2, 2)], BufferPools(1, 1), unequal=False).finish([], _raise_stop),
        lambda plan, take: check_sendable("transform", _Stopping()),
        lambda plan, take: is_sendable(_Stopping()),
        lambda plan, take: RemoteCalls(_Stopping()),  # type: ignore[arg-type]
    ],
    ids=lambda call: call.__code__.co_names[0] + str(call.__code__.co_firstlineno),
)
def test_L15_work_of_the_main_thread_passes_ctrl_c_on(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_requests([DecodeRequest(source=catalog()[0], indices=[0] * count) for count in (2, 2, 3)])
    (take,) = iterate_takes(plan[0])
    monkeypatch.setattr(PlannedClips, "plan", _raise_stop)
    monkeypatch.setattr(_work, "plan_runs", _raise_stop)
    with pytest.raises(KeyboardInterrupt):
        call(plan, take)


def test_L05_an_error_that_is_kept_keeps_no_batch_alive() -> None:
    with ClipLoader(**fail_at(0), batch_size=2, workers=2, on_error="skip") as loader:
        iterator = iter(loader)
        batch = next(iterator)
        error, memory = batch.errors[0], weakref.ref(batch.data.base)
        del batch
        next(iterator)
        assert error is not None
        assert memory() is None


def test_L05_a_raised_error_is_no_circle() -> None:
    gc.collect()
    gc.disable()
    try:
        iterator = iter(ClipLoader(**fail_at(0), batch_size=2, workers=2))
        try:
            next(iterator)
        except CorruptMedia as error:
            watched = weakref.ref(error)
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("position", [1, 4])
def test_a_clip_that_never_comes_is_named_and_the_next_pass_does_not_wait_for_it(
    position: int, make_loader: MakeLoader, hand_clock: HandClock
) -> None:
    stuck, reached, proceed, ended = catalog()[position].source, threading.Event(), threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == stuck and not reached.is_set():
            reached.set()
            # The clip before is finished: there is one worker. From now on time passes for whoever waits.
            hand_clock.advance_at_each_read(61)
            proceed.wait(PATIENCE_SECONDS)
            ended.set()

    loader = make_loader(
        plan_of_rows(), batch_size=3, workers=1, backend=FlatDecoder(wait), deadline_seconds=60, on_error="skip"
    )
    iterator = iter(loader)
    try:
        for _ in range(position // 3):
            next(iterator)
        said = rf"video_\d+.mp4: the clip at position {position} .*stage: decode"
        with pytest.raises(DeadlineExceeded, match=said) as caught:
            next(iterator)
        with pytest.raises(UsageError, match="has ended"):
            next(iterator)
        assert (caught.value.position, caught.value.source, caught.value.stage) == (position, stuck, "decode")
        assert (loader.epoch, loader.state_dict()["delivered"]) == (0, position // 3)
        hand_clock.advance_at_each_read(0)
        assert len(list(loader)) == 4
        assert not ended.is_set(), "a second pass has threads of its own while the call of the first still hangs"
    finally:
        proceed.set()
    loader.close()


def test_behind_a_deadline_the_next_pass_waits_for_no_call(
    make_loader: MakeLoader, hand_clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, proceed, hangs = threading.Barrier(2), threading.Event(), itertools.count()

    def wait(_: str) -> None:
        if next(hangs) < 2:
            if together.wait(PATIENCE_SECONDS) == 0:
                hand_clock.advance_at_each_read(61)
            proceed.wait(2 * PATIENCE_SECONDS)

    monkeypatch.setattr(OrderedOutcomes.close, "__defaults__", (2 * PATIENCE_SECONDS,))  # so that waiting shows
    loader = make_loader(plan_of_rows(), batch_size=3, workers=2, backend=FlatDecoder(wait), deadline_seconds=60)
    iterator = iter(loader)
    with ThreadPoolExecutor(1) as pool:
        try:
            with pytest.raises(DeadlineExceeded):
                next(iterator)
            hand_clock.advance_at_each_read(0)
            assert pool.submit(iter, loader).result(PATIENCE_SECONDS) is not iterator
        finally:
            proceed.set()
    loader.close()


def test_without_a_deadline_nothing_is_too_late() -> None:
    with ClipLoader(plan_of_rows(), batch_size=3, workers=1, backend=FlatDecoder(), deadline_seconds=None) as loader:
        assert len(list(loader)) == 4


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [2, 12])
def test_L05_a_transform_receives_no_clip_that_failed(make_loader: MakeLoader, workers: int, batch_size: int) -> None:
    received: list[list[int]] = []

    def note(clip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        received.append(clip[:, 0, 0, 0].tolist())
        return clip

    loader = make_loader(**fail_at(1, 6, 9), batch_size=batch_size, workers=workers, transform=note, on_error="skip")
    assert sum(int(batch.ok.sum()) for batch in loader) == 9
    assert received == [[0, 1]] * 9


def test_a_damaged_frame_that_is_not_requested_causes_no_error(make_loader: MakeLoader) -> None:
    plan = plan_of(AtIndices([0, 1]))
    loader = make_loader(plan, batch_size=4, workers=2, backend=fail_at(1)["backend"])
    assert [content(batch) for batch in loader]


def test_what_a_transform_could_not_handle_is_its_own_error(make_loader: MakeLoader) -> None:
    """Its lock file is busy: that is no shortage of the loader."""

    def transform(clip: Any, rng: Any) -> Any:
        try:
            raise BlockingIOError(errno.EAGAIN, "the lock file is busy")
        except BlockingIOError as error:
            raise ValueError("a bad clip") from error

    plan = plan_of(AtIndices([0, 1]))
    loader = make_loader(plan, batch_size=2, workers=0, backend=FlatDecoder(), transform=transform, on_error="skip")
    batch = next(iter(loader))
    assert [type(error) for error in batch.errors] == [LoadError, LoadError]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("error", [ResourceExhausted("no memory", resource="memory"), MemoryError(), OSError(24, "x")])
def test_what_ran_out_is_raised_and_no_clip_is_skipped_for_it(
    make_loader: MakeLoader, workers: int, error: Exception
) -> None:
    """A shortage says nothing about a clip: to skip it would change, unseen, what is learnt from."""

    def fail() -> Any:
        raise error

    loader = make_loader(**fail_at(4, error=fail), batch_size=2, workers=workers, on_error="skip")
    iterator = iter(loader)
    assert [batch.positions.tolist() for batch in (next(iterator), next(iterator))] == [[0, 1], [2, 3]]
    with pytest.raises(ResourceExhausted) as caught:
        next(iterator)
    assert caught.value.resource
    assert caught.value.position == 4


@pytest.mark.parametrize("kind", [UsageError, MissingDependency])
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_wrong_call_is_raised_and_no_clip_is_skipped_for_it(
    make_loader: MakeLoader, workers: int, on_error: str, kind: type[FramefeedError]
) -> None:
    """It says nothing about a file, and would fail each clip of it, or of all files."""
    loader = make_loader(
        **fail_at(4, error=lambda: kind("do otherwise")), batch_size=2, workers=workers, on_error=on_error
    )
    iterator = iter(loader)
    assert [batch.positions.tolist() for batch in (next(iterator), next(iterator))] == [[0, 1], [2, 3]]
    with pytest.raises(kind, match=r"^do otherwise \(clip at position 4\)$") as caught:
        next(iterator)
    assert (type(caught.value), caught.value.position, caught.value.stage) == (kind, 4, "decode")
    assert not loader.ledger
