"""A catalog, two caches and states of loaders as commit c6d7a09f wrote them, and what reads them again.

They are in the folder ``earlier``. Written by
``PYTHONPATH=CHECKOUT_OF_C6D7A09F/src python tests/golden/earlier.py`` and never again: new code opens what is there,
but for the states, and writes the same names.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import av

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip

FOLDER = Path(__file__).with_name("earlier")
CATALOG, STATES = "catalog.parquet", "states.json"
CACHES = {"raw": "output", "lz4": "planes"}
"""Codec of a cache -> what it stores. Both hold the frames of `plan_earlier` in its first epoch."""
EPOCH, STEPS = 1, 2
"""Where a state was saved."""

_CLIP = ClipSpec(num_frames=10, gop=5, b_frames=2, height=48, width=64)
_MEDIA: dict[str, ClipSpec] = {
    "a/h264.mp4": _CLIP,
    "a/vp9.webm": replace(_CLIP, codec="libvpx-vp9", b_frames=None),
    "b/mpeg4.avi": replace(_CLIP, codec="mpeg4"),
    "b/hevc.mkv": replace(_CLIP, codec="libx265", num_frames=9),
    "b/turned.mp4": replace(_CLIP, rotation=90),
}

LOADERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "balance is None": {"balance": None},
    "segments, in order": {"rule": ff.RandomSegments(2), "shuffle": False},
    "rates, of videos": {"rule": ff.Rates([(5, 2), (10, 1)]), "shuffle": "videos", "clips_per_video": 2},
    "every frame": {"rule": ff.EveryFrame(), "clips_per_video": 1},
    "rank 1 of 2": {"rank": 1, "world_size": 2},
    "rank 0 of 2, without pads": {"rank": 0, "world_size": 2, "tail": "drop"},
}
"""Options of a plan, by the name of a loader's state."""


def plan_earlier(catalog: ff.Catalog, **options: Any) -> ff.EpochPlan:
    """Plan what the caches hold, or what a state is about."""
    given = {"rule": ff.Uniform(2), "clips_per_video": 2, "seed": 11, "size": (16, 20), "columns": ["label"], **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 6 rows are left out")
        return ff.plan_clips(catalog, given.pop("rule"), **given)


def open_catalog(folder: Path) -> ff.Catalog:
    """Open the catalog of a copy."""
    return ff.Catalog.open(folder / CATALOG, root=folder)


def open_loader(folder: Path, name: str) -> ff.ClipLoader:
    """Open the loader of a state."""
    return ff.ClipLoader(plan_earlier(open_catalog(folder), **LOADERS[name]), batch_size=2, workers=0)


def open_torch_loader(folder: Path) -> Any:
    """Open torch's loader of a state."""
    dataset = ff.torch.ClipDataset(plan_earlier(open_catalog(folder)), target="label")
    return ff.torch.DataLoader(dataset, batch_size=3, shuffle=False, num_workers=0)


def libraries() -> dict[str, str]:
    """Name what decides the pixels of stored frames: with other libraries they are not used."""
    return {"av": av.__version__, "libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def _write_media(folder: Path) -> None:
    for name, spec in _MEDIA.items():
        (folder / "media" / name).parent.mkdir(parents=True, exist_ok=True)
        write_clip(folder / "media" / name, spec)
    data = (folder / "media/a/h264.mp4").read_bytes()
    (folder / "media/a/cut.mp4").write_bytes(data[: len(data) // 3])


def write(folder: Path) -> None:
    """Write the catalog, the caches and the states of the media that lie in a folder."""
    catalog = ff.scan(folder / "media", out=folder / CATALOG, label_from="parent", root=folder, workers=1)
    for codec, form in CACHES.items():
        cache: Any = ff.FrameCache(folder / codec, codec=codec, form=form)
        with ff.ClipLoader(plan_earlier(catalog), batch_size=2, workers=0, cache=cache) as loader:
            for _ in loader:
                pass
        cache.close()
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in _save_states(folder).items())
    (folder / STATES).write_text("{" + ",\n".join(lines) + "}\n")


def _save_states(folder: Path) -> dict[str, Any]:
    states: dict[str, Any] = {"libraries": libraries()}
    for name in LOADERS:
        with open_loader(folder, name) as loader:
            loader.load_state_dict({**loader.state_dict(), "plan": loader.plan.with_epoch(EPOCH).state_dict()})
            done = [batch.positions.tolist() for _, batch in zip(range(STEPS), loader, strict=False)]
            state = loader.state_dict()
            whole = [batch.positions.tolist() for batch in loader]
            assert whole[:STEPS] == done
            states[name] = {"state": state, "batches": whole}
    loader = open_torch_loader(folder)
    batches = iter(loader)
    for _ in range(STEPS):
        next(batches)
    return {**states, "torch": {"state": loader.state_dict()}}


if __name__ == "__main__":
    _write_media(FOLDER)
    write(FOLDER)
