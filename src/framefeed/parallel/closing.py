"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

SOON_SECONDS = 0.5
"""Long enough for work that looks at whether it is cancelled, short enough for one who pressed Ctrl-C."""


class ClosedByWith(ABC):
    """Context manager that returns itself and calls `close` at the end."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> object:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:
            self._close_soon()
        else:
            self.close()

    def _close_soon(self) -> None:
        """Close, and wait for as little as possible: the user is at the keyboard."""
        self.close()
