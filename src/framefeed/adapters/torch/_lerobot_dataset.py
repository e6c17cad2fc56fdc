"""LeRobotDataset: items of a LeRobot data set under lerobot's name, with its arguments and keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import torch
from torch.utils.data import Dataset, get_worker_info

from framefeed._arrays import AnyArray
from framefeed._checks import WrongType, check_position, check_transform
from framefeed._nearest import did_you_mean
from framefeed.adapters.torch._clip_dataset import IDLE_BATCHES, ItemCounter
from framefeed.adapters.torch._drawing import drawing_from
from framefeed.adapters.torch._lending import can_lend_items, lend_batches, write_batch
from framefeed.decode import Decoder, as_decoder
from framefeed.errors import UsageError
from framefeed.lerobot import LeRobotData, LeRobotDatasetMetadata
from framefeed.load import BufferPools, ClipBatch, Normaliser, check_cache, load_batch, wrap_in_cache
from framefeed.plan import EpochPlan

if TYPE_CHECKING:
    from framefeed.cache import FrameCache

Deltas = dict[str, list[float]]

_OTHERS = {
    "batch_encoding_size": 1,
    "vcodec": "libsvtav1",
    "streaming_encoding": False,
    "encoder_queue_maxsize": 30,
    "encoder_threads": None,
}
"""Arguments of lerobot's class that are for writing, with their defaults."""
_VIDEO_BACKENDS = (None, "torchcodec", "pyav", "video_reader")
_UNIT = Normaliser("float32", (0.0,), (1.0,))
_TASK, _SUBTASK = "task_index", "subtask_index"


class LeRobotDataset(Dataset[dict[str, Any]]):
    """Map-style dataset of the rows of a LeRobot data set, whose items have the keys, shapes and types of lerobot's.

    A camera is float32 [C, H, W] in [0, 1], or [T, C, H, W] for several times; other keys with deltas are [T, ...],
    with ``KEY_is_pad`` bool [T]. ``task`` is a text, as are ``subtask``, where the data set has subtasks, and values of
    dtype string. The rows of one batch of the DataLoader (``__getitems__``) are read together, and the frames of one
    video decoded together. Nothing is downloaded or written. In worker processes pictures share memory with the batch
    that ``default_collate`` makes of them: a collate function copies what it keeps of its items.

    Args:
        repo_id: Name of the data set. Without ``root``, its folder is looked up in HF_LEROBOT_HOME (by default
            ~/.cache/huggingface/lerobot).
        root: Folder or URL of the data set.
        episodes: Numbers of episodes; None for all. Their rows come in the order of the tables.
        image_transforms: Called with the pictures of each camera. Torch's random generators are seeded from (seed,
            epoch, position) for the calls of an item and restored after them.
        delta_timestamps: Seconds beside each row, by name of a camera or a column: multiples of 1/fps.
        tolerance_s: Largest distance of a frame from its time, and of a delta from a multiple of 1/fps.
        revision: Ignored: it is about downloads, as is ``download_videos``.
        force_cache_sync: Refused if True.
        download_videos: Ignored.
        video_backend: Ignored if lerobot knows it: frames are the same with each. ``backend=`` chooses a decoder.
        return_uint8: Whether pictures are uint8 in place of float32.
        backend: Name of a decoder, or a Decoder.
        cache: A `FrameCache` for decoded frames.
        seed: Of the transforms.
        **others: What else lerobot's class takes for writing, at its default.

    Raises:
        MissingMedia: There is no such data set here; the message has the command that downloads it.
        UsageError: An argument is wrong, or asks for writing or downloading.
        MediaError: A file is missing or damaged.
    """

    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        repo_id: str,
        root: str | os.PathLike[str] | None = None,
        episodes: list[int] | None = None,
        image_transforms: Callable[[torch.Tensor], Any] | None = None,
        delta_timestamps: Deltas | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        download_videos: bool = True,
        video_backend: str | None = None,
        *,
        return_uint8: bool = False,
        backend: str | Decoder = "auto",
        cache: FrameCache | None = None,
        seed: int = 0,
        **others: Any,
    ) -> None:
        _check_others(others, video_backend)
        check_transform(image_transforms, "picture", advice="image_transforms gets the tensors of a camera")
        as_decoder(backend)
        check_cache(cache)
        self.meta = LeRobotDatasetMetadata(repo_id, root, revision, force_cache_sync)
        self.repo_id = repo_id
        self.root = self.meta.root
        self.episodes = episodes
        self.delta_timestamps = delta_timestamps
        self.image_transforms = image_transforms
        self.tolerance_s = tolerance_s
        self._return_uint8 = bool(return_uint8)
        self._backend, self._cache = backend, cache
        self._data = data = LeRobotData(self.meta.source)
        deltas = {} if delta_timestamps is None else delta_timestamps
        names = [name for name in self.features if name not in deltas and name not in self.meta.camera_keys]
        self._reader = data.rows(deltas, episodes=episodes, columns=names, tolerance_seconds=tolerance_s)
        self._has_subtasks = _SUBTASK in self.features and self.meta.subtasks is not None
        codes = [_TASK, _SUBTASK] if self._has_subtasks else [_TASK]
        is_beside = any(name in deltas for name in codes)
        self._tasks_reader = data.rows(episodes=episodes, columns=codes) if is_beside else self._reader
        # At the row itself without deltas.
        self._plans = {
            camera: data.plan_cameras(
                {camera: deltas.get(camera, [0.0])},
                episodes=episodes,
                tolerance_seconds=tolerance_s,
                seed=seed,
                shuffle=False,
            )[camera]
            for camera in self.meta.camera_keys
        }
        videos, pads = self.meta.video_keys, [f"{name}_is_pad" for name in deltas]
        self._keys = [*videos, *(name for name in self.features if name not in videos), *pads]
        # In shared memory: persistent workers read what the parent writes.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._item_counter = ItemCounter("LeRobotDataset")
        self._buffers, self._decoders = dict[tuple[str, Any], BufferPools](), dict[str, Decoder]()

    def __repr__(self) -> str:
        return (
            f"LeRobotDataset({self.repo_id!r}, {self.num_episodes} episodes, {self.num_frames} frames, "
            f"features {list(self.features)})"
        )

    def __getattr__(self, name: str) -> NoReturn:
        """Raise the error for a name that this class does not have.

        Raises:
            AttributeError: Always.
        """
        advice = did_you_mean(name, dir(type(self)))
        if hasattr(LeRobotDatasetMetadata, name):
            advice = f": it is dataset.meta.{name}"
        elif name == "episode_data_index":
            advice = ': it is dataset.meta.episodes["dataset_from_index"] and ["dataset_to_index"]'
        raise AttributeError(f"LeRobotDataset has no attribute {name!r}{advice}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_buffers": {}, "_decoders": {}}

    @property
    def fps(self) -> int | float:
        """Rows of the tables in a second."""
        return self._data.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """What info.json says of each column and camera."""
        return self._data.features

    @property
    def num_frames(self) -> int:
        """Number of rows of the chosen episodes."""
        return len(self._reader)

    @property
    def num_episodes(self) -> int:
        """Number of chosen episodes."""
        return self._data.num_episodes if self.episodes is None else len(self.episodes)

    @property
    def hf_dataset(self) -> ColumnTable:
        """The columns of the tables, of the chosen episodes, in place of lerobot's ``datasets.Dataset``."""
        return ColumnTable(self._data, self.episodes)

    @property
    def epoch(self) -> int:
        """Number of the epoch that random transforms are drawn for."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch in this process and in its workers: random transforms draw other numbers in each."""
        for plan in self._plans.values():
            plan.with_epoch(epoch)  # checks the number
        self._epoch[0] = epoch
        self._item_counter.stop()

    def __len__(self) -> int:
        return self.num_frames

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # Python's default ends at an IndexError, and a FrameNotFound is one.
        return (self[position] for position in range(len(self)))

    def __getitem__(self, idx: SupportsIndex) -> dict[str, Any]:
        """Read one item; negative numbers count from the end.

        Raises:
            IndexError: There is no such item.
            FramefeedError: What is wrong with it.
        """
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """Read several items, in the order asked for: their rows together, and the frames of each video together.

        Raises:
            IndexError: There is no such item.
            FramefeedError: What is wrong with the first of the items that failed.
        """
        numbers = [check_position("idx", idx, len(self), "dataset") for idx in indices]
        if not numbers:
            return []
        if get_worker_info() is not None:
            lend_batches()
        rows = self._reader.find_rows(numbers)
        read = self._reader.read(rows)
        values = {
            name: each.tolist() if each.dtype.hasobject else _as_tensor(each).unbind() for name, each in read.items()
        }
        values |= {camera: self._load_pictures(camera, numbers).unbind() for camera in self._plans}
        texts = self._find_tasks(read if self._tasks_reader is self._reader else self._tasks_reader.read(rows))
        columns = [*(values[key] for key in self._keys), *texts.values()]
        items = [dict(zip([*self._keys, *texts], each, strict=True)) for each in zip(*columns, strict=True)]
        if self.image_transforms is not None:
            self._item_counter.add(len(numbers), len(self))
            for item, number in zip(items, numbers, strict=True):
                self._transform(item, number)
        return items

    def _find_tasks(self, codes: dict[str, AnyArray]) -> dict[str, list[str]]:
        """Find the texts of the tasks of some rows, and of their subtasks if the data set has some."""
        tables = {"task": self.meta.tasks, **({"subtask": self.meta.subtasks} if self._has_subtasks else {})}
        return {
            name: [table.index[code] for code in codes[f"{name}_index"].ravel().tolist()]
            for name, table in tables.items()
            if table is not None
        }

    def _load_pictures(self, camera: str, numbers: list[int]) -> torch.Tensor:
        """Load the pictures of a camera: [B, T, C, H, W]; without T for one time, as lerobot has them."""
        # What is only collated is made float32 in the memory of the batch. Another class might keep its items.
        is_final = not self._return_uint8 and self.image_transforms is None and type(self) is LeRobotDataset
        is_lent = is_final and can_lend_items(self)
        normaliser = None if self._return_uint8 or is_lent else _UNIT
        loaded = self._load_camera(camera, numbers, normaliser)
        pictures = write_batch(loaded, _UNIT) if is_lent else torch.from_numpy(loaded)
        # Pictures in the tables are a column: with deltas lerobot keeps their axis.
        keeps_axis = camera in self.meta.image_keys and camera in (self.delta_timestamps or {})
        return pictures if keeps_axis or pictures.shape[1] > 1 else pictures[:, 0]

    def _load_camera(self, camera: str, numbers: list[int], normaliser: Normaliser | None) -> AnyArray:
        plan = self._plans[camera]
        dtype = None if normaliser is None else normaliser.array_dtype
        buffers = self._buffers.setdefault((camera, dtype), BufferPools(IDLE_BATCHES, dtype=dtype))
        batch = load_batch(plan, numbers, self._find_decoder(camera, plan), buffers, normaliser)
        if not batch.ok.all():
            _raise_first(batch)
        pixels: AnyArray = batch.data
        return pixels

    def _find_decoder(self, camera: str, plan: EpochPlan) -> Decoder:
        if self._cache is None:
            return as_decoder(self._backend)
        if camera not in self._decoders:
            self._decoders[camera] = wrap_in_cache(plan, self._cache, as_decoder(self._backend))
        return self._decoders[camera]

    def _transform(self, item: dict[str, Any], number: int) -> None:
        """Transform the pictures of an item: all cameras draw from one seed, one after the other."""
        assert self.image_transforms is not None
        plan = next(iter(self._plans.values()), None)
        if plan is None:
            return
        generator = plan.order.with_epoch(self.epoch).generator_at(number)
        with drawing_from(int(generator.integers(1 << 63))):
            for camera in self.meta.camera_keys:
                item[camera] = self.image_transforms(item[camera])

    create = LeRobotDatasetMetadata.create
    add_frame = save_episode = create_episode_buffer = clear_episode_buffer = finalize = create
    start_image_writer = stop_image_writer = push_to_hub = pull_from_repo = download = create


class ColumnTable:
    """Columns of the tables as tensors [rows, ...], or lists of texts: ``dataset.hf_dataset["action"]``.

    Args:
        data: The data set.
        episodes: Numbers of episodes; None for all.
    """

    def __init__(self, data: LeRobotData, episodes: list[int] | None) -> None:
        self._data = data
        self._episodes = episodes

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are numbers or texts."""
        return [name for name in self._data.features if name not in self._data.meta.camera_keys]

    def __len__(self) -> int:
        return len(self._data.rows(episodes=self._episodes))

    def __getitem__(self, name: str) -> torch.Tensor | list[str]:
        """Read a column, of the types that items have.

        Raises:
            UsageError: There is no such column; or it is a number of a row, which ``dataset[i]`` reads.
        """
        if not isinstance(name, str):
            raise WrongType("hf_dataset: expected the name of a column: rows are read with dataset[i]")
        reader = self._data.rows(episodes=self._episodes, columns=[name])
        values = reader.read(reader.find_rows(range(len(reader))))[name]
        return values.tolist() if values.dtype.hasobject else _as_tensor(values)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise the error for a name that lerobot's table has.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            f"hf_dataset has no {name!r}: it has column_names, len() and columns, as hf_dataset['action']; rows are "
            "read with dataset[i], and many at once with ff.lerobot.open(root).rows(columns=['action'])"
        )

    def __repr__(self) -> str:
        return f"ColumnTable({len(self)} rows, columns {self.column_names})"


def _as_tensor(values: Any) -> torch.Tensor:
    """Convert a column to the type that torch gives numbers of Python, as lerobot's items have it."""
    tensor = torch.from_numpy(values)
    if tensor.dtype == torch.bool:
        return tensor
    return tensor.to(torch.get_default_dtype() if tensor.is_floating_point() else torch.int64)


def _raise_first(batch: ClipBatch) -> NoReturn:
    # Its traceback must not refer to the batch.
    error = next(error for error in batch.errors if error is not None)
    del batch
    try:
        raise error
    finally:
        del error


def _check_others(others: dict[str, Any], video_backend: str | None) -> None:
    for name, value in others.items():
        if name not in _OTHERS:
            raise WrongType(f"LeRobotDataset has no argument {name!r}{did_you_mean(name, _OTHERS)}")
        if value != _OTHERS[name]:
            raise UsageError(f"{name}={value!r} is for writing data sets, and this class only reads: leave it out")
    if video_backend not in _VIDEO_BACKENDS:
        raise UsageError(
            f"video_backend: expected one of lerobot's {_VIDEO_BACKENDS[1:]}, which make no difference here, got "
            f"{video_backend!r}: backend= chooses a decoder"
        )
