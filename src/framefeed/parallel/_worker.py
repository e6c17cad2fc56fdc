"""The program of a worker process, and the messages between it and the process that started it.

It is run as a file, ``python -P _worker.py CHANNEL LIFELINE``, and imports the standard library alone: a worker loads
only the modules that its function imports, and the main module of the user's program is not run a second time.
Both arguments are numbers of inherited sockets.

A message is a header (kind, number of parts, bytes of the first part), the bytes of each further part, and the parts:
a pickle of protocol 5 and the large buffers that it refers to, so that these are written and read without a copy.

=========  =========  ==============================================================
direction  kind       content
=========  =========  ==============================================================
to         PATH       ``sys.path``; comes first
to         FUNCTION   the function of the following items; answered by READY
to         ITEM       the argument of a call; each is answered by one of the following
from       READY      nothing: the function and the modules that it needs are loaded, or cannot be
from       VALUE      the result of the function
from       ERROR      (the exception that it raised, its traceback as text)
from       FOREIGN    the same for one that cannot be pickled: (its name and message, its traceback as text)
from       UNUSABLE   the same if the function or the item could not be unpickled here
from       UNSENDABLE the same if the result could not be pickled
=========  =========  ==============================================================
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from signal import SIGKILL
from typing import Any, NoReturn

Buffer = bytes | bytearray | memoryview
Parts = Sequence[Buffer]
Message = tuple[bytes, Parts]

PATH, FUNCTION, ITEM = b"P", b"F", b"I"
READY, VALUE, ERROR, FOREIGN, UNUSABLE, UNSENDABLE = b"R", b"V", b"E", b"X", b"U", b"S"

# Of Linux.
_F_SETSIG: int | None = getattr(fcntl, "F_SETSIG", None)

_HEADER = struct.Struct("<cIQ")

# Smaller buffers are inside the pickle: a copy of 16 KiB costs less than two more system calls.
_OUT_OF_BAND_BYTES = 1 << 14


def dumps(value: object) -> Parts:
    """Pickle a value; large buffers are not copied."""
    buffers: list[Buffer] = []

    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= _OUT_OF_BAND_BYTES:
            buffers.append(raw)
            return False
        return True

    return [pickle.dumps(value, protocol=5, buffer_callback=is_inside), *buffers]


def loads(parts: Parts) -> Any:
    """Unpickle a value; large buffers are not copied."""
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - from the other end of a socket that has two


def send(write: Callable[[Buffer], int], kind: bytes, parts: Parts) -> None:
    """Write a message. ``write`` writes some bytes and returns how many; ``parts`` are as `dumps` gives them."""
    lengths = [len(part) for part in parts]
    start = _HEADER.pack(kind, len(parts), lengths[0]) + struct.pack(f"<{len(parts) - 1}Q", *lengths[1:])
    for buffer in (b"".join([start, parts[0]]), *parts[1:]):
        left = memoryview(buffer)
        while left:
            left = left[write(left) :]


def receive(read: Callable[[memoryview], int]) -> Message:
    """Read a message. ``read`` reads some bytes into memory and returns how many; 0 at the end."""
    kind, count, first = _HEADER.unpack(_read_exactly(read, _HEADER.size))
    others = struct.unpack(f"<{count - 1}Q", _read_exactly(read, 8 * (count - 1)))
    return kind, [_read_exactly(read, length) for length in (first, *others)]


def _read_exactly(read: Callable[[memoryview], int], length: int) -> bytearray:
    buffer = bytearray(length)
    left = memoryview(buffer)
    while left:
        count = read(left)
        if not count:
            raise EOFError
        left = left[count:]
    return buffer


def _attempt(function: Callable[..., Any], argument: object) -> tuple[Any, BaseException | None]:
    try:
        return function(argument), None
    except BaseException as error:
        return None, error


def _make_answer(loaded: tuple[Any, BaseException | None], parts: Parts) -> Message:
    function, error = loaded
    if error is not None:
        return UNUSABLE, dumps(_describe(error))
    item, error = _attempt(loads, parts)
    if error is not None:
        return UNUSABLE, dumps(_describe(error))
    value, error = _attempt(function, item)
    if error is not None:
        answer, unsendable = _attempt(dumps, (error, _describe(error)[1]))
        if unsendable is None:
            # Many exceptions can be pickled and not rebuilt: those with an __init__ of their own.
            _, unsendable = _attempt(loads, answer)
        return (ERROR, answer) if unsendable is None else (FOREIGN, dumps(_describe(error)))
    answer, error = _attempt(dumps, value)
    return (VALUE, answer) if error is None else (UNSENDABLE, dumps(_describe(error)))


def _describe(error: BaseException) -> tuple[str, str]:
    # Imported here: it takes as long as all other imports together, and few workers need it.
    from traceback import format_exception, format_exception_only

    # The first step of the traceback is _attempt.
    steps = error.__traceback__ and error.__traceback__.tb_next
    return "".join(format_exception_only(error)).strip(), "".join(format_exception(type(error), error, steps))


def _end_with_parent(lifeline: int) -> None:
    """Make the kernel end this process when its parent ends.

    The other end of the lifeline is open only in the parent, and never written to. When it closes, the kernel sends
    SIGKILL, which also ends a process that is stopped or hangs in native code. Where the signal cannot be chosen, it is
    SIGIO, which ends a process that has no handler for it when it runs.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    if _F_SETSIG is not None:
        fcntl.fcntl(lifeline, _F_SETSIG, SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(lifeline, 1)
    except BlockingIOError:
        return
    sys.exit()  # the parent has ended already


def main(channel: int, lifeline: int) -> None:
    """Call the function on one item after another until the parent closes the channel."""
    _end_with_parent(lifeline)
    write = partial(os.write, channel)
    loaded: tuple[Any, BaseException | None] = None, None
    while True:
        try:
            kind, parts = receive(lambda buffer: os.readv(channel, [buffer]))
            if kind == PATH:
                sys.path[:] = loads(parts)
            elif kind == FUNCTION:
                loaded = _attempt(loads, parts)
                send(write, READY, [b""])
            else:
                send(write, *_make_answer(loaded, parts))
            del parts
        except (EOFError, ConnectionError):
            return


def _exit_quickly() -> NoReturn:
    # The rest of the interpreter's finalisation takes 0.1 s if large libraries are loaded, and nothing needs it.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
    _exit_quickly()
