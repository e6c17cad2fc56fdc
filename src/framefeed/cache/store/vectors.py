"""Several buffers in one call of the system, which may take part of them only."""

from __future__ import annotations

from collections.abc import Sequence

MOST_BUFFERS = 1024
"""Of one call: IOV_MAX."""


def after(buffers: Sequence[memoryview], nbytes: int) -> list[memoryview]:
    """What is left of buffers behind so many bytes; without empty ones at the front."""
    for number, buffer in enumerate(buffers):
        if nbytes < buffer.nbytes:
            return [buffer[nbytes:], *buffers[number + 1 :]]
        nbytes -= buffer.nbytes
    return []
