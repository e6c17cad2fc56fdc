"""What engines print is kept, what others print is written on; what they say of a shortage is one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from framefeed.decode.backends._engine import find_engine_shortage
from framefeed.decode.backends._standard_error import keeping_output


def test_lines_of_others_are_written_on_and_those_of_engines_kept(capfd: pytest.CaptureFixture[str]) -> None:
    entered, printed = threading.Event(), threading.Event()

    def print_then() -> None:
        entered.wait(20)
        os.write(2, b"my own line\n")
        printed.set()

    thread = threading.Thread(target=print_then)
    thread.start()
    with keeping_output() as lines:
        entered.set()
        assert printed.wait(20)
        os.write(2, b"[h264 @ 0x55d0] mmco: unref short failure\n[04:32:45] /src/video.cc:327: Failed to seek\n")
    thread.join()
    assert capfd.readouterr().err == "my own line\n"
    assert lines == ["[h264 @ 0x55d0] mmco: unref short failure\n", "[04:32:45] /src/video.cc:327: Failed to seek\n"]


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


def test_a_descriptor_that_the_user_sets_meanwhile_stays(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = os.dup(2)
    try:
        with log.open("wb") as file:
            with keeping_output():
                os.dup2(file.fileno(), 2)
            os.write(2, b"after\n")
    finally:
        os.dup2(before, 2)
        os.close(before)
    assert log.read_bytes() == b"after\n"


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("std::bad_alloc", "memory"),
        ("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "memory"),
        ("(-4:Insufficient memory) Failed to allocate 24883200 bytes", "memory"),
        ("Could not open input file: Too many open files", "file descriptors of this process"),
        ("Requested next frame while there are no more frames left to decode.", None),
    ],
)
def test_what_engines_say_of_a_shortage_is_recognised(text: str, resource: str | None) -> None:
    assert find_engine_shortage(text) == resource
