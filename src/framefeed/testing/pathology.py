"""What a pathology is: a file that is hard to read, what is in it, and the proof that it is as hard as it claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pathology:
    """A named recipe for one file that readers get wrong.

    Attributes:
        name: File name, with the ending that its container has.
        number: Case of the failure catalogue, such as ``"M04"``.
        write: Writes the file to a path.
        stamps: Numbers of the frames that a sequential decode gives, in its order; None where damage makes them
            unpredictable, empty where there is no video.
        check: Raises AssertionError unless the file has the property that it is named for.
    """

    name: str
    number: str
    write: Callable[[Path], None]
    stamps: tuple[int, ...] | None
    check: Callable[[Path], None]
