"""Read tests/golden/vlm.json, which `make_golden` writes; how long lists of indices are kept there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "vlm.json"
KEPT = 24


def condense(indices: Iterable[int]) -> list[int] | dict[str, Any]:
    """Give a short list as it is, and of a long one the count, both ends and a checksum of the numbers with commas."""
    numbers = [int(index) for index in indices]
    if len(numbers) <= KEPT:
        return numbers
    checksum = zlib.crc32(",".join(map(str, numbers)).encode())
    return {"count": len(numbers), "first": numbers[:4], "last": numbers[-4:], "crc32": checksum}


def read_golden() -> dict[str, Any]:
    """Read the file."""
    document: dict[str, Any] = json.loads(GOLDEN.read_text())
    return document
