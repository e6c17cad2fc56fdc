"""A set of objects that it does not keep alive, for several threads and for finalisers, without a lock."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class LiveSet(Generic[T]):
    """The objects of some kind that are alive, the first that was added first; compared by identity.

    Not a ``weakref.WeakSet``: where another thread frees or adds a member, or a finaliser does, iterating over one may
    raise RuntimeError (https://github.com/python/cpython/issues/89967). Here each step is one call of a dictionary.

    >>> alive, one = LiveSet[frozenset[int]](), frozenset({1})
    >>> alive.add(one)
    >>> list(alive)
    [frozenset({1})]
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[T]] = {}

    def add(self, member: T) -> None:
        """Add an object, until it is freed."""
        references, key = self._references, id(member)
        references[key] = weakref.ref(member, lambda _: references.pop(key, None))

    def discard(self, member: T) -> None:
        """Remove an object, if it is there."""
        self._references.pop(id(member), None)

    def clear(self) -> None:
        """Remove all."""
        self._references.clear()

    def __len__(self) -> int:
        return len(self._references)

    def __iter__(self) -> Iterator[T]:
        """Iterate over those that are there now."""
        # The list is one call of C, during which no other code runs.
        members = (reference() for reference in list(self._references.values()))
        return (member for member in members if member is not None)
