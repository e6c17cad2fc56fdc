"""Say why an optional package is not there: it is not installed, or it is, and what it needs is not."""

from __future__ import annotations

_MOST_CHARACTERS = 300


def describe_error(error: BaseException) -> str:
    """Name the innermost cause of an error, on one line: "OSError: libnvrtc.so.13: cannot open shared object file"."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__) or error
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_MOST_CHARACTERS]


def describe_absence(error: BaseException, module: str) -> str:
    """Complete "it needs NAME, which ..." by what importing a module raised."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name and f"{module}.".startswith(f"{name}."):
        return "is not installed"
    return f"cannot be imported ({describe_error(error)})"
