"""L13: a resumed run equals an uninterrupted one, from every state, for every configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.catalog import Catalog
from framefeed.load._loader import ClipLoader
from framefeed.plan import EveryFrame, plan_clips, plan_requests
from framefeed.request import DecodeRequest, Letterbox
from framefeed.scanning import scan
from tests.fakes import FlatDecoder, SlopedDecoder, add_noise, fail_some
from tests.load.laws import MakeLoader, check_resume, check_successive, content, dump_state, run
from tests.makers import catalog, plan_of


def shift(clip: Any, rng: np.random.Generator) -> Any:
    return clip[..., 3:] + rng.integers(9, dtype=np.uint8)


def requests_plan() -> Any:
    requests = [DecodeRequest(source=catalog()[row], indices=[row, 2 * row, 5]) for row in (0, 3, 1, 3, 5)]
    return plan_requests(requests, columns={"weight": [0.5, 1.5, 2.5, 3.5, 4.5]})


@cache
def annotated_catalog() -> Catalog:
    lists = "".join(f'{{"path": "{catalog().source(row % 6)}", "frame": [{row}, 5, {row + 2}]}}\n' for row in range(9))
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "list.jsonl")
        manifest.write_text(lists)
        return scan(manifest, workers=0)


PLANS = {
    "clips": plan_of,
    "ordered": lambda: plan_of(shuffle=False, clips_per_video=1),
    "videos": lambda: plan_of(shuffle="videos", rank=1, world_size=2),
    "padded rank": lambda: plan_of(clips_per_video=3, rank=1, world_size=4),
    "frames": lambda: plan_of(EveryFrame(), clips_per_video=1, world_size=9, tail="drop", size=(24, 32)),
    "requests": requests_plan,
    "flipped": lambda: plan_of(horizontal_flip=0.5),
    "boxed": lambda: plan_of(horizontal_flip=0.5, size=Letterbox(40, 71, fill=(1, 2, 3))),
    "annotated": lambda: plan_clips(annotated_catalog(), at="frame", seed=3, rank=1, world_size=2),
}

SKIP = {"on_error": "skip", "spoil": True}
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {"batch_size": 5}) for name in PLANS},
    "batches of one": ("padded rank", {"batch_size": 1, "prefetch": 1}),
    "one batch": ("clips", {"batch_size": 50, "prefetch": 5}),
    "drop_last": ("clips", {"batch_size": 5, "drop_last": True}),
    "nothing but a dropped batch": ("ordered", {"batch_size": 7, "drop_last": True}),
    "transform": ("clips", {"batch_size": 5, "transform": add_noise}),
    "flipped and transform": ("flipped", {"batch_size": 5, "transform": add_noise}),
    "boxed float32": ("boxed", {"batch_size": 5, "mean": 0.4, "std": (0.1, 0.2, 0.3)}),
    "float16 and transform": ("flipped", {"batch_size": 5, "dtype": "float16", "transform": shift}),
    "boxed, skip": ("boxed", {"batch_size": 5, **SKIP}),
    "boxed, skip and transform": ("boxed", {"batch_size": 5, **SKIP, "transform": add_noise}),
    "skip": ("clips", {"batch_size": 5, **SKIP}),
    "skip and transform": ("clips", {"batch_size": 2, **SKIP, "transform": add_noise}),
}


def find_maker(name: str, loader: type[ClipLoader] = ClipLoader) -> MakeLoader:
    plan, options = CONFIGURATIONS[name]
    iterate_to_end = {key: value for key, value in options.items() if key != "spoil"}
    decoder = SlopedDecoder(spoil=fail_some) if "spoil" in options else SlopedDecoder()
    return lambda workers: loader(PLANS[plan](), workers=workers, backend=decoder, **iterate_to_end)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_L13_resumed_is_uninterrupted_from_every_state(name: str) -> None:
    check_resume(find_maker(name))


@pytest.mark.parametrize("name", ["clips", "drop_last", "skip and transform", "padded rank"])
@pytest.mark.parametrize("steps", [[1, 1, 1], [2, 3, 1], [3, 0, 2]])
def test_L13_three_successive_resumes(name: str, steps: list[int]) -> None:
    check_successive(find_maker(name), steps)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_any_number_of_workers_delivers_what_none_delivers(name: str) -> None:
    assert run(find_maker(name), 1) == run(find_maker(name), 3) == run(find_maker(name), 0)


class Ahead(ClipLoader):
    """Wrong on purpose: counts a batch more than it delivered, as who counts what is prefetched would."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "clips": min(len(self.plan), state["clips"] + self.batch_size)}


class Forgetful(ClipLoader):
    """Wrong on purpose: restores the epoch and not the batch."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({**state, "clips": 0, "finished": False})


class Sticky(ClipLoader):
    """Wrong on purpose: restores the batch and not the epoch."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "plan": {**state["plan"], "epoch": 0}}


@pytest.mark.parametrize("wrong", [Ahead, Forgetful, Sticky])
def test_L13_wrong_loaders_are_caught(wrong: type[ClipLoader]) -> None:
    with pytest.raises(AssertionError):
        check_resume(find_maker("clips", wrong), expected=run(find_maker("clips")))


def _positions(loader: ClipLoader) -> list[int]:
    return [int(position) for batch in loader for position in batch.positions]


def _loader(batch_size: int, **options: Any) -> ClipLoader:
    return ClipLoader(plan_of(clips_per_video=4, **options), batch_size=batch_size, workers=0, backend=FlatDecoder())


@pytest.mark.parametrize(
    "change",
    [
        {"plan": {"version": 1, "fingerprint": "0" * 32, "seed": 7, "epoch": 0, "world_size": 1}},
        {"plan": None},
        {"version": 99},
        {"delivered": -1},
        {"clips": -1},
        {"clips": "2"},
        {"delivered": "2"},
        {"delivered": True},
        {"batch_size": 0},
    ],
)
def test_L13_a_foreign_or_damaged_state_is_refused(change: dict[str, Any]) -> None:
    loader = _loader(4)
    next(iter(loader))
    before = dump_state(loader)
    with pytest.raises(ValueError, match=r"state|checkpoint"):
        loader.load_state_dict({**loader.state_dict(), **change})
    assert dump_state(loader) == before


def test_epoch_rises_when_exhausted_and_not_when_broken_off() -> None:
    loader = _loader(10)
    contents = [content(batch) for batch in loader]
    assert (loader.epoch, len(contents), len(loader)) == (1, 3, 3)
    for _ in loader:
        break
    assert (loader.epoch, loader.state_dict()["delivered"]) == (1, 1)
    again = [content(batch) for batch in loader]
    assert loader.epoch == 2
    assert again != contents
    assert again == [content(batch) for batch in _loader(10, epoch=1)]


def test_exhausting_twice_raises_the_epoch_once() -> None:
    loader = _loader(10)
    iterator = iter(loader)
    assert [len(list(iterator)), len(list(iterator)), loader.epoch] == [3, 0, 1]
