"""What engines print is kept, what others print is written on; what they say of a shortage is one."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from framefeed.decode.backends._engine import find_engine_shortage
from framefeed.decode.backends._standard_error import keeping_output
from tests.patience import PATIENCE_SECONDS


def test_lines_of_others_are_written_on_and_those_of_engines_kept(capfd: pytest.CaptureFixture[str]) -> None:
    entered, printed = threading.Event(), threading.Event()

    def print_then() -> None:
        entered.wait(PATIENCE_SECONDS)
        os.write(2, b"my own line\n")
        printed.set()

    thread = threading.Thread(target=print_then)
    thread.start()
    with keeping_output() as lines:
        entered.set()
        assert printed.wait(PATIENCE_SECONDS)
        os.write(2, b"[h264 @ 0x55d0aa] mmco: unref short failure\n[04:32:45] /src/video.cc:327: Failed to seek\n")
    thread.join()
    assert capfd.readouterr().err == "my own line\n"
    assert lines == ["[h264 @ 0x55d0aa] mmco: unref short failure\n", "[04:32:45] /src/video.cc:327: Failed to seek\n"]


def test_L01_a_child_that_is_forked_while_output_is_kept_prints_as_its_parent(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with keeping_output():
        child = os.fork()
        if not child:
            os.write(2, b"of the child\n")
            os._exit(0)
        os.waitpid(child, 0)
    assert capfd.readouterr().err == "of the child\n"


@pytest.fixture
def standard_error() -> Iterator[None]:
    """What a test makes of standard error is undone."""
    before = os.dup(2)
    yield
    os.dup2(before, 2)
    os.close(before)


@pytest.mark.usefixtures("standard_error")
def test_a_descriptor_that_the_user_sets_meanwhile_stays(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        with keeping_output():
            os.dup2(file.fileno(), 2)
        os.write(2, b"after\n")
    assert log.read_bytes() == b"after\n"


OTHERS = (
    "[RANK:0] epoch 1 loss 0.3",
    "[INFO:1] hello",
    "[12:34:56] train.py:88: loss",
    "[/srv/me/train.py:88] x",
    "dlopen of my plugin took 3 s",
    "[worker @ 0x7f] mine",
)
ENGINES = (
    "[h264 @ 0x55d0aa] mmco: unref short failure",
    "Truncating packet of size 16777215 to 6381",
    "[04:32:45] /project/src/video/video_reader.cc:327: Failed to seek file",
    "[/opt/dali/dali/operators/decoder.cc:88] no such frame",
    "[ WARN:0@2.778] global cap.cpp:212 open VIDEOIO(FFMPEG): backend is generally available",
)


def test_lines_of_engines_are_told_from_others(capfd: pytest.CaptureFixture[str]) -> None:
    with keeping_output() as lines:
        os.write(2, "".join(f"{line}\n" for pair in zip(OTHERS, ENGINES, strict=False) for line in pair).encode())
        os.write(2, f"{OTHERS[-1]}\n".encode())
    assert capfd.readouterr().err.splitlines() == list(OTHERS)
    assert [line.rstrip() for line in lines] == list(ENGINES)


@pytest.mark.usefixtures("standard_error")
def test_what_cannot_be_written_on_is_no_error_of_the_call() -> None:
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    with keeping_output():
        os.write(2, b"a line\n")
        os.close(reader)
    with keeping_output():
        os.close(2)


SHORT = (
    "std::bad_alloc",
    "can't allocate memory: you tried",
    "(-4:Insufficient memory) Failed to allocate 24883200 bytes",
)


@pytest.mark.parametrize("text", SHORT)
def test_what_engines_say_of_memory_is_believed_if_there_is_none(text: str) -> None:
    assert find_engine_shortage(text, 2**30) is None  # a damaged header may ask for any amount
    assert find_engine_shortage("there are no more frames left to decode", 2**30) is None
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, before[1]))
    try:
        assert find_engine_shortage(text, 2**30) == "memory"
        assert find_engine_shortage("there are no more frames left to decode", 2**30) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
