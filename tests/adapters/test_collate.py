"""Items of any number of frames in torch's DataLoader: padded with a mask, or as lists."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import framefeed as ff  # noqa: E402
from framefeed.adapters.torch import ClipDataset, list_clips, pad_clips  # noqa: E402
from framefeed.errors import UsageError  # noqa: E402
from framefeed.load import ClipLoader  # noqa: E402
from framefeed.plan import EpochPlan, plan_requests  # noqa: E402
from framefeed.testing import read_stamps  # noqa: E402
from tests.fakes import DamagedSources, FlatDecoder  # noqa: E402
from tests.load.test_lengths import LENGTHS, list_requests, plan_lengths  # noqa: E402
from tests.makers import SIZE  # noqa: E402

LOADERS = {
    "torch": torch.utils.data.DataLoader,
    "torch, workers": partial(torch.utils.data.DataLoader, num_workers=2),
    "threads": partial(ff.torch.DataLoader, num_workers=2),
}


def halve(clip: Any) -> Any:
    return clip[:, :, ::2].float()


def plan_streams() -> EpochPlan:
    requests = [{"left": each, "right": ff.DecodeRequest(each.source, indices=[5, 6])} for each in list_requests()]
    return plan_requests(requests, unequal=True, columns={"label": [f"{n % 2}" for n in range(len(requests))]})


@pytest.mark.parametrize("loader", LOADERS)
def test_items_are_padded_behind_their_last_frame(loader: str) -> None:
    plan = plan_lengths(shuffle=False)
    batches = list(LOADERS[loader](ClipDataset(plan), batch_size=3, collate_fn=pad_clips))
    pairs = list(LOADERS[loader](ClipDataset(plan, "number"), batch_size=3, collate_fn=pad_clips))
    lists = list(LOADERS[loader](ClipDataset(plan, "number"), batch_size=3, collate_fn=list_clips))
    with ClipLoader(plan, batch_size=3) as ours:
        expected = list(ours)
    assert [len(batch["data"]) for batch in batches] == [3, 3, 1]
    for batch, (clips, targets, mask), (listed, others), own in zip(batches, pairs, lists, expected, strict=True):
        longest = max(map(len, own.data))
        assert batch["data"].shape[:2] == batch["mask"].shape == batch["valid"].shape == (len(own), longest)
        assert torch.equal(clips, batch["data"])
        assert torch.equal(mask, batch["mask"])
        assert targets.tolist() == others.tolist() == own["number"].tolist() == batch["number"].tolist()
        for slot, clip in enumerate(own.data):
            length = len(clip)
            assert mask[slot].tolist() == [True] * length + [False] * (longest - length)
            assert np.array_equal(clips[slot, :length], clip)
            assert np.array_equal(listed[slot], clip)
            assert not clips[slot, length:].any()
            assert batch["valid"][slot].tolist() == mask[slot].tolist()
            assert np.array_equal(batch["pts_seconds"][slot, :length], own.pts_seconds[slot])
            assert batch["pts_seconds"][slot, length:].isnan().all()


def test_streams_are_padded_by_themselves() -> None:
    plan = plan_streams()
    items = [ClipDataset(plan)[position] for position in range(4)]
    batch, listed = pad_clips(items), list_clips(items)
    assert {name: tuple(data.shape) for name, data in batch["data"].items()} == {
        "left": (4, 9, 3, *SIZE), "right": (4, 2, 3, *SIZE),
    }  # fmt: skip
    assert batch["mask"]["left"].sum(1).tolist() == LENGTHS[:4]
    assert batch["mask"]["right"].all()
    assert [len(times) for times in listed["pts_seconds"]["left"]] == LENGTHS[:4]
    assert len(listed["source"]["left"]) == 4
    clips, targets, mask = pad_clips([ClipDataset(plan, "label")[position] for position in range(4)])
    assert (clips.keys(), mask["left"].shape, targets.tolist()) == (batch["data"].keys(), (4, 9), [0, 1, 0, 1])


def test_results_of_a_transform_are_padded() -> None:
    items = ClipDataset(plan_lengths(shuffle=False), "number", halve).__getitems__([0, 1, 2])
    clips, _, mask = pad_clips(items)
    assert clips.shape == (3, 9, 3, SIZE[0] // 2, SIZE[1])
    assert clips.dtype == torch.float32
    assert mask.sum(1).tolist() == LENGTHS[:3]


def test_D04_a_clip_that_fails_has_its_length_or_is_another() -> None:
    plan = plan_lengths(shuffle=False)
    backend = FlatDecoder(DamagedSources(str(plan[5].source)))
    item = ClipDataset(plan, backend=backend, on_error="skip")[5]
    assert (item["data"].shape, item["valid"].sum(), bool(item["ok"])) == ((LENGTHS[5], 3, *SIZE), 0, False)
    item = ClipDataset(plan, backend=backend, on_error="substitute")[5]
    own = int(item["number"])
    assert own != 5
    assert item["data"][:, 0, 0, 0].tolist() == list(range(LENGTHS[own]))


@pytest.mark.parametrize("collate", [pad_clips, list_clips])
def test_no_items_are_an_error(collate: Any) -> None:
    with pytest.raises(UsageError, match="at least one item"):
        collate([])


@pytest.mark.parametrize(
    ("clips", "message"),
    [
        ([torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 6)], r"item 0 is \[2, 3, 4, 4\].*item 1 \[2, 3, 4, 6\].*size="),
        ([torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.uint8)], "differ in T alone"),
        ([["a picture"], ["another"]], "tensors"),
        ([torch.tensor(1), torch.tensor(2)], "tensors"),
    ],
)
def test_what_cannot_be_padded_is_named(clips: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pad_clips([(clip, torch.tensor(0)) for clip in clips])


def test_arrays_are_padded_too() -> None:
    clips, _, mask = pad_clips([(np.ones((length, 2), np.float32), torch.tensor(0)) for length in (1, 3)])
    assert clips.tolist() == [[[1, 1], [0, 0], [0, 0]], [[1, 1]] * 3]
    assert mask.tolist() == [[True, False, False], [True] * 3]


def test_stamps_of_padded_clips_are_those_that_were_planned() -> None:
    plan = plan_lengths(shuffle=False)
    batch = pad_clips(ClipDataset(plan).__getitems__(range(len(plan))))
    for position, (clip, mask) in enumerate(zip(batch["data"], batch["mask"], strict=True)):
        assert read_stamps(clip[mask].numpy()) == plan[position].indices.tolist()
