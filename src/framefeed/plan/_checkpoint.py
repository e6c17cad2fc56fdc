"""The plan's part of a checkpoint: what it must agree on, and which clips earlier runs delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from framefeed._checks import check_integer, check_mapping
from framefeed.catalog import Catalog, has_jpegs
from framefeed.errors import UsageError
from framefeed.plan._description import find_differences
from framefeed.plan._options import PlanOptions
from framefeed.plan._rules import ClipRule
from framefeed.plan._shard import Delivery, load_deliveries

STATE_VERSION = 2
"""Rises too if the costs of rows, or the order by cost, change: with them, a balanced state would leave other clips."""
_WITHOUT_DELIVERIES = 1
"""Version of states that know no deliveries; of plans that were dealt once."""
_CLIPS_VERSION = 1
"""Rises if a global position of the same plan gets another clip."""


def keep_effective_options(catalog: Catalog, options: PlanOptions, *, own_forms: bool) -> PlanOptions:
    """Return the options that a checkpoint holds: the quality of stills only where it may change a picture.

    ``own_forms`` says whether the requests say size, crop and quality themselves.
    """
    is_resized = options.size is not None or getattr(options.crop, "resizes", False)
    if options.still_quality == "exact" or (not own_forms and is_resized and has_jpegs(catalog.table)):
        return options
    return replace(options, still_quality="exact")


def hash_plan(catalog: Catalog, rule: ClipRule, options: PlanOptions) -> str:
    """Hash all that determines the clip at a global position, except the epoch; of ``options`` what a checkpoint holds.

    Options that came later count only where they are given, so that states of earlier versions stay valid.
    """
    parts = (
        f"framefeed plan {_CLIPS_VERSION}",
        catalog.fingerprint,
        rule,
        (options.seed, options.shuffle, options.clips_per_video),
        (options.size, options.crop, options.within, options.on_damaged),
        *((("still_quality", options.still_quality),) if options.still_quality != "exact" else ()),
        *((("horizontal_flip", options.horizontal_flip),) if options.horizontal_flip else ()),
    )
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def read_state(state: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[int, tuple[Delivery, ...]]:
    """Read the epoch and the deliveries of a checkpoint, given what the plan ``here`` would write.

    Raises:
        UsageError: The checkpoint belongs to another plan.
    """
    check_mapping("state", state, "what plan.state_dict() returned")
    version = state.get("version")
    if version not in (STATE_VERSION, _WITHOUT_DELIVERIES):
        raise UsageError(f"state: expected version {STATE_VERSION} of a plan's state, got version {version!r}")
    if state.get("fingerprint") != here["fingerprint"]:
        parts = "; ".join(find_differences(state, here))
        prints = f"its fingerprint is {state.get('fingerprint')}, this plan's {here['fingerprint']}"
        raise UsageError(
            f"this checkpoint belongs to another plan: {f'these differ: {parts}' if parts else prints}. Make the "
            "plan with the same catalog, rule, seed and options as before"
        )
    deliveries = load_deliveries(state.get("deliveries", []))
    return check_integer("state['epoch']", state.get("epoch"), least=0), deliveries
