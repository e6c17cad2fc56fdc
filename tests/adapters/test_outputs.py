"""``output=`` of a ClipDataset: tensors, arrays, PIL pictures, and existing pipelines for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.catalog import Catalog
from framefeed.errors import CorruptMedia, UsageError
from framefeed.plan import Uniform, plan_clips
from framefeed.scanning import scan
from tests.fakes import FlatDecoder
from tests.makers import plan_of


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Photos of four sizes in two classes, as an image folder has them."""
    folder = tmp_path_factory.mktemp("photos")
    for number, size in enumerate([(60, 40), (40, 60), (48, 48), (90, 50)]):
        (folder / "ab"[number % 2]).mkdir(exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "ab"[number % 2] / f"{number}.png")
    return scan(folder, label_from="parent")


def random_resized_crop(picture: Image.Image) -> torch.Tensor:
    """A part of a full PIL picture by torch's generator, scaled: what torchvision's transform of that name does."""
    assert isinstance(picture, Image.Image)
    side = min(picture.size) // 2
    left, top = (int(torch.randint(0, length - side + 1, ())) for length in picture.size)
    part = picture.resize((24, 24), box=(left, top, left + side, top + side))
    return torch.from_numpy(np.array(part)).permute(2, 0, 1).float() / 255


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork")])
def test_a_pipeline_for_pil_runs_over_full_pictures(pictures: Catalog, workers: int, context: str | None) -> None:
    plan = plan_clips(pictures, Uniform(1), seed=0, shuffle=False, columns=("label",), unequal=True)
    dataset = ClipDataset(plan, target="label", transform=random_resized_crop, output="pil")
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, multiprocessing_context=context)
    ((clips, targets),) = loader
    assert (clips.shape, targets.tolist()) == ((4, 3, 24, 24), [0, 0, 1, 1])
    assert torch.equal(clips, torch.stack([dataset[position][0] for position in range(4)]))
    dataset.set_epoch(1)
    assert not torch.equal(clips, torch.stack([dataset[position][0] for position in range(4)]))


def test_items_are_the_pictures_themselves(pictures: Catalog) -> None:
    plan = plan_clips(pictures, Uniform(1), seed=0, shuffle=False, unequal=True)
    for position, request in enumerate(plan):
        truth = np.array(Image.open(str(request.source)))
        tensor, array, picture = (
            ClipDataset(plan, output=output)[position]["data"] for output in ("tensor", "numpy", "pil")
        )
        assert (tensor.dtype, tensor.shape) == (torch.uint8, (1, 3, *truth.shape[:2]))
        np.testing.assert_array_equal(tensor[0].permute(1, 2, 0), truth)
        assert (array.dtype, array.flags.c_contiguous) == (np.uint8, True)
        np.testing.assert_array_equal(array, truth[None])
        assert (picture.mode, picture.size) == ("RGB", truth.shape[1::-1])
        np.testing.assert_array_equal(np.array(picture), truth)


def test_a_longer_clip_is_a_list_of_pil_pictures() -> None:
    plan = plan_of(shuffle=False)
    tensor, pictures = (ClipDataset(plan, output=output)[3]["data"] for output in ("tensor", "pil"))
    assert [type(picture) for picture in pictures] == [Image.Image] * 4
    np.testing.assert_array_equal(np.stack([np.array(picture) for picture in pictures]), tensor.permute(0, 2, 3, 1))


def test_arrays_collate() -> None:
    (batch,) = DataLoader(ClipDataset(plan_of(shuffle=False), output="numpy"), batch_size=12)
    assert (batch["data"].shape, batch["data"].dtype) == ((12, 4, 48, 64, 3), torch.uint8)


@pytest.mark.parametrize("output", ["numpy", "pil"])
def test_a_skipped_item_has_the_same_form(output: Any) -> None:
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled"))
    data = ClipDataset(plan_of(shuffle=False), on_error="skip", backend=spoil, output=output)[0]["data"]
    assert np.array([np.asarray(frame) for frame in data]).shape == (4, 48, 64, 3)
    assert not np.array([np.asarray(frame) for frame in data]).any()


def test_an_unknown_form() -> None:
    with pytest.raises(UsageError, match="output: expected 'tensor', 'numpy' or 'pil', got the string 'HWC'"):
        ClipDataset(plan_of(), output="HWC")  # type: ignore[arg-type]
