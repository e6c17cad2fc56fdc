"""Split rows into parts by hash: the part of a group depends only on the group and the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import isclose

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed.errors import UsageError

VALUES_AT_ONCE = 65_536
"""Values that are converted to Python objects at once."""


def assign_rows(
    groups: pa.ChunkedArray, fractions: Sequence[float], seed: int, strata: pa.ChunkedArray | None = None
) -> list[IntArray]:
    """Assign rows to parts, all rows of a group to the same part.

    Args:
        groups: Group of each row; null is a group of its own.
        fractions: Share of each part in the groups, on average.
        seed: Seed of the assignment.
        strata: Value of each row; each part gets its share of every value. A group has the value of its first row.

    Returns:
        Row numbers of each part, ascending.
    """
    codes = groups.combine_chunks().dictionary_encode(null_encoding="encode")
    hashes = _hash_values(codes.dictionary, seed)
    ends = list(accumulate(fractions))[:-1]
    if strata is None:
        # Every hash is below 2**64: a bound from there on would not fit into uint64, and its part is empty.
        bounds = [bound for end in ends if (bound := round(end * 2**64)) < 2**64]
        parts = np.array(bounds, np.uint64).searchsorted(hashes, side="right")
    else:
        # The groups of each value, in the order of their hashes, are cut at the fractions of their number.
        values = strata.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        values = values[np.unique(codes.indices.to_numpy(), return_index=True)[1]]
        order = np.lexsort((hashes, values))
        counts = np.bincount(values)
        rank = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts)
        share = (rank + 0.5) / np.repeat(counts, counts)
        parts = np.empty(len(order), np.int64)
        parts[order] = np.array(ends).searchsorted(share, side="right")
    part_of_row = parts[codes.indices.to_numpy()]
    return [np.flatnonzero(part_of_row == part).astype(np.int64) for part in range(len(fractions))]


def check_fractions(fractions: Mapping[str, float] | Sequence[float]) -> list[float]:
    """Check fractions, and list them in order.

    Raises:
        UsageError: One is negative, or they do not add up to 1.
    """
    if isinstance(fractions, str) or not isinstance(fractions, (Mapping, Sequence)):
        raise expected("", "fractions such as [0.8, 0.2] or {'train': 0.8, 'val': 0.2}", fractions)
    shares = [float(share) for share in (fractions.values() if isinstance(fractions, Mapping) else fractions)]
    if not shares or min(shares) < 0 or not isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise UsageError(f"fractions must be at least 0 and add up to 1, not {shares}: name a part for the rest")
    return shares


def _hash_values(values: pa.Array, seed: int) -> npt.NDArray[np.uint64]:
    """Hash the text of each value and the seed to 64 bits."""
    begun = hashlib.blake2b(f"{seed}\0".encode(), digest_size=8)
    digests = bytearray()
    for start in range(0, len(values), VALUES_AT_ONCE):
        for value in values.slice(start, VALUES_AT_ONCE).to_pylist():
            digest = begun.copy()
            digest.update(b"" if value is None else f"{value}".encode())
            digests += digest.digest()
    return np.frombuffer(digests, ">u8").astype(np.uint64)
