"""Streams that lost packets: unmarked frames are those of reading in order; ``make chaos`` checks 1,000 streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import framefeed as ff
from framefeed.cache import FrameCache
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.index import Verify, build_index
from framefeed.testing import Coded, put_packets
from tests.codec_clips import CODECS
from tests.decode.lost_packets import STREAMS, breaks_law, check, survive, take
from tests.reference import read_reference

LOSSY = [
    ("h264 open mkv", 1), ("h264 strict mp4", 3), ("h264 strict mkv", 4), ("h264 pyramid ts", 77), ("h264 plain ts", 9),
    ("h264 closed mp4", 12), ("h264 refresh mkv", 5), ("h264_rgb", 539), ("h264_rgb", 659), ("vp8 map", 150),
    ("vp8 map", 406), ("ffv1", 31), ("ffv1", 479), ("hevc open", 274), ("mpeg4 B", 17), ("av1", 222), ("mpeg2 ts", 8),
]  # fmt: skip
"""Streams and seeds of losses."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), LOSSY)
def test_D01_no_unmarked_frame_depends_on_where_decoding_starts(name: str, seed: int, tmp_path: Path) -> None:
    verifies: tuple[Verify, ...] = ("proof", "ends", "full") if name.startswith("h264") else ("full",)
    done, outcomes = survive(name, seed, tmp_path, verifies)
    assert outcomes, done
    assert not [(done, outcome) for verify, outcome in outcomes.items() if breaks_law(verify, outcome)]


@pytest.mark.slow
# But for the clips of CODECS, which tests/index/test_build.py has.
@pytest.mark.parametrize("name", [name for name in STREAMS if name not in CODECS])
def test_D01_no_frame_of_a_whole_stream_is_marked(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"whole{STREAMS[name][0]}"
    path.write_bytes(take(name)[0])
    outcome = check(path, "full", read_reference(path), seed=0)
    assert (outcome.damaged, outcome.wrong, outcome.lost) == (0, (), ())


def lossy_clip(folder: Path, name: str, lose: Callable[[list[Coded]], list[Coded]]) -> Path:
    """Write a stream without some of its packets."""
    media, packets, time_base = take(name)
    path = folder / f"lossy{STREAMS[name][0]}"
    put_packets(path, media, lose(packets), time_base)
    return path


def without(*numbers: int) -> Callable[[list[Coded]], list[Coded]]:
    return lambda packets: [packet for number, packet in enumerate(packets) if number not in numbers]


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_D01_frames_that_may_refer_to_a_lost_picture_are_marked_up_to_the_next_idr(
    verify: Verify, tmp_path: Path
) -> None:
    # One P picture of the second GOP, which runs from packet 12 to 23.
    index = build_index(lossy_clip(tmp_path, "h264 closed mp4", without(15)), verify)
    assert index.damaged_frame_indices.tolist() == list(range(15, 23))


def test_D01_a_picture_lost_before_the_first_key_frame_harms_none_behind_it(tmp_path: Path) -> None:
    index = build_index(lossy_clip(tmp_path, "h264 closed mp4", without(0, 3, 6)), "full")
    assert index.packets.is_key[index.frame_start].all()
    assert index.num_damaged_frames == 0


def test_D01_a_lost_picture_to_which_no_other_refers_harms_none(tmp_path: Path) -> None:
    flags = build_index(lossy_clip(tmp_path, "h264 plain mp4", without())).packets.is_disposable
    lost = int(np.flatnonzero(flags)[5])
    index = build_index(lossy_clip(tmp_path, "h264 plain mp4", without(lost)), "full")
    assert len(index) == 47
    assert index.num_damaged_frames == 0


def test_D01_a_reference_is_missed_where_other_pictures_hide_the_gap(tmp_path: Path) -> None:
    """A lost P picture between B pictures: each number is that of the picture before, or the next."""
    path = lossy_clip(tmp_path, "h264 plain mp4", without())
    lost = int(np.flatnonzero(~build_index(path).packets.is_disposable)[6])
    index = build_index(lossy_clip(tmp_path, "h264 plain mp4", without(lost)))
    assert index.built_from == "decode"
    assert index.frame_packet[index.damaged_frame_indices].min() == lost


def test_D01_marked_frames_are_treated_as_damaged_by_catalogs_plans_and_decoders(tmp_path: Path) -> None:
    path = lossy_clip(tmp_path, "h264 closed mp4", without(15))
    catalog = ff.scan(path, out=tmp_path / "cat.parquet", progress=False, workers=0)
    assert catalog.table.column("num_damaged_frames").to_pylist() == [8]
    with ff.VideoDecoder(path) as decoder:
        with pytest.raises(CorruptMedia) as caught:
            decoder[16]
        assert list(caught.value.frames) == [16]
        assert decoder[14].shape == decoder[23].shape
    plan = ff.plan_clips(catalog, ff.Uniform(12), seed=0, on_damaged="skip")
    with ff.ClipLoader(plan, batch_size=1, workers=0) as loader:
        (batch,) = loader
    assert not batch.valid.all()


def test_D01_a_cache_serves_no_frame_that_is_known_as_damaged_by_now(tmp_path: Path) -> None:
    path = lossy_clip(tmp_path, "vp8 map", without(43))
    trusted, checked = build_index(path), build_index(path, "full")
    assert trusted.built_from == "packets+proof"
    assert checked.num_damaged_frames
    ordinal = int(checked.damaged_frame_indices[0])
    with FrameCache(tmp_path / "cache") as cache:
        for _ in range(2):
            with ff.VideoDecoder(path, frame_index=trusted, backend=cache.decoder(PyAVDecoder())) as decoder:
                assert decoder[ordinal].any()
        assert cache.stats().frames_hit
        with (
            ff.VideoDecoder(path, frame_index=checked, backend=cache.decoder(PyAVDecoder())) as decoder,
            pytest.raises(CorruptMedia),
        ):
            decoder[ordinal]
