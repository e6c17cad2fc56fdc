"""Two ranks of Hugging Face Accelerate over our loaders: run by test_accelerate.py, one process a rank."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed

from framefeed.adapters.torch import ClipDataset, DataLoader
from framefeed.load import ClipLoader
from tests.adapters.ranks import EPOCHS
from tests.adapters.samples import Numbers, list_samples
from tests.fakes import FlatDecoder
from tests.makers import plan_of

BATCH_SIZE = 2
STEPS = (1, 3)
"""Steps of the second epoch after which a state is saved."""


def accelerator_of(**options: Any) -> Accelerator:
    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, **options))


def data_loader(dataset: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=2, **options)


def list_batches(batches: Iterable[Any]) -> list[Any]:
    return [list_samples(batch) for batch in batches]


def report_data_loader(folder: Path) -> dict[str, Any]:
    """What Accelerate makes of our DataLoader, and what comes after each state that it saved."""
    set_seed(7)
    accelerator, dataset = accelerator_of(), Numbers()
    loader = accelerator.prepare(data_loader(dataset, shuffle=True))
    epochs = [list_batches(loader)]
    seen = []
    for step, batch in enumerate(loader, start=1):
        seen.append(list_samples(batch))
        if step in STEPS:
            accelerator.save_state(os.fspath(folder / f"numbers-{step}"))
    epochs.append(seen)
    epochs += [list_batches(loader) for _ in range(EPOCHS - 2)]
    accelerator.wait_for_everyone()
    resumed = {}
    for step in STEPS:
        set_seed(7)  # the script again, with its own seed: Accelerate saves none of a sampler
        later = accelerator_of()
        again = later.prepare(data_loader(Numbers(), shuffle=True))
        later.load_state(os.fspath(folder / f"numbers-{step}"))
        again.set_epoch(1)
        resumed[step] = [list_batches(later.skip_first_batches(again, step))]
        again.set_epoch(2)
        resumed[step] += [list_batches(again)]
    return {
        "epochs": epochs,
        "resumed": resumed,
        "class": type(loader).__name__,
        "threads": sorted({name for _, name in dataset.threads}),
        "processes": len({process for process, _ in dataset.threads}),
    }


def report_clip_dataset() -> dict[str, Any]:
    """Epochs of a ClipDataset, whose plan shuffles."""
    accelerator = accelerator_of()
    dataset = ClipDataset(plan_of(clips_per_video=3), backend=FlatDecoder())
    loader = accelerator.prepare(data_loader(dataset))
    epochs = []
    for _ in range(EPOCHS):
        epochs.append([clip for batch in list_batches(loader) for clip in batch])
    return {"epochs": epochs}


def report_clip_loader(folder: Path) -> dict[str, Any]:
    """A ClipLoader, whose plan has the ranks, and which is registered for checkpoints."""

    def prepare() -> tuple[Accelerator, ClipLoader]:
        accelerator = accelerator_of()
        plan = plan_of(clips_per_video=3, rank=accelerator.process_index, world_size=accelerator.num_processes)
        loader = accelerator.prepare(ClipLoader(plan, batch_size=BATCH_SIZE, workers=2, backend=FlatDecoder()))
        accelerator.register_for_checkpointing(loader)
        return accelerator, loader

    accelerator, loader = prepare()
    epochs = [list_batches(loader)]
    seen = []
    for step, batch in enumerate(loader, start=1):
        seen.append(list_samples(batch))
        if step in STEPS:
            accelerator.save_state(os.fspath(folder / f"clips-{step}"))
    epochs.append(seen)
    epochs += [list_batches(loader) for _ in range(EPOCHS - 2)]
    accelerator.wait_for_everyone()  # the main process writes the states of registered objects
    resumed = {}
    for step in STEPS:
        later, again = prepare()
        later.load_state(os.fspath(folder / f"clips-{step}"))
        resumed[step] = [list_batches(again), list_batches(again)]
        again.close()
    loader.close()
    return {"epochs": epochs, "resumed": resumed, "class": type(loader).__name__}


def make_report(folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return {
        "numbers": report_data_loader(folder),
        "dataset": report_clip_dataset(),
        "clips": report_clip_loader(folder),
    }
