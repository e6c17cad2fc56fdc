"""Options of a loader, checked when they are made."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from framefeed._checks import check_choice, check_integer, check_transform, expected, refuse_names
from framefeed._units import parse_bytes
from framefeed._values import Limits
from framefeed.decode import Decoder, as_decoder
from framefeed.errors import UsageError
from framefeed.load._ledger import check_max_failed
from framefeed.load._normalise import Normaliser
from framefeed.parallel import check_deadline, thread_budget
from framefeed.plan import EpochPlan, choose_stored_form, count_planned, explain_little_reuse

if TYPE_CHECKING:
    # A loader without a cache loads no module of it: one that has a cache was given it.
    from framefeed.cache import FrameCache

Transform = Callable[[npt.NDArray[Any], Generator], Any]
OnError = Literal["raise", "skip", "substitute"]

_MOST = 2**31 - 1
"""Largest number of workers, of clips and of batches; also of clips in a batch of DALI."""
MAX_PREFETCH_BYTES = 2 << 30
"""Bytes of batches that are prepared ahead; one batch is always prepared."""
DEFAULT_READ_AHEAD = 64_000_000
"""Bytes of remote sources: 64 GOPs of 1 MB, which come in 1.3 s at 50 MB/s."""
MAX_SUBSTITUTES = 10
"""Clips that are tried in place of one that fails: where half of all clips fail, one of 1024 finds none."""
_TORCH_NAMES = {
    "num_workers": "use workers=, a number of threads",
    "prefetch_factor": "use prefetch=, a number of batches",
    "shuffle": "shuffle in the plan, as in ff.plan_clips(..., shuffle=True)",
    "sampler": "give rank= and world_size= to ff.plan_clips",
    "collate_fn": "use transform=, a function of each clip; a batch is a ClipBatch",
    "pin_memory": "pin the tensor, as in torch.from_numpy(batch.data).pin_memory()",
}
"""Arguments of torch's DataLoader -> those of a ClipLoader."""


refuse_torch_names = refuse_names("ClipLoader", _TORCH_NAMES)
_FETCH_SHARE = 0.75
"""Of ``deadline_seconds``; the rest is for other clips that wait for the same worker."""


@dataclass(frozen=True)
class LoaderOptions:
    """The options of ``ClipLoader``, which describes them.

    Example: ``LoaderOptions(batch_size=16)``. The defaults are those of docs/reference.md.
    """

    batch_size: int
    drop_last: bool = False
    workers: int | Literal["auto"] = "auto"
    kind: str = "threads"
    prefetch: int = 2
    backend: str | Decoder = "auto"
    cache: FrameCache | None = None
    transform: Transform | None = None
    on_error: OnError = "raise"
    deadline_seconds: float | None = 60
    limits: Limits | None = None
    max_failed: int | float | None = None
    dtype: Any = None
    mean: Any = None
    std: Any = None
    read_ahead: str | int = DEFAULT_READ_AHEAD

    def __post_init__(self) -> None:
        self._set_integer("batch_size", 1)
        self._set_integer("prefetch", 1, " (workers=0 prepares nothing ahead)")
        if self.workers != "auto":
            self._set_integer("workers", 0, ', or "auto"')
        check_choice("kind", self.kind, ("threads", "processes"))
        check_cache(self.cache)
        check_transform(self.transform, "clip", "rng", advice="ff.torch.ClipDataset calls it with the clip alone")
        check_on_error(self.on_error, self.max_failed)
        check_deadline(self.deadline_seconds)
        if isinstance(self.read_ahead, bool) or self.read_ahead != 0:
            object.__setattr__(self, "read_ahead", parse_bytes(self.read_ahead, "read_ahead"))
        if not isinstance(self.backend, str | Decoder):
            raise expected("backend", "the name of a decoder, or a Decoder", self.backend)
        normaliser = Normaliser.of(self.dtype, self.mean, self.std, has_transform=self.transform is not None)
        if normaliser is not None:
            # As they are checked, so that a worker process needs neither PyTorch nor the user's types.
            for name in ("dtype", "mean", "std"):
                object.__setattr__(self, name, getattr(normaliser, name))

    def _set_integer(self, name: str, least: int, hint: str = "") -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
            raise expected(name, f"an integer of at least {least}{hint}", value)
        object.__setattr__(self, name, check_integer(name, value, least, _MOST))

    @property
    def num_workers(self) -> int:
        """Number of threads; the thread budget of the process for "auto"."""
        return thread_budget().threads if self.workers == "auto" else self.workers

    @property
    def read_ahead_bytes(self) -> int:
        """Bytes of remote sources that may be asked for before they are decoded; 0 for none."""
        return int(self.read_ahead)

    @property
    def normaliser(self) -> Normaliser | None:
        """Makes numbers of pixels; None leaves them as they are. Each has tables of its own."""
        return None if self.dtype is None else Normaliser(self.dtype, self.mean, self.std)

    @property
    def array_dtype(self) -> np.dtype[Any] | None:
        """Dtype of the arrays of batches; None for pixels, or results of the transform, as they are."""
        return None if self.normaliser is None else self.normaliser.array_dtype

    @property
    def fetch_seconds(self) -> float | None:
        """Longest time for the fetches of a task: it fails alone, before the wait for its clips ends the iteration."""
        return None if self.deadline_seconds is None else _FETCH_SHARE * self.deadline_seconds

    @property
    def decoder_name(self) -> str:
        return self.backend if isinstance(self.backend, str) else self.backend.name

    def decoder_for(self, plan: EpochPlan) -> Decoder:
        """Return the decoder, wrapped in the cache if there is one."""
        decoder = as_decoder(self.backend, self.limits)
        return decoder if self.cache is None else wrap_in_cache(plan, self.cache, decoder)

    def batches_ahead(self, batch_bytes: int) -> int:
        """Limit ``prefetch`` to the batches that fit into `MAX_PREFETCH_BYTES`, and at least one."""
        return max(1, min(self.prefetch, MAX_PREFETCH_BYTES // max(1, batch_bytes)))


def find_batch_size(plan: object, batch_size: int | None, *, drop_last: bool) -> Any:
    """Find the most clips of a batch: what was given or, of a plan of buckets, those of its largest step."""
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    sizes = plan.order.step_sizes
    if sizes is None and batch_size is None:
        raise UsageError("batch_size: give a number, such as batch_size=16; only plans of ff.plan_buckets have it")
    if sizes is None:
        return batch_size
    if batch_size is not None or drop_last:
        raise UsageError(
            "batch_size and drop_last: this plan has the batches, so leave them out (ff.plan_buckets has "
            "global_batch=, batch_size= and tail=)"
        )
    # Of any epoch: in one of tail="stream" a bucket may have no step.
    return max(sizes, default=plan.order.world_size) // plan.order.world_size


def check_on_error(on_error: str, max_failed: int | float | None) -> None:
    """Check ``on_error`` and ``max_failed``."""
    check_choice("on_error", on_error, get_args(OnError))
    check_max_failed(max_failed, on_error)


def check_cache(cache: object) -> None:
    """Check that a cache is an `ff.FrameCache` or None."""
    if cache is not None and (isinstance(cache, type) or not hasattr(cache, "expect")):
        raise expected("cache", "an ff.FrameCache or None", cache)


def wrap_in_cache(plan: EpochPlan, cache: FrameCache, decoder: Decoder) -> Decoder:
    """Wrap a decoder in a cache, in the form that suits a plan; tell the cache how many frames the plan needs."""
    form = choose_stored_form(plan, cache.options.form)
    if cache.options.max_bytes is not None:
        cache.expect(*count_planned(plan, form))
    return cache.decoder(decoder, form)


def explain_useless_cache(plan: EpochPlan, cache: FrameCache | None) -> str | None:
    """Explain that an empty cache saves little, because the plan draws other frames in the next epoch; else None."""
    if cache is None or not plan.clips.draws_frames:
        return None
    try:
        with os.scandir(cache.path) as entries:
            if next(entries, None) is not None:
                return None
    except OSError:
        pass  # there is no folder yet
    return explain_little_reuse(plan, choose_stored_form(plan, cache.options.form))
