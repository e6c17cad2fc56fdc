"""What a checkpoint says of its plan besides the fingerprint, so that the message about another plan can name it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any

_MOST_TEXT = 120
"""Characters of a rule or of options: a state stays under 1 KB."""
_HEAD = 90
_CUT = re.compile(r"\.\.\. \(hash [0-9a-f]{8}\)$")


def in_short(text: str) -> str:
    """Give a text, or the beginning of a long one and a hash of all of it."""
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_HEAD]}... (hash {blake2b(text.encode(), digest_size=4).hexdigest()})"


def differences(state: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """Name the parts in which the state of a plan differs from that of this plan; older states have fewer parts.

    Args:
        state: Of the checkpoint.
        here: Of this plan.
    """
    for name, word in (("seed", "seed"), ("num_clips", "number of clips"), ("rule", "rule"), ("options", "options")):
        if name in state and state[name] != here[name]:
            there, now = in_short(str(state[name])), str(here[name])
            if name == "options":
                there, now = _unlike(there, now)
            yield f"{word} (checkpoint: {there}, here: {now})"
    if "catalog" in state and state["catalog"] != here["catalog"]:
        yield "catalog (other rows, labels or columns, another order, or files that changed and were scanned again)"


def _unlike(there: str, here: str) -> tuple[str, str]:
    """Keep of two texts of options those that differ.

    Args:
        there: Of the checkpoint, which may be cut: then options after the cut are not compared, which "..." says.
        here: Of this plan.
    """
    was, is_now, is_cut = _options(there), _options(here), _CUT.search(there) is not None
    names = [name for name in (was if is_cut else {**was, **is_now}) if was.get(name) != is_now.get(name)]
    if not names:
        return there, here
    more = ", ..." if is_cut else ""
    before, now = (", ".join(f"{name}={of.get(name)}" for name in names) for of in (was, is_now))
    return before + more, now + more


def _options(text: str) -> dict[str, str]:
    """Read ``name=value, name=value``; of a text that is cut, what is whole."""
    while text:
        with suppress(SyntaxError):
            call = ast.parse(f"options({text})", mode="eval").body
            if isinstance(call, ast.Call):
                return {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg}
        text = text.rpartition(", ")[0]
    return {}
