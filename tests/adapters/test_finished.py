"""ClipDataset in PyTorch's DataLoader delivers the finished clips that ClipLoader delivers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._data_loader import DataLoader as OwnDataLoader
from framefeed.errors import CorruptMedia, UsageError
from framefeed.load import ClipLoader, Normaliser
from framefeed.plan import plan_requests
from framefeed.request import DecodeRequest, Letterbox
from tests.fakes import SlopedDecoder
from tests.lengths import pairwise
from tests.makers import plan_of

# What PyTorch thinks of the number of workers on a small machine is not the matter here.
# Nor are several passes without set_epoch.
pytestmark = pytest.mark.filterwarnings("ignore:this ClipDataset delivered")
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
        assert items["flipped"].dtype == torch.bool
        assert items["flipped"].tolist() == batch.flipped.tolist()
        assert items["ok"].tolist() == batch.ok.tolist()


def fail_odd(clip: torch.Tensor) -> torch.Tensor:
    if clip[0, 0, 20, 35] % 2:
        raise KeyError("odd")
    return clip


def test_the_box_of_a_clip_whose_transform_failed_is_zeros_and_it_is_not_flipped() -> None:
    plan = plan_of(clips_per_video=3, **BOXED)
    items = list(ClipDataset(plan, transform=fail_odd, backend=SlopedDecoder(), on_error="skip"))
    assert {bool(item["ok"]) for item in items} == {False, True}
    for item, request in zip(items, plan, strict=True):
        assert item["box"].tolist() == (list(request.box) if item["ok"] else [0, 0, 0, 0])
        assert item["flipped"].tolist() == bool(request.flipped and item["ok"])
    assert {request.flipped for item, request in zip(items, plan, strict=True) if not item["ok"]} == {False, True}


def test_there_is_a_box_only_with_a_border_and_a_flip_only_with_flips() -> None:
    assert not {"box", "flipped"} & ClipDataset(plan_of())[0].keys()
    assert ClipDataset(plan_of(horizontal_flip=1.0))[0]["flipped"].tolist() is True
    assert ClipDataset(plan_of(**BOXED))[-1]["box"].tolist() == list(plan_of(**BOXED)[-1].box)


@pytest.mark.parametrize("output", ["numpy", "pil"])
def test_other_forms_are_finished_too(output: Any) -> None:
    plan = plan_of(**BOXED)
    for position in range(4):
        expected = ClipDataset(plan)[position]["data"].permute(0, 2, 3, 1).numpy()
        assert np.array_equal(np.stack(ClipDataset(plan, output=output)[position]["data"]), expected)


def test_a_column_may_be_called_box_without_a_border_and_flipped_without_flips() -> None:
    columns: Any = {"columns": {"box": [1.0], "flipped": [2.0]}}
    request = DecodeRequest(plan_of()[0].source, [0])
    assert ClipDataset(plan_requests([request], **columns))[0]["box"] == 1
    with pytest.raises(UsageError, match=r"columns \['box'\] have the same names"):
        ClipDataset(plan_requests([request], size=Letterbox(8), **columns))
    with pytest.raises(UsageError, match=r"columns \['flipped'\] have the same names"):
        ClipDataset(plan_requests([request], horizontal_flip=0.5, **columns))


# --- normalised -------------------------------------------------------------------------------------

NORMALISED: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def cut(clip: torch.Tensor) -> torch.Tensor:
    return clip[..., 2:] + torch.randint(9, (), dtype=torch.uint8)


def cut_array(clip: torch.Tensor) -> np.ndarray:
    return clip.numpy()[..., ::2]


def normalise(pixels: torch.Tensor, dtype: Any) -> torch.Tensor:
    """The values of pixels [..., C, H, W], by a loader's table."""
    normaliser = Normaliser.of(dtype, **NORMALISED, has_transform=False)
    assert normaliser is not None
    table = torch.as_tensor(normaliser.deliver(normaliser.table))
    return table[torch.arange(3)[:, None, None], pixels.long()]


@pytest.mark.parametrize(
    ("dtype", "transform", "workers"),
    pairwise(["float32", np.float16, torch.bfloat16], [None, cut, cut_array], [0, 2]),
)
def test_tensors_have_the_values_of_a_loader(dtype: Any, transform: Any, workers: int) -> None:
    plan = plan_of(clips_per_video=3, **BOXED)
    backend = SlopedDecoder(spoil=fail_some)
    options: dict[str, Any] = {"backend": backend, "on_error": "skip"}
    pixels = DataLoader(ClipDataset(plan, transform=transform, **options), batch_size=4)
    dataset = ClipDataset(plan, transform=transform, dtype=dtype, **NORMALISED, **options)
    num_failed = 0
    for items, before in zip(DataLoader(dataset, batch_size=4, num_workers=workers), pixels, strict=True):
        ok, expected = before["ok"], normalise(torch.as_tensor(before["data"]), dtype)
        assert items["data"].dtype == expected.dtype
        assert items["data"][ok].equal(expected[ok])
        assert not items["data"][~ok].any()
        num_failed += int((~ok).sum())
    assert 0 < num_failed < len(plan)
    if transform is None:
        with ClipLoader(plan, batch_size=99, workers=0, dtype=dtype, **NORMALISED, **options) as loader:
            (batch,) = loader
        assert torch.stack([item["data"] for item in dataset]).equal(torch.as_tensor(batch.data))


def test_substitutes_and_copies_are_normalised_too() -> None:
    plan = plan_of(clips_per_video=3, **BOXED)
    options: dict[str, Any] = {"backend": SlopedDecoder(spoil=fail_some), "on_error": "substitute"}
    pixels = [item["data"] for item in ClipDataset(plan, **options)]
    dataset = pickle.loads(pickle.dumps(ClipDataset(plan, dtype="bfloat16", **NORMALISED, **options)))
    for item, before in zip(dataset, pixels, strict=True):
        assert item["data"].equal(normalise(before, "bfloat16"))


def test_batches_of_our_own_data_loader_are_normalised_too() -> None:
    plan = plan_of(clips_per_video=3, **BOXED)
    dataset = ClipDataset(plan, dtype="float16", **NORMALISED)
    with OwnDataLoader(dataset, batch_size=4, num_workers=2) as loader:
        batches = [batch["data"] for batch in loader]
    assert torch.cat(batches).equal(torch.stack([item["data"] for item in dataset]))


@pytest.mark.parametrize("output", ["numpy", "pil"])
def test_other_forms_are_for_a_transform(output: Any) -> None:
    def as_pixels(clip: Any) -> Any:
        return np.ascontiguousarray(np.stack(clip).transpose(0, 3, 1, 2))

    dataset = ClipDataset(plan_of(), transform=as_pixels, output=output, **NORMALISED)
    assert dataset[3]["data"].equal(normalise(ClipDataset(plan_of())[3]["data"], "float32"))
    with pytest.raises(UsageError, match=rf"output='{output}' is for a transform"):
        ClipDataset(plan_of(), output=output, **NORMALISED)


@pytest.mark.parametrize(
    ("transform", "given"),
    [
        (lambda clip: clip.float(), r"torch\.float32 \[4, 3, 48, 64\]"),
        (lambda clip: clip[0], r"uint8 \[3, 48, 64\]"),
        (lambda clip: clip[:, :2], r"3 channels .* \[4, 2, 48, 64\]"),
        (lambda clip: {"clip": clip}, "dict"),
        (lambda clip: None, "None"),
    ],
)
def test_a_transform_that_returns_no_pixels_is_refused_at_its_first_clip(transform: Any, given: str) -> None:
    dataset = ClipDataset(plan_of(), transform=transform, **NORMALISED)
    with pytest.raises(UsageError, match=rf"transform: expected .*{given}") as caught:
        dataset[0]
    assert (caught.value.position, caught.value.stage) == (0, "transform")


@pytest.mark.parametrize(
    "wrong",
    [{"mean": 0.5}, {"std": 0.5}, {"mean": 0, "std": 0}, {"mean": float("nan"), "std": 1}, {"dtype": "float64"},
     {"dtype": torch.uint8}, {"mean": (0.5, 0.5), "std": 1}],
)  # fmt: skip
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"mean|std|dtype"):
        ClipDataset(plan_of(), **wrong)
