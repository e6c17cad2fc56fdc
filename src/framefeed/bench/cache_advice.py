"""What to do with what was measured: original or cache, which form and codec, in words and numbers. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

Use = Literal["fixed", "free"]
"""The same pixels in every epoch, or any crop of the picture."""
USES: Mapping[Use, str] = {
    "fixed": "the same pixels in every epoch (no random crop)",
    "free": "random crops, or whole pictures",
}
WORTH = 1.5
"""A cache that is less than so many times as fast as the original is not worth its disk."""
NEARLY = 0.8
"""Of those that are at least so near the fastest, the smallest is taken."""
ASSUMED_DISK = 500.0
"""Megabytes a second: a drive on SATA; a network file system has less, one on PCIe more."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the advice is for.

    Attributes:
        cores: That read at once.
        disk_mb: Megabytes a second that the disk reads.
        is_measured: Whether that was measured, cold.
        num_frames: Of the whole video.
        size: Of the output, such as "224x224".
    """

    cores: int
    disk_mb: float
    is_measured: bool
    num_frames: int
    size: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way of getting a frame of the output's size.

    Attributes:
        codec: What the cache is told; empty for the original.
        form: What the cache is told: "output" or "planes"; empty for the original.
        nbytes: Stored, a frame.
        read_ms: Processor milliseconds to read one frame, with one thread.
        write_ms: Processor milliseconds to store one that was decoded.
        fps: Frames a second with all cores, from memory, by processor time.
    """

    codec: str
    form: str
    nbytes: float
    read_ms: float
    write_ms: float
    fps: float

    def fps_from_disk(self, disk_mb: float) -> float:
        """Frames a second where nothing lies in memory: the slower of processor and disk."""
        return min(self.fps, disk_mb * 1e6 / self.nbytes) if self.nbytes else self.fps


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take for one use.

    Attributes:
        use: For what.
        way: The one to take; that of the original where a cache is not worth it.
        gain: Frames a second from disk, of those that decoding the original gives.
        passes: Passes after which the time for storing has come back; None where it never does.
    """

    use: Use
    way: Way
    gain: float
    passes: int | None


def advise(original: Way, ways: Sequence[Way], conditions: Conditions) -> list[Advice]:
    """Choose for each use.

    Args:
        original: Decoding.
        ways: Exact ones of the cache.
        conditions: Of the machine.
    """
    chosen = []
    for use in USES:
        fitting = [way for way in ways if use == "fixed" or way.form == "planes"]
        if fitting:
            chosen.append(_chosen(use, original, fitting, conditions))
    return chosen


def _chosen(use: Use, original: Way, ways: Sequence[Way], conditions: Conditions) -> Advice:
    rates = [way.fps_from_disk(conditions.disk_mb) for way in ways]
    near = [way for way, rate in zip(ways, rates, strict=True) if rate >= NEARLY * max(rates)]
    best = min(near, key=lambda way: way.nbytes)
    gain = best.fps_from_disk(conditions.disk_mb) / original.fps
    if gain < WORTH:
        return Advice(use, original, gain, None)
    saved = original.read_ms - best.read_ms
    return Advice(use, best, gain, math.ceil(best.write_ms / saved) if saved > 0 else None)


def advice_lines(original: Way, advices: Sequence[Advice], conditions: Conditions) -> list[str]:
    """The advice in words, with the numbers that it rests on."""
    how = "measured cold" if conditions.is_measured else "assumed, for it could not be measured cold"
    lines = [
        f"recommendation, for {conditions.cores} cores and a disk that reads {conditions.disk_mb:,.0f} MB/s ({how})",
        f"  the original gives {original.fps:,.0f} frames a second in random clips to {conditions.size}, "
        f"{original.read_ms:.2f} ms of processor time each",
    ]
    return lines + [line for advice in advices for line in _lines(advice, conditions)]


def _lines(advice: Advice, conditions: Conditions) -> list[str]:
    way, what = advice.way, USES[advice.use]
    if not way.codec:
        return [f"  {what}: stay with the original; the best cache would be only {advice.gain:.1f} times as fast"]
    whole = way.nbytes * conditions.num_frames / 1e6
    disk = way.fps_from_disk(conditions.disk_mb)
    limit = "the processor" if disk == way.fps else "the disk"
    paid = "never paid back" if advice.passes is None else f"paid back in {_counted(advice.passes)}"
    return [
        f'  {what}: FrameCache(path, codec="{way.codec}", form="{way.form}"), {whole:,.0f} MB for all '
        f"{conditions.num_frames:,} frames",
        f"    {disk:,.0f} frames a second from the disk, which {limit} limits, {way.fps:,.0f} from memory: "
        f"{advice.gain:.0f} times the original",
        f"    storing takes {way.write_ms:.2f} ms a frame and reading {way.read_ms:.2f}: {paid}",
    ]


def _counted(passes: int) -> str:
    return "the next pass" if passes <= 1 else f"{passes} passes"


def busy_cores(entries: Sequence[Mapping[str, Any]], workers: int) -> float:
    """How many processors worth of work several threads got done: the median over our lines of the table.

    One line alone says little where something else was at work just then; processor time of one thread says more.
    """
    busy = [
        fps * next(iter(entry["read_cpu_ms"].values())) / 1000
        for entry in entries
        if entry["group"] == "framefeed" and (fps := entry["read_fps"].get(f"{workers} threads"))
    ]
    return min(max(median(busy), 1.0), float(workers)) if busy else float(workers)


def way_of(entry: Mapping[str, Any], cores: float) -> Way | None:
    """One line of the table as a way of getting frames of the output's size; None where it gives none.

    Args:
        entry: The line; of the original or of ours.
        cores: Processors that are busy with it.
    """
    milliseconds = entry.get("read_cpu_ms", {}).get("small")
    if milliseconds is None or entry["wrong"]:
        return None
    fps = 1000 * cores / milliseconds
    if entry["group"] == "original":
        return Way("", "", 0, milliseconds, 0, fps)
    form = "planes" if entry["form"] == "planes" else "output"
    codec = entry["name"].removeprefix("framefeed ")
    return Way(codec, form, entry["bytes_a_frame"], milliseconds, entry["write_cpu_ms"], fps)


def advice_on(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a table means for its user; None where decoding of the original is not in it.

    Args:
        table: Row "table" of a report.
    """
    disk, workers, entries = table["disk"], table["workers"], table["entries"]
    is_measured = not isinstance(disk, str)
    conditions = Conditions(
        workers, disk["read"] if is_measured else ASSUMED_DISK, is_measured, table["num_frames"], table["size"]
    )
    cores = busy_cores(entries, workers)
    originals = [way for entry in entries if entry["group"] == "original" and (way := way_of(entry, cores))]
    if not originals:
        return None
    exact = [entry for entry in entries if entry["group"] == "framefeed" and entry["is_exact"]]
    advices = advise(originals[0], [way for entry in exact if (way := way_of(entry, cores))], conditions)
    return {
        "lines": [
            *advice_lines(originals[0], advices, conditions),
            *loss_lines(entries, advices),
            *rival_lines(entries, workers),
        ],
        "busy_cores": round(cores, 2),
        "disk_mb": conditions.disk_mb,
        "disk_is_measured": is_measured,
        "chosen": {
            each.use: {
                "codec": each.way.codec,
                "form": each.way.form,
                "gain": round(each.gain, 2),
                "passes": each.passes,
            }
            for each in advices
        },
    }


def loss_lines(entries: Sequence[Mapping[str, Any]], advices: Sequence[Advice]) -> list[str]:
    """The best of the lossy planes that are at most half as large as the exact ones that were advised."""
    most = [advice.way.nbytes / 2 for advice in advices if advice.use == "free" and advice.way.codec]
    lossy = [
        entry
        for entry in entries
        if entry["group"] == "framefeed" and entry["form"] == "planes" and not entry["is_exact"]
        if not entry["wrong"] and most and entry["bytes_a_frame"] <= most[0]
    ]
    if not lossy:
        return []
    best = max(lossy, key=lambda entry: entry["psnr_db"]["worst"] or 0)
    codec, psnr = best["name"].removeprefix("framefeed "), best["psnr_db"]
    return [
        f'  where some loss is fine: codec="{codec}", form="planes", {best["mb_whole"]:,.0f} MB, '
        f"{psnr['mean']:.1f} dB from the original and {psnr['worst']:.1f} in the worst frame; look at the crops first"
    ]


def rival_lines(entries: Sequence[Mapping[str, Any]], workers: int) -> list[str]:
    """Theirs, for comparison: the exact format that a DataLoader reads fastest."""
    name = f"DataLoader {workers}"
    rivals = [entry for entry in entries
              if entry["group"] == "theirs" and entry["is_exact"] and name in entry["read_fps"]]  # fmt: skip
    if not rivals:
        return []
    best = max(rivals, key=lambda entry: entry["read_fps"][name])
    return [
        f"  for comparison, one file a frame: {best['title']}, {best['mb_whole']:,.0f} MB, "
        f"{best['read_fps'][name]:,.0f} whole frames a second through a DataLoader with {workers} workers"
    ]
