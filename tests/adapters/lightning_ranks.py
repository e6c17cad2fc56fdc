"""Two ranks of Lightning's Trainer over our loaders: run by test_lightning.py, one process a rank."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
import torch._dynamo  # an optimiser imports it, which takes as long as importing PyTorch: before the fork
from lightning.pytorch.callbacks import ModelCheckpoint

from framefeed.adapters.torch import ClipDataset, DataLoader
from framefeed.load import ClipLoader
from framefeed.plan import plan_buckets
from tests.adapters.ranks import CHECKPOINTS, EPOCHS, WORLD_SIZE
from tests.adapters.samples import Numbers, list_samples
from tests.fakes import FlatDecoder
from tests.makers import catalog, plan_of


class Recorder(pl.LightningModule):
    """Notes the samples of each step, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[tuple[int, list[int]]] = []

    def on_train_epoch_start(self) -> None:
        dataset = getattr(self.trainer.train_dataloader, "dataset", None)
        if isinstance(dataset, ClipDataset):
            dataset.set_epoch(self.current_epoch)

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        self.seen.append((self.current_epoch, list_samples(batch)))
        return self.layer(torch.ones(1, 1)).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Hook(pl.LightningDataModule):
    """Makes its loader in Lightning's hook, where Lightning notes the arguments of each DataLoader."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self._make = make

    def train_dataloader(self) -> Any:
        return self._make()


def fit(loader: Any, folder: Path, *, every: int | None = None, resume: str | None = None, **options: Any) -> Recorder:
    recorder = Recorder()
    saving = [
        ModelCheckpoint(folder, filename="{step}", every_n_train_steps=every, save_top_k=-1),
        ModelCheckpoint(folder, filename="end of {epoch}", every_n_epochs=1, save_top_k=-1),
    ]
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=WORLD_SIZE,
        strategy="ddp",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=every is not None,
        callbacks=saving if every is not None else [],
        **{"max_epochs": EPOCHS, **options},
    )
    trainer.fit(recorder, loader, ckpt_path=resume)
    return recorder


def clip_loader(**options: Any) -> ClipLoader:
    plan = plan_of(rank=int(os.environ["RANK"]), world_size=WORLD_SIZE, clips_per_video=3)
    return ClipLoader(plan, batch_size=2, workers=2, backend=FlatDecoder(), **options)


def report_clip_loader(folder: Path) -> dict[str, Any]:
    """What a loop of our own sees, what the Trainer sees, and what it sees after each of its checkpoints."""
    threads: set[str] = set()

    def note(clip: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
        threads.add(threading.current_thread().name)
        return clip[:1, :1, :1, :1]

    with clip_loader() as loader:
        expected = [(epoch, list_samples(batch)) for epoch in range(EPOCHS) for batch in loader]
    with clip_loader(transform=note) as loader:
        whole = fit(loader, folder / "clips", every=1)
    with clip_loader() as loader:
        cut = fit(Hook(lambda: loader), folder, limit_train_batches=2)
    resumed = {}
    for name in CHECKPOINTS:
        with clip_loader() as loader:
            resumed[name] = fit(loader, folder, resume=os.fspath(folder / "clips" / f"{name}.ckpt")).seen
    return {
        "expected": expected,
        "whole": whole.seen,
        "cut": cut.seen,
        "resumed": resumed,
        "threads": sorted(threads),
        "main": threading.current_thread().name,
    }


def bucket_loader() -> ClipLoader:
    plan = plan_buckets(
        catalog(), [(5, 32, 48), (9, 32, 48)], fps=15, global_batch=4, seed=7, per_video="all",
        rank=int(os.environ["RANK"]), world_size=WORLD_SIZE,
    )  # fmt: skip
    return ClipLoader(plan, workers=2, backend=FlatDecoder())


def report_buckets(folder: Path) -> dict[str, Any]:
    """The same of a loader over buckets."""
    with bucket_loader() as loader:
        expected = [(epoch, list_samples(batch)) for epoch in range(EPOCHS) for batch in loader]
    with bucket_loader() as loader:
        whole = fit(loader, folder / "buckets", every=2)
    with bucket_loader() as loader:
        resumed = fit(loader, folder, resume=os.fspath(folder / "buckets" / "step=6.ckpt"))
    return {"expected": expected, "whole": whole.seen, "resumed": resumed.seen}


def report_data_loader(folder: Path) -> dict[str, Any]:
    """What the Trainer makes of our DataLoader, and what it sees after each of its checkpoints."""
    dataset = Numbers()
    loader = data_loader(dataset)
    recorder = fit(loader, folder / "numbers", every=1)
    used = recorder.trainer.train_dataloader
    hook = fit(Hook(lambda: data_loader(Numbers())), folder, limit_train_batches=2)
    resumed = {
        name: fit(data_loader(Numbers()), folder, resume=os.fspath(folder / "numbers" / f"{name}.ckpt")).seen
        for name in CHECKPOINTS
    }
    return {
        "whole": recorder.seen,
        "hook": hook.seen,
        "resumed": resumed,
        "class": f"{type(used).__module__}.{type(used).__qualname__}",
        "is_rebuilt": used is not loader,
        "threads": sorted({name for _, name in dataset.threads}),
        "processes": len({process for process, _ in dataset.threads}),
    }


def data_loader(dataset: Numbers) -> DataLoader[torch.Tensor]:
    return DataLoader(dataset, batch_size=2, shuffle=True, num_workers=2)


def report_clip_dataset(folder: Path) -> dict[str, Any]:
    """A ClipDataset, whose epoch the module sets."""

    def load() -> DataLoader[Any]:
        dataset = ClipDataset(plan_of(clips_per_video=3, shuffle=False), backend=FlatDecoder())
        return DataLoader(dataset, batch_size=2, shuffle=True, num_workers=2)

    whole = fit(load(), folder / "dataset", every=1).seen
    resumed = {
        name: fit(load(), folder, resume=os.fspath(folder / "dataset" / f"{name}.ckpt")).seen
        for name in CHECKPOINTS[::2]
    }
    return {"whole": whole, "resumed": resumed}


def make_report(folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return {
        "clips": report_clip_loader(folder),
        "buckets": report_buckets(folder),
        "numbers": report_data_loader(folder),
        "dataset": report_clip_dataset(folder),
    }
