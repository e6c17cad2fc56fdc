"""System calls and decoders that fail at the n-th call, as a machine does that runs out of something."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import av
import av.error
import pytest

from framefeed.decode.backends import pyav_pools
from framefeed.decode.backends.pyav_pools import thread_pools
from framefeed.media.container import VideoContainer

CALLS = {"open": ("open",), "stat": ("stat", "fstat"), "read": ("pread", "preadv")}


class Fault:
    """Counts calls, and fails at one of them, or from it on.

    Args:
        number: errno.
        at: Call that fails, the first is 0; None for none.
        stays: Whether all calls after it fail too.
    """

    def __init__(self, number: int, at: int | None, *, stays: bool = False) -> None:
        self.number = number
        self.at = at
        self.stays = stays
        self.calls = 0

    @property
    def is_due(self) -> bool:
        """Whether the call that is being made fails."""
        self.calls += 1
        called = self.calls - 1
        return self.at is not None and (called == self.at or (self.stays and called > self.at))


@contextmanager
def failing_calls(kind: str, fault: Fault) -> Iterator[None]:
    """Have the system calls of a kind fail."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS[kind]:
            patch.setattr(os, name, _failing(getattr(os, name), fault))
        yield


def _failing(real: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if fault.is_due:
            raise OSError(fault.number, os.strerror(fault.number))
        return real(*args, **kwargs)

    return call


class _FailingDecoder:
    def __init__(self, real: Any, fault: Fault) -> None:
        object.__setattr__(self, "real", real)
        object.__setattr__(self, "fault", fault)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)

    def decode(self, packet: Any) -> Any:
        if self.fault.is_due:
            kind = av.error.classes.get(self.fault.number, av.error.OSError)
            raise kind(self.fault.number, os.strerror(self.fault.number), "avcodec_send_packet()")
        return self.real.decode(packet)


@contextmanager
def failing_decoders(fault: Fault) -> Iterator[None]:
    """Have the decoders of containers fail, and those without."""
    real, bare = VideoContainer.decoder, pyav_pools.bare_context
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VideoContainer, "decoder", lambda container: _FailingDecoder(real(container), fault))
        patch.setattr(pyav_pools, "bare_context", lambda *given: _FailingDecoder(bare(*given), fault))
        thread_pools().clear()
        yield
        thread_pools().clear()
