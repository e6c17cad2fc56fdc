"""``framefeed demo``: run all steps once: scan, plan, decode, and train a small network with PyTorch.

The media of the demo: the user's, or a small folder made for it; and what the first batch looks like.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from framefeed._units import counted
from framefeed.adapters.torch import ClipDataset
from framefeed.catalog import Catalog
from framefeed.catalog.scan import VIDEO_SUFFIXES, list_roots, scan
from framefeed.cli._io import Exit, Failed, Stages, list_failed, made_folder, printable, quietly_planned, say, table
from framefeed.cli._plans import captions
from framefeed.cli._versions import framefeed_version
from framefeed.cli.scan import sentences, summary
from framefeed.decode import Pixels
from framefeed.encode import SheetClip, contact_sheet, save_still
from framefeed.errors import MissingDependency, TimeUnavailable, UsageError
from framefeed.parallel import thread_budget
from framefeed.plan import EpochPlan, Rates
from framefeed.testing import make_folder, read_stamp

MAX_FILES = 60
"""Files of a folder that the demo uses, evenly spaced: it should take a minute."""
CLASSES, VIDEOS_PER_CLASS, SECONDS = 2, 4, 16.0


@dataclass(frozen=True, slots=True)
class DemoMedia:
    """What the demo works on.

    Attributes:
        catalog: The files that can be used, labelled by their folders.
        failed: The others.
        is_users: Whether they are the user's; the demo's own have frames that name themselves.
    """

    catalog: Catalog
    failed: list[Failed]
    is_users: bool


def find_media(media: str | None, out: Path, stages: Stages) -> DemoMedia:
    """Make or list the media, scan them, and say what was found."""
    roots = [os.fspath(out / "videos")] if media is None else _sample(media)
    made_folder(os.fspath(out))
    if media is None:
        with stages.timed("making videos"):
            files = make_folder(roots[0], CLASSES, VIDEOS_PER_CLASS, SECONDS)
        say(f"no MEDIA folder given: generated {len(files)} videos of {SECONDS:g} s in {roots[0]}")
    with stages.timed("scanning"):
        catalog = scan(roots, out=out / "cat.parquet", label_from="parent")
    say(*sentences(summary(catalog)))
    timed, timeless = _by_times(catalog)
    return DemoMedia(timed, [*catalog.failures, *timeless], media is not None)


def _by_times(catalog: Catalog) -> tuple[Catalog, list[Failed]]:
    """Part the files that clips by time can be made of from those without usable timestamps."""
    rows = catalog.usable_rows.tolist()
    timed = [row for row in rows if catalog.frame_index(row).has_timestamps]
    why = "has no usable timestamps, which frames per second need: scan with --assume-fps, or choose frames by number"
    timeless = [(str(catalog.source(row)), TimeUnavailable.__name__, why) for row in rows if row not in set(timed)]
    return catalog.take(timed), timeless


def _sample(media: str) -> list[str]:
    if not os.path.exists(media):
        raise UsageError(f"{media}: no such folder: check its spelling")
    files = list_roots(media, suffixes=VIDEO_SUFFIXES).paths
    if not files:
        raise UsageError(f"no videos found in {media}: expected files with an ending such as .mp4, .mkv or .avi")
    if len(files) <= MAX_FILES:
        return [media]
    say(f"{len(files):,} videos in {media}: the demo uses {MAX_FILES} of them, evenly spaced")
    return [files[number * len(files) // MAX_FILES] for number in range(MAX_FILES)]


def common_size(catalog: Catalog, side: int) -> int | tuple[int, int]:
    """The short side where all pictures have one shape, so that none is distorted; else a square."""
    rows = catalog.usable_rows
    shapes = zip(catalog.heights[rows].tolist(), catalog.widths[rows].tolist(), strict=True)
    return side if len({Fraction(height, width) for height, width in shapes}) == 1 else (side, side)


def save_batch(path: Path, plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> None:
    """Write the contact sheet of a batch.

    Args:
        path: Of the picture.
        plan: At the epoch of the batch.
        positions: Of its clips.
        clips: uint8 [B, T, C, H, W].
    """
    rows = [_sheet_clip(plan, position, clip) for position, clip in zip(positions, clips, strict=True)]
    save_still(path, contact_sheet(rows))


def _sheet_clip(plan: EpochPlan, position: int, clip: Pixels) -> SheetClip:
    request = plan[position]
    label = plan.classes[int(plan.columns_at(position)["label"])]
    folder, name = os.path.split(request.name)
    title = f"{os.path.join(os.path.basename(folder), name)}    label: {label}"
    pictures = [np.ascontiguousarray(frame.transpose(1, 2, 0)) for frame in clip]
    return SheetClip(printable(title), pictures, captions(request), np.asarray(request.segment).tolist())


def count_right(plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> tuple[int, int]:
    """Count the frames of a batch of made videos that carry the number that the plan asked for, and all of them."""
    frames = clips.reshape(-1, *clips.shape[2:])
    wanted = np.concatenate([plan[position].ordinals for position in positions]).tolist()
    return sum(_carries(frame, number) for frame, number in zip(frames, wanted, strict=True)), len(wanted)


def _carries(frame: Pixels, number: int) -> bool:
    try:
        return read_stamp(frame) == number
    except ValueError:
        return False


try:
    import torch
except ImportError as error:
    raise MissingDependency(
        "framefeed demo needs PyTorch, which is not installed: pip install 'framefeed[torch]'"
    ) from error


RULE = Rates([(1.0, 8), (2.0, 8)])
SIDE = 112
BATCH_SIZE = 8
EPOCHS = 2
CLIPS = 48
"""An epoch has about as many: enough for the loss to fall, and seconds of decoding."""
EPOCH_SECONDS = 15.0
"""An epoch of large videos is cut off after this time."""
STARTING, WAITING, TRAINING = "starting workers", "waiting for data", "training"

Batch = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("media", nargs="?", metavar="MEDIA",
                        help="folder of videos, one sub-folder per class (default: a few are generated)")  # fmt: skip
    parser.add_argument("-o", "--out", default="framefeed-demo", metavar="FOLDER",
                        help="folder to write to (default: framefeed-demo)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Scan, plan, train, and show what came of it."""
    stages = Stages()
    threads = thread_budget().threads
    say(f"framefeed {framefeed_version()}, PyTorch {torch.__version__}, thread budget {threads}")
    media = find_media(args.media, Path(args.out), stages)
    failed = media.failed
    plan = _planned(media, stages)
    if len(plan):
        training = Training(plan, stages)
        for epoch in range(EPOCHS):
            say(training.epoch(epoch))
        failed += training.failed
        _show(training, Path(args.out) / "first_batch.png", reads_stamps=not media.is_users)
    list_failed(failed)
    return Exit.FAILED_FILES if failed else Exit.WELL


def _planned(media: DemoMedia, stages: Stages) -> EpochPlan:
    catalog = media.catalog
    per_video = max(1, round(CLIPS / max(1, len(catalog.usable_rows))))
    with stages.timed("planning"):
        size = common_size(catalog, SIDE) if media.is_users else (SIDE, SIDE)
        plan = quietly_planned(catalog, RULE, seed=0, clips_per_video=per_video, size=size, columns=["label"])
        cost = plan.describe()
    if len(plan):
        _, height, width = plan.picture_shape
        say(
            f"{len(plan)} clips per epoch: 8 frames at 1 per second, then 8 at 2, each {width}x{height}; "
            f"{cost.decoded_frames_per_delivered_frame:.1f} frames are decoded for each delivered frame",
            "",
        )
    return plan


class Training:
    """A small network, fed by PyTorch's own DataLoader.

    Args:
        plan: The clips.
        stages: Takes the time.

    Attributes:
        first: The first batch.
        lost: Clips that could not be decoded.
    """

    def __init__(self, plan: EpochPlan, stages: Stages) -> None:
        self.plan = plan
        self.stages = stages
        self.first: Batch | None = None
        self.lost = 0
        with stages.timed("setting up PyTorch"):
            self._set_up(thread_budget().threads)

    def _set_up(self, threads: int) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(threads)
        self._dataset = ClipDataset(self.plan, on_error="skip")
        self._loader = torch.utils.data.DataLoader(
            self._dataset, batch_size=BATCH_SIZE, num_workers=min(4, threads), persistent_workers=True
        )
        self._net = small_network(len(self.plan.classes))
        self._optimiser = torch.optim.AdamW(self._net.parameters(), lr=3e-3)

    @property
    def failed(self) -> list[Failed]:
        """Clips that could not be decoded, one a file."""
        first: dict[str, Failed] = {}
        for entry in self._dataset.ledger:
            kind, _, message = entry.reason.partition(": ")
            first.setdefault(entry.source, (entry.source, kind, message))
        return list(first.values())

    def epoch(self, number: int) -> str:
        """Train for one epoch, and say how it went."""
        self._dataset.set_epoch(number)
        clock, clips, right, loss = Stages(), 0, 0, 0.0
        before = self.stages.of(WAITING)
        for batch in self._batches(clock):
            with self.stages.timed(TRAINING):
                scores, batch_loss = self._step(batch["data"], batch["label"])
            clips += len(scores)
            right += int((scores.argmax(1) == batch["label"]).sum())
            loss += batch_loss.item() * len(scores)
        waited, seconds = self.stages.of(WAITING) - before, clock.total
        if not clips:
            return f"epoch {number}   no clip could be decoded"
        return (
            f"epoch {number}   loss {loss / clips:.3f}   accuracy {right / clips:4.0%}   "
            f"{clips / seconds:5.1f} clips/s   "
            f"waited for data {waited:.1f} s of {seconds:.1f} s ({waited / seconds:.0%})"
        )

    def _batches(self, clock: Stages) -> Iterator[Batch]:
        """Give the clips of each batch that could be decoded."""
        with self.stages.timed(STARTING), _interrupts_held():
            batches = iter(self._loader)
        with tqdm(total=len(self._loader), unit="batch", disable=not sys.stderr.isatty(), leave=False) as bar:
            while clock.total < EPOCH_SECONDS:
                try:
                    with self.stages.timed(WAITING):
                        batch = next(batches)
                except StopIteration:
                    return
                bar.update()
                is_ok = batch["ok"]
                self.lost += int((~is_ok).sum())
                if not is_ok.any():
                    continue
                decoded = {name: batch[name][is_ok] for name in ("data", "label", "position")}
                self.first = self.first or decoded
                yield decoded

    def _step(self, clips: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One step: clips are uint8 [B, T, C, H, W], labels int64 [B]."""
        scores = self._net(clips.permute(0, 2, 1, 3, 4).float() / 255 - 0.5)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return scores, loss


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start workers that never see Ctrl-C: it is for this process, which ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def small_network(classes: int) -> torch.nn.Module:
    """A 3-D convolutional network of three layers: [B, 3, T, H, W] to [B, classes]."""
    return torch.nn.Sequential(
        torch.nn.Conv3d(3, 16, kernel_size=(3, 7, 7), stride=(1, 4, 4), padding=(1, 3, 3)),
        torch.nn.ReLU(),
        torch.nn.Conv3d(16, 32, kernel_size=3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv3d(32, 64, kernel_size=3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool3d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, classes),
    )


def _show(training: Training, sheet: Path, reads_stamps: bool) -> None:
    plan, stages, batch = training.plan, training.stages, training.first
    if training.lost:
        say(f"{counted(training.lost, 'clip')} of {EPOCHS} epochs could not be decoded: the other clips of these "
            'batches were trained on (on_error="skip")')  # fmt: skip
    if batch is not None:
        positions, clips = batch["position"].tolist(), batch["data"].numpy()
        if reads_stamps:
            right, total = count_right(plan, positions, clips)
            say(f"{right} of {total} frames of the first batch show the frame number that the plan asked for")
        with stages.timed("contact sheet"):
            save_batch(sheet, plan, positions, clips)
    say("", "where the time went", *table(stages.table(), "lrr", indent="  "))
    if batch is not None:
        say("", f"contact sheet of the first batch (blue: 1 frame per second, orange: 2): {os.fspath(sheet)}")
