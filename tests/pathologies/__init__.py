"""Recipes of broken and unusual media: one module for each kind, and the facts that prove the property of each file."""

from __future__ import annotations

from collections.abc import Iterator

from tests.pathologies.containers import CONTAINERS
from tests.pathologies.damage import DAMAGE
from tests.pathologies.facts import FrameFacts, MediaFacts, PacketFacts, Pathology, read_facts, verify
from tests.pathologies.hidden import HIDDEN
from tests.pathologies.pictures import PICTURES
from tests.pathologies.references import REFERENCES
from tests.pathologies.streams import STREAMS
from tests.pathologies.timestamps import TIMESTAMPS

__all__ = [
    "FrameFacts",
    "MediaFacts",
    "PacketFacts",
    "Pathology",
    "iter_pathologies",
    "pathology",
    "read_facts",
    "verify",
]

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
