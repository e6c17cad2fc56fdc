"""Check arguments; each message names the argument, the expected value and the given one.

>>> raise expected("size", "(height, width)", "224")
Traceback (most recent call last):
framefeed.errors.UsageError: size: expected (height, width), got the string '224'
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from math import isfinite
from numbers import Integral, Real
from operator import index
from typing import Any, ParamSpec, TypeVar, cast

from framefeed._nearest import did_you_mean
from framefeed._shown import show_text
from framefeed.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
_MOST_SHOWN = 80
MAX_INT64 = 2**63 - 1
"""Largest number of most columns and positions."""
_MAX_UINT64 = 2**64 - 1


class OutOfRange(UsageError, IndexError):
    """A row or position that does not exist; an IndexError, with which Python ends a loop over a sequence."""


class WrongType(UsageError, TypeError):
    """A number of a wrong type, or an argument that does not exist."""


def refuse_names(owner: str, names: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator: arguments of other libraries raise an error that names the equivalent.

    ``names`` are arguments of other libraries -> what to write here.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() & names.keys():
                raise WrongType(f"{owner}: there is no argument {name}=: {names[name]}")
            return function(*args, **kwargs)

        return check_and_call

    return decorate


def find_misfit(function: Callable[..., object], *args: object, **kwargs: object) -> str | None:
    """Say why a function cannot be called with such arguments; None if it can, or does not say what it takes."""
    try:
        # Not that of the function inside a decorator, which may call it with other arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # native functions may have none
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{signature}: {error}"
    return None


def name_callable(function: object) -> str:
    """Return module and name of a function, or of the class of another callable object."""
    target = function if hasattr(function, "__qualname__") else type(function)
    return f"{target.__module__}:{target.__qualname__}"


def check_transform(transform: object, *names: str, advice: str) -> None:
    """Check that a transform, if there is one, can be called with arguments of these names; else raise WrongType."""
    if transform is None:
        return
    what = f"a function of ({', '.join(names)})" if len(names) > 1 else f"a function of one {names[0]}"
    if not callable(transform):
        raise expected("transform", f"{what}, or None", transform)
    misfit = find_misfit(transform, *(None for _ in names))
    if misfit is not None:
        raise WrongType(f"transform: expected {what}, got {name_callable(transform)}{misfit}; {advice}")


def expected(name: str, what: str, given: object) -> UsageError:
    """Build the error for an argument of a wrong kind or value.

    ``name`` is that of the argument, or "" if the caller writes it.
    """
    return UsageError(f"{name and f'{name}: '}expected {what}, got {describe_value(given)}")


def describe_value(value: object) -> str:
    """Describe a value by its type and, if it is short, its text."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself: call it, as in {value.__name__}(...)"
    if isinstance(value, str):
        return f"the string {show_text(value)!r:.{_MOST_SHOWN}}"
    kind = type(value).__name__
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits.
        return kind
    if value is None or isinstance(value, (bool, int, float)):
        return text if len(text) <= _MOST_SHOWN else f"a number of {len(text)} digits"
    has_address = " at 0x" in text
    return kind if has_address or len(text) > _MOST_SHOWN else f"{kind} {text}"


def check_path(name: str, path: object, example: str) -> str:
    """Check that a value is a path, and convert it to text, with the home folder in place of ``~``.

    A NUL character, which no file name has, is refused.
    """
    if not isinstance(path, (str, bytes)) and (isinstance(path, type) or not hasattr(path, "__fspath__")):
        raise expected(name, f"a path such as {example!r}", path)
    text = os.fsdecode(cast("str | bytes", path))
    if "\0" in text:
        raise expected(name, "a path without NUL characters", path)
    return expand_home(text)


def expand_home(path: str) -> str:
    """Replace ``~`` at the start of a path by the home folder, and ``~name`` by that of a user."""
    return os.path.expanduser(path) if path.startswith("~") and "\0" not in path else path


def check_integer(name: str, number: Any, least: int | None = None, most: int = MAX_INT64) -> int:
    """Convert an integer of Python or NumPy to an int. Without ``least`` it is at least ``-most``."""
    what = "an integer" if least is None else f"an integer of at least {least}"
    if isinstance(number, (bool, type)):
        raise WrongType(str(expected(name, what, number)))
    try:
        whole = index(number)
    except TypeError:
        raise WrongType(str(expected(name, what, number))) from None
    if least is not None and whole < least:
        raise expected(name, what, number)
    if abs(whole) > most:
        raise expected(name, f"an integer from {-most if least is None else least} to {most}", number)
    return whole


def check_position(name: str, number: object, count: int, kind: str) -> int:
    """Convert an index of a sequence, negative ones from its end, to one from 0 to ``count`` - 1.

    ``kind`` is that of the sequence, for the message.
    """
    whole = number if type(number) is int else check_integer(name, number, most=_MAX_UINT64)
    if not -count <= whole < count:
        allowed = f"expected {-count} to {count - 1}" if count else "it is empty"
        raise OutOfRange(f"{name}: there is no {name} {describe_value(whole)} in a {kind} of length {count}: {allowed}")
    return whole % count


def is_number(value: object) -> bool:
    """Whether a value is a real number of Python or NumPy; a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a real number that float64 holds, neither infinite nor NaN."""
    try:
        return is_number(value) and isfinite(value)
    except OverflowError:  # an integer or a fraction
        return False


def check_count_or_share(name: str, value: Any) -> None:
    """Check that a value is a count (an integer of at least 0) or a share (a float from 0.0 to 1.0)."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if not (value >= 0 if is_count else isinstance(value, float) and 0 <= value <= 1):
        raise expected(name, "a count (int) such as 10, or a share (float) from 0.0 to 1.0", value)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Check that a value is one of a few.

    >>> check_choice("depth", "frame", ("frames", "header"))
    Traceback (most recent call last):
    framefeed.errors.UsageError: depth: expected 'frames' or 'header', got the string 'frame'; did you mean 'frames'?
    """
    choices = tuple(choices)
    for choice in choices:
        # An array is no choice: comparing it gives one answer for each element.
        if isinstance(value, type(choice)) and value == choice:
            return
    *others, last = map(repr, choices)
    what = f"{', '.join(others)} or {last}" if others else last
    names = [choice for choice in choices if isinstance(choice, str)]
    if isinstance(value, type) and names:  # such as float for "float32"
        given = f"the class {value.__name__}: write one of these strings{did_you_mean(value.__name__, names)}"
        raise UsageError(f"{name}: expected {what}, got {given}")
    raise UsageError(f"{expected(name, what, value)}{did_you_mean(value, names) if isinstance(value, str) else ''}")


def check_known(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Check that every name of a list is known; the error has the others, and all that are known."""
    known = sorted(known)
    unknown = sorted(set(given).difference(known))
    if unknown:
        nearest = did_you_mean(unknown[0], known)
        raise UsageError(f"{name}: expected some of {', '.join(known)}, got {', '.join(unknown)}{nearest}")


def check_names(name: str, names: object) -> tuple[str, ...]:
    """Convert a list of names to a tuple."""
    if isinstance(names, str):
        raise UsageError(f"{name}: expected a list of names, got one string: use {name}=[{names!r}]")
    as_tuple = tuple(names) if isinstance(names, Iterable) and not isinstance(names, bytes) else None
    if as_tuple is None or not all(isinstance(each, str) for each in as_tuple):
        raise expected(name, 'a list of column names such as ["label"]', names)
    return as_tuple


def check_mapping(name: str, given: Any, example: str) -> None:
    """Check that a value is a mapping: it has keys and items."""
    if isinstance(given, type) or not hasattr(given, "keys") or not hasattr(given, "items"):
        raise expected(name, f"a dict such as {example}", given)


def can_show_bar(progress: bool | None) -> bool:
    """Whether to show a progress bar: as asked, else where standard error is a terminal; never where that is closed."""
    stream = sys.stderr
    if stream is None or stream.closed:
        return False
    return stream.isatty() if progress is None else progress


def check_progress(progress: object) -> None:
    """Raise UsageError unless ``progress`` is one."""
    is_function = callable(progress) and not isinstance(progress, type)
    if not (progress is None or isinstance(progress, bool) or is_function):
        raise expected("progress", "True, False, None or a function of two numbers", progress)


@contextmanager
def showing_progress(
    total: int | None,
    progress: bool | Callable[[int, Any], object] | None,
    *,
    unit: str = "frame",
    unit_scale: bool = False,
) -> Iterator[Callable[[int], object]]:
    """Yield a function that shows the number of frames, or of another unit, done, of all or of an unknown number."""
    if callable(progress):
        yield lambda done: progress(done, total)
        return
    if not can_show_bar(progress):  # tqdm starts a thread even for a bar that is not shown.
        yield lambda done: None
        return
    from tqdm import tqdm  # 30 ms that only a bar needs

    with tqdm(total=total, unit=unit, unit_scale=unit_scale, file=sys.stderr, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)


def refuse_catalog(source: Any, what: str) -> None:
    """Refuse a whole catalog where one source is expected."""
    # By an attribute, because this module does not import the class.
    if hasattr(source, "usable_rows"):
        kind = type(source).__name__
        raise UsageError(f"source: expected {what}, got a {kind}: take one entry, such as catalog[0]")
