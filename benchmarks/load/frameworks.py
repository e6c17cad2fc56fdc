"""Rows "tensorflow" and "jax": batches of a loader as a framework takes them, against the loader's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from framefeed.bench import Comparison, Contender, Findings, Row, Timings, compare_times, ready
from framefeed.bench.baselines import Peers
from framefeed.cache import FrameCache
from framefeed.errors import MissingMedia
from framefeed.load import ClipLoader
from framefeed.plan import Uniform, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

FRAMES, SIZE, BATCH, WORKERS = 16, 224, 8, 2
"""19.3 MB a batch."""
VIDEOS, CLIPS = 96, 4
"""Videos, whose 231 MB of stored frames no cache of a processor holds, and clips of each: an epoch of 48 batches."""
OWN = "ClipLoader"


def frameworks_row(key: str, folder: Path, stack: ExitStack) -> Row:
    """Epochs from a warm cache of raw frames; the framework is imported now, and only where the row is asked for."""
    peers = Peers.find([f"benchmarks.peers.{key}"])
    if key not in peers.modules:
        raise MissingMedia(f"it needs {key}: {peers.missing[key]}")
    module = peers.modules[key]
    return adapter_row(key, module.NAME, module.open_epochs, folder, stack, module.VERSIONS[key])


def adapter_row(
    key: str,
    name: str,
    open_epochs: Callable[[ClipLoader], Callable[[], Iterable[Any]]],
    folder: Path,
    stack: ExitStack,
    version: str,
) -> Row:
    """Compare a framework's iterable over a loader with the loader itself."""
    media = folder / "media"
    media.mkdir()
    for number in range(VIDEOS):
        write_clip(media / f"{number}.mp4", ClipSpec(FRAMES, height=96, width=128, seed=number))
    plan = plan_clips(scan(media, progress=False), Uniform(FRAMES), clips_per_video=CLIPS, seed=0, size=(SIZE, SIZE))
    cache = stack.enter_context(FrameCache(folder / "cache", codec="raw"))
    loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH, workers=WORKERS, cache=cache))
    exhaust(loader)

    def run_own(number: int) -> None:
        exhaust(loader)

    epochs = open_epochs(loader)

    def run_adapter(number: int) -> None:
        exhaust(epochs())

    def conclude(timings: Timings) -> Findings:
        return Findings(
            [Comparison(key, f"the speed of the loader itself, of {name}", compare_times(timings, name, OWN))]
        )

    megabytes = BATCH * FRAMES * 3 * SIZE * SIZE / 1e6
    title = f"{name} (version {version}): batches of {megabytes:.1f} MB from a warm raw cache, {WORKERS} threads"
    contenders = [Contender(OWN, ready(run_own), amount=len(loader))]
    contenders.append(Contender(name, ready(run_adapter), library=key, amount=len(loader)))
    return Row(key, title, contenders, conclude, unit="batches", warms_up=True)


def exhaust(batches: Iterable[Any]) -> None:
    """Take every batch of an epoch, and drop it."""
    for batch in batches:
        del batch
