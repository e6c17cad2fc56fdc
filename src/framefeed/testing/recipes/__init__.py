"""All pathologies that PyAV can make, one module for each kind."""

from __future__ import annotations

from collections.abc import Iterator

from framefeed.testing._pathologies import Pathology
from framefeed.testing.recipes._containers import CONTAINERS
from framefeed.testing.recipes._damage import DAMAGE
from framefeed.testing.recipes._hidden import HIDDEN
from framefeed.testing.recipes._pictures import PICTURES
from framefeed.testing.recipes._references import REFERENCES
from framefeed.testing.recipes._streams import STREAMS
from framefeed.testing.recipes._timestamps import TIMESTAMPS

_ALL = {
    recipe.name: recipe
    for group in (CONTAINERS, DAMAGE, HIDDEN, PICTURES, REFERENCES, STREAMS, TIMESTAMPS)
    for recipe in group
}


def iter_pathologies() -> Iterator[Pathology]:
    """Yield every pathology that PyAV can make, by case number."""
    yield from sorted(_ALL.values(), key=lambda recipe: (recipe.number, recipe.name))


def pathology(name: str) -> Pathology:
    """Look up a pathology by file name.

    Raises:
        KeyError: There is no pathology of this name; the message lists all names.
    """
    if name not in _ALL:
        raise KeyError(f"unknown pathology {name!r}: use one of {', '.join(sorted(_ALL))}")
    return _ALL[name]
