"""Shortages are recognised, and calls are tried again after idle resources are released."""

import errno
import gc
import os
import weakref
from contextlib import suppress
from functools import partial

import pytest

from framefeed._shortage import find_shortage, register_releasable, release_idle, try_again_in_shortage
from framefeed._stopping import Cancelled, cancelled_by, check_stop, time_limit
from framefeed.errors import LimitExceeded, ResourceExhausted, UnreadableMedia
from framefeed.parallel._ordered import ordered_outcomes

SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


class Pool:
    """Keeps one thing that stands for all descriptors that there are."""

    def __init__(self) -> None:
        self.idle = 1
        register_releasable(self)

    def release_idle(self) -> None:
        self.idle = 0


@pytest.mark.parametrize("number", SHORTAGES)
def test_a_shortage_is_found_in_the_causes(number: int) -> None:
    low = OSError(number, os.strerror(number))
    assert find_shortage(low)
    assert find_shortage(MemoryError()) == "memory"
    translated = UnreadableMedia("x.mp4: cannot be opened")
    translated.__cause__ = low
    assert find_shortage(translated) == find_shortage(low)


@pytest.mark.parametrize(
    "message",
    [
        "Couldn't deserialize thrift: std::bad_alloc\n",
        "ZSTD compression failed: Allocation error : not enough memory",
        "ZSTD decompression failed: Allocation error : not enough memory",
    ],
)
def test_arrow_says_in_words_that_memory_ran_out(message: str) -> None:
    assert find_shortage(OSError(message)) == "memory"
    assert find_shortage(ValueError(message)) is None
    assert find_shortage(OSError(errno.EIO, message)) is None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT, errno.EACCES, errno.ESTALE, errno.EBADF])
def test_other_errors_are_no_shortage(number: int) -> None:
    assert find_shortage(OSError(number, os.strerror(number))) is None
    assert find_shortage(ValueError()) is None
    assert find_shortage(None) is None


@pytest.mark.parametrize("number", SHORTAGES)
def test_what_is_idle_is_released_before_the_second_try(number: int) -> None:
    pool = Pool()

    def opened() -> str:
        if pool.idle:
            raise OSError(number, os.strerror(number))
        return "opened"

    assert try_again_in_shortage(opened, "x.mp4", "open") == "opened"


def test_a_shortage_that_stays_is_an_error_of_its_own() -> None:
    calls: list[int] = []

    def opened() -> None:
        calls.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(ResourceExhausted, match=r"^x\.mp4: ran out of file descriptors .*ulimit -n") as caught:
        try_again_in_shortage(opened, "x.mp4", "open")
    assert len(calls) == 2
    assert caught.value.resource == "file descriptors of this process"
    assert caught.value.stage == "open"
    assert isinstance(caught.value.__cause__, OSError)


def test_work_within_work_is_tried_twice_in_all() -> None:
    tried = []

    def run_out() -> None:
        tried.append(1)
        raise MemoryError

    def call(depth: int) -> None:
        try_again_in_shortage(partial(call, depth - 1) if depth else run_out, "one", "decode")

    with pytest.raises(ResourceExhausted, match="one"):
        call(5)
    assert len(tried) == 2


def test_other_errors_are_raised_at_once() -> None:
    calls: list[int] = []

    def opened() -> None:
        calls.append(1)
        raise UnreadableMedia("x.mp4: not media")

    with pytest.raises(UnreadableMedia):
        try_again_in_shortage(opened, "x.mp4", "open")
    assert len(calls) == 1


def test_a_pool_that_is_gone_is_not_asked() -> None:
    pool = Pool()
    del pool
    gc.collect()
    release_idle()


def _work_for_ever() -> None:
    while True:
        check_stop()


def test_work_beyond_its_time_limit_ends() -> None:
    with time_limit(1e-9, "x.mp4"), pytest.raises(LimitExceeded, match=r"x\.mp4: took longer than 1e-09 s \(deadline"):
        _work_for_ever()
    check_stop()


def test_the_nearer_of_two_limits_counts() -> None:
    with time_limit(1e-9, "outer"), time_limit(1000, "inner"), pytest.raises(LimitExceeded, match="outer"):
        _work_for_ever()
    with time_limit(1000, "outer"), time_limit(None, "inner"):
        check_stop()


def test_work_for_a_cancelled_run_ends() -> None:
    with cancelled_by(lambda: True), pytest.raises(Cancelled):
        check_stop()
    check_stop()


def test_work_within_work_for_a_cancelled_run_ends() -> None:
    with cancelled_by(lambda: True), cancelled_by(lambda: False), pytest.raises(Cancelled):
        check_stop()


def _works_until_cancelled(item: int) -> int:
    if item:
        _work_for_ever()
    return item


def test_a_run_that_is_closed_ends_the_work_of_its_threads() -> None:
    with ordered_outcomes(_works_until_cancelled, range(3), workers=2, max_in_flight=3) as outcomes:
        next(outcomes)


def test_what_a_call_held_is_released_with_its_error() -> None:
    class Held:
        pass

    held: list[weakref.ref[Held]] = []

    def fail(number: int) -> None:
        thing = Held()
        held.append(weakref.ref(thing))
        raise OSError(number, "x")

    gc.disable()
    try:
        for number in (errno.EIO, errno.EMFILE):
            with suppress(OSError, ResourceExhausted):
                try_again_in_shortage(partial(fail, number), "clip.mp4", "open")
            assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()
