from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.catalog import make_memory_catalog
from framefeed.errors import FrameNotFound, MissingMedia, UnreadableMedia, UsageError
from framefeed.plan import AtIndices, plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.request import DecodeRequest, OutputSpec, RandomCrop
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.fakes import FakeCatalog, steady_index


def clip(num_frames: int = 20, **options: Any) -> Path:
    return clip_file(f"requests_{num_frames}_{len(options)}.mp4", ClipSpec(num_frames=num_frames, **options))


def test_requests_by_index_and_by_second() -> None:
    path = clip()
    step = float(np.diff(make_memory_catalog([str(path)]).frame_index(0).pts_seconds)[0])
    plan = plan_requests([DecodeRequest(path, [3, -1, 99]), DecodeRequest(path, seconds=[0.0, 2.25 * step, 4 * step])])
    assert [request.indices.tolist() for request in plan] == [[3, 19, 19], [0, 2, 4]]
    assert plan[0].valid.tolist() == [True, True, False]
    assert plan[1].pick_error_seconds.tolist() == pytest.approx([0.0, -0.25 * step, 0.0], abs=1e-9)
    assert plan[1].pts_seconds.tolist() == pytest.approx([0.0, 2 * step, 4 * step])
    assert (plan.frames_per_clip, plan.global_position(1)) == (3, 1)
    assert Path(plan[0].source) == path


def test_each_source_is_indexed_once() -> None:
    one, other = clip(), clip(7)
    plan = plan_requests([DecodeRequest(path, [0]) for path in (one, other, str(one), one.read_bytes())])
    assert len(plan.catalog) == 3
    assert [plan[position].row for position in range(4)] == [0, 1, 0, 2]
    assert plan[3].source == one.read_bytes()


def test_bytes_that_cannot_be_indexed_are_named_by_their_request() -> None:
    good, bad = clip().read_bytes(), clip(7).read_bytes()[:1000]
    requests = [DecodeRequest(source, [0]) for source in (good, good, bad, bad)]
    with pytest.raises(UnreadableMedia, match=r"^<1000 bytes>: .* \(clip at position 2\)$") as caught:
        plan_requests(requests)
    assert (caught.value.source, caught.value.position) == ("<1000 bytes>", 2)


def test_a_catalog_entry_brings_its_index() -> None:
    catalog = make_memory_catalog([str(clip())])
    plan = plan_requests([DecodeRequest(catalog[0], seconds=[0.0])])
    assert plan[0].indices.tolist() == [0]
    assert np.array_equal(plan.catalog.frame_index(0).pts, catalog.frame_index(0).pts)


def test_columns_are_one_value_a_request() -> None:
    requests = [DecodeRequest(clip(), [i]) for i in range(3)]
    plan = plan_requests(requests, columns={"label": ["dog", "cat", "dog"], "score": [0.5, 1.0, 2.0]}, shuffle=True)
    assert plan.classes == ["cat", "dog"]
    for position in range(3):
        number = int(plan[position].indices[0])
        assert plan.columns_at(position) == {"label": [1, 0, 1][number], "score": [0.5, 1.0, 2.0][number]}
    for columns in ({"label": ["dog"]}, {"label": [[1], [2], [3, 4]]}, {"label": [None, "a", "b"]}):
        with pytest.raises(UsageError, match="'label'"):
            plan_requests(requests, columns=columns)


def test_the_numbers_of_frames_must_agree_where_a_shape_is_asked_for() -> None:
    plan = plan_requests([DecodeRequest(clip(), [0]), DecodeRequest(clip(), [0, 1])])
    assert [len(request) for request in plan] == [1, 2]
    with pytest.raises(UsageError, match="differ in their number of frames: use plan"):
        _ = plan.clip_shape
    assert plan.describe().frames_per_clip is None


def test_policy_pick_and_tolerance_hold_for_all_requests() -> None:
    by_index, by_time = [DecodeRequest(clip(), [18, 19, 20, 21])], [DecodeRequest(clip(), seconds=[0.013])]
    assert plan_requests(by_index, policy="wrap")[0].indices.tolist() == [18, 19, 18, 19]
    assert plan_requests(by_time, pick="next")[0].indices.tolist() == [1]
    for plan in (plan_requests(by_index, policy="error"), plan_requests(by_time, tolerance_seconds=0.001)):
        with pytest.raises(FrameNotFound) as caught:
            plan[0]
        assert Path(caught.value.source) == clip()
        assert caught.value.position == 0


def test_a_plan_can_be_listed_and_planned_again() -> None:
    requests = [DecodeRequest(clip(), [i, i + 1], segment=[0, i]) for i in range(6)]
    first = plan_requests(requests, crop=RandomCrop(40), size=16, seed=4)
    again = plan_requests(list(first))
    assert list(again) == list(first)
    assert again.picture_shape == (3, 16, 16)
    with pytest.raises(UsageError, match="not both"):
        plan_requests(list(first), size=8)


def test_clips_of_several_streams_and_their_parts_can_be_planned_again() -> None:
    requests = [{"a": DecodeRequest(clip(), [i]), "b": DecodeRequest(clip(), [i, i + 1])} for i in range(3)]
    first = plan_requests(requests, size=16)
    assert list(plan_requests(list(first))) == list(first)
    assert list(plan_requests([{"a": each["a"], "b": each["b"]} for each in first])) == list(first)
    alone = plan_requests([each["b"] for each in first])
    assert [each.parts[""] for each in alone] == [each["b"] for each in first]


def test_a_clip_that_travelled_is_read_only() -> None:
    request = plan_requests([DecodeRequest(clip(), [0, 1])])[0]
    again = pickle.loads(pickle.dumps(request))
    assert again == request
    assert not any(getattr(again, name).flags.writeable for name in ("indices", "pts_seconds", "valid", "segment"))


def test_a_plan_of_requests_travels() -> None:
    plan = plan_requests(
        [DecodeRequest(clip(), [i], segment=[i]) for i in range(5)], columns={"weight": [1, 2, 3, 4, 5]}, shuffle=True
    ).with_epoch(3)
    copy = pickle.loads(pickle.dumps(plan))
    assert list(copy) == list(plan)
    assert copy.fingerprint == plan.fingerprint
    assert [copy.columns_at(i) for i in range(5)] == [plan.columns_at(i) for i in range(5)]
    assert sorted(int(request.segment[0]) for request in copy) == list(range(5))
    other = plan_requests([DecodeRequest(clip(), [i], segment=[i]) for i in (0, 1, 2, 3, 5)], shuffle=True)
    assert other.fingerprint != plan.fingerprint


def test_L14_ranks_share_the_requests() -> None:
    requests = [DecodeRequest(clip(), [i]) for i in range(5)]
    shares = [[r.indices[0] for r in plan_requests(requests, rank=rank, world_size=2)] for rank in (0, 1)]
    assert shares == [[0, 2, 4], [1, 3, 0]]
    assert len(plan_requests(requests, rank=1, world_size=2, tail="drop")) == 2


def test_a_source_that_cannot_be_indexed_is_raised_at_once(tmp_path: Path) -> None:
    text = tmp_path / "notes.mp4"
    text.write_text("no video here")
    with pytest.raises(UnreadableMedia, match="notes"):
        plan_requests([DecodeRequest(text, [0])])
    with pytest.raises(MissingMedia):
        plan_requests([DecodeRequest(tmp_path / "gone.mp4", [0])])


def test_pictures_of_different_sources_must_come_out_equal() -> None:
    wide = clip_file("requests_wide.mp4", ClipSpec(num_frames=3, width=160, height=96))
    tall = clip_file("requests_tall.mp4", ClipSpec(num_frames=3, width=96, height=160))
    requests = [DecodeRequest(wide, [0]), DecodeRequest(tall, [0])]
    with pytest.raises(UsageError, match="requests_wide"):
        plan_requests(requests)
    assert plan_requests(requests, size=(8, 8)).picture_shape == (3, 8, 8)
    own = [DecodeRequest(r.source, [0], output=OutputSpec((9, 9))) for r in requests]
    assert plan_requests(own).picture_shape == (3, 9, 9)
    with pytest.raises(UsageError, match="same size"):
        plan_requests([own[0], DecodeRequest(tall, [0], output=OutputSpec((9, 10)))])


@pytest.mark.parametrize(
    ("requests", "options"),
    [
        ([DecodeRequest("a", [])], {}),
        ([DecodeRequest("a", seconds=[float("inf")])], {}),
        ([DecodeRequest("a", [1], output=OutputSpec(dimension_order="NHWC"))], {}),
        ([], {"shuffle": "videos"}),
        ([], {"seed": -1}),
    ],
)
def test_wrong_requests_are_refused(requests: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan_requests(requests, **options)


def test_no_requests_are_no_positions() -> None:
    plan = plan_requests([])
    assert (len(plan), list(plan)) == (0, [])


def test_on_damaged_is_no_option_of_requests() -> None:
    catalog: Any = FakeCatalog([steady_index(4)])
    clip = plan_clips(catalog, AtIndices([0]), seed=0, on_damaged="deliver")[0]
    with pytest.raises(UsageError, match="it is an option of plan_clips"):
        plan_requests([clip])
