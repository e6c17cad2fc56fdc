from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from benchmarks.sections import a
from framefeed.bench import BenchVideo
from framefeed.bench.baselines import FileFormat
from framefeed.decode import Pixels
from framefeed.testing import ClipSpec, write_clip


def write_array(path: str, frame: Pixels) -> None:
    with open(path, "wb") as file:
        np.save(file, frame)


def lose(path: str) -> Pixels:
    return np.zeros_like(np.load(path))


def read_frames(path: str) -> Iterator[Pixels]:
    with ff.VideoDecoder(path, dimension_order="NHWC") as decoder:
        yield from (frame.data for frame in decoder)


def test_routes_write_and_read_every_frame_and_are_checked(tmp_path: Path) -> None:
    video = BenchVideo(write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=12)))
    routes: dict[str, a.Measure] = {
        "whole": lambda folder: a.store_files(
            FileFormat("whole", ".npy", True, write_array, np.load), read_frames, video, folder
        ),
        "lost": lambda folder: a.store_files(
            FileFormat("lost", ".npy", True, write_array, lose), read_frames, video, folder
        ),
        "framefeed lz4": lambda folder: a.store_cache("lz4", video, folder),
        "framefeed jpeg": lambda folder: a.store_cache("no such codec", video, folder),
        "loader": lambda folder: a.load_in_order(video, folder),
        "map": lambda folder: a.map_frames(video, folder),
    }
    entries = a.measure_routes(routes, tmp_path, lambda what: None)
    assert not entries["whole"]["wrong"]
    assert not entries["framefeed lz4"]["wrong"]
    assert len(entries["lost"]["wrong"]) == a.CHECKED
    assert "no such codec" in entries["framefeed jpeg"]["failed"]
    assert all(entries[name]["read_fps"] > 0 for name in ("whole", "framefeed lz4", "loader", "map"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.mp4"]


def test_table_scales_megabytes_and_says_why_a_format_has_no_figures() -> None:
    entries: dict[str, Any] = {
        "joblib lz4 1": {"megabytes": 1.0, "write_cpu_fps": 10.0, "read_cpu_fps": 20.0},
        "PNG (OpenCV)": {"megabytes": 1.0, "write_cpu_fps": 10.0, "read_cpu_fps": 20.0, "wrong": ["frame 3: 12.0 dB"]},
    }
    facts = {"video": "v", "frames": 603, "entries": entries, "missing": {"opencv": "No module named 'cv2'"}}
    (table,) = a.tabulate({"A": {"facts": facts}}).values()
    lines = {line[0]: line[1:] for line in table.lines}
    assert lines["joblib lz4 1"] == ["11,714", "37.2", "53.9", "10.0", "10.0", "20.0"]
    assert lines["PNG (OpenCV)"][3] == "frame 3: 12.0 dB"
    assert lines["joblib raw"][3] == "No module named 'cv2'"
