"""A second implementation of how an epoch and its rest are dealt to ranks: slow, with lists of positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Epoch:
    """Positions that are not delivered yet; runs of any number of ranks take from them."""

    count: int
    unit: int = 1
    remaining: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.remaining = list(range(self.count))

    def deal(self, world_size: int, tail: str = "pad") -> list[list[tuple[int, bool]]]:
        """Deal what remains: of each rank the (position, is own) in order; not its own are pads."""
        unit, rest = self.unit, self.remaining
        shares: list[list[tuple[int, bool]]] = [[] for _ in range(world_size)]
        for first in range(0, len(rest), unit * world_size):
            row = rest[first : first + unit * world_size]
            groups = [row[rank * unit : (rank + 1) * unit] for rank in range(world_size)]
            length = max(map(len, groups)) if tail == "pad" else min(map(len, groups))
            for rank, group in enumerate(groups):
                own = [(position, True) for position in group]
                pads = [(rank * unit + i - len(row)) % self.count for i in range(len(group), unit)]
                shares[rank] += (own + [(pad, False) for pad in pads])[:length]
        return shares

    def deliver(self, shares: Sequence[Sequence[tuple[int, bool]]]) -> None:
        """Remove what ranks delivered as their own."""
        gone = {position for share in shares for position, is_own in share if is_own}
        self.remaining = [position for position in self.remaining if position not in gone]
