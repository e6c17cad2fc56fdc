"""Commands over objects by URL: few requests, and what was fetched is printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

from framefeed.parallel import release_idle
from framefeed.scanning import scan
from framefeed.testing import ClipSpec
from tests.cli.running import Answer, run
from tests.corpus import clip_file, corpus_file
from tests.media.remote.faults import faulty

MOST_REQUESTS = 5
"""Three or four to index the object, one for the group of pictures."""


def draw_noise(ordinal: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(ordinal).integers(0, 256, (120, 160, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def long_video() -> Path:
    """A video of 100 seconds and some megabytes, ten seconds a group of pictures."""
    return clip_file("noise.mp4", ClipSpec(num_frames=400, height=120, width=160, fps=4, gop=40, draw=draw_noise))


def test_a_frame_of_a_long_object_takes_few_requests(long_video: Path, tmp_path: Path, answer: Answer) -> None:
    data = long_video.read_bytes()
    assert len(data) > 4_000_000
    with faulty({"/long.mp4": data}) as server:
        for folder, video in (("local", long_video), ("remote", server.url + "/long.mp4")):
            answer("clip", video, "--at", "90", "-o", tmp_path / folder)
        assert 0 < server.count() <= MOST_REQUESTS
        asked = sum(stop - start for start, stop in filter(None, server.ranges))
    assert asked < len(data) / 4
    (local,), (remote,) = ((tmp_path / folder).iterdir() for folder in ("local", "remote"))
    assert local.name == remote.name
    assert local.read_bytes() == remote.read_bytes()


def test_feed_says_what_was_fetched(tmp_path: Path, answer: Answer) -> None:
    catalog = os.fspath(tmp_path / "cat.parquet")
    words = ["feed", catalog, "--rates", "2:2", "--batch-size", "1", "--size", "32", "--workers", "0"]
    with faulty({f"/{number}.mp4": corpus_file("base.mp4").read_bytes() for number in range(3)}) as server:
        scan([f"{server.url}/{number}.mp4" for number in range(3)], out=catalog, workers=0)
        for form in ("--json", "--text"):
            release_idle()  # readers of this thread, which have bytes
            before = server.count()
            out = answer(*words, form).out
            requests = server.count() - before
            assert requests >= 3
            if form == "--json":
                found = json.loads(out)
                assert found["requests"] == requests
                assert found["bytes_fetched"] > 0
                assert found["fetch_wait_seconds"] > 0
            else:
                (line,) = [line for line in out.splitlines() if line.startswith("fetched ")]
                assert line.split()[1:3] == [f"{requests / 3:.3g}", "requests"]
                assert "per batch, for which workers waited" in line


def test_S17_feed_of_a_catalog_without_its_signatures_ends_with_one_line(tmp_path: Path) -> None:
    catalog = os.fspath(tmp_path / "cat.parquet")
    with faulty({f"/{number}.mp4": corpus_file("base.mp4").read_bytes() for number in range(3)}) as server:
        scan([f"{server.url}/{number}.mp4?X-Amz-Signature=s" for number in range(3)], out=catalog)
        ended = run("feed", catalog, "--rates", "2:2", "--size", "32")
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert "was scanned by a signed URL" in line


def test_feed_of_files_says_nothing_of_it(tmp_path: Path, answer: Answer) -> None:
    catalog = os.fspath(tmp_path / "cat.parquet")
    scan([corpus_file("base.mp4")], out=catalog)
    words = ["feed", catalog, "--rates", "2:2", "--size", "32"]
    assert "fetched" not in answer(*words, "--text").out
    assert json.loads(answer(*words, "--json").out)["requests"] == 0
