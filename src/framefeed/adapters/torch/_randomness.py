"""Save the states of the generators that a sampler may draw from, and restore them."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

States = dict[str, Any]


def _encode(state: torch.Tensor) -> str:
    return base64.b64encode(zlib.compress(state.numpy().tobytes(), 1)).decode()


def _decode(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=torch.uint8)


def _dump_python() -> list[Any]:
    version, words, gauss = random.getstate()
    return [version, list(words), gauss]


def _dump_numpy() -> list[Any]:
    # Samplers of users draw from it, and so their state is a part of the loader's.
    name, words, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return [name, [int(word) for word in words], *rest]


GLOBAL: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "torch": (lambda: _encode(torch.get_rng_state()), lambda text: torch.set_rng_state(_decode(text))),
    "python": (_dump_python, lambda value: random.setstate((value[0], tuple(value[1]), value[2]))),
    "numpy": (
        _dump_numpy,
        lambda value: np.random.set_state((value[0], np.array(value[1], np.uint32), *value[2:])),  # noqa: NPY002
    ),
}
"""Functions that save and restore the global generators, by name; all states are JSON."""


class Randomness:
    """The global generators, and those that a loader and its samplers have, by name; None where they have none."""

    def __init__(self, own: Mapping[str, torch.Generator | None]) -> None:
        self._own: dict[str, torch.Generator] = {}
        for name, generator in own.items():
            # The loader's generator is also that of the sampler that it makes.
            if isinstance(generator, torch.Generator) and generator not in self._own.values():
                self._own[name] = generator

    def dump(self, names: Iterable[str] | None = None) -> States:
        """Save all generators, or those of these names."""
        states = {}
        for name in (*GLOBAL, *self._own) if names is None else names:
            if name in GLOBAL:
                states[name] = GLOBAL[name][0]()
            elif name in self._own:
                states[name] = _encode(self._own[name].get_state())
        return states

    def dump_own(self) -> States:
        return self.dump(self._own)

    def find_changed(self, before: States) -> States:
        """Return the states of the global generators that were drawn from since then, and of all others.

        A sampler that has a generator may draw from it later.
        """
        now = self.dump(before)
        return {name: state for name, state in before.items() if name in self._own or state != now[name]}

    def load(self, states: Mapping[str, Any]) -> None:
        """Restore generators; those that the loader does not have are left out."""
        for name, state in states.items():
            if name in GLOBAL:
                GLOBAL[name][1](state)
            elif name in self._own:
                self._own[name].set_state(_decode(state))
