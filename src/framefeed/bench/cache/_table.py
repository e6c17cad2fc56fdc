"""The table of ``bench cache``: every format, one after the other, on the same frames."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from framefeed.bench._cache_formats import FileFormat
from framefeed.bench._cache_samples import Sample
from framefeed.bench._measuring import Sample as Took
from framefeed.bench._measuring import now
from framefeed.bench.cache._checking import Checked, CropRequest, FrameSquare, check
from framefeed.bench.cache._field import FrameField
from framefeed.bench.cache._holdings import ALONE, FileHolding, Gives, Holding
from framefeed.bench.cache._ours import StoreHolding
from framefeed.bench.cache._pages import forget
from framefeed.cache import known_codecs
from framefeed.parallel import Ok, catch_outcome

LEAST_SECONDS = 0.25
"""Reading is repeated for so long."""
QUALITIES = {"jpeg": (80, 90, 95)}
"""Lossy codecs of ours are measured at several."""
Make = Callable[[Path], Holding]


@dataclass(slots=True)
class FormatTable:
    """What was found.

    Attributes:
        entries: One of each format that could be measured.
        checks: Entry's title -> what came back in the form that is mostly wanted.
        failed: Format -> why it could not be measured.
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    checks: dict[str, Checked] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def first_worst(self) -> FrameSquare | None:
        """The square that the first lossy format is worst at: where the others are looked at too."""
        return next((checked.worst for checked in self.checks.values() if checked.worst is not None), None)


def all_formats(sample: Sample, checked: FrameField, workers: int) -> dict[str, Make]:
    """How each format is made, by name: theirs first, then ours as planes, as RGB, and at the output's size."""

    def files(form: FileFormat) -> Make:
        return lambda folder: FileHolding(form, sample, folder, checked.loader, workers)

    def stored(codec: str, of: Gives) -> Make:
        return lambda folder: StoreHolding(codec, of, sample, folder, workers)

    makes = {form.name: files(form) for form in checked.formats}
    makes |= {f"framefeed {codec}, planes": stored(codec, "planes") for codec in our_codecs()}
    makes["framefeed lz4, RGB"] = stored("lz4", "rgb")
    return makes | {f"framefeed {codec}, output": stored(codec, "small") for codec in our_codecs()}


def our_codecs() -> list[str]:
    """What a cache can be told, exact codecs first."""
    known = known_codecs()
    exact = [name for name in known if name not in QUALITIES]
    return exact + [f"{name}:{quality}" for name in known for quality in QUALITIES.get(name, ())]


def measure_table(
    makes: dict[str, Make], sample: Sample, work: Path, tell: Callable[[str], object] = lambda name: None
) -> FormatTable:
    """Measure one format after the other; the files of each are gone before the next is written.

    Args:
        makes: How each is made.
        sample: The frames.
        work: Folder on the disk that is meant.
        tell: Called with each name before it is measured.
    """
    table = FormatTable()
    for name, make in makes.items():
        tell(name)
        folder = work / "format"
        # Baselines are other people's code: what one raises is told, and the others go on.
        outcome = catch_outcome(partial(_measured, make, (sample, CropRequest(table.first_worst))), folder)
        rmtree(folder, ignore_errors=True)
        if isinstance(outcome, Ok):
            entry, checked = outcome.value
            table.entries.append(entry)
            table.checks[entry["title"]] = checked
        elif isinstance(outcome.error, Exception):
            table.failed[name] = f"{type(outcome.error).__name__}: {outcome.error}"
        else:
            raise outcome.error
    return table


def _measured(make: Make, of: tuple[Sample, CropRequest], folder: Path) -> tuple[dict[str, Any], Checked]:
    sample, holding = of[0], make(folder)
    try:
        before = now()
        holding.write()
        wrote = now() - before
        nbytes = sum(map(os.path.getsize, holding.paths))
        checks = {gives: _checked(holding, of, gives) for gives in holding.gives}
        entry = _entry(holding, sample, nbytes, wrote)
        entry.update(_verdict(holding, checks))
        entry.update(_reading(holding, sample.order))
        return entry, checks[holding.gives[0]]
    finally:
        holding.close()


def _checked(holding: Holding, of: tuple[Sample, CropRequest], gives: Gives) -> Checked:
    sample, request = of
    originals = [getattr(frame, gives) for frame in sample.frames]
    keeps_crop = gives == "rgb" and not holding.is_exact
    return check(holding.read(range(len(sample)), gives), originals, request if keeps_crop else None)


def _entry(holding: Holding, sample: Sample, nbytes: int, wrote: Took) -> dict[str, Any]:
    count = len(sample)
    # What can be read back last is what lies in the files.
    stored = holding.gives[-1]
    return {
        "title": f"{holding.name}, {holding.form}" if holding.group == "framefeed" else holding.name,
        "name": holding.name,
        "form": holding.form,
        "group": holding.group,
        "is_exact": holding.is_exact,
        "bytes_a_frame": round(nbytes / count),
        "raw_bytes_a_frame": round(sum(getattr(frame, stored).nbytes for frame in sample.frames) / count),
        "mb_whole": round(nbytes / sample.share / 1e6, 1),
        "share_of_rgb": round(nbytes / sum(frame.rgb.nbytes for frame in sample.frames), 4),
        "write_fps": round(count / wrote.wall, 1),
        "write_cpu_ms": round(1000 * wrote.cpu / count, 4),
        **({"encode_cpu_ms": round(1000 * holding.encode_cpu / count, 4)} if isinstance(holding, StoreHolding) else {}),
    }


def _verdict(holding: Holding, checks: dict[Gives, Checked]) -> dict[str, Any]:
    first = checks[holding.gives[0]]
    wrong = [
        f"{len(numbers)} of the frames as {gives} {what}"
        for gives, checked in checks.items()
        for what, numbers in (("did not come", checked.missing), ("differ", checked.differing * holding.is_exact))
        if numbers
    ]
    finite = [None if math.isinf(value) else round(value, 2) for value in (first.psnr_mean, first.psnr_worst)]
    return {"wrong": wrong, "psnr_db": dict(zip(("mean", "worst"), finite, strict=True))}


def _reading(holding: Holding, order: Sequence[int]) -> dict[str, Any]:
    """Frames a second on the clock, cold once and warm again and again, and processor time of each form."""
    why = forget(holding.paths)
    main = holding.gives[0]
    rates = {} if why else {"cold": _rate(lambda: holding.read(order, main), len(order), 0)[0]}
    cpu = {}
    for gives in holding.gives:
        rate, milliseconds = _rate(partial(holding.read, order, gives), len(order))
        rates["warm" if gives == main else f"as {gives}"] = rate
        cpu[gives] = milliseconds
    for name, one_pass in holding.passes(order).items():
        if name != ALONE:
            _exhaust(one_pass)  # workers start
        rates[name] = _rate(lambda one_pass=one_pass: one_pass, len(order))[0]  # type: ignore[misc]
    return {"read_fps": rates, "read_cpu_ms": cpu, "not_cold": why}


def _rate(begin: Callable[[], Iterable[object]], count: int, least: float | None = None) -> tuple[float, float]:
    """Frames a second, and processor milliseconds a frame of this process, of passes over so many frames."""
    start, done, took = now(), 0, Took(0, 0)
    while not done or took.wall < (LEAST_SECONDS if least is None else least):
        _exhaust(begin())
        done += count
        took = now() - start
    return round(done / took.wall, 1), round(1000 * took.cpu / done, 4)


def _exhaust(items: Iterable[object]) -> None:
    for item in items:
        del item
