"""A mapping of bounded weight that drops what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Values by key, the most recently used last. It takes no lock: threads that share one hold a lock of their own.

    >>> recent = Lru[str, str](max_weight=2)
    >>> recent.put("a", "1"); recent.put("b", "2"); recent.get("a")
    '1'
    >>> recent.put("c", "3"); list(recent)
    ['a', 'c']

    Args:
        max_weight: Largest sum of the weights of all values.
        weigh: Weight of a value, the same each time it is asked; by default each weighs 1.
        min_count: Number of values that are kept whatever they weigh.
        max_count: Largest number of values; None sets no bound.
    """

    def __init__(
        self,
        max_weight: int,
        weigh: Callable[[V], int] | None = None,
        *,
        min_count: int = 0,
        max_count: int | None = None,
    ) -> None:
        self.max_weight = max_weight
        self._weigh = weigh or (lambda _: 1)
        self._min_count = min_count
        self._max_count = max_count
        self._values: OrderedDict[K, V] = OrderedDict()
        self.weight = 0
        """Sum of the weights of all values."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def get(self, key: K) -> V | None:
        """Return the value of a key, which is now the one used last; None if there is none."""
        value = self._values.get(key)
        if value is not None:
            try:
                self._values.move_to_end(key)
            except KeyError:  # a finaliser, which ran between the two calls, has put others
                pass
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value as the one used last, and drop those used longest ago until the weight is allowed."""
        self.pop(key)
        values, most = self._values, inf if self._max_count is None else self._max_count
        values[key] = value
        self.weight += self._weigh(value)
        while len(values) > most or (self.weight > self.max_weight and len(values) > self._min_count):
            self.weight -= self._weigh(values.popitem(last=False)[1])

    def pop(self, key: K) -> V | None:
        """Remove the value of a key and return it; None if there is none."""
        value = self._values.pop(key, None)
        if value is not None:
            self.weight -= self._weigh(value)
        return value

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
        self.weight = 0
