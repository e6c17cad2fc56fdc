"""Baselines: one module a peer, loaded by name, so that only those that are installed are needed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def load_module(name: str) -> Any:
    """Load one module of this package, or say in a line why it cannot be had."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except (ImportError, OSError, RuntimeError) as error:
        # A library that is there but does not find its codec libraries raises OSError or RuntimeError.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


@dataclass(frozen=True, slots=True)
class Peers:
    """The baselines of one suite.

    Attributes:
        modules: Name -> those that are installed.
        versions: Of their libraries.
        missing: Name -> why it cannot be had.
    """

    modules: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, names: Sequence[str]) -> Peers:
        """Load the baselines that are installed."""
        peers = cls()
        for name in names:
            module = load_module(name)
            if isinstance(module, str):
                peers.missing[name] = module
            else:
                peers.modules[name] = module
                peers.versions.update(module.versions())
        return peers

    def list_all(self, kind: str) -> list[Any]:
        """All contenders of a kind, such as "methods"."""
        return [each for module in self.modules.values() for each in getattr(module, kind, list)()]
