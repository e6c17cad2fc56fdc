"""``on_damaged`` for frames that are always damaged, with a cache and without (D01)."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from framefeed.cache import FrameCache, build
from framefeed.catalog import Catalog
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.load._batch import ClipBatch
from framefeed.load._ledger import Ledger, LedgerEntry
from framefeed.load._loader import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import AtIndices, EpochPlan
from framefeed.request import Letterbox, OutputSpec
from framefeed.scanning import scan
from tests.damaged import SPEC, damaged_clip
from tests.makers import plan_over

pytestmark = pytest.mark.filterwarnings("ignore:.* damaged frames in .* may be in clips")  # tests/plan/test_remarks.py
MakeLoader = Callable[..., ClipLoader]
Form = Literal["output", "planes"]
CACHES: tuple[Form | None, ...] = (None, "output", "planes")
ORDINALS = (2, 11, 12, 14, 13, 17, 30, 14)
ONLY_DAMAGED = (13, 14)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Three videos: two of which some frames are damaged, one sound."""
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copy(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), folder / "a.mp4")
    shutil.copy(damaged_clip("damage_mpeg4.avi", (13,), replace(SPEC, codec="mpeg4")), folder / "b.avi")
    shutil.copy(damaged_clip("sound.mp4", ()), folder / "c.mp4")
    made = scan(folder, verify="full", workers=0)
    assert made.table.column("num_damaged_frames").to_pylist() == [3, 8, 0]
    assert len(made.errors) == 0
    return made


def make_plan(catalog: Catalog, indices: tuple[int, ...] = ORDINALS, **options: Any) -> EpochPlan:
    return plan_over(catalog, AtIndices(indices), shuffle=False, **options)


def find_damaged(plan: EpochPlan, position: int) -> np.ndarray:
    index = plan.catalog.frame_index(plan[position].row)
    return np.isin(plan[position].indices, index.damaged_frame_indices)


def load_one(loader: ClipLoader) -> ClipBatch:
    (batch,) = loader
    return batch


def decode_directly(plan: EpochPlan, position: int, ordinals: np.ndarray) -> np.ndarray:
    """The decoder's pictures of some frames, damaged ones as they come."""
    catalog, row = plan.catalog, plan[position].row
    out = np.zeros((len(ordinals), 3, 48, 64), np.uint8)
    slot = ClipSlot(ordinals, OutputSpec(), out, accepts_damaged=True)
    PyAVDecoder().decode(MediaSource.of(catalog.source(row)), catalog.frame_index(row), [slot]).raise_first()
    return out


@pytest.mark.parametrize("form", CACHES)
@pytest.mark.parametrize("on_damaged", ["skip", "deliver"])
@pytest.mark.parametrize(("flip", "size"), [(0, None), (1, None), (1, Letterbox(48, 71, fill=9))])
def test_what_is_delivered(
    flip: int, size: Any, on_damaged: Any, form: Form | None, catalog: Catalog, tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = make_plan(catalog, on_damaged=on_damaged, horizontal_flip=flip, size=size)
    cache = None if form is None else FrameCache(tmp_path / "cache", form=form, codec="raw")
    loader = make_loader(plan, batch_size=3, workers=1, cache=cache)
    for _ in range(2):
        batch = load_one(loader)
        assert batch.ok.all()
        for position in range(3):
            damaged, ordinals = find_damaged(plan, position), plan[position].indices
            assert damaged.any() == (position < 2)
            expected = decode_directly(plan, position, ordinals)
            if flip:
                expected = expected[..., ::-1]
            if size is not None:
                expected = np.pad(expected, [(0, 0)] * 3 + [(4, 3)], constant_values=9)
            if on_damaged == "skip":
                expected = np.where(damaged[:, None, None, None], 0, expected)
            np.testing.assert_array_equal(batch.data[position], expected)
            valid = ~damaged if on_damaged == "skip" else np.ones(len(ORDINALS), bool)
            assert batch.valid[position].tolist() == valid.tolist()
            assert not np.isnan(batch.pts_seconds[position]).any()
    if cache is not None:
        cache.flush()
        sound = sum(len(set(plan[position].indices[~find_damaged(plan, position)].tolist())) for position in range(3))
        assert cache.info().num_frames == sound, "pictures that are delivered damaged are never stored"
        cache.close()


@pytest.mark.parametrize("form", CACHES)
def test_an_error_is_what_they_are_by_default(
    form: Form | None, catalog: Catalog, tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = make_plan(catalog)
    assert plan.clips.list_plain()[0].options.on_damaged == "error"
    cache = None if form is None else FrameCache(tmp_path / "cache", form=form, codec="raw")
    with pytest.raises(CorruptMedia, match=r"frames 13, 14"):
        load_one(make_loader(plan, batch_size=3, workers=1, cache=cache))
    batch = load_one(make_loader(plan, batch_size=3, workers=1, cache=cache, on_error="skip"))
    assert [type(error) for error in batch.errors] == [CorruptMedia, CorruptMedia, type(None)]
    if cache is not None:
        cache.close()


@pytest.mark.parametrize("form", CACHES)
def test_a_clip_of_nothing_else_is_skipped_without_decoding(
    form: Form | None, catalog: Catalog, tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = make_plan(catalog.take([0]), ONLY_DAMAGED, on_damaged="skip")
    cache = None if form is None else FrameCache(tmp_path / "cache", form=form, codec="raw")
    loader = make_loader(plan, batch_size=1, workers=0, cache=cache)
    batch = load_one(loader)
    assert (batch.ok.all(), batch.valid.any(), batch.data.any()) == (True, False, False)
    assert loader.stats().counts.packets_sent == 0
    if cache is not None:
        cache.close()


def test_a_frame_that_is_left_out_is_black_before_it_is_normalised(catalog: Catalog, make_loader: MakeLoader) -> None:
    plan = make_plan(catalog, on_damaged="skip")
    batch, plain = (
        load_one(make_loader(plan, batch_size=3, workers=1, **given)) for given in ({"dtype": "float32"}, {})
    )
    assert batch.ok.all()
    np.testing.assert_array_equal(batch.data, plain.data / np.float32(255))
    batch = load_one(make_loader(plan, batch_size=3, workers=1, mean=0.5, std=0.5))
    for position in range(3):
        assert (batch.data[position][find_damaged(plan, position)] == -1).all()


def test_a_transform_sees_the_zeros(catalog: Catalog, make_loader: MakeLoader) -> None:
    plan = make_plan(catalog.take([0]), on_damaged="skip")
    loader = make_loader(plan, batch_size=1, workers=1, transform=lambda clip, rng: clip.max(axis=(1, 2, 3)))
    assert (load_one(loader).data[0] == 0).tolist() == find_damaged(plan, 0).tolist()


def test_deliver_is_still_an_error_where_the_decoder_gives_no_picture(catalog: Catalog) -> None:
    index, source = catalog.frame_index(1), MediaSource.of(catalog.source(1))
    assert index.damaged_frame_indices[0] == 13
    # A packet that gives no picture: the index is made to say that it does.
    packet = index.frame_packet.copy()
    packet[13] = len(index.packets)
    missing = replace(index, frame_packet=packet)
    slot = ClipSlot(np.array([13, 14]), OutputSpec(), np.zeros((2, 3, 48, 64), np.uint8), accepts_damaged=True)
    error = PyAVDecoder().decode(source, missing, [slot]).errors[0]
    assert isinstance(error, CorruptMedia)
    assert error.frames == (13,)


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize(("on_damaged", "failures"), [("error", 2), ("skip", 0), ("deliver", 0)])
def test_building_a_cache_leaves_them_out(
    on_damaged: Any, failures: int, form: Form, catalog: Catalog, tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = make_plan(catalog, on_damaged=on_damaged)
    with FrameCache(tmp_path / "cache", form=form, codec="raw") as cache:
        report = build(plan, cache, workers=0)
        assert len(report.failed) == failures
        if on_damaged == "error":
            return
        assert report.frames_failed == 0
        loader = make_loader(plan, batch_size=3, workers=0, cache=cache)
        load_one(loader)
        assert loader.stats().counts.frames_stored == 0, "all that may be stored was"
        damaged_only = make_plan(catalog.take([0]), ONLY_DAMAGED, on_damaged=on_damaged)
        assert build(damaged_only, cache, workers=0).frames_failed == 0


def test_requests_carry_it_wherever_they_go(catalog: Catalog) -> None:
    for on_damaged in ("error", "skip", "deliver"):
        plan = make_plan(catalog, on_damaged=on_damaged)
        request = plan[0]
        assert request.on_damaged == on_damaged
        assert request.damaged is not None
        assert request.damaged.tolist() == find_damaged(plan, 0).tolist()
        assert plan[2].damaged is None
        assert request.valid is not None
        assert request.valid.all() == (on_damaged != "skip")
        again = pickle.loads(pickle.dumps(request))
        assert again == request
        assert again.on_damaged == on_damaged
        travelled = pickle.loads(pickle.dumps(plan))
        assert travelled[0] == request


def test_another_value_is_another_plan(catalog: Catalog) -> None:
    plans = [make_plan(catalog, on_damaged=value) for value in ("error", "skip", "deliver")]
    assert len({plan.fingerprint for plan in plans}) == 3
    assert len({plan[0] for plan in plans}) == 3


def test_a_description_counts_the_damaged_frames(catalog: Catalog) -> None:
    described = make_plan(catalog, on_damaged="skip").describe()
    damaged = sum(int(find_damaged(make_plan(catalog), position).sum()) for position in range(3))
    assert (described.sampled_frames, described.damaged_frames) == (3 * len(ORDINALS), damaged)
    assert f"damaged frames: {damaged} of {3 * len(ORDINALS)} sampled" in str(described)
    assert described.past_end_frames == 0  # Frames that are skipped are not valid either.
    assert "damaged" not in str(make_plan(catalog.take([2])).describe())


@pytest.mark.parametrize("on_damaged", ["skip", "deliver"])
def test_D01_a_plan_warns_once_where_damage_was_not_looked_for(catalog: Catalog, on_damaged: Any) -> None:
    folder = Path(str(catalog.source(0))).parent
    partly = scan(folder, verify="ends", workers=0)  # the first two are decoded anyway, because of what they are
    with pytest.warns(UserWarning, match=r"for 1 of 3 rows, .* not scanned with verify='full'") as shown:
        make_plan(partly, on_damaged=on_damaged)
    assert len(shown) == 1
    with pytest.warns(UserWarning, match="for 1 of 1 rows"):
        make_plan(partly.take([2]), on_damaged=on_damaged)
    make_plan(partly.take([1]), on_damaged=on_damaged)
    make_plan(partly)
    make_plan(catalog, on_damaged=on_damaged)


def test_D01_a_damaged_frame_says_how_to_train_without_it(catalog: Catalog, make_loader: MakeLoader) -> None:
    known = make_plan(catalog.take([0]))
    far_from_the_ends = damaged_clip("long.mp4", (100,), replace(SPEC, num_frames=160))
    unknown = make_plan(scan(far_from_the_ends, workers=0), tuple(range(98, 106)))
    for plan, advice in ((known, r"^(?!.*verify).*on_damaged='skip'"), (unknown, "verify='full'.*on_damaged='skip'")):
        with pytest.raises(CorruptMedia, match=advice) as raised:
            next(iter(make_loader(plan, batch_size=1)))
        assert "although" not in str(raised.value)
        ledger = Ledger()
        ledger.record(LedgerEntry.of(raised.value, "a.mp4", 0, 0))
        assert "on_damaged" in ledger[0].reason
        # The first part of the advice fits where the path is short.
        assert str(ledger).partition("; run ff.scan")[0].endswith("cannot be decoded without damage")
        assert "on_damaged" not in str(ledger)
