"""ClipDataset(on_error="skip"): one bad clip does not end an epoch, and every skipped clip is listed."""

from __future__ import annotations

import gc
import glob
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LoadError,
    MissingDependency,
    ResourceExhausted,
    StaleSource,
    UsageError,
)
from framefeed.load import ClipLoader
from framefeed.plan import AtIndices, EpochPlan, Uniform, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FlatDecoder
from tests.makers import catalog, folder, plan_of

WORKERS = [(0, None, False), (2, "fork", False), (2, "fork", True)]
BAD = 4


def halves(clip: torch.Tensor) -> torch.Tensor:
    return clip.float() / 2 + 1


def pair(clip: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    return halves(clip), {"mean": clip.float().mean(), "kind": "clip"}


def fails_on_bright(clip: torch.Tensor) -> torch.Tensor:
    if clip.max() > 0:
        raise ValueError("too bright")
    return clip.float() + 1


def leave(clip: torch.Tensor) -> torch.Tensor:
    raise SystemExit(3)


def always_fails(clip: torch.Tensor) -> torch.Tensor:
    raise KeyError("mean")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> EpochPlan:
    """Two frames of each of six videos, the fifth of which has changed since it was scanned."""
    root = shutil.copytree(folder(), tmp_path_factory.mktemp("changed") / "videos")
    made = plan_clips(scan(root, label_from="parent"), Uniform(2), seed=0, shuffle=False, columns=["label"])
    write_clip(str(made[BAD].source), ClipSpec(num_frames=31, height=48, width=64))
    return made


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    gc.collect()
    pattern = f"{tempfile.gettempdir()}/framefeed-*.lines"
    before = set(glob.glob(pattern))
    yield
    gc.collect()
    assert set(glob.glob(pattern)) <= before


@pytest.mark.parametrize(("workers", "context", "persistent"), WORKERS)
def test_an_epoch_goes_on_and_the_parent_sees_what_was_skipped(
    plan: EpochPlan, workers: int, context: str | None, persistent: bool
) -> None:
    dataset = ClipDataset(plan, target="label", transform=halves, on_error="skip")
    loader = DataLoader(
        dataset, batch_size=3, num_workers=workers, multiprocessing_context=context, persistent_workers=persistent
    )
    for epoch in range(2):
        dataset.set_epoch(epoch)
        clips, targets = map(torch.cat, zip(*loader, strict=True))
        labels = [int(plan.columns_at(position)["label"]) for position in range(6)]
        assert targets.dtype == torch.int64
        assert targets.tolist() == [-100 if position == BAD else labels[position] for position in range(6)]
        assert [bool(clip.any()) for clip in clips] == [position != BAD for position in range(6)]
        assert (clips.dtype, clips.shape[1:]) == (torch.float32, (2, 3, 48, 64))
        torch.nn.functional.cross_entropy(torch.zeros(6, 2), targets)
        assert [(entry.position, entry.epoch) for entry in dataset.ledger] == [(BAD, each) for each in range(epoch + 1)]
    entry = dataset.ledger[0]
    assert (entry.source, entry.action) == (plan[BAD].source, "skipped")
    assert entry.reason.startswith("StaleSource: ")
    assert str(dataset.ledger).startswith(f"2 failed clips of 1 file\n  {entry.source}: 2 clips skipped: StaleSource: ")
    assert len(plan.catalog.without(dataset.ledger)) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_a_skipped_item_without_a_target(plan: EpochPlan, workers: int) -> None:
    loader = DataLoader(ClipDataset(plan, on_error="skip"), batch_size=6, num_workers=workers)
    (batch,) = loader
    is_ok = np.arange(6) != BAD
    assert batch["ok"].tolist() == is_ok.tolist()
    assert batch["valid"].all(dim=1).tolist() == is_ok.tolist()
    assert batch["pts_seconds"].isnan().all(dim=1).tolist() == (~is_ok).tolist()
    assert not batch["data"][BAD].any()
    assert batch["position"].tolist() == list(range(6))
    assert batch["source"][BAD] == plan[BAD].source
    assert batch["label"].tolist() == [int(plan.columns_at(position)["label"]) for position in range(6)]


def test_by_default_it_raises(plan: EpochPlan) -> None:
    dataset = ClipDataset(plan)
    with pytest.raises(StaleSource):
        dataset[BAD]
    assert len(dataset.ledger) == 0


def test_a_failing_transform_is_skipped_too_and_what_it_makes_of_black_gives_the_form() -> None:
    dataset = ClipDataset(plan_of(shuffle=False), transform=fails_on_bright, on_error="skip")
    item = dataset[3]
    assert (item["data"].dtype, bool(item["data"].any()), bool(item["ok"])) == (torch.float32, False, False)
    assert (item["pts_seconds"].isnan().all(), item["valid"].any()) == (True, False)
    assert dataset.ledger[0].reason.startswith("LoadError: ")
    assert "ValueError: too bright" in dataset.ledger[0].reason
    nested = ClipDataset(plan_of(shuffle=False), transform=pair, on_error="skip", backend=failing_decoder())[0]["data"]
    assert (bool(nested[0].any()), float(nested[1]["mean"]), nested[1]["kind"]) == (False, 0.0, "clip")


def test_a_transform_that_fails_on_everything_is_no_bad_clip() -> None:
    with pytest.raises(SystemExit):
        ClipDataset(plan_of(shuffle=False), transform=leave, on_error="skip")[0]
    dataset = ClipDataset(plan_of(shuffle=False), transform=always_fails, on_error="skip")
    with pytest.raises(LoadError, match="KeyError: 'mean'"):
        dataset[3]


def failing_decoder(error: Exception | None = None) -> FlatDecoder:
    made: Any = error or CorruptMedia("spoiled", frames=[2])
    return FlatDecoder(spoil=lambda ordinals: made)


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.parametrize("kind", [ResourceExhausted, UsageError, MissingDependency])
def test_what_says_nothing_about_a_clip_is_not_skipped(kind: type[FramefeedError], on_error: Any) -> None:
    dataset = ClipDataset(plan_of(shuffle=False), on_error=on_error, backend=failing_decoder(kind("do otherwise")))
    with pytest.raises(kind, match="do otherwise") as caught:
        dataset[0]
    assert (type(caught.value), caught.value.position) == (kind, 0)
    assert len(dataset.ledger) == 0


def test_a_wrong_call_in_a_worker_of_torch_keeps_its_type() -> None:
    dataset = ClipDataset(plan_of(shuffle=False), on_error="skip", backend=failing_decoder(UsageError("do otherwise")))
    batches = iter(DataLoader(dataset, batch_size=12, num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(UsageError, match=r"do otherwise \(clip at position 0\)"):
        next(batches)
    assert not list(batches)


def test_the_ledger_has_the_frames() -> None:
    dataset = ClipDataset(plan_of(AtIndices([0, 2]), shuffle=False), on_error="skip", backend=failing_decoder())
    dataset.__getitems__([0, 1])
    assert [entry.frames for entry in dataset.ledger] == [(2,), (2,)]
    assert {entry.source for entry in dataset.ledger} == {catalog().source(0)}


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork")])
def test_max_failed_stops_a_run(plan: EpochPlan, workers: int, context: str | None) -> None:
    options: dict[str, Any] = {"batch_size": 3, "num_workers": workers, "multiprocessing_context": context}
    for max_failed in (1, 0.2) if workers == 0 else ():
        assert len(list(DataLoader(ClipDataset(plan, on_error="skip", max_failed=max_failed), **options))) == 2
    dataset = ClipDataset(plan, on_error="skip", max_failed=0)
    batches = iter(DataLoader(dataset, **options))
    next(batches)
    with pytest.raises(LoadError, match=r"1 of 6 clips of epoch 0 could not be loaded, more than max_failed=0"):
        next(batches)
    assert not list(batches)
    assert len(dataset.ledger) == 1


def test_passes_over_the_same_clips_lose_no_more(plan: EpochPlan) -> None:
    dataset = ClipDataset(plan, on_error="skip", max_failed=1)
    for _ in range(3):
        assert len(list(dataset)) == 6
    assert len(dataset.ledger) == 3


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="on_error: expected"):
        ClipDataset(plan_of(), on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_failed needs on_error='skip'"):
        ClipDataset(plan_of(), max_failed=1)
    with pytest.raises(UsageError, match="unknown backend 'nobody'"):
        ClipDataset(plan_of(), backend="nobody")


def draw(clip: torch.Tensor) -> torch.Tensor:
    return clip[:, 0, 0, 0] + torch.rand(len(clip))


def fail_odd(ordinals: list[int]) -> CorruptMedia | None:
    return CorruptMedia("spoiled", frames=ordinals) if sum(ordinals) % 2 else None


@pytest.mark.parametrize("transform", [None, halves, draw])
@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 2), (1, 2)])
def test_D04_substitutes_are_those_of_the_loader(rank: int, world_size: int, transform: Any) -> None:
    plan = plan_of(clips_per_video=5, rank=rank, world_size=world_size)
    sound = list(ClipDataset(plan.whole, transform=transform, backend=FlatDecoder()))
    dataset = ClipDataset(plan, transform=transform, backend=FlatDecoder(spoil=fail_odd), on_error="substitute")
    items = dataset.__getitems__(range(len(plan)))
    entries = {entry.position: entry for entry in dataset.ledger}
    with ClipLoader(
        plan, batch_size=4, workers=0, backend=FlatDecoder(spoil=fail_odd), on_error="substitute"
    ) as loader:
        list(loader)
        assert {(entry.position, entry.substitute, entry.source) for entry in loader.ledger} == {
            (entry.position, entry.substitute, entry.source) for entry in entries.values()
        }
    for position, item in enumerate(items):
        own = plan.global_position(position)
        assert item["position"] == own
        entry = entries.get(own)
        expected = sound[own] if entry is None else sound[entry.substitute or 0]
        assert item["source"] == expected["source"] == plan.catalog[int(item["row"])].source
        assert torch.equal(item["data"], expected["data"])
        assert torch.equal(item["label"], expected["label"])
        assert item["ok"]
    targets = [
        target.item()
        for _, target in ClipDataset(plan, "label", backend=FlatDecoder(spoil=fail_odd), on_error="substitute")
    ]
    assert targets == [item["label"].item() for item in items]


@pytest.mark.parametrize("kind", [UsageError, ResourceExhausted, MissingDependency])
def test_D04_what_is_no_fault_of_a_file_is_raised_from_a_substitute_too(kind: type[FramefeedError]) -> None:
    def spoil(ordinals: list[int]) -> FramefeedError:
        return fail_odd(ordinals) or kind("no memory, or a wrong call")

    plan = plan_of(clips_per_video=5)
    dataset = ClipDataset(plan, backend=FlatDecoder(spoil=spoil), on_error="substitute")
    odd = [position for position in range(len(plan)) if sum(plan[position].indices) % 2]
    assert odd
    for position in odd:
        with pytest.raises(kind, match="no memory, or a wrong call"):
            dataset[position]


def test_D04_where_no_clip_can_be_loaded_the_dataset_skips() -> None:
    dataset = ClipDataset(plan_of(), transform=fails_on_bright, on_error="substitute")
    assert [item["ok"].item() for item in dataset] == [False] * 12
    assert {entry.action for entry in dataset.ledger} == {"skipped"}
