"""A set of live objects: others may add and free members while it is iterated over."""

from __future__ import annotations

import doctest
import gc

from framefeed import _live_set
from framefeed._live_set import LiveSet


class Member:
    """It can be referred to weakly."""


def test_the_example_is_right() -> None:
    assert not doctest.testmod(_live_set).failed


def test_members_are_those_that_live_in_the_order_in_which_they_were_added() -> None:
    members, alive = [Member() for _ in range(5)], LiveSet[Member]()
    for member in [*members, members[0]]:
        alive.add(member)
    alive.discard(members[3])
    alive.discard(members[3])
    assert list(alive) == [*members[:3], members[4]]
    del member, members[1]
    assert list(alive) == [*members[:2], members[3]]
    assert len(alive) == 3
    alive.clear()
    assert not list(alive)


def test_members_may_be_added_and_freed_while_it_is_iterated_over() -> None:
    members, alive, seen = [Member() for _ in range(5)], LiveSet[Member](), []
    for member in members:
        alive.add(member)
    del member
    for member in alive:
        seen.append(member)
        added = Member()
        added.itself = added  # type: ignore[attr-defined]
        alive.add(added)
        del added
        if len(members) == 5:
            del members[4]
        gc.collect()
    assert seen == members
    assert list(alive) == members
