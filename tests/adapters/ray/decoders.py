"""Decoders that say what happens in the tasks which use them."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from framefeed.decode import BaseDecoder, as_decoder


class Unsendable(BaseDecoder):
    """A decoder with what cannot be pickled."""

    name = "unsendable"

    def __init__(self) -> None:
        self.lock = threading.Lock()


class OfFolder(BaseDecoder):
    """A decoder that writes into a folder."""

    name = "of_folder"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has_made(self, name: str) -> bool:
        """Make a file, and say whether no process has made it before."""
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def decode(self, source: Any, index: Any, slots: Any) -> Any:
        """Decode as every decoder does."""
        return as_decoder("auto").decode(source, index, slots)


class EndsItsProcess(OfFolder):
    """A decoder whose first calls end their worker processes, as the system does where memory ran out."""

    def __init__(self, folder: Path, times: int) -> None:
        super().__init__(folder)
        self.times = times

    def decode(self, source: Any, index: Any, slots: Any) -> Any:
        """End the process, or decode."""
        if any(self.has_made(f"end {number}") for number in range(self.times)):
            os._exit(1)
        return super().decode(source, index, slots)


class Meets(OfFolder):
    """A decoder whose first call waits for another process that decodes, and makes the file "met" if one comes.

    Each call notes its node.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(folder)
        self.seconds = seconds
        os.mkfifo(folder / "pipe")

    def decode(self, source: Any, index: Any, slots: Any) -> Any:
        """Wait for another process, or tell the one that waits; and decode."""
        import ray

        self.has_made(f"node {ray.get_runtime_context().get_node_id()}")
        if self.has_made("first"):
            pipe = os.open(self.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
            if select.select([pipe], [], [], self.seconds)[0]:
                self.has_made("met")
            os.close(pipe)
        else:
            with suppress(OSError):  # none waits
                os.close(os.open(self.folder / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        return super().decode(source, index, slots)
