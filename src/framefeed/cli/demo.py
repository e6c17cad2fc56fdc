"""``framefeed demo``: run all steps once: scan, plan, decode, and train a small network with PyTorch."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from framefeed._absence import describe_absence
from framefeed._units import format_count, format_number, format_seconds, format_share, format_table
from framefeed.adapters.torch import ClipDataset
from framefeed.catalog import Catalog
from framefeed.cli._arguments import read_local_path
from framefeed.cli._io import Exit, Failed, Stages, ensure_folder, make_printable, print_failed, print_out
from framefeed.cli._plans import make_captions, make_plan_quietly
from framefeed.cli._versions import describe_version
from framefeed.cli.scan import describe_summary, summarise
from framefeed.decode import Pixels
from framefeed.encode import SheetClip, draw_contact_sheet, save_still
from framefeed.errors import MissingDependency, TimeUnavailable, UsageError
from framefeed.parallel import thread_budget
from framefeed.plan import EpochPlan, Rates
from framefeed.scanning import VIDEO_SUFFIXES, list_roots, scan
from framefeed.testing import make_folder, read_stamp

try:
    import torch
except ImportError as error:
    raise MissingDependency(
        f"framefeed demo needs PyTorch, which {describe_absence(error, 'torch')}: pip install 'framefeed[torch]'"
    ) from error

# Files of a folder that the demo uses, evenly spaced, so that it takes about a minute.
MAX_FILES = 60
CATALOG = "cat.parquet"
CLASSES, VIDEOS_PER_CLASS, SECONDS = 2, 4, 16.0
RULE = Rates([(1.0, 8), (2.0, 8)])
SIDE = 112
BATCH_SIZE = 8
EPOCHS = 2
# Clips of an epoch, about: enough for the loss to fall, and few enough to decode in seconds.
CLIPS = 48
# An epoch of large videos ends after this time.
EPOCH_SECONDS = 15.0
STARTING, WAITING, TRAINING = "starting workers", "waiting for data", "training"

Batch = dict[str, Any]


def _prepare_media(media: str | None, out: Path, stages: Stages) -> tuple[Catalog, list[Failed]]:
    """Generate or list the media, scan them, and print a summary; return the files with times, and the others."""
    roots = [os.fspath(out / "videos")] if media is None else _choose_files(media)
    ensure_folder(os.fspath(out))
    if media is None:
        with stages.timed("making videos"):
            files = make_folder(roots[0], CLASSES, VIDEOS_PER_CLASS, SECONDS)
        made = f"made {len(files)} videos of {format_seconds(SECONDS)} in {roots[0]}"
        print_out(f"{made}; for your own: framefeed demo FOLDER, or make demo MEDIA=FOLDER")
    with stages.timed("scanning"):
        catalog = scan(roots, out=out / CATALOG, label_from="parent")
    print_out(*describe_summary(summarise(catalog)))
    # The clips of the demo are chosen by time.
    rows = catalog.usable_rows.tolist()
    timed = [row for row in rows if not catalog.lacks_times[row]]
    why = "has no usable timestamps, which frames per second need: scan with --assume-fps, or choose frames by number"
    timeless = [(catalog.shown_name(row), TimeUnavailable.__name__, why) for row in rows if row not in set(timed)]
    return catalog.take(timed), [*catalog.failures, *timeless]


def _choose_files(media: str) -> list[str]:
    if not os.path.exists(media):
        raise UsageError(f"{media}: no such folder: check its spelling")
    files = list_roots(media, suffixes=VIDEO_SUFFIXES).paths
    if not files:
        raise UsageError(f"no videos found in {media}: expected files with an ending such as .mp4, .mkv or .avi")
    if len(files) <= MAX_FILES:
        return [media]
    print_out(f"{len(files):,} videos in {media}: the demo uses {MAX_FILES} of them, evenly spaced")
    return [files[number * len(files) // MAX_FILES] for number in range(MAX_FILES)]


def _save_sheet(path: Path, plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> None:
    """Write the contact sheet of a batch, uint8 [B, T, C, H, W], of a plan at the batch's epoch."""
    rows = []
    for position, clip in zip(positions, clips, strict=True):
        request, label = plan[position], plan.classes[int(plan.columns_at(position)["label"])]
        folder, name = os.path.split(request.name)
        title = f"{os.path.join(os.path.basename(folder), name)}    label: {label}"
        pictures = [np.ascontiguousarray(frame.transpose(1, 2, 0)) for frame in clip]
        rows.append(SheetClip(make_printable(title), pictures, make_captions(request)))
    save_still(path, draw_contact_sheet(rows))


def _count_correct(plan: EpochPlan, positions: Sequence[int], clips: Pixels) -> tuple[int, int]:
    """Count the frames of a batch of generated videos that show the planned number, and all frames."""
    frames = clips.reshape(-1, *clips.shape[2:])
    planned = np.concatenate([plan[position].indices for position in positions]).tolist()
    correct = 0
    for frame, number in zip(frames, planned, strict=True):
        try:
            correct += read_stamp(frame) == number
        except ValueError:  # no number can be read
            continue
    return correct, len(planned)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("media", nargs="?", metavar="MEDIA",
                        help="folder of videos, one sub-folder per class (default: a few are generated)")  # fmt: skip
    parser.add_argument("-o", "--out", type=read_local_path, default="framefeed-demo", metavar="FOLDER",
                        help="folder to write to (default: framefeed-demo)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Scan, plan, train, and print the results."""
    stages = Stages()
    threads = thread_budget().threads
    print_out(f"framefeed {describe_version()}, PyTorch {torch.__version__}, {format_count(threads, 'thread')}")
    catalog, failed = _prepare_media(args.media, Path(args.out), stages)
    plan = _make_plan(catalog, args.media is not None, stages)
    if len(plan):
        training = Training(plan, stages)
        for epoch in range(EPOCHS):
            print_out(training.train_epoch(epoch))
        failed += training.failed
        _print_result(training, Path(args.out) / "first_batch.png", reads_stamps=args.media is None)
    print_failed(failed)
    return Exit.FAILED_FILES if failed else Exit.WELL


def _make_plan(catalog: Catalog, is_users: bool, stages: Stages) -> EpochPlan:
    """Plan the clips: a short side if all pictures of the user have one shape, else a square for all batches."""
    per_video = max(1, round(CLIPS / max(1, len(catalog.usable_rows))))
    with stages.timed("planning"):
        rows = catalog.usable_rows
        shapes = zip(catalog.heights[rows].tolist(), catalog.widths[rows].tolist(), strict=True)
        has_one_shape = len({Fraction(height, width) for height, width in shapes}) == 1
        size = SIDE if is_users and has_one_shape else (SIDE, SIDE)
        plan = make_plan_quietly(
            catalog, RULE, shows_remarks=False, seed=0, clips_per_video=per_video, size=size, columns=["label"]
        )
        cost = plan.describe()
    if len(plan):
        if len(plan.classes) == 1:
            print_out("the loss of one class is 0: to learn something, put the videos of each class in a sub-folder")
        _, height, width = plan.picture_shape
        print_out(
            f"{len(plan)} clips per epoch: 8 frames at 1 per second, then 8 at 2, each {width}x{height}; "
            f"{cost.decoded_frames_per_delivered_frame:.1f} frames are decoded for each delivered frame, "
            "as decoding begins at key frames",
            "",
        )
    return plan


class Training:
    """Training of a small network with PyTorch's DataLoader.

    Attributes:
        first: The first batch.
        lost: Number of clips that could not be decoded.
    """

    def __init__(self, plan: EpochPlan, stages: Stages) -> None:
        self.plan = plan
        self.stages = stages
        self.first: Batch | None = None
        self.lost = 0
        with stages.timed("setting up PyTorch"):
            threads = thread_budget().threads
            torch.manual_seed(0)
            torch.set_num_threads(threads)
            self._dataset = ClipDataset(plan, on_error="skip")
            self._loader = torch.utils.data.DataLoader(
                self._dataset, batch_size=BATCH_SIZE, num_workers=min(4, threads), persistent_workers=True
            )
            self._net = make_network(len(plan.classes))
            self._optimiser = torch.optim.AdamW(self._net.parameters(), lr=3e-3)

    @property
    def failed(self) -> list[Failed]:
        """Clips that could not be decoded, one a file."""
        first: dict[str, Failed] = {}
        for entry in self._dataset.ledger:
            kind, _, message = entry.reason.partition(": ")
            first.setdefault(entry.source, (entry.source, kind, message))
        return list(first.values())

    def train_epoch(self, number: int) -> str:
        """Train for one epoch, and describe it."""
        self._dataset.set_epoch(number)
        clock, clips, right, loss = Stages(), 0, 0, 0.0
        before = self.stages.get(WAITING)
        for batch in self._batches(clock):
            labels = batch["label"]
            with self.stages.timed(TRAINING):
                # [B, T, C, H, W] of bytes to [B, C, T, H, W] from -0.5 to 0.5.
                scores = self._net(batch["data"].permute(0, 2, 1, 3, 4).float() / 255 - 0.5)
                batch_loss = torch.nn.functional.cross_entropy(scores, labels)
                self._optimiser.zero_grad()
                batch_loss.backward()  # type: ignore[no-untyped-call]
                self._optimiser.step()
            clips += len(scores)
            right += int((scores.argmax(1) == labels).sum())
            loss += batch_loss.item() * len(scores)
        waited, seconds = self.stages.get(WAITING) - before, clock.total
        if not clips:
            return f"epoch {number}   no clip could be decoded"
        return (
            f"epoch {number}   loss {loss / clips:.3f}   accuracy {format_share(right, clips):>6}   "
            f"{format_number(clips / seconds):>5} clips/s   "
            f"waited for data {format_seconds(waited)} of {format_seconds(seconds)} ({format_share(waited, seconds)})"
        )

    def _batches(self, clock: Stages) -> Iterator[Batch]:
        """Yield the clips of each batch that could be decoded."""
        with self.stages.timed(STARTING), _blocking_interrupts():
            batches = iter(self._loader)
        with tqdm(total=len(self._loader), unit="batch", file=sys.stderr, disable=None, leave=False) as bar:
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


@contextmanager
def _blocking_interrupts() -> Iterator[None]:
    """Block Ctrl-C for workers that start in the block: this process handles it, and ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make_network(classes: int) -> torch.nn.Module:
    """Make a 3-D convolutional network of three layers: [B, 3, T, H, W] to [B, classes]."""
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


def _print_result(training: Training, sheet: Path, reads_stamps: bool) -> None:
    plan, stages, batch = training.plan, training.stages, training.first
    if training.lost:
        print_out(
            f"{format_count(training.lost, 'clip')} of {EPOCHS} epochs could not be decoded: "
            'the other clips of these batches were trained on (on_error="skip")'
        )
    if batch is not None:
        positions, clips = batch["position"].tolist(), batch["data"].numpy()
        if reads_stamps:
            right, total = _count_correct(plan, positions, clips)
            shown = f"{right} of {total} frames of the first batch show the frame number that the plan asked for"
            print_out(f"{shown}: the videos that were made have it in each picture")
        with stages.timed("contact sheet"):
            _save_sheet(sheet, plan, positions, clips)
    print_out("", "where the time went", *format_table(stages.list_rows(), "lrr", indent="  "))
    if batch is not None:
        print_out("", f"contact sheet of the first batch: {os.fspath(sheet)}")
        catalog = os.fspath(sheet.with_name(CATALOG))
        print_out(f"catalog: {catalog}; next, a page about it: framefeed report {shlex.quote(catalog)}")
