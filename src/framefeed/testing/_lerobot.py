"""Write small LeRobot data sets, of all versions, whose pictures show the numbers of their table rows."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from framefeed.encode import encode_still
from framefeed.testing._clips import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from framefeed.testing._stamps import MAX_NUMBER, draw_stamp

_VERSIONS = ("3.0", "2.1", "2.0")
_FILES_A_CHUNK = 1000  # as lerobot; other data sets may say other in info.json
_SHARED_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_SHARED_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_OWN_DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
_OWN_VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_ROBOT = "framefeed"  # by which a data set of this module is known
_JOINTS = [f"joint_{number}" for number in range(6)]
_IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

Columns = dict[str, npt.NDArray[Any]]
Statistics = dict[str, dict[str, list[Any]]]


def make_lerobot(  # noqa: PLR0913 - public
    folder: str | os.PathLike[str],
    *,
    version: str | float = "3.0",
    episodes: Sequence[int] = (12, 8, 15),
    cameras: Sequence[str] | Mapping[str, int] = ("observation.images.top",),
    fps: int = 30,
    size: tuple[int, int] = (96, 128),
    codec: str = "libx264",
    gop: int | None = 2,
    codec_options: Mapping[str, str] | None = None,
    episodes_per_file: int = 2,
    tasks: Sequence[str] = ("pick the cube", "place the cube"),
    image_keys: Sequence[str] = (),
    columns: Mapping[str, npt.NDArray[Any]] | None = None,
    seed: int = 0,
) -> Path:
    """Write a LeRobot data set whose pictures show the `index` of their table row.

    The layout is that of lerobot's own writer, without the statistics of pictures. Cameras differ in the colour of
    their pictures. ``action`` and ``observation.state`` are float32 [6], drawn from the seed; the first value of
    ``action`` is the row's `index`.

    Args:
        folder: Folder to write to; created if missing.
        version: Version of the layout: ``"3.0"``, ``"2.1"`` or ``"2.0"``; ``"v2.1"`` and ``2.1`` are the same.
        episodes: Number of frames of each episode.
        cameras: Names of the features that are videos. A mapping gives each camera its own number of episodes a
            file, so that an episode's videos lie in files of different numbers (3.0).
        fps: Frames per second.
        size: (height, width) of all pictures, at least (24, 32).
        codec: Name of an encoder of PyAV.
        gop: Largest distance of key frames; None uses the encoder's default. Each episode begins with a key frame.
        codec_options: Further encoder options.
        episodes_per_file: Number of episodes in one table or video file (3.0; before, each has its own files).
        tasks: Texts of the tasks; the episodes take turns.
        image_keys: Names of the features that are PNG images inside the tables.
        columns: Further columns of the tables: arrays [rows, ...] of numbers or bools.
        seed: Seed of the numbers and of the pictures' texture.

    Returns:
        The folder.

    Raises:
        ValueError: The version is unknown, there are more rows than numbers that a picture can show, or another data
            set is already in the folder.
    """
    version = str(version).removeprefix("v")
    if version not in _VERSIONS:
        raise ValueError(f"version: expected one of {', '.join(_VERSIONS)}, got {version!r}")
    if sum(episodes) > MAX_NUMBER + 1:
        raise ValueError(f"episodes: a picture can show numbers to {MAX_NUMBER}, got {sum(episodes)} rows")
    per_camera = cameras if isinstance(cameras, Mapping) else dict.fromkeys(cameras, episodes_per_file)
    clip = ClipSpec(
        height=size[0],
        width=size[1],
        fps=fps,
        codec=codec,
        gop=gop,
        codec_options=dict(codec_options or {}),
        seed=seed,
    )
    if (named := os.fsdecode(folder).removeprefix("v")) in _VERSIONS and named != version:
        raise ValueError(f"folder: expected a folder, and then version={named!r}, got {folder!r} alone")
    root = Path(folder).expanduser()
    info = root / "meta/info.json"
    if info.is_file() and f'"robot_type": "{_ROBOT}"' not in info.read_text("utf-8", "replace"):
        raise ValueError(f"folder: {root} has a data set that make_lerobot has not written: name another folder")
    recording = _Recording(root, tuple(episodes), fps, clip, tuple(tasks), seed)
    recording.add_columns(tuple(image_keys), columns or {})
    if version == "3.0":
        _write_shared_files(recording, per_camera, episodes_per_file)
    else:
        _write_files_an_episode(recording, tuple(per_camera), version)
    return recording.root


@dataclass(slots=True)
class _Recording:
    """What was recorded, apart from how it is laid out in files."""

    root: Path
    lengths: tuple[int, ...]
    fps: int
    clip: ClipSpec
    tasks: tuple[str, ...]
    seed: int
    images: tuple[str, ...] = ()
    columns: Columns = field(default_factory=dict)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First row of each episode, and the row after its last."""
        return list(pairwise(accumulate(self.lengths, initial=0)))

    def add_columns(self, images: tuple[str, ...], extra: Mapping[str, npt.NDArray[Any]]) -> None:
        """Make the table of all rows."""
        rows = sum(self.lengths)
        random = np.random.default_rng(self.seed)
        action, state = random.normal(size=(2, rows, len(_JOINTS))).astype(np.float32)
        action[:, 0] = np.arange(rows)
        frame = np.concatenate([np.arange(length) for length in (*self.lengths, 0)]).astype(np.int64)
        episode = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self.images = images
        self.columns = {
            "action": action,
            "observation.state": state,
            **{name: np.asarray(values) for name, values in extra.items()},
            "timestamp": (frame / self.fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": episode,
            "index": np.arange(rows),
            "task_index": episode % len(self.tasks),
        }

    def get_tasks(self, episode: int) -> list[str]:
        return [self.tasks[episode % len(self.tasks)]]

    def describe(self, cameras: Sequence[str], version: str) -> dict[str, Any]:
        """Make the part of info.json that all versions have."""
        height, width = self.clip.height, self.clip.width
        picture = {"shape": [height, width, 3], "names": ["height", "width", "channels"]}
        info = {
            "video.height": height,
            "video.width": width,
            "video.codec": {"libx264": "h264", "libsvtav1": "av1", "libx265": "hevc"}.get(self.clip.codec, "unknown"),
            "video.pix_fmt": self.clip.pixel_format,
            "video.is_depth_map": False,
            "video.fps": self.fps,
            "video.channels": 3,
            "has_audio": False,
        }
        numbers = {
            name: {
                "dtype": str(values.dtype),
                "shape": list(values.shape[1:]) or [1],
                "names": _JOINTS if values.shape[1:] == (len(_JOINTS),) else None,
            }
            for name, values in self.columns.items()
        }
        return {
            "codebase_version": f"v{version}",
            "robot_type": _ROBOT,
            "total_episodes": len(self.lengths),
            "total_frames": sum(self.lengths),
            "total_tasks": len(self.tasks),
            "chunks_size": _FILES_A_CHUNK,
            "fps": self.fps,
            "splits": {"train": f"0:{len(self.lengths)}"},
            "features": {
                **{name: {"dtype": "video", **picture, "info": info} for name in cameras},
                **{name: {"dtype": "image", **picture} for name in self.images},
                **numbers,
            },
        }

    def make_table(self, start: int, stop: int) -> pa.Table:
        """Make the table of some rows, as lerobot's writer stores it."""
        table = {name: _to_arrow(values[start:stop]) for name, values in self.columns.items()}
        for number, name in enumerate(self.images):
            pictures = [{"bytes": self._draw_png(row, number), "path": f"{row:06d}.png"} for row in range(start, stop)]
            table[name] = pa.array(pictures, _IMAGE_TYPE)
        return pa.table(table)

    def _draw_png(self, row: int, number: int) -> bytes:
        return encode_still(draw_stamp(row, self.clip.height, self.clip.width, style=number, seed=self.seed))

    def summarize(self, start: int, stop: int) -> Statistics:
        """Compute the statistics of some rows by column."""
        return {
            name: {
                **{
                    function.__name__: np.atleast_1d(function(values[start:stop], axis=0)).tolist()
                    for function in (np.min, np.max, np.mean, np.std)
                },
                "count": [stop - start],
            }
            for name, values in self.columns.items()
            if start < stop
        }

    def encode(self, episode: int, style: int) -> _Coded:
        """Encode the pictures of a camera in an episode, as a video of its own."""
        start, stop = self.bounds[episode]
        clip = dataclasses.replace(self.clip, first_stamp=start, num_frames=stop - start, style=style)
        media = clip_bytes(clip, "mp4")
        packets, unit = take_packets(media)
        return _Coded(media, packets, unit, round((stop - start) / (self.fps * unit)))


class _Coded(NamedTuple):
    media: bytes
    packets: list[Coded]
    unit: Fraction
    duration: int  # in units


def _to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Make a column: numbers, lists of fixed size, or lists of lists, as the data sets of lerobot have them."""
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    kind = pa.from_numpy_dtype(values.dtype)
    for _ in values.shape[1:]:
        kind = pa.list_(kind)
    return pa.array(values.tolist(), kind)


def _write_shared_files(recording: _Recording, cameras: Mapping[str, int], episodes_per_file: int) -> None:
    """Write version 3.0: several episodes a file."""
    rows: list[dict[str, Any]] = []
    for episode, (start, stop) in enumerate(recording.bounds):
        row = {
            "episode_index": episode,
            "tasks": recording.get_tasks(episode),
            "length": stop - start,
            **_number_file(episode // episodes_per_file, "data/"),
            "dataset_from_index": start,
            "dataset_to_index": stop,
        }
        rows.append(row)
    for style, (camera, in_a_file) in enumerate(cameras.items()):
        _write_camera(recording, rows, camera, style, in_a_file)
    for (episode, row), bounds in zip(enumerate(rows), recording.bounds, strict=True):
        for name, summary in recording.summarize(*bounds).items():
            row |= {f"stats/{name}/{kind}": values for kind, values in summary.items()}
        row |= _number_file(0, "meta/episodes/")
        if episode % episodes_per_file == 0:
            last = min(episode + episodes_per_file, len(rows)) - 1
            table = recording.make_table(bounds[0], recording.bounds[last][1])
            _write_table(table, recording.root / _SHARED_DATA.format(**_number_file(episode // episodes_per_file)))
    if rows:
        _write_table(pa.Table.from_pylist(rows), recording.root / "meta/episodes/chunk-000/file-000.parquet")
    _write_tasks_table(recording)
    info = recording.describe(tuple(cameras), "3.0") | {
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": _SHARED_DATA,
        "video_path": _SHARED_VIDEO if cameras else None,
    }
    _write_json(info, recording.root / "meta/info.json")
    _write_json(recording.summarize(0, sum(recording.lengths)), recording.root / "meta/stats.json")


def _write_camera(
    recording: _Recording, rows: list[dict[str, Any]], camera: str, style: int, episodes_per_file: int
) -> None:
    """Write the videos of a camera, and where each episode is in them to the rows of episodes."""
    for first in range(0, len(rows), episodes_per_file):
        file = _number_file(first // episodes_per_file)
        packets: list[Coded] = []
        ticks, seconds = 0, 0.0
        parts = [recording.encode(episode, style) for episode in range(len(rows))[first : first + episodes_per_file]]
        # An episode of one frame has no B-frames to wait for: all begin to be decoded equally early.
        begin = min(part.packets[0].dts or 0 for part in parts)
        for episode, coded in enumerate(parts, first):
            packets += _shift(coded.packets, ticks, begin)
            ticks += coded.duration
            # A sum of floats, as lerobot writes it: later episodes begin a little beside their first frame.
            end = seconds + float(coded.duration * coded.unit)
            rows[episode] |= {
                **{f"videos/{camera}/{name}": value for name, value in file.items()},
                f"videos/{camera}/from_timestamp": seconds,
                f"videos/{camera}/to_timestamp": end,
            }
            seconds = end
        path = recording.root / _SHARED_VIDEO.format(video_key=camera, **file)
        path.parent.mkdir(parents=True, exist_ok=True)
        put_packets(path, parts[0].media, packets, parts[0].unit, {"movflags": "+faststart"})


def _shift(packets: list[Coded], ticks: int, begin: int) -> list[Coded]:
    early = begin - (packets[0].dts or 0)
    return [
        dataclasses.replace(packet, pts=(packet.pts or 0) + ticks, dts=(packet.dts or 0) + early + ticks)
        for packet in packets
    ]


def _write_tasks_table(recording: _Recording) -> None:
    """Write tasks.parquet as pandas does for a table whose index is the text."""
    index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object"}
    column = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    names = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    described = {
        "index_columns": ["__index_level_0__"],
        "column_indexes": [{**names, "metadata": {"encoding": "UTF-8"}}],
        "columns": [{**column, "metadata": None}, {**index, "metadata": None}],
        "pandas_version": "2.2.0",
    }
    table = pa.table({"task_index": range(len(recording.tasks)), "__index_level_0__": list(recording.tasks)})
    table = table.replace_schema_metadata({"pandas": json.dumps(described)})
    _write_table(table, recording.root / "meta/tasks.parquet")


def _write_files_an_episode(recording: _Recording, cameras: tuple[str, ...], version: str) -> None:
    """Write version 2.0 or 2.1: a table and a video of each camera for each episode."""
    for episode, (start, stop) in enumerate(recording.bounds):
        file = {"episode_chunk": episode // _FILES_A_CHUNK, "episode_index": episode}
        _write_table(recording.make_table(start, stop), recording.root / _OWN_DATA.format(**file))
        for style, camera in enumerate(cameras):
            path = recording.root / _OWN_VIDEO.format(video_key=camera, **file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(recording.encode(episode, style).media)
    meta = recording.root / "meta"
    count = len(recording.lengths)
    info = recording.describe(cameras, version) | {
        "total_videos": count * len(cameras),
        "total_chunks": -(-count // _FILES_A_CHUNK),
        "data_path": _OWN_DATA,
        "video_path": _OWN_VIDEO if cameras else None,
    }
    _write_json(info, meta / "info.json")
    lengths = enumerate(recording.lengths)
    _write_lines(
        [
            {"episode_index": number, "tasks": recording.get_tasks(number), "length": length}
            for number, length in lengths
        ],
        meta / "episodes.jsonl",
    )
    _write_lines(
        [{"task_index": number, "task": task} for number, task in enumerate(recording.tasks)], meta / "tasks.jsonl"
    )
    if version == "2.0":
        _write_json(recording.summarize(0, sum(recording.lengths)), meta / "stats.json")
    else:
        stats = [recording.summarize(*bounds) for bounds in recording.bounds]
        _write_lines(
            [{"episode_index": number, "stats": summary} for number, summary in enumerate(stats)],
            meta / "episodes_stats.jsonl",
        )


def _number_file(number: int, prefix: str = "") -> dict[str, int]:
    chunk, file = divmod(number, _FILES_A_CHUNK)
    return {f"{prefix}chunk_index": chunk, f"{prefix}file_index": file}


def _write_table(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _write_json(value: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False), "utf-8")


def _write_lines(values: list[dict[str, Any]], path: Path) -> None:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), "utf-8")
