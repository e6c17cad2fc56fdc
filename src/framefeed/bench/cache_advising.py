"""The advice of ``bench cache`` in words, with the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from framefeed.bench.cache_advice import Advice, Pick, Setting, Use, Way, Where, advise, busy_cores, way_of

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
        table: Row "table" of a report.
        memory_bytes: Of the machine.
    """
    disk, workers, entries = table["disk"], table["workers"], table["entries"]
    is_measured = not isinstance(disk, str)
    disk_mb = disk["read"] if is_measured else ASSUMED_DISK
    setting = Setting(workers, disk_mb, is_measured, table["num_frames"], table["size"], memory_bytes)
    cores = busy_cores(entries, workers)
    originals = [way for entry in entries if entry["group"] == "original" and (way := way_of(entry, cores))]
    if not originals:
        return None
    exact = [entry for entry in entries if entry["group"] == "framefeed" and entry["is_exact"]]
    advices = advise(originals[0], [way for entry in exact if (way := way_of(entry, cores))], setting)
    return {
        "lines": [
            *advice_lines(originals[0], advices, setting),
            *loss_lines(entries, advices, bool(table.get("crops"))),
            *rival_lines(entries, workers),
        ],
        "busy_cores": round(cores, 2),
        "disk_mb": disk_mb,
        "disk_is_measured": is_measured,
        "chosen": {each.use: {"auto": each.auto, **{pick.where: _facts(pick) for pick in each.picks}}
                   for each in advices},
    }  # fmt: skip


def _facts(pick: Pick) -> dict[str, Any]:
    way = pick.way
    gain = round(pick.gain, 2)
    return {"codec": way.codec, "form": way.form, "gain": gain, "passes": pick.passes, "reason": pick.reason}


def advice_lines(original: Way, advices: Sequence[Advice], setting: Setting) -> list[str]:
    """What to take for each use, and why."""
    how = "measured cold" if setting.is_measured else "assumed, because it could not be measured"
    lines = [
        f"recommendation, for {setting.cores} cores and a disk that reads {setting.disk_mb:,.0f} MB/s ({how})",
        f"  the original gives {original.fps:,.0f} frames a second in random clips to {setting.size}, "
        f"{original.read_ms:.2f} ms of processor time each",
    ]
    for advice in advices:
        lines.append(f"  {USES[advice.use]}")
        for way, picks in groupby(advice.picks, key=lambda pick: pick.way):
            lines += _lines(way, list(picks), advice.auto, setting)
    return lines


def _lines(way: Way, picks: Sequence[Pick], auto: str, setting: Setting) -> list[str]:
    where = ", and ".join(WHERE[pick.where] for pick in picks)
    if not way.codec:
        gain = max(pick.gain for pick in picks)
        return [f"    {where}: stay with the original: the best cache would be only {gain:.1f} times as fast"]
    whole = way.nbytes * setting.num_frames / 1e6
    same = '; codec="auto" takes it for this video' if way.codec == auto else ""
    paid = (
        "storing never pays off" if picks[0].passes is None else f"storing pays off after {_counted(picks[0].passes)}"
    )
    return [
        f'    {where}: FrameCache(path, codec="{way.codec}", form="{way.form}"){same}',
        *(f"      {reason}" for reason in dict.fromkeys(pick.reason for pick in picks)),
        *(f"      {_rate(pick)}" for pick in picks),
        f"      {whole:,.0f} MB for all {setting.num_frames:,} frames; storing takes {way.write_ms:.2f} ms a frame and "
        f"reading {way.read_ms:.2f}: {paid}",
    ]


def _rate(pick: Pick) -> str:
    limit = "the disk" if pick.fps < pick.way.fps else "the processor"
    place = "from the disk" if pick.where == "disk" else "from memory"
    return f"{pick.fps:,.0f} frames a second {place}, limited by {limit}: {pick.gain:.0f} times the original"


def _counted(passes: int) -> str:
    return "the next pass" if passes <= 1 else f"{passes} passes"


def loss_lines(entries: Sequence[Mapping[str, Any]], advices: Sequence[Advice], has_crops: bool) -> list[str]:
    """The best of the lossy planes that are at most half as large as the exact ones that were advised.

    Args:
        entries: Of the table.
        advices: Of exact formats.
        has_crops: Whether there are crops to look at.
    """
    most = [pick.way.nbytes / 2 for each in advices if each.use == "free" for pick in each.picks if pick.way.codec]
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
    look = "look at the crops first" if has_crops else "--crops FOLDER shows the loss"
    return [
        f'  where some loss is fine: codec="{codec}", form="planes", {best["mb_whole"]:,.0f} MB, '
        f"{psnr['mean']:.1f} dB from the original and {psnr['worst']:.1f} in the worst frame; {look}"
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
