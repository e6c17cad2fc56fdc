"""Splitting rows into parts by hash: what part a group is in depends on the group and the seed, on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import isclose

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.errors import UsageError

IntArray = npt.NDArray[np.int64]


def part_rows(groups: pa.ChunkedArray, fractions: Sequence[float], seed: int) -> list[IntArray]:
    """Assign rows to parts, all rows of a group to one.

    Args:
        groups: The group of each row; null is a group of its own.
        fractions: Share of each part in the groups, on average.
        seed: Another seed gives another assignment.

    Returns:
        Row numbers of each part, ascending.
    """
    codes = groups.combine_chunks().dictionary_encode(null_encoding="encode")
    ends = [round(end * 2**64) for end in accumulate(fractions)]
    ends[-1] = 2**64
    parts = [next(part for part, end in enumerate(ends) if _hash(value, seed) < end)
             for value in codes.dictionary.to_pylist()]  # fmt: skip
    part_of_row = np.array(parts, dtype=np.int64)[codes.indices.to_numpy()]
    return [np.flatnonzero(part_of_row == part).astype(np.int64) for part in range(len(fractions))]


def check_fractions(fractions: Mapping[str, float] | Sequence[float]) -> list[float]:
    """Give the shares in order.

    Raises:
        UsageError: One is negative, or they do not add up to 1.
    """
    shares = [float(share) for share in (fractions.values() if isinstance(fractions, Mapping) else fractions)]
    if not shares or min(shares) < 0 or not isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise UsageError(f"fractions must be at least 0 and add up to 1, not {shares}: name a part for the rest")
    return shares


def _hash(value: object, seed: int) -> int:
    text = f"{seed}\0{'' if value is None else value}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
