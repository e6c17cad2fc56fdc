"""Image sequences and stills in PyTorch's own DataLoader, and in the drop-in decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._video_decoder import VideoDecoder
from framefeed.media import ImageSequence
from framefeed.plan import Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import read_stamps
from tests.media.pictures import write_folder

WORKERS = [0, 2]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of two folders of 8 pictures; folder k shows the numbers from 100 k on."""
    root = tmp_path_factory.mktemp("sequences")
    for number, name in enumerate(("a/s0", "a/s1", "b/s0", "b/s1")):
        write_folder(root / name, 8, first=100 * number)
    return root


def read_numbers(clips: Any) -> list[int]:
    return [number for clip in clips for number in read_stamps(np.asarray(clip))]


@pytest.mark.parametrize("workers", WORKERS)
def test_folders_of_pictures(root: Path, workers: int) -> None:
    catalog = scan(root, image_folders="video", fps=25, label_from="parent", workers=0)
    plan = plan_clips(catalog, Uniform(2), seed=3, shuffle=False, columns=["label"])
    loader = DataLoader(ClipDataset(plan, target="label"), batch_size=2, num_workers=workers)
    clips, targets = zip(*loader, strict=True)
    assert torch.cat(targets).tolist() == [0, 0, 1, 1]
    assert read_numbers(torch.cat(clips)) == [100 * folder + number for folder in range(4) for number in (2, 6)]


@pytest.mark.parametrize("workers", WORKERS)
def test_stills(root: Path, workers: int) -> None:
    plan = plan_clips(scan(root / "b", workers=0), Uniform(1), seed=0)
    batches = list(DataLoader(ClipDataset(plan), batch_size=4, num_workers=workers))
    numbers = [number for batch in batches for number in read_numbers(batch["data"])]
    assert sorted(numbers) == [100 * folder + number for folder in (2, 3) for number in range(8)]
    assert all(isinstance(source, str) for batch in batches for source in batch["source"])


@pytest.mark.parametrize("workers", WORKERS)
def test_stills_of_a_catalog_of_headers(root: Path, tmp_path: Path, workers: int) -> None:
    catalog = scan(root / "b", depth="header", label_from="parent", out=tmp_path / "cat.parquet", workers=0)
    plan = plan_clips(catalog, Uniform(1), seed=0, columns=["label"])
    clips, targets = zip(*DataLoader(ClipDataset(plan, target="label"), batch_size=4, num_workers=workers), strict=True)
    expected = plan_clips(scan(root / "b", label_from="parent", workers=0), Uniform(1), seed=0, columns=["label"])
    assert read_numbers(torch.cat(clips)) == [
        number for clip, _ in ClipDataset(expected, target="label") for number in read_numbers(clip[None])
    ]
    assert torch.cat(targets).tolist() == [expected.columns_at(number)["label"] for number in range(16)]


def test_the_source_of_a_sequence_collates(root: Path) -> None:
    sequence = ImageSequence(root / "a" / "s1", fps=25)
    dataset = ClipDataset(plan_requests([DecodeRequest(source=sequence, indices=[3])] * 2))
    (batch,) = DataLoader(dataset, batch_size=2)
    assert batch["source"] == [str(root / "a" / "s1")] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_the_drop_in_decoder_takes_pictures(root: Path, threads: int) -> None:
    sequence = ImageSequence(root / "a" / "s1", fps=25)
    with VideoDecoder(sequence, num_ffmpeg_threads=threads) as decoder:
        assert read_numbers([decoder[:]]) == list(range(100, 108))
        assert decoder.get_frame_played_at(0.2).indices == 5
    with VideoDecoder(root / "a" / "s1" / "img3.png", num_ffmpeg_threads=threads) as decoder:
        assert read_numbers([decoder[:]]) == [103]
