"""Where the time of a command goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stages:
    """Adds up the seconds of named stages, in the order in which they first came.

    Attributes:
        seconds: Of each stage.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count what happens inside the block as time of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.of(stage) + time.perf_counter() - began

    def of(self, stage: str) -> float:
        """Seconds of one stage so far."""
        return self.seconds.get(stage, 0.0)

    @property
    def total(self) -> float:
        """Seconds since the beginning, those between stages included."""
        return time.perf_counter() - self._began

    def table(self) -> list[tuple[str, str, str]]:
        """Rows of stage, seconds and share of the total; what belongs to no stage comes last."""
        total = self.total
        seconds = {**self.seconds, "other": total - sum(self.seconds.values())}
        rows = [(stage, f"{spent:.1f} s", f"{spent / total:.0%}") for stage, spent in seconds.items()]
        return [*rows, ("total", f"{total:.1f} s", "")]
