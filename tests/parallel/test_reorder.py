from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from framefeed.errors import UsageError
from framefeed.parallel._reorder import STANDS_OUT, ReorderBuffer
from tests.parallel.schedule import simulate


@given(st.permutations(range(8)), st.integers(8, 10))
def test_any_completion_order_leaves_in_the_order_of_positions(order: Sequence[int], max_count: int) -> None:
    buffer: ReorderBuffer[str, str] = ReorderBuffer(max_count)
    for position in range(8):
        assert buffer.admit(f"item {position}") == position
        assert buffer.start() == (position, f"item {position}")
    taken: list[str] = []
    for position in order:
        buffer.finish(position, f"result {position}")
        while buffer.head_is_ready:
            taken.append(buffer.take())
    assert taken == [f"result {position}" for position in range(8)]
    assert len(buffer) == 0


class Walk(RuleBasedStateMachine):
    """Every sequence of allowed steps, against the table at the top of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer: ReorderBuffer[int, int] = ReorderBuffer(6, max_bytes=10)
        self.admitted = self.taken = 0
        self.weights: dict[int, int] = {}
        self.queued: dict[int, float] = {}
        self.running: list[int] = []
        self.ready: dict[int, int] = {}

    @precondition(lambda self: self.buffer.has_room)
    @rule(cost=st.sampled_from([0.0, 1.0, 1.0, 3.0, 20.0]), weight=st.sampled_from([1, 1, 1, 2, 4]))
    def admit(self, cost: float, weight: int) -> None:
        assert self.buffer.admit(self.admitted, cost, weight) == self.admitted
        self.weights[self.admitted] = weight
        self.queued[self.admitted] = cost
        self.admitted += 1

    @rule()
    def start(self) -> None:
        allowed = bool(self.queued) and (sum(self.ready.values()) <= 10 or min(self.queued) == self.taken)
        assert bool(self.buffer.startable) == allowed
        job = self.buffer.start()
        assert job == ((self.expected_start(),) * 2 if allowed else None)
        if job:
            self.running.append(job[0])
            del self.queued[job[0]]

    def expected_start(self) -> int:
        first = min(self.queued)
        costly = min(self.queued, key=lambda position: (-self.queued[position], position))
        others = [cost for position, cost in self.queued.items() if position != costly]
        stands_out = self.queued[costly] >= STANDS_OUT * sum(others) / max(1, len(others))
        may_leave_turn = min(self.running, default=first) < first and sum(self.ready.values()) <= 10
        return costly if stands_out and may_leave_turn else first

    @precondition(lambda self: self.running)
    @rule(data=st.data(), nbytes=st.integers(0, 12))
    def finish(self, data: st.DataObject, nbytes: int) -> None:
        position = data.draw(st.sampled_from(self.running))
        self.buffer.finish(position, position, nbytes)
        self.running.remove(position)
        self.ready[position] = nbytes

    @precondition(lambda self: self.buffer.head_is_ready)
    @rule()
    def take(self) -> None:
        assert self.buffer.head_weight == self.weights.pop(self.taken)
        assert self.buffer.take() == self.taken
        del self.ready[self.taken]
        self.taken += 1

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.buffer) == self.admitted - self.taken <= 6
        weight = sum(self.weights.values())
        assert self.buffer.has_room == (weight < 6)
        assert weight - self.weights.get(self.admitted - 1, 0) < 6
        assert self.buffer.ready_weight == sum(self.weights[position] for position in self.ready)
        assert self.buffer._ready_bytes == sum(self.ready.values())
        assert self.buffer.head == self.taken

    @invariant()
    def the_head_never_waits_for_others(self) -> None:
        if len(self.buffer):
            assert self.buffer.head_is_ready or self.taken in self.running or self.buffer.startable

    @invariant()
    def items_are_known_until_they_are_finished(self) -> None:
        known = [position for position in range(self.admitted + 1) if self.buffer.item_at(position) is not None]
        assert known == sorted([*self.queued, *self.running])

    @invariant()
    def the_first_unready_one_is_among_the_next_ones_of_a_weight(self) -> None:
        inside = range(self.taken, self.admitted)
        for weight in range(1, 9):
            before = [sum(self.weights[each] for each in range(self.taken, position)) for position in inside]
            unready = [position for position, ahead in zip(inside, before, strict=True)
                       if ahead < weight and position not in self.ready]  # fmt: skip
            assert self.buffer.find_unready(weight) == next(iter(unready), None)

    @invariant()
    def waiting_for_several_ends(self) -> None:
        unready = self.buffer.find_unready(6)
        if unready is not None and len(self.buffer):
            assert self.buffer.is_blocked or self.running or self.buffer.startable


TestEveryWalk = Walk.TestCase


def test_a_full_buffer_admits_nothing() -> None:
    buffer: ReorderBuffer[str, str] = ReorderBuffer(1)
    buffer.admit("a")
    assert not buffer.has_room
    with pytest.raises(UsageError, match="full"):
        buffer.admit("b")


def test_steps_out_of_turn_are_refused() -> None:
    buffer: ReorderBuffer[str, str] = ReorderBuffer(2)
    buffer.admit("a")
    with pytest.raises(UsageError, match="not running"):
        buffer.finish(0, "A")
    with pytest.raises(UsageError, match="not ready"):
        buffer.take()
    buffer.start()
    buffer.finish(0, "A")
    with pytest.raises(UsageError, match="not running"):
        buffer.finish(0, "A")


@pytest.mark.parametrize(("max_count", "max_bytes"), [(0, None), (-1, None), (1, -1)])
def test_bounds_that_let_nothing_through_are_refused(max_count: int, max_bytes: int | None) -> None:
    with pytest.raises(UsageError):
        ReorderBuffer(max_count, max_bytes)


def test_the_repr_shows_the_shape() -> None:
    buffer: ReorderBuffer[bytes, bytes] = ReorderBuffer(2)
    buffer.admit(b"secret pixels")
    assert repr(buffer) == "ReorderBuffer(head=0, queued=1, running=0, ready=0, ready_bytes=0)"


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 30))
def test_equal_costs_start_in_order(workers: int, window: int, number: int) -> None:
    assert simulate([1.0] * number, workers, window, knows_costs=True).started == list(range(number))


def test_L10_costs_of_positions_that_are_gone_are_dropped() -> None:
    buffer: ReorderBuffer[None, None] = ReorderBuffer(4)
    for cost in range(1, 500):
        # Each costs more than all before it.
        buffer.admit(None, float(cost))
        if not buffer.has_room:
            job = buffer.start()
            assert job is not None
            buffer.finish(job[0], None)
            assert job[0] == buffer.head
            buffer.take()
        assert len(buffer._by_cost) <= 8


@pytest.mark.parametrize("cost", [math.inf, 1e300])
def test_L06_a_cost_beyond_all_measure_does_not_end_the_order_by_cost(cost: float) -> None:
    buffer: ReorderBuffer[None, None] = ReorderBuffer(4)
    buffer.admit(None, 0.1)
    buffer.admit(None, cost)
    assert [buffer.start(), buffer.start()] == [(0, None), (1, None)]
    for _ in range(2):
        buffer.finish(buffer.head, None)
        buffer.take()
    for each in (1.0, 1.0, 20.0):
        buffer.admit(None, each)
    assert [buffer.start(), buffer.start()] == [(2, None), (4, None)]


def one_slow(position: int) -> list[float]:
    return [20.0 if item == position else 1.0 for item in range(64)]


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("window", [8, 16, 32])
def test_L06_one_slow_item_in_64_costs_no_more_time_than_the_window_makes_it(workers: int, window: int) -> None:
    for slow in range(64):
        seconds = one_slow(slow)
        in_order = simulate(seconds, workers, window, knows_costs=False)
        schedule = simulate(seconds, workers, window, knows_costs=True)
        assert schedule.taken[0] == in_order.taken[0]
        assert schedule.taken[-1] <= in_order.taken[-1]
        # While the slow one runs, the others can do the items of the window before it and after it, and no more.
        # Before, during and after that, some worker may idle for the length of one item.
        overlapped = min(slow, window - 1) + min(63 - slow, window - 1)
        idle = max(0.0, 20 - overlapped / (workers - 1)) * (workers - 1) / workers
        assert schedule.taken[-1] <= sum(seconds) / workers + idle + 3


def test_L06_one_slow_item_in_64_is_within_5_percent_where_the_window_allows_it() -> None:
    totals = [simulate(one_slow(slow), 2, 32, knows_costs=True).taken[-1] for slow in range(64)]
    assert max(totals) <= 1.05 * (63 + 20) / 2


@given(st.lists(st.sampled_from([1.0, 1.5, 4.0, 20.0]), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 12))
def test_L06_the_next_result_is_ready_or_runs_or_starts_next(seconds: list[float], workers: int, window: int) -> None:
    schedule = simulate(seconds, workers, window, knows_costs=True)
    assert sorted(schedule.started) == list(range(len(seconds)))
    started: set[int] = set()
    for position in schedule.started:
        first = next(item for item in range(len(seconds)) if item not in started)
        # One that starts out of turn has the first one wait for less time than the positions before it still run.
        assert position == first or started & set(range(first))
        started.add(position)
