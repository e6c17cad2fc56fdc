"""Compute a property once, without a lock.

`functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it computes. If another
thread forks the process meanwhile, the lock is never released in the child. Python 3.12 has no such lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - replaces the one in functools
    """Compute an attribute when it is first read; threads that read it at once may each compute it.

    The object must have a ``__dict__``.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = ""
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> Self | T:
        if instance is None:
            return self
        # Of two threads, both get the value that was stored first.
        return instance.__dict__.setdefault(self._name, self._function(instance))  # type: ignore[no-any-return]
