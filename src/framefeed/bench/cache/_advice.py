"""What to do with what was measured: original or cache, and the codec that "auto" would take, in numbers and in words.

Pure arithmetic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from framefeed.cache import CodecChoice, CodecFigures, Conditions, Form, choose_codec

Use = Literal["fixed", "free"]
"""The same pixels in every epoch, or any crop of the picture."""
USES: Mapping[Use, tuple[Form, str]] = {
    "fixed": ("output", "the same pixels in every epoch (no random crop)"),
    "free": ("planes", "random crops, or whole pictures"),
}
"""Use -> what a cache takes of itself for it, and its words."""
Where = Literal["memory", "disk", "here"]
"""Where frames are read from; "here" is what fits of this video, where that makes yet another choice."""
WHERE: Mapping[Where, str] = {
    "memory": "while the cache fits in memory",
    "disk": "read from this disk",
    "here": "this video on this machine, partly in memory",
}
WORTH = 1.5
"""A cache that is less than so many times as fast as the original is not worth its disk."""
ASSUMED_DISK = 500.0
"""Megabytes a second: a drive on SATA; a network file system has less, one on PCIe more."""


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
        read_ms: Processor milliseconds to read one frame, with one thread.
        write_ms: Processor milliseconds to store one that was decoded.
        nbytes: On the disk, a frame.
        form: Option of the cache; empty for the original.
        figures: Of the codec alone, as the cache would measure them; None for the original.
    """

    read_ms: float
    write_ms: float = 0
    nbytes: float = 0
    form: str = ""
    figures: CodecFigures | None = None

    @property
    def codec(self) -> str:
        """Option of the cache; empty for the original."""
        return "" if self.figures is None else self.figures.codec

    def compute_fps(self, setting: Setting, where: Where = "memory") -> float:
        """Frames a second: that of all cores, or of the disk where nothing lies in memory and it is slower."""
        fps = 1000 * setting.cores / self.read_ms
        return min(fps, setting.disk_mb * 1e6 / self.nbytes) if self.nbytes and where == "disk" else fps


@dataclass(frozen=True, slots=True)
class Pick:
    """What to take where frames are read from memory, or from the disk.

    Attributes:
        where: Which.
        option: The one to take; that of the original where a cache is not worth it.
        fps: Frames a second.
        gain: Of those that the best cache would give, in times of what decoding the original gives.
        passes: Passes after which the time for storing has come back; None for the original.
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
    """Choose for each use that there is an exact option for."""
    advices = []
    for use, (form, _) in USES.items():
        by_codec = {option.codec: option for option in options if option.form == form}
        figures = [option.figures for option in by_codec.values() if option.figures is not None]
        if not figures:
            continue
        expected = round(setting.num_frames * max(each.raw_bytes / each.num_frames for each in figures))
        here = Conditions(expected, None, setting.memory_bytes, setting.disk_mb * 1e6)
        choices: dict[Where, CodecChoice] = {
            "memory": choose_codec(figures, replace(here, memory_bytes=sys.maxsize)),
            "disk": choose_codec(figures, replace(here, memory_bytes=0)),
        }
        auto = choose_codec(figures, here)
        if auto.codec not in {choice.codec for choice in choices.values()}:
            choices["here"] = auto
        picks = [
            _pick(where, original, by_codec[choice.codec], setting, choice.reason) for where, choice in choices.items()
        ]
        advices.append(Advice(use, tuple(picks), auto.codec))
    return advices


def _pick(where: Where, original: CacheOption, option: CacheOption, setting: Setting, reason: str) -> Pick:
    fps, original_fps = option.compute_fps(setting, where), original.compute_fps(setting)
    gain = fps / original_fps
    if gain < WORTH:
        return Pick(where, original, original_fps, gain, None, reason)
    return Pick(where, option, fps, gain, math.ceil(option.write_ms / (original.read_ms - option.read_ms)), reason)


def advise_on(table: Mapping[str, Any], memory_bytes: int) -> dict[str, Any] | None:
    """What a table means for its user; None where decoding of the original is not in it."""
    disk, workers, entries = table["disk"], table["workers"], table["entries"]
    is_measured = not isinstance(disk, str)
    disk_mb = disk["read"] if is_measured else ASSUMED_DISK
    setting = Setting(workers, disk_mb, is_measured, table["num_frames"], table["size"], memory_bytes)
    options = [option for entry in entries if (option := make_option(entry)) is not None]
    original = next((option for option in options if option.figures is None), None)
    if original is None:
        return None
    advices = advise(original, [option for option in options if option.figures is not None], setting)
    return {
        "lines": [
            *advice_lines(original, advices, setting),
            *loss_lines(entries, advices, bool(table.get("crops"))),
            *rival_lines(entries, workers),
        ],
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


def make_option(entry: Mapping[str, Any]) -> CacheOption | None:
    """One entry of the table as an option for frames of the output's size; None where it gives none that are exact."""
    spent = entry.get("read_cpu_ms", {}).get("small")
    if spent is None or entry["wrong"]:
        return None
    if entry["group"] == "original":
        return CacheOption(spent)
    if "codec_figures" not in entry:
        return None
    figures = CodecFigures(codec=entry["name"].removeprefix("framefeed "), is_exact=True, **entry["codec_figures"])
    form = "planes" if entry["form"] == "planes" else "output"
    return CacheOption(spent, entry["write_cpu_ms"], entry["bytes_a_frame"], form, figures)


def advice_lines(original: CacheOption, advices: Sequence[Advice], setting: Setting) -> list[str]:
    """What to take for each use, and why."""
    how = "measured cold" if setting.is_measured else "assumed, because it could not be measured"
    lines = [
        f"recommendation, for {setting.cores} cores and a disk that reads {setting.disk_mb:,.0f} MB/s ({how})",
        f"  the original gives {original.compute_fps(setting):,.0f} frames a second in random clips to {setting.size}, "
        f"{original.read_ms:.2f} ms of processor time each",
    ]
    for advice in advices:
        lines.append(f"  {USES[advice.use][1]}")
        for option, picks in groupby(advice.picks, key=lambda pick: pick.option):
            lines += _describe_option(option, list(picks), advice.auto, setting)
    return lines


def _describe_option(option: CacheOption, picks: Sequence[Pick], auto: str, setting: Setting) -> list[str]:
    where = ", and ".join(WHERE[pick.where] for pick in picks)
    if not option.codec:
        gain = max(pick.gain for pick in picks)
        return [f"    {where}: stay with the original: the best cache would be only {gain:.1f} times as fast"]
    whole = option.nbytes * setting.num_frames / 1e6
    same = '; codec="auto" takes it for this video' if option.codec == auto else ""
    passes = picks[0].passes or 1
    paid = "the next pass" if passes == 1 else f"{passes} passes"
    return [
        f'    {where}: FrameCache(path, codec="{option.codec}", form="{option.form}"){same}',
        *(f"      {reason}" for reason in dict.fromkeys(pick.reason for pick in picks)),
        *(
            f"      {pick.fps:,.0f} frames a second from {'the disk' if pick.where == 'disk' else 'memory'}, limited "
            f"by {'the disk' if pick.fps < option.compute_fps(setting) else 'the processor'}: {pick.gain:.0f} times "
            "the original"
            for pick in picks
        ),
        f"      {whole:,.0f} MB for all {setting.num_frames:,} frames; storing takes {option.write_ms:.2f} ms a frame "
        f"and reading {option.read_ms:.2f}: storing pays off after {paid}",
    ]


def loss_lines(entries: Sequence[Mapping[str, Any]], advices: Sequence[Advice], has_crops: bool) -> list[str]:
    """The best of the lossy planes that are at most half as large as the exact ones that were advised."""
    sizes = [pick.option.nbytes for each in advices if each.use == "free" for pick in each.picks if pick.option.codec]
    lossy = [
        entry
        for entry in entries
        if entry["group"] == "framefeed" and entry["form"] == "planes" and not entry["is_exact"]
        if not entry["wrong"] and sizes and entry["bytes_a_frame"] <= min(sizes) / 2
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
