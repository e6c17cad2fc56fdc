"""Lines of the table for the original itself: decoded in order, and clip by clip at random."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from framefeed.bench._cache_samples import FULL_SIZE
from framefeed.bench._measuring import now
from framefeed.bench.cache._ours import sized
from framefeed.bench.cache._passes import clip_plan
from framefeed.bench.cache._scene import Scene
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.load import ClipLoader

CLIPS = 4
MOST_SECONDS = 4.0
"""So much of a film is decoded in order."""


def original_entries(scene: Scene) -> list[dict[str, Any]]:
    """Frames a second of the original; the first reader is the plain loop that the write-up compares with."""
    video = scene.sample.video
    entries = [
        _entry(scene, f"original, in order ({reader.name})", {"warm": _rate_in_order(reader.read(str(video.path)))})
        for reader in scene.field.in_order
    ]
    entries.append(_entry(scene, "original, in order (framefeed)", {"warm": _rate_in_order(_ours_in_order(scene))}))
    clips = _entry(scene, f"original, random clips to {sized(scene.sample)} (framefeed)", {})
    plan = clip_plan(scene, CLIPS)
    for name, workers in (("warm", 0), (f"{scene.workers} threads", scene.workers)):
        before, frames = now(), 0
        with ClipLoader(plan, batch_size=1, workers=workers) as loader:
            for batch in loader:
                frames += batch.data.shape[1]
        took = now() - before
        clips["read_fps"][name] = round(frames / took.wall, 1)
        if not workers:
            clips["read_cpu_ms"] = {"small": round(1000 * took.cpu / frames, 4)}
    return [*entries, clips]


def _entry(scene: Scene, title: str, rates: dict[str, float]) -> dict[str, Any]:
    return {
        "title": title,
        "group": "original",
        "form": "video",
        "is_exact": True,
        "mb_whole": round(scene.sample.video.path.stat().st_size / 1e6, 1),
        "read_fps": rates,
        "wrong": [],
    }


def _ours_in_order(scene: Scene) -> Iterator[Pixels]:
    video = scene.sample.video
    pictures = PyAVDecoder().iter_rgb(video.source, video.index, range(len(video)), FULL_SIZE)
    return (pixels for _, pixels in pictures)


def _rate_in_order(frames: Iterable[Pixels]) -> float:
    start, count = time.perf_counter(), 0
    for frame in frames:
        del frame
        count += 1
        if time.perf_counter() - start > MOST_SECONDS:
            break
    return round(count / (time.perf_counter() - start), 1)
