"""Calls in worker processes give the same results as inline and in threads; errors of pickling and of dead workers."""

from __future__ import annotations

import gc
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Listener
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from framefeed._outcome import Err, Ok, catch_outcome
from framefeed.errors import CorruptMedia, DeadlineExceeded, LoadError, UsageError, WorkerLost
from framefeed.parallel import _child
from framefeed.parallel._ordered import ordered_outcomes
from framefeed.parallel._ordered_map import call_each, ordered_map
from framefeed.parallel._pools import Pool, ThreadPool
from framefeed.parallel._processes import ProcessPool, RemoteCalls, _send_argument, open_pool
from framefeed.parallel._worker import dumps, loads, receive, send
from tests.decode.forks import Child as Forked
from tests.lengths import either
from tests.parallel import functions
from tests.parallel.laws import check_laws
from tests.parallel.living import (
    all_gone,
    check_workers_often,
    children_of,
    hurry_calls_that_hang,
    lives,
    wait_until,
    waits_for_notice,
)
from tests.parallel.test_laws import BACKWARDS, settings
from tests.patience import PATIENCE_SECONDS

WORKERS = 2


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPool]:
    before = children_of(os.getpid())  # what others left: the standard library's fork server, which the bench uses
    with ProcessPool(WORKERS) as pool:
        # Its threads start here, and so are of no one test.
        list(ordered_map(functions.same, range(9), pool=pool, max_in_flight=9))
        yield pool
    assert children_of(os.getpid()) <= before


@pytest.fixture(params=["inline", "threads", "processes"])
def pool(request: pytest.FixtureRequest, processes: ProcessPool) -> Iterator[Pool]:
    if request.param == "processes":
        yield processes
    else:
        with open_pool(WORKERS, request.param) as opened:
            yield opened


# --- the laws ------------------------------------------------------------------------------------


@contextmanager
def reachable(function: Callable[[Any], Any], address: str) -> Iterator[functions.Forward]:
    """A function that calls another one in this process, from wherever it is called itself."""

    def answer(line: Any) -> None:
        with line:
            outcome = catch_outcome(function, line.recv())
            line.send((outcome.value, None) if isinstance(outcome, Ok) else (None, outcome.error))

    def serve() -> None:
        while True:
            line = listener.accept()
            if over.is_set():
                line.close()
                return
            helper = threading.Thread(target=answer, args=(line,))
            helper.start()
            helpers.append(helper)

    over, helpers = threading.Event(), []
    Path(address).unlink(missing_ok=True)
    with Listener(address, "AF_UNIX", backlog=16) as listener:
        server = threading.Thread(target=serve)
        server.start()
        yield functions.Forward(address)
        over.set()
        catch_outcome(functions.Forward(address), None)
        for thread in (server, *helpers):
            thread.join(PATIENCE_SECONDS)


def test_the_laws_hold_in_processes(processes: ProcessPool, tmp_path: Path) -> None:
    def in_processes(function: Any, items: Any, *, workers: int, **limits: Any) -> Any:
        @contextmanager
        def run() -> Iterator[Any]:
            with (
                reachable(function, str(tmp_path / "line")) as forward,
                ordered_outcomes(forward, items, pool=processes, **limits) as outcomes,
            ):
                yield outcomes

        return run()

    @given(settings())
    def laws(setting: Any) -> None:
        check_laws(in_processes, replace(setting, workers=WORKERS))

    laws()
    check_laws(in_processes, replace(BACKWARDS, workers=WORKERS))
    with pytest.raises(AssertionError, match="2 calls at once"):
        check_laws(in_processes, replace(BACKWARDS, workers=WORKERS, max_calls=1))


# --- errors and values ---------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 7, 19])
def test_L05_an_error_at_item_k_comes_after_exactly_k_results(pool: Pool, position: int) -> None:
    error = CorruptMedia("frame 3 does not come", frames=[3], source="a.mp4")
    results = ordered_map(functions.Raise(error, position), range(20), pool=pool, max_in_flight=6)
    assert [next(results) for _ in range(position)] == list(range(position))
    with pytest.raises(CorruptMedia, match="frame 3 does not come") as caught:
        next(results)
    assert (caught.value.frames, caught.value.source) == ((3,), "a.mp4")
    assert list(results) == []


@pytest.mark.parametrize(
    "kind",
    [OSError, SystemExit, GeneratorExit, MemoryError, BaseException, UnicodeDecodeError, StopIteration],
)
def test_L05_no_class_of_error_hangs_or_ends_the_iteration(pool: Pool, kind: type[BaseException]) -> None:
    arguments = ("utf-8", b"\xff", 0, 1, "odd") if kind is UnicodeDecodeError else ("stop",)
    function = functions.Raise(kind(*arguments), 0)
    first, second, third = ordered_outcomes(function, [1, 0, 2], pool=pool, max_in_flight=2)
    assert (first, third) == (Ok(1), Ok(2))
    assert isinstance(second, Err)
    assert type(second.error) is kind
    assert second.error.args == arguments


def test_L05_stop_iteration_in_the_function_is_an_error_and_not_the_end(pool: Pool) -> None:
    results = ordered_map(functions.raise_by_name, ["a", "stop", "b"], pool=pool, max_in_flight=2)
    assert next(results) == "a"
    with pytest.raises(LoadError, match="StopIteration for item 1") as caught:
        next(results)
    assert caught.value.position == 1
    assert isinstance(caught.value.__cause__, StopIteration)


def test_L05_an_interrupt_is_raised_at_its_position_and_ends_the_iteration(pool: Pool) -> None:
    outcomes = ordered_outcomes(functions.raise_by_name, ["a", "interrupt", "b"], pool=pool, max_in_flight=4)
    assert next(outcomes) == Ok("a")
    with pytest.raises(KeyboardInterrupt):
        next(outcomes)
    assert list(outcomes) == []


@pytest.mark.parametrize("max_bytes", [0, 5])
def test_L19_a_result_larger_than_the_bound_passes(pool: Pool, max_bytes: int) -> None:
    # size_of is called here, and need not be sent.
    results = ordered_map(
        functions.same, range(20), pool=pool, max_in_flight=4, max_bytes=max_bytes, size_of=lambda _: 10
    )
    assert list(results) == list(range(20))


def errors_of(function: Any, items: Any, pool: Pool) -> list[Any]:
    outcomes = ordered_outcomes(function, items, pool=pool, max_in_flight=2)
    return [outcome.error if isinstance(outcome, Err) else outcome.value for outcome in outcomes]


def test_L05_the_traceback_of_the_worker_is_printed_with_the_error(processes: ProcessPool) -> None:
    (error,) = errors_of(functions.divide_six, [0], processes)
    assert isinstance(error, ZeroDivisionError)
    assert "in divide_six" in "".join(error.__notes__)
    assert "_worker.py" not in "".join(error.__notes__)
    (error,) = errors_of(functions.Raise(LoadError("odd"), 0), [0], processes)
    assert "in __call__" in error.remote_traceback


@pytest.mark.parametrize(("name", "message"), [("keyword", "NeedsKeyword: frame 3 is odd"), ("lambda", "HoldsLambda")])
def test_L05_an_error_that_cannot_be_sent_is_described(processes: ProcessPool, name: str, message: str) -> None:
    before, error, after = errors_of(functions.raise_by_name, ["a", name, "b"], processes)
    assert (before, after) == ("a", "b")
    assert type(error) is LoadError
    assert message in str(error)
    assert "in raise_by_name" in error.remote_traceback


def test_L20_a_result_that_cannot_be_sent_is_an_error_of_its_item(processes: ProcessPool) -> None:
    before, error, after = errors_of(functions.unsendable_if_odd, [0, 1, 2], processes)
    assert (before, after) == (0, 2)
    assert isinstance(error, UsageError)
    assert "result cannot be sent" in str(error)


def test_L20_an_argument_that_cannot_be_sent_is_an_error_of_its_item(processes: ProcessPool) -> None:
    items = ["a", lambda: None, "b", functions.BreaksInTheWorker(), "c"]
    one, here, two, there, three = errors_of(functions.same, items, processes)
    assert (one, two, three) == ("a", "b", "c")
    assert isinstance(here, UsageError)
    assert "cannot be sent to a worker process" in str(here)
    assert isinstance(there, UsageError)
    assert "cannot unpickle the function or its argument (ZeroDivisionError" in str(there)


def test_L20_a_function_that_cannot_be_sent_is_refused_at_the_call(processes: ProcessPool) -> None:
    with pytest.raises(UsageError, match=r"lambda.*module that can be imported"):
        ordered_map(lambda item: item, [1], pool=processes, max_in_flight=1)


def test_L20_a_function_that_workers_cannot_rebuild_is_an_error_of_each_item(processes: ProcessPool) -> None:
    function = partial(functions.same, functions.BreaksInTheWorker())
    errors = errors_of(function, [1, 2], processes)
    assert [type(error) for error in errors] == [UsageError, UsageError]


def test_a_function_keeps_its_state_from_call_to_call_and_no_longer_than_its_run() -> None:
    with ProcessPool(1) as pool:
        for _ in range(2):
            assert list(ordered_map(functions.Counter(), range(4), pool=pool, max_in_flight=2)) == [1, 2, 3, 4]


@given(st.lists(st.integers(0, 70_000), max_size=5), st.data())
def test_a_message_survives_any_division_into_reads_and_writes(lengths: list[int], data: st.DataObject) -> None:
    value = [np.arange(length, dtype=np.uint8) for length in lengths]
    line = bytearray()

    def some(most: int) -> int:
        return data.draw(st.integers(1, most)) if len(line) % 3 else most

    def write(buffer: Any) -> int:
        count = some(len(buffer))
        line.extend(buffer[:count])
        return count

    def read(into: memoryview) -> int:
        count = min(some(len(into)), len(line))
        into[:count] = line[:count]
        del line[:count]
        return count

    send(write, b"V", dumps(value))
    kind, frames = receive(read)
    assert kind == b"V"
    assert not line
    for array, again in zip(value, loads(frames), strict=True):
        assert np.array_equal(array, again)
        assert again.flags.writeable
    with pytest.raises(EOFError):
        receive(read)


def test_large_results_arrive_whole(processes: ProcessPool) -> None:
    arrays = [np.arange(number, dtype=np.int64) for number in (0, 2_047, 2_048, 1_000_000)]
    for array, again in zip(arrays, ordered_map(functions.same, arrays, pool=processes, max_in_flight=4), strict=True):
        assert np.array_equal(array, again)


# --- lost workers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"), [("exit", "status 3"), ("kill", "SIGKILL.*memory"), ("segmentation fault", "SIGSEGV")]
)
def test_L04_D06_an_item_that_loses_two_workers_is_lost_and_no_other(
    processes: ProcessPool, how: str, said: str
) -> None:
    items = ["a", "b", how, "c", how, "d", "e"]
    outcomes = list(ordered_outcomes(functions.die, items, pool=processes, max_in_flight=3))
    for position, (item, outcome) in enumerate(zip(items, outcomes, strict=True)):
        if item == how:
            assert isinstance(outcome, Err)
            assert isinstance(outcome.error, WorkerLost)
            assert outcome.error.position == position
            assert str(outcome.error).startswith(f"item {position} ('{how}') is lost: worker process ")
            assert re.search(f"{said}.*, and at the second try worker process .*{said}", str(outcome.error))
        else:
            assert outcome == Ok(item)


@pytest.mark.parametrize(
    "signals", [["KILL"], ["SEGV"], ["STOP"], ["KILL", "KILL"], ["STOP", "STOP"], ["KILL", "STOP"], ["STOP", "KILL"]]
)
def test_L04_an_item_is_tried_once_more_and_alone(
    signals: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_workers_often(monkeypatch)
    items = [(str(tmp_path / str(item)), signals if item == 4 else []) for item in range(9)]
    with ProcessPool(WORKERS) as pool:
        outcomes = list(ordered_outcomes(functions.end_by_signals, items, pool=pool, max_in_flight=4))
    tries = [len(Path(path).read_text().split()) for path, _ in items]
    assert tries == [2 if item == 4 else 1 for item in range(9)]
    *_, outcome = lost = [outcome for item, outcome in enumerate(outcomes) if outcome != Ok(items[item][0])] or [None]
    if len(signals) == 1:
        assert lost == [None]
    else:
        assert lost == [outcomes[4]]
        assert isinstance(outcome, Err)
        assert type(outcome.error) is (WorkerLost if signals[-1] == "KILL" else DeadlineExceeded)
        assert outcome.error.position == 4
        assert "raise deadline_seconds" not in str(outcome.error)


def test_L04_the_end_of_an_abandoned_pool_is_not_taken_for_a_lack_of_memory(tmp_path: Path) -> None:
    with ProcessPool(1) as pool, ordered_outcomes(
        functions.hang_and_tell, [str(tmp_path)], pool=pool, max_in_flight=1
    ) as outcomes:  # fmt: skip
        outcomes.fill()
        wait_until(lambda: list(tmp_path.iterdir()))
        pool.abandon()
        (outcome,) = outcomes
    assert isinstance(outcome, Err)
    assert re.search(r"worker process \d+ was ended, because its pool", str(outcome.error))
    assert isinstance(outcome.error.__cause__, _child.ProcessEnded)


def test_L04_a_worker_that_closes_its_channel_is_not_taken_for_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_workers_often(monkeypatch)
    with ProcessPool(1) as pool:
        (outcome,) = ordered_outcomes(functions.close_descriptors_and_hang, [0], pool=pool, max_in_flight=1)
    assert isinstance(outcome, Err)
    assert isinstance(outcome.error, WorkerLost)
    assert str(outcome.error).count("closed its channel and was killed") == 2


def test_L04_workers_may_die_at_any_items(processes: ProcessPool) -> None:
    @settings_of(max_examples=10)
    @given(st.lists(st.sampled_from(["a", "b", "c", "exit"]), max_size=12), st.integers(1, 6))
    def outcomes_are_right(items: list[str], max_in_flight: int) -> None:
        outcomes = list(ordered_outcomes(functions.die, items, pool=processes, max_in_flight=max_in_flight))
        assert [outcome.value if isinstance(outcome, Ok) else "exit" for outcome in outcomes] == items
        lost = [outcome.error.position for outcome in outcomes if isinstance(outcome, Err)]  # type: ignore[attr-defined]
        assert lost == [position for position, item in enumerate(items) if item == "exit"]

    outcomes_are_right()


def test_L04_a_worker_that_dies_while_it_is_idle_costs_nothing() -> None:
    with ProcessPool(1) as pool:
        (worker,) = ordered_map(functions.process, [0], pool=pool, max_in_flight=1)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not lives(worker))
        (another,) = ordered_map(functions.process, [0], pool=pool, max_in_flight=1)
    assert another != worker


def test_a_process_that_ends_with_its_pool_is_not_lost() -> None:
    with ProcessPool(1) as pool:
        assert list(ordered_map(functions.same, [1], pool=pool, max_in_flight=1)) == [1]
    assert pool.counts.num_lost == 0
    assert pool.counts.start_seconds > 0


def test_L04_processes_that_die_at_a_call_for_each_are_left_out() -> None:
    with ProcessPool(WORKERS) as pool:
        list(ordered_map(functions.same, range(9), pool=pool, max_in_flight=9))
        assert call_each(pool, RemoteCalls(functions.die), "exit") == []
        assert list(ordered_map(functions.same, [1], pool=pool, max_in_flight=1)) == [1]


def test_a_process_that_is_stopped_for_good_stays_so() -> None:
    child = _child.Child(_child.StartOptions())
    child.stop(for_good=True)
    child.stop()
    (function,) = dumps(functions.same)
    with pytest.raises(_child.ProcessDied):
        child.ask(bytes(function), dumps(1))
    assert not child.is_running


def test_L04_a_death_while_idle_is_no_try_of_the_next_item(tmp_path: Path) -> None:
    with ProcessPool(1) as pool:
        list(ordered_map(functions.close_the_channel, [str(tmp_path)] * 2, pool=pool, max_in_flight=1))
        wait_until((tmp_path / "closed").exists)
        item = (str(tmp_path / "tries"), ["KILL"])
        assert list(ordered_map(functions.end_by_signals, [item], pool=pool, max_in_flight=1)) == [item[0]]
    assert (tmp_path / "tries").read_text().split() == ["try", "try"]


def test_L04_a_worker_that_is_stopped_while_it_is_idle_takes_no_large_item_and_holds_up_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_workers_often(monkeypatch)
    with ProcessPool(1) as pool:
        (worker,) = ordered_map(functions.process, [0], pool=pool, max_in_flight=1)
        os.kill(worker, signal.SIGSTOP)
        large = bytes(5_000_000)
        assert list(ordered_map(functions.same, [large], pool=pool, max_in_flight=1)) == [large]
        assert not lives(worker)


def test_D07_a_process_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        """A process that waits in the kernel."""

        pid, returncode = 7, None

        def poll(self) -> None: ...

        def kill(self) -> None: ...

        def wait(self, seconds: float) -> None:
            raise subprocess.TimeoutExpired("", seconds)

    child = _child.Child(_child.StartOptions())
    answer = child.ask(_send_argument(functions.same), dumps(3))
    assert loads(answer[1]) == 3
    process, child._running.value.process = child._running.value.process, Stuck()  # type: ignore[assignment]
    with pytest.raises(_child.ProcessHung, match=r"worker process 7 was still working on it after 0\.05 s"):
        child.ask(_send_argument(functions.hang), dumps("native"), deadline_seconds=0.05)
    assert process is not None
    process.kill()
    process.wait(PATIENCE_SECONDS)
    child.close()


def test_L04_death_is_noticed_where_another_process_holds_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_workers_often(monkeypatch)
    with ProcessPool(1) as pool:
        (error,) = errors_of(functions.leave_a_process_behind, [str(tmp_path)], pool)
    left = [int(path.name.split()[1]) for path in tmp_path.iterdir()]
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert len(left) == 2
    assert isinstance(error, WorkerLost)


def test_L04_no_process_to_be_had_is_an_error_of_each_item(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with ProcessPool(1) as pool:
        errors = errors_of(functions.same, [1, 2], pool)
    assert [type(error) for error in errors] == [WorkerLost, WorkerLost]
    assert "cannot start a worker process" in str(errors[0])


def test_D07_a_call_that_hangs_is_killed_at_its_deadline_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, log = [str(tmp_path / name) for name in ("a", "native", "b", "native", "c")], tmp_path / "native"
    hurry_calls_that_hang(monkeypatch, lambda process: log.exists() and str(process) in log.read_text().split())
    options = {"max_in_flight": 3, "deadline_seconds": PATIENCE_SECONDS}
    with ProcessPool(WORKERS) as pool:
        outcomes = list(ordered_outcomes(functions.write_and_hang, items, pool=pool, **options))
        assert list(ordered_map(functions.same, range(9), pool=pool, max_in_flight=4)) == list(range(9))
    for position, (item, outcome) in enumerate(zip(items, outcomes, strict=True)):
        if item.endswith("native"):
            assert isinstance(outcome, Err)
            assert isinstance(outcome.error, DeadlineExceeded)
            assert outcome.error.position == position
            assert re.search(
                rf"no result for item {position} \(.*native'\): worker process \d+ was still working on it after 30 s "
                "and was killed; raise deadline_seconds",
                str(outcome.error),
            )
        else:
            assert outcome == Ok(Path(item).name)
    hung = log.read_text().split()
    assert len(hung) == 2
    assert all_gone(map(int, hung))


class HastyPoll:
    """A poller for which each wait is over at once, as if its time had passed, until enough have passed."""

    def __init__(self, waits: int, enough: Callable[[], object]) -> None:
        self._poll, self._waits, self._enough = select.poll(), waits, enough
        self.register, self.modify = self._poll.register, self._poll.modify

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        self._waits -= 1
        if self._waits == 0:
            self._enough()
        return self._poll.poll(min(milliseconds, 1) if self._waits > 0 else milliseconds)


def test_L22_the_start_of_a_process_does_not_count_for_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "gate")
    opener = threading.Thread(target=(tmp_path / "gate").write_bytes, args=(b"",))
    # Twice as many seconds as the call has.
    poll = partial(HastyPoll, int(2 * PATIENCE_SECONDS / _child.LIVENESS_SECONDS), opener.start)
    monkeypatch.setattr(_child, "select", SimpleNamespace(poll=poll, POLLIN=select.POLLIN, POLLOUT=select.POLLOUT))
    options = {"max_in_flight": 1, "deadline_seconds": PATIENCE_SECONDS}
    with ProcessPool(1) as pool:
        assert list(ordered_map(functions.SlowToLoad(str(tmp_path)), [1], pool=pool, **options)) == [1]
    opener.join()


def test_L22_a_process_that_is_never_ready_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "START_UP_SECONDS", 0.3)
    os.mkfifo(tmp_path / "gate")
    with ProcessPool(1) as pool:
        (error,) = errors_of(functions.SlowToLoad(str(tmp_path)), [1], pool)
    assert isinstance(error, WorkerLost)
    assert str(error).count("was not ready after 0.3 s and was killed") == 2


# --- endings -------------------------------------------------------------------------------------


def hanging(folder: Path, **more: Any) -> tuple[Any, list[int]]:
    """An iterator that has given its first outcome and whose two workers hang at the next, and the workers."""
    outcomes = ordered_outcomes(functions.hang_and_tell, [None, str(folder), str(folder)], max_in_flight=3, **more)
    assert next(outcomes) == Ok(None)
    wait_until(lambda: len(list(folder.iterdir())) == WORKERS)
    return outcomes, [int(path.name) for path in folder.iterdir()]


def test_L16_close_ends_calls_that_take_longer_than_it_waits(tmp_path: Path) -> None:
    outcomes, workers = hanging(tmp_path, workers=WORKERS, kind="processes")
    outcomes.close(wait_seconds=0)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)  # nor are there zombies


def test_L16_a_dropped_iterator_ends_its_hanging_calls(tmp_path: Path) -> None:
    outcomes, workers = hanging(tmp_path, workers=WORKERS, kind="processes")
    del outcomes
    wait_until(lambda: all_gone(workers))


def test_L16_a_pool_that_is_forgotten_ends_its_hanging_calls(tmp_path: Path) -> None:
    _, workers = hanging(tmp_path, pool=ProcessPool(WORKERS))
    del _
    wait_until(lambda: all_gone(workers))


def test_L16_a_pool_that_is_abandoned_ends_its_hanging_calls(tmp_path: Path) -> None:
    pool = ProcessPool(WORKERS)
    outcomes, workers = hanging(tmp_path, pool=pool)
    pool.abandon()
    wait_until(lambda: all_gone(workers))
    assert [type(outcome.error) for outcome in outcomes if isinstance(outcome, Err)] == [WorkerLost] * WORKERS


def test_L16_a_given_pool_goes_on_after_its_hanging_calls_were_ended(processes: ProcessPool, tmp_path: Path) -> None:
    outcomes, workers = hanging(tmp_path, pool=processes)
    outcomes.close(wait_seconds=0)
    assert list(ordered_map(functions.same, range(9), pool=processes, max_in_flight=4)) == list(range(9))
    assert all_gone(workers)


def test_L16_a_consumer_that_waits_hears_of_the_end(tmp_path: Path) -> None:
    outcomes, workers = hanging(tmp_path, workers=WORKERS, kind="processes")
    closer = threading.Thread(target=outcomes.close, args=(0,))
    closer.start()
    assert list(outcomes) == []
    closer.join(PATIENCE_SECONDS)
    assert all_gone(workers)


def test_L16_close_waits_for_the_running_call(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "release")
    results = ordered_outcomes(
        functions.wait_and_tell, [str(tmp_path)] * 2, workers=1, kind="processes", max_in_flight=2
    )
    consumer = threading.Thread(target=lambda: next(results, None))
    consumer.start()
    wait_until((tmp_path / "begun").exists)
    closer = threading.Thread(target=lambda: results.close(wait_seconds=PATIENCE_SECONDS))
    closer.start()
    wait_until(lambda: waits_for_notice(closer))
    (tmp_path / "release").write_bytes(b"")
    closer.join(PATIENCE_SECONDS)
    consumer.join(PATIENCE_SECONDS)
    assert (tmp_path / "over").exists()


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_L16_iterators_on_one_pool_do_not_disturb_each_other(processes: ProcessPool, kind: str) -> None:
    with open_pool(WORKERS, kind) as pool:
        first = ordered_map(functions.tenfold, range(20), pool=pool, max_in_flight=4)
        second = ordered_map(functions.same, range(20), pool=pool, max_in_flight=4)
        third = ordered_outcomes(functions.die, ["a", "exit", "b"] * 3, pool=processes, max_in_flight=4)
        assert (next(first), next(second), next(third)) == (0, 0, Ok("a"))
        del first
        assert list(second) == list(range(1, 20))
        assert [type(outcome) for outcome in third] == [Err, Ok, Ok, Err, Ok, Ok, Err, Ok]


def test_L16_an_iterator_that_is_left_in_a_cycle_ends_its_processes(tmp_path: Path) -> None:
    outcomes, workers = hanging(tmp_path, workers=WORKERS, kind="processes")
    cycle: list[Any] = [outcomes]
    cycle.append(cycle)
    del cycle, outcomes
    gc.collect()
    wait_until(lambda: all_gone(workers))


def test_L19_a_consumer_that_stops_stops_the_workers(processes: ProcessPool, tmp_path: Path) -> None:
    items = [functions.Fate(str(tmp_path / str(item)), (), 0, 100_000) for item in range(60)]
    with ordered_outcomes(
        functions.suffer, items, pool=processes, max_in_flight=40, max_bytes=500_000,
        size_of=lambda value: len(value[1]),
    ) as outcomes:  # fmt: skip
        next(outcomes)
        buffer = outcomes._run._buffer
        wait_until(lambda: not buffer.startable and not buffer._running)
        # Five results fill it, the sixth is one too many, and as many were running when it came as there are workers.
        assert 500_000 < buffer._ready_bytes <= 600_000 + (WORKERS - 1) * 100_000
        assert len(list(tmp_path.iterdir())) <= 7 + WORKERS
        assert sum(isinstance(outcome, Ok) for outcome in outcomes) == 59


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_L25_a_forked_process_can_have_workers_of_its_own(processes: ProcessPool) -> None:
    def work() -> str:
        pids = set(ordered_map(functions.process, range(8), workers=2, kind="processes", max_in_flight=4))
        return f"{all_gone(pids)} {len(pids)} {os.getpid() in pids}"

    assert list(ordered_map(functions.same, range(4), pool=processes, max_in_flight=4)) == list(range(4))
    assert re.fullmatch("True [12] False", Forked(work).report())
    assert list(ordered_map(functions.same, range(4), pool=processes, max_in_flight=4)) == list(range(4))


@pytest.mark.slow
@pytest.mark.long
def test_L09_L10_many_items_leave_nothing_behind(processes: ProcessPool) -> None:
    number = either(short=4_000, long=100_000)
    results = ordered_map(functions.measure, range(number), pool=processes, max_in_flight=16)
    measured = [(*in_worker, *functions.measure(0)) if not item % 500 else () for item, in_worker in enumerate(results)]
    kept = [row for row in measured if row][1:]
    descriptors = {(row[0], row[2]) for row in kept}
    assert len({row[0] for row in kept}) == len({row[2] for row in kept}) == 1, descriptors
    growth = [max(row[column] for row in kept) - min(row[column] for row in kept) for column in (1, 3)]
    assert max(growth) < 4 * 2**20, "resident memory of a worker or of this process grows"


def test_L10_an_answer_that_does_not_fit_into_memory_costs_its_item_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def receive_some(read: Any) -> Any:
        calls.append(read)
        if len(calls) == 3:  # READY, the first answer, the second answer
            read(memoryview(bytearray(100)))
            raise MemoryError
        return receive(read)

    calls: list[Any] = []
    monkeypatch.setattr(_child._worker, "receive", receive_some)
    with ProcessPool(1) as pool:
        outcomes = list(ordered_outcomes(functions.make_bytes, [2_000_000, 3_000_000, 5], pool=pool, max_in_flight=1))
    assert [type(outcome) for outcome in outcomes] == [Ok, Err, Ok]


def test_L07_L08_results_need_no_shared_memory(processes: ProcessPool) -> None:
    """However small /dev/shm is, nothing fails for want of it, and whoever is killed leaves nothing there."""
    results = ordered_map(functions.make_bytes, [30_000_000] * 3, pool=processes, max_in_flight=2)
    assert [len(result) for result in results] == [30_000_000] * 3
    assert list(ordered_map(functions.shared_memory, range(4), pool=processes, max_in_flight=4)) == [[]] * 4


# --- surroundings --------------------------------------------------------------------------------


def test_a_worker_has_the_path_and_options_of_its_parent_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    monkeypatch.setenv("FRAMEFEED_THREADS", "8")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    with ProcessPool(1) as pool:
        (seen,) = ordered_map(functions.surroundings, [0], pool=pool, max_in_flight=1)
    os.close(reading)
    os.close(writing)
    assert seen["path"] == sys.path
    assert seen["warnings"] == sys.warnoptions
    assert seen["optimize"] == sys.flags.optimize
    assert seen["threads"]["OMP_NUM_THREADS"] == seen["threads"]["OPENCV_FOR_THREADS_NUM"] == "1"  # L02
    assert seen["threads"]["MKL_NUM_THREADS"] == "3"  # what the user says holds
    assert seen["threads"]["FRAMEFEED_THREADS"] == "1"
    assert seen["descriptors"] == 5  # three that every program has, and two lines to the parent
    assert seen["input"] == "/dev/null"
    assert seen["main"].endswith("_worker.py")
    assert signal.SIGINT in seen["blocked"]


def test_worker_processes_may_have_worker_processes(processes: ProcessPool) -> None:
    assert list(ordered_map(functions.nested, [3], pool=processes, max_in_flight=1)) == [[0, 10, 20]]


def test_threads_of_a_thread_pool_own_no_process() -> None:
    before = children_of(os.getpid())
    with ThreadPool(1) as pool:
        assert list(ordered_map(functions.process, [0], pool=pool, max_in_flight=1)) == [os.getpid()]
    assert children_of(os.getpid()) == before
