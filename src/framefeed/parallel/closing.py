"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosedByWith(ABC):
    """A context manager that is its own value and calls `close` at the end."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> object:
        """Let go of what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:
            self._hurry()
        self.close()

    def _hurry(self) -> None:  # noqa: B027 - threads cannot be hurried
        """Have `close` wait for as little as possible: somebody is at the keyboard."""
