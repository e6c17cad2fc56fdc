"""Give the clips of a plan as a map-style dataset for PyTorch's own DataLoader."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, SupportsIndex, get_args

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from framefeed._checks import check_choice, check_position, check_transform, expected
from framefeed._per_process import PerProcess
from framefeed._values import Limits
from framefeed.adapters import IGNORED_TARGET, Null, check_nulls, check_target, find_codes
from framefeed.adapters.torch._drawing import drawing_from
from framefeed.adapters.torch._items import (
    TRANSFORM_INPUTS,
    Output,
    as_output,
    fill_null,
    show_source,
    take_tensor,
    zeros_like,
)
from framefeed.adapters.torch._lending import lend_batches
from framefeed.catalog import TextColumn
from framefeed.decode import Decoder, as_decoder
from framefeed.errors import FramefeedError, UsageError
from framefeed.load import (
    MAX_SUBSTITUTES,
    BufferPools,
    ClipBatch,
    Ledger,
    LedgerEntry,
    Normaliser,
    OnError,
    check_cache,
    check_on_error,
    explain_useless_cache,
    find_failed_source,
    is_always_raised,
    list_streams,
    load_batch,
    make_max_failed_error,
    map_streams,
    suggest_skipping,
    with_position,
    wrap_in_cache,
)
from framefeed.media import source_name
from framefeed.parallel import Err, Ok, catch_outcome
from framefeed.plan import EpochPlan

if TYPE_CHECKING:
    from framefeed.cache import FrameCache

_MOST_EPOCHS = 1.5
"""Samplers that draw with replacement or pad stay below; a second epoch does not."""
_STOPPED = -(2**62)


class ItemCounter:
    """Counts the items that all processes deliver while the epoch was never set, and warns if it should be."""

    def __init__(self, class_name: str) -> None:
        self._class_name = class_name
        # In shared memory, without a lock: of two processes that add at the same moment one may be lost, which delays
        # the warning by a batch.
        self._count = torch.zeros(1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Count no more: the epoch was set once, by a program that knows of it."""
        self._count.fill_(_STOPPED)

    def add(self, items: int, epoch_items: int) -> None:
        """Count items that are delivered now, and warn once if all are more than one and a half epochs."""
        if self._count < 0:
            return
        delivered = int(self._count.add_(items))
        worker = get_worker_info()
        # Two reads of the only clip are no second epoch. Of several workers one warns.
        if delivered <= max(2, _MOST_EPOCHS * epoch_items) or (worker is not None and worker.id):
            return
        self.stop()
        warnings.warn(
            f"this {self._class_name} delivered {delivered} items of an epoch of {epoch_items} without set_epoch: the "
            "random clips are the same in every epoch; call dataset.set_epoch(epoch) before each epoch, or, if you "
            "want the same clips each time (as for validation), dataset.set_epoch(0)",
            UserWarning,
            stacklevel=4,
        )


IDLE_BATCHES = 2
"""Idle batches of memory that each process keeps: the one that is being collated, and one more."""
_MOST_REMEMBERED = 1_000_000
"""Positions that a worker remembers to have delivered, so that it notices the next epoch."""
ITEM_KEYS = ("data", "pts_seconds", "seconds", "end_seconds", "valid", "position", "row", "source", "ok")


class ClipDataset(Dataset[Any]):
    """Map-style dataset of the clips of a plan, for any sampler. Workers of the DataLoader decode the clips.

    An item is ``(clip, target)``: the clip is uint8 [T, C, H, W] or the result of the transform, the target an int64
    scalar. Without ``target=`` it is a dict with data, pts_seconds and seconds (float64 [T]), end_seconds (float64), as
    `ClipBatch` has them, valid (bool [T]), position (global, int64), row (of the plan's catalog, int64), source, ok
    (bool), for a plan with a Letterbox box (int64 [4]), with a horizontal_flip flipped (bool), and one key for each
    column of the plan. ``torch.utils.data.default_collate`` takes both. Of a plan of several streams, the clip, times,
    valid, source and box are dicts by stream, and the transform gets and returns such a dict; row is that of the first
    stream.

    With ``on_error="skip"``, a clip that fails is zeros: its target is -100 (the ``ignore_index`` of torch's losses);
    in a dict, ``ok`` is False, times are NaN and valid False. With "substitute", it is another clip of the epoch,
    with the target, row and source of that clip. ``ledger`` lists the failed clips of all workers. Frames that a plan's
    ``on_damaged="skip"`` leaves out are no failures: a picture is then black and keeps its target, so leave such rows
    out by ``catalog.filter(num_damaged_frames=0)``.

    Clips of one source in one batch of the DataLoader (``__getitems__``) are decoded together. An item depends on seed,
    epoch and position alone, so a sampler that draws a position again gets the same frames and the same augmentation:
    for others, plan with ``clips_per_video``, and draw among the clips of a video (docs/five-wishes.md has a sampler).

    Args:
        plan: From ``plan_clips`` or ``plan_requests``. Use ``shuffle=False`` there if the DataLoader shuffles.
        target: Name of a column of integers, or of text, which becomes codes; ``classes`` is of "label" alone.
        transform: Called with a clip. Torch's random generators are seeded from (seed, epoch, position) for the call
            and restored after it, so that random numbers do not depend on the number of workers.
        cache: A `FrameCache`: clips in it are read from it, other clips are decoded and stored by the workers. Other
            processes find the frames that a worker stored when it ends, after 64 MiB, or at the next epoch.
        backend: Name of a decoder, or a Decoder.
        limits: Limits on what a file may claim, such as the size of its pictures; None means ``Limits()``.
        on_error: "raise", "skip" or "substitute". A shortage of memory or file descriptors, a wrong call and
            a missing package are raised with any.
        max_failed: With "skip" or "substitute", number (int) or share (float) of an epoch's clips that may fail. If
            more fail, a LoadError is raised.
        output: Form of a clip before the transform: "tensor" [T, C, H, W], "numpy" [T, H, W, C], or "pil": one picture
            for a clip of one frame, else a list of pictures.
        dtype: "float32", "float16" or "bfloat16": clips become tensors (x / 255 - mean) / std of this dtype. A
            transform must then return uint8 [T, C, H, W].
        mean: A number, or one for each channel, of x / 255; with ``std``, and float32 if no ``dtype`` is given.
        std: The same. Without mean and std, clips become x / 255.
        null: What a text that is missing becomes in an item: "empty" for "", because ``default_collate`` takes no None,
            with one warning, or "error" for a UsageError now.

    Raises:
        UsageError: The plan has no such column or rows without a value in it, or the arguments do not fit.
    """

    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        plan: EpochPlan,
        target: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        cache: FrameCache | None = None,
        backend: str | Decoder = "auto",
        limits: Limits | None = None,
        on_error: OnError = "raise",
        max_failed: int | float | None = None,
        output: Output = "tensor",
        dtype: Any = None,
        mean: Any = None,
        std: Any = None,
        null: Null = "empty",
    ) -> None:
        _check_arguments(plan, target, transform)
        check_nulls(plan, null, target)
        check_on_error(on_error, max_failed)
        check_choice("output", output, get_args(Output))
        as_decoder(backend, limits)
        check_cache(cache)
        self._normaliser = Normaliser.of(dtype, mean, std, has_transform=transform is not None)
        if self._normaliser is not None and transform is None and output != "tensor":
            raise UsageError(f"output={output!r} is for a transform: dtype, mean and std give tensors: leave it out")
        if (remark := explain_useless_cache(plan, cache)) is not None:
            warnings.warn(remark, UserWarning, stacklevel=2)
        self._cache = cache
        self._plan = plan
        self._target = target
        self._codes = find_codes(plan, target)
        columns = plan.clips.columns.items()
        self._lists = frozenset(name for name, each in columns if isinstance(each, TextColumn) and each.has_lists)
        self._transform = transform
        self._backend = backend
        self._limits = limits
        self._on_error = on_error
        self._max_failed = max_failed
        self._output = output
        self._ledger = Ledger() if on_error == "raise" else Ledger.shared()
        self._item_counter = ItemCounter("ClipDataset")
        # In shared memory: persistent workers read what the parent writes. Without a name, so no file is left behind.
        self._epoch = torch.tensor([plan.epoch], dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._buffers = self._make_buffers()
        self._epoch_decoded = plan.epoch
        self._delivered: set[int] = set()
        self._cached_decoder: Decoder | None = None
        self._counting = PerProcess(threading.Lock)

    def __repr__(self) -> str:
        return f"ClipDataset({len(self)} clips, target={self._target!r}, epoch={self.epoch}, {self._plan!r})"

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_buffers", "_counting")
        return {
            **{name: value for name, value in self.__dict__.items() if name not in left_out},
            "_cached_decoder": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._buffers = self._make_buffers()
        self._counting = PerProcess(threading.Lock)

    def _make_buffers(self) -> BufferPools:
        normaliser = self._own_normaliser
        return BufferPools(IDLE_BATCHES, dtype=None if normaliser is None else normaliser.array_dtype)

    @property
    def _own_normaliser(self) -> Normaliser | None:
        """What clips are normalised with when they are loaded: with a transform nothing, which comes first."""
        return self._normaliser if self._transform is None else None

    @property
    def plan(self) -> EpochPlan:
        """The plan, at the epoch of the dataset."""
        plan, epoch = self._plan, self.epoch
        if plan.epoch != epoch:
            self._plan = plan = plan.with_epoch(epoch)
        return plan

    @property
    def ledger(self) -> Ledger:
        """The clips that any process skipped since the dataset was made; ``print(dataset.ledger)`` lists them."""
        return self._ledger

    @property
    def classes(self) -> list[Any]:
        """Labels in the order of their int64 codes; of a target of text, its texts."""
        return self._plan.classes if self._codes is None else list(self._codes)

    @property
    def class_to_idx(self) -> dict[Any, int]:
        """Code of each label."""
        return {label: code for code, label in enumerate(self.classes)}

    @property
    def epoch(self) -> int:
        """Number of the epoch whose clips are delivered."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch in this process and in its workers, also in workers that are running.

        Call it before ``iter(data_loader)``: clips that workers have fetched ahead are of the old epoch.
        """
        self._plan = self._plan.with_epoch(epoch)  # checks the number
        self._epoch[0] = self._plan.epoch
        self._item_counter.stop()

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:
        # Python's default ends at an IndexError, and a FrameNotFound is one.
        return (self[position] for position in range(len(self)))

    def __getitem__(self, position: SupportsIndex) -> Any:
        """Load one clip; negative positions count from the end.

        Raises:
            IndexError: There is no such position.
            FramefeedError: What is wrong with the clip, with its position.
        """
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[SupportsIndex]) -> list[Any]:
        """Load several clips, each source's together, in the order asked for.

        Raises:
            IndexError: There is no such position.
            FramefeedError: What is wrong with the first of the clips that failed, with its position.
        """
        plan = self.plan
        numbers = [check_position("position", position, len(plan), "dataset") for position in positions]
        if not numbers:
            return []
        if get_worker_info() is not None:
            lend_batches()
        with self._counting.value:
            if plan.clips.is_random:
                self._item_counter.add(len(numbers), len(plan))
            decoder = self._choose_decoder(plan, numbers)
        batch = load_batch(plan, numbers, decoder, self._buffers, self._own_normaliser)
        failed = next((error for error in batch.errors if error is not None and self._is_raised(error)), None)
        if failed is None:
            return [self._make_item(plan, batch, slot, position) for slot, position in enumerate(numbers)]
        # The traceback reaches this frame, which must not keep the batch, and in it the error, alive.
        del batch
        try:
            raise suggest_skipping(failed)
        finally:
            del failed

    def _is_raised(self, error: FramefeedError) -> bool:
        # What says nothing about the clip, too: to skip it would change the training data.
        return self._on_error == "raise" or is_always_raised(error)

    def _choose_decoder(self, plan: EpochPlan, numbers: Sequence[int]) -> Decoder:
        if self._cache is None:
            return as_decoder(self._backend, self._limits)
        if self._epoch_decoded != plan.epoch or not self._delivered.isdisjoint(numbers):
            # A new epoch, which a program may not announce: other workers may now need the frames that this one stored.
            self._cache.flush()
            self._epoch_decoded = plan.epoch
            self._delivered.clear()
            self._cached_decoder = None
        if len(self._delivered) < _MOST_REMEMBERED:
            self._delivered.update(numbers)
        if self._cached_decoder is None:
            self._cached_decoder = wrap_in_cache(plan, self._cache, as_decoder(self._backend, self._limits))
        return self._cached_decoder

    def _make_item(
        self, plan: EpochPlan, batch: ClipBatch, slot: int, number: int
    ) -> tuple[Any, torch.Tensor] | dict[str, Any]:
        position = int(batch.positions[slot])
        clip, is_ok, substitute = self._make_clip(plan, batch, slot, number)
        if substitute is not None:
            batch, slot = substitute, 0
        if self._target is not None:
            value = batch.columns[self._target][slot]
            code = value if self._codes is None else self._codes.get(value, -1)
            return clip, torch.tensor(code).to(torch.int64) if is_ok else torch.tensor(IGNORED_TARGET)
        columns: dict[str, Any] = {
            name: fill_null(values[slot], has_lists=name in self._lists)
            if isinstance(values, list)
            else torch.tensor(values[slot])
            for name, values in batch.columns.items()
        }
        if batch.boxes is not None:
            columns["box"] = take_tensor(batch.boxes, slot, None if is_ok else 0)
        if batch.flipped is not None:
            columns["flipped"] = torch.tensor(is_ok and bool(batch.flipped[slot]))
        return {
            "data": clip,
            "pts_seconds": take_tensor(batch.pts_seconds, slot, None if is_ok else torch.nan),
            "seconds": take_tensor(batch.seconds, slot, None if is_ok else torch.nan),
            "end_seconds": map_streams(
                lambda ends: torch.tensor(float(ends[slot]) if is_ok else torch.nan, dtype=torch.float64),
                batch.end_seconds,
            ),
            "valid": take_tensor(batch.valid, slot, None if is_ok else False),
            "position": torch.tensor(position),
            "row": torch.tensor(int(batch.rows[slot])),
            # Not the bytes of an encoded video, which a worker would send with each clip of it.
            "source": map_streams(lambda sources: show_source(sources[slot]), batch.sources),
            "ok": torch.tensor(is_ok),
            **columns,
        }

    def _make_clip(
        self, plan: EpochPlan, batch: ClipBatch, slot: int, number: int
    ) -> tuple[Any, bool, ClipBatch | None]:
        """Return the transformed clip and True, with the batch of a substitute if it is one; else zeros and False."""
        error = batch.errors[slot]
        if error is None:
            outcome = self._apply_transform(plan, map_streams(itemgetter(slot), batch.data), number)
            if isinstance(outcome, Ok):
                return outcome.value, True, None
            error = self._add_position(outcome, batch, slot)
            if self._is_raised(error):
                try:
                    raise error
                finally:
                    del error
        position = int(batch.positions[slot])
        clip, substitute = None, None
        if self._on_error == "substitute":
            clip, substitute = self._load_substitute(plan, batch, position)
        own = None if substitute is None else int(substitute.positions[0])
        self._ledger.record(LedgerEntry.of(error, find_failed_source(batch, slot, error), position, plan.epoch, own))
        too_many = make_max_failed_error(self._ledger, self._max_failed, plan.epoch, len(plan))
        if too_many is not None:
            try:
                raise too_many
            finally:
                del too_many, error
        if substitute is not None:
            return clip, True, substitute
        # The transform's result for a black clip has the form of the other items.
        black = map_streams(lambda clips: np.zeros_like(clips[slot]), batch.data)
        outcome = self._apply_transform(plan, black, number)
        if isinstance(outcome, Ok):
            return (outcome.value if self._transform is None else zeros_like(outcome.value)), False, None
        raise self._add_position(outcome, batch, slot)

    def _load_substitute(self, plan: EpochPlan, failed: ClipBatch, position: int) -> tuple[Any, ClipBatch | None]:
        """Load the first clip in place of another that can be loaded, transformed, and its batch; None if none can."""
        whole = plan.whole
        with self._counting.value:
            decoder = self._choose_decoder(plan, [])
        for number in range(MAX_SUBSTITUTES):
            own = plan.order.choose_substitute(position, number)
            batch = load_batch(whole, [own], decoder, self._buffers, self._own_normaliser)
            lengths = [map_streams(_find_common_length, each.valid) for each in (batch, failed)]
            if batch.errors[0] is None and lengths[0] == lengths[1]:
                outcome = self._apply_transform(whole, map_streams(itemgetter(0), batch.data), own)
                if isinstance(outcome, Ok):
                    return outcome.value, batch
                self._add_position(outcome, batch, 0)
            elif (error := batch.errors[0]) is not None and is_always_raised(error):
                raise error
        return None, None

    def _add_position(self, outcome: Err, batch: ClipBatch, slot: int) -> FramefeedError:
        """Add the clip's position to an error of the transform; KeyboardInterrupt and SystemExit are raised instead."""
        if not isinstance(outcome.error, Exception):
            raise outcome.error
        name, position = source_name(list_streams(batch.sources)[0][slot]), int(batch.positions[slot])
        each = "a dict by stream, each " if isinstance(batch.data, dict) else ""
        given = each + TRANSFORM_INPUTS[self._output]
        return with_position(outcome.error, position=position, source=name, stage="transform", given=given)

    def _apply_transform(self, plan: EpochPlan, loaded: Any, number: int) -> Ok[Any] | Err:
        """Make the clip of an item of what was loaded, with the transform if there is one; of streams, a dict."""
        normaliser = self._normaliser
        if self._transform is None and normaliser is not None:
            return Ok(map_streams(lambda each: _as_tensor(normaliser.deliver(each)), loaded))
        clip = map_streams(lambda each: as_output(each, self._output), loaded)
        if self._transform is None:
            return Ok(clip)
        with drawing_from(int(plan.order.generator_at(plan.global_position(number)).integers(1 << 63))):
            outcome = catch_outcome(self._transform, clip)
        if normaliser is None or isinstance(outcome, Err):
            return outcome
        normalise = partial(normalise_result, normaliser)
        return catch_outcome(partial(map_streams, normalise) if isinstance(loaded, dict) else normalise, outcome.value)


def _find_common_length(valid: Any) -> int | None:
    """Find T of all clips of a batch; None if they may differ in it."""
    return None if isinstance(valid, list) else int(valid.shape[1])


def normalise_result(normaliser: Normaliser, result: Any) -> torch.Tensor:
    """Normalise the result of a transform, a tensor or an array, uint8 [T, C, H, W]."""
    is_pixels = isinstance(result, torch.Tensor) and result.dtype == torch.uint8
    clip = result.numpy(force=True) if is_pixels else result
    normaliser.check(clip)
    values = np.empty(clip.shape, normaliser.array_dtype)
    normaliser.write(clip, values)
    return _as_tensor(normaliser.deliver(values))


def _as_tensor(values: Any) -> torch.Tensor:
    return values if isinstance(values, torch.Tensor) else torch.from_numpy(values)


def _check_arguments(plan: EpochPlan, target: str | None, transform: object) -> None:
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    check_transform(transform, "clip", advice="ff.ClipLoader calls it with the clip and a generator")
    if target is None:
        has_boxes = any(form.has_boxes for form in plan.clips.forms.values())
        some = (("box", has_boxes), ("flipped", plan.clips.has_flips))
        keys = (*ITEM_KEYS, *(name for name, is_there in some if is_there))
        clashing = [name for name in plan.columns if name in keys]
        if clashing:
            raise UsageError(
                f"columns {clashing} have the same names as other keys of an item: give target=, or rename them"
            )
        return
    check_target(plan, target)
    kind = plan.clips.columns[target].dtype
    if kind.kind not in "iubO":
        raise UsageError(
            f"target: expected a column of integers, but {target!r} holds {kind}: leave target out, and take "
            f"item[{target!r}]"
        )
