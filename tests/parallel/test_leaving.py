"""What is to be done before a process ends is done, whichever way it was started, and once."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from framefeed.parallel.leaving import before_process_ends

PROGRAM = """
from pathlib import Path
from tests.parallel.test_leaving import Note, ends
ends({path!r}, {fails})
"""


class Note:
    """Writes a line into a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write(self) -> None:
        with self._path.open("a") as file:
            file.write("left\n")


KEPT: list[Note] = []


def ends(path: str, fails: bool = False) -> None:
    note = Note(path)
    before_process_ends(note.write)
    before_process_ends(Note(path).write)
    KEPT.append(note)
    if fails:
        raise SystemExit(3)


@pytest.mark.parametrize("fails", [False, True])
def test_a_program_that_ends(fails: bool, tmp_path: Path) -> None:
    program = PROGRAM.format(path=str(tmp_path / "note"), fails=fails)
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == (3 if fails else 0)
    assert (tmp_path / "note").read_text() == "left\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_that_ends(method: str, fails: bool, tmp_path: Path) -> None:
    worker = multiprocessing.get_context(method).Process(target=ends, args=(str(tmp_path / "note"), fails))
    worker.start()
    worker.join(60)
    assert worker.exitcode == (3 if fails else 0)
    assert (tmp_path / "note").read_text() == "left\n"
