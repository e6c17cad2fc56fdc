"""Baselines: one module a peer, loaded by name, so that only those that are installed are needed."""

from __future__ import annotations

import importlib
from typing import cast

from framefeed.bench.peer import Baseline

NAMES = ("torchcodec", "decord2", "spdl", "opencv")
"""Decoders that are measured against ours."""


def load_baseline(name: str) -> Baseline | str:
    """Load a baseline, or say in a line why it cannot be had."""
    try:
        return cast(Baseline, importlib.import_module(f"{__name__}.{name}"))
    except (ImportError, OSError, RuntimeError) as error:
        # A library that is there but does not find its codec libraries raises OSError or RuntimeError.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
