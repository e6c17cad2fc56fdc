"""Every engine over files of all kinds: the right frame or a typed error, never another frame; and what it refuses."""

from __future__ import annotations

import random
from functools import partial

import pytest

import framefeed as ff
from framefeed.decode import VideoDecoder
from framefeed.errors import CorruptMedia, UnsupportedCodec
from framefeed.testing import read_stamps
from tests.codec_clips import CODECS
from tests.corpus import corpus_file, expected_stamps
from tests.engines.conftest import ENGINES
from tests.engines.law import catch, check_law
from tests.media.files import readable_path

EASY = ["base.mp4", "base.mkv", "vfr.mp4", "open_gop.mp4", "start_8s.mp4", "edit_list.mp4", "ten_bit.mp4"]
HARD = ["open_gop.ts", "intra_refresh.mp4", "fields.mkv", "late_key.mp4", "cover_first.mp4", "duplicate_pts.mkv",
        "rotated_90.mp4", "rotated_90_mirrored.mp4", "raw.h264", "one_frame.mp4"]  # fmt: skip
CLIPS = ["vp9.webm", "av1.mp4", "hevc.mp4", "mjpeg.avi", "rpza.mov"]
# It counts pictures, and the first ones of an open group of pictures do not come after a seek.
COUNTING = "decord"
REFUSED_BY_COUNTING = {"edit_list.mp4", "open_gop.mp4"}
# By the average rate, it misses frames, those before a key frame of an open group of pictures among them.
BY_RATE = "torchcodec-approximate"


@pytest.mark.parametrize("name", EASY + HARD)
def test_M01_M19_D04_a_frame_is_the_right_one_or_an_error(engine: str, name: str) -> None:
    path, stamps = corpus_file(name), expected_stamps(name)
    chance = random.Random(name)
    ordinals = [*(chance.randrange(len(stamps)) for _ in range(8)), 0, len(stamps) - 1]
    came = check_law(path, stamps, engine, ordinals)
    if engine == COUNTING and name in REFUSED_BY_COUNTING:
        assert came == 0
    elif name in EASY and engine != BY_RATE:
        assert came == len(ordinals)


@pytest.mark.parametrize("name", CLIPS)
def test_codecs_are_decoded_or_refused_by_name(engine: str, name: str) -> None:
    codec = CODECS[name.partition(".")[0]]
    path = readable_path(name)
    with VideoDecoder(path, backend=engine) as decoder:
        error = catch(lambda: decoder[0])
        if isinstance(error, UnsupportedCodec):
            assert "backend='pyav'" in str(error)
            return
    came = check_law(path, codec.spec.stamps, engine, [7, 0, 11])
    assert came == 3 or engine == BY_RATE


@pytest.mark.parametrize(
    ("engine", "name"),
    [("torchcodec", "intra_refresh.mp4"), (BY_RATE, "vfr.mp4"), ("opencv", "vfr.mkv")],
    indirect=["engine"],
)
def test_another_time_fails_only_its_frame(engine: str, name: str) -> None:
    failed = []
    with VideoDecoder(corpus_file(name), backend=engine) as decoder:
        for ordinal in range(len(decoder) - 1, -1, -3):
            error = catch(partial(decoder.get_frame_at, ordinal))
            if error is not None:
                assert isinstance(error, CorruptMedia)
                assert error.frames == (ordinal,)
                failed.append(ordinal)
        assert 0 < len(failed) < len(range(0, len(decoder), 3))


# Of the processes, one engine stands for all: each takes seconds to import its library there.
@pytest.mark.parametrize(
    ("engine", "kind"), [*((engine, "threads") for engine in ENGINES), ("opencv", "processes")], indirect=["engine"]
)
def test_a_loader_gives_the_frames_of_its_plan(engine: str, kind: str) -> None:
    catalog = ff.scan([corpus_file("base.mp4"), corpus_file("bframes_2.mp4")])
    plan = ff.plan_clips(catalog, ff.RandomSegments(4), seed=3, clips_per_video=4, size=(96, 128))
    with ff.ClipLoader(plan, batch_size=2, workers=2, kind=kind, backend=engine) as loader:  # type: ignore[arg-type]
        shown = [read_stamps(clip) for batch in loader for clip in batch.data]
    assert shown == [plan[position].indices.tolist() for position in range(len(plan))]
