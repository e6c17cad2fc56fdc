"""Close half-read generators while the interpreter still has all modules.

Later it clears them one after the other, and a generator whose modules were cleared cannot end in order: names in its
handlers are None ("catching classes that do not inherit from BaseException is not allowed").
"""

from __future__ import annotations

import atexit
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

from framefeed._live_set import LiveSet

G = TypeVar("G", bound=Generator[Any, None, None])

_OPEN = LiveSet[Generator[Any, None, None]]()


def close_at_exit(generator: G) -> G:
    """Close a generator as the interpreter ends, if something refers to it until then; return it."""
    _OPEN.add(generator)
    return generator


@atexit.register
def _close_all() -> None:
    for generator in _OPEN:
        with suppress(ValueError):  # a daemon thread is in the middle of it
            generator.close()
