"""Pictures that are one task load as if each were a task: the same batches, errors, names and deadlines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.decode import BaseDecoder, DecodeReport, SourceClips
from framefeed.errors import CorruptMedia, DeadlineExceeded, FramefeedError
from framefeed.load import _work
from framefeed.load._batch import BufferPools, ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.load._options import LoaderOptions
from framefeed.load._pending import begin_batch
from framefeed.load._work import Grouping, split_batch
from framefeed.plan import AtIndices, EpochPlan, Uniform, plan_clips
from framefeed.request import RandomResizedCrop
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FlatDecoder, add_noise
from tests.lengths import sampled
from tests.load.laws import content
from tests.makers import plan_over
from tests.media.pictures import noise
from tests.parallel.clocks import HandClock
from tests.patience import PATIENCE_SECONDS

MakeLoader = Callable[..., ClipLoader]
LARGE = 4
"""Number of the picture that is larger than the others together."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """14 pictures, one of them damaged behind its header, and two videos."""
    folder = tmp_path_factory.mktemp("mixed")
    for number in range(14):
        size = (300, 400) if number == LARGE else (20 + number, 30)
        Image.fromarray(noise(*size, seed=number)).save(folder / f"{number:02}.png")
    data = bytearray((folder / "09.png").read_bytes())
    data = data[: len(data) // 2] + bytes(99) + data[len(data) // 2 + 99 :]
    (folder / "09.png").write_bytes(data)
    write_clip(folder / "15.mp4", ClipSpec(num_frames=3))
    write_clip(folder / "05b.mp4", ClipSpec(num_frames=1))
    return folder


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    return scan(folder, workers=0)


plan_first = partial(plan_over, rule=AtIndices([0]), seed=3, size=(16, 16))


def describe(batch: ClipBatch) -> Any:
    if not isinstance(batch.data, list):
        return content(batch)
    clips = [(clip.shape, clip.dtype.str, clip.tobytes()) for clip in batch.data]
    return clips, content(replace(batch, data=np.zeros(len(batch))))


def load(
    plan: EpochPlan, monkeypatch: pytest.MonkeyPatch, most_pictures: int, epochs: int = 2, **options: Any
) -> tuple[list[Any], list[Any]]:
    """The contents of all batches, errors that were raised included; and the ledger."""
    monkeypatch.setattr(_work, "_MOST_PICTURES", most_pictures)
    loaded: list[Any] = []
    with ClipLoader(plan, batch_size=7, prefetch=3, **options) as loader:
        for _ in range(epochs):
            iterator = iter(loader)
            while True:
                try:
                    loaded.append(describe(next(iterator)))
                except StopIteration:
                    break
                except FramefeedError as error:
                    loaded.append((type(error), str(error), error.position, error.source, error.stage))
        return loaded, list(loader.ledger)


OPTIONS: dict[str, dict[str, Any]] = {
    "raise": {},
    "skip": {"on_error": "skip"},
    "substitute": {"on_error": "substitute"},
    "transform": {"on_error": "skip", "transform": add_noise},
    "transform and substitute": {"on_error": "substitute", "transform": add_noise},
}


@pytest.mark.parametrize(
    ("name", "workers"),
    sampled([(name, workers) for workers in (2, 0) for name in OPTIONS], lambda case: case if case[1] else 0),
)
def test_groups_deliver_what_single_sources_do(
    name: str, workers: int, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = OPTIONS[name]
    for plan in (plan_first(catalog, clips_per_video=2), plan_first(catalog, size=None, unequal=True)):
        alone, ledger = load(plan, monkeypatch, 1, workers=0, **options)
        together = load(plan, monkeypatch, 16, workers=workers, **options)
        assert together == (alone, ledger)
        assert "CorruptMedia" in str(alone) + str(ledger)


def test_groups_in_processes_are_single_sources(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_first(catalog)
    alone, ledger = load(plan, monkeypatch, 1, workers=0, on_error="skip", epochs=1)
    assert load(plan, monkeypatch, 16, workers=1, kind="processes", on_error="skip", epochs=1) == (alone, ledger)


@pytest.mark.filterwarnings("ignore:cache. about")
@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize("crop", [None, RandomResizedCrop(16)], ids=["whole", "crops"])
def test_groups_read_a_cache_as_single_sources_do(
    codec: str, crop: Any, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_first(catalog, crop=crop, shuffle=True, size=None if crop else (16, 16))
    expected = load(plan, monkeypatch, 1, epochs=3, workers=0, on_error="skip")
    for workers in (0, 2):
        with FrameCache(tmp_path / f"c{workers}", codec=codec) as cache:
            assert load(plan, monkeypatch, 16, epochs=3, workers=workers, on_error="skip", cache=cache) == expected
            stats = cache.stats()
            assert (
                load(plan, monkeypatch, 16, epochs=1, workers=workers, on_error="skip", cache=cache)[0]
                == (expected[0][: len(expected[0]) // 3])
            )
            hits = cache.stats().frames_hit - stats.frames_hit
            assert hits >= (15 if crop is None else 1)


def test_D09_a_source_that_changes_fails_alone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        Image.fromarray(noise(seed=number)).save(tmp_path / f"{number}.png")
    plan = plan_first(scan(tmp_path, workers=0), shuffle=False)
    Image.fromarray(noise(30, 20, seed=9)).save(tmp_path / "2.png")
    (tmp_path / "4.png").unlink()
    alone = load(plan, monkeypatch, 1, workers=0, on_error="skip")
    assert load(plan, monkeypatch, 16, workers=0, on_error="skip") == alone
    assert [(entry.position, entry.reason.partition(":")[0]) for entry in alone[1]] == [
        (2, "StaleSource"), (4, "MissingMedia"), (2, "StaleSource"), (4, "MissingMedia")]  # fmt: skip


# --- how a batch is split ---------------------------------------------------------------------------


@given(
    positions=st.lists(st.integers(0, 31), min_size=1, max_size=40),
    clips=st.integers(1, 20),
    pixels=st.sampled_from([0, 700, 3000, 1 << 20]),
)
@example(positions=list(range(32)), clips=3, pixels=1 << 20)
@example(positions=list(range(32)), clips=20, pixels=3000)
def test_every_clip_is_in_one_task_and_only_small_pictures_share_one(
    catalog: Catalog, positions: list[int], clips: int, pixels: int
) -> None:
    plan = plan_first(catalog, clips_per_video=2)
    batch = begin_batch(plan, plan.clips_at(np.array(positions)), BufferPools(1))
    tasks = split_batch(batch, grouping=Grouping(clips, pixels))
    assert sorted(slot for task in tasks for slot in task.slots) == list(range(len(positions)))
    alone = split_batch(batch)
    assert [slot for task in tasks for slot in task.slots] == [slot for task in alone for slot in task.slots]
    assert all(len(set(task.rows)) == 1 for task in alone)
    sizes = catalog.heights * catalog.widths
    for task in tasks:
        if len(set(task.rows)) > 1:
            assert len(task.slots) <= clips
            assert (catalog.num_frames[task.rows] == 1).all()
            assert sum(int(sizes[row]) for row in set(task.rows)) <= pixels
    for task, following in pairwise(tasks):
        rows = {*task.rows, *following.rows}
        fits = len(task.slots) + len(following.slots) <= clips and sum(int(sizes[row]) for row in rows) <= pixels
        assert not (fits and clips > 1 and (catalog.num_frames[list(rows)] == 1).all()), "they were one task"


def test_clips_of_several_frames_are_split_by_source(catalog: Catalog) -> None:
    plan = plan_clips(catalog, Uniform(2), seed=0, size=(8, 8))
    batch = begin_batch(plan, plan.clips_at(np.arange(16)), BufferPools(1))
    assert [len(task.slots) for task in split_batch(batch, grouping=Grouping(16))] == [1] * 16


@pytest.mark.parametrize(
    ("workers", "kind", "clips_ahead", "clips"),
    [(0, "threads", 128, 16), (0, "threads", 32, 8), (2, "threads", 128, 16), (16, "threads", 128, 2),
     (16, "threads", 32, 1), (1, "threads", 1, 1), (2, "processes", 128, 1), (0, "processes", 128, 16)],
)  # fmt: skip
def test_each_worker_has_tasks(workers: int, kind: str, clips_ahead: int, clips: int, tmp_path: Path) -> None:
    options = LoaderOptions(16, workers=workers, kind=kind)
    assert Grouping.of(options, clips_ahead) == Grouping(clips)
    cached = LoaderOptions(16, workers=workers, kind=kind, cache=FrameCache(tmp_path))
    assert Grouping.of(cached, clips_ahead).clips == clips
    assert Grouping.of(cached, clips_ahead).pixels > 10**12 or kind == "processes"


# --- deadlines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 3, 9])
def test_a_picture_that_never_comes_is_named(
    position: int, catalog: Catalog, make_loader: MakeLoader, hand_clock: HandClock
) -> None:
    plan, proceed = plan_first(catalog, shuffle=False), threading.Event()
    stuck = plan[position].source

    def wait(name: str) -> None:
        if name == stuck:
            hand_clock.advance_at_each_read(61)
            proceed.wait(PATIENCE_SECONDS)

    loader = make_loader(
        plan, batch_size=8, prefetch=4, workers=1, backend=FlatDecoder(wait), deadline_seconds=60, on_error="skip"
    )
    try:
        with pytest.raises(DeadlineExceeded, match=f"the clip at position {position} ") as caught:
            list(loader)
        assert (caught.value.position, caught.value.source, caught.value.stage) == (position, stuck, "decode")
    finally:
        proceed.set()


def test_a_picture_that_is_never_read_is_named(
    catalog: Catalog, make_loader: MakeLoader, hand_clock: HandClock
) -> None:
    plan, proceed = plan_first(catalog, shuffle=False), threading.Event()

    class Hanging(BaseDecoder):
        name = "hanging"

        def read_ready(self, clips: Iterable[SourceClips]) -> list[DecodeReport | None]:
            for source, _, _ in clips:
                if source.name == plan[2].source:
                    hand_clock.advance_at_each_read(61)
                    proceed.wait(PATIENCE_SECONDS)
            return []

    loader = make_loader(plan, batch_size=8, prefetch=4, workers=1, backend=Hanging(), deadline_seconds=60)
    try:
        with pytest.raises(DeadlineExceeded, match="the clip at position 2 "):
            list(loader)
    finally:
        proceed.set()


def test_a_transform_that_never_ends_is_named_by_its_clip(
    catalog: Catalog, make_loader: MakeLoader, hand_clock: HandClock
) -> None:
    plan, proceed, calls = plan_first(catalog, shuffle=False), threading.Event(), list[int]()

    def hang(clip: Any, rng: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            hand_clock.advance_at_each_read(61)
            proceed.wait(PATIENCE_SECONDS)
        return clip

    loader = make_loader(
        plan, batch_size=8, prefetch=4, workers=1, backend=FlatDecoder(), transform=hang, deadline_seconds=60
    )
    try:
        with pytest.raises(DeadlineExceeded, match=r"the clip at position 2 .*stage: transform"):
            list(loader)
    finally:
        proceed.set()


def test_the_deadline_is_that_of_each_picture(catalog: Catalog, make_loader: MakeLoader, hand_clock: HandClock) -> None:
    def take_most_of_it(_: str) -> None:
        hand_clock.wait_for_reads_after(hand_clock.reads + 1)  # the consumer has seen that this picture began
        hand_clock.advance(40)

    decoder = FlatDecoder(take_most_of_it)
    loader = make_loader(plan_first(catalog), batch_size=8, prefetch=2, workers=1, backend=decoder, deadline_seconds=60)
    assert sum(map(len, loader)) == 16


def test_what_goes_wrong_in_a_group_is_that_clips_error(catalog: Catalog, make_loader: MakeLoader) -> None:
    plan = plan_first(catalog, shuffle=False)
    bad = {plan[1].source: CorruptMedia("spoiled"), plan[2].source: ValueError("a bug")}

    def fail(name: str) -> None:
        if name in bad:
            raise bad[name]

    loader = make_loader(plan, batch_size=16, workers=0, backend=FlatDecoder(fail), on_error="skip")
    (batch,) = loader
    assert np.flatnonzero(~batch.ok).tolist() == [1, 2]
    assert "in the decoder 'flat' for the clip at position 2: ValueError: a bug" in str(batch.errors[2])
    assert (batch.data[1:3] == 0).all()
