"""Read meta/info.json: version, rate, features, and the templates of the names of files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from string import Formatter
from typing import Any

import numpy as np

from framefeed._checks import is_number
from framefeed._shown import show_name
from framefeed.errors import MissingMedia, UsageError
from framefeed.lerobot._files import Files

INFO = "meta/info.json"
VERSIONS = ("2.0", "2.1", "3.0")
_FIELDS = {True: ("chunk_index", "file_index"), False: ("episode_chunk", "episode_index")}
"""What names a file: where files are shared by episodes, and where each episode has its own."""
_NUMBER = re.compile(r"0?\d?d?")
_OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns of every data set of LeRobot: its writer adds them, and its items need them."""
_MOST_FPS, _MOST_VALUES = 1e9, 1 << 31
_NUMBERS = frozenset(np.dtype(code).name for code in "?bhilBHILefd")
_DEPTH = ("is_depth_map", "video.is_depth_map")


@dataclass(frozen=True)
class Feature:
    """What info.json says of a column or a camera."""

    name: str
    dtype: str  # "video", "image", "string", or the name of a NumPy type
    shape: tuple[int, ...]  # of a value; (1,) of a single number
    names: Any  # of its parts, as info.json has them
    is_depth: bool

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("video", "image")

    @property
    def is_text(self) -> bool:
        return self.dtype == "string"

    @property
    def number_type(self) -> np.dtype[np.generic]:
        """Type of its numbers; that of Python objects if they are none."""
        return np.dtype(self.dtype if self.dtype in _NUMBERS else object)


@dataclass(frozen=True)
class Info:
    """The facts of info.json."""

    version: str  # "2.0", "2.1" or "3.0"
    fps: float  # rows of the tables in a second
    features: Mapping[str, Feature]
    total_episodes: int
    total_frames: int  # number of rows of all tables
    chunks_size: int  # most files in a folder
    data_path: str  # template of the names of tables
    video_path: str | None  # template of the names of videos; None if there are none
    raw: Mapping[str, Any]  # all that the file says; shapes of features are tuples, as lerobot has them

    @property
    def shares_files(self) -> bool:
        """Whether several episodes are in one file."""
        return self.version == "3.0"

    def list_cameras(self, dtype: str | None = None) -> list[str]:
        """List the features that are pictures: all, or those of a dtype."""
        return [name for name, each in self.features.items() if each.is_camera and dtype in (None, each.dtype)]

    def name_table(self, chunk: int, file: int) -> str:
        """Name the table of a chunk and a file, or of an episode of that number."""
        return self._format(self.data_path, chunk, file)

    def name_video(self, camera: str, chunk: int, file: int) -> str:
        """Name the video of a camera in a chunk and a file, or of an episode of that number."""
        assert self.video_path is not None
        return self._format(self.video_path, chunk, file, video_key=camera)

    def _format(self, template: str, chunk: int, file: int, **names: str) -> str:
        fields = dict(zip(_FIELDS[self.shares_files], (chunk, file), strict=True))
        return posixpath.normpath(template.format(**fields, **names))


def read_info(files: Files) -> Info:
    try:
        raw = files.read_json(INFO)
    except MissingMedia as error:
        shown = show_name(files.root)
        raise MissingMedia(
            f"{shown}: no LeRobot data set is there, which would have {INFO}: name the folder with meta/ in it; one of "
            "the Hugging Face Hub is copied with 'hf download --repo-type dataset NAME --local-dir FOLDER'",
            source=shown,
            stage="open",
        ) from error
    version = _read_version(files, raw)
    fps: Any = raw.get("fps")
    if not is_number(fps) or not 0 < fps < _MOST_FPS:
        files.refuse(INFO, f"expected a finite fps above zero, got {fps!r}")
    features = _read_features(files, raw)
    counts = {name: _read_count(files, raw, name) for name in ("total_episodes", "total_frames")}
    chunks_size = _read_count(files, {"chunks_size": 1000, **raw}, "chunks_size")
    if not chunks_size:
        files.refuse(INFO, "expected a chunks_size above zero, got 0")
    shares = version == "3.0"
    data_path = _check_template(files, raw, "data_path", shares, [])
    cameras = [each.name for each in features.values() if each.dtype == "video"]
    video_path = _check_template(files, raw, "video_path", shares, cameras) if cameras else None
    return Info(
        version, float(fps), features, **counts, chunks_size=chunks_size, data_path=data_path, video_path=video_path,
        raw=raw,
    )  # fmt: skip


def _read_version(files: Files, raw: Mapping[str, Any]) -> str:
    storage, given = raw.get("storage_format"), raw.get("codebase_version")
    if storage not in (None, "parquet"):
        raise UsageError(
            f"{files.join(INFO)}: its storage_format is {storage!r}, which framefeed does not read: write the data set "
            "as Parquet and videos, lerobot's version 3.0"
        )
    version = given.removeprefix("v") if isinstance(given, str) else None
    if version not in VERSIONS:
        raise UsageError(
            f"{files.join(INFO)}: its codebase_version is {given!r}, but framefeed reads {', '.join(VERSIONS)}: "
            "convert the data set with lerobot's scripts"
        )
    return version


def _read_count(files: Files, raw: Mapping[str, Any], name: str) -> int:
    count = raw.get(name)
    if type(count) is not int or not 0 <= count < 1 << 62:
        files.refuse(INFO, f"expected a whole number {name} of at least 0, got {count!r}")
    return count


def _read_features(files: Files, raw: Mapping[str, Any]) -> dict[str, Feature]:
    given = raw.get("features")
    if not isinstance(given, dict):
        files.refuse(INFO, f"expected an object of features, got {given!r}")
    features = {}
    for name, each in given.items():
        facts = each if isinstance(each, dict) else {}
        dtype, shape = facts.get("dtype"), facts.get("shape")
        if not isinstance(dtype, str) or not isinstance(shape, list) or not all(type(n) is int for n in shape):
            files.refuse(INFO, f"feature {name!r} needs a dtype and a shape, got {each!r}")
        if min(shape, default=0) < 0 or prod(shape) >= _MOST_VALUES:
            files.refuse(INFO, f"feature {name!r} cannot have the shape {shape}")
        marks = [facts, *(facts.get(key) for key in ("info", "video_info"))]
        is_depth = any(isinstance(mark, dict) and any(mark.get(key) for key in _DEPTH) for mark in marks)
        facts["shape"] = tuple(shape)
        features[name] = Feature(name, dtype, facts["shape"], facts.get("names"), is_depth)
    for name in _OWN:
        if name not in features:
            files.refuse(INFO, f"expected the feature {name!r}, which every data set of LeRobot has, got {[*features]}")
        kind, shape = features[name].number_type.kind, features[name].shape
        if kind not in ("iu", "iuf")[name == "timestamp"] or shape not in ((1,), ()):
            files.refuse(INFO, f"expected a number in the feature {name!r}, got {given[name]!r}")
    return features


def _check_template(files: Files, raw: Mapping[str, Any], key: str, shares: bool, cameras: list[str]) -> str:
    """Check that a template names files in the data set, by the numbers of its version."""
    template = raw.get(key)
    if not isinstance(template, str) or not template:
        files.refuse(INFO, f"expected a template {key}, got {template!r}")
    known = (*_FIELDS[shares], *(["video_key"] if cameras else []))
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        files.refuse(INFO, f"{key} is no template: {error}, in {template!r}", error)
    for _, name, form, conversion in parts:
        is_plain = name in known and not conversion and (_NUMBER.fullmatch(form or "") or name == "video_key")
        if name is not None and not (is_plain and not (name == "video_key" and form)):
            what = ", ".join(f"{{{each}}}" for each in known)
            files.refuse(INFO, f"expected a template {key} with {what} and no others, got {template!r}")
    fields = dict.fromkeys(_FIELDS[shares], 0)
    for camera in cameras or [""]:
        named = template.format(**fields, video_key=camera)
        made = posixpath.normpath(named)
        if posixpath.isabs(made) or made.split("/")[0] in ("..", "~") or "\0" in made or "://" in named:
            files.refuse(INFO, f"{key} leads out of the data set, to {made!r}")
    return template
