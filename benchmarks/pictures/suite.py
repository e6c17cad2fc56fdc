"""Pictures: to 224 x 224 in one thread, a training epoch with two workers, from the cache, and how near to Pillow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.decode.loader import exhaust
from benchmarks.pictures.loops import (
    LoadPicture,
    TrainingPictures,
    by_pillow,
    by_pillow_draft,
    by_simplejpeg,
    load_batches,
    make_opencv_loop,
    make_opencv_reduced_loop,
)
from benchmarks.pictures.photos import SIZES, find_photos, make_photos
from framefeed.bench import (
    SIZE,
    Begin,
    BenchOptions,
    Comparison,
    Contender,
    Figure,
    Findings,
    MakeRow,
    Row,
    Run,
    Suite,
    Timings,
    compare_times,
    psnr,
    read_family_clocks,
    ready,
)
from framefeed.bench.baselines import Peers
from framefeed.cache import FrameCache
from framefeed.decode import VideoDecoder
from framefeed.load import ClipLoader
from framefeed.plan import EpochPlan, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest, RandomResizedCrop
from framefeed.scanning import scan

BATCH_SIZE = 32
WORKERS = 2
EPOCH_PICTURES = 1024
NUM_CLASSES = 10
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, as in torchvision's examples."""
OURS = "framefeed"
EXACT = "framefeed, exact"
LOOPS: Mapping[str, Callable[[], LoadPicture]] = {
    "Pillow": lambda: by_pillow,
    "Pillow draft": lambda: by_pillow_draft,
    "OpenCV + INTER_AREA": make_opencv_loop,
    "OpenCV reduced + INTER_AREA": make_opencv_reduced_loop,
    "simplejpeg + Pillow's resize": lambda: by_simplejpeg,
}
RIVALS = {
    "500": ("Pillow", "Pillow draft", "OpenCV + INTER_AREA", "simplejpeg + Pillow's resize"),
    "600": ("Pillow",),
    "1280": ("Pillow",),
    "12mp": ("Pillow",),
}
"""Size -> the loops whose best is compared; the others are reported."""
ROWS: Mapping[str, str] = {
    **{
        f"to-224-{key}": f"JPEGs of {width} x {height} to 224 x 224, one thread"
        for key, (width, height) in SIZES.items()
    },
    "epoch": "an epoch of training pictures: random resized crop, flip, normalised; two workers",
    "cached": "pictures of 224 x 224 from the raw cache, through ClipLoader, one thread",
    "normalised": "normalised float32 batches, by the loader and in the loop",
    "normalised-cached": "the same of pictures from the raw cache",
    "near": "PSNR to Pillow's full decode and antialiased resize",
}
PACKAGES = {"Pillow": "pillow", "Pillow draft": "pillow", "simplejpeg + Pillow's resize": "simplejpeg"}


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows over photos of the media."""
    photos = find_photos(options.media)
    makes: dict[str, MakeRow] = {
        f"to-224-{key}": lambda folder, stack, key=key: decode_row(key, make_photos(photos, work, key), stack)
        for key in SIZES
    }
    makes |= {
        "epoch": lambda folder, stack: epoch_row(make_distinct(make_photos(photos, work, "500"), folder), stack),
        "cached": lambda folder, stack: cached_row(make_photos(photos, work, "500"), folder, stack),
        "normalised": lambda folder, stack: normalised_row(
            make_distinct(make_photos(photos, work, "500"), folder), stack
        ),
        "normalised-cached": lambda folder, stack: normalised_row(
            make_distinct(make_photos(photos, work, "500"), folder), stack, FrameCache(folder / "cache", codec="raw")
        ),
        "near": lambda folder, stack: near_row(photos, [make_photos(photos, work, key) for key in SIZES]),
    }
    return makes


def make_distinct(paths: Sequence[str], folder: Path) -> list[str]:
    """Write pictures of an epoch that differ by a comment: neither decoding nor a stored frame is shared by copies."""
    copies = [folder / f"{number:04}.jpg" for number in range(EPOCH_PICTURES)]
    for number, copy in enumerate(copies):
        data = Path(paths[number % len(paths)]).read_bytes()
        copy.write_bytes(data[:2] + b"\xff\xfe\0\x06%04d" % number + data[2:])
    return list(map(str, copies))


def plan_pictures(paths: Sequence[str], **options: Any) -> EpochPlan:
    """Plan each picture once."""
    return plan_clips(scan(paths), Uniform(1), seed=0, **options)


def open_loader(stack: ExitStack, plan: EpochPlan, **options: Any) -> ClipLoader:
    """Make a loader that the row closes."""
    return stack.enter_context(ClipLoader(plan, batch_size=BATCH_SIZE, **options))


def decode_row(key: str, paths: Sequence[str], stack: ExitStack) -> Row:
    """An epoch of pictures in the thread that takes the batches, against plain loops."""
    count = len(paths)
    contenders = []
    for name, quality in ((OURS, "scaled"), (EXACT, "exact")):
        plan = plan_pictures(paths, size=(SIZE, SIZE), still_quality=quality)
        loader = open_loader(stack, plan, workers=0)
        contenders.append(Contender(name, ready(partial(exhaust, loader)), amount=count))
    for name, make in LOOPS.items():

        def open_loop(make: Callable[[], LoadPicture] = make) -> Callable[[int], None]:
            load = make()
            return lambda number: load_batches(load, paths, BATCH_SIZE)

        contenders.append(Contender(name, open_loop, PACKAGES.get(name, "opencv"), amount=count))

    def conclude(timings: Timings) -> Findings:
        best = timings.best(RIVALS[key])
        comparisons = [Comparison("best", f"CPU seconds of the best loop: {best}", compare_times(timings, OURS, best))]
        for name in (EXACT, *LOOPS):
            if figures := compare_times(timings, OURS, name, ("cpu",)):
                comparisons.append(Comparison(name, f"CPU seconds of {name}", figures))
        milliseconds = {name: round(1000 * timings.median(name), 3) for name in timings.of}
        return Findings(comparisons, {"milliseconds_a_picture": milliseconds})

    return Row(f"to-224-{key}", ROWS[f"to-224-{key}"], contenders, conclude, unit="pictures", warms_up=True)


def epoch_row(paths: Sequence[str], stack: ExitStack) -> Row:
    """A whole epoch with two workers: starting them, decoding, crops, flips, normalised float32 batches and labels."""
    import torch

    from framefeed.adapters.torch import ClipDataset, DataLoader

    labels = [number % NUM_CLASSES for number in range(len(paths))]
    requests = [DecodeRequest(path, [0]) for path in paths]
    plan = plan_requests(
        requests, columns={"label": labels}, crop=RandomResizedCrop(SIZE), horizontal_flip=0.5, shuffle=True
    )
    normalised: dict[str, Any] = {"dtype": "float32", "mean": MEAN, "std": STD}
    loader = open_loader(stack, plan, workers=WORKERS, **normalised)
    dataset, pillow = ClipDataset(plan, target="label", **normalised), TrainingPictures(paths, labels, MEAN, STD)

    def run(make_loader: Any, data: Any, number: int) -> None:
        if data is dataset:
            dataset.set_epoch(number)
        exhaust(make_loader(data, batch_size=BATCH_SIZE, num_workers=WORKERS, shuffle=True), number)

    theirs, ours = (
        "Pillow in torch's DataLoader",
        ("ClipLoader", "ClipDataset", "ClipDataset in framefeed's DataLoader"),
    )
    loops: dict[str, Run] = {
        ours[0]: partial(exhaust, loader),
        ours[1]: partial(run, torch.utils.data.DataLoader, dataset),
        ours[2]: partial(run, DataLoader, dataset),
        theirs: partial(run, torch.utils.data.DataLoader, pillow),
    }
    contenders = [
        Contender(name, ready(loop), "torch" if name == theirs else "", amount=len(plan))
        for name, loop in loops.items()
    ]

    def conclude(timings: Timings) -> Findings:
        return Findings([
            Comparison(name, f"{name} against Pillow in torch's DataLoader", compare_times(timings, name, theirs))
            for name in ours
        ])  # fmt: skip

    return Row("epoch", ROWS["epoch"], contenders, conclude, "pictures", clock=read_family_clocks, warms_up=True)


def cached_row(paths: Sequence[str], folder: Path, stack: ExitStack) -> Row:
    """A second epoch: 224 x 224 pictures from a raw cache, beside a copy of their bytes."""
    copies = make_distinct(paths, folder)
    plan = plan_pictures(copies, size=(SIZE, SIZE))
    cache = stack.enter_context(FrameCache(folder / "cache", codec="raw"))
    loader = open_loader(stack, plan, workers=0, cache=cache)
    exhaust(loader, 0)
    cache.flush()
    source = np.random.default_rng(0).integers(0, 256, (BATCH_SIZE, 3, SIZE, SIZE), np.uint8)
    target = np.empty_like(source)

    def copy_bytes(number: int) -> None:
        for _ in range(EPOCH_PICTURES // BATCH_SIZE):
            target[...] = source

    contenders = [
        Contender("ClipLoader", ready(partial(exhaust, loader)), amount=EPOCH_PICTURES),
        Contender("memcpy", ready(copy_bytes), amount=EPOCH_PICTURES),
    ]

    def conclude(timings: Timings) -> Findings:
        cost = Figure(1000 * timings.median("ClipLoader"), "ClipLoader")
        return Findings([Comparison("cost", "CPU a picture", {"CPU": cost}, " ms")])

    return Row("cached", ROWS["cached"], contenders, conclude, "pictures", warms_up=True)


def normalised_row(paths: Sequence[str], stack: ExitStack, cache: FrameCache | None = None) -> Row:
    """An epoch whose batches are normalised by the loader, by NumPy in the loop, and by torch in the loop."""
    import torch

    plan = plan_pictures(paths, size=(SIZE, SIZE))
    inside = open_loader(stack, plan, workers=0, cache=cache, dtype="float32", mean=MEAN, std=STD)
    outside = open_loader(stack, plan, workers=0, cache=cache)
    exhaust(outside, 0)
    if cache is not None:
        stack.enter_context(cache).flush()
    mean, std = (np.array(values, np.float32).reshape(1, 1, 3, 1, 1) for values in (MEAN, STD))
    torch_mean, torch_std = torch.from_numpy(mean), torch.from_numpy(std)

    def by_numpy(number: int) -> None:
        for batch in outside:
            (batch.data.astype(np.float32) / 255 - mean) / std

    def by_torch(number: int) -> None:
        for batch in outside:
            torch.from_numpy(batch.data).to(torch.float32).div_(255).sub_(torch_mean).div_(torch_std)

    stack.callback(torch.set_num_threads, torch.get_num_threads())
    torch.set_num_threads(1)
    loops = {"NumPy in the loop": by_numpy, "torch in the loop": by_torch}
    contenders = [Contender("by the loader", ready(partial(exhaust, inside)), amount=len(plan))]
    contenders += [Contender(name, ready(run), name.split()[0], amount=len(plan)) for name, run in loops.items()]

    def conclude(timings: Timings) -> Findings:
        return Findings([
            Comparison(name, f"CPU seconds with {name}", compare_times(timings, "by the loader", name, ("cpu",)))
            for name in loops
        ])  # fmt: skip

    key = "normalised" if cache is None else "normalised-cached"
    return Row(key, ROWS[key], contenders, conclude, "pictures", warms_up=True)


def near_row(photos: Sequence[Path], resized: Iterable[Sequence[str]]) -> Row:
    """PSNR of pictures of 224 x 224 to Pillow's, over the photos as they are and of each size."""
    paths = [str(path) for path in photos] + [path for paths in resized for path in paths]
    routes: dict[str, LoadPicture] = {OURS: partial(_load, "scaled"), EXACT: partial(_load, "exact")}
    for name, make in LOOPS.items():
        if make is not LOOPS["Pillow"]:
            with suppress(ImportError):
                routes[name] = make()
    comparisons = []
    for name, load in routes.items():
        decibels = [min(_MOST_DECIBELS, psnr(load(path), by_pillow(path))) for path in paths]
        figures = {"median": Figure(float(median(decibels))), "worst": Figure(min(decibels))}
        comparisons.append(Comparison(name, f"{name}, {len(paths)} photos", figures, " dB"))
    return Row("near", ROWS["near"], conclude=lambda timings: Findings(comparisons))


_MOST_DECIBELS = 99.0
"""In place of infinity, for equal pictures."""


def _load(quality: Any, path: str) -> Any:
    with VideoDecoder(path, size=(SIZE, SIZE), still_quality=quality, dimension_order="NHWC") as decoder:
        return decoder[0]


SUITE = Suite(
    "pictures",
    ROWS,
    (),
    plan_rows,
    {},
    20,
    lambda options: {"batch_size": BATCH_SIZE, "threads": 1, "workers": WORKERS},
)
