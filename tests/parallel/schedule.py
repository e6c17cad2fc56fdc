"""Simulate workers over a `ReorderBuffer`: which item starts when, and when each result can be taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from framefeed.parallel._reorder import ReorderBuffer


@dataclass
class Schedule:
    """What happened: positions in the order of their starts, the time of each result, in the order of the results."""

    started: list[int] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)


def simulate(seconds: Sequence[float], workers: int, window: int, *, knows_costs: bool) -> Schedule:
    """Work on items that take so many seconds each; the consumer takes each result at once."""
    buffer: ReorderBuffer[int, int] = ReorderBuffer(window)
    schedule, running, now, admitted = Schedule(), list[tuple[float, int]](), 0.0, 0
    while len(schedule.taken) < len(seconds):
        while buffer.has_room and admitted < len(seconds):
            buffer.admit(admitted, seconds[admitted] if knows_costs else 0.0)
            admitted += 1
            # As an iterator does: each item is offered to a free worker before the next item is read.
            start_all(buffer, seconds, workers, running, now, schedule)
        now, position = heappop(running)
        buffer.finish(position, position)
        start_all(buffer, seconds, workers, running, now, schedule)
        while buffer.head_is_ready:
            assert buffer.take() == len(schedule.taken)
            schedule.taken.append(now)
    return schedule


def start_all(
    buffer: ReorderBuffer[int, int],
    seconds: Sequence[float],
    workers: int,
    running: list[tuple[float, int]],
    now: float,
    schedule: Schedule,
) -> None:
    while len(running) < workers and (job := buffer.start()) is not None:
        schedule.started.append(job[0])
        heappush(running, (now + seconds[job[0]], job[0]))
