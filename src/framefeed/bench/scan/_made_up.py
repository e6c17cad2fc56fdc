"""A catalog of videos that do not exist, of any size, in seconds: for what opening and planning cost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.catalog import (
    FACTS,
    CatalogHeader,
    FrameTableBuilder,
    FrameTables,
    content_fingerprint,
    encode_labels,
    write_catalog,
)
from framefeed.index import DISPOSABLE, KEY, FrameIndex, PacketTable, StreamFacts
from framefeed.media import SourceIdentity

DISTINCT = 64
"""Frame tables that differ; the videos take turns."""
_CLASSES = tuple(f"class {number:03d}" for number in range(400))
_GOP = 50
_B_FRAMES = (0, 3, 1, 2)
"""Output place of four packets in decode order: a reference ahead of three pictures that are shown before it."""
_EXTRADATA = bytes.fromhex("0164001effe1001967640001eacd940a02ff97016e0400003e90000ea600f162d96001000668ebe3cb22c0")


def make_catalog(folder: Path, num_videos: int, num_frames: int = 300) -> Path:
    """Write a catalog of H.264 videos with B-frames and sound, constant rate, as `scan` would find them.

    Args:
        folder: Where to write it.
        num_videos: Its rows.
        num_frames: Frames of each video.

    Returns:
        Path of the catalog.
    """
    path = folder / "made_up.parquet"
    indexes = [made_up_index(num_frames, seed) for seed in range(DISTINCT)]
    table = _facts(num_videos, indexes)
    header = CatalogHeader(content_fingerprint(table, ["made up"]), "frames", "ends", list(_CLASSES))
    write_catalog(str(path), table, header, _frames(num_videos, indexes))
    return path


def made_up_index(num_frames: int, seed: int) -> FrameIndex:
    """Make the index of one video: its packets' sizes are random, larger by far for key frames."""
    chance = np.random.default_rng(seed)
    numbers = np.arange(num_frames, dtype=np.int64)
    packet_of = _decode_order(num_frames)
    keys = np.flatnonzero(packet_of % _GOP == 0).astype(np.int64)
    size = (chance.gamma(2.0, 900.0, num_frames) + 60).astype(np.int64)
    size[packet_of[keys]] += 25_000
    sound = np.where(numbers % 12 == 11, chance.integers(700, 900, num_frames), 0)
    flags = np.where(chance.random(num_frames) < 0.5, DISPOSABLE, 0).astype(np.uint8)
    flags[packet_of[keys]] = KEY
    pts = 512 * numbers + 1024
    packet_pts = np.empty_like(pts)
    packet_pts[packet_of] = pts
    return FrameIndex(
        pts=pts,
        duration=np.full(num_frames, 512, np.int64),
        time_base=Fraction(1, 15_360),
        key_frame_indices=keys,
        built_from="packets+ends",
        frame_packet=packet_of,
        frame_start=np.maximum.accumulate(np.where(packet_of % _GOP == 0, packet_of, 0)),
        packets=PacketTable(48 + np.cumsum(size + sound) - size, size, packet_pts, flags),
        stream=StreamFacts(
            0, "mov,mp4,m4a,3gp,3g2,mj2", "h264", _EXTRADATA, 640, 360, "yuv420p",
            contiguous=True, skips_exactly=True,
        ),
        identity=SourceIdentity(int(size.sum() + sound.sum()) + 9000, 1_700_000_000_000_000_000 + seed, f"{seed:032x}"),
    )  # fmt: skip


def _decode_order(num_frames: int) -> Any:
    """Packet of each frame, int64 [N]: in whole groups of four after each key frame the last one comes first."""
    numbers = np.arange(num_frames, dtype=np.int64)
    in_gop = numbers % _GOP
    group, in_group = (in_gop - 1) // 4, (in_gop - 1) % 4
    whole = (in_gop > 0) & (4 * group + 4 < _GOP) & (numbers - in_group + 3 < num_frames)
    sent = np.argsort(_B_FRAMES)[np.array([1, 2, 3, 0])]
    return np.where(whole, numbers - in_group + sent[in_group], numbers)


def _frames(num_videos: int, indexes: list[FrameIndex]) -> FrameTables:
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    for _ in range(max(1, 4096 // len(indexes))):
        for index in indexes:
            builder.append(index)
    builder.finish()
    whole, rest = divmod(num_videos, batches[0].num_rows)
    # The same batch many times: memory for one of them.
    return FrameTables([batches[0]] * whole + [batches[0].slice(0, rest)])


def _facts(num_videos: int, indexes: list[FrameIndex]) -> pa.Table:
    numbers = np.arange(num_videos, dtype=np.int64)
    turn = numbers % len(indexes)
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    first = indexes[0]
    given: dict[str, Any] = {
        "source": pc.binary_join_element_wise(
            "videos/", pc.utf8_slice_codeunits(digits, 0, 4), "/", digits, ".mp4", ""
        ),
        "bytes": np.array([index.identity.bytes for index in indexes if index.identity])[turn],
        "mtime_ns": 1_700_000_000_000_000_000 + numbers,
        "fingerprint": pc.utf8_lpad(digits, 32, "f"),
        "label": encode_labels(_labels(turn), _CLASSES).combine_chunks(),
    }
    constant: dict[str, Any] = {
        "kind": "video", "container": first.stream.container, "codec": first.stream.codec, "width": 640, "height": 360,
        "coded_width": 640, "coded_height": 360, "rotation": 0, "mirrored": False, "pixel_format": "yuv420p",
        "num_frames": len(first), "times_from": "pts", "duration_seconds": len(first) / 30,
        "average_fps": first.average_fps, "is_variable_frame_rate": False,
        "num_key_frames": len(first.key_frame_indices),
    }  # fmt: skip
    columns = {}
    for name, kind in FACTS.items():
        if name in given:
            columns[name] = given[name] if isinstance(given[name], pa.Array) else pa.array(given[name], kind)
        else:
            value = constant.get(name)
            columns[name] = (
                pa.nulls(num_videos, kind) if value is None else pa.repeat(pa.scalar(value, kind), num_videos)
            )
    return pa.table(columns)


def _labels(turn: Any) -> pa.ChunkedArray:
    classes = pa.array(_CLASSES)
    return pa.chunked_array([classes.take(pa.array(turn * 7 % len(_CLASSES)))])
