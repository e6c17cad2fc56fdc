from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import framefeed
import framefeed.cli.scan
from framefeed.cli import COMMANDS
from framefeed.errors import FramefeedError, LoadError
from framefeed.testing import ClipSpec, clip_bytes
from tests.cli.running import SECONDS, Answer, environment, only_line, run, run_script
from tests.corpus import clip_file
from tests.programs import running


def test_help_lists_the_commands(answer: Answer) -> None:
    out, err = answer("--help")
    assert err == ""
    assert set(COMMANDS) <= set(out.split())


def test_help_imports_no_room_that_opens_media() -> None:
    script = "import sys\nfrom framefeed.cli import main\nmain(['--help'])\n"
    heavy = ("av", "pyarrow", "PIL", "framefeed.media", "framefeed.catalog", "framefeed.plan")
    script += f"met = sorted(set({heavy}) & sys.modules.keys())\nsys.exit(' '.join(met) or 0)"
    assert run_script(script).returncode == 0


def test_help_imports_no_command() -> None:
    script = "import sys\nfrom framefeed.cli import main\nmain(['--help'])\n"
    script += "sys.exit(any(name.startswith('framefeed.cli.scan') or name == 'torch' for name in sys.modules))"
    assert run_script(script).returncode == 0


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"demo"}))
def test_each_command_has_help(command: str, answer: Answer) -> None:
    assert answer(command, "--help").out.startswith(f"usage: framefeed {command} ")


def test_version(answer: Answer) -> None:
    assert answer("--version").out.startswith("framefeed ")


WRONG = [
    [],
    ["nonsense"],
    ["--nonsense"],
    ["scan"],
    ["scan", "x.mp4", "--depth", "deep"],
    ["scan", "x.mp4", "--depth", "header", "--headers-only"],
    ["scan", "x.mp4", "--workers", "-1"],
    ["scan", "x.mp4", "-o", "no/such/folder/cat.parquet"],
    ["scan", "no_manifest.txt"],
    ["clip"],
    ["clip", "x.mp4"],
    ["clip", "x.mp4", "--at", "1"],
    ["clip", "x.mp4", "--at", "", "-o", "out"],
    ["clip", "x.mp4", "--at", "1e999999999", "-o", "out"],
    ["clip", "x.mp4", "--at", "1", "--indices", "1", "-o", "out"],
    ["clip", "x.mp4", "--indices", "1.5", "-o", "out"],
    ["clip", "x.mp4", "--rates", "1", "-o", "out"],
    ["clip", "x.mp4", "--indices", "0", "--size", "0", "-o", "out"],
    ["clip", "x.mp4", "--indices", "0", "--sheet", "sheet.gif"],
    ["clip", "x.mp4", "y.mp4", "--indices", "0", "-o", "out"],
    ["clip", "x.mp4", "--every", "0", "-o", "out"],
    ["clip", "x.mp4", "--every", "1min", "-o", "out"],
    ["clip", "x.mp4", "--fps", "0", "-o", "out"],
    ["clip", "x.mp4", "--fps", "1", "--every", "1s", "-o", "out"],
    ["clip", "x.mp4", "--fps", "1", "-o", "out", "--format", "gif"],
    ["clip", "x.mp4", "--fps", "1", "-o", "out", "--quality", "90"],
    ["clip", "x.mp4", "--fps", "1", "-o", "out", "--format", "jpg", "--quality", "101"],
    ["clip", "x.mp4", "--fps", "1", "--sheet", "x.png", "--format", "jpg"],
    ["feed", "no.parquet", "--rates", "1:8"],
    ["feed", "x.parquet"],
    ["feed", "x.parquet", "--rates", "1:8", "--batch-size", "0"],
    ["feed", "x.parquet", "--rates", "1:8", "--step-ms", "-1"],
    ["feed", "x.parquet", "--rates", "1:8", "--seed", "\x1b[31m\n"],
]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_mistake_is_one_line_and_exit_code_1(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     answer: Answer) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    out, err = answer(*words, code=1)
    assert out == ""
    only_line(err)
    assert not list(tmp_path.iterdir())


def test_our_bug_is_a_traceback_and_exit_code_70(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    for error in (ZeroDivisionError("ours"), LoadError("a sample failed: ours")):

        def fail(_: object, error: Exception = error) -> int:
            raise error

        monkeypatch.setattr(framefeed.cli.scan, "run", fail)
        out, err = answer("scan", "x", code=70)
        assert out == ""
        assert "Traceback (most recent call last)" in err
        assert "ours" in err
        assert "this is a bug in framefeed" in err


def test_an_error_of_several_lines_is_printed_as_one(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    def fail(_: object) -> int:
        raise FramefeedError("first\nsecond\r\x9b31m\u2028third " + "x" * 10_000_000)

    monkeypatch.setattr(framefeed.cli.scan, "run", fail)
    line = only_line(answer("scan", "x", code=1).err)
    assert r"first\nsecond\r\x9b31m\u2028third" in line
    assert len(line) < 3000


def test_a_closed_pipe_ends_the_command() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as broken:
        result = subprocess.run(
            [sys.executable, "-W", "error", "-m", "framefeed", "scan", clip_file("good.mp4")],
            env=environment(), stdout=broken, stderr=subprocess.PIPE, timeout=SECONDS,
        )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_interrupt_is_exit_code_130(tmp_path: Path) -> None:
    catalog = tmp_path / "cat.parquet"
    assert run("scan", clip_file("good.mp4"), "-o", catalog).returncode == 0
    words = ["feed", "--text", catalog, "--rates", "1:2", "--epochs", "1000", "--step-ms", "200"]
    with running(
        [sys.executable, "-W", "error", "-m", "framefeed", *words],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"1 video: ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert only_line(err) == "framefeed: interrupted"


def test_an_interrupt_that_a_library_wrapped_is_an_interrupt(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    def fail(_: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("a worker left") from error

    monkeypatch.setattr(framefeed.cli.scan, "run", fail)
    assert only_line(answer("scan", "x", code=130).err) == "framefeed: interrupted"


INTERRUPTS_ITSELF = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests ignore it
import framefeed.catalog._survey as survey
from framefeed.cli import main
index = survey.index_media
def interrupted(source, *rest, **options):
    if source.name.endswith("/7.mp4"):
        signal.raise_signal(signal.SIGINT)
    return index(source, *rest, **options)
survey.index_media = interrupted
sys.exit(main(sys.argv[1:]))
"""


def test_an_interrupt_ends_a_scan(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.mp4").write_bytes(clip_file("good.mp4").read_bytes())
    result = run_script(INTERRUPTS_ITSELF, "scan", tmp_path, "-o", tmp_path / "cat.parquet")
    assert (result.returncode, result.stdout) == (130, b"")
    assert " of 300 files are saved in " in only_line(result.stderr)
    assert not (tmp_path / "cat.parquet").exists()


INTERRUPTED_IN_AN_IMPORT = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "MODULE":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("module", ["numpy", "av", "framefeed.cli", "framefeed.cli.scan"])
@pytest.mark.parametrize("how", ["script", "module"])
def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path: Path, module: str, how: str) -> None:
    script = INTERRUPTED_IN_AN_IMPORT.replace("MODULE", module)
    if how == "script":
        start = "sys.argv[1:] = ['scan', 'x']\nfrom _framefeed_command import main\nsys.exit(main())"
        result = run_script(script + start)
    else:
        (tmp_path / "sitecustomize.py").write_text(script)
        source = str(Path(framefeed.__file__).parents[1])
        result = run("scan", "x", extra={"PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"})
    assert (result.returncode, result.stdout) == (130, b"")
    assert only_line(result.stderr) == "framefeed: interrupted; without -o nothing was kept" or (
        only_line(result.stderr) == "framefeed: interrupted"
    )


def test_a_script_with_an_option_of_that_name_keeps_its_own_handling_of_interrupts(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import signal, framefeed; print(signal.getsignal(signal.SIGINT).__name__)")
    command = [sys.executable, str(script), "-m", "framefeed"]
    result = subprocess.run(command, env=environment(), capture_output=True, timeout=SECONDS, text=True)
    assert result.stdout.strip() in ("default_int_handler", ""), result.stdout


ENDS_AMONG_PACKETS = """
import itertools, os, signal, sys, threading
handled = threading.Event()
def handle(*rest):
    handled.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handle)
import framefeed.media._decoding as decoding
decode, decoded, after = decoding.decode_packet, itertools.count(), itertools.count()
sent = threading.Event()
def counted(*rest):
    if sent.is_set():
        handled.wait(30)  # two threads that pass the interpreter's lock to each other may keep it from the main thread
        next(after)
    elif next(decoded) == 30:
        sent.set()
        os.kill(os.getpid(), signal.SIGINT)  # as a terminal sends it: to the process, not to this thread
    return decode(*rest)
decoding.decode_packet = counted
import framefeed.cli
code = framefeed.cli.main(sys.argv[1:])
print(next(after), flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupted_scan_does_not_finish_the_files_at_hand(tmp_path: Path, workers: str) -> None:
    data = clip_bytes(ClipSpec(num_frames=1500, height=48, width=64), "mp4")
    for number in range(16):
        (tmp_path / f"{number}.mp4").write_bytes(data)
    result = run_script(ENDS_AMONG_PACKETS, "scan", tmp_path, "--verify", "full", "--workers", workers)
    assert result.returncode == 130
    assert "interrupted" in only_line(result.stderr)
    assert int(result.stdout) < 1500  # of the 3000 that two workers had begun


def test_D14_nothing_of_ffmpegs_log_is_printed(tmp_path: Path, answer: Answer) -> None:
    """What a C library writes on the descriptor would be caught too."""
    damaged = bytearray(clip_file("good.ts").read_bytes())
    damaged[len(damaged) // 3 : len(damaged) // 2] = bytes(len(damaged) // 2 - len(damaged) // 3)
    video = tmp_path / "damaged.ts"
    video.write_bytes(damaged)
    scan = ["scan", video, "--verify", "full", "-o", tmp_path / "cat.parquet"]
    for words in (scan, ["clip", video, "--indices", ",".join(map(str, range(60))), "-o", tmp_path / "out"]):
        lines = answer(*words, code=None).err.splitlines()
        assert len(lines) <= 1
        assert all(line.startswith("framefeed: ") for line in lines)
