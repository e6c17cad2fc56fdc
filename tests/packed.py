"""Media packed in tar archives, and the same unpacked: for tests of several rooms."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import framefeed as ff
from framefeed.testing import make_folder
from tests.pictures.made import made

Members = Sequence[tuple[str, bytes]]
OWN_COLUMNS = ("source", "source_offset", "source_version", "mtime_ns", "error", "key", "field")
"""Columns that say where media lie."""


@cache
def make_media(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Make videos and pictures, as name and bytes, in the order of a scan."""
    files = make_folder(folder / "made", videos_per_class=2, seconds=1.0)
    media = [(str(path.relative_to(folder / "made")), path.read_bytes()) for path in files]
    pictures = [(f"pictures/{name.replace(' ', '_')}", made()[name]) for name in ("RGB.png", "mpo.jpeg")]
    broken = [("pictures/broken.jpg", b"no picture"), ("pictures/empty.mp4", b"")]
    return tuple(sorted(media + pictures + broken, key=lambda each: each[0].encode()))


def pack(members: Iterable[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """Pack members to an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def unpack(members: Members, folder: Path) -> Path:
    """Write members as files."""
    for name, data in members:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def choose_videos(members: Members) -> list[tuple[str, bytes]]:
    """The videos that are not broken."""
    return [(name, data) for name, data in members if name.endswith(".mp4") and data]


def read_frames(catalog: ff.Catalog, rule: ff.ClipRule | None = None, **options: Any) -> list[np.ndarray]:
    """The batches of a plan over the readable rows of a catalog."""
    return load_frames(plan_frames(catalog, rule), **options)


def plan_frames(catalog: ff.Catalog, rule: ff.ClipRule | None = None) -> ff.EpochPlan:
    good = catalog.without(catalog.errors) if len(catalog.errors) else catalog
    return ff.plan_clips(good, rule or ff.RandomSegments(3), seed=3, size=(48, 64), clips_per_video=2)


def load_frames(plan: ff.EpochPlan, **options: Any) -> list[np.ndarray]:
    with ff.ClipLoader(plan, batch_size=4, **{"workers": 0} | options) as loader:
        return [np.asarray(batch.data).copy() for batch in loader]


def get_facts(catalog: ff.Catalog) -> pa.Table:
    """The facts of a catalog that do not say where media lie."""
    table = catalog.table
    return table.drop_columns([name for name in OWN_COLUMNS if name in table.column_names])
