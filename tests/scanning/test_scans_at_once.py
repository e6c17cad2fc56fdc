"""Several processes that scan to one catalog, as the ranks of a training do: one scans, the others wait and open it."""

from __future__ import annotations

import inspect
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.scanning import _journal
from framefeed.scanning._journal import Journal
from framefeed.scanning._scan import scan
from tests.conftest import CHECKOUT
from tests.patience import PATIENCE_SECONDS
from tests.programs import running

Start = Callable[..., "Scan"]
NUM_FILES = 5
WAITING = "another process is scanning to this catalog: waiting for it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "media"
    folder.mkdir()
    for number in range(NUM_FILES):
        Image.new("RGB", (32, 24), (40 * number, 0, 0)).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cat.parquet"


class Scan:
    """A scan in a process of its own, and its standard streams."""

    def __init__(self, messages: socket.socket, settings: dict[str, Any]) -> None:
        ours, theirs = zip(*(os.pipe()[::step] for step in (-1, 1, 1)), strict=True)
        socket.send_fds(messages, [json.dumps(settings).encode()], theirs)
        for each in theirs:
            os.close(each)
        self.pid = int(messages.recv(99))
        self.stdin, self.stdout, self.stderr = map(os.fdopen, ours, "wrr")
        self._ended = os.pidfd_open(self.pid)

    def has_ended(self, seconds: float = 0.0) -> bool:
        return bool(select.select([self._ended], [], [], seconds)[0])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.has_ended(PATIENCE_SECONDS)

    def read(self) -> tuple[str, str]:
        """Let it go on to its end; what it says then on its two outputs."""
        self.stdin.close()
        return self.stdout.read(), self.stderr.read()

    def end(self) -> dict[str, Any]:
        """Let it go on to its end; its results."""
        out, err = self.read()
        assert WAITING not in err, "one line says it"
        report: dict[str, Any] = json.loads(out.splitlines()[-1])
        return report

    def close(self) -> None:
        if not self.has_ended():
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        os.close(self._ended)


@pytest.fixture(scope="module")
def messages() -> Iterator[socket.socket]:
    """What forks scans, see `scan_beside`."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "tests.scanning.scan_beside"]
    environment = {**os.environ, "PYTHONPATH": "src"}
    with ours, running(command, cwd=CHECKOUT, env=environment, stdin=theirs.fileno()):
        theirs.close()
        yield ours


@pytest.fixture
def start(messages: socket.socket, folder: Path, target: Path) -> Iterator[Start]:
    """Start a scan, which ends with the test."""
    with ExitStack() as stack:

        def run(*, stops: bool = False, files_of_a_chunk: int = 0, **options: Any) -> Scan:
            settings = {
                "folder": str(folder), "out": str(target), "options": options,
                "stops": stops, "files_of_a_chunk": files_of_a_chunk,
            }  # fmt: skip
            return stack.enter_context(closing(Scan(messages, settings)))

        yield run


def wait_until_one_stops(scans: Sequence[Scan], surveyed: int) -> Scan:
    """Wait until one of them has surveyed so many files, and return it."""
    by_output = {each.stdout: each for each in scans}
    ready, _, _ = select.select(list(by_output), [], [], PATIENCE_SECONDS)
    assert len(ready) == 1
    assert ready[0].readline() == f"surveyed {surveyed}\n"
    return by_output[ready[0]]


def start_first(start: Start, surveyed: int = NUM_FILES, **options: Any) -> Scan:
    """Start a scan that stops with all its results in the journal."""
    return wait_until_one_stops([start(stops=True, **options)], surveyed)


def wait_until_it_waits(scan: Scan, target: Path) -> None:
    assert scan.stderr.readline() == f"framefeed: {target}: {WAITING}\n"


def test_of_four_that_begin_at_once_one_scans_and_the_others_wait_and_open_the_result(
    start: Start, folder: Path, target: Path
) -> None:
    processes = [start(stops=True) for _ in range(4)]
    first = wait_until_one_stops(processes, NUM_FILES)
    others = [process for process in processes if process is not first]
    for other in others:
        wait_until_it_waits(other, target)
    report = first.end()
    assert (report["rows"], report["surveyed"]) == (NUM_FILES, NUM_FILES)
    assert report["fingerprint"] == scan(folder).fingerprint
    assert scan(folder).table.equals(Catalog.open(target).table)
    for other in others:
        assert other.end() == report | {"surveyed": 0}
    assert {path.name for path in target.parent.iterdir()} == {"media", "cat.parquet", "cat.frames.arrow"}


@pytest.mark.parametrize("resume", [True, False])
def test_those_that_wait_take_the_texts_of_the_result(start: Start, folder: Path, target: Path, resume: bool) -> None:
    (folder / "0.txt").write_text("first")
    options = {"text_from": ".txt", "resume": resume}
    first = start_first(start, **options)
    other = start(**options)
    wait_until_it_waits(other, target)
    report = first.end()
    (folder / "0.txt").write_text("a later one")  # It is not looked at.
    assert other.end() == report | {"surveyed": 0}
    assert Catalog.open(target).table["text"].to_pylist() == ["first", None, None, None, None]


def test_one_of_them_takes_the_scan_over_if_the_first_is_killed(start: Start, folder: Path, target: Path) -> None:
    first = start_first(start)
    others = [start(), start()]
    for other in others:
        wait_until_it_waits(other, target)
    first.kill()
    assert not target.exists()
    outputs = [other.read() for other in others]
    lines = [f"framefeed: {target}: the other process ended before its scan was complete: taking it over\n", ""]
    assert sorted((err for _, err in outputs), reverse=True) == lines, "the one that takes it over says so"
    reports = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    for report in reports:
        assert (report["rows"], report["fingerprint"]) == (NUM_FILES, scan(folder).fingerprint)
    # What the killed one had written to its journal is not surveyed again.
    assert [report["surveyed"] for report in reports] == [0, 0]
    assert not Path(f"{target}.journal").exists()


def test_what_killed_ones_had_surveyed_is_not_surveyed_again(start: Start, folder: Path, target: Path) -> None:
    left = [start(stops=True, files_of_a_chunk=2) for _ in range(4)]
    first = wait_until_one_stops(left, 2)
    left.remove(first)
    for other in left:
        wait_until_it_waits(other, target)
    first.kill()
    second = wait_until_one_stops(left, 2)
    left.remove(second)
    second.kill()
    third = wait_until_one_stops(left, NUM_FILES - 2 - 2)
    left.remove(third)
    assert not target.exists()
    assert [each.has_ended() for each in left] == [False], "the last one still waits"
    report = third.end()
    assert report["fingerprint"] == scan(folder).fingerprint
    assert scan(folder).table.equals(Catalog.open(target).table)
    assert left[0].end() == report | {"surveyed": 0}
    assert {path.name for path in target.parent.iterdir()} == {"media", "cat.parquet", "cat.frames.arrow"}


def test_an_old_catalog_is_not_taken_for_the_result_of_a_killed_scan(start: Start, folder: Path, target: Path) -> None:
    scan(folder, out=target)
    Image.new("RGB", (64, 48)).save(folder / "0.png")
    first, other = start_first(start, surveyed=1), start()
    wait_until_it_waits(other, target)
    first.kill()
    assert other.end()["fingerprint"] == scan(folder).fingerprint
    assert scan(folder).widths[0] == 64


def test_ctrl_c_ends_the_wait(start: Start, target: Path) -> None:
    first, other = start_first(start), start()
    wait_until_it_waits(other, target)
    os.kill(other.pid, signal.SIGINT)
    assert other.end() == {"interrupted": True}
    assert not first.has_ended()
    assert first.end()["rows"] == NUM_FILES


def test_other_arguments_do_not_wait(start: Start, target: Path) -> None:
    first = start_first(start)
    for options, names in (
        ({"verify": "full"}, "verify"),
        ({"label_from": "parent", "resume": False}, "label_from, resume"),
    ):
        report = start(**options).end()
        assert report["error"] == (
            f"{target}: another process is scanning to this catalog with other arguments ({names}): choose another "
            "out=, or wait until it has ended"
        )
    assert first.end()["rows"] == NUM_FILES


def test_every_argument_of_scan_that_decides_the_catalog_is_compared(folder: Path, target: Path) -> None:
    """Without one of them, a scan would wait for another one, and take its catalog for its own."""
    others = {"out", "workers", "progress", "storage_options", "journal"}
    with Journal(str(target), {}), pytest.raises(UsageError, match="with other arguments") as caught:
        scan(folder, out=target, progress=False)
    compared = str(caught.value).partition("(")[2].partition(")")[0].split(", ")
    assert set(compared) - {"rules"} == set(inspect.signature(scan).parameters) - others


def test_the_arguments_of_a_killed_scan_are_no_reason(start: Start, target: Path) -> None:
    killed = start_first(start, verify="full")
    killed.kill()
    assert start().end()["rows"] == NUM_FILES


def test_files_that_came_meanwhile_are_scanned(start: Start, folder: Path, target: Path) -> None:
    first = start_first(start)
    Image.new("RGB", (32, 24)).save(folder / "more.png")
    other = start()
    wait_until_it_waits(other, target)
    assert first.end()["rows"] == NUM_FILES
    report = other.end()
    assert (report["rows"], report["surveyed"]) == (NUM_FILES + 1, 1)


def test_without_progress_nothing_is_printed(start: Start) -> None:
    first, other = start_first(start), start(progress=False)
    assert first.end()["rows"] == NUM_FILES
    assert other.read()[1] == ""


def test_arguments_that_a_killed_scan_left_do_not_count_before_the_next_has_written_its_own(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Journal(str(target), {}, {"verify": "ends"})
    path = first.folder / "arguments.json"
    own = path.read_text()
    path.write_text(own.replace(own[-6:], '000"}'))
    steps = iter([lambda: path.write_text(own), first.remove])
    monkeypatch.setattr(_journal, "sleep", lambda seconds: next(steps)())
    with Journal(str(target), {}, {"verify": "ends"}) as journal:
        assert (journal.has_waited, journal.was_left) == (True, False)


def test_pauses_grow_with_the_wait_and_only_a_long_wait_is_shown(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, now, pauses, shown = Journal(str(target), {}), [0.0], list[float](), list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        if now[0] > 60:
            first.remove()

    monkeypatch.setattr(_journal, "sleep", pause)
    monkeypatch.setattr(_journal, "monotonic", lambda: now[0])
    with Journal(str(target), {}, show_line=lambda line: shown.append(now[0])):
        assert pauses == sorted(pauses)
        assert (pauses[0], pauses[-1]) == (0.01, 0.1)
    assert len(shown) == 1
    assert 1 <= shown[0] < 1.1


def test_arguments_are_stored_as_hashes(target: Path) -> None:
    with Journal(str(target), {}, {"roots": ["https://user:secret@host/a.mp4"]}) as journal:
        stored = (journal.folder / "arguments.json").read_text()
    assert json.loads(stored).keys() == {"roots"}
    assert "secret" not in stored


def test_a_journal_that_cannot_be_begun_is_not_waited_for(target: Path) -> None:
    Path(f"{target}.journal").mkdir()
    arguments = Path(f"{target}.journal", "arguments.json")
    arguments.mkdir()
    with pytest.raises(UsageError):
        Journal(str(target), {})
    arguments.rmdir()
    Journal(str(target), {}).close()
