"""What a part finds: rows in a file, one JSON object a line, so that those of a part that crashes are kept."""

from __future__ import annotations

import ctypes
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


class Unavailable(Exception):
    """Something is not on this machine; the message says what."""


@dataclass(frozen=True)
class Trial:
    """What a part knows, and where its rows go.

    Attributes:
        media: Folder of the clips and pictures.
        output: File of the rows.
        part: Number of the part.
        deadline: Time of ``time.monotonic`` after which no row begins.
        is_rehearsal: Whether the part runs on CPU tensors.
        by_hand: Whether a rehearsal compiles, and runs the kernel in Triton's interpreter.
        packed: Names of the modules that come from the pack.
    """

    media: Path
    output: Path
    part: int
    deadline: float
    is_rehearsal: bool = False
    by_hand: bool = False
    packed: tuple[str, ...] = ()

    def add(self, name: str, state: str = "measured", **values: Any) -> None:
        """Write a row."""
        row = {"part": self.part, "name": name, "state": state, **values}
        with self.output.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row, default=str) + "\n")

    def run(self, name: str, measure: Callable[..., dict[str, Any] | None], *arguments: Any, **labels: Any) -> bool:
        """Write the row that a function gives, or why it failed; return whether it did not fail.

        A function that writes rows itself gives None.
        """
        try:
            if time.monotonic() > self.deadline:
                raise Unavailable("the time of this part was used up")
            values = measure(*arguments)
        except Unavailable as reason:
            self.add(name, "not measured", **labels, reason=str(reason))
        except Exception as error:  # every row stands for itself
            self.add(name, "failed", **labels, reason=describe(error))
        else:
            if values is not None:
                self.add(name, "rehearsed" if self.is_rehearsal else "measured", **labels, **values)
            return True
        return False

    def read_list(self) -> dict[str, Any]:
        """Read what the media are for."""
        listed: dict[str, Any] = json.loads((self.media / "media.json").read_text(encoding="utf-8"))
        return listed


def describe(error: BaseException) -> str:
    """Write an error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def require_module(name: str) -> ModuleType:
    """Import a module."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module that finds no library of its own raises anything
        raise Unavailable(f"no {name}: {describe(error)}") from error


def require_library(name: str) -> None:
    """Load a shared library of the driver."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        raise Unavailable(f"no {name}: {error}") from error


def require_driver() -> None:
    """Load the driver's library."""
    try:
        require_library("libcuda.so.1")
    except Unavailable as reason:
        raise Unavailable(f"no driver: {reason}") from reason


def require_cuda() -> Any:
    """Import torch with a device that it can use."""
    require_driver()  # before torch, whose import takes longer than all else where there is none
    torch = require_module("torch")
    if torch.version.cuda is None:
        raise Unavailable(f"no CUDA in torch {torch.__version__}")
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no CUDA device, although libcuda.so.1 loads")
    torch.zeros(1, device="cuda")  # makes torch's context, and the calling thread's current one
    return torch


def require_decoder() -> Any:
    """Import torch with a device that has a video decoder."""
    require_driver()
    require_library("libnvcuvid.so.1")
    return require_cuda()


def refuse_rehearsal(trial: Trial) -> None:
    """Leave a part that has no form without a GPU, with the reason that this machine gives."""
    if trial.is_rehearsal:
        require_decoder()
        raise Unavailable("a rehearsal does not use the GPU")
