"""List the types of framefeed that a frame passes on its way from a scan to a batch, where it goes from room to room.

One small MP4 file is scanned, planned and loaded in this process. A type is counted where a function of one room gets
an instance from another room, or gives one back, and the instance holds facts or pixels of the file or of its frames.
`parallel` and the modules that all rooms share carry values of any type; what they call counts for their own caller.
``OTHERS`` names the types that cross too but hold none, with what they are instead: a new type counts by itself.

usage: python -m benchmarks.frame_path      (in the project's folder)
"""

from __future__ import annotations

import sys
import tempfile
import threading
from types import FrameType
from typing import Any

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip

OTHERS = {
    "an option or a rule": "Limits Uniform",
    "a way to read": "CountedReads FileReader libav_errors",
    "a worker or a decoder": "AutoDecoder ClipWorker",
    "the loop and its statistics": "BatchIterator ClipLoader DecodeCounts WorkCost",
}
"""Types that cross the border of a room, and are not about one frame."""


class Crossings:
    """Types of the values that were passed between rooms, in the order met."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Take an event of ``sys.setprofile``."""
        callee = _find_room(frame)
        caller = frame.f_back
        while caller is not None and not _find_room(caller):
            caller = caller.f_back
        if not callee or event not in ("call", "return") or (caller is not None and _find_room(caller) == callee):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in names] if event == "call" else [value]
        for each in values:
            kind = type(each)
            if kind.__module__.startswith("framefeed."):
                caller_room = "the user" if caller is None else _find_room(caller)
                self.found.setdefault(kind.__name__, f"{kind.__module__} ({caller_room} and {callee})")


def _find_room(frame: FrameType) -> str:
    """Name the room of the code that runs; empty for other packages, and for code that carries values of any type."""
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    room: str = rest.partition(".")[0]
    return "" if package != "framefeed" or room == "parallel" or room.startswith("_") else room or "framefeed"


def main() -> int:
    """Scan, plan and load one file; print the types that are counted, those that are not, and the number."""
    crossings = Crossings()
    with tempfile.TemporaryDirectory() as folder:
        write_clip(f"{folder}/clip.mp4", ClipSpec())
        threading.setprofile(crossings)
        sys.setprofile(crossings)
        plan = ff.plan_clips(ff.scan([folder], workers=1), ff.Uniform(4), seed=0)
        with ff.ClipLoader(plan, batch_size=1, workers=1) as loader:
            for _ in loader:
                pass
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    reasons = {name: reason for reason, names in OTHERS.items() for name in names.split()}
    counted = {name: where for name, where in crossings.found.items() if name not in reasons}
    for name, where in counted.items():
        print(f"{name:20} {where}")
    for name in sorted(crossings.found.keys() & reasons.keys()):
        print(f"not counted: {name:20} {reasons[name]}")
    print(f"types that a frame passes between rooms: {len(counted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
