"""Baselines: one module a peer, loaded by name, so that only those that are installed are needed."""

from __future__ import annotations

import importlib
from typing import Any, cast

from framefeed.bench._peer import Baseline

NAMES = ("torchcodec", "decord2", "spdl", "opencv")
"""Decoders that are measured against ours."""


def load_module(name: str) -> Any:
    """Load one module of this package, or say in a line why it cannot be had."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except (ImportError, OSError, RuntimeError) as error:
        # A library that is there but does not find its codec libraries raises OSError or RuntimeError.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def load_baseline(name: str) -> Baseline | str:
    """Load a decoder, or say in a line why it cannot be had."""
    return cast("Baseline | str", load_module(name))
