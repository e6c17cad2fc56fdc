"""Options of `map_video`, checked when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from framefeed._checks import check_choice, check_integer, expected, find_misfit, name_callable
from framefeed.errors import UsageError
from framefeed.parallel import check_deadline, check_sendable, thread_budget

OnError = Literal["raise", "skip", "keep"]
Kind = Literal["threads", "processes"]


@dataclass(frozen=True, slots=True)
class UserFunction:
    """The user's function, and how it is called; see `map_video`."""

    function: Callable[..., Any]
    setup: Callable[[], Any] | None = None
    batch_size: int | None = None
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise expected("function", "a function of (frame, *, index, pts_seconds)", self.function)
        if self.setup is not None and not callable(self.setup):
            raise expected("setup", "a function without arguments, or None", self.setup)
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", check_integer("batch_size", self.batch_size, 1))
        check_choice("on_error", self.on_error, ("raise", "skip", "keep"))
        given = {"index": 0, "pts_seconds": 0.0} | ({} if self.setup is None else {"state": None})
        misfit = find_misfit(self.function, None, **given)
        if misfit is not None:
            first = "frame" if self.batch_size is None else "frames"
            raise UsageError(f"function: expected function({first}, *, {', '.join(given)}), got {self.name}{misfit}")

    @property
    def name(self) -> str:
        """Module and name of the function, or of the class of a callable object."""
        return name_callable(self.function)

    def check_sendable(self) -> None:
        """Check that both functions can be sent to a worker process; raise UsageError that names one that cannot."""
        check_sendable("function", self.function)
        check_sendable("setup", self.setup)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Who works, and how long a call of the function may take; see `map_video`."""

    workers: int | Literal["auto"] = "auto"
    kind: Kind = "threads"
    deadline_seconds: float | None = 60

    def __post_init__(self) -> None:
        if self.workers != "auto":
            object.__setattr__(self, "workers", check_integer("workers", self.workers, 0))
        check_choice("kind", self.kind, ("threads", "processes"))
        check_deadline(self.deadline_seconds)

    @property
    def num_workers(self) -> int:
        """Number of workers; with 0 the calling thread works."""
        return thread_budget().threads if self.workers == "auto" else self.workers

    @property
    def are_processes(self) -> bool:
        """Whether the workers are processes."""
        return self.kind == "processes" and self.num_workers > 0
