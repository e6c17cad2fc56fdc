"""ClipDataset in PyTorch's DataLoader delivers the finished clips that ClipLoader delivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.errors import CorruptMedia, UsageError
from framefeed.load import ClipLoader
from framefeed.plan import plan_requests
from framefeed.request import DecodeRequest, Letterbox
from tests.fakes import SlopedDecoder
from tests.load.media import plan_of

# What PyTorch thinks of the number of workers on a small machine is not the matter here.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
BOXED = {"size": Letterbox(40, 71, fill=(1, 2, 3)), "horizontal_flip": 0.5}


def fail_some(ordinals: list[int]) -> CorruptMedia | None:
    return CorruptMedia("spoiled") if sum(ordinals) % 3 == 0 else None


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_clips_and_boxes_are_those_of_a_loader(workers: int, on_error: Any) -> None:
    plan = plan_of(clips_per_video=3, **BOXED)
    backend = SlopedDecoder(spoil=fail_some)
    with ClipLoader(plan, batch_size=4, workers=0, backend=backend, on_error=on_error) as loader:
        expected = list(loader)
    assert on_error == "substitute" or not all(batch.ok.all() for batch in expected)
    dataset = ClipDataset(plan, backend=backend, on_error=on_error)
    for items, batch in zip(DataLoader(dataset, batch_size=4, num_workers=workers), expected, strict=True):
        assert np.array_equal(items["data"].numpy(), batch.data)
        assert items["box"].dtype == torch.int64
        assert items["box"].tolist() == batch.boxes.tolist()
        assert items["ok"].tolist() == batch.ok.tolist()


def test_there_is_a_box_only_with_a_border() -> None:
    assert "box" not in ClipDataset(plan_of())[0]
    assert ClipDataset(plan_of(**BOXED))[-1]["box"].tolist() == list(plan_of(**BOXED)[-1].box)


@pytest.mark.parametrize("output", ["numpy", "pil"])
def test_other_forms_are_finished_too(output: Any) -> None:
    plan = plan_of(**BOXED)
    for position in range(4):
        expected = ClipDataset(plan)[position]["data"].permute(0, 2, 3, 1).numpy()
        assert np.array_equal(np.stack(ClipDataset(plan, output=output)[position]["data"]), expected)


def test_a_column_may_be_called_box_without_a_border() -> None:
    columns: Any = {"columns": {"box": [1.0]}}
    request = DecodeRequest(plan_of()[0].source, [0])
    assert ClipDataset(plan_requests([request], **columns))[0]["box"] == 1
    with pytest.raises(UsageError, match=r"columns \['box'\] have the same names"):
        ClipDataset(plan_requests([request], size=Letterbox(8), **columns))
