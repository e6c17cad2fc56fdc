"""``framefeed bench all`` as a user runs it; what its rows measure is tested in ``tests/bench``."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from PIL import Image

import framefeed as ff
from framefeed.testing import ClipSpec
from tests.bench.advising import Here, rows_here
from tests.cli.running import SECONDS, Answer, environment, only_line
from tests.conftest import CHECKOUT
from tests.corpus import clip_file
from tests.patience import PATIENCE_SECONDS
from tests.programs import running

PATIENT = ["--minutes", "60", "--size", "96", "--workers", "2"]
"""With rows in this process, each of which runs once, so that no clock decides what is measured."""
SHORT = """
import sys
from framefeed.bench.advice import _session
from framefeed.cli import bench, main
_session._LATE = _session._LAST = 600.0
bench.LEAST_MINUTES = 0.0
sys.exit(main(["bench", "all", "--minutes", "0.02", "--size", "96", "--workers", "2", *sys.argv[1:]]))
"""
"""A program that measures for a second, and waits for its rows for minutes."""


def fill(folder: Path, gops: tuple[int, ...] = (5, 70)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for gop in gops:
        spec = ClipSpec(70, height=240, width=320, gop=gop, b_frames=0, codec_options={"preset": "ultrafast"})
        shutil.copy(clip_file(f"advice_gop_{gop}.mp4", spec), folder / f"{gop}.mp4")
    return folder


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos: do not change them."""
    return fill(tmp_path_factory.mktemp("bench") / "videos")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, in which nothing is left but what the test names ``kept...``."""
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FRAMEFEED_MEDIA", raising=False)
    yield folder
    assert [path.name for path in folder.iterdir() if not path.name.startswith("kept")] == []


@pytest.fixture
def here(empty: Path) -> Iterator[Here]:
    """All rows run in this process."""
    rows = Here()
    with rows_here(rows):
        yield rows


@pytest.fixture
def nothing_is_measured(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.cli.bench.measure_all", lambda *_: pytest.fail("it measures"))


Start = Callable[..., Any]


@pytest.fixture
def start(empty: Path, tmp_path: Path) -> Iterator[Start]:
    """Start `SHORT` with words; in the end, no process and no file of it is there."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    extra = {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}

    def start_here(*words: str | Path, path: Path = CHECKOUT) -> Any:
        own = {**extra, "PYTHONPATH": f"{CHECKOUT / 'src'}:{path}"}
        command = [sys.executable, "-c", SHORT, *words]
        return running(command, env=environment(own), stdout=PIPE, stderr=PIPE, text=True)

    yield start_here
    assert find_processes(f"TMPDIR={temporary}") == []
    assert list(temporary.iterdir()) == []


def find_processes(variable: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def run(start: Start, *words: str | Path, **options: Any) -> tuple[int, str, str]:
    with start(*words, **options) as process:
        out, err = process.communicate(timeout=2 * SECONDS)
        return process.returncode, out, err


# --- from media to advice -------------------------------------------------------------------------


def test_it_advises(here: Here, videos: Path, answer: Answer) -> None:
    out, err = answer("bench", "all", *PATIENT, videos, "--json", "kept.json", "--html", "kept.html")
    lines = out.splitlines()
    assert lines[0] == "measuring for 1 h at most (--minutes); Ctrl-C stops it, and advises"
    assert [line.split(":")[0] for line in err.splitlines()] == ["framefeed"] * 6
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        "media", "decode", "storage", "cache", "proxies", "loader",
    ]  # fmt: skip
    assert any(line.startswith("media: 2 files scanned; 0 failed") for line in lines)
    assert [line.split("  ")[0] for line in lines if re.match("(originals|cache|proxies), ", line)][:4] == [
        "originals, 1 thread", "originals, 2 threads", "cache, 1 thread", "cache, 2 threads",
    ]  # fmt: skip
    begin = next(number for number, line in enumerate(lines) if line.startswith("Advice: "))
    assert len(lines) - begin - 1 <= 8
    assert lines[-1] == "saved as kept.html"
    result = json.loads(Path("kept.json").read_text())
    assert str(ff.bench.recommend(result)).splitlines() == lines[begin:-1]
    assert "Advice: ".join(["", lines[begin].partition("Advice: ")[2]]) in lines[begin]
    assert "<html" in Path("kept.html").read_text()
    # Both may be replaced by those of a later run.
    answer("bench", "all", *PATIENT, videos, "--json", "kept.json", "--html", "kept.html")


@pytest.mark.test_all
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_ends_within_its_time_and_advises(empty: Path, videos: Path, answer: Answer) -> None:
    """In processes of its own, and all of half a minute."""
    words = ["--minutes", "0.5", "--size", "96", "--json", "kept.json", "--html", "kept.html"]
    out, _ = answer("bench", "all", *words, videos)
    assert "Advice: " in out
    result = json.loads(Path("kept.json").read_text())
    assert not result["interrupted"]
    assert result["seconds"] <= 30 + PATIENCE_SECONDS


def test_one_file_is_enough(here: Here, videos: Path, answer: Answer) -> None:
    out, _ = answer("bench", "all", *PATIENT, videos / "70.mp4")
    assert "media: 1 file scanned; 0 failed" in out
    assert f'catalog = ff.scan("{videos / "70.mp4"}", out="70.mp4.parquet")' in out


def test_media_may_be_named_by_the_environment(
    here: Here, videos: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEFEED_MEDIA", str(videos))
    assert "media: 2 files scanned" in answer("bench", "all", *PATIENT).out


def test_a_catalog_is_measured_with_the_files_that_it_names(
    here: Here, videos: Path, tmp_path: Path, answer: Answer
) -> None:
    ff.scan(videos, out=tmp_path / "whole.parquet", progress=False)
    out, _ = answer("bench", "all", *PATIENT, tmp_path / "whole.parquet")
    assert f'catalog = ff.Catalog.open("{tmp_path / "whole.parquet"}")' in out
    moved = fill(tmp_path / "moved")
    ff.scan(videos, out=moved / "beside.parquet", root=videos, progress=False)
    ff.scan(videos, out=tmp_path / "apart.parquet", root=videos, progress=False)
    for words in ([moved / "beside.parquet"], [tmp_path / "apart.parquet", "--root", moved]):
        out, _ = answer("bench", "all", *PATIENT, *words)
        assert "media: 2 files scanned; 0 failed" in out
        assert "failed:" not in out
    taken = here.given["loader"]
    assert taken["is_catalog"]
    assert taken["root"] == str(moved)
    message = only_line(answer("bench", "all", *PATIENT, tmp_path / "apart.parquet", code=1).err.splitlines()[-1])
    assert re.search(r"no clip of 2 files can be decoded: \S+/(5|70)\.mp4: no such file", message)


def test_of_many_files_some_are_scanned(here: Here, tmp_path: Path, answer: Answer) -> None:
    many = tmp_path / "many"
    many.mkdir()
    Image.new("RGB", (32, 24), "red").save(many / "0.jpg")
    for number in range(1, 3000):
        os.link(many / "0.jpg", many / f"{number}.jpg")
    out, _ = answer("bench", "all", *PATIENT, many)
    assert "media: 1,024 files scanned, of 3,000 files that are there; 0 failed; an epoch of all has 3,000 clips" in out
    assert "By 1,024 files drawn from 3,000 files." in out


def test_clips_are_those_of_the_user(here: Here, videos: Path, answer: Answer) -> None:
    words = ["--rates", "5:3,10:2", "--start", "0.5", "--clips-per-video", "3", "--batch-size", "2", "--epochs", "7"]
    out, _ = answer("bench", "all", *PATIENT, *words, "--step-ms", "20", "--space", "1GB", videos)
    assert "an epoch of all has 6 clips of 5 frames by ff.Rates([(5, 3), (10, 2)], start=0.5)" in out
    given = here.given["loader"]
    assert (given["batch_size"], given["epochs"], given["step_seconds"]) == (2, 7, 0.02)
    assert (given["space_bytes"], given["is_step_given"], given["cores"]) == (10**9, True, 2)
    assert "clips_per_video=3" in out


# --- what is refused ------------------------------------------------------------------------------

OTHERS = {
    "all": [("--rows", "own"), ("--pairs", "2"), ("--frames", "2"), ("--crops", "x")],
    "decode": [
        ("--rates", "1:8"), ("--start", "0"), ("--clips-per-video", "2"), ("--batch-size", "2"), ("--step-ms", "5"),
        ("--epochs", "2"), ("--transform", "a:b"), ("--space", "1GB"), ("--html", "x.html"), ("--root", "x"),
        ("--peers",), ("--frames", "2"), ("--crops", "x"),
    ],
    "cache": [("--rates", "1:8"), ("--transform", "a:b"), ("--html", "x.html"), ("--peers",)],
}  # fmt: skip


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("bench", OTHERS)
def test_options_of_other_benches_are_refused(bench: str, videos: Path, answer: Answer) -> None:
    for option, *value in OTHERS[bench]:
        message = only_line(answer("bench", bench, videos, option, *value, code=1).err)
        assert f"{option} is no option of 'bench {bench}': leave it out" in message


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--minutes", "0.2"], "--minutes 0.2: too little to measure anything: give at least 0.5"),
        (["--start", "0"], "--start needs --rates"),
        (["--root", "/"], "--root needs a catalog as MEDIA"),
        (["--disk", "nowhere"], "--disk nowhere: no such folder"),
        (["--json", "a.json", "--html", "./a.json"], "--html a.json: is the file of --json too"),
        (["--json", "."], "--json .: expected a file, got a folder"),
        (["--json", "/proc/a.json"], "cannot write /proc/a.json: "),
        (["--transform", "no_such_module:f"], "--transform: there is no module 'no_such_module'"),
        (["--transform", "mine.py:f"], "name the module, without its folder and the ending .py"),
        (["nowhere"], "nowhere: no such file or folder"),
        (["https://example.invalid/a.mp4"], "https://example.invalid/a.mp4: the benchmarks measure files"),
        (["/dev/null"], "/dev/null: is a device, not a file or folder"),
    ],
)
def test_what_cannot_be_measured_is_one_line(words: list[str], message: str, videos: Path, answer: Answer) -> None:
    assert message in only_line(answer("bench", "all", videos, *words, code=1).err)


@pytest.mark.usefixtures("nothing_is_measured")
def test_no_media_is_one_line(answer: Answer) -> None:
    assert "'bench all' measures your files: name videos" in only_line(answer("bench", "all", code=1).err)


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_another_file_is_not_replaced(option: str, videos: Path, empty: Path, answer: Answer) -> None:
    other = empty / "kept.txt"
    other.write_text('{"name": "mine"}')
    before = other.stat()
    message = only_line(answer("bench", "all", videos, option, other, code=1).err)
    assert "kept.txt: the file that is already there is not a " in message
    after = other.stat()  # that it was read changes its time of access
    assert (after.st_ino, after.st_mtime_ns, other.read_text()) == (
        before.st_ino,
        before.st_mtime_ns,
        '{"name": "mine"}',
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, ": no video or picture is in it"),
        ({"a.txt": b"hello\n", "b.md": b"# hello\n"}, ": no video or picture is in it"),
        ({"a.mp4": b"no video", "b.jpg": b""}, "none of 2 files can be planned: "),
    ],
)
def test_a_folder_in_which_nothing_can_be_measured_is_one_line(
    files: dict[str, bytes], message: str, here: Here, tmp_path: Path, answer: Answer
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    _, err = answer("bench", "all", *PATIENT, folder, "--json", "all.json", code=1)
    assert message in only_line(err.splitlines()[-1])
    assert len(err.splitlines()) == 2  # with the row that began


# --- in processes of their own --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('too\\nsmall')", "ValueError: too small"),
        pytest.param("import os\n    os.abort()", "it crashed: signal SIGABRT", marks=pytest.mark.test_all),
        pytest.param("raise SystemExit(3)", "it ended with status 3", marks=pytest.mark.test_all),
    ],
)
def test_a_transform_that_fails_is_one_line(
    body: str, message: str, start: Start, videos: Path, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(f"def change(clip, rng):\n    {body}\n")
    code, out, err = run(start, videos, "--transform", "failing:change", "--json", "all.json", path=tmp_path)
    assert code == 1, err
    assert "Advice" not in out
    assert only_line(err.splitlines()[-1]) == f"framefeed: --transform failing:change: {message}"
    assert [line.split(": ")[1] for line in err.splitlines()[:-1]] == ["media", "transform"]


def test_what_libraries_do_when_they_are_imported_is_their_row_alone(
    start: Start, videos: Path, tmp_path: Path
) -> None:
    for name, body in {
        "cv2": "raise AttributeError('no such codec')",
        "decord": "import os; os.abort()",
        "spdl": "print('hello'); raise ImportError('libnuma is missing')",
    }.items():
        (tmp_path / f"{name}.py").write_text(body)
    (tmp_path / "torchcodec.py").write_text("raise ModuleNotFoundError(\"No module named 'torchcodec'\")")
    code, out, err = run(start, videos, "--peers", "--json", "kept.json", path=tmp_path)
    assert code == 0, err
    result = json.loads(Path("kept.json").read_text())
    assert result["failed"].pop("peer opencv") == "AttributeError: no such codec"
    assert result["failed"].pop("peer decord2") == "it crashed: signal SIGABRT"
    assert "libnuma is missing" in result["failed"].pop("peer spdl")
    assert result["failed"] == {}
    assert "peer spdl: it printed 1 line: hello" in result["notes"]
    assert "No module named 'torchcodec'" in result["left_out"]["peer torchcodec"]
    assert "not measured: peer torchcodec: " in out
    assert "failed: peer opencv: AttributeError: no such codec" in out
    assert "Advice: " in out


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(number, marks=pytest.mark.test_all) for number in (signal.SIGTERM, signal.SIGHUP))],
)
def test_a_signal_ends_it_with_what_was_measured(number: signal.Signals, start: Start, videos: Path) -> None:
    with start(videos, "--json", "kept.json", "--html", "kept.html", "--minutes", "9") as process:
        for line in process.stderr:
            if line.startswith("framefeed: storage: "):
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=2 * SECONDS)
    assert process.returncode == 130, err
    assert "Interrupted: by what was measured until then." in out
    assert out.splitlines()[-1] == "saved as kept.html"
    result = json.loads(Path("kept.json").read_text())
    assert result["interrupted"] is True
    assert result["decode"]
    assert "Traceback" not in err


def test_a_signal_before_anything_is_measured(start: Start, videos: Path) -> None:
    with start(videos, "--json", "kept.json", "--minutes", "9") as process:
        assert process.stderr.readline().startswith("framefeed: media: ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=2 * SECONDS)
    assert process.returncode == 130, err
    assert out.splitlines()[-1] == "nothing was measured until it was interrupted"
    assert json.loads(Path("kept.json").read_text())["interrupted"] is True
