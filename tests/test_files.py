"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framefeed._files import replacing


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_file_is_replaced(tmp_path: Path, is_durable: bool) -> None:
    target = tmp_path / ("a" * 255)
    target.write_bytes(b"old")
    with replacing(target, is_durable=is_durable) as scratch, open(scratch, "xb") as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert len(os.listdir(tmp_path)) == 1


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def write_half() -> None:
        with replacing(target) as scratch, open(scratch, "xb") as file:
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


def test_a_block_that_makes_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a"):
        pass
    assert os.listdir(tmp_path) == []
