"""Streams whose pictures change their size are known after a scan; plans that need one size leave them out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import av
import pytest

import framefeed as ff
from framefeed.errors import FormatChanged
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file

CHANGING = ("size_change.ts", "size_change.h264")


def write_vpx(path: Path, encoder: str, sizes: list[tuple[int, int]]) -> Path:
    """Join WebM files of 8 pictures of each (width, height)."""
    parts = [
        clip_file(f"{encoder}_{width}.webm", ClipSpec(num_frames=8, width=width, height=height, fps=10, codec=encoder))
        for width, height in sizes
    ]
    with av.open(str(path), "w") as joined:
        for number, part in enumerate(parts):
            with av.open(str(part)) as container:
                if not number:
                    stream = joined.add_stream_from_template(container.streams.video[0])
                for packet in container.demux(video=0):
                    if packet.dts is not None:
                        packet.stream = stream
                        packet.pts = packet.dts = packet.dts + 800 * number
                        joined.mux(packet)
    return path


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
@pytest.mark.parametrize("name", CHANGING)
def test_P04_decoding_tells(name: str, verify: Any) -> None:
    assert ff.build_index(corpus_file(name), verify).changes_size
    assert not ff.build_index(corpus_file("raw.h264"), verify).changes_size


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9"])
def test_P04_headers_tell(codec: str, tmp_path: Path) -> None:
    for name, sizes in (("same", [(64, 48)] * 2), ("other", [(64, 48), (96, 64), (64, 48)])):
        path = write_vpx(tmp_path / f"{name}.webm", codec, sizes)
        for verify in ("proof", "full"):
            index = ff.build_index(path, verify)  # type: ignore[arg-type]
            assert (len(index), index.changes_size) == (8 * len(sizes), name == "other")
        assert ff.build_index(path).built_from == "packets+proof"


def test_P04_plans_leave_out_what_a_crop_makes_fail(tmp_path: Path) -> None:
    sound = clip_file("sizes_sound.mp4", ClipSpec(num_frames=20, fps=10, width=96, height=64))
    catalog = ff.scan([corpus_file(CHANGING[0]), sound], out=tmp_path / "cat.parquet", workers=0)
    for each in (catalog, ff.Catalog.open(tmp_path / "cat.parquet"), pickle.loads(pickle.dumps(catalog))):
        assert each.changes_size.tolist() == [True, False]
        assert [each.frame_index(row).changes_size for row in range(2)] == [True, False]
    for options in (
        {"size": ff.ResizeCrop(32, 24)},
        {"size": (24, 32), "crop": ff.CenterCrop(32)},
        {"crop": ff.RandomResizedCrop(24)},
        {"unequal": True},
    ):
        with pytest.warns(UserWarning, match=r"1 of 2 rows are left .* 1 of them have pictures that change"):
            plan = ff.plan_clips(catalog, ff.Uniform(4), seed=0, **options)  # type: ignore[arg-type]
        assert [plan[position].row for position in range(len(plan))] == [1]
        ((source, error),) = plan.excluded
        assert source == catalog[0].source
        assert error.startswith("FormatChanged: ")
        with pytest.raises(FormatChanged), ff.VideoDecoder(source, size=(24, 24), crop=(0, 0, 32, 32)) as video:
            video.get_all_frames()
    for size in ((24, 32), ff.Letterbox(32), ff.LongSide(32), 32):
        plan = ff.plan_clips(
            catalog, ff.Uniform(4), seed=0, size=size, unequal=not isinstance(size, tuple | ff.Letterbox)
        )
        with ff.ClipLoader(plan, batch_size=2, workers=0) as loader:
            assert all(batch.ok.all() for batch in loader)


def test_a_catalog_without_such_files_has_no_such_column() -> None:
    sound = clip_file("sizes_sound.mp4", ClipSpec(num_frames=20, fps=10, width=96, height=64))
    assert "changes_size" not in ff.scan(sound, workers=0).table.column_names
