"""The memory tier: stored bytes of the frames that were used last, up to a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from framefeed.cache.stored import Kind
from framefeed.parallel.forking import renew_after_fork

_ENTRY_NBYTES = 400
"""What a frame costs besides its bytes, about: two dictionary slots, the key, the objects."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Stored bytes of one frame in memory.

    Attributes:
        kind: How they are to be read.
        data: The bytes.
        stamp: Of the source file when the frame was decoded.
        content: Hash of the encoded bytes that the frame depends on.
    """

    kind: Kind
    data: bytes
    stamp: int
    content: int


class MemoryTier:
    """Frames by stream key and number, the least recently used forgotten first. Safe to share between threads.

    Args:
        max_bytes: What all of them may weigh; 0 keeps none.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._frames: OrderedDict[tuple[bytes, int], Held] = OrderedDict()
        self._nbytes = 0
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def nbytes(self) -> int:
        """What the frames weigh."""
        return self._nbytes

    def get(self, key: bytes, numbers: Sequence[int]) -> list[Held | None]:
        """Look some frames of one stream up."""
        if not self._frames:
            return [None] * len(numbers)
        with self._lock:
            return [self._use((key, number)) for number in numbers]

    def _use(self, name: tuple[bytes, int]) -> Held | None:
        held = self._frames.get(name)
        if held is not None:
            self._frames.move_to_end(name)
        return held

    def put(self, key: bytes, number: int, held: Held) -> None:
        """Keep a frame, and forget others for it."""
        nbytes = len(held.data) + _ENTRY_NBYTES
        if nbytes > self.max_bytes:
            return
        with self._lock:
            self._forget((key, number))
            self._frames[key, number] = held
            self._nbytes += nbytes
            while self._nbytes > self.max_bytes:
                self._forget(next(iter(self._frames)))

    def drop(self, key: bytes, number: int) -> None:
        """Forget a frame."""
        with self._lock:
            self._forget((key, number))

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._frames.clear()
            self._nbytes = 0

    def _forget(self, name: tuple[bytes, int]) -> None:
        held = self._frames.pop(name, None)
        if held is not None:
            self._nbytes -= len(held.data) + _ENTRY_NBYTES
