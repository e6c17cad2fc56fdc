"""Forked processes: all objects with locks are renewed, and iterators refuse to use the workers of the parent."""

import ast
import gc
import json
import os
import threading
from pathlib import Path

import pytest

import framefeed
from framefeed._per_process import PerProcess
from framefeed.errors import UsageError
from framefeed.parallel._ordered import ordered_outcomes
from tests.decode.forks import Child
from tests.programs import run_python

LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier"}
EXEMPT = {
    ("scanning/_journal.py", "JournalWriter"): "of one scan, which a child does not go on with",
    ("load/_pending.py", "PendingBatch"): "of one batch in the making; a child has none of the workers that make it",
    ("load/_memory.py", "StackMemory"): "of one batch in the making; a child has none of the workers that make it",
    ("transcode/_running.py", "SegmentRun"): "of one call, which a child does not go on with",
    ("parallel/_ordered_map.py", "_CallsAtOnce"): "of one call, which a child does not go on with",
    ("parallel/_ordered.py", "OrderedOutcomes"): "of one iteration, which a child is refused before it takes the lock",
    ("parallel/_ordered.py", "OrderedRun"): "of one iteration, which a child neither waits for nor closes",
    ("parallel/_lent_memory.py", "LentMemory"): "of one worker; a child makes memory of its own",
    ("parallel/_shared_memory.py", "SharedMemory"): "of the workers of one process; a child makes memory of its own",
    ("_stopping.py", "PendingCall"): "of one call, which a child does not wait for",
    ("media/remote/_client.py", "ObjectGet"): "of one call, which a child does not wait for",
    ("parallel/_pools.py", "ThreadPool"): "a child is refused before the lock is taken",
}
"""Locks that are not replaced in a child, by file and class or function, and why that hangs nothing."""


def find_owners_of_locks() -> set[tuple[str, str]]:
    """Find the classes and functions that make a lock, by file."""
    root = Path(framefeed.__file__).parent
    owners = set()
    for path in root.rglob("*.py"):
        for top in ast.parse(path.read_text()).body:
            calls = [node.func for node in ast.walk(top) if isinstance(node, ast.Call)]
            names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
            if names & LOCKS:
                owners.add((path.relative_to(root).as_posix(), getattr(top, "name", "")))
    return owners


@pytest.mark.slow
def test_L01_every_lock_that_is_held_at_a_fork_is_replaced_in_the_child() -> None:
    """A thread that holds a lock when the process forks is not in the child, and never releases it there."""
    answer = json.loads(run_python("-W", "ignore", "-m", "tests.parallel.forked_locks").stdout)
    made, left = ({tuple(each) for each in answer[name]} for name in ("made", "left"))
    owners = find_owners_of_locks()
    assert owners - made - set(EXEMPT) == set(), "let the program use them, or say here why they need not be replaced"
    assert left <= set(EXEMPT), "let PerProcess replace them, or say here why they need not be replaced"
    assert set(EXEMPT) <= owners, "these make no lock any more"
    assert answer["same"]


def test_nothing_else_registers_with_the_system_at_forks() -> None:
    """All renewed objects are in one list."""
    root = Path(framefeed.__file__).parent
    users = [path.relative_to(root).as_posix() for path in root.rglob("*.py") if "register_at_fork" in path.read_text()]
    assert users == ["_per_process.py"]


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")


@needs_fork
def test_objects_of_the_parent_are_finalised_after_all_are_renewed() -> None:
    order: list[str] = []

    class Left:
        def __del__(self) -> None:
            order.append("finalised")

    def begin(left: Left | None) -> Left | None:
        order.append("begun anew")
        return None

    things = [PerProcess[Left | None](Left, begin) for _ in range(2)]
    child = Child(lambda: ", ".join(order))
    assert child.report() == "begun anew, begun anew, finalised, finalised"
    assert order == []
    del things


@needs_fork
def test_a_value_is_another_one_in_a_child_and_the_same_in_its_parent() -> None:
    made, kept = PerProcess[list[int]](list), PerProcess[list[int]](list, lambda left: [*left, 2])
    parents = made.value, kept.value
    for value in parents:
        value.append(1)
    assert Child(lambda: f"{made.value} {kept.value}").report() == "[] [1, 2]"
    assert (made.value, kept.value) == ([1], [1])
    assert (made.value is parents[0], kept.value is parents[1]) == (True, True)


@needs_fork
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_an_iterator_in_a_child_is_refused_and_ends_without_touching_the_parents_workers(kind: str) -> None:
    outcomes = ordered_outcomes(abs, range(40), workers=2, kind=kind, max_in_flight=4)
    next(outcomes)

    def use_it() -> str:
        nonlocal outcomes
        said = []
        try:
            next(outcomes)
        except UsageError as error:
            said.append(str(error))
        outcomes.close()
        del outcomes
        gc.collect()
        return "; ".join(said)

    # The lock of the run is held by another thread while the process forks.
    with outcomes._run._changed:
        child = Child(use_it)
    assert "not in a forked process" in child.report()
    assert [outcome.value for outcome in outcomes] == list(range(1, 40))  # type: ignore[union-attr]
    assert threading.active_count() >= 1
