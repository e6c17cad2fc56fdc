"""What is left of an epoch, loaders that go on, and batches: substitutes, options, processes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from framefeed.errors import CorruptMedia
from framefeed.testing import read_stamps
from tests.fakes import DamagedSources, SlopedDecoder, fail_some
from tests.golden.clip_documents import (
    Documents,
    Group,
    describe_batch,
    describe_error,
    describe_plan,
    describe_spec,
    load,
    make_loader,
)
from tests.golden.plan_cases import (
    RULES,
    STEADY,
    UNLIKE,
    damage,
    fake,
    list_requests,
    plan,
    plan_costly,
    scan_columns,
)
from tests.golden.stream_cases import list_parts, mix, plan_streams
from tests.load.stream_media import plan_both
from tests.makers import plan_fakes, plan_of, plan_over

# --- rests and states ---------------------------------------------------------------------------------


def list_resumable() -> dict[str, Callable[..., Any]]:
    """Makers of plans, which take rank and world size."""
    parts = list_parts()
    inner = mix(list(zip(parts, (1, 2, 1), strict=True)), num_clips=12)
    return {
        "plan": lambda **options: plan(None, **options),
        "videos": lambda **options: plan(None, shuffle="videos", clips_per_video=3, **options),
        "in order": lambda **options: plan(ff.Dense(2), shuffle=False, **options),
        "dropping": lambda **options: plan(None, tail="drop", **options),
        "dropping videos": lambda **options: plan(None, tail="drop", shuffle="videos", clips_per_video=3, **options),
        "every frame": lambda **options: plan(ff.EveryFrame(), **options),
        "balanced": plan_costly,
        "balanced videos": lambda **options: plan_costly(shuffle="videos", **options),
        "mixture": lambda **options: mix(list(zip(parts, (1, 2, 1), strict=True)), num_clips=30, **options),
        "mixture of a mixture": lambda **options: mix([(inner, 1), (parts[1], 2)], num_clips=30, **options),
        "streams": lambda **options: plan_streams(**options),
        "streams of videos": lambda **options: plan_streams(shuffle="videos", clips_per_video=3, **options),
        "requests": lambda **options: ff.plan_requests(list_requests() * 3, shuffle=True, **options),
    }


def rests(folder: Path) -> Documents:
    """What is left of an epoch, dealt again to as many ranks or others, once and again; and from states."""
    for name, make in list_resumable().items():
        own = [make(rank=rank, world_size=2).without(3) for rank in range(2)]
        yield f"{name} 2 to 2", [describe_plan(each) for each in own]
        more = [make(rank=rank, world_size=3).without(2, 2) for rank in range(3)]
        yield f"{name} 2 to 3", [describe_plan(each) for each in more]
        apart = [make(rank=rank, world_size=2).without([4, 1, 3], 3) for rank in range(2)]
        yield f"{name} apart, 3 to 2", [describe_plan(each) for each in apart]
        again = [each.without([1, 2]) for each in apart]
        yield f"{name} again", [describe_plan(each) for each in again]
        yield f"{name} again in the next epoch", [describe_plan(each.with_epoch(1)) for each in again]
        state = json.loads(json.dumps(again[1].state_dict()))
        for size in (1, 3):
            resumed = [make(rank=rank, world_size=size).with_state(state) for rank in range(size)]
            yield f"{name} from its state over {size}", [describe_plan(each) for each in resumed]
        later = json.loads(json.dumps(make(rank=1, world_size=3).with_epoch(2).state_dict()))
        yield f"{name} from a later state", describe_plan(make(rank=0, world_size=1).with_state(later))
        yield f"{name} rest, batches", load(again[0])
    one = plan(None)
    for clips in (0, 5, 12, 100):
        yield f"one rank after {clips}", describe_plan(one.without(clips))
    yield "twice on one rank", describe_plan(one.without(3).without(4))
    videos = plan(None, tail="drop", shuffle="videos", clips_per_video=3, world_size=2)
    for clips in range(1, 9):
        yield f"parts of videos after {clips}", [describe_plan(videos.without(clips, size)) for size in (1, 2, 3)]


def pickles(folder: Path) -> Documents:
    """Plans that come from a pickle: they are the same."""
    unequal = plan(ff.Uniform(2), fake(sizes=UNLIKE), unequal=True, within=("start", "end"))
    halves = {"one": scan_columns().take([0, 3, 6, 9]), "other": scan_columns().take([9, 10, 3, 0])}
    others: dict[str, Any] = {
        "unequal": unequal,
        "costly": plan_costly(rank=1, world_size=3),
        "at": plan_over(scan_columns(), at="times", seed=3, columns=["grid", "label"], rank=1, world_size=2),
        "own bounds": ff.plan_requests(list_requests(), within=(0.1, 0.4), columns={"label": list("abcabca")}),
        "streams on a key": ff.plan_clips(streams=halves, on="key", at="frames", seed=5, columns=["grid"]),
        "streams of files": plan_both(crop=ff.RandomResizedCrop(20)),
        "streams of requests": ff.plan_requests(
            [{"a": each, "b": other} for each, other in zip(list_requests(), list_requests()[::-1], strict=True)],
            crop=ff.RandomCrop(20), shuffle=True,
        ),
        "mixture of streams": mix([(plan_streams(), 1), (plan_streams(seed=2), 2)], rank=1, world_size=2),
    }  # fmt: skip
    made = {name: make(rank=1, world_size=2).without([2, 1]) for name, make in list_resumable().items()}
    for name, each in {**made, **others}.items():
        copied = pickle.loads(pickle.dumps(each))
        assert json.dumps(describe_plan(copied)) == json.dumps(describe_plan(each))
        yield name, [describe_plan(copied), describe_plan(copied.with_epoch(2))]
        yield f"{name}, batches", load(copied)


def run(
    make: Callable[..., Any], size: int, steps: Sequence[int | None], **options: Any
) -> tuple[list[Any], list[Any]]:
    """Load some batches on each rank, or all up to the end of the epoch; describe them, and give the states."""
    said, states = [], []
    for rank, number in enumerate(steps):
        with make_loader(make(rank=rank, world_size=size), **options) as loader:
            iterator = iter(loader)
            said.append([describe_batch(batch) for batch in (iterator if number is None else islice(iterator, number))])
            states.append(json.loads(json.dumps(loader.state_dict())))
    return said, states


def resume(make: Callable[..., Any], size: int, state: Any, **options: Any) -> list[Any]:
    """Load what is left on each rank, and the first batch of the epoch after it."""
    said = []
    for rank in range(size):
        with make_loader(make(rank=rank, world_size=size), **options) as loader:
            loader.load_state_dict(state)
            rest = [len(loader), describe_spec(loader.describe_batches()), *map(describe_batch, loader)]
            said.append([rest, loader.epoch, describe_batch(next(iter(loader)))])
    return said


def resumed_loaders(folder: Path) -> Documents:
    """Loaders that go on from states, with other sizes of batches and other ranks."""
    for name, make in list_resumable().items():
        before, (state,) = run(make, 1, [2], batch_size=3)
        yield f"{name} before", before
        yield f"{name} in batches of 5", resume(make, 1, state, batch_size=5)
        yield f"{name} over 2", resume(make, 2, state, batch_size=2, drop_last=True)
        _, states = run(make, 3, [1, 2, 1], batch_size=2)
        yield f"{name} 3 apart over 2", resume(make, 2, states, batch_size=4)
        if name in ("plan", "videos", "dropping videos", "mixture", "streams", "balanced"):
            _, alike = run(make, 2, [1, 1], batch_size=3)
            yield f"{name} one state of 2", resume(make, 2, alike[1], batch_size=3)
            last = len(make(rank=0, world_size=2)) // 4
            for kind, steps in {
                "one ahead": [None, last],
                "at the end": [last + 1, last + 1],
                "past": [None, None],
            }.items():
                _, ends = run(make, 2, steps, batch_size=4, drop_last=kind == "one ahead")
                yield f"{name} {kind}", resume(make, 3, ends, batch_size=4)


# --- loaders ------------------------------------------------------------------------------------------


def spoil_most(ordinals: list[int]) -> Any:
    """Find an error in most clips."""
    return CorruptMedia("spoiled", frames=ordinals) if sum(ordinals) % 7 else None


def substitutes(folder: Path) -> Documents:
    """Clips in place of those that fail."""
    makers: dict[str, Callable[..., Any]] = {
        **list_resumable(),
        "failing to plan": lambda **options: plan(RULES["indices error"], **options),
        "flipped": lambda **options: plan(None, horizontal_flip=0.5, size=ff.Letterbox(30), **options),
        "one clip": lambda **options: plan_fakes([9], ff.AtIndices([1]), **options),
        "two clips": lambda **options: plan_fakes([9, 9], ff.AtIndices([1]), **options),
    }
    del makers["every frame"]  # of which there are many
    spoilt = {"some": fail_some, "most": spoil_most}
    for (name, make), (share, spoil) in product(makers.items(), spoilt.items()):
        if share == "most" and name.startswith(("balanced", "in order", "dropping", "mixture of", "streams of")):
            continue
        whole = make(rank=0, world_size=1)
        yield f"{name} {share}", load(whole, on_error="substitute", backend=SlopedDecoder(spoil=spoil))
    for name, epoch in product(("plan", "streams", "mixture"), (1, 2)):
        later = makers[name]().with_epoch(epoch)
        yield f"{name} in epoch {epoch}", load(later, on_error="substitute", backend=SlopedDecoder(spoil=fail_some))
    second = plan(None, rank=1, world_size=2)
    yield "second of two ranks", load(second, on_error="substitute", backend=SlopedDecoder(spoil=fail_some))
    broken = SlopedDecoder(DamagedSources("video0.mp4", "scene2.mp4", "other/scene3.mp4"))
    for name in ("plan", "videos", "streams", "mixture"):
        yield f"{name} broken", load(makers[name](), on_error="substitute", backend=broken)
        yield f"{name} skipped", load(makers[name](), on_error="skip", backend=broken)


def take_part(clip: Any, rng: np.random.Generator) -> Any:
    """A transform, of one stream or of several, with random numbers."""
    if isinstance(clip, dict):
        return {name: take_part(each, rng) for name, each in clip.items()}
    return np.ascontiguousarray(clip[:, :, : 4 + int(rng.integers(1)), ::8]) // np.uint8(1 + rng.integers(3))


def fail_often(clip: Any, rng: np.random.Generator) -> Any:
    """A transform that fails for some clips."""
    if rng.integers(3) == 0:
        raise ValueError("it does not like this clip")
    return take_part(clip, rng)


def load_on(plan: Any, **options: Any) -> Any:
    """Describe the batches of a plan, and the errors that are raised in place of some."""
    said = []
    with make_loader(plan, on_error="raise", **options) as loader:
        iterator = iter(loader)
        while True:
            try:
                said.append(describe_batch(next(iterator)))
            except StopIteration:
                return said
            except ff.FramefeedError as error:
                said.append(describe_error(error))


def caches(folder: Path) -> Documents:
    """Frames that are stored ahead of plans, and what loaders deliver from there."""
    cases = {
        "plan": plan_of(size=(20, 30)),
        "rank": plan_of(size=(20, 30), rank=1, world_size=2),
        "every frame": plan_of(ff.EveryFrame(), size=(20, 30), clips_per_video=1),
        "streams": plan_both(size=(20, 30)),
        "mixture": mix([(plan_of(size=(8, 12)), 1), (plan_of(ff.Uniform(4), size=(8, 12)), 1)], num_clips=9),
        "mixture of streams": mix([(plan_both(size=(8, 12)), 1), (plan_both(seed=3, size=(8, 12)), 1)], num_clips=9),
    }
    for name, made in cases.items():
        for some in (3, None):
            cache = ff.FrameCache(folder / "cache" / f"{name} {some}", form="output")
            for epochs in (1, 2):
                done = ff.cache.build(made, cache, workers=0, backend=SlopedDecoder(), epochs=epochs, clips=some)
                counts = [done.clips, done.frames_stored, done.frames_present, done.frames_failed, done.rest_clips]
                yield f"{name} {some} in {epochs}", counts
            yield f"{name} {some}, batches", load(made, cache=cache, backend=SlopedDecoder())


def loaders(folder: Path) -> Documents:
    """Options of loaders."""
    makers = list_resumable()
    options: dict[str, dict[str, Any]] = {
        "of 5": {"batch_size": 5},
        "dropping the last": {"batch_size": 5, "drop_last": True},
        "transformed": {"transform": take_part},
        "normalised": {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
        "half": {"dtype": "float16", "transform": take_part},
        "threads": {"workers": 2, "prefetch": 1},
    }
    for (name, given), each in product(options.items(), ("plan", "mixture", "streams", "videos")):
        yield f"{each} {name}", load(makers[each](rank=0, world_size=2), **given)
    fails = {"failing to plan": lambda **options: plan(RULES["indices error"], **options)}
    for name, make in {**makers, **fails}.items():
        if name in ("plan", "mixture", "streams", "requests", "failing to plan"):
            yield f"{name} raising", load_on(make(rank=0, world_size=1), backend=SlopedDecoder(spoil=fail_some))
            yield f"{name} transformed, failing", load(make(rank=0, world_size=1), transform=fail_often)
    yield "unequal transformed", load(plan(ff.Uniform(2), fake(sizes=UNLIKE), unequal=True), transform=fail_often)
    for name, each in {"of files": plan_of(), "of file's streams": plan_both()}.items():
        yield name, load(each, read=lambda clips: [read_stamps(clip) for clip in clips], backend="auto")


def in_processes(folder: Path) -> Documents:
    """Batches from worker processes: they are those of the caller's own thread."""
    makers = list_resumable()
    words = {"words": list("abcdefg")}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "plan": (plan(None, horizontal_flip=0.5, size=ff.Letterbox(30), rank=1, world_size=2), {}),
        "mixture of streams": (mix([(plan_streams(), 1), (plan_streams(seed=2, clips_per_video=3), 2)]), {}),
        "rest of a mixture": (makers["mixture"](rank=0, world_size=2).without([3, 1, 2], 3), {}),
        "requests": (ff.plan_requests(list_requests(), seed=1, shuffle=True, columns=words), {"batch_size": 5}),
        "unequal": (plan(ff.Uniform(2), fake(sizes=UNLIKE), unequal=True), {}),
        "damaged": (plan(RULES["uniform 4"], fake([damage(STEADY[0], 3, 11), *STEADY[1:]]), on_damaged="skip"), {}),
        "failing to plan": (plan(RULES["indices error"]), {}),
        "substitutes": (plan(None), {"on_error": "substitute", "backend": SlopedDecoder(spoil=fail_some)}),
        "transformed": (plan_streams(), {"transform": take_part}),
    }
    for name, (made, options) in cases.items():
        document = load(made, kind="processes", workers=1, **options)
        assert json.dumps(document) == json.dumps(load(made, **options))
        yield name, document


GROUPS: dict[str, Group] = {
    "rests": rests,
    "pickles": pickles,
    "resumed loaders": resumed_loaders,
    "substitutes": substitutes,
    "loaders": loaders,
    "caches": caches,
    "processes": in_processes,
}
"""Groups of plans by name; each takes a folder for its files."""
