"""The rows behind nginx: what it counts, that nothing is left, and that a wasteful reader is seen."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from benchmarks.goals import GOALS
from benchmarks.remote.media import ServedMedia, Sizes, measure_box
from benchmarks.remote.requests import choose_neighbours, clip_row
from benchmarks.remote.server import Server, check_nginx, serving
from benchmarks.remote.suite import ROWS, make_suite
from framefeed.bench import BenchOptions, BenchVideo, Rounds, run_row, run_suite
from framefeed.errors import MissingMedia
from tests.patience import PATIENCE_SECONDS

SIZES = Sizes(
    object_bytes=1_000_000, files=4, file_bytes=400_000, pictures=6, pictures_in_turn=3, small_videos=3,
    small_videos_in_turn=1, height=144, frames=150,
)  # fmt: skip


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have all temporary folders made below one that is empty at first."""
    try:
        check_nginx()
    except MissingMedia as error:
        pytest.skip(str(error))
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def fetch(url: str, span: str = "", method: str = "GET") -> bytes:
    request = urllib.request.Request(url, method=method, headers={"Range": f"bytes={span}"} if span else {})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        data: bytes = answer.read()
    return data


def figure(row: dict[str, Any], comparison: str, name: str) -> float:
    figures = {each["key"]: each["figures"] for each in row["comparisons"]}
    return float(figures[comparison][name]["median"])


def floor(name: str) -> float:
    return next(float(goal["floor"]) for goal in json.loads(GOALS.read_text("utf-8")) if goal["figure"] == name)


def test_every_request_is_counted_and_nothing_is_left(tmp_path: Path, temporary: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a b.bin").write_bytes(bytes(range(256)) * 4)
    with serving(root) as server:
        url = server.url("a%20b.bin")
        parts, asked = server.count(lambda: [fetch(url, "3-9"), fetch(url), fetch(url, method="HEAD")])
        assert parts == [bytes(range(3, 10)), bytes(range(256)) * 4, b""]
        assert [(each.method, each.status, each.bytes, each.range) for each in asked] == [
            ("GET", 206, 7, "bytes=3-9"), ("GET", 200, 1024, ""), ("HEAD", 200, 0, ""),
        ]  # fmt: skip
        assert {each.url for each in asked} == {"/a%20b.bin"}
        with pytest.raises(urllib.error.HTTPError):
            fetch(server.url("gone"))
        assert [each.status for each in server.read()] == [404]
        assert server.read() == []
    with pytest.raises(urllib.error.URLError, match="refused"):
        fetch(url)
    assert not list(temporary.iterdir())


@pytest.mark.test_all
def test_all_rows_run_at_the_smallest_scale(temporary: Path) -> None:
    report = run_suite(make_suite(SIZES), BenchOptions(rounds=Rounds(1)))
    assert not report["skipped"]
    rows = {row["key"]: row for row in report["rows"]}
    assert {key.partition(":")[0] for key in rows} == set(ROWS)
    assert not any(row["wrong"] for row in report["rows"])
    assert not any(each["num_wrong"] for row in report["rows"] for each in row["contenders"])
    for name in ("clip/bytes/most", "clip/requests/most", "open/requests/moov in front", "open/requests/moov behind",
                 "open/bytes/moov in front", "open/bytes/moov behind"):  # fmt: skip
        key, comparison, which = name.split("/")
        assert 0 < figure(rows[key], comparison, which) <= floor(f"remote/{name}")
    assert rows["epoch"]["facts"]["requests_a_clip"] >= 1
    assert not list(temporary.iterdir())


Fetch = Callable[[Server, BenchVideo, list[int]], None]


def fetch_twice(server: Server, video: BenchVideo, ordinals: list[int]) -> None:
    """Ask for the bytes of both groups once more, in two requests."""
    start, stop = find_span(video, ordinals)
    middle = (start + stop) // 2
    fetch(server.url(video.path.name), f"{start}-{middle - 1}")
    fetch(server.url(video.path.name), f"{middle}-{stop - 1}")


def find_span(video: BenchVideo, ordinals: list[int]) -> tuple[int, int]:
    packets = video.index.packets
    numbers = video.index.frame_packet[ordinals]
    first = int(video.index.frame_start[ordinals].min())
    return int(packets.offset[first]), int((packets.offset + packets.size)[numbers.max()])


@pytest.mark.slow
@pytest.mark.parametrize(("waste", "too_much"), [(fetch_twice, ("bytes", "requests"))])
def test_a_wasteful_reader_is_over_the_floor(tmp_path: Path, waste: Fetch, too_much: tuple[str, ...]) -> None:
    with serving(tmp_path, delay_seconds=0.001) as server:

        @contextmanager
        def opening(url: str, video: BenchVideo) -> Iterator[Callable[[list[int]], Any]]:
            with ff.VideoDecoder(url, dimension_order="NHWC") as remote:

                def read(ordinals: list[int]) -> Any:
                    waste(server, video, ordinals)
                    return remote.get_frames_at(ordinals).data

                yield read

        row = run_row(clip_row(server, ServedMedia(tmp_path, SIZES, Rounds()), opening), Rounds(1))
    assert row["wrong"] == []
    over = {key for key in ("bytes", "requests") if figure(row, key, "most") > floor(f"remote/clip/{key}/most")}
    assert over == set(too_much)


@pytest.mark.slow
def test_other_frames_are_wrong(tmp_path: Path) -> None:
    with serving(tmp_path, delay_seconds=0.001) as server:

        @contextmanager
        def opening(url: str, video: BenchVideo) -> Iterator[Callable[[list[int]], Any]]:
            with ff.VideoDecoder(url, dimension_order="NHWC") as remote:
                yield lambda ordinals: remote.get_frames_at([*ordinals[:-1], ordinals[-2]]).data

        row = run_row(clip_row(server, ServedMedia(tmp_path, SIZES, Rounds()), opening), Rounds(1))
    assert row["wrong"]


def test_clips_lie_in_two_neighbouring_groups(tmp_path: Path) -> None:
    video = ServedMedia(tmp_path, SIZES, Rounds()).large_video(moov_in_front=True)
    packets = video.index.packets
    for clip in choose_neighbours(video.index):
        groups = packets.is_key.cumsum()[video.index.frame_packet[clip.ordinals]]
        first = int(groups.min())
        assert set(groups.tolist()) == {first, first + 1}
        assert len(set(clip.ordinals)) == 16
        assert clip.nbytes == sum(packets.size[number] for number in range(len(packets))
                                  if packets.is_key[: number + 1].sum() in (first, first + 1))  # fmt: skip
    data = video.path.read_bytes()
    assert measure_box(video.path, b"moov") == int.from_bytes(data[data.find(b"moov") - 4 :][:4], "big")
    assert data.find(b"moov") < data.find(b"mdat")
