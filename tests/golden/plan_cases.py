"""Plans of one catalog, or of requests: every rule, order, share, form and kind of source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import framefeed as ff
from framefeed._values import MISSING_PTS
from framefeed.errors import UsageError
from framefeed.request import ClipContext, ClipFrames
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file
from tests.fakes import DamagedSources, FakeCatalog, SlopedDecoder, index_of, steady_index
from tests.golden.clip_documents import (
    Documents,
    Group,
    describe_all,
    describe_plan,
    describe_text,
    load,
)
from tests.makers import plan_fakes, plan_over
from tests.media.pictures import write_folder

SEED = 11
PICKS = ("played", "nearest", "previous", "next")
POLICIES = ("repeat_last", "wrap", "error")

# --- catalogs -----------------------------------------------------------------------------------------

UNEVEN = index_of([0, 40, 80, 130, 400, 410, 1000, 1001], duration=[40, 40, 50, 270, 10, 590, 1, 30])
STEADY = (
    steady_index(30),
    steady_index(7, fps=Fraction(30000, 1001), start=5),
    UNEVEN,
    steady_index(1),
    steady_index(61, fps=10, gop=5),
    steady_index(12, fps=50, start=1000),
)
UNTIMED = (index_of([MISSING_PTS] * 9), index_of([5, 4, 0, 1, 2, 3]))


def damage(index: Any, *numbers: int) -> Any:
    """Mark frames as damaged."""
    return replace(index, damaged_frame_indices=np.array(numbers, np.int64))


@dataclass
class NamedCatalog(FakeCatalog):
    """A catalog whose sources have names of their own, by which streams are joined."""

    names: Sequence[str] = field(default_factory=list)
    _rows = None

    def source(self, row: int) -> str:
        return self.names[row] if self.names else super().source(row)

    def shown_name(self, row: int) -> str:
        return self.source(row)


def fake(indexes: Sequence[Any] = STEADY, *, sizes: Any = (48, 64), **options: Any) -> NamedCatalog:
    """A catalog of some indexes, with the columns that plans read."""
    count = len(indexes)
    columns = {
        "label": [("dog", "cat", "emu")[row % 3] for row in range(count)],
        "score": [row / 8 for row in range(count)],
        "small": np.arange(count, dtype=np.uint8),
        "start": [(0.0, 0.1, np.nan, 0.02)[row % 4] for row in range(count)],
        "end": [(0.5, np.nan, np.nan, 1.25, 0.3)[row % 5] for row in range(count)],
        "second": [row // 2 for row in range(count)],
        "num_key_frames": [len(index.key_frame_indices) for index in indexes],
        "bytes": [1000 * (1 + row % 3) * len(index) for row, index in enumerate(indexes)],
        "average_fps": [25.0] * count,
        "codec": ["h264"] * count,
        "kind": ["video"] * count,
    }
    return NamedCatalog(list(indexes), sizes=sizes, columns={**columns, **options.pop("columns", {})}, **options)


def plan(rule: Any = None, catalog: Any = None, **options: Any) -> Any:
    """A plan over a catalog of videos without files; by default 12 clips of 4 random frames."""
    given = {"seed": SEED, "clips_per_video": 2, "columns": ["label", "score"], **options}
    if isinstance(rule, ff.EveryFrame):
        del given["clips_per_video"]
    return plan_over(fake() if catalog is None else catalog, rule or ff.RandomSegments(4), **given)


# --- rules --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LateRule:
    """A rule of a user, which finds out in each clip that a stream has no times, and that a crop draws after it."""

    num_frames: int = 2
    is_random = True

    def choose(self, timeline: Any, context: ClipContext) -> ClipFrames:
        """Choose two frames."""
        time = float(context.generator.integers(4)) / 10 + context.number / 20
        return ff.AtSeconds([time, 0.3], policy="wrap").choose(timeline, context)


RULES: dict[str, Any] = {
    "uniform 1": ff.Uniform(1),
    "uniform 4": ff.Uniform(4),
    "uniform 9 wrap": ff.Uniform(9, policy="wrap"),
    "segments 1": ff.RandomSegments(1),
    "segments 3": ff.RandomSegments(3),
    "segments 9 error": ff.RandomSegments(9, policy="error"),
    "dense": ff.Dense(4),
    "dense stride": ff.Dense(3, stride=5),
    "dense from 0": ff.Dense(4, stride=2, start=0),
    "dense from far": ff.Dense(4, stride=2, start=100),
    "dense fps from": ff.Dense(4, fps=20, start=0.1),
    "dense fps from far": ff.Dense(4, fps=20, start=Fraction(301, 3), policy="wrap"),
    "dense fps fraction": ff.Dense(4, fps=Fraction(15, 2), pick="nearest"),
    "dense fps near": ff.Dense(4, fps=24, tolerance_seconds=0.005),
    "rates": ff.Rates([(2, 2), (8, 2)]),
    "rates from fraction": ff.Rates([(Fraction(30000, 1001), 3), (4, 1), (25, 2)], start=Fraction(1, 3)),
    "rates near": ff.Rates([(10, 2)], tolerance_seconds=0.001),
    "indices": ff.AtIndices([0, 5, 2, 400]),
    "indices from the end": ff.AtIndices([-1, 3, -2]),
    "indices before the first": ff.AtIndices([-400, 0]),
    "indices wrap": ff.AtIndices([6, 31, 8], policy="wrap"),
    "indices error": ff.AtIndices([2, 8], policy="error"),
    "seconds before 0": ff.AtSeconds([-0.5, 0.2]),
    "seconds fractions": ff.AtSeconds([Fraction(1, 3), Fraction(1001, 30000), 0.5]),
    "every frame": ff.EveryFrame(),
    "of a user": LateRule(),
    **{f"dense {policy}": ff.Dense(8, stride=4, policy=policy) for policy in POLICIES},
    **{f"dense fps {policy}": ff.Dense(6, fps=12, policy=policy) for policy in POLICIES},
    **{f"dense from {pick}": ff.Dense(3, stride=2, start=0.13, pick=pick) for pick in PICKS},
    **{f"dense from near {pick}": ff.Dense(2, start=0.13, pick=pick, tolerance_seconds=0.01) for pick in PICKS},
    **{f"rates {pick} {policy}": ff.Rates([(4, 3), (9, 2)], pick=pick, policy=policy)
       for pick, policy in product(PICKS, POLICIES)},
    **{f"rates from {pick}": ff.Rates([(5, 2), (10, 2)], start=0.25, pick=pick) for pick in PICKS},
    **{f"seconds {pick} {policy} {near}": ff.AtSeconds([0.135, 0.02, 1.2], pick=pick, policy=policy,
                                                       tolerance_seconds=near)
       for pick, policy, near in product(PICKS, POLICIES, (None, 0.02))},
}  # fmt: skip


def rules(folder: Path) -> Documents:
    """Every rule over videos with times of every kind, with those that fail."""
    for name, rule in RULES.items():
        is_one_of_many = name.startswith(("rates ", "seconds "))
        yield from describe_all(name, plan(rule), epochs=2, batches=not is_one_of_many, text=not is_one_of_many)


def untimed(folder: Path) -> Documents:
    """Rules over videos of which some have no times."""
    catalog = fake([*STEADY[:2], *UNTIMED])
    names = ("uniform 4", "dense", "dense from 0", "dense from far", "dense fps from", "rates", "of a user",
             "indices wrap", "every frame", "seconds next wrap None")  # fmt: skip
    for name in names:
        yield from describe_all(name, plan(RULES[name], catalog))
    for name in ("uniform 4", "rates", "every frame"):
        # One of them has no window, and so no bound by time.
        yield from describe_all(f"{name} within", plan(RULES[name], catalog, within=("start", "end")))
    yield from describe_all("none", plan(RULES["rates"], fake(UNTIMED)), batches=False, text=False)
    failed = fake([*STEADY[:3], steady_index(0)], failed={1: ("CorruptMedia", "video1.mp4: it is torn")})
    yield from describe_all("failed rows", plan(RULES["dense"], failed))
    torn = fake(STEADY[:2], failed={row: ("CorruptMedia", f"video{row}.mp4: it is torn") for row in range(2)})
    yield from describe_all("failed rows alone", plan(None, torn), batches=False, text=False)
    changing = fake([STEADY[0], replace(STEADY[4], changes_size=True)])
    for size in (None, 24, (20, 30), ff.ResizeCrop(32, 24)):
        yield from describe_all(f"changes its size {size}", plan(None, changing, size=size))


# --- order --------------------------------------------------------------------------------------------


def orders(folder: Path) -> Documents:
    """Every shuffle, with clips that stay together, of counts for which a permutation is tight."""
    for shuffle, clips, seed in product((True, False, "videos"), (1, 2, 3), (0, 1, 2**64 - 1)):
        made = plan(ff.Uniform(1), shuffle=shuffle, clips_per_video=clips, seed=seed)
        yield from describe_all(f"{shuffle} {clips} {seed}", made, batches=False, text=seed == 0)
    for count in (1, 2, 3, 4, 5, 7, 10, 16, 17, 101):
        yield from describe_all(f"{count} videos", plan_fakes([3] * count, ff.Uniform(1), seed=count), text=False)
    for shuffle in (True, False, "videos"):
        for clips in (1 << 40, 257):
            made = plan(None, shuffle=shuffle, clips_per_video=clips)
            last = len(made) - 1
            some = sorted({0, 1, 2, clips - 1, clips, last // 3, last - 1, last})
            whole = [describe_plan(made.with_epoch(epoch), some) for epoch in (0, 1, 10**12)]
            yield f"{shuffle} {clips} clips of a video", whole
    yield from describe_all("every frame in order", plan(ff.EveryFrame(), shuffle=False), epochs=1)
    yield from describe_all("a late epoch", plan(None, epoch=7), epochs=2)
    yield from describe_all("no rows", plan(None, fake([])), batches=False, text=False)


def shares(folder: Path) -> Documents:
    """Ranks, with both tails."""
    for size, tail, (shuffle, clips) in product((2, 3, 5, 40), ("pad", "drop"), ((True, 2), (False, 1), ("videos", 3))):
        options = {"shuffle": shuffle, "clips_per_video": clips, "tail": tail}
        made = [plan(None, rank=rank, world_size=size, **options) for rank in range(size)]
        every = [[describe_plan(each.with_epoch(epoch)) for epoch in (0, 1)] for each in made]
        name = f"{shuffle} over {size} {tail}"
        yield name, every
        if size < 40:
            yield f"{name}, batches", [load(each) for each in made[:2]]
            yield f"{name}, text", describe_text(made[-1])
    for size, tail in product((2, 3), ("pad", "drop")):
        made = [plan(ff.EveryFrame(), rank=rank, world_size=size, tail=tail) for rank in range(size)]
        yield f"every frame over {size} {tail}", [describe_plan(each) for each in made]


VIDEOS = [(60, 12), (300, 150), (60, 60), (500, 250), (90, 1), (40, 5), (200, 25)]
"""Frames and distance of key frames of videos whose clips cost unlike much."""


def plan_costly(rule: Any = None, **options: Any) -> Any:
    """A plan whose ranks are balanced."""
    catalog = fake([steady_index(frames, gop=gop) for frames, gop in VIDEOS], sizes=[(48, 64), (96, 64)] * 3 + [(8, 8)])
    return plan(rule or ff.Dense(8), catalog, **{"balance": "cost", "clips_per_video": 3, "size": (24, 32), **options})


def balanced(folder: Path) -> Documents:
    """Ranks that are balanced by cost."""
    rules = {"dense": None, "fps": ff.Dense(4, fps=5), "rates": ff.Rates([(2, 2), (8, 2)]), "uniform": ff.Uniform(2)}
    for (name, rule), size, tail in product(rules.items(), (1, 2, 3, 5), ("pad", "drop")):
        if tail == "pad" or name == "dense":
            made = [plan_costly(rule, rank=rank, world_size=size, tail=tail) for rank in range(size)]
            yield f"{name} over {size} {tail}", [describe_plan(each) for each in made]
            yield f"{name} over {size} {tail}, text", describe_text(made[0])
    for shuffle, size in product((False, "videos"), (2, 3)):
        made = [plan_costly(shuffle=shuffle, rank=rank, world_size=size) for rank in range(size)]
        yield f"{shuffle} over {size}", [[describe_plan(each.with_epoch(epoch)) for epoch in (0, 1)] for each in made]
    # More than a block of units is dealt at once.
    for rank in range(2):
        many = plan_costly(clips_per_video=200, rank=rank, world_size=2)
        yield f"many, rank {rank}", describe_plan(many, [*range(0, len(many), 29), len(many) - 1])
    frames = [plan_costly(ff.EveryFrame(), rank=rank, world_size=2) for rank in range(2)]
    yield "every frame", [describe_plan(each, range(0, len(each), 31)) for each in frames]
    rest = plan_costly(rank=1, world_size=3).without([2, 4, 3])
    yield "rest", describe_plan(rest)
    yield "rest of balanced ranks", describe_plan(plan_costly(rank=0, world_size=2).without(3, 3, "cost"))
    yield "rest of ranks", describe_plan(plan_costly(rank=0, world_size=2).without([1, 3, 2], 3))


# --- pictures -----------------------------------------------------------------------------------------

SIZES: dict[str, Any] = {
    "whole": None,
    "short": 24,
    "pair": (20, 30),
    "resize crop": ff.ResizeCrop(32, 24),
    "resize crop pair": ff.ResizeCrop((30, 40), (20, 28)),
    "long": ff.LongSide(33),
    "letterbox": ff.Letterbox(40),
    "letterbox filled": ff.Letterbox(30, 51, fill=(1, 2, 3)),
}


@dataclass(frozen=True)
class HalfCrop:
    """A crop of a user: the left or the right half."""

    size: Any = None
    resizes = False
    is_random = True

    def box(self, height: int, width: int, context: ClipContext) -> tuple[int, int, int, int]:
        """Draw the half."""
        return 0, int(context.generator.integers(2)) * (width // 2), height, width // 2


CROPS: dict[str, Any] = {
    "": None,
    "box": (2, 4, 30, 41),
    "center": ff.CenterCrop(31),
    "center pair": ff.CenterCrop(20, 40),
    "random": ff.RandomCrop(28, 36),
    "resized": ff.RandomResizedCrop(),
    "resized own": ff.RandomResizedCrop(16),
    "resized own pair": ff.RandomResizedCrop((12, 20), scale=(0.4, 0.9), ratio=(0.5, 0.8)),
    "resized thin": ff.RandomResizedCrop((12, 20), scale=(0.9, 1.0), ratio=(7.0, 8.0)),
    "of a user": HalfCrop(),
}


def pictures(folder: Path) -> Documents:
    """Every size with every crop, and flips."""
    for (size_name, size), (crop_name, crop) in product(SIZES.items(), CROPS.items()):
        name = f"{size_name} {crop_name}"
        try:
            made = plan(ff.RandomSegments(2), fake(STEADY[:3]), size=size, crop=crop)
        except UsageError as error:
            yield name, type(error).__name__
            continue
        yield from describe_all(name, made, epochs=2, text=False)
    for flip, (name, size) in product((0.3, 1.0), SIZES.items()):
        crop = CROPS["random"] if size != SIZES["resize crop"] else None
        flipped = plan(ff.RandomSegments(2), fake(STEADY[:3]), size=size, crop=crop, horizontal_flip=flip)
        yield from describe_all(f"{name} flipped {flip}", flipped)
    exact = plan(ff.Uniform(2), size=(20, 30), still_quality="exact")
    yield from describe_all("exact", exact, epochs=1)


UNLIKE = [(40, 60), (60, 40), (48, 48), (40, 60), (33, 71), (80, 31)]
"""(height, width) of pictures that differ."""


def unequal(folder: Path) -> Documents:
    """Pictures of unequal size: delivered so, or in one size."""
    catalog = fake(sizes=UNLIKE)
    for (size_name, size), crop_name in product(SIZES.items(), ("", "center", "resized", "of a user", "small")):
        crop = ff.RandomCrop(20, 28) if crop_name == "small" else CROPS[crop_name]
        for is_unequal in (True, False):
            name = f"{size_name} {crop_name} {is_unequal}"
            try:
                made = plan(ff.Uniform(2), catalog, size=size, crop=crop, unequal=is_unequal, horizontal_flip=0.5)
            except UsageError as error:
                yield name, type(error).__name__
                continue
            yield from describe_all(name, made, epochs=1, text=False)
    made = plan(ff.Uniform(2), catalog, unequal=True)
    broken = SlopedDecoder(DamagedSources("video1.mp4", "video4.mp4"))
    for action in ("skip", "substitute"):
        yield f"broken {action}", load(made, backend=broken, on_error=action)


# --- damage, windows, columns -------------------------------------------------------------------------


def damaged(folder: Path) -> Documents:
    """Frames that are known to be damaged."""
    indexes = [damage(STEADY[0], 0, 3, 4, 29), STEADY[1], damage(UNEVEN, 2), damage(STEADY[3], 0), damage(STEADY[4], 9)]
    rules = ("uniform 4", "segments 3", "dense", "indices from the end", "every frame", "rates near", "dense wrap")
    for on_damaged, name in product(("error", "skip", "deliver"), rules):
        made = plan(RULES[name], fake(indexes), on_damaged=on_damaged)
        yield from describe_all(f"{on_damaged} {name}", made, epochs=2)
    for on_damaged in ("error", "skip", "deliver"):
        options: dict[str, Any] = {"on_damaged": on_damaged, "size": ff.Letterbox(30), "horizontal_flip": 0.5}
        yield from describe_all(f"{on_damaged} letterbox", plan(None, fake(indexes), **options), epochs=1)
        within = plan(ff.Uniform(3), fake(indexes), on_damaged=on_damaged, within=("start", "end"))
        yield from describe_all(f"{on_damaged} within", within, epochs=1)

    unknown = [replace(index, built_from="packets") for index in indexes[:1] + list(STEADY[1:3])]
    yield from describe_all("unknown", plan(None, fake(unknown), on_damaged="deliver"), epochs=1)


def windows(folder: Path) -> Documents:
    """Parts of videos, of which some are empty."""
    names = ("uniform 4", "segments 3", "dense", "dense from 0", "dense fps from", "rates", "indices from the end",
             "indices error", "seconds nearest wrap None", "dense error", "every frame", "of a user",
             "dense fps wrap")  # fmt: skip
    for name in names:
        made = plan(RULES[name], within=("start", "end"), shuffle=name != "dense")
        yield from describe_all(name, made)
    numbers = fake(columns={"first": [0, 1, 0, 0, 2, 0], "last": [1, 1, 3, 0, 4, 9]})
    for name in ("uniform 4", "dense", "every frame"):
        yield from describe_all(f"{name} by integers", plan(RULES[name], numbers, within=("first", "last")), epochs=1)
    open_end = fake(columns={"none": [np.nan] * len(STEADY)})
    yield from describe_all("no end", plan(RULES["dense"], open_end, within=("start", "none")), epochs=1)
    stills = fake([steady_index(1), index_of([MISSING_PTS]), STEADY[0]])
    yield from describe_all("one frame", plan(RULES["uniform 4"], stills, within=("start", "end")), epochs=1)


CLIP_LENGTHS = (6, 9, 14, 24)


@cache
def list_clips() -> list[str]:
    """Paths of real files: three of 10 frames a second, one of 24000/1001."""
    rates = (10, 10, 10, Fraction(24000, 1001))
    return [
        str(clip_file(f"golden_{frames}.mp4", ClipSpec(num_frames=frames, height=32, width=48, fps=fps)))
        for frames, fps in zip(CLIP_LENGTHS, rates, strict=True)
    ]


@cache
def scan_columns() -> ff.Catalog:
    """A catalog of real files, three rows of each, with columns of every kind."""
    paths = [path for path in list_clips() for _ in range(3)]
    count = len(paths)
    lists = [[row % 5, -1, 3] if row != 7 else None for row in range(count)]
    given = {
        "path": paths,
        "label": [("dog", "cat", "emu")[row % 3] for row in range(count)],
        "key": [f"k{(5 * row) % count}" for row in range(count)],
        "group": pa.array([(5 * row) % count for row in range(count)], pa.int32()),
        "score": [row / 8 for row in range(count)],
        "flag": [row % 2 == 0 for row in range(count)],
        "grid": [[float(row), 1.0, 0.5] for row in range(count)],
        "codes": pa.array([[row, row + 1] for row in range(count)], pa.list_(pa.int16(), 2)),
        "frame": [row % 5 for row in range(count)],
        "frames": lists,
        "short": pa.array([[row % 3] for row in range(count)], pa.list_(pa.uint8())),
        "seconds": [row / 20 if row != 3 else None for row in range(count)],
        "times": [[0.0, row / 30, 9.0] for row in range(count)],
        "start_time": [30 * row for row in range(count)],
        "whole": [float(30 * row) for row in range(count)],
        "late": [99 + row for row in range(count)],
        "late_seconds": [60.5 + row for row in range(count)],
        "start": [None if row % 4 == 0 else 0.1 * (row % 3) for row in range(count)],
        "end": [None if row % 3 == 0 else 0.3 + 0.1 * row for row in range(count)],
    }
    return ff.scan(pa.table(given), workers=0)


def columns(folder: Path) -> Documents:
    """Columns that are delivered, and columns that have the frames."""
    catalog = scan_columns()
    names = ["label", "key", "group", "score", "flag", "grid", "codes", "num_frames", "frame"]
    for shuffle in (True, False):
        made = plan(ff.Uniform(2), catalog, columns=names, shuffle=shuffle)
        yield from describe_all(f"delivered {shuffle}", made, epochs=2, text=False)
    yield from describe_all("some rows", plan(ff.Dense(3), catalog.take([7, 1, 4]), columns=names), text=False)
    yield from describe_all("filtered", plan(ff.Dense(3), catalog.filter(label="cat"), columns=names), text=False)
    yield from describe_all("within", plan(RULES["rates"], catalog, within=("start", "end")), text=False)
    for at in ("start_time", "whole", "late", "late_seconds"):
        yield at, describe_plan(plan_over(catalog, at=at, seed=SEED, shuffle=False))
    for at in ("frame", "frames", "short", "seconds", "times"):
        options: dict[str, Any] = {"at": at, "seed": SEED, "columns": names}
        yield from describe_all(f"at {at}", plan_over(catalog, **options), epochs=2, text=False)
        ranks = [plan_over(catalog, rank=rank, world_size=5, tail="drop", **options) for rank in range(5)]
        yield f"at {at} over 5", [describe_plan(each) for each in ranks]
    cropped = plan_over(catalog, at="frames", seed=SEED, crop=ff.RandomCrop(20, 30), size=(8, 12), horizontal_flip=0.5)
    yield from describe_all("at frames cropped", cropped, text=False)
    untimed = ff.scan(pa.table({"path": [*list_clips(), str(corpus_file("raw.h264"))], "at": [0.1] * 5}), workers=0)
    yield from describe_all("at without times", plan_over(untimed, at="at", seed=SEED), text=False)


# --- pictures and folders of them ---------------------------------------------------------------------


def stills(folder: Path) -> Documents:
    """Still pictures and image sequences, with headers alone and with all frames, beside videos."""
    root = folder / "stills"
    for number, name in enumerate(("a/s0", "a/s1", "b/s2")):
        write_folder(root / name, 4 + number, first=100 * number)
    Image.new("RGB", (64, 48), (1, 2, 3)).save(root / "b" / "still.jpg")
    sequences = ff.scan(root, image_folders="video", fps=Fraction(24000, 1001), label_from="parent", workers=0)
    singles = ff.scan(root, image_folders="image", label_from="parent", workers=0)
    headers = ff.scan(root, image_folders="image", label_from="parent", workers=0, depth="header")
    rules = ("uniform 4", "segments 3", "dense", "rates", "indices wrap", "indices error", "every frame", "of a user",
             "seconds next wrap None", "dense from far", "dense fps error")  # fmt: skip
    for kind, catalog in {"sequences": sequences, "singles": singles, "headers": headers}.items():
        for name in rules:
            made = plan(RULES[name], catalog, columns=["label"])
            yield from describe_all(f"{kind} {name}", made, epochs=1, text=False, batches=name == "uniform 4")
        for quality in ("scaled", "exact"):
            small = plan(ff.Uniform(1), catalog, columns=["label"], size=(10, 12), still_quality=quality)
            yield from describe_all(f"{kind} {quality}", small, epochs=2, text=False)
    video = Path(list_clips()[0])
    both = ff.scan([root / "a" / "s0", video], image_folders="image", workers=0)
    only = ff.scan([root / "a" / "s0", video], image_folders="image", workers=0, depth="header")
    for name, catalog in {"with a video": both, "with a video's header": only}.items():
        made = plan(ff.Dense(2), catalog, columns=[], size=(24, 32))
        yield from describe_all(name, made, epochs=2, text=False)


# --- requests -----------------------------------------------------------------------------------------


def request(number: int, indices: Any = None, seconds: Any = None, **options: Any) -> ff.DecodeRequest:
    """A request of a real file, which is indexed already."""
    return ff.DecodeRequest(scan_columns()[3 * number], indices, seconds=seconds, **options)


def list_requests() -> list[ff.DecodeRequest]:
    """Requests of three frames each, by number and by time."""
    return [
        request(0, [0, 3, -1]), request(1, [8, 9, 100]), request(0, seconds=[0.0, 0.25, 0.55]),
        request(3, seconds=[0.3, 0.04, 99.0]), request(2, [-14, 1, 2], segment=[0, 1, 1]), request(2, [5, 4, 4]),
        request(1, seconds=[-1.0, 0.1, 0.2]),
    ]  # fmt: skip


def requests(folder: Path) -> Documents:
    """Lists of requests of the user."""
    listed = list_requests()
    columns = {
        "label": [f"l{number % 3}" for number in range(7)],
        "score": [number / 4 for number in range(7)],
        "grid": [[number, 1] for number in range(7)],
        "words": [f"w{number}" for number in range(7)],
    }
    for pick, policy in product(PICKS, POLICIES):
        made = ff.plan_requests(listed, pick=pick, policy=policy, columns=columns)
        yield from describe_all(f"{pick} {policy}", made, epochs=1, text=False)
    for near in (0.04, 0.06):
        made = ff.plan_requests(listed, tolerance_seconds=near, pick="nearest")
        yield from describe_all(f"within {near} s", made, epochs=1, text=False)
    shuffled = ff.plan_requests(listed, seed=SEED, shuffle=True, columns=columns, horizontal_flip=0.5)
    yield from describe_all("shuffled", shuffled, text=False)
    for size, tail in product((2, 3, 5), ("pad", "drop")):
        ranks = [ff.plan_requests(listed, seed=1, shuffle=True, rank=rank, world_size=size, tail=tail)
                 for rank in range(size)]  # fmt: skip
        yield f"over {size} {tail}", [describe_plan(each) for each in ranks]
    for name, size in SIZES.items():
        for crop in (None, ff.RandomCrop(28, 40)):
            if name != "resize crop pair" or crop is None:
                made = ff.plan_requests(listed, seed=2, size=size, crop=crop)
                yield from describe_all(f"{name} {crop}", made, epochs=2, text=False)
    own = [request(0, [0, 1], output=ff.OutputSpec((20, 30), (2, 3, 20, 24))),
           request(1, [2, 3], output=ff.OutputSpec((20, 30))),
           request(1, seconds=[0.1, 0.2], output=ff.OutputSpec((20, 30), still_quality="scaled")),
           request(2, [0, 0], output=ff.OutputSpec(crop=(1, 2, 20, 30)))]  # fmt: skip
    yield from describe_all("own outputs", ff.plan_requests(own, seed=0, shuffle=True, horizontal_flip=1.0), text=False)
    lengths = [request(0, [0]), request(1, [1, 2, 3]), request(2, seconds=[0.1, 0.2])]
    yield from describe_all("unequal lengths", ff.plan_requests(lengths), batches=False, text=False)
    bounds = {
        "one": (0.2, 0.5), "no end": (0.2, None), "no start": (None, 0.4), "each": [
            (0.1, 0.3), None, (None, 0.3), (0.3, None), (0.0, 0.5), (5.0, 6.0), (0.1, 0.4)],
    }  # fmt: skip
    for (name, within), before, policy in product(bounds.items(), ("repeat_first", "error"), POLICIES):
        made = ff.plan_requests(listed, within=within, before=before, policy=policy)
        yield from describe_all(f"{name} {before} {policy}", made, epochs=1, text=False)
    bounded = [
        request(0, [0, 3, 5], start_seconds=0.1, end_seconds=0.4),
        request(1, seconds=[0.0, 0.3, 0.5]),
        request(3, seconds=[0.0, 0.1, 0.9], start_seconds=0.05),
        request(2, [0, 9, 4], end_seconds=0.8),
    ]
    yield from describe_all("own bounds", ff.plan_requests(bounded, pick="nearest"), epochs=1, text=False)
    wrong = {
        "no times": ff.DecodeRequest(corpus_file("raw.h264"), seconds=[0.1]),
        "no media": ff.DecodeRequest(b"", [0]),
    }
    for name, each in wrong.items():
        with pytest.raises(ff.FramefeedError) as caught:
            ff.plan_requests([request(0, [0]), each, request(1, [1]), each])
        yield name, [type(caught.value).__name__, caught.value.position]
    several = [Path(path).read_bytes() if number % 2 else path for number, path in enumerate(list_clips())]
    again = [ff.DecodeRequest(path, seconds=[0.1, number / 7]) for number, path in enumerate([*list_clips()[:2]] * 2)]
    yield from describe_all("paths", ff.plan_requests(again, seed=3, shuffle=True), text=False)
    mixed = [ff.DecodeRequest(source, [number, 0]) for number, source in enumerate([*several, scan_columns()[4]])]
    yield from describe_all("bytes and entries", ff.plan_requests(mixed, seed=3, shuffle=True), text=False)


BUCKETS = ((5, 48, 64), (9, 48, 64), (9, 64, 48), (13, 48, 64), (17, 40, 40))


def buckets(folder: Path) -> Documents:
    """Steps of buckets: each size of a step and tail, ranks, rests of them, weights, windows and repeats."""
    sizes = [(48, 64), (64, 48), (96, 128)]
    names = {"times": [number % 3 for number in range(30)], "a": [0.0, 0.3] * 15, "b": [9.0, 1.9] * 15}
    catalog = FakeCatalog(
        [steady_index(20 + 2 * number, fps=25) for number in range(30)],
        sizes=[sizes[number % 3] for number in range(30)],
        columns=names,
    )
    given = {"fps": 10, "seed": SEED, "global_batch": 4}
    for tail, ranks, more in product(("pad", "drop", "stream"), (1, 2), ({}, {"accumulate": 2}, {"start": 0})):
        for rank in range(ranks):
            plan = ff.plan_buckets(catalog, BUCKETS, **given, tail=tail, rank=rank, world_size=ranks, **more)
            yield f"{tail}, {more}, {rank} of {ranks}", describe_plan(plan.with_epoch(1))
    for more in (
        {"weights": {BUCKETS[1]: 2, BUCKETS[0]: 0.5}}, {"repeats": "times"}, {"within": ("a", "b")}, {"min_steps": 0},
        {"per_video": "all"}, {"max_repeated": 0.0}, {"max_crop": 0.6, "enlarge": True}, {"horizontal_flip": 0.5},
    ):  # fmt: skip
        plan = ff.plan_buckets(catalog, BUCKETS, **{**given, **more})
        yield f"{more}", [describe_plan(plan), describe_text(plan), plan.fingerprint]
    plan = ff.plan_buckets(catalog, BUCKETS, fps=10, seed=SEED, batch_size=2, world_size=3)
    for clips in (2, 4):
        rest = ff.plan_buckets(catalog, BUCKETS, fps=10, seed=SEED, batch_size=2, world_size=2)
        yield f"rest after {clips}", describe_plan(rest.with_state({**plan.without(clips).state_dict()}))
    parts = [
        (ff.plan_buckets(catalog, BUCKETS, **{**given, "seed": seed}), weight) for seed, weight in ((1, 2), (2, 1))
    ]
    mixed = ff.mix_plans(parts, num_clips=40, seed=SEED, tail="drop", rank=1, world_size=2)
    yield "mixture", [describe_plan(mixed), mixed.fingerprint]


GROUPS: dict[str, Group] = {
    "buckets": buckets,
    "rules": rules,
    "untimed": untimed,
    "orders": orders,
    "shares": shares,
    "balanced": balanced,
    "pictures": pictures,
    "unequal": unequal,
    "damaged": damaged,
    "windows": windows,
    "columns": columns,
    "stills": stills,
    "requests": requests,
}
"""Groups of plans by name; each takes a folder for its files."""
