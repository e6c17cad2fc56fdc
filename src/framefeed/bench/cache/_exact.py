"""Row "exact": frames at full size read from our cache, from joblib's lz4 and from PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from framefeed.bench._cache_formats import FileFormat
from framefeed.bench._goals import Mark
from framefeed.bench._measuring import Interval, Timings
from framefeed.bench.cache._checking import check
from framefeed.bench.cache._holdings import FileHolding
from framefeed.bench.cache._passes import LZ4_RGB, Read, caches_of, list_rates, race
from framefeed.bench.cache._scene import Scene

FRAMES = 16
"""Read in a round."""
BYTES = Mark("bytes of joblib lz4", 0.6, 0.5, at_most=True)
SPEED = Mark("the read speed of joblib lz4, to RGB", 1.5, 2.5)
PNG_SPEED = Mark("the read speed of PNG, at no more bytes", 4, 8)
LZ4, PNG = "joblib lz4", "PNG"
FIRST_LZ4 = "joblib lz4 1"
"""The write-up's choice where speed matters."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How one of ours stands to one of theirs.

    Attributes:
        name: Ours.
        bytes: Share of their bytes.
        cpu: Their processor time over ours.
        wall: Their time on the clock over ours.
    """

    name: str
    bytes: float
    cpu: Interval
    wall: Interval

    def __str__(self) -> str:
        return (
            f"{self.bytes:.2f} of the bytes, {self.cpu.median:.2f} ({self.cpu.low:.2f}-{self.cpu.high:.2f}) times the "
            f"read speed by CPU, {self.wall.median:.2f} on the clock"
        )


def exact_row(scene: Scene) -> dict[str, Any]:
    """Read from each exact codec of ours and from each of their files, in the same rounds."""
    with ExitStack() as stack:
        theirs = {form.name: _files(scene, form) for form in scene.field.formats if _is_rival(form)}
        ours = caches_of(scene, stack, with_rgb=True)
        wrong = _wrong(theirs, scene) + [line for cached in ours.values() for line in cached.wrong()]
        reads: dict[str, Read] = {name: partial(_read_files, files) for name, files in theirs.items()}
        numbers = scene.draw_numbers(FRAMES)
        samples = race(reads | {name: cached.take for name, cached in ours.items()}, numbers, scene)
        nbytes = {name: _bytes_of(files) for name, files in theirs.items()}
        nbytes |= {name: cached.bytes_a_frame for name, cached in ours.items()}
    return {
        "key": "exact",
        "title": f"exact formats at full size, {len(numbers[0])} frames at random a round, read to RGB, "
        "ours channels first as in batches, "
        "theirs channels last as they store them",
        "ways": list_rates(samples, len(numbers[0]), nbytes),
        "wrong": wrong,
        "goals": judged(samples, nbytes),
        "reported": _reported(samples, nbytes),
    }


def against(rival: str, ours: Sequence[str], samples: Timings, nbytes: Mapping[str, float]) -> list[Figures]:
    """How each of ours stands to one of theirs, the fastest first."""
    figures = [
        Figures(name, nbytes[name] / nbytes[rival], samples.ratio(rival, name), samples.ratio(rival, name, "wall"))
        for name in ours
    ]
    return sorted(figures, key=lambda each: -each.cpu.median)


def winner(figures: Sequence[Figures]) -> Figures:
    """The one that both marks are judged by: the fastest that reaches both aims, or else holds both floors.

    Args:
        figures: The fastest first; where none holds both floors, the fastest that holds that of bytes, else of all.
    """
    for most, least in ((BYTES.aim, SPEED.aim), (BYTES.floor, SPEED.floor), (BYTES.floor, 0)):
        fitting = [each for each in figures if each.bytes <= most and each.cpu.median >= least]
        if fitting:
            return fitting[0]
    return figures[0]


def judged(samples: Timings, nbytes: Mapping[str, float]) -> list[dict[str, Any]]:
    """Hold the best of ours to the marks; theirs is the lz4 level that reads fastest, and PNG.

    Args:
        samples: Of readers by name; ours begin with "framefeed".
        nbytes: Reader -> stored bytes of a frame.
    """
    planes = [name for name in nbytes if name.startswith("framefeed") and name != LZ4_RGB]
    goals = []
    if rival := _best_lz4(samples, nbytes):
        best = winner(against(rival, planes, samples, nbytes))
        goals += [
            BYTES.judge({f"{best.name} against {rival}": best.bytes}),
            SPEED.judge({f"CPU, {best.name} against {rival}": best.cpu, "wall": best.wall}),
        ]
    for png in [name for name in nbytes if name.startswith(PNG)]:
        smaller = [each for each in against(png, planes, samples, nbytes) if each.bytes <= 1]
        if smaller:
            goals.append(PNG_SPEED.judge({f"CPU, {smaller[0].name}": smaller[0].cpu, "wall": smaller[0].wall}))
    return goals


def _reported(samples: Timings, nbytes: Mapping[str, float]) -> dict[str, str]:
    """All codecs against joblib's lz4, and against lz4 of RGB in our own store: so that the claim is about planes."""
    ours = [name for name in nbytes if name.startswith("framefeed")]
    rivals = [rival for rival in dict.fromkeys((_best_lz4(samples, nbytes), FIRST_LZ4, LZ4_RGB)) if rival in nbytes]
    return {
        f"{each.name} against {rival}": str(each)
        for rival in rivals
        for each in against(rival, [name for name in ours if name != rival], samples, nbytes)
    }


def _best_lz4(samples: Timings, nbytes: Mapping[str, float]) -> str:
    rivals = [name for name in nbytes if name.startswith(LZ4)]
    return samples.best(rivals) if rivals else ""


def _is_rival(form: FileFormat) -> bool:
    return form.is_exact and form.name.startswith((LZ4, PNG))


def _files(scene: Scene, form: FileFormat) -> FileHolding:
    files = FileHolding(form, scene.sample, scene.work / form.name.replace(" ", "_"), None, 0)
    files.write()
    return files


def _read_files(files: FileHolding, numbers: Sequence[int]) -> None:
    for item in files.read(numbers):
        del item


def _bytes_of(files: FileHolding) -> float:
    return sum(Path(path).stat().st_size for path in files.paths) / len(files.paths)


def _wrong(theirs: Mapping[str, FileHolding], scene: Scene) -> list[str]:
    originals = [frame.rgb for frame in scene.sample.frames]
    checks = {name: check(files.read(range(len(originals))), originals) for name, files in theirs.items()}
    return [
        f"{name}: {len(checked.differing)} frames differ, {len(checked.missing)} did not come"
        for name, checked in checks.items()
        if checked.differing or checked.missing
    ]
