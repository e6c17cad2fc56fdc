"""URLs whose storage stalls: calls come back in time, and later reads are not disturbed by the late one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed import _stopping
from framefeed._values import read_bytes
from framefeed.errors import DeadlineExceeded, MissingMedia
from framefeed.media import _urls
from framefeed.media._source import MediaSource
from tests.corpus import corpus_file
from tests.decode.forks import Child
from tests.programs import run_python
from tests.remote import CountedFile, CountedFiles, served, stored

NAME = "base.mp4"
ASKS = {"probe": ff.probe, "index": ff.build_index, "decode": lambda url: ff.VideoDecoder(url)[0]}


@contextmanager
def raises_late(match: str) -> Iterator[pytest.ExceptionInfo[DeadlineExceeded]]:
    """Expect that a call in the block is given up, soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_stopping, "SILENCE_SECONDS", 0.05)
        with pytest.raises(DeadlineExceeded, match=match) as caught:
            yield caught


@pytest.fixture
def url() -> Iterator[str]:
    """An object in a store that is open."""
    with stored(a=corpus_file(NAME).read_bytes()) as (url,):
        yield url


@pytest.mark.parametrize("stall", ["/a.mp4", "HEAD /a.mp4", "trickle /a.mp4"])
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("route", ["ranges", "fsspec"])
def test_L27_a_server_that_sends_nothing_is_given_up(
    ask: str, stall: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp" if route == "fsspec" else "urllib3", reason="a client of HTTP")
    if route == "fsspec":
        monkeypatch.setattr("framefeed.media.remote._has_client", lambda: False)
    elif stall.startswith("HEAD"):
        pytest.skip("our own reader sends no HEAD")
    with served({"/a.mp4": corpus_file(NAME).read_bytes()}, stalled={stall}) as server:
        with raises_late(r"a\.mp4: the storage did not answer within 0\.05 s") as caught:
            ASKS[ask](f"{server}/a.mp4")
        assert caught.value.source == f"{server}/a.mp4"
        with pytest.raises(MissingMedia):
            ASKS[ask](f"{server}/none.mp4")


@pytest.mark.parametrize("ask", ASKS)
def test_L27_any_file_system_that_blocks_is_given_up(url: str, ask: str) -> None:
    CountedFiles.gate.clear()
    with raises_late("counted://a: the storage did not answer"):
        ASKS[ask](url)


def test_a_decoder_goes_on_when_the_storage_answers_again(url: str) -> None:
    with ff.VideoDecoder(url) as far, ff.VideoDecoder(corpus_file(NAME)) as near:
        np.testing.assert_array_equal(far[0], near[0])
        last = len(near) - 1
        with MediaSource.of(url).opened() as reader:
            CountedFiles.gate.clear()
            with raises_late("counted://a"):
                read_bytes(reader, 0, 100)
            with raises_late("counted://a"):
                MediaSource.of(url).stat()
            CountedFiles.gate.set()
            assert read_bytes(reader, 0, 100) == corpus_file(NAME).read_bytes()[:100]
        for number in (last, 1):
            np.testing.assert_array_equal(far[number], near[number])


def test_a_late_read_does_not_write_to_the_callers_memory(url: str) -> None:
    with MediaSource.of(url).opened() as reader:
        CountedFiles.gate.clear()
        memory = bytearray(100)
        with raises_late("counted://a"):
            reader.read_into(memoryview(memory), 0)
        CountedFiles.gate.set()
        # A second read of the same bytes comes behind the late one, or beside it.
        assert read_bytes(reader, 0, 100) != bytes(100)
        assert memory == bytes(100)


def test_a_read_does_not_wait_for_a_late_one(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, fetch, gate, starts = corpus_file(NAME).read_bytes(), CountedFile._fetch_range, threading.Event(), list[int]()

    def block_once(self: CountedFile, start: int, end: int) -> bytes:
        starts.append(start)
        if len(starts) == 1:
            gate.wait()
        return fetch(self, start, end)

    monkeypatch.setattr(CountedFile, "_fetch_range", block_once)
    with MediaSource.of(url).opened() as reader:
        with raises_late("counted://a"):
            read_bytes(reader, 0, 100)
        assert read_bytes(reader, 0, 100) == data[:100]
    gate.set()


def test_L01_a_forked_child_reads_what_its_parent_has_opened_by_http() -> None:
    data = corpus_file(NAME).read_bytes()
    with served({"/a.mp4": data}) as server, MediaSource.of(f"{server}/a.mp4").opened() as reader:
        assert Child(lambda: str(read_bytes(reader, 0, 100) == data[:100])).report() == "True"


def test_a_chain_has_longer_because_a_step_may_fetch_a_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    def record(function: Callable[[Any], Any], argument: Any, seconds: float, name: str, stage: str) -> Any:
        allowed.append(seconds)
        raise DeadlineExceeded(f"{name} {stage}")

    monkeypatch.setattr(_urls, "call_in_time", record)
    for url in ("memory://a.mp4", "simplecache::memory://a.mp4"):
        with pytest.raises(DeadlineExceeded):
            ff.probe(url)
    assert allowed == [60.0, 600.0]


def test_L01_a_forked_child_begins_anew_while_a_read_of_the_parent_hangs(url: str) -> None:
    data = corpus_file(NAME).read_bytes()
    with MediaSource.of(url).opened() as reader:
        CountedFiles.gate.clear()
        with raises_late("counted://a"):
            read_bytes(reader, 0, 100)

        def read_in_child() -> str:
            CountedFiles.gate = type(CountedFiles.gate)()
            CountedFiles.gate.set()
            return str(read_bytes(reader, 0, 100) == data[:100])

        assert Child(read_in_child).report() == "True"


EXIT = """
import sys, framefeed as ff
from framefeed import _stopping
from tests.corpus import corpus_file
from tests.remote import CountedFiles, stored
_stopping.SILENCE_SECONDS = 0.5
stored(a=corpus_file("base.mp4").read_bytes()).__enter__()
CountedFiles.gate.clear()
try:
    ff.probe("counted://a")
except ff.DeadlineExceeded:
    print("late")
"""


@pytest.mark.slow
def test_L17_a_read_that_hangs_does_not_hold_up_the_end_of_the_interpreter() -> None:
    ran = run_python("-c", EXIT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "late\n", "")


def test_a_timeout_of_the_storage_is_a_passed_deadline(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def time_out(self: object, path: str, **_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(CountedFiles, "info", time_out)
    with pytest.raises(DeadlineExceeded, match=r"counted://a: .* its own settings allow"):
        ff.probe(url)
