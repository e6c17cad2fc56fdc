"""What a checkpoint says of its plan besides the fingerprint, so that the message about another plan can name it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

_MOST_TEXT = 120
"""Characters of a rule or of options: a state stays under 1 KB."""
_HEAD = 90


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
            yield f"{word} (checkpoint: {in_short(str(state[name]))}, here: {here[name]})"
    if "catalog" in state and state["catalog"] != here["catalog"]:
        yield "catalog (other rows, labels or columns, another order, or files that changed and were scanned again)"
