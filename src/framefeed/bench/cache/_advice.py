"""What to do with what was measured: original or cache, and the codec that "auto" would take. Pure arithmetic.

The advice of ``bench cache`` in words, with the numbers that it rests on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any, Literal

from framefeed.cache import CodecChoice, CodecFigures, Conditions, choose_codec

Use = Literal["fixed", "free"]
"""The same pixels in every epoch, or any crop of the picture."""
Where = Literal["memory", "disk", "here"]
"""Where frames are read from; "here" is what fits of this video, where that makes yet another choice."""
FORMS: Mapping[Use, str] = {"fixed": "output", "free": "planes"}
"""What a cache takes of itself for each."""
WORTH = 1.5
"""A cache that is less than so many times as fast as the original is not worth its disk."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the advice is for.

    Attributes:
        cores: That read at once.
        disk_mb: Megabytes a second that the disk reads.
        is_measured: Whether that was measured, cold.
        num_frames: Of the whole video.
        size: Of the output, such as "224x224".
        memory_bytes: Of the machine.
    """

    cores: int
    disk_mb: float
    is_measured: bool
    num_frames: int
    size: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class CacheOption:
    """A codec and form of the cache, or the original, as a source of frames of the output's size.

    Attributes:
        codec: Option of the cache; empty for the original.
        form: Option of the cache: "output" or "planes"; empty for the original.
        nbytes: Stored, a frame.
        read_ms: Processor milliseconds to read one frame, with one thread.
        write_ms: Processor milliseconds to store one that was decoded.
        fps: Frames a second with all cores, from memory, by processor time.
        raw_bytes: Of a frame before it is stored.
        unpack_ms: Of ``read_ms``, those before the frame is converted: what codecs are compared by.
        pack_ms: Of ``write_ms``, those that encoding takes: by these a codec is too slow a writer, as "auto" has it.
    """

    codec: str
    form: str
    nbytes: float
    read_ms: float
    write_ms: float
    fps: float
    raw_bytes: float = 0
    unpack_ms: float = 0
    pack_ms: float = 0

    def fps_from(self, where: Where, disk_mb: float) -> float:
        """Frames a second: that of the processor, or of the disk where nothing lies in memory and it is slower."""
        return min(self.fps, disk_mb * 1e6 / self.nbytes) if self.nbytes and where == "disk" else self.fps

    @property
    def figures(self) -> CodecFigures:
        """As the cache would have measured them, on one frame."""
        return CodecFigures(
            self.codec, True, 1, round(self.raw_bytes), round(self.nbytes), self.pack_ms / 1e3, self.unpack_ms / 1e3
        )


@dataclass(frozen=True, slots=True)
class Pick:
    """What to take where frames are read from memory, or from the disk.

    Attributes:
        where: Which.
        option: The one to take; that of the original where a cache is not worth it.
        fps: Frames a second.
        gain: Of those that the best cache would give, in times of what decoding the original gives.
        passes: Passes after which the time for storing has come back; None where it never does.
        reason: For the codec.
    """

    where: Where
    option: CacheOption
    fps: float
    gain: float
    passes: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take for one use.

    Attributes:
        use: For what.
        picks: From memory, and from the disk.
        auto: The codec that ``codec="auto"`` would take for this video, by the same figures.
    """

    use: Use
    picks: tuple[Pick, ...]
    auto: str


def advise(original: CacheOption, options: Sequence[CacheOption], setting: Setting) -> list[Advice]:
    """Choose for each use.

    Args:
        original: Decoding.
        options: Exact ones of the cache.
        setting: Machine and video.
    """
    return [
        _advise_on(use, original, fitting, setting)
        for use, form in FORMS.items()
        if (fitting := [option for option in options if option.form == form])
    ]


def _advise_on(use: Use, original: CacheOption, options: Sequence[CacheOption], setting: Setting) -> Advice:
    figures = [option.figures for option in options]
    expected = setting.num_frames * max(each.raw_bytes for each in figures)
    here = Conditions(expected, None, setting.memory_bytes, setting.disk_mb * 1e6)
    auto = choose_codec(figures, here)
    choices: dict[Where, CodecChoice] = {
        "memory": choose_codec(figures, replace(here, memory_bytes=sys.maxsize)),
        "disk": choose_codec(figures, replace(here, memory_bytes=0)),
    }
    if auto.codec not in {choice.codec for choice in choices.values()}:
        choices["here"] = auto
    by_codec = {option.codec: option for option in options}
    picks = [
        _pick(where, (original, by_codec[choice.codec]), setting.disk_mb, choice.reason)
        for where, choice in choices.items()
    ]
    return Advice(use, tuple(picks), auto.codec)


def _pick(where: Where, options: tuple[CacheOption, CacheOption], disk_mb: float, reason: str) -> Pick:
    original, option = options
    fps = option.fps_from(where, disk_mb)
    gain = fps / original.fps
    if gain < WORTH:
        return Pick(where, original, original.fps, gain, None, reason)
    saved = original.read_ms - option.read_ms
    return Pick(where, option, fps, gain, math.ceil(option.write_ms / saved) if saved > 0 else None, reason)


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


def make_option(entry: Mapping[str, Any], cores: float) -> CacheOption | None:
    """One line of the table as an option for frames of the output's size; None where it gives none.

    Args:
        entry: The line; of the original or of ours.
        cores: Processors that are busy with it.
    """
    spent = entry.get("read_cpu_ms", {})
    if "small" not in spent or entry["wrong"]:
        return None
    fps = 1000 * cores / spent["small"]
    if entry["group"] == "original":
        return CacheOption("", "", 0, spent["small"], 0, fps)
    form = "planes" if entry["form"] == "planes" else "output"
    return CacheOption(
        codec=entry["name"].removeprefix("framefeed "),
        form=form,
        nbytes=entry["bytes_a_frame"],
        read_ms=spent["small"],
        write_ms=entry["write_cpu_ms"],
        fps=fps,
        raw_bytes=entry["raw_bytes_a_frame"],
        unpack_ms=spent["planes" if form == "planes" else "small"],
        pack_ms=entry["encode_cpu_ms"],
    )


USES: Mapping[Use, str] = {
    "fixed": "the same pixels in every epoch (no random crop)",
    "free": "random crops, or whole pictures",
}
WHERE: Mapping[Where, str] = {
    "memory": "while the cache fits in memory",
    "disk": "read from this disk",
    "here": "this video on this machine, partly in memory",
}
ASSUMED_DISK = 500.0
"""Megabytes a second: a drive on SATA; a network file system has less, one on PCIe more."""


def advice_on(table: Mapping[str, Any], memory_bytes: int) -> dict[str, Any] | None:
    """What a table means for its user; None where decoding of the original is not in it.

    Args:
        table: Facts of the row "table".
        memory_bytes: Of the machine.
    """
    disk, workers, entries = table["disk"], table["workers"], table["entries"]
    is_measured = not isinstance(disk, str)
    disk_mb = disk["read"] if is_measured else ASSUMED_DISK
    setting = Setting(workers, disk_mb, is_measured, table["num_frames"], table["size"], memory_bytes)
    cores = busy_cores(entries, workers)
    originals = [option for entry in entries if entry["group"] == "original" and (option := make_option(entry, cores))]
    if not originals:
        return None
    exact = [entry for entry in entries if entry["group"] == "framefeed" and entry["is_exact"]]
    advices = advise(originals[0], [option for entry in exact if (option := make_option(entry, cores))], setting)
    return {
        "lines": [
            *advice_lines(originals[0], advices, setting),
            *loss_lines(entries, advices, bool(table.get("crops"))),
            *rival_lines(entries, workers),
        ],
        "busy_cores": round(cores, 2),
        "disk_mb": disk_mb,
        "disk_is_measured": is_measured,
        "chosen": {
            each.use: {"auto": each.auto} | {
                pick.where: {"codec": pick.option.codec, "form": pick.option.form, "gain": round(pick.gain, 2),
                             "passes": pick.passes, "reason": pick.reason}
                for pick in each.picks
            }
            for each in advices
        },
    }  # fmt: skip


def advice_lines(original: CacheOption, advices: Sequence[Advice], setting: Setting) -> list[str]:
    """What to take for each use, and why."""
    how = "measured cold" if setting.is_measured else "assumed, because it could not be measured"
    lines = [
        f"recommendation, for {setting.cores} cores and a disk that reads {setting.disk_mb:,.0f} MB/s ({how})",
        f"  the original gives {original.fps:,.0f} frames a second in random clips to {setting.size}, "
        f"{original.read_ms:.2f} ms of processor time each",
    ]
    for advice in advices:
        lines.append(f"  {USES[advice.use]}")
        for option, picks in groupby(advice.picks, key=lambda pick: pick.option):
            lines += _lines(option, list(picks), advice.auto, setting)
    return lines


def _lines(option: CacheOption, picks: Sequence[Pick], auto: str, setting: Setting) -> list[str]:
    where = ", and ".join(WHERE[pick.where] for pick in picks)
    if not option.codec:
        gain = max(pick.gain for pick in picks)
        return [f"    {where}: stay with the original: the best cache would be only {gain:.1f} times as fast"]
    whole = option.nbytes * setting.num_frames / 1e6
    same = '; codec="auto" takes it for this video' if option.codec == auto else ""
    passes = picks[0].passes
    paid = "never pays off"
    if passes is not None:
        paid = f"pays off after {'the next pass' if passes <= 1 else f'{passes} passes'}"
    return [
        f'    {where}: FrameCache(path, codec="{option.codec}", form="{option.form}"){same}',
        *(f"      {reason}" for reason in dict.fromkeys(pick.reason for pick in picks)),
        *(
            f"      {pick.fps:,.0f} frames a second from {'the disk' if pick.where == 'disk' else 'memory'}, limited "
            f"by {'the disk' if pick.fps < option.fps else 'the processor'}: {pick.gain:.0f} times the original"
            for pick in picks
        ),
        f"      {whole:,.0f} MB for all {setting.num_frames:,} frames; storing takes {option.write_ms:.2f} ms a frame "
        f"and reading {option.read_ms:.2f}: storing {paid}",
    ]


def loss_lines(entries: Sequence[Mapping[str, Any]], advices: Sequence[Advice], has_crops: bool) -> list[str]:
    """The best of the lossy planes that are at most half as large as the exact ones that were advised.

    Args:
        entries: Of the table.
        advices: Of exact formats.
        has_crops: Whether there are crops to look at.
    """
    most = [
        pick.option.nbytes / 2 for each in advices if each.use == "free" for pick in each.picks if pick.option.codec
    ]
    lossy = [
        entry
        for entry in entries
        if entry["group"] == "framefeed" and entry["form"] == "planes" and not entry["is_exact"]
        if not entry["wrong"] and most and entry["bytes_a_frame"] <= min(most)
    ]
    if not lossy:
        return []
    best = max(lossy, key=lambda entry: entry["psnr_db"]["worst"] or 0)
    codec, psnr = best["name"].removeprefix("framefeed "), best["psnr_db"]
    hint = "look at the crops first" if has_crops else "--crops FOLDER shows the loss"
    return [
        f'  where some loss is fine: codec="{codec}", form="planes", {best["mb_whole"]:,.0f} MB, '
        f"{psnr['mean']:.1f} dB from the original and {psnr['worst']:.1f} in the worst frame; {hint}"
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
