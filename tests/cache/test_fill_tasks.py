from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.prefill._demand import GROUP_FRAMES, JOINED_FRAMES, FillOptions, FillTask, FrameRun, make_tasks
from framefeed.plan import AtSeconds, ClipRule, Dense, EpochPlan, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.request import RandomCrop
from tests.makers import plan_fakes

FRAME_BYTES = 3 * 8 * 8
GOP = 12
RULES = [Uniform(4), Dense(6, stride=2), RandomSegments(5), Rates([(1, 2), (5, 3)]), EveryFrame()]
TaskMaker = Callable[[EpochPlan, int, FillOptions], Iterable[FillTask]]


def plan_videos(rule: ClipRule, videos: Sequence[int] = (40, 25, 61), clips: int = 3, **options: object) -> EpochPlan:
    clips = 1 if isinstance(rule, EveryFrame) else clips
    return plan_fakes(videos, rule, gop=GOP, clips_per_video=clips, **{"seed": 5, "size": (8, 8), **options})


def frames_of(plan: EpochPlan, epochs: int, by_output: bool) -> Counter[object]:
    """Every distinct frame of a plan, requested position by position."""
    frames: Counter[object] = Counter()
    for epoch in range(plan.epoch, plan.epoch + epochs):
        for request in plan.with_epoch(epoch):
            for ordinal in request.indices.tolist():
                frames[request.source, ordinal, request.output if by_output else None] = 1
    return frames


def check_tasks(maker: TaskMaker, plan: EpochPlan, epochs: int, options: FillOptions) -> None:
    tasks = list(maker(plan, epochs, options))
    frames: Counter[object] = Counter()
    for task in tasks:
        for run in task.runs:
            key = run.output if options.by_output else None
            frames.update((plan.catalog.source(task.row), ordinal, key) for ordinal in run.ordinals.tolist())
    assert frames == frames_of(plan, epochs, options.by_output), "each frame once"
    assert [task.row for task in tasks] == sorted(task.row for task in tasks)
    num_frames = sum(len(request) for epoch in range(epochs) for request in plan.with_epoch(plan.epoch + epoch))
    assert sum(task.clip_frames for task in tasks) == num_frames
    for task in tasks:
        most = options.max_bytes if options.by_output else 4 * options.max_bytes
        assert task.num_frames * FRAME_BYTES <= max(most, (1 if options.by_output else GOP) * FRAME_BYTES), "bounded"


@given(
    rule=st.sampled_from(RULES),
    epochs=st.integers(1, 3),
    options=st.builds(FillOptions, st.booleans(), st.integers(1, 80 * FRAME_BYTES)),
    world_size=st.integers(1, 3),
    crop=st.sampled_from([None, RandomCrop(20, 30)]),
)
def test_every_frame_once(
    rule: ClipRule, epochs: int, options: FillOptions, world_size: int, crop: RandomCrop | None
) -> None:
    plan = plan_videos(rule, epoch=2, rank=world_size - 1, world_size=world_size, crop=crop)
    check_tasks(make_tasks, plan, epochs, options)


def repeats_frames(plan: EpochPlan, epochs: int, options: FillOptions) -> Iterable[FillTask]:
    for task in make_tasks(plan, epochs, options):
        task.runs = [FrameRun(np.concatenate([p.ordinals, p.ordinals[:1]]), p.output) for p in task.runs]
        yield task


def first_epoch_only(plan: EpochPlan, epochs: int, options: FillOptions) -> Iterable[FillTask]:
    return make_tasks(plan, 1, options)


def has_no_limit(plan: EpochPlan, epochs: int, options: FillOptions) -> Iterable[FillTask]:
    return make_tasks(plan, epochs, FillOptions(options.by_output, 1 << 30))


def ignores_output(plan: EpochPlan, epochs: int, options: FillOptions) -> Iterable[FillTask]:
    return make_tasks(plan, epochs, FillOptions(False, options.max_bytes))


@pytest.mark.parametrize("wrong", [repeats_frames, first_epoch_only, has_no_limit, ignores_output])
def test_wrong_tasks_are_caught(wrong: TaskMaker) -> None:
    plan = plan_videos(RandomSegments(5), crop=RandomCrop(20, 30))
    check_tasks(make_tasks, plan, 2, FillOptions(True, 7 * FRAME_BYTES))
    with pytest.raises(AssertionError):
        check_tasks(wrong, plan, 2, FillOptions(True, 7 * FRAME_BYTES))


def test_a_long_clip_is_cut_between_gops() -> None:
    plan = plan_videos(Uniform(60), videos=[60], clips=1)
    tasks = list(make_tasks(plan, 1, FillOptions(False, 30 * FRAME_BYTES)))
    starts = [[run.ordinals.min() for run in task.runs] for task in tasks]
    assert starts == [[0], [24], [48]]
    cut_within = list(make_tasks(plan, 1, FillOptions(True, 5 * FRAME_BYTES)))
    assert [task.num_frames for task in cut_within][:3] == [5, 5, 2]
    whole = list(make_tasks(plan, 1, FillOptions(False, 5 * FRAME_BYTES)))
    assert [task.num_frames for task in whole] == [GOP] * 5


def test_a_long_video_makes_several_tasks() -> None:
    for by_output in (False, True):
        for rule in (EveryFrame(), Uniform(2000)):
            plan = plan_videos(rule, videos=[2000], clips=1)
            tasks = list(make_tasks(plan, 1, FillOptions(by_output, 1 << 30)))
            sizes = [task.num_frames for task in tasks[:-1]]
            assert all(abs(size - GROUP_FRAMES) < GOP and size % GOP == 0 for size in sizes)


def test_single_frames_are_cut_between_gops_too() -> None:
    plan = plan_videos(EveryFrame(), videos=[60])
    tasks = list(make_tasks(plan, 1, FillOptions(False, 5 * FRAME_BYTES)))
    assert [task.num_frames for task in tasks] == [GOP] * 5


def test_clips_of_all_epochs_that_lie_together_are_decoded_together() -> None:
    plan = plan_videos(Dense(4, stride=1), videos=[600], clips=40)
    tasks = list(make_tasks(plan, 3, FillOptions(False, 60 * FRAME_BYTES)))
    spans = [(min(p.ordinals.min() for p in task.runs), max(p.ordinals.max() for p in task.runs)) for task in tasks]
    assert len(tasks) > 3
    for (_, last), (first, _) in pairwise(spans):
        assert first > last - GOP - 4


def test_single_frames_are_stored_many_together() -> None:
    (task,) = make_tasks(plan_videos(EveryFrame(), videos=[61]), 1, FillOptions(False, 1 << 20))
    assert [len(run) for run in task.runs] == [JOINED_FRAMES] * 3 + [61 - 3 * JOINED_FRAMES]


def test_a_clip_keeps_its_order() -> None:
    plan = plan_videos(AtSeconds([1.2, 0.4, 0.8] * 8), videos=[40], clips=1)
    (task,) = make_tasks(plan, 1, FillOptions(False, 1 << 20))
    assert task.runs[0].ordinals.tolist() == [30, 10, 20]
    assert task.clip_frames == 24


def test_clips_that_cannot_be_planned() -> None:
    plan = plan_videos(AtSeconds([1.2], policy="error"), videos=[40, 20], clips=1)
    whole, failed = make_tasks(plan, 1, FillOptions(False, 1 << 20))
    assert (whole.num_frames, whole.errors) == (1, [])
    assert failed.row == 1
    assert failed.runs == []
    assert "video1.mp4" in str(failed.errors[0])
