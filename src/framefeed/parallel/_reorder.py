"""Reorder results in a bounded buffer: work finishes in any order, results are taken in the order of their positions.

States of one position, in the order in which positions are handed out (0, 1, 2, ...)::

    QUEUED --start--> RUNNING --finish--> READY --take--> gone

    ========  =================================================================================
    step      rule
    ========  =================================================================================
    admit     only while the items inside, in whatever state, weigh less than ``max_weight``
    start     the first QUEUED position, or a later one that is expensive, see below; while READY
              results have more than ``max_bytes`` only the head starts
    finish    a RUNNING position, once
    take      the head, and only when it is READY
    ========  =================================================================================

The head is the lowest position in the buffer. Two laws follow. The head can always start, is running or is ready, so
waiting for it always ends. And READY results have at most ``max_bytes`` plus those of the results that were already
running when that limit was passed.

Expensive positions start early, so that the others are done while they run. A QUEUED position whose cost is at least
`STANDS_OUT` times the mean cost of the others starts before the first QUEUED one, as long as a position before that one
is RUNNING. So the next result is never delayed by a start out of turn: it is ready, it runs, or the next worker starts
it. Positions of equal cost start in order.

No thread, lock or clock: if threads share a buffer, its owner has the lock.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from framefeed.errors import UsageError

# Of 1 to 5, 1.5 to 3 give the shortest totals and gaps between results, simulated for 2 and 4 workers, windows of 8 to
# 32 and costs of four distributions; with less, most items start out of turn.
STANDS_OUT = 2.0

T = TypeVar("T")
R = TypeVar("R")


class ReorderBuffer(Generic[T, R]):
    """Takes items, and returns results in the order of the items.

    Args:
        max_weight: Weight of the items in the buffer, from `admit` to `take`, at which no other is admitted; at least
            1. An item weighs 1 if nothing else is said.
        max_bytes: Bytes of READY results above which only the head may start; None for no limit.
    """

    __slots__ = (
        "_by_cost",
        "_first",
        "_head",
        "_max_bytes",
        "_max_weight",
        "_next",
        "_queued",
        "_queued_cost",
        "_ready",
        "_ready_bytes",
        "_ready_weight",
        "_running",
        "_weight",
        "_weights",
    )

    def __init__(self, max_weight: int, max_bytes: int | None = None) -> None:
        if max_weight < 1:
            raise UsageError(f"max_weight: expected at least 1, got {max_weight}")
        if max_bytes is not None and max_bytes < 0:
            raise UsageError(f"max_bytes: expected 0 or more, or None for no limit, got {max_bytes}")
        self._max_weight = max_weight
        self._max_bytes = max_bytes
        self._head = self._first = self._next = 0
        self._queued: dict[int, tuple[T, float]] = {}
        self._queued_cost = 0.0
        # A heap of (-cost, position), with positions that are no longer queued.
        self._by_cost: list[tuple[float, int]] = []
        self._running: dict[int, T] = {}
        self._ready: dict[int, tuple[R, int]] = {}
        self._ready_bytes = 0
        self._weights: dict[int, int] = {}
        self._weight = self._ready_weight = 0

    def __repr__(self) -> str:
        return (
            f"ReorderBuffer(head={self._head}, queued={len(self._queued)}, running={len(self._running)}, "
            f"ready={len(self._ready)}, ready_bytes={self._ready_bytes})"
        )

    def __len__(self) -> int:
        return self._next - self._head

    @property
    def head(self) -> int:
        """Position of the next result."""
        return self._head

    @property
    def ready_weight(self) -> int:
        """Weight of the items whose results are finished and not yet taken."""
        return self._ready_weight

    @property
    def has_room(self) -> bool:
        """Whether one more item may be admitted."""
        return self._weight < self._max_weight

    @property
    def head_is_ready(self) -> bool:
        """Whether `take` can return a result."""
        return self._head in self._ready

    @property
    def is_blocked(self) -> bool:
        """Whether the head is READY, and no position may start before it is taken."""
        return self.head_is_ready and self._is_over_bytes

    @property
    def head_weight(self) -> int:
        """Weight of the item whose result is next; 0 if there is none."""
        return self._weights.get(self._head, 0)

    def find_unready(self, weight: int) -> int | None:
        """Find the first position that is not READY, of the next ones up to a weight; None if all are."""
        position = self._head
        while weight > 0 and position < self._next:
            if position not in self._ready:
                return position
            weight -= self._weights[position]
            position += 1
        return None

    def item_at(self, position: int) -> T | None:
        """Item of a QUEUED or RUNNING position; None for any other."""
        if position in self._queued:
            return self._queued[position][0]
        return self._running.get(position)

    @property
    def startable(self) -> int:
        """Number of QUEUED positions that may start now, before any of them finishes."""
        if not self._is_over_bytes:
            return len(self._queued)
        return int(self._head in self._queued)

    @property
    def _is_over_bytes(self) -> bool:
        return self._max_bytes is not None and self._ready_bytes > self._max_bytes

    def admit(self, item: T, cost: float = 0.0, weight: int = 1) -> int:
        """Add one item and return its position.

        ``cost`` is predicted, in any unit; ``weight`` is its part of ``max_weight``, at least 1.
        """
        if not self.has_room:
            raise UsageError(f"{self!r} is full: take a result before admitting another item")
        if weight < 1:
            raise UsageError(f"expected items of a weight of at least 1, got {weight}")
        position, self._next = self._next, self._next + 1
        self._weights[position] = weight
        self._weight += weight
        self._queued[position] = item, cost
        self._queued_cost += cost
        if cost:
            # Positions that were cheap when they started would stay in the heap as long as one that costs more waits.
            if len(self._by_cost) >= 2 * self._max_weight:
                self._by_cost = [entry for entry in self._by_cost if entry[1] in self._queued]
                heapify(self._by_cost)
            heappush(self._by_cost, (-cost, position))
        return position

    def start(self) -> tuple[int, T] | None:
        """Start a queued position and return it with its item; None if none may start."""
        if not self.startable:
            return None
        position = self._choose_position()
        item, cost = self._queued.pop(position)
        # A sum of floats drifts, and an infinite cost would stay in it.
        self._queued_cost = self._queued_cost - cost if self._queued else 0.0
        self._running[position] = item
        return position, item

    def _choose_position(self) -> int:
        while self._first not in self._queued:
            self._first += 1
        first = self._first
        while self._by_cost and self._by_cost[0][1] not in self._queued:
            heappop(self._by_cost)
        if not self._by_cost or min(self._running, default=first) >= first:
            return first
        cost, position = -self._by_cost[0][0], self._by_cost[0][1]
        others = len(self._queued) - 1
        return position if cost * others >= STANDS_OUT * (self._queued_cost - cost) else first

    def finish(self, position: int, result: R, nbytes: int = 0) -> None:
        """Store the result of a running position."""
        if position not in self._running:
            raise UsageError(f"position {position} is not running in {self!r}")
        del self._running[position]
        self._ready[position] = result, nbytes
        self._ready_bytes += nbytes
        self._ready_weight += self._weights[position]

    def take(self) -> R:
        """Remove and return the result of the head."""
        if not self.head_is_ready:
            raise UsageError(f"the head of {self!r} is not ready")
        result, nbytes = self._ready.pop(self._head)
        weight = self._weights.pop(self._head)
        self._head += 1
        self._ready_bytes -= nbytes
        self._ready_weight -= weight
        self._weight -= weight
        return result
