"""Write the data sets of the comparison with lerobot: once, into a folder that is kept between runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from framefeed.testing import make_lerobot

TOP = "observation.images.top"
CAMERAS = (TOP, "observation.images.left", "observation.images.right")
EPISODES, FRAMES, SIZE = 200, 40, (480, 640)
CODECS = {
    "av1-g2": {"codec": "libsvtav1", "gop": 2, "codec_options": {"preset": "12", "crf": "30"}},
    "h264-g30": {"codec": "libx264", "gop": 30},
}


def write_videos(folder: Path) -> None:
    """Write a data set of one camera and one of three for each codec."""
    for name, options in CODECS.items():
        one = folder / f"{name}-1"
        if not one.exists():
            part = folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            make_lerobot(part, episodes=[FRAMES] * EPISODES, cameras=[TOP], size=SIZE, episodes_per_file=100, **options)  # type: ignore[arg-type]
            part.rename(one)
        if not (folder / f"{name}-3").exists():
            repeat_camera(one, folder / f"{name}-3")


def repeat_camera(one: Path, three: Path) -> None:
    """Make a data set of three cameras of one: each camera has files of its own, of the same bytes."""
    shutil.rmtree(three, ignore_errors=True)
    shutil.copytree(one, three, ignore=shutil.ignore_patterns("videos"))
    info = json.loads((one / "meta/info.json").read_text())
    video = info["features"][TOP]
    info["features"] = {**dict.fromkeys(CAMERAS, video), **info["features"]}
    (three / "meta/info.json").write_text(json.dumps(info))
    path = three / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    for name in [name for name in table.column_names if name.startswith(f"videos/{TOP}/")]:
        for camera in CAMERAS[1:]:
            table = table.append_column(name.replace(TOP, camera), table[name])
    pq.write_table(pa.table(table), path)
    for camera in CAMERAS:
        shutil.copytree(one / "videos" / TOP, three / "videos" / camera, copy_function=os.link)


def write_tables(folder: Path) -> None:
    """Write data sets without cameras, of some episodes and of 10,000; and one of 10,000 with a camera."""
    if not (folder / "table").exists():
        make_lerobot(folder / "table", episodes=[300] * 200, cameras=[])
    if not (folder / "episodes-10000").exists():
        make_lerobot(folder / "episodes-10000", episodes=[6] * 10_000, cameras=[], episodes_per_file=1000)
    if not (folder / "episodes-10000-1").exists():
        part = folder / "episodes.part"
        shutil.rmtree(part, ignore_errors=True)
        make_lerobot(part, episodes=[3] * 10_000, cameras=[TOP], size=(32, 32), episodes_per_file=1000)
        part.rename(folder / "episodes-10000-1")
