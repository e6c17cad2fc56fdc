from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from framefeed.cli import main
from tests.cli.bad_media import BAD, READS_OTHERS
from tests.cli.running import Answer, only_line, run
from tests.corpus import clip_file
from tests.lengths import IS_ALL

OPENING = {"open", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.connect"}
_opened: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in OPENING and _opened:
        _opened[-1].append(f"{event} {arguments[0]!r}")


sys.addaudithook(_note)  # for as long as the process lives: it is silent unless a test listens


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return BAD[request.param](tmp_path)


def test_D03_clip_says_one_line(bad: Path, tmp_path: Path, answer: Answer) -> None:
    out, err = answer("clip", bad, "--at", "0", "-o", tmp_path / "out", code=1)
    assert out == ""
    only_line(err)
    assert not (tmp_path / "out").exists()


def test_clip_with_json_prints_errors_on_standard_error_only(bad: Path, answer: Answer) -> None:
    out, err = answer("clip", bad, "--indices", "0", "--sheet", "sheet.png", "--json", code=1)
    assert out == ""
    only_line(err)


def test_scan_lists_bad_files_as_failed(bad: Path, tmp_path: Path, answer: Answer) -> None:
    good = clip_file("good.mp4")
    if bad.is_dir():
        pytest.skip("a folder is a root like any other")
    out, err = answer("scan", good, bad, "-o", tmp_path / "cat.parquet", code=3)
    assert only_line(err).startswith("framefeed: failed: ")
    assert out.startswith("1 of 2 files can be read: 100 frames")
    out, err = answer("scan", good, bad, "--json", code=3)
    assert err == ""
    (failed,) = json.loads(out)["failed"]
    assert failed["error_type"] in {"UnreadableMedia", "MissingMedia", "NoVideoStream", "EmptyVideo", "CorruptMedia"}


def test_an_error_is_one_line_in_a_pipe_too(tmp_path: Path) -> None:
    bad = BAD["escapes in its name"](tmp_path)
    result = run("clip", bad, "--at", "0", "-o", tmp_path / "out")
    assert result.returncode == 1
    assert result.stdout == b""
    assert r"red\x1b[31m\x07\nframefeed: all well.mp4" in only_line(result.stderr)


def test_D10_a_name_that_is_not_utf8_is_shown_with_escapes(tmp_path: Path) -> None:
    bad = BAD["not UTF-8"](tmp_path)
    assert rb"caf\xe9.mp4: is text" in run("clip", bad, "--at", "0", "-o", tmp_path / "out").stderr
    for encoding in ("ascii", "latin-1", "utf-8")[: 3 if IS_ALL else 1]:
        result = run("scan", bad, extra={"PYTHONIOENCODING": encoding})
        assert result.returncode == 3
        assert b"Traceback" not in result.stderr
        assert result.stderr.count(b"caf") == 1, "the name is printed once"


def test_D10_each_odd_name_opens_its_own_file(tmp_path: Path, answer: Answer) -> None:
    data = clip_file("good.mp4").read_bytes()
    odd = ["b%03d.mp4", "foo:bar.mp4", "-x.mp4", "a b.mp4", "new\nline.mp4", os.fsdecode(b"\xff\xfe.mp4"), "'q'\".mp4"]
    odd += ["concat:a.mp4|b.mp4", "subfile,,start,0,end,9,,:a.mp4", "data:video,AAAA.mp4", "$(touch pwned).mp4"]
    for name in odd:
        (tmp_path / name).write_bytes(data)
    (tmp_path / "b001.mp4").write_bytes(b"another file")
    for number, name in enumerate(odd):
        folder = tmp_path / f"out{number}"
        assert answer("clip", tmp_path / name, "--indices", "0", "-o", folder).err == "", name
        assert [file.name for file in folder.iterdir()] == ["frame_000000_0.000000000s.png"]
    assert not list(tmp_path.glob("pwned*"))


def test_S02_a_file_name_may_begin_with_a_minus(tmp_path: Path) -> None:
    (tmp_path / "-x.mp4").write_bytes(clip_file("good.mp4").read_bytes())
    result = run("clip", "--indices", "0", "-o", "out", "--", "-x.mp4", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("kind", READS_OTHERS)
@pytest.mark.parametrize("command", ["clip", "scan"])
def test_S01_files_and_urls_that_media_name_are_not_opened(
    kind: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "secret.ts"
    other.write_bytes(clip_file("good.ts").read_bytes())
    with _listening() as (port, called), _watching(other) as touched:
        video = tmp_path / "video.mp4"
        video.write_text(READS_OTHERS[kind].format(other=other, port=port))
        more = ["--at", "0", "-o", os.fspath(tmp_path / "out")] if command == "clip" else []
        with _auditing() as opened:
            code = main([command, os.fspath(video), *more])
        assert not called()
        assert not touched()
    assert code == (1 if command == "clip" else 3)
    out, err = capfd.readouterr()
    only_line(err)
    assert "secret" not in out
    assert any("video.mp4" in each for each in opened)  # the hook works
    assert [each for each in opened if "secret" in each or not each.startswith("open ")] == []


@contextmanager
def _auditing() -> Iterator[list[str]]:
    """List the files that Python opens in the block, and the programs that it starts."""
    _opened.append([])
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


@contextmanager
def _listening() -> Iterator[tuple[int, Callable[[], bool]]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def called() -> bool:
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield server.getsockname()[1], called


@contextmanager
def _watching(path: Path) -> Iterator[Callable[[], bool]]:
    """Watch in the kernel whether a file is opened: audit hooks do not see the files that libav opens."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert descriptor >= 0
    in_open = 0x20
    assert libc.inotify_add_watch(descriptor, os.fsencode(path), in_open) >= 0

    def touched() -> bool:
        try:
            return struct.unpack("iIII", os.read(descriptor, 4096)[:16])[1] & in_open != 0
        except BlockingIOError:
            return False

    path.open("rb").close()
    assert touched()  # the watch works
    yield touched
    os.close(descriptor)
