"""Files are replaced whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest

from framefeed._files import remove_scratch, replacing


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_file_is_replaced(tmp_path: Path, is_durable: bool) -> None:
    target = tmp_path / ("a" * 255)
    target.write_bytes(b"old")
    with replacing(target, is_durable=is_durable) as scratch, open(scratch, "wb") as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert len(os.listdir(tmp_path)) == 1


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def write_half() -> None:
        with replacing(target) as scratch, open(scratch, "wb") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "a") as scratch:
        Path(scratch).write_bytes(b"new")
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    process = os.fork()
    if process == 0:
        writing = replacing(tmp_path / "killed")
        writing.__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    (left,) = os.listdir(tmp_path)
    (tmp_path / "other.tmp").touch()
    with replacing(tmp_path / "a") as scratch:
        remove_scratch(str(tmp_path))
        assert {*os.listdir(tmp_path)} == {os.path.basename(scratch), "other.tmp"} != {left, "other.tmp"}
        Path(scratch).write_bytes(b"new")
    assert sorted(os.listdir(tmp_path)) == ["a", "other.tmp"]
    remove_scratch(str(tmp_path / "missing"))


def test_where_files_cannot_be_locked_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with replacing(tmp_path / "a") as scratch:
        Path(scratch).write_bytes(b"new")
        remove_scratch(str(tmp_path))
    assert os.listdir(tmp_path) == ["a"]
