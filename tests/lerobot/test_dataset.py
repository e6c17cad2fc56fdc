"""LeRobotDataset gives the items that lerobot's own class gave, key for key, in any DataLoader."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler

import framefeed as ff
from framefeed.testing import ClipSpec, make_lerobot, read_stamps, write_clip
from framefeed.torch import EpisodeAwareSampler, LeRobotDataset
from tests.lengths import sampled
from tests.lerobot.cases import LENGTHS, READS, SIDE, TOP, WRIST, find_dataset
from tests.lerobot.test_golden import MEAN_TOLERANCE, READ

MIXED = READS["mixed"][1]["delta_timestamps"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("robots")


@pytest.fixture(scope="module")
def cameras(folder: Path) -> Path:
    return find_dataset("cameras", folder)


def open_dataset(root: Path, **options: Any) -> LeRobotDataset:
    return LeRobotDataset("me/data", root, **options)


def describe(value: Any, is_picture: bool) -> Any:
    """Describe a value of an item as the golden does; of pictures, the means apart."""
    if isinstance(value, str):
        return value, None
    head = [str(value.dtype).removeprefix("torch."), list(value.shape)]
    if not is_picture:
        return [*head, value.tolist()], None
    pictures = value.reshape(-1, *value.shape[-3:]).numpy()
    stamps = read_stamps(np.round(pictures * 255).astype(np.uint8).transpose(0, 2, 3, 1))
    return [*head, stamps], pictures.mean(axis=(1, 2, 3))


def as_float32(values: Any) -> Any:
    """Round the shortest texts of float32 numbers as those are."""
    return torch.tensor(values, dtype=torch.float32).tolist()


@pytest.mark.parametrize("name", sampled([*READS], lambda name: READS[name][0], step=2))
def test_items_are_those_of_lerobot(name: str, folder: Path) -> None:
    set_name, options = READS[name]
    data = open_dataset(find_dataset(set_name, folder), **options)
    facts, items = READ[name]["facts"], READ[name]["items"]
    assert len(data) == data.num_frames == facts["num_frames"] == len(data.hf_dataset)
    assert (data.num_episodes, data.fps, data.episodes) == (facts["num_episodes"], facts["fps"], facts["episodes"])
    assert data.hf_dataset.column_names == [key for key in facts["column_names"] if key not in facts["image_keys"]]
    loaded = data.__getitems__([int(row) for row in items])
    for item, expected in zip(loaded, items.values(), strict=True):
        if isinstance(expected, str):
            continue  # lerobot raised
        assert list(item) == list(expected)
        for key, value in expected.items():
            described, means = describe(item[key], key in data.meta.camera_keys)
            if isinstance(value, list) and value[0] == "float32" and means is None:
                value = [*value[:2], as_float32(value[2])]
            assert described == (value if means is None else value[:3]), (name, key)
            assert means is None or np.allclose(means, value[3], atol=MEAN_TOLERANCE)


@pytest.mark.parametrize(
    ("version", "options"),
    sampled(
        [(version, coding) for version in ("3.0", "2.1", "2.0") for coding in ({"codec": "libsvtav1"}, {"gop": 30})],
        lambda case: case[0] if case[0] != "3.0" else str(case[1]),
    ),
    ids=repr,
)
def test_frames_are_those_of_a_sequential_read(tmp_path: Path, version: str, options: dict[str, Any]) -> None:
    root = make_lerobot(tmp_path, version=version, episodes=LENGTHS, cameras=[TOP, WRIST], **options)
    steps = {TOP: [-3, 0, 1], WRIST: [2]}
    data = open_dataset(
        root, delta_timestamps={key: [step / 30 for step in each] for key, each in steps.items()}, return_uint8=True
    )
    decoded = {camera: read_sequentially(root, camera) for camera in steps}
    ends = np.cumsum([0, *LENGTHS])
    for row in torch.randperm(len(data))[:20].tolist():
        item = data[row]
        episode = int(np.searchsorted(ends, row, side="right")) - 1
        for camera, each in steps.items():
            asked = row + np.array(each)
            rows = np.clip(asked, ends[episode], ends[episode + 1] - 1)
            assert item[f"{camera}_is_pad"].tolist() == (rows != asked).tolist()
            pictures = item[camera] if len(each) > 1 else item[camera][None]
            assert pictures.dtype == torch.uint8
            assert np.array_equal(pictures.numpy(), np.stack([decoded[camera][number] for number in rows]))


def read_sequentially(root: Path, camera: str) -> dict[int, np.ndarray]:
    """Decode all videos of a camera from the first frame to the last; pictures by the numbers that they show."""
    frames = {}
    for path in sorted((root / "videos").rglob("*.mp4")):
        if camera in path.parts:
            for picture in ff.VideoDecoder(path):
                (number,) = read_stamps(picture[None])
                frames[number] = picture
    return frames


def test_pictures_are_bytes_over_255(cameras: Path) -> None:
    numbers, floats = open_dataset(cameras, return_uint8=True)[7], open_dataset(cameras)[7]
    for camera in (TOP, WRIST, SIDE):
        assert torch.equal((numbers[camera] / 255.0).type(torch.float32), floats[camera])


def test_one_item_is_the_item_of_a_batch(cameras: Path) -> None:
    data = open_dataset(cameras, delta_timestamps=MIXED)
    order = [44, 3, 3, -1, 12, 20]
    for item, number in zip(data.__getitems__(order), order, strict=True):
        assert_equal(item, data[number])
    assert data.__getitems__([]) == []
    with pytest.raises(IndexError, match="no idx 45"):
        data[45]


def assert_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert list(first) == list(second)
    for key, value in first.items():
        assert torch.equal(value, second[key]) if isinstance(value, torch.Tensor) else value == second[key], key


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "threads"])
def test_loaders_give_the_same_items(cameras: Path, start: str) -> None:
    data = open_dataset(cameras, delta_timestamps=MIXED, episodes=[0, 2, 4])
    rows = list(range(0, len(data), 3))
    options: dict[str, Any] = {"batch_size": 4, "sampler": SubsetRandomSampler(rows), "num_workers": 2}
    loader = (
        ff.torch.DataLoader(data, **options)
        if start == "threads"
        else DataLoader(data, multiprocessing_context=start, **options)
    )
    seen = []
    for batch in loader:
        for slot, index in enumerate(batch["index"].tolist()):
            row = data.hf_dataset["index"].tolist().index(index)
            seen.append(row)
            assert_equal({key: values[slot] for key, values in batch.items()}, data[row])
    assert sorted(seen) == rows


def test_pickles_are_small_and_alike(folder: Path) -> None:
    data = open_dataset(find_dataset("av1", folder), delta_timestamps={TOP: [0.0], "action": [0.0]})
    data[0]
    pickled = pickle.dumps(data)
    assert len(pickled) < 20_000
    assert_equal(pickle.loads(pickled)[5], data[5])
    assert_equal(copy.copy(data)[5], data[5])


def test_transforms_draw_by_seed_epoch_and_position(cameras: Path) -> None:
    def add_noise(picture: torch.Tensor) -> torch.Tensor:
        return picture + torch.rand(())

    data = open_dataset(cameras, image_transforms=add_noise, seed=3)
    before = torch.get_rng_state()
    first, again = data[4], data.__getitems__([9, 4])[1]
    assert torch.equal(torch.get_rng_state(), before)
    assert_equal(first, again)
    plain = open_dataset(cameras)[4]
    added = {camera: float((first[camera] - plain[camera]).mean()) for camera in (TOP, WRIST, SIDE)}
    assert len({round(value, 4) for value in added.values()}) == 3
    data.set_epoch(1)
    assert not torch.equal(data[4][TOP], first[TOP])
    data.set_epoch(0)
    assert_equal(data[4], first)
    other = open_dataset(cameras, image_transforms=add_noise, seed=4)
    assert not torch.equal(other[4][TOP], first[TOP])


def test_items_draw_differently_and_persistent_workers_see_the_epoch(cameras: Path) -> None:
    data = open_dataset(cameras, image_transforms=draw_number, episodes=[3])
    loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True, multiprocessing_context="fork")
    epochs = []
    for epoch in (0, 1):
        data.set_epoch(epoch)
        drawn = [number for batch in loader for number in batch[TOP].tolist()]
        assert drawn == [float(item[TOP]) for item in data]
        assert len({*drawn}) == len(data)
        epochs.append(drawn)
    assert not {*epochs[0]} & {*epochs[1]}
    for wrong in (-1, 1.5):
        with pytest.raises(ff.UsageError):
            data.set_epoch(wrong)  # type: ignore[arg-type]
    assert data.epoch == 1


def draw_number(_: torch.Tensor) -> torch.Tensor:
    return torch.rand(())


def test_transforms_that_never_get_an_epoch_are_warned_of(cameras: Path) -> None:
    data = open_dataset(cameras, image_transforms=draw_number, episodes=[3])
    rows = range(len(data))
    data.__getitems__(rows)
    with pytest.warns(UserWarning, match="this LeRobotDataset delivered 16 items of an epoch of 8 without set_epoch"):
        data.__getitems__(rows)
    known = open_dataset(cameras, image_transforms=draw_number, episodes=[3])
    known.set_epoch(0)
    for _ in range(3):
        known.__getitems__(rows)


def test_missing_frames_are_errors_of_the_first_item_and_of_loops(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "short", version="2.1", episodes=(5,), cameras=[TOP], size=(32, 48))
    video = ClipSpec(num_frames=5, width=48, height=32, pts=(0, 4, 5, 6, 7), time_base=Fraction(1, 30))
    write_clip(root / f"videos/chunk-000/{TOP}/episode_000000.mp4", video)
    data = open_dataset(root)
    for call, row in ((lambda: list(data), 1), (lambda: data.__getitems__([4, 3, 1]), 3)):
        with pytest.raises(ff.FrameNotFound, match=f"the time of row {row} "):
            call()
    enough = open_dataset(root, tolerance_s=0.1, delta_timestamps={"action": [0.09]})
    assert enough[1][TOP].shape == (3, 32, 48)
    assert enough[1]["action"].shape == (1, 6)


def test_texts_are_those_of_the_row_itself(folder: Path) -> None:
    root = find_dataset("texts", folder)
    beside = open_dataset(root, delta_timestamps={"subtask_index": [0.1], "task_index": [0.0, 0.1]})
    for item, plain in zip(beside, open_dataset(root), strict=True):
        assert (item["task"], item["subtask"]) == (plain["task"], plain["subtask"])


def test_cache_gives_the_same_items(cameras: Path, tmp_path: Path) -> None:
    plain = open_dataset(cameras, delta_timestamps=MIXED)
    with ff.FrameCache(tmp_path / "cache") as cache:
        data = open_dataset(cameras, delta_timestamps=MIXED, cache=cache)
        for _ in range(2):
            assert_equal(data[13], plain[13])


def test_columns_are_those_of_items(cameras: Path) -> None:
    data = open_dataset(cameras, episodes=[1, 3])
    items = list(data)
    for name in ("action", "next.reward", "small", "grid", "task_index"):
        assert torch.equal(data.hf_dataset[name], torch.stack([item[name] for item in items]))
    with pytest.raises(TypeError, match="rows are read with"):
        data.hf_dataset[0]
    with pytest.raises(ff.UsageError, match="there is no column 'actions'"):
        data.hf_dataset["actions"]


def test_names_are_looked_up_in_the_folder_of_lerobot(
    cameras: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "data").symlink_to(cameras)
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for arguments in (("me/data",), ("me/data", ""), ("other", "~/me/data")):
        assert len(LeRobotDataset(*arguments)) == sum(LENGTHS)
    command = f"hf download me/other --repo-type dataset --local-dir {tmp_path}/me/other"
    with pytest.raises(FileNotFoundError, match=command):
        LeRobotDataset("me/other")
    monkeypatch.delenv("HF_LEROBOT_HOME")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/hf/lerobot/me/data"):
        LeRobotDataset("me/data")


def test_arguments_of_lerobot(cameras: Path) -> None:
    data = open_dataset(
        cameras, revision="v3.0", download_videos=False, video_backend="pyav", batch_encoding_size=1, vcodec="libsvtav1"
    )
    assert len(data) == sum(LENGTHS)
    for wrong, message in (
        ({"force_cache_sync": True}, "downloads nothing"),
        ({"batch_encoding_size": 4}, "is for writing"),
        ({"batch_encoding": 4}, "did you mean"),
        ({"video_backend": "cuda"}, "backend= chooses"),
        ({"delta_timestamps": {TOP: [0.05]}}, "no multiple of 1/30"),
        ({"delta_timestamps": {"observation.images.tip": [0.0]}}, "there is no"),
        ({"episodes": [5]}, "there is no episode 5"),
    ):
        with pytest.raises(ff.UsageError, match=message):
            open_dataset(cameras, **wrong)
    for deltas in ([0.0], []):
        with pytest.raises(ff.UsageError, match="delta_timestamps: expected a dict"):
            open_dataset(cameras, delta_timestamps=deltas)
    with pytest.raises(ff.UsageError, match="reads data sets of LeRobot, and writes and downloads none"):
        LeRobotDataset.create("me/data", fps=30, features={})
    for method in (data.add_frame, data.save_episode, data.push_to_hub, data.finalize):
        with pytest.raises(ff.UsageError, match="lerobot's own class"):
            method()


def test_sampler_leaves_out_the_ends_of_episodes(cameras: Path) -> None:
    data = open_dataset(cameras)
    starts, stops = (data.meta.episodes[f"dataset_{end}_index"] for end in ("from", "to"))
    sampler = EpisodeAwareSampler(
        starts, torch.tensor(stops), episode_indices_to_use=[1, 2, 4], drop_n_first_frames=1, drop_n_last_frames=2
    )
    assert list(sampler) == [*range(14, 26), *range(37, 43)]
    assert len(sampler) == len(sampler.indices) == 18
    shuffled = EpisodeAwareSampler(starts, stops, shuffle=True)
    torch.manual_seed(0)
    order = list(shuffled)
    torch.manual_seed(0)
    assert order == torch.randperm(sum(LENGTHS)).tolist()
    assert list(shuffled) != order
    with pytest.raises(ff.UsageError, match="one for each of 5"):
        EpisodeAwareSampler(starts, stops[:3])
    with pytest.raises(ff.UsageError, match="0 or more"):
        EpisodeAwareSampler(starts, stops, drop_n_last_frames=-1)
