"""Transforms: their random numbers, their results, and their memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from framefeed.errors import CorruptMedia, LoadError, ResourceExhausted, UsageError
from framefeed.load._batch import BufferPools
from framefeed.load._loader import ClipLoader
from framefeed.load._memory import StackMemory
from framefeed.request import generator_at
from tests.fakes import FlatDecoder
from tests.makers import assert_stamps, plan_of
from tests.patience import PATIENCE_SECONDS

MakeLoader = Callable[..., ClipLoader]


def draw_numbers(clip: Any, rng: np.random.Generator) -> Any:
    return rng.integers(0, 1 << 62, 2)


def collect_draws(workers: int = 0, epoch: int = 0, **options: Any) -> dict[int, tuple[int, ...]]:
    """What each global position drew."""
    loader = ClipLoader(
        plan_of(epoch=epoch, **options), batch_size=4, workers=workers, backend=FlatDecoder(), transform=draw_numbers
    )
    return {
        int(position): tuple(draws.tolist())
        for batch in loader
        for position, draws in zip(batch.positions, batch.data, strict=True)
    }


def test_L11_draws_depend_on_seed_epoch_and_global_position_alone() -> None:
    draws = collect_draws()
    assert draws == collect_draws(1) == collect_draws(3)
    assert len(set(draws.values())) == 12
    ranks = [collect_draws(rank=rank, world_size=2) for rank in range(2)]
    assert ranks[0] | ranks[1] == draws
    assert not set(draws.values()) & set(collect_draws(epoch=1).values())
    assert not set(draws.values()) & set(collect_draws(seed=8).values())
    assert draws[5] == tuple(generator_at(7, 0, 5).integers(0, 1 << 62, 2).tolist())


def test_L11_the_clips_of_every_epoch_are_new_and_the_same_for_any_number_of_workers() -> None:
    chosen = []
    for workers in (0, 2):
        with ClipLoader(plan_of(), batch_size=4, workers=workers) as loader:
            epochs = [np.concatenate([batch.data for batch in loader]) for _ in range(3)]
        chosen.append([epoch.tobytes() for epoch in epochs])
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_another_shape_and_type_is_stacked(workers: int) -> None:
    def half(clip: Any, rng: np.random.Generator) -> Any:
        return clip[:, :, ::2, ::2].astype(np.float32) / 255

    with ClipLoader(plan_of(), batch_size=5, workers=workers, transform=half) as loader:
        plan, position = loader.plan, 0
        for batch in loader:
            assert (batch.data.shape[1:], batch.data.dtype) == ((4, 3, 24, 32), np.float32)
            for clip in batch.data:
                assert_stamps(plan, position, clip)
                position += 1


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_in_place_and_one_that_returns_a_view(make_loader: MakeLoader, workers: int) -> None:
    def darker(clip: Any, rng: np.random.Generator) -> Any:
        clip -= 1
        return clip

    def flipped(clip: Any, rng: np.random.Generator) -> Any:
        return clip[::-1]

    for transform in (darker, flipped):
        plan = plan_of()
        loader = make_loader(plan, batch_size=5, workers=workers, backend=FlatDecoder(), transform=transform)
        clips = [clip for batch in loader for clip in batch.data[:, :, 0, 0, 0].tolist()]
        for position, clip in enumerate(clips):
            ordinals = plan[position].indices
            assert ordinals is not None
            assert clip == ([(ordinal - 1) % 256 for ordinal in ordinals] if transform is darker else [*ordinals[::-1]])


def test_a_kept_clip_is_not_written_again(make_loader: MakeLoader) -> None:
    kept: list[Any] = []

    def keep(clip: Any, rng: np.random.Generator) -> Any:
        kept.append((clip, clip.copy()))
        return clip

    list(make_loader(plan_of(), batch_size=2, workers=2, transform=keep))
    assert len(kept) == 12
    assert all(np.array_equal(clip, copy) for clip, copy in kept)


def test_a_scalar_is_a_result_too(make_loader: MakeLoader) -> None:
    loader = make_loader(plan_of(), batch_size=12, workers=0, transform=lambda clip, rng: clip.mean())
    (batch,) = loader
    assert batch.data.shape == (12,)


@pytest.mark.parametrize(
    ("result", "given"),
    [(None, "None: end the function with `return`"), ({"a": 1}, "dict {'a': 1}"), ("text", "'text'")],
)
def test_results_that_are_no_array_of_numbers_are_refused(make_loader: MakeLoader, result: Any, given: str) -> None:
    loader = make_loader(plan_of(), batch_size=12, workers=1, backend=FlatDecoder(), transform=lambda clip, rng: result)
    with pytest.raises(UsageError, match=f"array of numbers, got .*{given}") as caught:
        next(iter(loader))
    assert (caught.value.stage, caught.value.position) == ("transform", 0)


def test_results_of_one_batch_must_be_alike_and_the_first_clip_says_how(make_loader: MakeLoader) -> None:
    def ragged(clip: Any, rng: np.random.Generator) -> Any:
        return clip if clip[0, 0, 0, 0] % 2 else clip[1:]

    plan = plan_of()
    odd = [bool(request.indices is not None and request.indices[0] % 2) for request in plan]
    other = odd.index(not odd[0])
    for workers in (0, 3):
        loader = make_loader(plan, batch_size=12, workers=workers, backend=FlatDecoder(), transform=ragged)
        with pytest.raises(UsageError, match="return arrays of one shape and dtype") as caught:
            next(iter(loader))
        assert (caught.value.position, caught.value.stage) == (other, "transform")
        skipping = make_loader(
            plan, batch_size=12, workers=workers, backend=FlatDecoder(), transform=ragged, on_error="skip"
        )
        (batch,) = skipping
        assert batch.ok.tolist() == [one == odd[0] for one in odd]
        assert not batch.data[~batch.ok].any()


def test_a_stack_does_not_depend_on_who_comes_first() -> None:
    results = [np.full((2, 2), 5, np.uint8), np.full(3, 6.0), np.full((2, 2), 7, np.uint8)]
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]):
        stack = StackMemory([(1,)] * 4, BufferPools(1, 1))
        for slot in order:
            stack.put(slot, results[slot])
        array, misfits = stack.finish([0, 1, 2], None)
        assert (array[:, 0, 0].tolist(), misfits, array.dtype) == ([5, 0, 7, 0], [1], np.uint8)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_without_a_sound_clip_has_the_shape_of_the_others(make_loader: MakeLoader, workers: int) -> None:
    decoder = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled"))
    loader = make_loader(
        plan_of(),
        batch_size=5,
        workers=workers,
        backend=decoder,
        on_error="skip",
        transform=lambda clip, rng: clip[:2, 0].astype(np.float16),
    )
    shapes = [(batch.data.shape, batch.data.dtype, bool(batch.data.any()), bool(batch.ok.any())) for batch in loader]
    assert shapes == [((size, 2, 48, 64), np.float16, False, False) for size in (5, 5, 2)]


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_a_clip_that_failed_is_zeros_whatever_its_memory_had(make_loader: MakeLoader, workers: int) -> None:
    decoder = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled") if ordinals[0] % 2 else None)
    options: dict[str, Any] = {"batch_size": 2, "backend": decoder, "on_error": "skip"}
    loader = make_loader(plan_of(), workers=workers, transform=lambda clip, rng: np.full_like(clip, 19), **options)
    seen = set()
    for _ in range(3):  # later batches have memory that had others before
        for batch in loader:
            seen |= {(ok, *np.unique(clip).tolist()) for ok, clip in zip(batch.ok.tolist(), batch.data, strict=True)}
    assert seen == {(True, 19), (False, 0)}


def run_out(clip: Any, rng: np.random.Generator) -> Any:
    raise MemoryError


def test_L07_memory_that_a_transform_lacks_is_a_shortage_and_not_skipped(make_loader: MakeLoader) -> None:
    loader = make_loader(plan_of(), batch_size=4, workers=0, transform=run_out, on_error="skip")
    with pytest.raises(ResourceExhausted, match=r"memory.*stage: transform"):
        next(iter(loader))


def test_L05_an_error_of_the_transform_is_wrapped_and_chained(make_loader: MakeLoader) -> None:
    def broken(clip: Any, rng: np.random.Generator) -> Any:
        raise KeyError("mean")

    loader = make_loader(plan_of(), batch_size=4, workers=2, backend=FlatDecoder(), transform=broken)
    with pytest.raises(LoadError, match=r"video_00\d.mp4: transform failed .* position 0: KeyError: 'mean'") as caught:
        next(iter(loader))
    error = caught.value
    assert isinstance(error.__cause__, KeyError)
    assert (error.position, error.stage, error.source) == (0, "transform", plan_of()[0].source)
    assert "received" not in str(error)
    assert error.remote_traceback is not None
    assert 'raise KeyError("mean")' in error.remote_traceback


def test_L19_large_results_are_not_made_ahead_of_a_slow_consumer(
    make_loader: MakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = np.zeros(1000)
    monkeypatch.setattr("framefeed.load._iteration.MAX_PREFETCH_BYTES", result.nbytes)
    changed = threading.Condition()
    asked_for, made, made_too_early = 0, 0, []

    def is_as_far_ahead_as_allowed() -> bool:
        return made >= min(asked_for + 2, 12)

    def enlarge(clip: Any, rng: np.random.Generator) -> Any:
        nonlocal made
        with changed:
            # One result may weigh as much as is allowed; behind it, one more is begun.
            if made > asked_for + 1:
                made_too_early.append(made)
            made += 1
            changed.notify_all()
        return result

    loader = make_loader(plan_of(), batch_size=1, workers=1, prefetch=8, backend=FlatDecoder(), transform=enlarge)
    iterator = iter(loader)
    for number in range(1, 13):
        asked_for = number
        next(iterator)
        with changed:
            assert changed.wait_for(is_as_far_ahead_as_allowed, PATIENCE_SECONDS)
    assert made_too_early == []


def test_transforms_run_in_the_workers(make_loader: MakeLoader) -> None:
    names: set[str] = set()

    def note(clip: Any, rng: np.random.Generator) -> Any:
        names.add(threading.current_thread().name)
        return clip

    list(make_loader(plan_of(), batch_size=4, workers=1, backend=FlatDecoder(), transform=note))
    assert len(names) == 1
    assert threading.current_thread().name not in names


def test_the_error_of_a_transform_for_other_types_names_what_it_received(make_loader: MakeLoader) -> None:
    options: dict[str, Any] = {"batch_size": 4, "workers": 1, "backend": FlatDecoder()}
    loader = make_loader(plan_of(), **options, transform=lambda clip, rng: clip.convert("L"))
    with pytest.raises(LoadError, match=r"received a NumPy array, uint8 \[T, C, H, W\], and a NumPy generator"):
        next(iter(loader))


def test_the_form_of_results_is_that_of_a_clip_of_this_rank() -> None:
    plan = plan_of(rank=1, world_size=2)
    foreign = plan.whole[0].indices.tolist()
    assert plan[0].indices.tolist() != foreign
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled") if ordinals == foreign else None)
    with ClipLoader(plan, batch_size=2, workers=0, backend=spoil, transform=lambda clip, rng: clip[0, 0, :2]) as loader:
        assert loader.describe_batches().arrays["data"].shape == (None, 2, 64)


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
@pytest.mark.parametrize(
    "wrong", [lambda clip: clip, lambda: None, lambda clip, rng, more: clip], ids=["clip", "none", "three"]
)
def test_a_transform_of_other_arguments_is_refused_before_the_first_clip(wrong: Any, on_error: Any) -> None:
    with pytest.raises(UsageError, match=r"^transform: expected a function of \(clip, rng\), got .*lambda") as caught:
        ClipLoader(plan_of(), batch_size=2, transform=wrong, on_error=on_error)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "right", [lambda clip, rng=None: clip, lambda *both: both[0], np.multiply], ids=["default", "any", "native"]
)
def test_a_transform_that_may_take_them_is_accepted(right: Any) -> None:
    ClipLoader(plan_of(), batch_size=2, transform=right).close()
