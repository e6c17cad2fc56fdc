"""SharedLines: several processes append to one file, which is removed at the end."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

from framefeed.parallel._shared_lines import SharedLines

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
LINES = 200


def append_many(lines: SharedLines, name: str) -> None:
    for number in range(LINES):
        assert lines.append(f"{name} {number} {'x' * 300}".encode())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lines_of_several_processes_do_not_mix(method: str) -> None:
    lines = SharedLines(1 << 20)
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=append_many, args=(lines, name)) for name in "ab"]  # type: ignore[attr-defined]
    for worker in workers:
        worker.start()
    append_many(lines, "parent")
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    got = [line.split() for line in lines.read()]
    for name in (b"a", b"b", b"parent"):
        assert [int(number) for each, number, _ in got if each == name] == list(range(LINES))
    assert len(got) == 3 * LINES
    assert lines.read() == []


def test_it_is_bounded_and_removed() -> None:
    lines = SharedLines(100)
    assert [lines.append(b"x" * 40) for _ in range(4)] == [True, True, False, False]
    assert lines.read() == [b"x" * 40] * 2
    path = Path(lines.path)
    assert path.stat().st_mode & 0o077 == 0
    del lines
    assert not path.exists()


def test_a_line_that_is_half_written_is_read_when_it_is_whole() -> None:
    lines = SharedLines(1000)
    with open(lines.path, "ab", buffering=0) as file:
        file.write(b"\none\n\ntw")
        assert lines.read() == [b"one"]
        assert lines.read() == []
        file.write(b"o\n")
    assert lines.read() == [b"two"]


def test_a_copy_is_a_file_of_its_own_and_outlives_the_first() -> None:
    lines = SharedLines(1000)
    assert lines.append(b"one")
    for other in (pickle.loads(pickle.dumps(lines)), copy.deepcopy(lines)):
        assert other.path != lines.path
        assert other.read() == []
    assert lines.read() == [b"one"]


def test_a_worker_that_outlives_the_maker_writes_nothing() -> None:
    lines = SharedLines(1000)
    os.unlink(lines.path)
    assert not lines.append(b"late")
    assert lines.read() == []
    assert not Path(lines.path).exists()
