"""Give the batches of a loader to the external source of a DALI pipeline.

Batches are not copied on their way in: with ``no_copy``, DALI keeps a reference to each array until the pipeline has
used it, and the memory returns to the loader after that. DALI asks for batches ahead of those that its pipeline gives,
so only who runs the pipeline knows how many were delivered.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
from nvidia.dali import Pipeline, types

from framefeed._arrays import AnyArray
from framefeed._checks import check_integer, expected
from framefeed._units import format_count
from framefeed.adapters import check_target, convert_target, find_codes, find_target_dtype, refuse_texts
from framefeed.errors import UsageError
from framefeed.load import ArraySpec, BatchIterator, BatchSpec, ClipBatch, ClipLoader, list_streams
from framefeed.media import source_name
from framefeed.parallel import ClosedByWith
from framefeed.plan import EpochPlan

FIRST_OUTPUTS = ("clip", "pts_seconds", "position", "ok")
"""Outputs that are no columns."""
_TYPES = {
    np.dtype(name): getattr(types, name.upper() if name != "float32" else "FLOAT")
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
        "float64",
    )
}  # fmt: skip
_KEPT = 256
"""Batches that are remembered. DALI fetches 2 ahead, unless it is given another ``prefetch_queue_depth``."""
_QUEUE = 2
"""Batches of DALI's queue, if the pipeline is not known."""
_OF_ITERATOR = 1
"""Batches that one of DALI's iterators has taken from the queue, and not given."""


def external_source(
    plan_or_loader: EpochPlan | ClipLoader, *, batch_size: int | None = None, target: str | None = None
) -> ClipSource:
    """Make a source of batches for ``nvidia.dali.fn.external_source``. Each epoch ends with StopIteration.

    The outputs are clip ([T, C, H, W] a sample, layout "FCHW"), pts_seconds ([T]), position, ok, and the columns of the
    plan in their order, or only the column ``target``; of several streams first the clips of each, clip.NAME, then
    their pts_seconds.NAME. ``arguments`` has their number, dtypes, dimensions and layouts.

    Example: ``clips, pts_seconds, positions, ok, labels = fn.external_source(source=source, **source.arguments)``

    Args:
        plan_or_loader: A plan, for which the source makes a `ClipLoader` and closes it, or an open loader.
        batch_size: Number of clips in a batch, with a plan; that of the pipeline must be as large.
        target: Name of a column of numbers, or of text, which becomes codes. The target of a clip that failed is -100,
            or NaN in a column of floats.

    Raises:
        UsageError: batch_size is missing or too much, the loader is closed, or the plan has no such column.
    """
    if isinstance(plan_or_loader, ClipLoader):
        if batch_size is not None:
            raise UsageError(f"batch_size: the loader has its own, {plan_or_loader.batch_size}: leave it out")
        return ClipSource(plan_or_loader, target)
    if not isinstance(plan_or_loader, EpochPlan):
        raise expected("plan_or_loader", "an EpochPlan or an ff.ClipLoader", plan_or_loader)
    if batch_size is None:
        raise UsageError("batch_size: expected a number of clips, because a plan has none, as in batch_size=16")
    return ClipSource(ClipLoader(plan_or_loader, batch_size=batch_size), target, owns_loader=True)


class ClipSource(ClosedByWith):
    """Batches of a loader for a DALI pipeline; `external_source` makes it.

    Attributes:
        arguments: The other arguments of ``fn.external_source``.
        output_names: Names of the outputs.
        loader: The loader, whose own state counts what DALI has fetched.
        converter: Makes the outputs of each batch.
    """

    def __init__(self, loader: ClipLoader, target: str | None = None, *, owns_loader: bool = False) -> None:
        if target is not None:
            check_target(loader.plan, target)
        else:
            refuse_texts(loader.plan, "DALI")
        spec = loader.describe_batches(unequal=True)
        columns = _choose_columns(loader.plan, spec, target)
        clips, streams = [], tuple(loader.plan.streams)
        for form, seconds in zip(*(list_streams(spec.arrays[name]) for name in ("data", "pts_seconds")), strict=True):
            if seconds.shape[1] is None:  # T is of each batch its own, which only a transform hides
                form = replace(form, shape=(form.shape[0], None, *form.shape[2:]))
            clips.append(form)
        self.loader = loader
        self.output_names = (*_name_outputs(streams), *columns)
        self.arguments = _make_arguments(spec, self.output_names, columns, target)
        self.converter = _Converter(loader.plan, clips, columns, target)
        self._owns_loader = owns_loader
        self._epoch: SourceEpoch | None = None
        self._before: tuple[int, int] | None = None
        self._most_ahead = _QUEUE + _OF_ITERATOR

    def __repr__(self) -> str:
        return f"ClipSource({', '.join(self.output_names)}, {self.loader!r})"

    def __iter__(self) -> SourceEpoch:
        """Prepare an epoch, which begins when DALI asks for its first batch.

        Raises:
            UsageError: The pipeline that is being defined takes smaller batches.
        """
        pipeline = Pipeline.current()
        if pipeline is not None:
            if pipeline.max_batch_size < self.loader.batch_size:
                raise UsageError(
                    f"the batches of this source have up to {self.loader.batch_size} clips, and those of the pipeline "
                    f"at most {pipeline.max_batch_size}: give the pipeline batch_size={self.loader.batch_size}"
                )
            depth = pipeline.prefetch_queue_depth
            queued = sum(depth.values()) if isinstance(depth, dict) else depth
            self._most_ahead = queued + _OF_ITERATOR
        return SourceEpoch(self)

    def follow(self, epoch: SourceEpoch) -> None:
        """Take an epoch that has begun as the one that states are of."""
        if self._epoch is not None and self._epoch.is_exhausted:
            self._before = self._epoch.number, self._epoch.num_fetched
        self._epoch = epoch

    def state_dict(self, delivered: int, epoch: int | None = None) -> dict[str, Any]:
        """Return the state of the loader after some batches of the epoch; those that DALI fetched ahead do not count.

        Args:
            delivered: Number of batches that the pipeline has given since its epoch began, or since a state was loaded.
            epoch: Number of that epoch; needed where the whole of an epoch is fetched ahead.

        Raises:
            UsageError: DALI has not fetched so many, so many more that their states are no longer kept, or the number
                may be of several epochs.
        """
        count = check_integer("delivered", delivered, least=0)
        current = self._epoch
        if current is None:
            if count:
                raise UsageError(f"delivered: DALI has fetched no batch of this source yet, and you say {count}")
            return self.loader.state_dict()
        states = self._find_states(current, count)
        if epoch is not None:
            number = check_integer("epoch", epoch, least=0)
            states = {each: state for each, state in states.items() if each == number}
        if not states:
            of = "" if epoch is None else f" of epoch {epoch}"
            raise UsageError(
                f"delivered: DALI has fetched {format_count(current.num_fetched, 'batch', 'batches')} of epoch "
                f"{current.number}, and the states of the last {current.num_kept} are kept; you say {count}{of}: count "
                "from the beginning of the epoch, and save the state before the next batch"
            )
        if any(state != next(iter(states.values())) for state in states.values()):
            several = " or ".join(map(str, sorted(states)))
            raise UsageError(
                f"delivered: DALI has fetched all {current.num_fetched} batches of epoch {current.number} ahead, and "
                f"{count} may be of epoch {several}: say which, as in state_dict({count}, epoch={current.number})"
            )
        return next(iter(states.values()))

    def _find_states(self, current: SourceEpoch, count: int) -> dict[int, dict[str, Any]]:
        """Find the epochs of which so many batches may have been given, each with its state."""
        states = {}
        may_wait = current.num_fetched <= self._most_ahead
        if current.has_state(count) and (count or may_wait or not current.is_exhausted):
            states[current.number] = current.state_after(count)
        if not count and current.is_exhausted:
            states[current.number + 1] = current.state_after(current.num_fetched)
        if self._before is not None and may_wait and count == self._before[1]:
            states[self._before[0]] = current.state_after(0)
        return states

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Start the next epoch at a saved position, as `ClipLoader.load_state_dict` does.

        Raises:
            UsageError: DALI has fetched a part of an epoch, or the state is from another plan.
        """
        if self._epoch is not None and not self._epoch.is_exhausted:
            raise UsageError(
                f"DALI has fetched {self._epoch.num_fetched} batches of an epoch from this source: load the state "
                "into a new source, before its pipeline runs"
            )
        self.restore(state)

    def restore(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Load a state for pipelines that are not built yet."""
        self.loader.load_state_dict(state)
        self._epoch = self._before = None

    def close(self) -> None:
        """Close the loader, if the source made it from a plan."""
        if self._owns_loader:
            self.loader.close()


class SourceEpoch(Iterator[list[Any]]):
    """Arrays of the batches of one epoch, which ends with its last batch, whether or not one more is asked for.

    Attributes:
        num_set: How often the loader's epoch had been set when this one began.
        is_exhausted: Whether DALI knows that there are no more.
    """

    def __init__(self, source: ClipSource) -> None:
        # Not the source itself, which keeps this epoch: a cycle would leave threads and batches to the collector.
        self._source = weakref.ref(source)
        self._loader, self._converter = source.loader, source.converter
        self._process = os.getpid()
        self._batches: BatchIterator | None = None
        self._states: dict[int, dict[str, Any]] = {}
        self._clips: dict[int, tuple[list[int], list[str | bytes]]] = {}
        self.number = self.num_set = -1  # before it begins
        self.num_fetched = 0
        self.is_exhausted = False

    def begin(self) -> BatchIterator:
        """Begin the epoch, which ends the iteration of the loader before it."""
        self._batches = iter(self._loader)
        self._note_number()
        source = self._source()
        if source is not None:
            source.follow(self)
        return self._batches

    def __next__(self) -> list[Any]:
        if os.getpid() != self._process:
            raise UsageError(
                "this DALI pipeline was built in another process, and its threads are not in this one: build it here"
            )
        batches = self._batches or self.begin()
        if not self._states:
            self._note_number()  # set_epoch may have come after the beginning
            self._remember_state()
        batch = next(batches, None)
        if batch is None:
            self.is_exhausted = True
            # After the last batch, errors that came in place of later ones, and in an epoch without batches.
            self._remember_state()
            raise StopIteration
        self._clips[self.num_fetched + 1] = batch.positions.tolist(), list_streams(batch.sources)[0]
        if not length_hint(batches):
            next(batches, None)
        outputs = self._converter.convert(batch)
        self.num_fetched += 1
        self._remember_state()
        for remembered in (self._states, self._clips):
            remembered.pop(self.num_fetched - _KEPT, None)
        return outputs

    def _note_number(self) -> None:
        self.number, (self.num_set, _) = self._loader.epoch, self._loader.last_set_epoch

    def _remember_state(self) -> None:
        self._states[self.num_fetched] = self._loader.state_dict()

    @property
    def num_kept(self) -> int:
        """Number of batches whose states are kept; 0 until DALI asks for a batch."""
        return len(self._states)

    def has_state(self, number: int) -> bool:
        return number in self._states or not (number or self._states)

    def state_after(self, number: int) -> dict[str, Any]:
        return self._states[number] if self._states else self._loader.state_dict()

    def name_clips(self, number: int) -> tuple[list[int], list[str]]:
        """Return global positions and sources of a batch, counted from 1; nothing if it is not remembered."""
        positions, sources = self._clips.get(number, ([], []))
        return positions, [source_name(each) for each in sources]


class _Converter:
    """Lists the arrays of a batch in the order of the outputs, in the form that ``arguments`` declares."""

    def __init__(self, plan: EpochPlan, forms: Sequence[ArraySpec], columns: Sequence[str], target: str | None) -> None:
        self._clips = [_ClipConverter(form) for form in forms]
        self._columns, self._target, self._codes = columns, target, find_codes(plan, target)

    def convert(self, batch: ClipBatch) -> list[Any]:
        split = [list_streams(each) for each in (batch.data, batch.pts_seconds, batch.sources)]
        clips = [
            converter.convert(batch, *of) for converter, of in zip(self._clips, zip(*split, strict=True), strict=True)
        ]
        arrays = [*clips, *split[1], batch.positions, batch.ok]
        for name in self._columns:
            column = batch.columns[name]
            arrays.append(convert_target(column, batch.ok, self._codes) if name == self._target else column)
        return arrays


class _ClipConverter:
    """Converts the clips of one stream, which have the shape and dtype ``data`` in a batch."""

    def __init__(self, data: ArraySpec) -> None:
        self._data = data

    def convert(
        self, batch: ClipBatch, data: AnyArray | list[AnyArray], pts_seconds: Any, sources: Sequence[Any]
    ) -> AnyArray | list[AnyArray]:
        """Make zeros of the declared form of clips that failed, which no transform has seen; check the others."""
        if isinstance(data, np.ndarray) and not batch.ok.any():
            shape = self._data.shape[1:]
            length = pts_seconds.shape[1]
            return np.zeros((len(batch), *(length if each is None else each for each in shape)), self._data.dtype)
        if self._fits(data):
            return data
        clips = [clip if ok else self._make_zeros(clip) for clip, ok in zip(data, batch.ok, strict=True)]
        for slot, clip in enumerate(clips):
            if not self._fits(clip[np.newaxis]):
                name, position = source_name(sources[slot]), int(batch.positions[slot])
                raise UsageError(
                    f"{name}: transform: the first clip became {list(self._data.shape[1:])} of {self._data.dtype}, and "
                    f"that at position {position} {list(clip.shape)} of {clip.dtype}: DALI's pipeline is built for one "
                    "number of axes and one dtype",
                    position=position,
                    source=name,
                    stage="transform",
                )
        return clips

    def _fits(self, clips: Any) -> bool:
        """Whether clips have the declared dtype and number of axes; a list of them is looked at one by one."""
        return isinstance(clips, np.ndarray) and clips.dtype == self._data.dtype and clips.ndim == len(self._data.shape)

    def _make_zeros(self, clip: AnyArray) -> AnyArray:
        shape = self._data.shape[1:]
        if len(shape) == clip.ndim:
            shape = tuple(mine or its for mine, its in zip(shape, clip.shape, strict=True))
        return np.zeros([length or 1 for length in shape], self._data.dtype)


def _name_outputs(streams: Sequence[str]) -> tuple[str, ...]:
    """Name the outputs that are no columns: "clip" and "pts_seconds" of each stream with its name behind a dot."""
    if not streams:
        return FIRST_OUTPUTS
    clip, seconds, *others = FIRST_OUTPUTS
    return (*(f"{clip}.{name}" for name in streams), *(f"{seconds}.{name}" for name in streams), *others)


def _choose_columns(plan: EpochPlan, spec: BatchSpec, target: str | None) -> list[str]:
    """List the columns that are outputs; warn of those that DALI has no type for."""
    clashing = [name for name in plan.columns if name in FIRST_OUTPUTS]
    if clashing:
        raise UsageError(f"columns {clashing} have the same names as other outputs: rename them")
    if target is not None:
        return [target]
    left_out = [name for name in plan.columns if spec.arrays[name].dtype not in _TYPES]
    if left_out:
        kinds = ", ".join(f"{name} ({spec.arrays[name].dtype})" for name in left_out)
        warnings.warn(f"DALI has no type for these columns, which are left out: {kinds}", UserWarning, stacklevel=4)
    return [name for name in plan.columns if name not in left_out]


def _make_arguments(
    spec: BatchSpec, names: Sequence[str], columns: Sequence[str], target: str | None
) -> dict[str, Any]:
    clips, seconds = (list_streams(spec.arrays[name]) for name in ("data", "pts_seconds"))
    arrays: list[ArraySpec] = [*clips, *seconds, *(spec.arrays[name] for name in ("positions", "ok", *columns))]
    dtypes = [each.dtype for each in arrays]
    if target is not None:
        dtypes[-1] = find_target_dtype(dtypes[-1])
    for name, dtype in zip(names, dtypes, strict=True):
        if dtype not in _TYPES:
            is_clip = name.split(".")[0] == FIRST_OUTPUTS[0]
            advice = "return another one from transform" if is_clip else "give the column another one"
            raise UsageError(f"{name}: DALI has no type for {dtype}: {advice}")
    layouts = ["FCHW" if len(each.shape) == 5 and each.shape[2] == 3 else "" for each in clips]
    return {
        "num_outputs": len(arrays),
        "batch": True,
        "cycle": "raise",
        "no_copy": True,
        "dtype": [_TYPES[dtype] for dtype in dtypes],
        "ndim": [len(each.shape) - 1 for each in arrays],
        "layout": [*layouts, *[""] * (len(arrays) - len(clips))],
    }
