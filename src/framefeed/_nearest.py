"""Suggest the known name that is nearest to a misspelt one, for messages of all rooms."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'label'?" for the known name nearest to ``name``, or nothing if none is near."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
