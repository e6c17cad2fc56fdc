"""The trial of a GPU: rehearsed without one, and what becomes of a part that crashes, hangs or lacks something."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device import pack
from benchmarks.device.clips import Recipe, make_media
from benchmarks.device.report import MOST_LINES, clean, print_report
from framefeed.testing import ClipSpec, write_clip

TRIAL = Path(__file__).parents[2] / "benchmarks" / "device" / "trial.py"
CLIPS = (
    Recipe("fast.mp4", "h264", "plain", lambda path: write_clip(path, ClipSpec(num_frames=40)), is_fast=True),
    Recipe(
        "refused.mp4", "h264", "refused", lambda path: write_clip(path, ClipSpec(num_frames=8, pixel_format="yuv422p"))
    ),
)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    make_media(folder, CLIPS, num_jpegs=2)
    return folder


def make_pack(folder: Path, media: Path, packages: dict[str, bytes], python: str | None = None) -> Path:
    """Write a pack whose archives hold these bytes; for this Python, unless another is named."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    pack.tar_media(folder, media)
    listed = []
    for name, data in packages.items():
        (folder / f"{name}.tar.xz").write_bytes(data)
        facts = {"name": name, "module": name, "is_own": True, "version": "1", "file": f"{name}.tar.xz"}
        listed.append({**facts, "problem": "", "tag": "cp3-cp3"})
    (folder / "packages.json").write_text(json.dumps({"python": python or here, "packages": listed}))
    return folder


def make_archive(name: str, text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
        header = tarfile.TarInfo(name)
        header.size = len(text)
        tar.addfile(header, io.BytesIO(text.encode()))
    return buffer.getvalue()


def run_trial(folder: Path, *words: str) -> tuple[list[str], dict[str, Any]]:
    """Run it as a user does, from another folder; return what it printed and what it wrote."""
    results = folder / "results.json"
    finished = subprocess.run(
        [sys.executable, TRIAL, folder, "--json", results, *words],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines(), json.loads(results.read_text())


def rows_of(report: dict[str, Any], part: int, state: str) -> list[str]:
    return [row["name"] for row in report["rows"] if row["part"] == part and row["state"] == state]


@pytest.mark.slow
def test_it_is_rehearsed_without_a_gpu(media: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    printed, report = run_trial(make_pack(tmp_path, media, {}), "--rehearse")
    assert [row["part"] for row in report["rows"] if row["name"] == "process"] == [1, 2, 2, 2, 7, 5, 3, 4, 6]
    assert [row for row in report["rows"] if row["state"] == "failed"] == []
    assert rows_of(report, 7, "rehearsed") == ["clips", "clips"]
    assert {"torch, interpolate", "torch, products"} <= set(rows_of(report, 5, "rehearsed"))
    assert rows_of(report, 3, "rehearsed") == ["read late, frame freed"]
    for part, modules in {2: ["hardware", "refusals", "peers"], 4: ["upload"], 6: ["jpegs"]}.items():
        assert rows_of(report, part, "rehearsed") == []
        assert rows_of(report, part, "not measured") == modules
    assert all(row["reason"] for row in report["rows"] if row["state"] == "not measured")
    assert 20 < len(printed) <= MOST_LINES
    text = json.dumps(report)
    assert re.findall(r'(?:^|[\s"(])/\w+/', text) == []
    assert socket.gethostname() not in text or len(socket.gethostname()) <= 3


@pytest.mark.slow
def test_what_is_missing_or_crashes_is_a_row_and_the_next_part_runs(media: Path, tmp_path: Path) -> None:
    crash = make_archive("sitecustomize.py", "import os; print('before the crash', flush=True); os.abort()\n")
    packages = {"crashing": crash, "cut_short": crash[: len(crash) // 2]}
    printed, report = run_trial(make_pack(tmp_path, media, packages), "--only", "4,6")
    assert report["packages"]["crashing"] == "1 from the pack"
    assert "cannot be read" in report["packages"]["cut_short"]
    assert [(row["part"], row["reason"]) for row in report["rows"]] == [
        (4, "the process crashed: killed by SIGABRT"),
        (6, "the process crashed: killed by SIGABRT"),
    ]
    assert report["rows"][0]["output"][:2] == ["before the crash", "Fatal Python error: Aborted"]
    assert printed.count("    before the crash") == 2


@pytest.mark.slow
def test_a_part_that_hangs_is_killed_with_what_it_started(media: Path, tmp_path: Path) -> None:
    hang = make_archive("sitecustomize.py", "import threading; threading.Event().wait()\n")
    printed, report = run_trial(make_pack(tmp_path, media, {"hanging": hang}), "--only", "6", "--seconds", "0.1")
    assert "was killed" in report["rows"][0]["reason"]
    assert any("was killed" in line for line in printed)


@pytest.mark.slow
def test_packages_of_another_python_are_not_used(media: Path, tmp_path: Path) -> None:
    crash = make_archive("sitecustomize.py", "import os; os.abort()\n")
    _, report = run_trial(make_pack(tmp_path, media, {"other": crash}, python="3.9"), "--only", "4", "--rehearse")
    assert report["packages"]["other"].startswith("packed for Python 3.9, and this is 3.")
    assert rows_of(report, 4, "failed") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "9"], "there is no part 9; parts are 1, 2, 3, 4, 5, 6, 7"),
        ([], "is not a pack: write one with python -m benchmarks.device.pack"),
    ],
)
def test_wrong_arguments_say_what_is_right(tmp_path: Path, words: list[str], message: str) -> None:
    finished = subprocess.run([sys.executable, TRIAL, tmp_path, *words], capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert message in finished.stderr


@pytest.mark.parametrize(("size", "status"), [(pack.MOST_MEDIA, 0), (pack.MOST_MEDIA + 1, 1)])
def test_a_pack_that_is_too_large_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, status: int
) -> None:
    for name, length in ((pack.MEDIA, size), ("av.tar.xz", pack.MOST - pack.MOST_MEDIA)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(length)
    assert pack.print_sizes(tmp_path) == status
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "  48.00 MB  av.tar.xz"
    assert printed[1].endswith(pack.MEDIA)
    assert printed[2].endswith("media 8.00 of at most 8")


def test_many_rows_are_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"part": part, "name": f"row {n}", "state": "measured", "n": n} for part in (1, 2) for n in range(100)]
    print_report({"rehearsal": False, "packages": {}, "rows": rows}, {1: "first", 2: "second"})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= MOST_LINES
    assert printed.count("  ... more in the JSON") == 2


def test_rows_of_clips_with_one_result_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"part": 2, "name": "starts", "state": "measured", "worst": 0}
    rows = [{**row, "clip": "a.mp4"}, {**row, "clip": "b.mp4"}, {**row, "clip": "c.mp4", "worst": 3}]
    print_report({"rehearsal": False, "packages": {}, "rows": rows}, {2: "hardware"})
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  starts: worst 0 [a.mp4; b.mp4]",
        "  starts: worst 3 [c.mp4]",
    ]


def test_paths_and_names_of_the_machine_are_taken_out() -> None:
    text = {"reason": [f"/some/where/work/site/x.so: no /usr/lib/y.so.1 on {socket.gethostname()}, 16/9"]}
    cleaned = clean(text, {"/some/where/work": "WORK"})["reason"][0]
    assert cleaned.startswith("WORK/site/x.so: no y.so.1 on ")
    assert cleaned.endswith(", 16/9")
