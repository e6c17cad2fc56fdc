"""LoaderOptions: what a loader is told besides its plan, checked in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy.typing as npt
from numpy.random import Generator

from framefeed._checks import WrongType, check_integer, expected
from framefeed.cache import FrameCache
from framefeed.decode import Decoder, as_decoder
from framefeed.errors import NotInThisVersion, UsageError
from framefeed.load._ledger import check_max_failed
from framefeed.media import Limits
from framefeed.parallel import check_deadline, thread_budget
from framefeed.plan import EpochPlan

Transform = Callable[[npt.NDArray[Any], Generator], Any]
OnError = Literal["raise", "skip"]
P = ParamSpec("P")

MAX_PREFETCH_BYTES = 2 << 30
"""Bytes of batches that are prepared ahead; one batch is always prepared."""
_OF_TORCH = {
    "num_workers": "use workers=, a number of threads",
    "prefetch_factor": "use prefetch=, a number of batches",
    "shuffle": "shuffle in the plan, as in ff.plan_clips(..., shuffle=True)",
}
"""Arguments of torch's DataLoader -> what a ClipLoader has instead."""


def refusing_torch_names(make: Callable[P, None]) -> Callable[P, None]:
    """Make a constructor say, of an argument that only torch's DataLoader has, what to use instead."""

    @wraps(make)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name, advice in _OF_TORCH.items():
            if name in kwargs:
                raise WrongType(f"ClipLoader: there is no argument {name}=: {advice}")
        make(*args, **kwargs)

    return checked


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

    def __post_init__(self) -> None:
        self._put("batch_size", _at_least(1, "batch_size", self.batch_size))
        self._put("prefetch", _at_least(1, "prefetch", self.prefetch, " (workers=0 prepares nothing ahead)"))
        if self.workers != "auto":
            self._put("workers", _at_least(0, "workers", self.workers, ', or "auto"'))
        if self.kind == "processes":
            raise UsageError(
                'kind="processes" is not in this version: use kind="threads", which decodes in parallel too'
            )
        if self.kind != "threads":
            raise expected("kind", '"threads"', self.kind)
        if self.cache is not None and not isinstance(self.cache, FrameCache):
            raise expected("cache", "an ff.FrameCache or None", self.cache)
        if self.transform is not None and not callable(self.transform):
            raise expected("transform", "a function of (clip, rng), or None", self.transform)
        check_on_error(self.on_error, self.max_failed)
        check_deadline(self.deadline_seconds)
        if not isinstance(self.backend, str | Decoder):
            raise expected("backend", "the name of a decoder, or a Decoder", self.backend)

    def _put(self, name: str, value: int) -> None:
        object.__setattr__(self, name, value)

    @property
    def num_workers(self) -> int:
        """Workers at once; the thread budget of the process for "auto"."""
        return thread_budget().threads if self.workers == "auto" else self.workers

    def decoder_for(self, plan: EpochPlan) -> Decoder:
        """Find the decoder, behind the cache if there is one.

        Raises:
            UsageError: There is none of that name, or it takes no limits.
        """
        decoder = as_decoder(self.backend, self.limits)
        return decoder if self.cache is None else self.cache.decoder_for(plan, decoder)

    def batches_ahead(self, batch_bytes: int) -> int:
        """How many batches are made ahead: ``prefetch``, fewer where they would weigh too much, at least one."""
        return max(1, min(self.prefetch, MAX_PREFETCH_BYTES // max(1, batch_bytes)))


def check_on_error(on_error: str, max_failed: int | float | None) -> None:
    """Check ``on_error`` and ``max_failed``.

    Raises:
        UsageError: One of them has no such value.
        NotInThisVersion: "substitute".
    """
    if on_error == "substitute":
        raise NotInThisVersion(
            'on_error="substitute" is not in this version: use on_error="skip", and leave out clips where `ok` is False'
        )
    if on_error not in ("raise", "skip"):
        raise expected("on_error", '"raise" or "skip"', on_error)
    check_max_failed(max_failed, on_error)


def _at_least(least: int, name: str, value: Any, hint: str = "") -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise expected(name, f"an integer of at least {least}{hint}", value)
    return check_integer(name, value)
