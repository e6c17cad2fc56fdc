"""Rows "tensorflow", "jax", "dali": batches of a loader as a framework takes them, against the loader's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from framefeed.bench import BenchVideo, Comparison, Contender, Findings, Row, Timings, compare_times, ready
from framefeed.bench.baselines import Peers
from framefeed.cache import FrameCache
from framefeed.errors import MissingMedia
from framefeed.load import ClipLoader
from framefeed.plan import Dense, Uniform, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

FRAMES, SIZE, BATCH, WORKERS = 16, 224, 8, 2
"""19.3 MB a batch."""
VIDEOS, CLIPS = 96, 4
"""Videos, whose 231 MB of stored frames no cache of a processor holds, and clips of each: an epoch of 48 batches."""
LARGE_CLIPS, STRIDE = 24, 4
"""Of 720p, frames 4 apart, in an epoch: 3 batches."""
OWN = "ClipLoader"
OpenEpochs = Callable[[ClipLoader], Callable[[], Iterable[Any]]]


def frameworks_row(key: str, folder: Path, stack: ExitStack) -> Row:
    """Epochs from a warm cache of raw frames; the framework is imported now, and only where the row is asked for."""
    title, open_epochs, version = find_framework(key)
    return cached_row(key, title, open_epochs, folder, stack, version)


def decoded_row(key: str, videos: Sequence[BenchVideo], stack: ExitStack) -> Row:
    """Epochs of clips of 720p, which the loader decodes and resizes."""
    title, open_epochs, version = find_framework(key)
    catalog = scan([str(video.path) for video in videos], progress=False)
    rule, count = Dense(FRAMES, stride=STRIDE), LARGE_CLIPS // len(videos)
    plan = plan_clips(catalog, rule, clips_per_video=count, seed=0, size=(SIZE, SIZE))
    # One each: a loader may work on its next epoch already.
    own, other = (stack.enter_context(ClipLoader(plan, batch_size=BATCH, workers=WORKERS)) for _ in range(2))
    origin = "decoded from 720p and resized by framefeed"
    return _compare(f"{key}-decoded", title, own, open_epochs(other), origin, version)


def find_framework(key: str) -> tuple[str, OpenEpochs, str]:
    """Find how a framework takes batches: its name in results, what opens epochs over a loader, its version."""
    peers = Peers.find([f"benchmarks.peers.{key}"])
    if key not in peers.modules:
        raise MissingMedia(f"it needs {key}: {peers.missing[key]}")
    module = peers.modules[key]
    version = next(text for name, text in peers.versions.items() if key in name)
    return module.NAME, module.open_epochs, version


def cached_row(key: str, name: str, open_epochs: OpenEpochs, folder: Path, stack: ExitStack, version: str) -> Row:
    """Compare a framework's iterable over a loader with a warm cache with the loader itself."""
    media = folder / "media"
    media.mkdir()
    for number in range(VIDEOS):
        write_clip(media / f"{number}.mp4", ClipSpec(FRAMES, height=96, width=128, seed=number))
    plan = plan_clips(scan(media, progress=False), Uniform(FRAMES), clips_per_video=CLIPS, seed=0, size=(SIZE, SIZE))
    cache = stack.enter_context(FrameCache(folder / "cache", codec="raw"))
    loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH, workers=WORKERS, cache=cache))
    exhaust(loader)
    return _compare(key, name, loader, open_epochs(loader), "from a warm raw cache", version)


def _compare(
    key: str, name: str, loader: ClipLoader, epochs: Callable[[], Iterable[Any]], origin: str, version: str
) -> Row:
    def run_own(number: int) -> None:
        exhaust(loader)

    def run_adapter(number: int) -> None:
        exhaust(epochs())

    def conclude(timings: Timings) -> Findings:
        return Findings(
            [Comparison(key, f"the speed of the loader itself, of {name}", compare_times(timings, name, OWN))]
        )

    megabytes = BATCH * FRAMES * 3 * SIZE * SIZE / 1e6
    title = f"{name} (version {version}): batches of {megabytes:.1f} MB {origin}, {WORKERS} threads"
    contenders = [Contender(OWN, ready(run_own), amount=len(loader))]
    contenders.append(Contender(name, ready(run_adapter), library=key.partition("-")[0], amount=len(loader)))
    return Row(key, title, contenders, conclude, unit="batches", warms_up=True)


def exhaust(batches: Iterable[Any]) -> None:
    """Take every batch of an epoch, and drop it."""
    for batch in batches:
        del batch
