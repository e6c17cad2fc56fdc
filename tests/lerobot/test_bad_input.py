"""Damaged and unusual data sets: each is an error of its own type that names the file and the next step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.testing import make_lerobot
from tests.lerobot.cases import replace_column

TOP = "observation.images.top"
INFO, EPISODES = "meta/info.json", "meta/episodes/chunk-000/file-000.parquet"
TABLE, VIDEO = "data/chunk-000/file-000.parquet", f"videos/{TOP}/chunk-000/file-000.mp4"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
Copy = Callable[..., Path]


def change_info(**changes: Any) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        info = json.loads((root / INFO).read_text()) | changes
        (root / INFO).write_text(json.dumps(info))

    return change


def change_feature(
    name: str, then: Callable[[Path], object] = lambda _: None, **changes: Any
) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        info = json.loads((root / INFO).read_text())
        info["features"][name] |= changes
        (root / INFO).write_text(json.dumps(info))
        then(root)

    return change


def rename_feature(name: str, other: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        info = json.loads((root / INFO).read_text())
        info["features"][other] = info["features"].pop(name)
        (root / INFO).write_text(json.dumps(info))

    return change


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda root: (root / name).write_bytes(content)


def edit(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda root: pq.write_table(change(pq.read_table(root / name)), root / name)


def put(column: str, values: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replace_column(table, column, values)


def use(robots: Any) -> None:
    """Plan and read all rows."""
    plan = robots.plan_cameras({TOP: [-0.1, 0.0], "wrist": [0.0], "action": [0.0, 0.1]}, seed=0, columns=["task_index"])
    for each in plan.values():
        list(each)


START, END = (f"videos/{TOP}/{name}_timestamp" for name in ("from", "to"))
BAD: dict[str, tuple[Callable[[Path], object], type[ff.FramefeedError], str]] = {
    "no info.json": (lambda root: (root / INFO).unlink(), ff.MissingMedia, r"no LeRobot data set is.*hf download"),
    "no JSON": (write(INFO, b"{"), ff.UnreadableMedia, r"info\.json: is no JSON"),
    "a list": (write(INFO, b"[]"), ff.UnreadableMedia, "expected an object of JSON, got list"),
    "not UTF-8": (write(INFO, b"\xff\xfe"), ff.UnreadableMedia, r"info\.json: is not UTF-8"),
    "nested too deeply": (write(INFO, b"[" * 100_000), ff.UnreadableMedia, r"info\.json: is no JSON"),
    "NaN": (change_info(fps=float("nan")), ff.UnreadableMedia, "NaN is no number of JSON"),
    "no rate": (change_info(fps=0), ff.UnreadableMedia, "expected a finite fps above zero, got 0"),
    "a negative rate": (change_info(fps=-30), ff.UnreadableMedia, "expected a finite fps above zero, got -30"),
    "a rate of text": (change_info(fps="30"), ff.UnreadableMedia, "expected a finite fps above zero, got '30'"),
    "older": (change_info(codebase_version="v1.6"), ff.UsageError, r"is 'v1\.6', but framefeed reads 2\.0, 2\.1, 3\.0"),
    "newer": (change_info(codebase_version="v3.1"), ff.UsageError, r"'v3\.1', but framefeed reads"),
    "no version": (change_info(codebase_version=None), ff.UsageError, "codebase_version is None"),
    "lance": (change_info(storage_format="lance"), ff.UsageError, "storage_format is 'lance'"),
    "a count of text": (change_info(total_frames="35"), ff.UnreadableMedia, "whole number total_frames"),
    "no files in a chunk": (change_info(chunks_size=0), ff.UnreadableMedia, "expected a chunks_size above zero, got 0"),
    "no features": (change_info(features=None), ff.UnreadableMedia, "expected an object of features"),
    "a feature without a shape": (change_feature("action", shape=None), ff.UnreadableMedia, "'action' needs a dtype"),
    "no template": (change_info(data_path=None), ff.UnreadableMedia, "expected a template data_path, got None"),
    "a template that is none": (change_info(data_path="{"), ff.UnreadableMedia, "data_path is no template"),
    "a template with other fields": (
        change_info(data_path="data/{episode_index:06d}.parquet"), ff.UnreadableMedia, r"with \{chunk_index\}, "
    ),
    "a template with attributes": (
        change_info(data_path="{chunk_index.__class__}"), ff.UnreadableMedia, "expected a template data_path"
    ),
    "a template of a huge width": (
        change_info(data_path="{chunk_index:0999999999d}"), ff.UnreadableMedia, "expected a template data_path"
    ),
    "a template that climbs": (
        change_info(data_path="data/../../other/{file_index}.parquet"), ff.UnreadableMedia, "leads out of the data set"
    ),
    "a template of the home folder": (
        change_info(data_path="~/{file_index}.parquet"), ff.UnreadableMedia, "data_path leads out of the data set"
    ),
    "a template of a URL": (
        change_info(data_path="s3://other/{file_index}"), ff.UnreadableMedia, "data_path leads out of the data set"
    ),
    "a template with NUL": (
        change_info(data_path="data/\0{file_index}"), ff.UnreadableMedia, "data_path leads out of the data set"
    ),
    "a camera whose name leads out": (
        rename_feature(TOP, "../../../other"), ff.UnreadableMedia, "video_path leads out of the data set, to '../"
    ),
    "fewer episodes counted": (change_info(total_episodes=2), ff.UnreadableMedia, "has 3 episodes, but .* counts 2"),
    "a template that is absolute": (
        change_info(video_path="/etc/{video_key}"), ff.UnreadableMedia, "video_path leads out of the data set"
    ),
    "a template of one name": (
        change_info(video_path=VIDEO), ff.UnreadableMedia, f"several videos of the camera '{TOP}' one name, such as vid"
    ),
    "a pointer of info.json": (write(INFO, POINTER), ff.UnreadableMedia, r"info\.json: is a Git LFS pointer"),
    "a pointer of episodes": (write(EPISODES, POINTER), ff.UnreadableMedia, "file-000.parquet: is a Git LFS pointer"),
    "a pointer of a table": (write(TABLE, POINTER), ff.UnreadableMedia, r"data/.*: is a Git LFS pointer.*git lfs pull"),
    "a pointer of a video": (write(VIDEO, POINTER), ff.UnreadableMedia, "git lfs pull.* has episodes 0, 1 there"),
    "no episodes": (lambda root: (root / EPISODES).unlink(), ff.MissingMedia, "file-000.parquet: no such file"),
    "a cut table": (
        lambda root: write(TABLE, (root / TABLE).read_bytes()[:-9])(root), ff.UnreadableMedia, "as a Parquet file"
    ),
    "episodes without a column": (
        edit(EPISODES, lambda table: table.drop_columns([START])), ff.UnreadableMedia, f"lacks the columns {START}"
    ),
    "episodes of another type": (
        edit(EPISODES, put("length", lambda values: list(map(str, values)))), ff.UnreadableMedia, "expected whole"
    ),
    "a null": (
        edit(EPISODES, put("length", lambda values: [None, *values[1:]])), ff.UnreadableMedia, "a null in .*'length'"
    ),
    "a negative number": (
        edit(EPISODES, put("data/file_index", lambda values: [-1, *values[1:]])), ff.UnreadableMedia, "the number -1"
    ),
    "episodes out of order": (
        edit(EPISODES, lambda table: table.take([1, 0, 2])), ff.UnreadableMedia, "row 0 is out of order: expected"
    ),
    "rows that overlap": (
        edit(EPISODES, put("dataset_from_index", lambda values: [0, 11, 20])), ff.UnreadableMedia, "begins at row 11"
    ),
    "another length": (
        edit(EPISODES, put("length", lambda values: [12, 9, 15])), ff.UnreadableMedia, "rows 12 to 20, but length 9"
    ),
    "episodes that are missing": (
        edit(EPISODES, lambda table: table.slice(0, 2)), ff.UnreadableMedia, "is missing, but meta/info.json counts 3"
    ),
    "more rows than counted": (change_info(total_frames=34), ff.UnreadableMedia, "ends at row 35, but .* counts 34"),
    "times that overlap": (
        edit(EPISODES, put(START, lambda values: [0.0, 0.1, 0.0])), ff.UnreadableMedia, "episode 0 ends at 0.4 s"
    ),
    "times that overlap by a row": (
        edit(EPISODES, put(START, lambda values: [0.0, 0.4 - 1 / 30, 0.0])), ff.UnreadableMedia, "episode 0 ends at 0.4"
    ),
    "times that are negative": (
        edit(EPISODES, put(START, lambda values: [-1.0, *values[1:]])), ff.UnreadableMedia, "lasts from -1.0 s"
    ),
    "times that are NaN": (
        edit(EPISODES, put(START, lambda values: [float("nan"), *values[1:]])), ff.UnreadableMedia, "lasts from nan s"
    ),
    "an episode past the video's end": (
        edit(EPISODES, lambda table: put(END, lambda _: [0.4, 9.0, 0.5])(put(START, lambda _: [0.0, 8.0, 0.0])(table))),
        ff.FrameNotFound,
        r"time of row 17 \(episode 1\).*because the video ends at 0\.66\d+ s",
    ),
    "a table without a column": (
        edit(TABLE, lambda table: table.drop_columns(["action"])), ff.UnreadableMedia, "lacks the column 'action'"
    ),
    "a table of another type": (
        edit(TABLE, put("action", lambda values: ["x"] * len(values))), ff.UnreadableMedia, "float32 .*got string"
    ),
    "a table of another shape": (
        edit(TABLE, put("action", lambda values: [each[:5] for each in values])), ff.UnreadableMedia, r"the shape \[6\]"
    ),
    "a row of another shape": (
        edit(TABLE, put("action", lambda values: [*values[:3], [1.0], *values[4:]])), ff.UnreadableMedia, "row 3 of the"
    ),
    "a null in a table": (
        edit(TABLE, put("task_index", lambda values: [None, *values[1:]])), ff.UnreadableMedia, "row 0 of the table"
    ),
    "fewer rows": (edit(TABLE, lambda table: table.slice(0, 19)), ff.UnreadableMedia, "has 19 rows, but its episodes"),
    "another index": (
        edit(TABLE, put("index", lambda values: [1, *values[1:]])), ff.UnreadableMedia, "other values than 0 to 19"
    ),
    "a timestamp that is NaN": (
        edit(TABLE, put("timestamp", lambda values: [*values[:7], float("nan"), *values[8:]])),
        ff.UnreadableMedia, "row 7 has no finite timestamp",
    ),
    "a task without a text": (
        edit(TABLE, put("task_index", lambda values: [*values[:4], 2, *values[5:]])),
        ff.UnreadableMedia, "tasks.parquet: row 4 of the tables has task_index 2, but there are 2 tasks",
    ),
    "a task of a negative number": (
        edit(TABLE, put("task_index", lambda values: [*values[:4], -1, *values[5:]])),
        ff.UnreadableMedia, "tasks.parquet: row 4 of the tables has task_index -1, but there are 2 tasks",
    ),
    "floats in place of whole numbers": (
        edit(TABLE, put("task_index", lambda values: [float(each) for each in values])),
        ff.UnreadableMedia, "expected int64 in the column 'task_index', .* got double",
    ),
    "numbers that the type has not": (
        change_feature("task_index", then=edit(TABLE, put("task_index", lambda _: [256] * 20)), dtype="int8"),
        ff.UnreadableMedia, "has the numbers 256 to 256 in the column 'task_index', but meta/info.json says int8",
    ),
    "tasks without numbers": (
        edit("meta/tasks.parquet", lambda table: table.drop_columns(["task_index"])), ff.UnreadableMedia, "expected col"
    ),
    "tasks with a gap": (
        edit("meta/tasks.parquet", put("task_index", lambda _: [0, 2])), ff.UnreadableMedia, "task_index from 0 to 1"
    ),
    "a missing video": (
        lambda root: (root / VIDEO).unlink(), ff.MissingMedia, r"file-000\.mp4.*has episodes 0, 1 there: .*episodes="
    ),
    "a camera without an episode": (
        edit(EPISODES, put(f"videos/{TOP}/chunk_index", lambda values: [0, None, 0])),
        ff.UsageError, "has no video of episode 1: leave these out with episodes=",
    ),
    "tables that alternate": (
        edit(EPISODES, put("data/file_index", lambda _: [0, 1, 0])), ff.UnreadableMedia, "do not follow one another"
    ),
    "a camera of no episode": (
        edit(EPISODES, lambda table: table.select([name for name in table.column_names if f"/{TOP}/" not in name])),
        ff.UsageError, "has no video of episodes 0, 1, 2",
    ),
    "a camera of depth": (
        change_feature(TOP, info={"video.is_depth_map": True}), ff.UsageError, "is of depth, which is not"
    ),
    "a mark of depth of the feature": (change_feature(TOP, is_depth_map=True), ff.UsageError, "is of depth"),
    "an older mark of depth": (
        change_feature(TOP, info=None, video_info={"video.is_depth_map": True}), ff.UsageError, "is of depth"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_data_are_errors_that_name_the_file(name: str, copy: Copy) -> None:
    damage, kind, message = BAD[name]
    root = copy()
    if "video" in name:  # whose catalog is kept
        use(ff.lerobot.open(root))
    damage(root)
    with pytest.raises(kind, match=message) as caught:
        use(ff.lerobot.open(root))
    assert str(root) in str(caught.value) or isinstance(caught.value, ff.UsageError)


OLD_BAD: dict[str, tuple[str, bytes, str]] = {
    "no number": ("meta/episodes.jsonl", b'{"episode_index": 0, "tasks": [], "length": "12"}\n', "line 1: expected"),
    "no tasks": ("meta/episodes.jsonl", b'{"episode_index": 0, "length": 12}\n', "line 1: expected a list of tasks"),
    "no JSON": ("meta/episodes.jsonl", b"{}\n{\n", "line 2: is no JSON"),
    "an episode twice": (
        "meta/episodes.jsonl", b'{"episode_index": 0, "tasks": [], "length": 12}\n' * 3, "row 1 is out of order"
    ),
    "a pointer": ("data/chunk-000/episode_000001.parquet", POINTER, "is a Git LFS pointer"),
    "tasks twice": ("meta/tasks.jsonl", b'{"task_index": 0, "task": "a"}\n' * 2, "task_index from 0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD_BAD)
def test_bad_data_of_older_versions_are_errors_that_name_the_file(name: str, copy: Copy) -> None:
    file, content, message = OLD_BAD[name]
    root = copy("2.1")
    (root / file).write_bytes(content)
    with pytest.raises(ff.UnreadableMedia, match=message) as caught:
        use(ff.lerobot.open(root))
    assert str(root / file) in str(caught.value)


WRONG_CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "no camera": ({"delta_timestamps": {"action": [0.0]}}, "expected a camera, such as 'observation.images.top'"),
    "no dict": ({"delta_timestamps": [0.0]}, "delta_timestamps: expected a dict"),
    "an unknown name": ({"delta_timestamps": {"top": [0.0]}}, "there is no 'top': the data set has observation.images"),
    "no multiple": (
        {"delta_timestamps": {TOP: [0.0, 0.05]}}, r"\[1\]: 0.05 s is no multiple of 1/30 s .* is 0.066667 s, 2 rows"
    ),
    "NaN": ({"delta_timestamps": {TOP: [float("nan")]}}, "expected finite seconds, got nan"),
    "infinity": ({"delta_timestamps": {TOP: [0.0, -float("inf")]}}, "expected finite seconds, got -inf"),
    "huge": ({"delta_timestamps": {TOP: [1e300]}}, "expected finite seconds"),
    "no list": ({"delta_timestamps": {TOP: 0.0}}, "expected a list of seconds"),
    "an empty list": ({"delta_timestamps": {TOP: []}}, "expected a list of seconds"),
    "texts": ({"delta_timestamps": {TOP: ["a"]}}, "expected a list of seconds"),
    "True as a time": ({"delta_timestamps": {TOP: [True]}}, "expected a list of seconds"),
    "True among times": ({"delta_timestamps": {TOP: [0.0, True]}}, "expected a list of seconds"),
    "a mask of times": ({"delta_timestamps": {TOP: np.array([True])}}, "expected a list of seconds"),
    "True as a tolerance": ({"tolerance_seconds": True}, "tolerance_seconds: expected a finite number"),
    "True among episodes": ({"episodes": [0, True]}, "expected a list of numbers of episodes"),
    "an unknown episode": ({"episodes": [3]}, "no episode 3: the data set has 0 to 2"),
    "a negative episode": ({"episodes": [-1]}, "no episode -1"),
    "an episode twice": ({"episodes": [1, 1]}, "1 is given twice"),
    "no episodes": ({"episodes": []}, "the list is empty"),
    "episodes as floats": ({"episodes": [0.5]}, "expected a list of numbers of episodes"),
    "episodes as a mask": ({"episodes": [True, False, True]}, "expected a list of numbers of episodes"),
    "an unknown column": ({"columns": ["reward"]}, "there is no column 'reward'"),
    "a camera as a column": ({"columns": [TOP]}, "is a camera: its pictures are no column"),
    "a column twice": (
        {"delta_timestamps": {TOP: [0.0], "action": [0.0]}, "columns": ["action"]}, "'action' is delivered already"
    ),
    "a negative tolerance": ({"tolerance_seconds": -1}, "tolerance_seconds: expected a finite number"),
    "a tolerance of NaN": ({"tolerance_seconds": float("nan")}, "tolerance_seconds: expected a finite number"),
    "no seed": ({"seed": None}, "seed: give a number"),
    "another shuffle": ({"shuffle": "videos"}, "shuffle: expected True or False"),
    "the size of another camera": ({"size": {"wrist": 24}}, "size: 'wrist' is no camera of this plan"),
    "lerobot's name": ({"tolerance_s": 1e-4}, "use tolerance_seconds="),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls_are_usage_errors(name: str, original: dict[str, Path]) -> None:
    options, message = WRONG_CALLS[name]
    robots = ff.lerobot.open(original["3.0"])
    with pytest.raises(ff.UsageError, match=message):
        robots.plan(**{"delta_timestamps": {TOP: [0.0]}, "seed": 0, **options})


def test_an_empty_data_set_can_be_opened_and_not_planned(tmp_path: Path) -> None:
    for version in ("3.0", "2.1"):
        robots = ff.lerobot.open(make_lerobot(tmp_path / version, version=version, episodes=(), cameras=[TOP]))
        assert (len(robots), robots.num_episodes, robots.meta.episodes["length"]) == (0, 0, [])
        with pytest.raises(ff.UsageError, match="is empty"):
            robots.plan({TOP: [0.0]}, seed=0)


def test_a_byte_order_mark_is_no_part_of_the_text(copy: Copy) -> None:
    root = copy()
    (root / INFO).write_bytes(b"\xef\xbb\xbf" + (root / INFO).read_bytes())
    assert len(ff.lerobot.open(root)) == 35


def test_a_tolerance_that_is_too_small_says_which_would_do(copy: Copy) -> None:
    root = copy()
    edit(TABLE, put("timestamp", lambda values: np.float32(values) + np.float32(0.005)))(root)
    robots = ff.lerobot.open(root)
    plan = robots.plan({TOP: [0.0]}, seed=0, shuffle=False)
    with pytest.raises(
        ff.FrameNotFound, match=r"row 3 .* 0\.005\d* s away .*tolerance_seconds=0\.005\d* would do"
    ) as caught:
        plan[3]
    enough = float(str(caught.value).split("tolerance_seconds=")[2].split(" ")[0])
    assert robots.plan({TOP: [0.0]}, seed=0, shuffle=False, tolerance_seconds=enough)[3][TOP].indices.tolist() == [3]


def test_videos_with_fewer_frames_than_rows_are_warned_of(copy: Copy, tmp_path: Path) -> None:
    root = copy()
    short = make_lerobot(tmp_path / "short", episodes=(12, 6), cameras=[TOP], size=(32, 48))
    (root / VIDEO).write_bytes((short / VIDEO).read_bytes())
    robots = ff.lerobot.open(root)
    with pytest.warns(UserWarning, match=r"1 video .*fewer frames than rows .*with 18 of 20 frames"):
        plan = robots.plan({TOP: [0.0]}, seed=0, shuffle=False)
    assert plan[17][TOP].indices.tolist() == [17]
    with pytest.raises(ff.FrameNotFound, match=r"row 18 \(episode 1\).*because the video ends"):
        plan[18]
    assert len(robots.plan({TOP: [0.0]}, seed=0, episodes=[2])) == 15


def test_videos_of_other_sizes_need_a_size(copy: Copy, tmp_path: Path) -> None:
    root = copy()
    other = make_lerobot(tmp_path / "other", cameras=[TOP], size=(48, 32))
    (root / VIDEO).write_bytes((other / VIDEO).read_bytes())
    robots = ff.lerobot.open(root)
    with pytest.raises(ff.UsageError, match="size"):
        robots.plan({TOP: [0.0]}, seed=0)
    assert robots.plan({TOP: [0.0]}, seed=0, size=(16, 16)).streams[TOP].picture_shape == (3, 16, 16)


def test_files_are_read_within_limits(original: dict[str, Path]) -> None:
    root = original["3.0"]
    for name, most in (("max_header_bytes", 100), ("max_members", 2)):
        with pytest.raises(ff.LimitExceeded, match=name):
            ff.lerobot.open(root, limits=ff.Limits(**{name: most}))


def test_meta_says_what_is_not_planned(copy: Copy) -> None:
    root = copy()
    change_feature("wrist", info={"video.is_depth_map": True})(root)
    edit(EPISODES, put(f"videos/{TOP}/chunk_index", lambda _: [0, None, 0]))(root)
    meta = ff.lerobot.open(root).meta
    assert meta.depth_keys == ["wrist"]
    assert meta.get_video_file_path(0, TOP) == VIDEO
    with pytest.raises(ff.UsageError, match="has no video of episode 1"):
        meta.get_video_file_path(1, TOP)
