"""A report as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framefeed._units import format_bytes, format_seconds

Row = Mapping[str, Any]


def row_lines(row: Row, with_goals: bool = True) -> list[str]:
    """Write a row as lines: its title and its figures.

    Args:
        row: Of a report.
        with_goals: Whether to say how figures stand to what this project aims at.
    """
    if not with_goals:
        row = {**row, "goals": (), "floor": None, "aim": None, "limit_mb": None}
    return ["", row["title"], *_FORMS.get(row["key"], _compared)(row)]


def closing_lines(report: Row) -> list[str]:
    """What belongs to all rows: the index, what was left out, the machine."""
    lines = []
    if report["index"]:
        lines += [
            "",
            "CPU seconds to build our index, and clips of a file after which it is faster than the best library",
        ]
        lines += aligned([[entry["row"], *_costs(entry)] for entry in report["index"]])
    lines += [f"not run: {key}: {why}" for key, why in report["skipped"].items()]
    lines += [f"not compared, not installed: {name} ({why})" for name, why in report["missing"].items()]
    return [*lines, "", machine_line(report)]


def machine_line(report: Row) -> str:
    """Where, and with which versions, a report was made."""
    machine = report["machine"]
    versions = {**machine["packages"], **report["versions"]}
    return (
        f"measured on {machine['processor']}, {machine['cores']} cores, load {machine['load_average']} at the start; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )


def verdict(ratio: float, floor: float | None, aim: float | None) -> str:
    """Where a ratio stands, the higher the better."""
    if floor is None or aim is None:
        return ""
    if ratio >= aim:
        return f"aim {aim:g} reached"
    return f"floor {floor:g} held, aim {aim:g}" if ratio >= floor else f"BELOW floor {floor:g}"


def aligned(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Columns to the left, as wide as needed."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _costs(entry: Row) -> list[str]:
    lines = []
    for how, seconds in entry["cpu_seconds"].items():
        clips = entry["pays_after_clips"][how]
        lines.append(f"{how}: {format_seconds(seconds)}, {'never' if clips is None else f'{clips} clips'}")
    return lines


def _span(interval: Row) -> str:
    return f"{interval['median']:.2f} ({interval['low']:.2f}-{interval['high']:.2f}, {interval['pairs']} pairs)"


def _compared(row: Row) -> list[str]:
    lines = []
    for rule, meaning in row["rules"].items():
        lines.append(f"  {rule}: {meaning}")
        entries = [entry for entry in row["contenders"] if entry["rule"] == rule]
        entries.sort(key=lambda entry: -entry["clips_per_cpu_second"])
        header = ["", "clips/CPU s", "clips/s", "rounds", "right frames"]
        lines += aligned([header, *map(_contender_cells, entries)], "    ")
        lines += [f"    {method} failed: {why}" for method, why in row["failed"].get(rule, {}).items()]
        lines += [
            f"    against the best other library: {line}"
            for best in row["best"]
            if best["rule"] == rule
            for line in _ratios(best)
        ]
    for goal in row["goals"]:
        peers = " and ".join(goal["peers"]) or "all libraries"
        lines += [f"  goal ({goal['rule']}, {peers}): {line}" for line in _ratios(goal)]
    return lines


def _contender_cells(entry: Row) -> list[str]:
    right = f"{entry['frames_right']:.1%}"
    speeds = [f"{entry[name]:.2f}" for name in ("clips_per_cpu_second", "clips_per_second")]
    return [entry["name"], *speeds, str(entry["rounds"]), right if entry["frames_right"] == 1 else f"{right} WRONG"]


def _ratios(outcome: Row) -> list[str]:
    names = {"cpu": "CPU", "cpu_own_resize": "CPU, libraries with their own resize", "wall": "wall"}
    if "cpu" not in outcome:
        return ["none is installed (pip install 'framefeed[bench]')"]
    return [
        f"{names[key]}: {_span(outcome[key])} x {outcome[key]['against']} "
        f"{verdict(outcome[key]['median'], outcome['floor'], outcome['aim'])}".rstrip()
        for key in names
        if key in outcome
    ]


def _length(row: Row) -> list[str]:
    counts = [[which, *(f"{name} {value}" for name, value in of.items())] for which, of in row["counts"].items()]
    peers = ", ".join(f"{name} {value:.2f}" for name, value in row["peers_cpu_long_to_short"].items())
    right = ", ".join(f"{name} {value:.1%}" for name, value in row["frames_right"].items() if value < 1)
    return [
        *aligned(counts),
        f"  CPU time, long video / short video: {_span(row['cpu_long_to_short'])}{_bound(row, ' (at most {:g})')}",
        f"  other libraries: {peers}",
        *([f"  WRONG frames of the long video: {right}"] if right else []),
        *(f"  {method} failed: {why}" for method, why in row["failed"].items()),
    ]


def _resize(row: Row) -> list[str]:
    lines = [f"  not measured, not installed: {why}" for why in row.get("missing", {}).values()]
    for video in row.get("videos", ()):
        ranked = sorted(video["psnr_db"].items(), key=lambda item: -item[1])
        lines.append(f"  {video['video']}: " + ", ".join(f"{name} {value:.1f} dB" for name, value in ranked))
        above = video["above_torchcodec_db"]
        if above is not None:
            lines.append(
                f"    compared with TorchCodec's own resize: {above:+.1f} dB {verdict(above, row['floor'], row['aim'])}"
            )
    return lines


def _overhead(row: Row) -> list[str]:
    return [
        f"  {workers} threads: {of['median']:.2%} ({of['low']:.2%} to {of['high']:.2%})"
        f"{_bound(row, '; at most {:.0%}, aim {:.0%}')}"
        for workers, of in row["overhead"].items()
    ]


def _moving(row: Row) -> list[str]:
    lines = aligned([[name, format_seconds(value / 1000)] for name, value in row["milliseconds"].items()])
    lines += [
        f"  wall: {_span(ratio)} x {name} {verdict(ratio['median'], row['floor'], row['aim'])}"
        for name, ratio in row["wall"].items()
    ]
    return lines + [f"  not compared, not installed: {why}" for why in row["missing"].values()]


def _memory(row: Row) -> list[str]:
    flat = "flat" if row["is_flat"] else "GROWING"
    limit = "" if row["limit_mb"] is None else f" (limit {format_bytes(row['limit_mb'] * 1e6)})"
    return [f"  peak {format_bytes(row['peak_mb'] * 1e6)}{limit}, {flat} after 50 of {row['batches']} batches"]


def _bound(row: Row, form: str) -> str:
    return "" if row["floor"] is None else form.format(row["floor"], row["aim"])


_FORMS: Mapping[str, Callable[[Row], list[str]]] = {
    "length": _length,
    "resize": _resize,
    "overhead": _overhead,
    "moving": _moving,
    "memory": _memory,
}
