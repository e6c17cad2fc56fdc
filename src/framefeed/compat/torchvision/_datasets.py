"""Kinetics, HMDB51 and UCF101: the clips of a folder of videos, with the classes of their folders."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from framefeed._checks import check_choice, check_path, check_transform
from framefeed.compat.torchvision._video_clips import Clip, VideoClips
from framefeed.errors import MissingMedia, UsageError

Item = tuple[Any, torch.Tensor, int]
"""Clip, sound and number of the class."""
_SPLITS = ("train", "val", "test")
_FOLDS = (1, 2, 3)
_MOST_NAMED = 3
"""Names in a message."""


class FolderOfClips(Dataset[Item]):
    """The clips of the videos in one folder for each class.

    Attributes:
        root: Folder of the data set.
        classes: Names of the folders, sorted; the number of a class is its place here.
        samples: Path and class of each video.
        video_clips: The clips.
        transform: Called with the frames of a clip.
    """

    root: str
    classes: list[str]
    samples: list[tuple[str, int]]
    video_clips: VideoClips
    transform: Callable[[Any], Any] | None

    @property
    def metadata(self) -> dict[str, Any]:
        """What ``_precomputed_metadata`` takes: paths, times of frames and rates of all videos."""
        return self.video_clips.metadata

    def __len__(self) -> int:
        return self.video_clips.num_clips()

    def __iter__(self) -> Iterator[Item]:
        # Python's default ends at an IndexError, and errors of media may be one.
        return (self[number] for number in range(len(self)))

    def __getitem__(self, idx: int) -> Item:
        return self._make_item(self.video_clips.get_clip(idx))

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Load the clips of a batch, those of one video together; PyTorch's DataLoader calls this."""
        if type(self).__getitem__ is not FolderOfClips.__getitem__:  # of a user's class, which changes items
            return [self[idx] for idx in indices]
        return [self._make_item(clip) for clip in self.video_clips.get_clips(indices)]

    def _make_item(self, clip: Clip) -> Item:
        video, audio, _, number = clip
        return video if self.transform is None else self.transform(video), audio, self._find_class(number)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r}, {len(self.classes)} classes, {self.video_clips!r})"

    def _find_class(self, video: int) -> int:
        return self.samples[video][1]


class Kinetics(FolderOfClips):
    """Clips of Kinetics-400, -600 or -700 in folders ``root/split/class``, with the arguments of torchvision's class.

    An item is (video, audio, label): uint8 [T, C, H, W], empty sound, and the number of the class.

    Args:
        root: Folder of the data set.
        frames_per_clip: Frames of a clip.
        num_classes: "400", "600" or "700".
        split: "train", "val" or "test": the folder in ``root``.
        frame_rate: Frames per second that the videos are resampled to; None takes every frame.
        step_between_clips: Frames from the start of a clip to the start of the next.
        transform: Called with the frames of a clip.
        extensions: Endings of the names of videos.
        download: Only False: nothing is downloaded.
        num_download_workers: Is not used.
        num_workers: Number of threads that index the videos.
        _precomputed_metadata: ``metadata`` of an earlier run, in place of indexing the videos.
        _video_width: Only 0, as the next three.
        _video_height: Only 0.
        _video_min_dimension: Only 0.
        _audio_samples: Only 0: sound is not decoded.
        _audio_channels: Is not used.
        _legacy: The classes are folders in ``root`` itself, and clips have the order "THWC".
        output_format: "TCHW" or "THWC".

    Raises:
        UsageError: An argument is wrong, or asks for a download, sound or a size.
        MissingMedia: A folder is missing, or a class has no video.
    """

    def __init__(  # noqa: PLR0913 - public: as torchvision has it
        self,
        root: str | Path,
        frames_per_clip: int,
        num_classes: str = "400",
        split: str = "train",
        frame_rate: float | None = None,
        step_between_clips: int = 1,
        transform: Callable[[Any], Any] | None = None,
        extensions: tuple[str, ...] = ("avi", "mp4"),
        download: bool = False,
        num_download_workers: int = 1,
        num_workers: int = 1,
        _precomputed_metadata: Mapping[str, Any] | None = None,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        _legacy: bool = False,
        output_format: str = "TCHW",
    ) -> None:
        check_choice("num_classes", num_classes, ("400", "600", "700"))
        if not _legacy:
            check_choice("split", split, _SPLITS)
        _check_transform(transform)
        self.root = check_path("root", root, "kinetics/")
        self.split = "unknown" if _legacy else split
        self.split_folder = self.root if _legacy else os.path.join(self.root, split)
        if download:
            raise UsageError(
                "download: expected False: framefeed downloads no data set: fetch Kinetics as its maintainers say "
                "(https://github.com/cvdfoundation/kinetics-dataset), and put the videos of each class into "
                f"{self.split_folder}/<class>/"
            )
        self.num_classes, self.extensions, self.transform = num_classes, tuple(extensions), transform
        self.num_download_workers = num_download_workers
        self.classes, self.samples = list_samples(self.split_folder, self.extensions)
        self.video_clips = VideoClips(
            [path for path, _ in self.samples],
            frames_per_clip,
            step_between_clips,
            frame_rate,
            _check_metadata(_precomputed_metadata, self.samples),
            num_workers,
            _video_width=_video_width,
            _video_height=_video_height,
            _video_min_dimension=_video_min_dimension,
            _audio_samples=_audio_samples,
            _audio_channels=_audio_channels,
            output_format="THWC" if _legacy else output_format,
        )


class FoldOfClips(FolderOfClips):
    """The clips of one fold of a data set: of the videos that a list of it names.

    Attributes:
        fold: Number of the fold.
        train: Whether these are the clips to train with.
        full_video_clips: The clips of all videos.
        indices: Numbers in ``samples`` of the videos of the fold.
    """

    _EXAMPLE = "videos/"

    def __init__(  # noqa: PLR0913 - public: as torchvision has it
        self,
        root: str | Path,
        annotation_path: str | Path,
        frames_per_clip: int,
        step_between_clips: int = 1,
        frame_rate: float | None = None,
        fold: int = 1,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        _precomputed_metadata: Mapping[str, Any] | None = None,
        num_workers: int = 1,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        output_format: str = "THWC",
    ) -> None:
        check_choice("fold", fold, _FOLDS)
        _check_transform(transform)
        self.root = check_path("root", root, self._EXAMPLE)
        self.fold, self.train, self.transform = fold, train, transform
        self.classes, self.samples = list_samples(self.root, ("avi",))
        lists = check_path("annotation_path", annotation_path, "splits/")
        self.indices = self._select_videos(lists)
        if not self.indices:
            raise UsageError(
                f"annotation_path: the lists of fold {fold} in {lists} name none of the {len(self.samples)} videos in "
                f"{self.root}: give the folders of one data set"
            )
        self.full_video_clips = VideoClips(
            [path for path, _ in self.samples],
            frames_per_clip,
            step_between_clips,
            frame_rate,
            _check_metadata(_precomputed_metadata, self.samples),
            num_workers,
            _video_width=_video_width,
            _video_height=_video_height,
            _video_min_dimension=_video_min_dimension,
            _audio_samples=_audio_samples,
            output_format=output_format,
        )
        self.video_clips = self.full_video_clips.subset(self.indices)

    @property
    def metadata(self) -> dict[str, Any]:
        """What ``_precomputed_metadata`` takes: paths, times of frames and rates of the videos of all folds."""
        return self.full_video_clips.metadata

    def _select_videos(self, lists: str) -> list[int]:
        """Find the numbers in ``samples`` of the videos that the lists of the fold name."""
        raise NotImplementedError

    def _find_class(self, video: int) -> int:
        return self.samples[self.indices[video]][1]


class HMDB51(FoldOfClips):
    """Clips of one fold of HMDB51 in folders ``root/class``, with the arguments of torchvision's class.

    An item is (video, audio, label): uint8 [T, H, W, C], empty sound, and the number of the class.

    Args:
        root: Folder of the data set.
        annotation_path: Folder of the files ``*test_split<fold>.txt``.
        frames_per_clip: Frames of a clip.
        step_between_clips: Frames from the start of a clip to the start of the next.
        frame_rate: Frames per second that the videos are resampled to; None takes every frame.
        fold: 1, 2 or 3.
        train: True for the videos to train with, False for those to test with.
        transform: Called with the frames of a clip.
        _precomputed_metadata: ``metadata`` of an earlier run, in place of indexing the videos.
        num_workers: Number of threads that index the videos.
        _video_width: Only 0, as the next three.
        _video_height: Only 0.
        _video_min_dimension: Only 0.
        _audio_samples: Only 0: sound is not decoded.
        output_format: "THWC" or "TCHW".

    Raises:
        UsageError: An argument is wrong, or the lists name no video of the folder.
        MissingMedia: A folder or a list is missing, or a class has no video.
    """

    TRAIN_TAG = 1
    TEST_TAG = 2
    _EXAMPLE = "hmdb51/"

    def _select_videos(self, lists: str) -> list[int]:
        pattern = f"*test_split{self.fold}.txt"
        files = sorted(glob.glob(os.path.join(glob.escape(lists), pattern)))
        if not files:
            raise MissingMedia(
                f"{lists}: no file {pattern} in it: give the folder of HMDB51's split files", source=lists
            )
        tag = str(self.TRAIN_TAG if self.train else self.TEST_TAG)
        chosen = set[str]()
        for path in files:
            for line in _read_lines(path):
                name, *number = line.rsplit(None, 1)
                if number == [tag]:
                    chosen.add(name)
        return [video for video, (path, _) in enumerate(self.samples) if os.path.basename(path) in chosen]


class UCF101(FoldOfClips):
    """Clips of one fold of UCF101 in folders ``root/class``, with the arguments of torchvision's class.

    An item is (video, audio, label): uint8 [T, H, W, C], empty sound, and the number of the class.

    Args:
        root: Folder of the data set.
        annotation_path: Folder of the files ``trainlist01.txt``, ``testlist01.txt``, ...
        frames_per_clip: Frames of a clip.
        step_between_clips: Frames from the start of a clip to the start of the next.
        frame_rate: Frames per second that the videos are resampled to; None takes every frame.
        fold: 1, 2 or 3.
        train: True for the videos to train with, False for those to test with.
        transform: Called with the frames of a clip.
        _precomputed_metadata: ``metadata`` of an earlier run, in place of indexing the videos.
        num_workers: Number of threads that index the videos.
        _video_width: Only 0, as the next three.
        _video_height: Only 0.
        _video_min_dimension: Only 0.
        _audio_samples: Only 0: sound is not decoded.
        output_format: "THWC" or "TCHW".

    Raises:
        UsageError: An argument is wrong, or the list names no video of the folder.
        MissingMedia: A folder or the list is missing, or a class has no video.
    """

    _EXAMPLE = "ucf101/"

    def _select_videos(self, lists: str) -> list[int]:
        path = os.path.join(lists, f"{'train' if self.train else 'test'}list{self.fold:02d}.txt")
        if not os.path.isfile(path):
            raise MissingMedia(f"{path}: no such file: give the folder of UCF101's split files", source=path)
        # Names are class/file; those of the training list are followed by the number of the class.
        chosen = {os.path.join(self.root, *line.split(" ")[0].split("/")) for line in _read_lines(path)}
        return [video for video, (sample, _) in enumerate(self.samples) if sample in chosen]


def list_samples(folder: str, extensions: tuple[str, ...]) -> tuple[list[str], list[tuple[str, int]]]:
    """List the videos of the classes of a folder, sorted by class, folder and name.

    Returns:
        The classes, and (path, number of its class) of each video.
    """
    try:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError as error:
        raise MissingMedia(f"{folder}: cannot be listed ({error.strerror}): check the path", source=folder) from error
    if not classes:
        raise MissingMedia(
            f"{folder}: no folder in it: the videos of each class have a folder of their own", source=folder
        )
    endings = tuple(ending.lower() for ending in extensions)
    samples, empty = list[tuple[str, int]](), list[str]()
    for number, name in enumerate(classes):
        walked = sorted(os.walk(os.path.join(folder, name), followlinks=True))
        paths = [
            os.path.join(parent, file)
            for parent, _, files in walked
            for file in sorted(files)
            if file.lower().endswith(endings)
        ]
        samples += [(path, number) for path in paths]
        if not paths:
            empty.append(name)
    if empty:
        shown = ", ".join(empty[:_MOST_NAMED]) + (", ..." if len(empty) > _MOST_NAMED else "")
        raise MissingMedia(
            f"{folder}: no video ({', '.join(endings)}) in {len(empty)} of {len(classes)} folders: {shown}: remove "
            "these folders, or add their videos",
            source=folder,
        )
    return classes, samples


def _read_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


def _check_transform(transform: object) -> None:
    check_transform(transform, "clip", advice="it gets the frames, a uint8 tensor")


def _check_metadata(metadata: Mapping[str, Any] | None, samples: list[tuple[str, int]]) -> Mapping[str, Any] | None:
    """Check that metadata are of the videos of the folder, in their order: classes are found by number."""
    if metadata is None:
        return None
    known = [os.fspath(path) for path in metadata.get("video_paths", ())]
    listed = [path for path, _ in samples]
    if known != listed:
        pairs = zip([*known, None], [*listed, None], strict=False)
        old, new = next(pair for pair in pairs if pair[0] != pair[1])
        raise UsageError(
            f"_precomputed_metadata: lists {len(known)} videos and the folder has {len(listed)}, the first difference "
            f"is {old} and {new}: make the metadata again (leave the argument out, then take dataset.metadata)"
        )
    return metadata
