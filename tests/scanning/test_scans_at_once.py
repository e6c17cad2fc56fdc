"""Several processes that scan to one catalog, as the ranks of a training do: one scans, the others wait and open it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from framefeed.errors import UsageError
from framefeed.scanning import _journal
from framefeed.scanning._journal import Journal
from framefeed.scanning._scan import scan
from tests.conftest import CHECKOUT
from tests.programs import running

Start = Callable[..., "subprocess.Popen[str]"]
SECONDS = 60
NUM_FILES = 5
pytestmark = pytest.mark.slow
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


@pytest.fixture
def start(folder: Path, target: Path) -> Iterator[Start]:
    """Start a scan in a process of its own; it ends with the test."""
    with ExitStack() as stack:

        def run(*, holds: bool = False, **options: Any) -> subprocess.Popen[str]:
            settings = {"folder": str(folder), "out": str(target), "holds": holds, "options": options}
            command = [sys.executable, "-m", "tests.scanning.scan_beside", json.dumps(settings)]
            process = stack.enter_context(
                running(
                    command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": "src"}, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )  # fmt: skip
            if holds:
                assert process.stdout is not None
                assert process.stdout.readline() == "scanned\n"
            return process

        yield run


def wait_until_it_waits(process: subprocess.Popen[str], target: Path) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == f"framefeed: {target}: {WAITING}\n"


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=SECONDS)
    assert WAITING not in err, "one line says it"
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    return report


def test_the_others_wait_and_open_the_result(start: Start, folder: Path, target: Path) -> None:
    first = start(holds=True)
    others = [start(), start()]
    for other in others:
        wait_until_it_waits(other, target)
    expected = {"rows": NUM_FILES, "fingerprint": scan(folder).fingerprint}
    assert end(first) == expected | {"surveyed": NUM_FILES}
    for other in others:
        assert end(other) == expected | {"surveyed": 0}
    assert {path.name for path in target.parent.iterdir()} == {"media", "cat.parquet", "cat.frames.arrow"}


def test_one_of_them_takes_the_scan_over_if_the_first_is_killed(start: Start, folder: Path, target: Path) -> None:
    first = start(holds=True)
    others = [start(), start()]
    for other in others:
        wait_until_it_waits(other, target)
    first.send_signal(signal.SIGKILL)
    first.wait(SECONDS)
    assert not target.exists()
    outputs = [other.communicate(timeout=SECONDS) for other in others]
    lines = [f"framefeed: {target}: the other process ended before its scan was complete: taking it over\n", ""]
    assert sorted((err for _, err in outputs), reverse=True) == lines, "the one that takes it over says so"
    reports = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    for report in reports:
        assert (report["rows"], report["fingerprint"]) == (NUM_FILES, scan(folder).fingerprint)
    # What the killed one had written to its journal is not surveyed again.
    assert [report["surveyed"] for report in reports] == [0, 0]
    assert not Path(f"{target}.journal").exists()


def test_an_old_catalog_is_not_taken_for_the_result_of_a_killed_scan(start: Start, folder: Path, target: Path) -> None:
    scan(folder, out=target)
    Image.new("RGB", (64, 48)).save(folder / "0.png")
    first, other = start(holds=True), start()
    wait_until_it_waits(other, target)
    first.send_signal(signal.SIGKILL)
    first.wait(SECONDS)
    assert end(other)["fingerprint"] == scan(folder).fingerprint
    assert scan(folder).widths[0] == 64


def test_ctrl_c_ends_the_wait(start: Start, target: Path) -> None:
    first, other = start(holds=True), start()
    wait_until_it_waits(other, target)
    other.send_signal(signal.SIGINT)
    assert end(other) == {"interrupted": True}
    assert first.poll() is None
    assert end(first)["rows"] == NUM_FILES


def test_other_arguments_do_not_wait(start: Start, target: Path) -> None:
    first = start(holds=True)
    for options, names in (
        ({"verify": "full"}, "verify"),
        ({"label_from": "parent", "resume": False}, "label_from, resume"),
    ):
        report = end(start(**options))
        assert report["error"] == (
            f"{target}: another process is scanning to this catalog with other arguments ({names}): choose another "
            "out=, or wait until it has ended"
        )
    assert end(first)["rows"] == NUM_FILES


def test_the_arguments_of_a_killed_scan_are_no_reason(start: Start, target: Path) -> None:
    killed = start(holds=True, verify="full")
    killed.send_signal(signal.SIGKILL)
    killed.wait(SECONDS)
    assert end(start())["rows"] == NUM_FILES


def test_files_that_came_meanwhile_are_scanned(start: Start, folder: Path, target: Path) -> None:
    first = start(holds=True)
    Image.new("RGB", (32, 24)).save(folder / "more.png")
    other = start()
    wait_until_it_waits(other, target)
    assert end(first)["rows"] == NUM_FILES
    report = end(other)
    assert (report["rows"], report["surveyed"]) == (NUM_FILES + 1, 1)


def test_without_progress_nothing_is_printed(start: Start) -> None:
    first, other = start(holds=True), start(progress=False)
    assert end(first)["rows"] == NUM_FILES
    assert other.communicate(timeout=SECONDS)[1] == ""


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
