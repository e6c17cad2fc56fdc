"""Clips of whole videos with budgets of pixels through loaders: ranks, resume, caches, data sets, stills, mixtures."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed import vlm
from framefeed.errors import UsageError
from framefeed.plan import count_planned, mean_clip_bytes
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FakeCatalog, steady_index
from tests.makers import plan_fakes, plan_over
from tests.vlm.processors import make_processor

COUNTS = [60, 131, 9, 97, 40, 75]
BUDGET = ff.PixelBudget(16, min_total=256, max_total=64 * 64 * 12)
RULE = ff.WholeVideo(4, min_frames=2, max_frames=12, multiple=2)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> ff.Catalog:
    folder = tmp_path_factory.mktemp("videos")
    for number, count in enumerate(COUNTS):
        pts = [ordinal * 40 + ordinal % 5 * 7 for ordinal in range(count)] if number % 2 else None
        base = {"pts": pts, "time_base": Fraction(1, 1000)} if pts else {}
        write_clip(
            folder / f"{number}.mkv", ClipSpec(num_frames=count, gop=12, height=64 + 16 * number, width=96, **base)
        )
    return ff.scan(folder, out=folder / "cat.parquet", progress=False)


def plan_whole_videos(catalog: ff.Catalog, **options: Any) -> ff.EpochPlan:
    given = {"seed": 3, "size": BUDGET, **options}
    return ff.plan_clips(catalog, RULE, filter="bicubic", unequal=True, **given)


def load(plan: ff.EpochPlan, **options: Any) -> Iterator[tuple[int, Any, Any]]:
    """Position, picture bytes and metadata of each clip."""
    with ff.ClipLoader(plan, batch_size=2, **{"workers": 0, **options}) as loader:
        for batch in loader:
            for position, clip, facts in zip(batch.positions, batch.data, vlm.metadata(batch), strict=True):
                yield int(position), clip.tobytes(), facts


@pytest.fixture(scope="module")
def expected(catalog: ff.Catalog) -> list[tuple[int, Any, Any]]:
    return list(load(plan_whole_videos(catalog)))


def test_clips_are_those_of_one_video_alone(catalog: ff.Catalog, expected: list[Any]) -> None:
    plan = plan_whole_videos(catalog)
    for position, (_, data, facts) in enumerate(expected):
        alone = vlm.load_video(plan[position].source, rule=RULE, size=BUDGET)
        assert (alone.frames.tobytes(), alone.metadata) == (data, facts)
    assert len({plan.shapes()[position][1:] for position in range(len(plan))}) > 2


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("balance", [None, "cost"])
def test_ranks_have_all_clips(catalog: ff.Catalog, expected: list[Any], world_size: int, balance: Any) -> None:
    found = [
        clip
        for rank in range(world_size)
        for clip in load(plan_whole_videos(catalog, rank=rank, world_size=world_size, balance=balance))
    ]
    assert sorted(found, key=lambda each: each[0]) == expected


def test_resumed_is_uninterrupted(catalog: ff.Catalog, expected: list[Any]) -> None:
    with ff.ClipLoader(plan_whole_videos(catalog), batch_size=2, workers=0) as loader:
        next(iter(loader))
        state = json.loads(json.dumps(loader.state_dict()))
    with ff.ClipLoader(plan_whole_videos(catalog), batch_size=2, workers=2) as loader:
        loader.load_state_dict(state)
        rest = [clip.tobytes() for batch in loader for clip in batch.data]
    assert rest == [data for _, data, _ in expected[2:]]
    other = ff.plan_clips(catalog, RULE, size=BUDGET, unequal=True, seed=3)
    with ff.ClipLoader(other, batch_size=2, workers=0) as loader, pytest.raises(UsageError, match="filter"):
        loader.load_state_dict(state)


def test_cached_is_fresh(catalog: ff.Catalog, expected: list[Any], tmp_path: Path) -> None:
    cache = ff.FrameCache(tmp_path / "cache")
    plan = plan_whole_videos(catalog)
    for _ in range(2):
        assert list(load(plan, cache=cache)) == expected
    frames, nbytes = count_planned(plan, "output")
    assert frames > 0
    assert nbytes > 0
    own = np.mean([np.prod(shape) * 3 for shape in plan.shapes()])
    assert 0.5 * own < mean_clip_bytes(plan) < 2 * own


def test_items_of_a_data_set(catalog: ff.Catalog, expected: list[Any]) -> None:
    torch = pytest.importorskip("torch")
    from framefeed.torch import ClipDataset, list_clips, pad_clips

    data_set = ClipDataset(plan_whole_videos(catalog))
    loader = torch.utils.data.DataLoader(data_set, batch_size=3, collate_fn=list_clips)
    batches = list(loader)
    assert [clip.numpy().tobytes() for batch in batches for clip in batch["data"]] == [data for _, data, _ in expected]
    assert [facts for batch in batches for facts in vlm.metadata(batch)] == [facts for *_, facts in expected]
    padded = next(
        iter(
            torch.utils.data.DataLoader(ClipDataset(plan_whole_videos(catalog, size=(32, 32))), 4, collate_fn=pad_clips)
        )
    )
    with pytest.raises(UsageError, match=r"use ff\.torch\.list_clips"):
        vlm.metadata(padded)


def test_a_plan_pickles_and_describes_itself(catalog: ff.Catalog) -> None:
    plan = plan_whole_videos(catalog)
    again = pickle.loads(pickle.dumps(plan))
    assert (again.fingerprint, again.shapes()) == (plan.fingerprint, plan.shapes())
    assert "PixelBudget" in str(plan.state_dict()["options"])
    described = ff.plan_clips(catalog, ff.WholeVideo(60, max_frames=40), unequal=True, seed=0, size=(32, 32)).describe()
    assert described.repeated_frames > 0
    assert "frames that repeat the one before" in str(described)


def test_pictures_and_videos_in_one_plan(catalog: ff.Catalog, tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(tmp_path / "still.png")
    mixed = ff.scan([str(tmp_path / "still.png"), catalog.source(0)], progress=False)
    plan = ff.plan_clips(mixed, RULE, size=BUDGET, unequal=True, seed=0, shuffle=False)
    assert plan.shapes()[0] == (2, 48, 64)
    (still, _), *_ = [(facts, data) for _, data, facts in load(plan)]
    assert still["duration"] == 0.0
    assert np.allclose(np.array(still["frames_indices"]) / still["fps"], 0)


def test_one_number_of_frames_needs_no_lists(catalog: ff.Catalog) -> None:
    plan = ff.plan_clips(catalog, ff.WholeVideo(4, min_frames=6, max_frames=6), size=(32, 48), seed=0)
    with ff.ClipLoader(plan, batch_size=3, workers=0) as loader:
        assert [batch.data.shape for batch in loader] == [(3, 6, 3, 32, 48)] * 2
    with pytest.raises(UsageError, match="give unequal=True"):
        ff.plan_clips(catalog, RULE, size=BUDGET, seed=0)


def test_tokens_say_what_ranks_wait_for(catalog: ff.Catalog) -> None:
    processor = make_processor("qwen3_vl", size={"shortest_edge": 1024, "longest_edge": 32 * 32 * 40})
    rule, size = vlm.rules(processor, fps=4, max_frames=12)
    plan = ff.plan_clips(catalog, rule, size=size, unequal=True, seed=0)
    assert vlm.count_tokens(plan, processor).max() <= 20


def uneven_plan(**options: Any) -> ff.EpochPlan:
    """Whole videos of 1 to 23 seconds and of three sizes, of which there is an index and nothing else."""
    indexes = [steady_index(25 * seconds) for seconds in range(1, 24)]
    fakes = FakeCatalog(indexes, sizes=[((48, 64), (64, 48), (80, 80))[row % 3] for row in range(23)])
    return plan_over(fakes, **{"rule": RULE, "size": BUDGET, "unequal": True, "seed": 5, **options})


def list_shapes(plan: ff.EpochPlan) -> list[tuple[int, int, int]]:
    return [(length, height, width) for length, _, height, width in (clip.shape for clip in plan)]


def test_shapes_are_those_of_the_planned_clips() -> None:
    whole = uneven_plan()
    of_ranks = [uneven_plan(rank=rank, world_size=3) for rank in range(3)]
    other = uneven_plan(size=ff.LongSide(50), seed=6)
    mixed = ff.mix_plans([(whole, 2), (other, 1)], num_clips=40, seed=0, unequal=True)
    for plan in (whole, whole.with_epoch(2), *of_ranks, mixed, uneven_plan(rule=ff.Uniform(5)), uneven_plan(size=8)):
        assert plan.shapes() == list_shapes(plan)
    assert sorted({shape for plan in of_ranks for shape in plan.shapes()}) == sorted(set(whole.shapes()))


def test_shapes_of_some_clips_of_a_mixture() -> None:
    parts = [(uneven_plan(rule=ff.Uniform(3)), 2), (uneven_plan(rule=ff.Uniform(5), size=ff.LongSide(50)), 1)]
    mixed = ff.mix_plans(parts, num_clips=40, seed=0, unequal=True)
    found = mixed.clips_at(np.arange(40))
    for some in (slice(0, 40), slice(7, 15), slice(39, 40)):
        assert found[some].find_shapes() == [[(length, 3, *size) for length, *size in mixed.shapes()[some]]]


def test_shapes_of_requests_of_any_length(catalog: ff.Catalog) -> None:
    requests = [ff.DecodeRequest(catalog.source(row), indices=[0] * (row + 1) ** 2) for row in range(len(COUNTS))]
    plan = ff.plan_requests(requests, size=BUDGET, unequal=True)
    assert plan.shapes() == list_shapes(plan)
    assert len({shape[1:] for shape in plan.shapes()}) > 3


def test_shapes_of_more_clips_than_are_found_at_once() -> None:
    plan = plan_fakes([10], ff.Uniform(2), clips_per_video=4100, size=(8, 8))
    assert plan.shapes() == [(2, 8, 8)] * 4100


def test_frames_past_the_end_are_not_counted_as_repeated() -> None:
    plan = plan_fakes([10], ff.AtIndices([3, 3, 9, 99, 99]), size=(8, 8))
    described = plan.describe()
    assert (described.repeated_frames, described.past_end_frames) == (1, 2)
