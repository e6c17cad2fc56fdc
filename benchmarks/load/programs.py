"""Loops that run as programs: what they are given, and how they are measured from outside, with all that they start.

A program prints "ready" after its imports, "first" at its first batch and "done" at its last, and waits after each.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.processes import HOUR, family_megabytes, read_clocks_of
from framefeed.bench import SIZE, BenchVideo, Reading
from framefeed.catalog import Catalog
from framefeed.decode import Pixels
from framefeed.plan import Dense, EpochPlan, plan_clips
from framefeed.scanning import scan

Mark = Literal["ready", "first", "done"]
FRAMES, STRIDE, BATCH, WORKERS, SEED = 16, 4, 8, 2, 0
SPAN = (FRAMES - 1) * STRIDE + 1
FILES, CLIPS = 25, 6
"""Videos, and clips of each."""
CHECKED_BATCHES = 2
_LOOPS = Path(__file__).with_name("loops.py")
WATCH = 0.02
"""Seconds between two readings of memory."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that runs as a program, which calls it ``word``."""

    name: str
    word: str
    prelude: str = ""  # Python that is run before the program, such as an import
    needs: tuple[str, ...] = ()  # modules of the baselines without which it cannot run
    program: Path = _LOOPS

    @property
    def library(self) -> str:
        """The library that may fail without ending the row; empty for ours."""
        return self.word.split()[0].removeprefix("framefeed")

    def command(self, specification: Path) -> list[str]:
        """The command line; nothing of its folder can be imported."""
        path = os.fspath(self.program)
        if not self.prelude:
            return [sys.executable, "-P", path, self.word, os.fspath(specification)]
        code = f"import runpy, sys; {self.prelude}; runpy.run_path({path!r}, globals(), '__main__')"
        return [sys.executable, "-P", "-c", code, self.word, os.fspath(specification)]


@dataclass(frozen=True, slots=True)
class ClipSet:
    """The clips of an epoch, as a file for programs; all loops read the same ones in the same order."""

    plan: EpochPlan
    specification: Mapping[str, Any]
    folder: Path

    def write(self, most_batches: int | None = None, dump: Path | None = None) -> Path:
        """Write the file for a program, which ends after some batches, or keeps them in a file."""
        name = f"clips_{most_batches}{'_kept' if dump else ''}.json"
        path = self.folder / name
        limits = {"most_batches": most_batches, "dump": None if dump is None else os.fspath(dump)}
        path.write_text(json.dumps({**self.specification, **limits}), encoding="utf-8")
        return path


def make_clip_set(videos: Sequence[BenchVideo], folder: Path, mappings: Mapping[str, str]) -> ClipSet:
    """Scan the videos, and plan an epoch of random clips.

    The mappings by path are TorchCodec's frame mappings, which stand for the index that we have.
    """
    catalog_file, mappings_file = folder / "catalog.parquet", folder / "mappings.json"
    scan([str(video.path) for video in videos], out=catalog_file, progress=False)
    mappings_file.write_text(json.dumps(dict(mappings)), encoding="utf-8")
    plan = plan_clips(
        Catalog.open(catalog_file), Dense(FRAMES, stride=STRIDE), clips_per_video=CLIPS, seed=SEED, size=(SIZE, SIZE)
    )
    clips, windows = [], []
    for position in range(len(plan)):
        request, index = plan[position], plan.catalog.frame_index(plan[position].row)
        ordinals = np.asarray(request.indices)
        half = index.step / 2 * float(index.time_base)
        path = str(request.source)
        clips.append((path, ordinals.tolist()))
        window = [float(index.pts_seconds[ordinals[0]]) - half, float(index.pts_seconds[ordinals[-1]]) + half]
        windows.append((path, window, (ordinals - ordinals[0]).tolist()))
    specification = {
        "catalog": os.fspath(catalog_file),
        "mappings": os.fspath(mappings_file),
        "clips": clips,
        "windows": windows,
        "clips_per_video": CLIPS,
        "frames": FRAMES,
        "stride": STRIDE,
        "side": SIZE,
        "batch": BATCH,
        "workers": WORKERS,
        "seed": SEED,
    }
    return ClipSet(plan, specification, folder)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a program had taken at each of its marks, since it was started, and the memory of its family at most."""

    of: Mapping[Mark, Reading]
    peak_megabytes: float


def run_loop(loop: Loop, specification: Path, *, watch: float | None = None) -> Marks:
    """Run a loop in a process of its own, over a file of `ClipSet.write`; raise SubprocessError where it fails.

    ``watch``: seconds between two readings of its memory, which cost it time; None for no reading.
    """
    # Installed libraries have their bytecode; a checkout has not where the environment forbids writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["GLOG_log_dir"] = os.fspath(
        specification.parent
    )  # SPDL's log, else left in the folder of temporary files
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    began, of, peak = time.perf_counter(), dict[Mark, Reading](), 0.0
    with subprocess.Popen(loop.command(specification), env=environment, **pipes) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            for mark in ("ready", "first", "done"):
                while watch is not None and not select.select([child.stdout], [], [], watch)[0]:
                    peak = max(peak, family_megabytes(child.pid))
                word = child.stdout.readline().strip()
                if word != mark:
                    raise subprocess.SubprocessError(f"{loop.name} ended with {child.wait(HOUR)} before {mark!r}")
                now = read_clocks_of(child.pid)
                of[mark] = Reading(now.cpu, now.wall - began)
                child.stdin.write("\n")
            child.stdin.close()
            if child.wait(HOUR):
                raise subprocess.SubprocessError(f"{loop.name} ended with {child.returncode}")
        finally:
            with suppress(OSError):
                child.kill()
    return Marks(of, peak)


def take_batches(loop: Loop, clips: ClipSet) -> Pixels:
    """The first clips that a loop gives, uint8 [N, T, 3, H, W]."""
    dump = clips.folder / "kept.npy"
    try:
        run_loop(loop, clips.write(CHECKED_BATCHES, dump))
        kept: Pixels = np.load(dump)
    finally:
        dump.unlink(missing_ok=True)
    return kept
