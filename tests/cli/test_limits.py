from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from framefeed.cli import main
from tests.corpus import clip_file

SMALL, ENOUGH = "12287", "12288"  # of a video of 128 x 96


def _failed(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) in (1, 3)
    return capfd.readouterr().err


def test_every_command_that_opens_a_file_takes_the_limit_that_the_error_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    video, catalog, cache = (
        os.fspath(clip_file("good.mp4")),
        os.fspath(tmp_path / "c.parquet"),
        os.fspath(tmp_path / "c"),
    )
    clip = ["clip", video, "--indices", "0,7", "-o", os.fspath(tmp_path / "out"), "--max-pixels"]
    scan = ["scan", video, "-o", catalog, "--max-pixels"]
    build = ["cache", "build", video, cache, "--size", "24", "--no-estimate", "--max-pixels"]
    for words in (clip, scan, build):
        assert f"(on the command line: --max-pixels {ENOUGH})" in _failed(capfd, *words, SMALL)
        assert main([*words, ENOUGH]) == 0
    feed = ["feed", catalog, "--rates", "2:2", "--workers", "0", "--json", "--max-pixels"]
    capfd.readouterr()
    assert main([*feed, SMALL]) == 3
    (failed,) = json.loads(capfd.readouterr().out)["failed"]
    assert failed["error_type"] == "LimitExceeded"
    assert main([*feed, ENOUGH]) == 0


def test_a_picture_above_the_default_is_one_option_away(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "large.png"
    Image.fromarray(np.zeros((8193, 8193), dtype=np.uint8)).save(picture)
    words = ["clip", os.fspath(picture), "--indices", "0", "--size", "8x8", "-o", os.fspath(tmp_path / "out")]
    said = _failed(capfd, *words)
    option, number = said.partition("on the command line: ")[2].split(")")[0].split()
    assert main([*words, option, number]) == 0
