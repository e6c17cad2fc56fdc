"""Let a function fail at random frames, in threads and in processes, and compare what `map_video` raises.

Run as a program (``make chaos``): ``python -m tests.transcode.agreement --seeds 200 --log build/chaos_map_errors.log``.
Each seed draws a small video, an output, options and frames at which the function fails, or gives a picture of another
size. Threads and processes then raise an error of the same kind, about one of these frames, and never about a process
that framefeed itself has ended. Where the error does not depend on which worker comes first, it is the same error.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip
from tests.seeds import read_options, report_seeds, try_seeds
from tests.transcode.functions import Faulty

RATE = 12
"""Frames a second of the videos: segments are as short as they can be, 12 to 24 frames."""
FAULTS: dict[str, type[BaseException]] = {
    "raise": ff.LoadError, "size": ff.UsageError, "type": ff.UsageError, "memory": ff.ResourceExhausted,
    "exit": SystemExit,
}  # fmt: skip

MapVideo = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """What is mapped at a seed.

    Attributes:
        spec: The video.
        out: Name of the output; None for an iterator.
        options: Of both runs.
        function: Fails at some frames.
        is_certain: Whether the error does not depend on which worker comes first.
    """

    spec: ClipSpec
    out: str | None
    options: dict[str, Any]
    function: Faulty
    is_certain: bool

    @classmethod
    def draw(cls, seed: int) -> Case:
        rng = random.Random(seed)
        spec = ClipSpec(num_frames=rng.randint(60, 120), gop=rng.choice([5, 16, 250]), fps=RATE, height=32, width=32)
        out = rng.choice([None, "out.mp4", "out.mp4", "images"])
        # An iterator gives any result.
        fault = rng.choice(["raise", "raise", "memory", "exit"] + ([] if out is None else ["type"]))
        if out == "out.mp4":
            fault = rng.choice([fault, "size"])
        first = rng.randrange(1, spec.num_frames)
        frames = rng.choice([
            range(first, first + 1), range(first, spec.num_frames),
            sorted(rng.sample(range(spec.num_frames), rng.randint(2, 8))),
        ])  # fmt: skip
        options = {"workers": rng.choice([1, 2, 2, 3]), "batch_size": rng.choice([None, None, 1, 4])}
        is_certain = out is None or ((options["workers"] == 1 or len(frames) == 1) and fault != "size")
        return cls(spec, out, options, Faulty(fault, frozenset(frames)), is_certain)

    def run(self, folder: Path, kind: str, run: MapVideo) -> BaseException:
        """Map the video, and return the error."""
        (folder / kind).mkdir()
        clip = write_clip(folder / kind / "clip.mp4", self.spec)
        try:
            if self.out is None:
                with run(clip, self.function, kind=kind, **self.options) as mapped:
                    for _ in mapped:
                        pass
            else:
                run(clip, self.function, folder / kind / self.out, kind=kind, **self.options)
        except (ff.FramefeedError, SystemExit) as error:
            return error
        raise AssertionError(f"{kind}: no error")

    def check(self, error: BaseException) -> None:
        """Check that an error is the user's own."""
        assert type(error) is FAULTS[self.function.fault], repr(error)
        # A picture differs from another one: either of the two frames may come first.
        if self.function.fault in ("raise", "type"):
            size = self.options["batch_size"] or 1
            position = getattr(error, "position", None)
            assert position is not None
            assert any(position <= frame < position + size for frame in self.function.frames)


def run_seed(seed: int, run: MapVideo = ff.map_video) -> str:
    """Map with threads and with processes; return the kind of the error."""
    case = Case.draw(seed)
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as name:
        folder = Path(name)
        errors = {kind: case.run(folder, kind, run) for kind in ("threads", "processes")}
        for error in errors.values():
            case.check(error)
        threads, processes = (str(error).replace(str(folder / kind), "") for kind, error in errors.items())
    assert threads == processes or not case.is_certain, f"threads: {threads}; processes: {processes}"
    return type(errors["threads"]).__name__


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, words)
    title = f"{options.seeds} functions that fail in map_video, in threads and in processes"
    outcomes = try_seeds(lambda seed: Counter([run_seed(seed)]), options)
    return report_seeds(title, outcomes, lambda: "threads and processes raise the same error, the user's own", options)


if __name__ == "__main__":
    sys.exit(main())
