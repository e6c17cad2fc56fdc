"""System calls and decoders that fail at the n-th call, as a machine does that runs out of something."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import av
import av.error
import pytest

from framefeed.media import _libav_errors
from tests.decode.faults import changed_decoders

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
        self.is_failing = False

    @property
    def is_due(self) -> bool:
        """Whether the call that is being made fails."""
        self.calls += 1
        called = self.calls - 1
        self.is_failing = self.at is not None and (called == self.at or (self.stays and called > self.at))
        return self.is_failing


def failing(kind: str, fault: Fault) -> AbstractContextManager[None]:
    """Have system calls of a kind, or decoders, fail."""
    return failing_decoders(fault) if kind == "decode" else failing_calls(kind, fault)


@contextmanager
def failing_calls(kind: str, fault: Fault) -> Iterator[None]:
    """Have the system calls of a kind fail."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS[kind]:
            patch.setattr(os, name, failing_call(getattr(os, name), fault))
        yield


def failing_call(real: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    """Make a function that fails with an errno when it is due, and else calls the real one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if fault.is_due:
            raise OSError(fault.number, os.strerror(fault.number))
        return real(*args, **kwargs)

    return call


@contextmanager
def failing_decoders(fault: Fault) -> Iterator[None]:
    """Have decoders fail; as they lack memory, so does the system."""
    real = _libav_errors.is_memory_there

    def decode(decoder: Any, packet: Any) -> Any:
        if fault.is_due:
            kind = av.error.classes.get(fault.number, av.error.OSError)
            raise kind(fault.number, os.strerror(fault.number), "avcodec_send_packet()")
        return decoder.decode(packet)

    with pytest.MonkeyPatch.context() as patch, changed_decoders(decode):
        if fault.number == errno.ENOMEM:
            patch.setattr(_libav_errors, "is_memory_there", lambda nbytes: not fault.is_failing and real(nbytes))
        yield
