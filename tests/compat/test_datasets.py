"""Kinetics, HMDB51 and UCF101 list the videos of their folders, with the classes that their folders name."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch import DataLoader as ThreadLoader
from framefeed.compat.torchvision import HMDB51, UCF101, Kinetics, UniformClipSampler
from framefeed.errors import MissingMedia, UsageError
from framefeed.testing import ClipSpec, read_stamp, read_stamps
from tests.compat.torchvision_oracles import list_windows
from tests.corpus import clip_file

LAYOUT = {
    "walk": ["w1.avi", "w2.avi", "deeper/w3.AVI"],
    "brush hair": ["b1.avi", "b2.avi"],
    "run": ["r1.avi"],
}
"""Class -> videos; frame k of the n-th of these has the stamp 10 n + k."""
ORDER = ["brush hair/b1.avi", "brush hair/b2.avi", "run/r1.avi", "walk/w1.avi", "walk/w2.avi", "walk/deeper/w3.AVI"]
LABELS = [0, 0, 1, 2, 2, 2]
STAMPS = {f"{kind}/{name}": 10 * place for place, (kind, name) in enumerate(
    (kind, name) for kind, names in LAYOUT.items() for name in names)}  # fmt: skip


def write_videos(root: Path) -> Path:
    for name, first in STAMPS.items():
        clip = clip_file(f"tvset{first}.avi", ClipSpec(num_frames=6, first_stamp=first, codec="mpeg4", b_frames=0))
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(clip, path)
    (root / "readme.txt").write_text("no class")
    (root / "walk" / "notes.txt").write_text("no video")
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def kinetics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinetics")
    write_videos(root / "val")
    return root


@pytest.fixture(scope="module")
def hmdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists as HMDB51 has them: a file a class, 1 for training, 2 for testing, 0 for neither."""
    folder = tmp_path_factory.mktemp("hmdb_splits")
    (folder / "walk_test_split1.txt").write_text("w1.avi 1 \nw2.avi 2 \nw3.AVI 1 \n")
    (folder / "brush_hair_test_split1.txt").write_text("b1.avi 2 \nb2.avi 0 \n")
    (folder / "run_test_split1.txt").write_text("r1.avi 1 \n\n")
    (folder / "run_test_split2.txt").write_text("r1.avi 2 \n")
    return folder


@pytest.fixture(scope="module")
def ucf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists as UCF101 has them: class/file, in those for training with the number of the class."""
    folder = tmp_path_factory.mktemp("ucf_splits")
    (folder / "trainlist01.txt").write_text("walk/w1.avi 3\nwalk/deeper/w3.AVI 3\nrun/r1.avi 2\nrun/gone.avi 2\n")
    (folder / "testlist01.txt").write_text("walk/w2.avi\n")
    (folder / "trainlist03.txt").write_text("walk/none.avi 3\n")
    return folder


def stamps_of(data: Any) -> list[tuple[int, int]]:
    """(first stamp, label) of each item."""
    return [(read_stamp(video[0].numpy()), label) for video, _, label in data]


def test_kinetics(kinetics: Path) -> None:
    data = Kinetics(kinetics, 4, split="val")
    assert (data.classes, data.split, data.num_classes) == (["brush hair", "run", "walk"], "val", "400")
    assert data.samples == [(str(kinetics / "val" / name), label) for name, label in zip(ORDER, LABELS, strict=True)]
    assert stamps_of(data) == [
        (STAMPS[name] + first, label) for name, label in zip(ORDER, LABELS, strict=True) for first in range(3)
    ]
    video, audio, label = data[-1]
    assert (video.shape, audio.shape, type(label)) == ((4, 3, 96, 128), (1, 0), int)
    assert len(list(iter(data))) == len(data) == 18
    assert repr(data).startswith(f"Kinetics({str(kinetics)!r}, 3 classes, VideoClips(18 clips of 6 videos")


def test_kinetics_by_another_rate_step_order_and_transform(kinetics: Path) -> None:
    data = Kinetics(
        str(kinetics), 2, split="val", frame_rate=12.5, step_between_clips=2, transform=lambda clip: clip + 1,
        output_format="THWC", num_workers=0, num_classes="700",
    )  # fmt: skip
    video, _, _ = data[0]
    assert video.shape == (2, 96, 128, 3)
    assert read_stamps((video - 1).numpy()) == [STAMPS[ORDER[0]] + each for each in (0, 2)]
    assert len(data) == 6


def test_kinetics_as_it_was_laid_out_before(root: Path) -> None:
    data = Kinetics(root, 4, _legacy=True, extensions=("avi",))
    assert (data.split, data[0][0].shape) == ("unknown", (4, 96, 128, 3))
    assert stamps_of(data)[0] == (STAMPS[ORDER[0]], 0)


def test_folders_may_be_links(root: Path, tmp_path: Path) -> None:
    (tmp_path / "val/walk").mkdir(parents=True)
    (tmp_path / "val/run").symlink_to(root / "run")
    (tmp_path / "val/walk/more").symlink_to(root / "walk")
    data = Kinetics(tmp_path, 6, split="val")
    assert stamps_of(data) == [(STAMPS["run/r1.avi"], 0), *((STAMPS[name], 1) for name in ORDER[3:])]


@pytest.mark.parametrize(
    ("train", "fold", "names"),
    [
        (True, 1, ["run/r1.avi", "walk/w1.avi", "walk/deeper/w3.AVI"]),
        (False, 1, ["brush hair/b1.avi", "walk/w2.avi"]),
        (False, 2, ["run/r1.avi"]),
    ],
)
def test_hmdb51(root: Path, hmdb: Path, train: bool, fold: int, names: list[str]) -> None:
    data = HMDB51(root, hmdb, 6, fold=fold, train=train)
    check_fold(data, names)


@pytest.mark.parametrize(
    ("train", "names"), [(True, ["run/r1.avi", "walk/w1.avi", "walk/deeper/w3.AVI"]), (False, ["walk/w2.avi"])]
)
def test_ucf101(root: Path, ucf: Path, train: bool, names: list[str]) -> None:
    check_fold(UCF101(str(root), str(ucf), 6, train=train), names)


@pytest.mark.parametrize(("step", "rate"), [(2, None), (1, 12.5), (2, 15)])
def test_clips_of_a_fold_have_the_step_and_the_rate(
    root: Path, hmdb: Path, ucf: Path, step: int, rate: float | None
) -> None:
    windows = list_windows(6, 25.0, 2, step, rate)
    for kind, lists in ((HMDB51, hmdb), (UCF101, ucf)):
        data = kind(root, lists, 2, step, rate, output_format="TCHW")
        first = [
            STAMPS[f"{Path(path).parent.relative_to(root)}/{Path(path).name}"] for path in data.video_clips.video_paths
        ]
        assert [read_stamps(video.permute(0, 2, 3, 1).numpy()) for video, _, _ in data] == [
            [stamp + number for number in window] for stamp in first for window in windows
        ]


def check_fold(data: HMDB51 | UCF101, names: list[str]) -> None:
    labels = dict(zip(ORDER, LABELS, strict=True))
    assert stamps_of(data) == [(STAMPS[name], labels[name]) for name in names]
    assert [data.samples[number][0] for number in data.indices] == data.video_clips.video_paths
    assert (len(data.samples), len(data.metadata["video_paths"])) == (6, 6), "of all folds"
    video, audio, _ = data[0]
    assert (video.shape, video.dtype, audio.shape) == ((6, 96, 128, 3), torch.uint8, (1, 0))


def test_another_choice_is_noticed(root: Path, hmdb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["brush hair/b1.avi", "walk/w2.avi"]
    with pytest.raises(AssertionError):
        check_fold(HMDB51(root, hmdb, 6, train=True), names)
    monkeypatch.setattr(HMDB51, "_select_videos", lambda data, lists: list(range(6)))
    with pytest.raises(AssertionError):
        check_fold(HMDB51(root, hmdb, 6, train=False), names)


def test_classes_are_sorted_by_code_points(tmp_path: Path) -> None:
    clip = clip_file("tvset0.avi", ClipSpec(num_frames=6, codec="mpeg4", b_frames=0))
    for name in ("apply", "Zumba", "ApplyEyeMakeup"):
        (tmp_path / name).mkdir()
        os.link(clip, tmp_path / name / "a.avi")
    data = Kinetics(tmp_path, 4, _legacy=True)
    assert data.classes == ["ApplyEyeMakeup", "Zumba", "apply"]


def test_precomputed_metadata(root: Path, hmdb: Path, ucf: Path) -> None:
    first = HMDB51(root, hmdb, 4)
    for make in (lambda **given: HMDB51(root, hmdb, 4, **given), lambda **given: UCF101(root, ucf, 4, **given)):
        again = make(_precomputed_metadata=first.metadata)
        assert stamps_of(again) == stamps_of(make())
    other = first.metadata | {name: values[:-1] for name, values in first.metadata.items()}
    with pytest.raises(UsageError, match=r"lists 5 videos and the folder has 6, .*w3\.AVI"):
        HMDB51(root, hmdb, 4, _precomputed_metadata=other)


def test_data_sets_are_pickled(kinetics: Path, root: Path, hmdb: Path, ucf: Path) -> None:
    for data in (Kinetics(kinetics, 4, split="val"), HMDB51(root, hmdb, 4), UCF101(root, ucf, 4)):
        assert stamps_of(pickle.loads(pickle.dumps(data))) == stamps_of(data)


def test_a_batch_has_the_items_one_by_one(kinetics: Path) -> None:
    data = Kinetics(kinetics, 4, split="val", output_format="THWC", transform=lambda clip: clip[:2])
    order = list(UniformClipSampler(data.video_clips, 3))[::-1]
    together, alone = data.__getitems__(order), [data[idx] for idx in order]
    assert [label for _, _, label in together] == [label for _, _, label in alone]
    for (video, audio, _), (one, silence, _) in zip(together, alone, strict=True):
        assert torch.equal(video, one)
        assert torch.equal(audio, silence)


class Mirrored(Kinetics):
    def __getitem__(self, idx: int) -> Any:
        video, _, label = super().__getitem__(idx)
        return video.flip(-1), label


def test_a_class_of_the_user_gives_its_own_items(kinetics: Path) -> None:
    data = Mirrored(kinetics, 4, split="val")
    video, label = next(iter(DataLoader(data, batch_size=2)))
    assert torch.equal(video[1], data[1][0])
    assert (video.shape, label.tolist()) == ((2, 4, 3, 96, 128), [0, 0])


@pytest.mark.parametrize(
    ("given", "error", "advice"),
    [
        ({"download": True}, UsageError, r"download: .*val/<class>/"),
        ({"_audio_samples": 1}, UsageError, "does not decode sound"),
        ({"_video_width": 10}, UsageError, "_video_width"),
        ({"split": "validation"}, UsageError, "split: expected 'train', 'val' or 'test'"),
        ({"num_classes": "500"}, UsageError, "num_classes: expected '400', '600' or '700'"),
        ({"split": "test"}, MissingMedia, "test: cannot be listed"),
        ({"extensions": ("mkv",)}, MissingMedia, r"no video \(mkv\) in 3 of 3 folders: brush hair, run, walk"),
        ({"transform": 3}, UsageError, "transform: expected"),
        ({"output_format": "NCHW"}, UsageError, "output_format"),
    ],
)
def test_a_wrong_argument_of_kinetics_is_named(
    kinetics: Path, given: dict[str, Any], error: type[Exception], advice: str
) -> None:
    with pytest.raises(error, match=advice) as raised:
        Kinetics(kinetics, 4, **({"split": "val"} | given))
    assert type(pickle.loads(pickle.dumps(raised.value))) is type(raised.value)


def test_what_is_missing_is_named(root: Path, hmdb: Path, ucf: Path, tmp_path: Path) -> None:
    for make in (HMDB51, UCF101):
        with pytest.raises(UsageError, match="fold: expected 1, 2 or 3"):
            make(root, hmdb, 4, fold=4)
        with pytest.raises(MissingMedia, match="split"):
            make(root, tmp_path, 4)
        with pytest.raises(MissingMedia, match="no folder in it"):
            make(tmp_path, hmdb, 4)
    with pytest.raises(UsageError, match="name none of the 6 videos"):
        UCF101(root, ucf, 4, fold=3)
    with pytest.raises(FileNotFoundError):
        UCF101(root, ucf, 4, fold=2)


@pytest.mark.parametrize("kind", [DataLoader, ThreadLoader], ids=["torch", "ours"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_loaders_give_the_same(kinetics: Path, num_workers: int, kind: Any) -> None:
    data = Kinetics(kinetics, 4, split="val", output_format="THWC")
    sampler = UniformClipSampler(data.video_clips, 2)
    read = [
        (read_stamp(video[0].numpy()), int(label))
        for videos, audio, labels in kind(data, 4, sampler=sampler, num_workers=num_workers)
        for video, label in zip(videos, labels, strict=True)
        if audio.shape[1:] == (1, 0)
    ]
    expected = stamps_of(data)
    assert read == [expected[idx] for idx in sampler]


def test_a_data_set_is_kept_by_torch_save(kinetics: Path, tmp_path: Path) -> None:
    data = Kinetics(kinetics, 4, split="val", output_format="THWC")
    torch.save((data, str(kinetics)), tmp_path / "cache.pt")
    kept, folder = torch.load(tmp_path / "cache.pt", weights_only=False)
    assert (folder, stamps_of(kept)) == (str(kinetics), stamps_of(data))
    kept.video_clips.compute_clips(2, 1, frame_rate=12.5)
    assert len(kept) == 12
