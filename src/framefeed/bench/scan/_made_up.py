"""A catalog of videos that do not exist, of any size, in seconds: for what opening and planning cost."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.catalog import (
    CatalogHeader,
    FrameTableBuilder,
    FrameTables,
    content_fingerprint,
    encode_labels,
    write_catalog,
)
from framefeed.catalog.scan import scan
from framefeed.testing import AudioSpec, ClipSpec, write_clip

DISTINCT = 8
"""Real videos; those of the catalog take turns."""
_CLASSES = tuple(f"class {number:03d}" for number in range(400))


def make_catalog(folder: Path, num_videos: int, num_frames: int = 300) -> Path:
    """Write a catalog of H.264 videos with B-frames and sound, constant rate, as `scan` would find them.

    Returns:
        Path of the catalog.
    """
    with TemporaryDirectory(dir=folder) as real:
        for number in range(DISTINCT):
            spec = ClipSpec(num_frames, height=48, width=80, fps=30, gop=50, b_frames=3, seed=number)
            write_clip(f"{real}/{number:02}.mp4", spec, AudioSpec(num_frames / 30))
        scanned = scan(real, progress=False)
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    for row in list(range(DISTINCT)) * (4096 // DISTINCT):
        builder.append(scanned.frame_index(row))
    builder.finish()
    numbers = np.arange(num_videos, dtype=np.int64)
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    labels = pa.array(_CLASSES).take(pa.array(numbers * 7 % len(_CLASSES)))
    own = {
        "source": pc.binary_join_element_wise(
            "videos/", pc.utf8_slice_codeunits(digits, 0, 4), "/", digits, ".mp4", ""
        ),
        "mtime_ns": pa.array(1_700_000_000_000_000_000 + numbers),
        "fingerprint": pc.utf8_lpad(digits, 32, "f"),
        "label": encode_labels(pa.chunked_array([labels]), _CLASSES).combine_chunks(),
    }
    table = scanned.table.take(pa.array(numbers % DISTINCT))
    for name, column in own.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    whole, rest = divmod(num_videos, batches[0].num_rows)
    # The same batch many times: memory for one of them.
    frames = FrameTables([batches[0]] * whole + [batches[0].slice(0, rest)])
    header = CatalogHeader(content_fingerprint(table, ["made up"]), "frames", "ends", list(_CLASSES))
    path = folder / "made_up.parquet"
    write_catalog(str(path), table, header, frames)
    return path
