"""A DALI pipeline that resizes and casts the clips of a plan.

DALI runs it in threads of its own, two batches ahead. Its outputs own their memory: a tensor that shares it may be kept
for as long as wished, because DALI takes other memory for the next batch.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
from nvidia.dali import Pipeline, fn, types
from nvidia.dali.backend import GetCUDADeviceCount

from framefeed._checks import check_choice, check_integer, expected, is_number
from framefeed._per_process import PerProcess, keep_forever
from framefeed.adapters.dali._source import ClipSource, SourceEpoch
from framefeed.errors import FramefeedError, LoadError, ResourceExhausted, UsageError
from framefeed.load import ClipLoader, Ledger, OnError
from framefeed.parallel import ClosedByWith, thread_budget
from framefeed.plan import EpochPlan
from framefeed.request import OutputSpec

if TYPE_CHECKING:
    from nvidia.dali.data_node import DataNode

_DTYPES = {"uint8": types.UINT8, "float16": types.FLOAT16, "float32": types.FLOAT}
_AHEAD = 2
"""Batches that DALI works on ahead: one in its threads while the other is taken."""
_MOST_NAMED = 3
_LEAST_STD = 1e-4
"""Of a pixel of 0 to 1, so that float16 holds the quotient."""
_NO_MEMORY = ("bad_alloc", "out of memory", "CUDA allocation failed", "Can't allocate")
"""Parts of DALI's messages."""
R = TypeVar("R")


def pipeline(  # noqa: PLR0913 - public: what its users ask for
    plan: EpochPlan,
    *,
    batch_size: int,
    size: tuple[int, int] | None = None,
    dtype: str = "uint8",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: int | None = None,
    workers: int | Literal["auto"] = "auto",
    on_error: OnError = "raise",
) -> ClipPipeline:
    """Build a DALI pipeline over the clips of a plan: framefeed decodes, DALI resizes and casts; see `iterate`.

    Its outputs are clip ([T, C, H, W] a sample), pts_seconds, position, ok, and the columns of the plan.

    Example: ``pipe = ff.dali.pipeline(plan, batch_size=64, size=(240, 240))``

    Args:
        plan: From ``plan_clips`` or ``plan_requests``; with ``unequal=True``, size is needed.
        batch_size: Number of clips in a batch; the last batch of an epoch may have fewer.
        size: (height, width) that DALI resizes to (linear, antialiased); None, or the size of the plan, for no resize.
        dtype: "uint8", or "float16" or "float32" for (x / 255 - mean) / std.
        mean: Of each channel, red, green and blue; None for zeros.
        std: Of each channel; None for ones.
        device: Number of the GPU that DALI resizes and casts on; None for the CPU.
        workers: Number of threads that decode, or "auto"; DALI has as many, if there is work for it.
        on_error: "raise", "skip" or "substitute", as for `ClipLoader`.

    Raises:
        UsageError: An argument is wrong, clips have no common size, or there is no such GPU.
    """
    graph = ClipGraph(plan, size, dtype, mean, std, device)
    loader = ClipLoader(plan, batch_size=batch_size, workers=workers, on_error=on_error)
    return ClipPipeline(ClipSource(loader, owns_loader=True), graph, workers)


@dataclass(frozen=True)
class ClipGraph:
    """What DALI does with clips; `pipeline` describes it."""

    plan: EpochPlan
    size: tuple[int, int] | None = None
    dtype: str = "uint8"
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    device: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.plan, EpochPlan):
            raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", self.plan)
        if self.plan.streams:
            raise UsageError(
                f"ff.dali.pipeline takes clips of one stream, and this plan has {list(self.plan.streams)}: define a "
                "pipeline of your own over ff.dali.external_source, with outputs clip.NAME and pts_seconds.NAME"
            )
        size = OutputSpec(self.size).size
        if size is None and self.plan.clips.forms[""].unequal:
            raise UsageError(
                "size: the clips of a plan with unequal=True have no common size, and a batch needs one: give "
                "size=(height, width), to which DALI resizes them"
            )
        if self.plan.clips.forms[""].is_ragged:
            raise UsageError(
                "the clips of this plan differ in their number of frames, and those of a tensor must not: define a "
                "pipeline of your own over ff.dali.external_source, or plan a rule with one number of frames"
            )
        if not self.plan.clips.forms[""].unequal and size == self.plan.picture_shape[1:]:
            size = None
        object.__setattr__(self, "size", size)
        check_choice("dtype", self.dtype, _DTYPES)
        for name, has_zero in (("mean", True), ("std", False)):
            value = getattr(self, name)
            if value is None:
                continue
            if self.dtype == "uint8":
                raise UsageError(f'{name}: uint8 holds no normalised values: give dtype="float32" or "float16" with it')
            object.__setattr__(self, name, _check_channels(name, value, has_zero=has_zero))
        if self.device is not None:
            check_device(self.device)

    @property
    def has_work(self) -> bool:
        """Whether DALI resizes or casts clips on the CPU."""
        return self.device is None and (self.size is not None or self.dtype != "uint8")

    def apply(self, clip: DataNode) -> DataNode:
        """Add the operators that make the output ``clip`` to the pipeline that is being defined."""
        if self.size is not None:
            clip = fn.resize(clip, size=list(self.size), antialias=True)
        if self.dtype == "uint8":
            return clip
        scaled = {"mean": self.mean or (0.0,) * 3, "std": self.std or (1.0,) * 3}
        return fn.crop_mirror_normalize(
            clip,
            dtype=_DTYPES[self.dtype],
            output_layout="FCHW",
            **{name: [255 * channel for channel in channels] for name, channels in scaled.items()},
        )


def _check_channels(name: str, value: Any, *, has_zero: bool) -> tuple[float, ...]:
    least = 0 if has_zero else _LEAST_STD
    is_row = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    channels = tuple(value) if is_row and not isinstance(value, str | bytes) else ()
    if len(channels) != 3 or not all(is_number(channel) and least <= channel <= 1 for channel in channels):
        advice = "of red, green and blue, such as (0.5, 0.5, 0.5); divide those for pixels of 0 to 255 by 255"
        raise expected(name, f"three numbers from {least} to 1, {advice}", value)
    return tuple(map(float, channels))


def check_device(device: int) -> None:
    number, count = check_integer("device", device, least=0), int(GetCUDADeviceCount())
    if number < count:
        return
    if count:
        missing = f"DALI finds {count} GPUs, numbered from 0"
    else:
        try:
            ctypes.CDLL("libcuda.so.1")
            missing = "DALI finds no GPU: nvidia-smi lists those of this machine, CUDA_VISIBLE_DEVICES may hide them"
        except OSError:
            missing = "there is no driver of NVIDIA here (libcuda.so.1 cannot be loaded)"
    raise UsageError(f"device={number}: {missing}; device=None runs the same pipeline on the CPU")


def _leave_pipelines_to_parent(left: None) -> None:
    """Have a forked child never free pipelines, whose threads are the parent's: DALI would hang, or crash at exit."""
    pipelines: set[Any] = getattr(Pipeline, "_pipes", set())  # weak references, for DALI's exit handler
    for each in pipelines:
        keep_forever(each())
    pipelines.clear()


_AT_FORK = PerProcess(lambda: None, begin=_leave_pipelines_to_parent)


class ClipPipeline(ClosedByWith):
    """A DALI pipeline over the clips of a plan; `pipeline` makes it.

    Over a loader of one's own, with a cache: ``ClipPipeline(external_source(loader))``, whose clips stay as they are.

    Attributes:
        source: The source of its batches.
        output_names: Names of the outputs.
    """

    def __init__(
        self, source: ClipSource, graph: ClipGraph | None = None, workers: int | Literal["auto"] = "auto"
    ) -> None:
        if not isinstance(source, ClipSource):
            raise expected("source", "what ff.dali.external_source returns", source)
        if graph is None and any(form.unequal for form in source.loader.plan.clips.forms.values()):
            raise UsageError(
                "the clips of a plan with unequal=True have no common size, and a batch needs one: give "
                "size=(height, width) to plan_clips"
            )
        self.source = source
        self.output_names = source.output_names
        self._graph = graph or ClipGraph(source.loader.plan)
        self._threads = 1
        if self._graph.has_work:
            self._threads = thread_budget().threads if workers == "auto" else max(1, workers)
        self._run: PipelineRun[Any] | None = None
        self._state: dict[str, Any] | None = None
        self._why_closed: str | None = None
        self._epochs, self._lent_epochs = _Epochs(source), _Epochs(source)
        self._lent: Pipeline | None = None
        self._dali = self._build(self._epochs)
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"ClipPipeline({', '.join(self.output_names)}, {self.source.loader!r})"

    @property
    def dali(self) -> Pipeline:
        """A ``nvidia.dali.Pipeline`` of its own, for iterators of DALI; do not use it and `iterate` at once."""
        self._check_open()
        self._leave_to_parent()
        if self._lent is None:
            self._lent = self._build(self._lent_epochs)
            # Kept by it, because a user may keep nothing else.
            self._lent.framefeed_epochs = self._lent_epochs
        return self._lent

    @property
    def ledger(self) -> Ledger:
        """The clips that were skipped; ``print(pipe.ledger)`` lists their files."""
        return self.source.loader.ledger

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self.source.loader)

    def begin_run(self, convert: Callable[[Any], R]) -> PipelineRun[R]:
        """Begin an epoch, and end the one that is under way."""
        self._check_open()
        self.end_run("a later iteration of the pipeline replaced it: use one iterator at a time")
        self._leave_to_parent()
        if self._dali is None:
            self._dali = self._build(self._epochs)
        self._run, self._state = PipelineRun(self._epochs.prepared, self._dali, convert), None
        self._lent_epochs.are_used = False
        return self._run

    def end_run(self, why: str) -> None:
        """End the epoch that is under way. What DALI has of it is dropped with the pipeline, which is built anew."""
        run, self._run = self._run, None
        if run is None or run.is_finished:
            return
        self._state = run.state_dict()
        run.end(why)
        self._dali = None
        if self._why_closed is None:
            # The loader is ahead, maybe in the next epoch.
            num_set, last_set = self.source.loader.last_set_epoch
            self.source.loader.set_epoch(run.epoch.number if num_set == run.epoch.num_set else last_set)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; an iteration of another epoch ends."""
        number, run = check_integer("epoch", epoch, least=0), self._run
        if run is not None and not run.is_finished and run.epoch.num_kept:
            if number == run.epoch.number:
                return
            self.end_run("set_epoch was called: iterate again")
        self._state = None
        self.source.loader.set_epoch(number)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader after the batch that was given last.

        Raises:
            UsageError: Batches were given by the pipeline ``dali``, which does not count them.
        """
        if self._lent_epochs.are_used:
            raise UsageError(
                "pipe.dali gave batches, which only you can count: use pipe.source.state_dict(delivered=...)"
            )
        if self._run is not None and not self._run.is_finished:
            return self._run.state_dict()
        return self.source.loader.state_dict() if self._state is None else self._state

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Begin the next epoch at a saved position, as `ClipLoader.load_state_dict` does."""
        self.source.restore(state)
        if self._run is not None and not self._run.is_finished:
            self._run.end("load_state_dict was called: iterate again")
            self._dali = None
        self._run = self._state = None
        self._lent_epochs.are_used = False

    def close(self) -> None:
        """End the iteration, DALI's threads and the loader; batches stay valid."""
        self._why_closed = "this pipeline is closed: make a new one"
        self.end_run(self._why_closed)
        self._dali = self._lent = None
        self.source.close()

    def _check_open(self) -> None:
        if self._why_closed is not None:
            raise UsageError(self._why_closed)

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():
            self._dali = self._lent = None
            # A pipeline of the parent asks for those that it had.
            self._epochs, self._lent_epochs = _Epochs(self.source), _Epochs(self.source)
            self._process = os.getpid()

    def _build(self, epochs: _Epochs) -> Pipeline:
        graph = self._graph
        made = Pipeline(
            batch_size=self.source.loader.batch_size,
            num_threads=self._threads,
            device_id=graph.device,
            prefetch_queue_depth=_AHEAD,
        )
        with made:
            outputs = fn.external_source(source=_Feed(epochs), **self.source.arguments)
            if graph.device is not None:
                outputs = [each.gpu() for each in outputs]
            made.set_outputs(graph.apply(outputs[0]), *outputs[1:])
        made.build()
        return made


class _Epochs:
    """The epochs of one source that one pipeline asks for, ``prepared`` last; others may ask the same source."""

    def __init__(self, source: ClipSource) -> None:
        self.source = source
        self.are_used = False
        self.prepared = SourceEpoch(source)


class _Feed(Iterator[list[Any]]):
    """What DALI asks for epochs and batches. It does not keep them: DALI's objects are freed by the collector alone."""

    def __init__(self, epochs: _Epochs) -> None:
        self._epochs = weakref.ref(epochs)

    def _follow(self) -> _Epochs:
        epochs = self._epochs()
        if epochs is None:
            raise UsageError("the pipeline of framefeed was freed: keep what ff.dali.pipeline returns")
        return epochs

    def __iter__(self) -> Self:
        epochs = self._follow()
        epochs.prepared = iter(epochs.source)
        return self

    def __next__(self) -> list[Any]:
        epochs = self._follow()
        epochs.are_used = True
        return next(epochs.prepared)


class PipelineRun(Iterator[R]):
    """One epoch of a DALI pipeline: what ``convert`` makes of its outputs, in order.

    An error of the loader is raised in place of its batch; the next call returns the next batch. The epoch of the
    source is ahead.
    """

    def __init__(self, epoch: SourceEpoch, dali: Any, convert: Callable[[Any], R]) -> None:
        epoch.begin()
        self.epoch = epoch
        self.is_finished = False
        self._dali = dali
        self._convert = convert
        self._process = os.getpid()
        self._num_taken = 0
        self._error: FramefeedError | None = None
        self._why_ended: str | None = None

    def end(self, why: str) -> None:
        self._why_ended = self._why_ended or why
        self._dali = None

    def state_dict(self) -> dict[str, Any]:
        return self.epoch.state_after(self._num_taken)

    def __next__(self) -> R:
        if self.is_finished:
            raise StopIteration
        if self._why_ended is not None:
            raise UsageError(f"this iterator has ended: {self._why_ended}")
        if os.getpid() != self._process:
            raise UsageError("this iterator is of another process, whose threads are not in this one: iterate again")
        self._fill()
        if self._num_taken < self.epoch.num_fetched:
            batch = self._call_dali(lambda: self._convert(self._dali.outputs()))
            self._num_taken += 1
            self._finish_after_last()
            return batch
        error, self._error = self._error, None
        self._finish_after_last()
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error

    def _fill(self) -> None:
        """Give DALI batches to work on, up to the first error."""
        epoch = self.epoch
        while self._error is None and not epoch.is_exhausted and epoch.num_fetched - self._num_taken < _AHEAD:
            try:
                self._call_dali(self._dali.schedule_run)
            except FramefeedError as error:
                if self._why_ended is not None:
                    raise
                self._error = error

    def _finish_after_last(self) -> None:
        if self._error is None and self.epoch.is_exhausted and self._num_taken == self.epoch.num_fetched:
            self.is_finished = True
            self._dali.reset()

    def _call_dali(self, function: Callable[[], R]) -> R:
        """Call DALI; an error of its own ends the iteration, because the pipeline cannot be used after it."""
        try:
            return function()
        except FramefeedError:
            raise
        except RuntimeError as error:
            # DALI's own text names the operator, and no file.
            positions, names = self.epoch.name_clips(min(self._num_taken + 1, self.epoch.num_fetched))
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            self.end("DALI failed: iterate again, for which its pipeline is built anew")
            if any(sign in str(error) for sign in _NO_MEMORY):
                raise ResourceExhausted(
                    f"DALI ran out of memory in the batch of the clips at positions {positions}; this says nothing "
                    "about their files: use a smaller batch_size or size, or give the process more memory, and iterate "
                    "again",
                    resource="memory",
                    stage="dali",
                ) from error
            raise LoadError(
                f"DALI failed in the batch of the clips at positions {positions} of "
                f"{', '.join(names[:_MOST_NAMED])}{more}: {error}",
                position=positions[0] if positions else None,
                stage="dali",
            ) from error
        except BaseException:  # Ctrl-C: DALI may have fetched a batch that it does not work on
            self.end("it was interrupted: iterate again, or load a state")
            raise
