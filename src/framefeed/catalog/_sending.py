"""Choose how pickles of saved catalogs are made: by their path, or for machines that do not see it, as data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_AS_DATA: ContextVar[bool] = ContextVar("_AS_DATA", default=False)


@contextmanager
def sending_as_data() -> Iterator[None]:
    """Let saved catalogs be pickled with all of their data, of any size."""
    token = _AS_DATA.set(True)
    try:
        yield
    finally:
        _AS_DATA.reset(token)


def is_sent_as_data() -> bool:
    """Whether saved catalogs are pickled with their data."""
    return _AS_DATA.get()
