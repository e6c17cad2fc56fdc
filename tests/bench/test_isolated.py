"""A program in a process of its own: what it reported counts, and nothing of it stays, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framefeed.bench import _isolated
from framefeed.bench._isolated import Ended, Interrupted, Program, _describe, _make_notes, run_isolated
from framefeed.errors import UsageError
from tests.bench import isolated_programs as programs
from tests.conftest import CHECKOUT
from tests.patience import PATIENCE_SECONDS
from tests.programs import running


@pytest.fixture(autouse=True)
def path_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{CHECKOUT / 'src'}:{CHECKOUT}")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In which nothing is left in the end."""
    made = tmp_path / "folder"
    made.mkdir()
    yield made
    assert list(made.iterdir()) == []


def run(program: Program, folder: Path, **options: Any) -> Ended:
    return run_isolated(program, options, folder, seconds=2 * PATIENCE_SECONDS)


def ends(pid: int) -> bool:
    """Whether a process ends in time, or has ended; one for which its parent has not asked yet has."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return True
        if stat.rpartition(")")[2].split()[0] in "ZX":
            return True
        time.sleep(0.01)
    return False


def how_to_hang(tmp_path: Path, **changes: bool) -> dict[str, Any]:
    (tmp_path / "own").mkdir()
    paths = {"folder": os.fspath(tmp_path / "own"), "ready": os.fspath(tmp_path / "ready")}
    return {"is_deaf": False, "has_daemon": True, "interrupts": False, **paths, **changes}


def test_the_last_report_counts(folder: Path) -> None:
    given = {"text": "é\udce9", "numbers": [1, 2.5, None]}
    assert run(programs.report_thrice, folder, **given) == Ended({"given": given, "input": "", "session": True})


def test_a_program_may_report_nothing(folder: Path) -> None:
    assert run(programs.report_nothing, folder) == Ended(None)


def test_an_exception_is_the_failure(folder: Path) -> None:
    assert run(programs.fail, folder, message="no such clip", is_own=True) == Ended("before", "no such clip")
    assert run(programs.fail, folder, message="clip", is_own=False) == Ended("before", "KeyError: 'clip'")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("one\n  two\x1b[1m \udce9"), r"ValueError: one two\x1b[1m \xe9"),
        (OSError("https://user:password@host/a?key=1 is late"), "OSError: https://host/a?... is late"),
        (UsageError(), "UsageError"),
        (UsageError("x" * 501), "x" * 497 + "..."),
    ],
)
def test_a_failure_is_one_short_line(error: Exception, failure: str) -> None:
    assert _describe(error) == failure


@pytest.mark.parametrize(
    ("is_number", "failure"),
    [
        (False, "TypeError: Object of type set is not JSON serializable"),
        (True, "ValueError: Out of range float values are not JSON compliant"),
    ],
)
def test_what_is_no_json_cannot_be_reported(is_number: bool, failure: str, folder: Path) -> None:
    ended = run(programs.report_what_is_no_json, folder, is_number=is_number)
    assert ended.value == "before"
    assert ended.failure.startswith(failure)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGRTMIN + 1])
def test_a_crash_is_the_failure(number: int, folder: Path) -> None:
    name = number.name if isinstance(number, signal.Signals) else number
    assert run(programs.end_by_signal, folder, number=number) == Ended("before", f"it crashed: signal {name}")


def test_a_program_that_is_told_to_end_did_not_end_well(folder: Path) -> None:
    assert run(programs.end_by_signal, folder, number=signal.SIGTERM) == Ended("before", "KeyboardInterrupt")


def test_an_abort_is_a_crash_and_leaves_no_dump(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    assert run(programs.abort, folder) == Ended("before", "it crashed: signal SIGABRT")
    assert os.listdir() == []


def test_an_exit_status_is_the_failure(folder: Path) -> None:
    assert run(programs.leave, folder, status=0, last="") == Ended("before")
    assert run(programs.leave, folder, status=3, last="why\nno\tmemory\n\n") == Ended(
        "before", "it ended with status 3: no memory", ("it printed 2 lines, the first: why",)
    )
    assert run(programs.exit_with, folder, status=0) == Ended(None)
    assert run(programs.exit_with, folder, status=4) == Ended(None, "it ended with status 4")


def test_what_is_printed_is_noted(folder: Path) -> None:
    assert run(programs.print_lines, folder, text="\n \n") == Ended(None)
    noted = ("it printed 2 lines, the first: first é \\xe9",)
    assert run(programs.print_lines, folder, text="\n  first é \udce9\nsecond\n") == Ended(None, "", noted)


@pytest.mark.parametrize(
    ("lines", "num_left", "notes"),
    [
        ([], 0, []),
        (["one\x1b[1m"], 1, [r"it printed 1 line: one\x1b[1m", "it left 1 process running, which was ended"]),
        (["x" * 101] * 3, 0, [f"it printed 3 lines, the first: {'x' * 97}..."]),
    ],
)
def test_notes_are_short_lines(lines: list[str], num_left: int, notes: list[str]) -> None:
    assert _make_notes(lines, num_left) == notes


def test_a_program_that_cannot_be_found_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = run_isolated(lambda _, __: None, {}, folder, seconds=2 * PATIENCE_SECONDS)
    assert missing.failure.startswith("ValueError: invalid format: 'tests.bench.test_isolated:test_a_program_")
    monkeypatch.setattr(programs.report_nothing, "__module__", "no_such_module")
    assert run(programs.report_nothing, folder) == Ended(None, "ModuleNotFoundError: No module named 'no_such_module'")


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The deadline comes when this file does, or the process has ended, and patience with a process is short."""
    ready = tmp_path / "ready"

    class LatePopen(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            while self.poll() is None and not ready.exists():
                time.sleep(0.01)
            return super().wait(timeout)

    monkeypatch.setattr(_isolated, "Popen", LatePopen)
    return ready


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_program_that_hangs_is_killed_and_its_last_report_counts(
    is_deaf: bool, late: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_isolated, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(_isolated, "_CLEANING_SECONDS", 0.1 if is_deaf else PATIENCE_SECONDS)
    ended = run_isolated(programs.hang, how_to_hang(tmp_path, is_deaf=is_deaf), folder, seconds=0.25)
    failure = "it did not end within 0.25 s and was killed"
    assert ended == Ended(
        json.loads(late.read_bytes()), failure, ("it left 1 process running, which was ended",), is_late=True
    )
    assert all(map(ends, ended.value))
    assert bool(list((tmp_path / "own").iterdir())) == is_deaf


@pytest.mark.parametrize("is_deaf", [False, True])
def test_nothing_stays_when_the_caller_is_interrupted(
    is_deaf: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is deaf interrupts once more, when it is told to end: then it is not waited for."""
    monkeypatch.setattr(_isolated, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(_isolated, "_CLEANING_SECONDS", 4 * PATIENCE_SECONDS)
    options = how_to_hang(tmp_path, is_deaf=is_deaf, interrupts=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted) as interrupted:
            run_isolated(programs.hang, options, folder, seconds=2 * PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted.value.value == json.loads((tmp_path / "ready").read_bytes())
    assert all(map(ends, json.loads((tmp_path / "ready").read_bytes())))
    assert bool(list((tmp_path / "own").iterdir())) == is_deaf


def test_a_program_ends_with_its_parent(tmp_path: Path) -> None:
    options = how_to_hang(tmp_path, has_daemon=False)
    words = [sys.executable, "-m", "tests.bench.isolated_programs", json.dumps(options)]
    with running(words, cwd=CHECKOUT) as parent:
        while parent.poll() is None and not (tmp_path / "ready").exists():
            time.sleep(0.01)
        parent.kill()
    assert all(map(ends, json.loads((tmp_path / "ready").read_bytes())))
    left = [path.name for path in (tmp_path / "own").iterdir()]
    assert all(name.startswith("isolated_") for name in left)  # of the parent, which was killed


def test_a_program_whose_parent_has_ended_already_does_not_begin(folder: Path) -> None:
    words = [sys.executable, "-c", _isolated._START, "no_such_module:run", os.fspath(folder), str(os.getppid())]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS)
    assert (ended.returncode, ended.stderr) == (1, "the parent has ended\n")


@pytest.mark.parametrize(
    ("program", "options", "notes"),
    [
        (programs.leave_daemon, {}, ("it left 1 process running, which was ended",)),
        (programs.leave_children, {"is_marked": True}, ("it left 2 processes running, which were ended",)),
        (programs.leave_children, {"is_marked": False}, ()),
    ],
)
def test_processes_that_are_left_are_ended(
    program: Program, options: dict[str, Any], notes: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_isolated, "_GRACE_SECONDS", 0.0)
    ended = run(program, folder, **options)
    assert (ended.failure, ended.notes) == ("", notes)
    assert ended.value
    assert all(map(ends, ended.value))


def test_helpers_may_end_by_themselves(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_isolated, "_GRACE_SECONDS", PATIENCE_SECONDS)
    ended = run(programs.start_helper, folder, done=os.fspath(tmp_path / "done"))
    assert (ended.failure, ended.notes) == ("", ())
    assert all(map(ends, ended.value))
    assert (tmp_path / "done").exists()
