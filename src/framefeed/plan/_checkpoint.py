"""The plan's part of a checkpoint: what it must agree on, and which clips earlier runs delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from framefeed._checks import check_integer, check_mapping
from framefeed.catalog import Catalog, has_jpegs
from framefeed.errors import UsageError
from framefeed.plan._options import OMITTED_VALUES, ClipOptions
from framefeed.plan._shard import Delivery, load_deliveries

STATE_VERSION = 3
"""Rises too if the costs of rows, or the order by cost, change: with them, a balanced state would leave other clips."""
_MOST_TEXT = 130
"""Characters of a rule, so that a state is under 1 KiB."""
_MOST_OPTION = 45
"""Characters of an option, if all of them have more than `_MOST_TEXT`."""


def keep_effective_options(catalog: Catalog, options: ClipOptions, *, own_forms: bool) -> ClipOptions:
    """Return the options that a checkpoint holds: quality of stills and filter only where they may change a picture.

    ``own_forms`` says whether the requests say size, crop, quality and filter themselves.
    """
    is_resized = options.size is not None or getattr(options.crop, "resizes", False)
    if own_forms or not is_resized:
        return replace(options, still_quality="exact", filter="bilinear")
    if options.filter == "bicubic" or not has_jpegs(catalog.table):
        return replace(options, still_quality="exact")
    return options


def shorten(text: str, most: int = _MOST_TEXT) -> str:
    """Cut a long text, and add a hash of the whole."""
    if len(text) <= most:
        return text
    return f"{text[: most - 30]}... (hash {blake2b(text.encode(), digest_size=4).hexdigest()})"


def shorten_options(options: Mapping[str, str]) -> dict[str, str]:
    """Cut the values of options if they are long together."""
    if sum(map(len, options.values())) <= _MOST_TEXT:
        return dict(options)
    return {name: shorten(text, _MOST_OPTION) for name, text in options.items()}


def read_state(state: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[int, tuple[Delivery, ...]]:
    """Read the epoch and the deliveries of a checkpoint; the plan would write ``here``, with options uncut."""
    check_mapping("state", state, "what plan.state_dict() returned")
    version = state.get("version")
    if version != STATE_VERSION:
        raise UsageError(
            f"state: expected version {STATE_VERSION} of a plan's state, got version {version!r}: states of earlier "
            "versions cannot be loaded"
        )
    if state.get("fingerprint") != here["fingerprint"]:
        parts = "; ".join(_find_differences(state, here))
        prints = f"its fingerprint is {state.get('fingerprint')}, this plan's {here['fingerprint']}"
        raise UsageError(
            f"this checkpoint belongs to another plan: {f'these differ: {parts}' if parts else prints}. Make the "
            "plan with the same catalog, rule, seed and options as before"
        )
    deliveries = load_deliveries(state.get("deliveries", []))
    return check_integer("state['epoch']", state.get("epoch"), least=0), deliveries


def _find_differences(state: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """Name the parts in which a checkpoint's state differs from that of the plan here."""
    for name, word in (("seed", "seed"), ("num_clips", "number of clips"), ("rule", "rule")):
        if state.get(name) != here[name]:
            yield f"{word} (checkpoint: {state.get(name)}, here: {here[name]})"
    given = state.get("options")
    was, now = given if isinstance(given, Mapping) else {}, here["options"]
    names = [name for name in sorted(was.keys() | now.keys()) if not _is_same(was.get(name), now.get(name))]
    if names:
        there, own = (", ".join(f"{name}={_get_text(of, name)}" for name in names) for of in (was, now))
        yield f"options (checkpoint: {there}, here: {own})"
    if state.get("catalog") != here["catalog"]:
        yield "catalog (other rows, another order, or files that changed and were scanned again)"


def _is_same(state: object, here: str | None) -> bool:
    return state == here or (here is not None and state == shorten(here, _MOST_OPTION))


def _get_text(options: Mapping[str, str], name: str) -> str:
    return options.get(name, OMITTED_VALUES.get(name, "None"))
