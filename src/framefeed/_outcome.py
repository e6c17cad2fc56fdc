"""Catch the outcome of one call, `Ok` or `Err`. This is the worker border: only here any exception is caught."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from framefeed._shown import show_name

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class _ShortRepr(reprlib.Repr):
    """Hides the secrets of URLs before it cuts them."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(show_name(x), level)


_SHORT = _ShortRepr()
_SHORT.maxstring = _SHORT.maxother = 80


def shorten_repr(value: object) -> str:
    """Return the repr of a value for a message: bounded in length, and without an error if the repr raises one."""
    return _SHORT.repr(value)


@dataclass(frozen=True, slots=True)
class Ok(Generic[R_co]):
    """Outcome of a call that succeeded: ``value`` is its result."""

    value: R_co

    def __repr__(self) -> str:
        return f"Ok({shorten_repr(self.value)})"


@dataclass(frozen=True, slots=True)
class Err:
    """Outcome of a call that failed: ``error`` is the exception, with the traceback of the worker."""

    error: BaseException

    def __repr__(self) -> str:
        return f"Err({shorten_repr(self.error)})"


def catch_outcome(function: Callable[[T], R], argument: T) -> Ok[R] | Err:
    """Call a function and return its outcome; never raise."""
    try:
        return Ok(function(argument))
    except BaseException as error:
        return Err(error)


def catch_error(function: Callable[[T], R], argument: T) -> Ok[R] | Err:
    """Call a function and return its outcome; raise a request to stop, which in a main thread is the user's Ctrl-C."""
    outcome = catch_outcome(function, argument)
    try:
        if isinstance(outcome, Err) and not isinstance(outcome.error, Exception):
            raise outcome.error
        return outcome
    finally:
        # The traceback refers to this frame, which must not refer to the error.
        del outcome
