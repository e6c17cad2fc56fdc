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
        units = [[(position, True) for position in rest[i : i + unit]] for i in range(0, len(rest), unit)]
        if tail == "drop":
            whole = [each for each in units if len(each) == unit]
            units = whole[: len(whole) // world_size * world_size]
        else:
            missing = -len(units) % world_size * unit + (-len(units[-1]) % unit if units else 0)
            pads = [(number % self.count, False) for number in range(missing)]
            flat = [each for group in units for each in group] + pads
            units = [flat[i : i + unit] for i in range(0, len(flat), unit)]
        return [[each for group in units[rank::world_size] for each in group] for rank in range(world_size)]

    def deliver(self, shares: Sequence[Sequence[tuple[int, bool]]]) -> None:
        """Remove what ranks delivered as their own."""
        gone = {position for share in shares for position, is_own in share if is_own}
        self.remaining = [position for position in self.remaining if position not in gone]
