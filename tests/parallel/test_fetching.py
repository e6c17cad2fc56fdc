"""Calls that may never return: they are given up in time, and their outcomes are those of the function."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

import pytest

from framefeed._stopping import Cancelled, call_in_time, cancelled_by, fetch_limit, time_limit
from framefeed.errors import DeadlineExceeded
from framefeed.parallel import Err, Ok
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging call waits for; open at the end."""
    event = threading.Event()
    yield event
    event.set()


def test_the_outcome_is_the_functions() -> None:
    assert call_in_time(abs, -3, PATIENCE_SECONDS, "a.mp4", "read") == Ok(3)
    outcome = call_in_time(int, "x", PATIENCE_SECONDS, "a.mp4", "read")  # type: ignore[arg-type]
    assert isinstance(outcome, Err)
    assert isinstance(outcome.error, ValueError)


def test_L27_a_late_call_is_given_up(gate: threading.Event) -> None:
    with pytest.raises(DeadlineExceeded, match=r"a\.mp4: .* within 0\.1 s \(stage: read\): try again later") as caught:
        call_in_time(gate.wait, None, 0.1, "a.mp4", "read")
    assert (caught.value.source, caught.value.stage) == ("a.mp4", "read")


def test_the_limits_of_the_calling_thread_count(gate: threading.Event) -> None:
    for limit in (time_limit(0.1, "a.mp4"), fetch_limit(0.1)):
        with limit, pytest.raises(DeadlineExceeded, match=r"within deadline_seconds .* raise it"):
            call_in_time(gate.wait, None, PATIENCE_SECONDS, "a.mp4", "read")
        assert call_in_time(abs, -3, PATIENCE_SECONDS, "a.mp4", "read") == Ok(3)


def test_no_call_begins_behind_a_limit() -> None:
    called: list[int] = []
    # Of limits within each other the earlier one counts.
    with fetch_limit(-1.0), fetch_limit(PATIENCE_SECONDS), pytest.raises(DeadlineExceeded):
        call_in_time(called.append, 1, PATIENCE_SECONDS, "a.mp4", "read")
    assert not called


def test_a_cancelled_run_does_not_wait(gate: threading.Event) -> None:
    with cancelled_by(lambda: True), pytest.raises(Cancelled):
        call_in_time(gate.wait, None, PATIENCE_SECONDS, "a.mp4", "read")


def test_without_a_thread_it_is_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OSError, match="Resource") as caught:
        call_in_time(abs, -3, PATIENCE_SECONDS, "a.mp4", "read")
    assert caught.value.errno == errno.EAGAIN
