"""What plan_clips warns about: known damage that the rule may pick, and crops that are enlarged."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.decode import VideoDecoder
from framefeed.index import FrameIndex
from framefeed.plan import (
    AtIndices,
    Dense,
    EpochPlan,
    EveryFrame,
    RandomSegments,
    Uniform,
    WholeVideo,
    plan_clips,
    plan_requests,
)
from framefeed.request import (
    CenterCrop,
    ClipContext,
    DecodeRequest,
    FixedCrop,
    LongSide,
    PictureRule,
    RandomCrop,
    RandomResizedCrop,
    ResizeCrop,
)
from framefeed.scanning import scan
from tests.corpus import clip_file
from tests.damaged import SPEC, damaged_clip
from tests.fakes import FakeCatalog, steady_index


def damaged_index(*numbers: int, num_frames: int = 40) -> FrameIndex:
    return replace(steady_index(num_frames), damaged_frame_indices=np.array(numbers, np.int64))


def catalog(**columns: Any) -> Any:
    """Three videos of 40 frames at 25 a second: frames 10, 11 and 20 of the second and 39 of the third are damaged."""
    indexes = [damaged_index(), damaged_index(10, 11, 20), damaged_index(39)]
    return FakeCatalog(indexes, sizes=(720, 1280), columns=columns)


def list_warnings(rule: Any = None, made: Any = None, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        plan = plan_clips(made or catalog(), rule, seed=0, **{"size": (8, 8), **options})
        assert isinstance(plan.with_epoch(1), EpochPlan)
    assert {each.filename for each in shown} <= {__file__}
    return [str(each.message) for each in shown]


@pytest.mark.parametrize(
    ("rule", "options", "frames", "rows"),
    [
        (Dense(4), {}, 4, 2),
        (RandomSegments(2), {}, 4, 2),
        (EveryFrame(), {}, 4, 2),
        (Uniform(2), {}, 1, 1),  # 10 and 30, of 40
        (AtIndices([10, 10, 11]), {}, 2, 1),
        (AtIndices([-1]), {}, 1, 1),
        (AtIndices([100]), {}, 1, 1),  # The last frame in its place.
        (AtIndices([0, 12]), {}, 0, 0),
        (Dense(4, start=0.0), {}, 0, 0),
        (Dense(4), {"on_damaged": "deliver"}, 0, 0),
        (Dense(4), {"on_damaged": "skip"}, 0, 0),
    ],
)
def test_D01_known_damage_that_the_rule_may_pick_is_one_warning(
    rule: Any, options: dict[str, Any], frames: int, rows: int
) -> None:
    shown = list_warnings(rule, **options)
    if not frames:
        assert shown == []
        return
    (message,) = shown
    assert message.startswith(f"{frames} damaged frames in {rows} of 3 rows may be in clips of this plan (first video")
    for part in ("on_damaged='error', the default", "CorruptMedia", "on_error='skip'", "'deliver'", "--on-damaged"):
        assert part in message


def test_D01_a_rule_is_asked_for_every_clip_of_a_video() -> None:
    @dataclass(frozen=True)
    class Numbered:
        """Frame k in clip k."""

        num_frames = 1

        def choose(self, timeline: Any, context: ClipContext) -> Any:
            return AtIndices([context.number]).choose(timeline, context)

    assert list_warnings(Numbered(), clips_per_video=10) == []
    (message,) = list_warnings(Numbered(), clips_per_video=12)
    assert message.startswith("2 damaged frames in 1 of 3 rows")


def test_D01_damage_outside_the_window_is_no_matter() -> None:
    def within(start: float, end: float) -> list[str]:
        made = catalog(start=[start] * 3, end=[end] * 3)
        return list_warnings(Dense(2), made, within=("start", "end"))

    assert within(0.0, 0.4) == within(0.48, 0.8) == []
    assert within(0.4, 0.48)[0].startswith("2 damaged frames in 1 of 3 rows")
    assert within(5.0, 6.0) == []  # No frame: its clips raise FrameNotFound.


def test_D01_a_damaged_frame_that_is_on_the_screen_at_the_begin_of_a_window_is_said() -> None:
    made = catalog(start=[0.81] * 3, end=[0.85] * 3)  # frame 20 is on the screen to 0.84 s, and no other begins before
    (message,) = list_warnings(WholeVideo(25, max_frames=1, min_frames=1), made, within=("start", "end"))
    assert message.startswith("1 damaged frames in 1 of 3 rows")


def test_D01_damage_outside_the_column_is_no_matter(tmp_path: Path) -> None:
    sources = [clip_file("sound.mp4", SPEC), damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))]
    number = int(scan(sources[1], verify="full").frame_index(0).damaged_frame_indices[0])
    for frames, count in (([number, 0], 0), ([0, number], 1)):
        pq.write_table(pa.table({"path": [*map(str, sources)], "frame": frames}), tmp_path / "list.parquet")
        shown = list_warnings(None, scan(tmp_path / "list.parquet", verify="full"), at="frame")
        assert [message.startswith("1 damaged frames in 1 of 2 rows") for message in shown] == [True] * count


def test_a_description_of_damage_opens_nothing_and_reads_only_damaged_rows() -> None:
    read = []

    class Counting(FakeCatalog):
        def frame_index(self, row: int) -> FrameIndex:
            read.append(row)
            return super().frame_index(row)

    assert len(list_warnings(Dense(4), Counting(catalog().indexes))) == 1
    assert set(read) == {1, 2}


# --- crops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crop", "size", "parts"),
    [
        (CenterCrop(224), 256, ["224 x 224", "256 x 256", "give size=ff.ResizeCrop(256, 224) and no crop"]),
        (CenterCrop(112, 90), (224, 224), ["112 x 90", "give size=ff.ResizeCrop((224, 224), (112, 90)) and no crop"]),
        (CenterCrop(100), ResizeCrop(256, 224), ["100 x 100", "with a box of at least the size"]),
        (CenterCrop(100), LongSide(120), ["100 x 100", "120 x 120"]),
        (CenterCrop(630), ResizeCrop(256, 224), None),
        (RandomCrop(90, 160), (180, 320), ["90 x 160", "size=(90, 160)", "crop=RandomCrop(360, 640)"]),
        ((10, 20, 100, 100), (200, 200), ["crop=(36, 128, 360, 640)"]),
        (CenterCrop(300, 100), (224, 224), ["300 x 100", "with a box of at least the size"]),
        (CenterCrop(224), (224, 224), None),
        (CenterCrop(300), 224, None),
        (CenterCrop(224), None, None),
        (RandomResizedCrop(), (800, 1400), None),
        (None, (2000, 2000), None),
    ],
)
def test_a_crop_that_is_enlarged_is_one_warning_with_the_box_that_was_meant(
    crop: Any, size: Any, parts: list[str] | None
) -> None:
    made = FakeCatalog([steady_index(10)] * 2, sizes=(720, 1280))
    shown = list_warnings(Uniform(2), made, crop=crop, size=size)
    if parts is None:
        assert shown == []
        return
    (message,) = shown
    assert message.startswith("crop comes before size: ")
    for part in parts:
        assert part in message


def test_the_box_that_was_meant_is_that_of_torchvision() -> None:
    # Resize(256) and CenterCrop(224) of 720 x 1280: 224 / 256 of the short side, from the middle.
    meant = PictureRule((224, 224), CenterCrop(630, 630))
    assert meant.explain_enlarging(720, 1280) is None
    # 455 columns when resized, and so 116 of them left of the middle: 326.3 of the source.
    crop = PictureRule(ResizeCrop(256, 224)).output(720, 1280, ClipContext(0, 0, 0)).crop
    assert crop == (45, 326, 630, 630)
    assert meant.output(720, 1280, ClipContext(0, 0, 0)).crop == (45, 325, 630, 630)
    said = PictureRule(256, CenterCrop(224)).explain_enlarging(-1, -1)
    assert said is not None
    assert "size=ff.ResizeCrop(256, 224)" in said
    assert PictureRule(256, RandomCrop(224)).explain_enlarging(-1, -1) == (
        "crop comes before size: a box of 224 x 224 pixels (height x width) is cut out, and enlarged to 256 x 256; "
        "with a box of at least the size, nothing is enlarged"
    )
    assert PictureRule((2, 2), FixedCrop((0, 0, 2, 2))).explain_enlarging(4, 4) is None


def test_decoders_and_requests_warn_too() -> None:
    path = clip_file("sound.mp4", SPEC)  # 48 x 64
    said = r"a box of 12 x 16 .* enlarged to 24 x 32\. .* size=ff.ResizeCrop\(\(24, 32\), \(12, 16\)\)"
    with pytest.warns(UserWarning, match=said) as shown:
        decoder = VideoDecoder(path, crop=CenterCrop(12, 16), size=(24, 32))
    assert shown[0].filename == __file__
    assert decoder[0].shape == (3, 24, 32)
    with pytest.warns(UserWarning, match=said) as shown:
        plan_requests([DecodeRequest(path, [0])], crop=CenterCrop(12, 16), size=(24, 32))
    assert shown[0].filename == __file__
