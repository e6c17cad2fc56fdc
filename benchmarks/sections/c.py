"""Section C: pictures for a small net, by DALI's pipeline and by framefeed: preprocessing alone, and under training.

The write-up shuffles a list of files with labels, deals it to ranks, decodes, resizes to 240x240, casts to uint8 and
gives the batches to PyTorch. It reports 272 ms on the CPU and 75 ms with DALI's decoder on a GPU for preprocessing
alone (3.6x), and 13.1 s and 8.2 s for 100 epochs with training (1.6x). But the listing of the second pair has
``device='cpu'`` in both columns, so the 1.6x is not CPU against GPU.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

import framefeed as ff
from benchmarks.load.frameworks import exhaust
from benchmarks.scene import Scene
from benchmarks.sections.section import Result, Section, Table, list_reasons, say_seconds
from framefeed._values import DEFAULT_LIMITS
from framefeed.bench import (
    Begin,
    BenchOptions,
    Comparison,
    Contender,
    Findings,
    MakeRow,
    Row,
    Timings,
    compare_times,
    psnr,
    read_family_clocks,
)
from framefeed.bench.baselines import Peers
from framefeed.decode import Pixels
from framefeed.decode.backends.still import StillDecoder
from framefeed.errors import MissingMedia
from framefeed.media import MediaSource
from framefeed.pictures import decode_still
from framefeed.plan import EpochPlan
from framefeed.request import OutputSpec

HEIGHT, WIDTH, COUNT, QUALITY = 375, 500, 600, 90
"""Of the pictures that are made: as large as most of ImageNet's."""
SIDE, BATCH, THREADS, CLASSES, EPOCHS = 240, 64, 2, 10, 2
LEAST_PSNR = 32
"""dB of each picture, against Pillow's decoder and its bilinear filter."""
DALI, DALI_MIXED = "DALI, CPU", "DALI, mixed"
INTO_DALI, RESIZED_INTO_DALI = "framefeed into DALI, which resizes", "framefeed, resized, into DALI"
OURS, OURS_TORCH, PILLOW = "framefeed, ClipLoader", "framefeed, torch DataLoader", "Pillow, torch DataLoader"
ALONE, TRAINING, PARTS = "C:alone", "C:training", "C:parts"
BeginEpoch = Callable[[int], Iterable[tuple[Any, Any]]]
"""Begins the epoch of a number: batches of pictures, uint8 [B, 3, H, W] or [B, H, W, 3], and of labels, int64 [B]."""


# --- pictures --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Album:
    """Pictures that are each a class of their own, so that outputs can be compared."""

    paths: Sequence[str]
    catalog: ff.Catalog

    @classmethod
    def of(cls, paths: Sequence[str]) -> Album:
        """Scan a list of files."""
        table = pa.table({"path": paths, "label": [f"{number:06}" for number in range(len(paths))]})
        return cls(paths, ff.scan(table, progress=False))

    @property
    def labels(self) -> range:
        """Class of each file."""
        return range(len(self.paths))

    def plan(self, size: tuple[int, int] | None = (SIDE, SIDE), *, shuffle: bool = True) -> EpochPlan:
        """Plan every picture once."""
        return ff.plan_clips(
            self.catalog, ff.Uniform(1), seed=0, shuffle=shuffle, size=size, unequal=size is None, columns=("label",)
        )


def make_pictures(folder: Path, count: int = COUNT) -> Album:
    """Write JPEG files of different pictures."""
    folder.mkdir(exist_ok=True)
    scene = Scene(HEIGHT, WIDTH)
    paths = [str(folder / f"{number:06}.jpg") for number in range(count)]
    for number, path in enumerate(paths):
        Image.fromarray(scene.draw(41 * number)).save(path, quality=QUALITY)
    return Album.of(paths)


def find_pictures(folder: Path) -> Album:
    """The JPEG files of a folder that can be decoded."""
    found = ff.scan(folder, verify="full", progress=False)
    found = found.without(found.errors).filter(kind="image", codec="mjpeg")
    if not len(found):
        raise MissingMedia(f"{folder}: has no JPEG pictures", source=str(folder))
    return Album.of([str(found.source(row)) for row in range(len(found))])


def decode_by_pillow(path: str) -> Pixels:
    """What every route should give, uint8 [SIDE, SIDE, 3]."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


# --- routes ----------------------------------------------------------------------------------------


def need(peers: Peers, name: str) -> Any:
    """The module of a peer, or MissingMedia."""
    if name not in peers.modules:
        raise MissingMedia(f"it needs {name}: {peers.missing[name]}")
    return peers.modules[name]


def open_dali(album: Album, peers: Peers, stack: ExitStack, device: str = "cpu") -> BeginEpoch:
    """The write-up's own pipeline."""
    dali = need(peers, "dali")
    if device == "gpu" and not need(peers, "torch").has_cuda():
        raise MissingMedia("it needs CUDA")
    source = dali.Files(album.paths, album.labels, BATCH)
    begin = dali.open_pictures(source, SIDE, BATCH, THREADS, device)
    return lambda epoch: begin()


def open_into_dali(album: Album, peers: Peers, stack: ExitStack, size: tuple[int, int] | None = None) -> BeginEpoch:
    """Decoded by framefeed, at full size or resized by it, and resized otherwise by DALI."""
    need(peers, "dali")
    pipe = ff.dali.pipeline(album.plan(size), batch_size=BATCH, size=(SIDE, SIDE), workers=THREADS)
    stack.callback(pipe.close)
    return lambda epoch: ((clips[:, 0], labels) for clips, labels in ff.dali.iterate(pipe, target="label"))


def open_clip_loader(album: Album, peers: Peers, stack: ExitStack) -> BeginEpoch:
    """Threads, without torch but for the tensors."""
    as_tensor = need(peers, "torch").as_tensor
    loader = stack.enter_context(ff.ClipLoader(album.plan(), batch_size=BATCH, workers=THREADS))
    return lambda epoch: ((as_tensor(batch.data[:, 0]), as_tensor(batch.columns["label"])) for batch in loader)


def open_torch(album: Album, peers: Peers, stack: ExitStack) -> BeginEpoch:
    """A data set under torch's own DataLoader, which shuffles."""
    dataset = ff.torch.ClipDataset(album.plan(shuffle=False), target="label")
    loader = need(peers, "torch").load_shuffled(dataset, BATCH, THREADS)

    def begin(epoch: int) -> Iterator[tuple[Any, Any]]:
        dataset.set_epoch(epoch)
        for clips, labels in loader:
            yield clips[:, 0], labels

    return begin


def open_pillow(album: Album, peers: Peers, stack: ExitStack) -> BeginEpoch:
    """The data set that most write first."""
    module = need(peers, "torch")
    loader = module.load_shuffled(module.Pictures(album.paths, album.labels, SIDE), BATCH, THREADS)
    return lambda epoch: loader


ROUTES: dict[str, tuple[str, Callable[[Album, Peers, ExitStack], BeginEpoch]]] = {
    DALI: ("dali", open_dali),
    DALI_MIXED: ("dali", partial(open_dali, device="gpu")),
    INTO_DALI: ("dali", open_into_dali),
    RESIZED_INTO_DALI: ("dali", partial(open_into_dali, size=(SIDE, SIDE))),
    OURS: ("", open_clip_loader),
    OURS_TORCH: ("torch", open_torch),
    PILLOW: ("torch", open_pillow),
}
"""Name -> the library that it needs, and what opens it."""


def check_epoch(batches: Iterable[tuple[Any, Any]], expected: Sequence[Pixels]) -> list[str]:
    """Compare an epoch with the pictures that it should give, each once, in an order of its own."""
    wrong, order = [], list[int]()
    for pictures, labels in batches:
        for picture, label in zip(np.asarray(pictures), np.asarray(labels).tolist(), strict=True):
            upright = picture if picture.shape[-1] == 3 else picture.transpose(1, 2, 0)
            order.append(label)
            if (quality := psnr(upright, expected[label])) < LEAST_PSNR:
                wrong.append(f"picture {label}: {quality:.1f} dB, and {LEAST_PSNR} are the least")
    if sorted(order) != list(range(len(expected))):
        wrong.append(f"{len(order)} pictures, {len(set(order))} different ones, of {len(expected)}")
    elif order == sorted(order) and len(order) > 1:
        wrong.append("the order is that of the files")
    return wrong


# --- rows ------------------------------------------------------------------------------------------


def epochs_row(album: Album, peers: Peers, stack: ExitStack, epochs: int = 0) -> Row:
    """Preprocessing alone, one epoch a round; or under training, so many epochs a round."""
    expected = [decode_by_pillow(path) for path in album.paths]
    begins: dict[str, BeginEpoch] = {}

    def open_route(name: str) -> Callable[[int], None]:
        begins[name] = ROUTES[name][1](album, peers, stack)
        if not epochs:
            return lambda number: exhaust(begins[name](number))
        train = need(peers, "torch").make_training(CLASSES)

        def run(number: int) -> None:
            for epoch in range(epochs):
                for pictures, labels in begins[name](epochs * number + epoch):
                    train(pictures, labels)

        return run

    def conclude(timings: Timings) -> Findings:
        others = [name for name in timings.of if name != DALI]
        return Findings(
            [Comparison(name, f"the speed of {DALI}: {name}", compare_times(timings, name, DALI)) for name in others]
        )

    amount = len(album.paths) * max(1, epochs)
    what = f"{epochs} epochs of training a net of two convolutions" if epochs else "Preprocessing alone, an epoch"
    return Row(
        TRAINING if epochs else ALONE,
        f"{what}: {amount} pictures to {SIDE}x{SIDE}, uint8, batches of {BATCH}, {THREADS} threads or processes each",
        [Contender(name, partial(open_route, name), library, amount=amount) for name, (library, _) in ROUTES.items()],
        conclude,
        unit="pictures",
        check=lambda contender: check_epoch(begins[contender.name](0), expected),
        clock=read_family_clocks,
    )


# --- parts -----------------------------------------------------------------------------------------

STEPS = ("read", "header", "decode", "resize", "copy")
"""Copying is all else: a batch, its labels, and tensors or arrays."""
SIDES = {"framefeed": "", "DALI": "dali"}
"""Who is compared, and the library that it needs."""


def open_own_steps(album: Album, steps: int) -> Callable[[], None]:
    """Do the first steps for each picture, in this thread, by what the loader is made of."""
    if steps == len(STEPS):
        loader = ff.ClipLoader(album.plan(shuffle=False), batch_size=BATCH, workers=0)
        return lambda: exhaust(loader)
    decoder, output = StillDecoder(), OutputSpec(size=(SIDE, SIDE))
    indexes = [entry.frame_index for entry in album.catalog]

    def run() -> None:
        for path, index in zip(album.paths, indexes, strict=True):
            if steps == 4:
                exhaust(decoder.iter_rgb(MediaSource.of(path), index, [0], output))
                continue
            data = Path(path).read_bytes()
            if steps == 2:
                Image.open(io.BytesIO(data))
            elif steps == 3:
                decode_still(data, path, DEFAULT_LIMITS)

    return run


def parts_row(album: Album, peers: Peers) -> Row:
    """Where the time of a picture goes, in one thread: each contender does one step more than the one before."""

    def open_steps(who: str, steps: int) -> Callable[[int], None]:
        if who == "framefeed":
            run = open_own_steps(album, steps)
        else:
            dali = need(peers, "dali")
            run = dali.open_steps(dali.Files(album.paths, album.labels, BATCH), SIDE, BATCH, steps)
        return lambda number: run()

    def conclude(timings: Timings) -> Findings:
        facts = {}
        for who in SIDES:
            until = [timings.median(f"{who}: {step}") for step in STEPS if f"{who}: {step}" in timings.of]
            if len(until) == len(STEPS):
                parts = np.diff(until, prepend=0) * 1e3
                facts[who] = {step: round(part, 3) for step, part in zip(STEPS, parts.tolist(), strict=True)}
        return Findings(facts=facts)

    return Row(
        PARTS,
        "CPU of a picture in one thread, by step, in ms",
        [
            Contender(f"{who}: {step}", partial(open_steps, who, number), library, amount=len(album.paths))
            for number, step in enumerate(STEPS, 1)
            for who, library in SIDES.items()
        ],
        conclude,
        unit="pictures",
        warms_up=True,
    )


# --- tables ----------------------------------------------------------------------------------------

PUBLISHED = {
    ALONE: {"published: DALI, CPU": "0.272", "published: DALI, GPU": "0.075"},
    TRAINING: {"published, 100 epochs: first column": "13.1", "published, 100 epochs: second column": "8.2"},
}
"""Key -> what the write-up timed -> seconds."""
NOTES = {
    ALONE: "The published 3.6x is this, on the CPU against a GPU; its pictures and its machine are others.",
    TRAINING: "The published 1.6x: but its second listing, too, has device='cpu', so neither column is of a GPU.",
}


def plan(
    pictures: Path | None, epochs: int, options: BenchOptions, peers: Peers, work: Path, begin: Begin
) -> Mapping[str, MakeRow]:
    """Plan the rows, of pictures that are made, or of those in a folder."""

    @cache
    def album() -> Album:
        return make_pictures(work / "pictures") if pictures is None else find_pictures(pictures)

    return {
        ALONE: lambda scratch, stack: epochs_row(album(), peers, stack),
        TRAINING: lambda scratch, stack: epochs_row(album(), peers, stack, epochs),
        PARTS: lambda scratch, stack: parts_row(album(), peers),
    }


def tabulate_epochs(row: Result) -> Table:
    """Seconds of a round, a line for each route."""
    measured = {each["name"]: each for each in row["contenders"] if not each["num_wrong"]}
    faster = {each["key"]: each["figures"] for each in row["comparisons"]}
    reasons = list_reasons(row)
    lines = [[name, seconds, "", "", ""] for name, seconds in PUBLISHED[row["key"]].items()]
    for name in ROUTES:
        if name in measured:
            times = [say_seconds(measured[name][f"{clock}_seconds"]) for clock in ("wall", "cpu")]
            ratios = [say_ratio(faster[name][clock]) if name in faster else "" for clock in ("wall", "CPU")]
            lines.append([name, *times, *ratios])
        else:
            lines.append([name, "-", "", "", ""])
    header = ["", "seconds", "CPU seconds", f"times the speed of {DALI}", "the same, by CPU"]
    return Table(header, lines, (*(f"{name}: {why}" for name, why in reasons.items()), NOTES[row["key"]]))


def say_ratio(figure: Mapping[str, Any]) -> str:
    """Median of the rounds, with the interval."""
    return f"{figure['median']:.2f} ({figure['low']:.2f}-{figure['high']:.2f})"


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    """Seconds of epochs, and where the time of a picture goes."""
    tables = {row["title"]: tabulate_epochs(row) for key, row in rows.items() if key != PARTS}
    if PARTS in rows:
        facts, reasons = rows[PARTS]["facts"], list_reasons(rows[PARTS])
        sums = {who: {**parts, "all": sum(parts.values())} for who, parts in facts.items()}
        lines = [
            [step, *(f"{sums[who][step]:.2f}" if who in sums else "" for who in SIDES)] for step in (*STEPS, "all")
        ]
        tables[rows[PARTS]["title"]] = Table(["", *SIDES], lines, tuple(dict.fromkeys(reasons.values())))
    return tables


def make_section(pictures: Path | None = None, epochs: int = EPOCHS) -> Section:
    """Make the section, of the user's pictures if there is a folder of them, for so many epochs of training."""
    return Section(
        "pictures for a small net",
        ("benchmarks.peers.torch", "benchmarks.peers.dali"),
        partial(plan, pictures, epochs),
        tabulate,
        240,
    )


SECTION = make_section()
