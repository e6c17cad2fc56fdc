"""Import functions that users name on the command line, from the current folder too."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError
from framefeed.parallel import Err, catch_outcome, find_shortage, shorten_repr

_FORM = "expected MODULE:FUNCTION, such as mymodel:tiles for the function 'tiles' of mymodel.py"


@contextmanager
def importing_from_current_folder() -> Iterator[None]:
    """Put the current folder first on ``sys.path``, which worker processes take over."""
    folder, before = os.getcwd(), list(sys.path)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _split(option: str, text: str) -> tuple[str, list[str]]:
    """Check the form of ``module:function``, and return the module and the names in it."""
    module_name, colon, path = text.partition(":")
    names = path.split(".")
    is_file = module_name.endswith(".py") or os.sep in module_name
    if is_file or not colon or not all(name.isidentifier() for name in [*module_name.split("."), *names]):
        advice = "; name the module, without its folder and the ending .py" if is_file else ""
        raise UsageError(f"{option}: {_FORM}, got {text!r}{advice}")
    return module_name, names


def check_function(option: str, text: str) -> None:
    """Check ``module:function`` without importing it, for a process that will."""
    module_name, _ = _split(option, text)
    with importing_from_current_folder():
        if importlib.util.find_spec(module_name.partition(".")[0]) is None:
            raise UsageError(f"{option}: {_explain_missing(module_name, '')}")


def import_function(option: str, text: str) -> Callable[..., Any]:
    """Import ``module:function``, both of which may have dots; ``option`` is for messages."""
    module_name, names = _split(option, text)
    value: Any = _import_module(option, module_name)
    owner = f"the module {module_name} ({getattr(value, '__file__', None) or 'a folder'})"
    for name in names:
        if not hasattr(value, name):
            raise UsageError(f"{option}: {owner} has no {name!r}{did_you_mean(name, dir(value))}")
        value, owner = getattr(value, name), f"{module_name}:{name}"
    if not callable(value):
        raise UsageError(f"{option}: {text} is {shorten_repr(value)}, and not a function")
    function: Callable[..., Any] = value
    return function


def _import_module(option: str, name: str) -> ModuleType:
    outcome = catch_outcome(importlib.import_module, name)
    if not isinstance(outcome, Err):
        return outcome.value
    error = outcome.error
    if isinstance(error, KeyboardInterrupt) or find_shortage(error) is not None:
        raise error
    is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
    message = _explain_missing(name, str(error)) if is_missing else _explain_failure(name, error)
    raise UsageError(f"{option}: {message}") from error


def _explain_missing(name: str, reason: str) -> str:
    here = [entry.removesuffix(".py") for entry in os.listdir() if entry.endswith(".py")]
    top = name.partition(".")[0]
    if top in here:
        return f"cannot import {name}: {reason}"
    return (
        f"there is no module {top!r} in the current folder ({os.getcwd()}) or among the installed packages"
        f"{did_you_mean(top, here) or ': change to the folder that has it, or check its spelling'}"
    )


def _explain_failure(name: str, error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return (
            f"{name} ends the program when it is imported: put what it runs under if __name__ == '__main__', so that "
            "only its functions are left"
        )
    frames = traceback.extract_tb(error.__traceback__)
    line = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"
    if isinstance(error, SyntaxError):
        line = f"{error.filename}:{error.lineno}"
    return f"importing {name} failed at {line}: {type(error).__name__}: {error}"
