"""Find the user's line for a warning; apart from the rooms, as several of them warn."""

from __future__ import annotations

import inspect


def find_callers_level() -> int:
    """Find the ``stacklevel`` of the line that called framefeed, for a warning of the caller of this function."""
    frame, modules = inspect.currentframe(), list[str]()
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    own = [level for level, name in enumerate(modules) if name.partition(".")[0] == "framefeed"]
    called_by = own[-1] + 1
    # In a thread of a loader no line of the user is on the stack, only Python's threading module.
    return called_by if called_by < len(modules) and modules[called_by] != "threading" else 2
