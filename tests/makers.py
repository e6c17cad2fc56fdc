"""A small folder of self-naming videos, made once a test run, its catalog, and plans over it or over another."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.catalog import Catalog
from framefeed.decode import ClipSlot
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.plan import ClipRule, EpochPlan, RandomSegments, plan_clips
from framefeed.request import OutputSpec
from framefeed.scanning import scan
from framefeed.testing import make_folder, read_stamps
from tests.corpus import corpus_file
from tests.fakes import FakeCatalog, steady_index

SIZE = (48, 64)
VIDEOS = 6
FRAMES = 30


@cache
def folder() -> Path:
    """Two classes of three videos of 30 frames; read only."""
    path = Path(tempfile.mkdtemp(prefix="framefeed-load-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    make_folder(path, classes=2, videos_per_class=VIDEOS // 2, seconds=2.0, fps=FRAMES // 2, size=SIZE)
    return path


@cache
def catalog() -> Catalog:
    """The catalog of `folder`."""
    return scan(folder(), label_from="parent", workers=0)


def plan_of(rule: ClipRule | None = None, **options: Any) -> EpochPlan:
    """A plan over `catalog`; by default 12 clips of 4 random frames."""
    given = {"seed": 7, "clips_per_video": 2, "columns": ["label"], **options}
    return plan_over(catalog(), rule or RandomSegments(4), **given)


def plan_over(catalog: Any, rule: ClipRule | None = None, *, seed: int = 0, **options: Any) -> EpochPlan:
    """A plan over any catalog, also over a `FakeCatalog`; `functools.partial` makes one with other defaults."""
    return plan_clips(catalog, rule, seed=seed, **options)


def plan_fakes(lengths: Sequence[int], rule: ClipRule, *, gop: int = 12, **options: Any) -> EpochPlan:
    """A plan over videos of so many frames, of which there is an index and nothing else."""
    return plan_over(FakeCatalog([steady_index(frames, gop=gop) for frames in lengths]), rule, **options)


def open_corpus(name: str) -> tuple[MediaSource, FrameIndex]:
    """A hard file by its name: what decoders take of it."""
    path = corpus_file(name)
    return MediaSource.of(path), build_index(path)


def slot_of(index: FrameIndex, indices: Iterable[int], output: OutputSpec | None = None, **options: Any) -> ClipSlot:
    """A slot for a clip, and its memory, in which every byte is 77."""
    ordinals, output = np.array(list(indices), dtype=np.int64), output or OutputSpec()
    out = np.full((len(ordinals), *output.shape(*index.stream.displayed)), 77, dtype=np.uint8)
    return ClipSlot(ordinals, output, out, **options)


def assert_stamps(plan: EpochPlan, position: int, clip: Any) -> None:
    """The frames of a clip say that they are those that the plan names."""
    request = plan[position]
    assert request.indices is not None
    assert read_stamps(np.asarray(clip)) == request.indices.tolist()


def read_columns(plan: EpochPlan, positions: Sequence[int]) -> dict[str, Any]:
    """Read the columns of some positions of a plan together, as batches have them."""
    return plan.clips_at(plan.global_position(np.array(positions, dtype=np.int64))).read_columns()
