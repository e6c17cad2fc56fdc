"""Forked children that report through a pipe and always end, and the law of reading on in them."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from traceback import format_exc
from typing import Any

from framefeed.decode._video_decoder import VideoDecoder
from framefeed.errors import FramefeedError
from framefeed.index import FrameIndex, build_index
from tests.patience import PATIENCE_SECONDS

Work = Callable[[], str]


class Child:
    """A forked process that does one thing.

    Args:
        work: Called in the child; what it returns is its report.
    """

    def __init__(self, work: Work) -> None:
        self._pipe, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                try:
                    said = work()
                except BaseException:
                    said = format_exc()
                os.write(end, said.encode()[-60_000:])
            finally:
                os._exit(0)
        os.close(end)

    def report(self) -> str:
        """Wait for the report; a child that hangs is killed, and its report says so."""
        until, said = monotonic() + PATIENCE_SECONDS, b""
        try:
            while select.select([self._pipe], [], [], max(0.0, until - monotonic()))[0]:
                part = os.read(self._pipe, 65_536)
                if not part:
                    return said.decode()
                said += part
            return f"hung after {said.decode()!r}"
        finally:
            os.close(self._pipe)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def result_of_child(work: Callable[[], Any]) -> Any:
    """Do something in a forked child, which may change its whole process; the result is one of JSON."""
    said = Child(lambda: json.dumps(work())).report()
    try:
        return json.loads(said)
    except ValueError:
        raise AssertionError(said) from None


def frame_hashes(decoder: VideoDecoder, numbers: range) -> list[str]:
    """Hash of each frame, or the type of the error in its place."""
    hashes = []
    for number in numbers:
        try:
            hashes.append(hashlib.blake2b(decoder[number].tobytes(), digest_size=6).hexdigest())
        except FramefeedError as error:
            hashes.append(type(error).__name__)
    return hashes


def sequential(path: Path, index: FrameIndex, stop: int) -> list[str]:
    """What reading from the beginning on gives, in one process."""
    with VideoDecoder(path, frame_index=index) as decoder:
        return frame_hashes(decoder, range(stop))


def read_on_in_children(path: Path, most: int = 40, num_children: int = 2) -> list[str]:
    """Read some frames, fork, and read on in the parent and in children at the same time; say what is not exact."""
    index = build_index(path)
    stop = min(len(index), most)
    expected = sequential(path, index, stop)
    decoder = VideoDecoder(path, frame_index=index)
    half = max(1, stop // 3)
    actual = [] if frame_hashes(decoder, range(half)) == expected[:half] else ["before the fork"]
    children = [
        Child(lambda: " ".join(frame_hashes(decoder, range(half, stop)) + frame_hashes(decoder, range(half))))
        for _ in range(num_children)
    ]
    if frame_hashes(decoder, range(half, stop)) != expected[half:]:
        actual.append("in the parent")
    reports = [child.report() for child in children]
    right = " ".join(expected[half:] + expected[:half])
    return actual + [f"in a child: {report[-300:]}" for report in reports if report != right]
