from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from PIL import Image

from tests.cli.running import Answer
from tests.corpus import clip_file

SMALL, ENOUGH = "12287", "12288"  # of a video of 128 x 96


def test_every_command_that_opens_a_file_takes_the_limit_that_the_error_names(tmp_path: Path, answer: Answer) -> None:
    video, catalog, cache = (
        os.fspath(clip_file("good.mp4")),
        os.fspath(tmp_path / "c.parquet"),
        os.fspath(tmp_path / "c"),
    )
    clip = ["clip", video, "--indices", "0,7", "-o", os.fspath(tmp_path / "out"), "--max-pixels"]
    scan = ["scan", video, "-o", catalog, "--max-pixels"]
    build = ["cache", "build", video, cache, "--size", "24", "--max-pixels"]
    for words, code in ((clip, 1), (scan, 3), (build, 1)):
        assert f"(on the command line: --max-pixels {ENOUGH})" in answer(*words, SMALL, code=code).err
        answer(*words, ENOUGH)
    feed = ["feed", catalog, "--rates", "2:2", "--workers", "0", "--json", "--max-pixels"]
    (failed,) = json.loads(answer(*feed, SMALL, code=3).out)["failed"]
    assert failed["error_type"] == "LimitExceeded"
    answer(*feed, ENOUGH)


def test_a_picture_above_the_default_is_one_option_away(tmp_path: Path, answer: Answer) -> None:
    picture = tmp_path / "large.png"
    Image.fromarray(np.zeros((8193, 8193), dtype=np.uint8)).save(picture)
    words = ["clip", os.fspath(picture), "--indices", "0", "--size", "8x8", "-o", os.fspath(tmp_path / "out")]
    said = answer(*words, code=1).err
    option, number = said.partition("on the command line: ")[2].split(")")[0].split()
    answer(*words, option, number)
