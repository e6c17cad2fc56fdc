"""A report of ``bench cache`` as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framefeed._units import format_bytes, format_seconds
from framefeed.bench._reports import aligned
from framefeed.bench.scan._reports import scan_closing_lines, scan_row_lines

Row = Mapping[str, Any]
_COLUMNS = (
    "cold: pages dropped before; DataLoader N: one file a frame, read by a torch DataLoader with N workers, batch 16; "
    "{workers} threads: our ordered threads; to {size}: read and resized; planes alone: without conversion to RGB"
)


def cache_row_lines(row: Row, with_goals: bool = False) -> list[str]:
    """One row: the table, or a row's title and figures.

    Args:
        row: Of a report.
        with_goals: Whether to say how figures stand to what this project aims at.
    """
    if row["key"] == "table":
        return table_lines(row)
    reads = row.get("ways", ())
    shown = {name: value for name, value in row.items() if name != "ways"}
    title, *rest = scan_row_lines(shown, with_goals)[1:]
    lines = ["", title, *_describe_reads(reads)]
    if "stored" in row:
        lines.append(f"  stored: {format_bytes(row['stored']['bytes'])}, codec {row['stored']['codec']}")
    times = row.get("milliseconds_a_batch", {})
    lines += [f"  {name}: {format_seconds(value / 1000)}" for name, value in times.items()]
    lines += rest
    return lines + [f"  {name}: {text}" for name, text in row.get("reported", {}).items()]


def cache_closing_lines(report: Row) -> list[str]:
    """What belongs to all rows: what was left out, the machine."""
    return scan_closing_lines(report)


def table_lines(table: Row) -> list[str]:
    """The advice, and the table that it rests on, every format on a line."""
    workers, advice = table["workers"], table.get("advice")
    lines = ["", *advice["lines"]] if advice else []
    lines += ["", table["title"], f"  {table['note']}"]
    header = ["", "exact", "MB", "write FPS", "read FPS: cold", "warm", "DataLoader 0", f"DataLoader {workers}",
              f"{workers} threads", f"to {table['size']}", "planes alone", "PSNR dB: mean", "worst"]  # fmt: skip
    lines += aligned([header, *(_cells(entry, workers) for entry in table["entries"])])
    lines.append(f"  {_COLUMNS.format(workers=workers, size=table['size'])}")
    for entry in table["entries"]:
        lines += [f"  WRONG: {entry['title']}: {what}" for what in entry["wrong"]]
    lines += [f"  not measured: {name}: {why}" for name, why in table["failed"].items()]
    reasons = {entry["not_cold"] for entry in table["entries"] if entry.get("not_cold")}
    lines += [f"  cold not measured: {why}" for why in sorted(reasons)]
    disk = table["disk"]
    if isinstance(disk, str):
        lines.append(f"  the disk's own speed not measured: {disk}")
    else:
        reads, writes = (format_bytes(1e6 * disk[name]) for name in ("read", "write"))
        lines.append(f"  the disk, one large file: reads {reads}/s cold, writes {writes}/s")
    return lines + ([f"  crops: {table['crops']}"] if table.get("crops") else [])


def _cells(entry: Row, workers: int) -> list[str]:
    rates, psnr = entry["read_fps"], entry.get("psnr_db", {})
    exact = "WRONG" if entry["wrong"] else "yes" if entry["is_exact"] else "no"
    names = ("cold", "warm", "DataLoader 0", f"DataLoader {workers}", f"{workers} threads", "as small", "as planes")
    return [
        entry["title"],
        exact,
        f"{entry['mb_whole']:,.0f}",
        _number(entry.get("write_fps")),
        *(_number(rates.get(name)) for name in names),
        *("" if entry["is_exact"] or psnr.get(which) is None else f"{psnr[which]:.1f}" for which in ("mean", "worst")),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _describe_reads(reads: Sequence[Row]) -> list[str]:
    if not reads:
        return []
    ranked = sorted(reads, key=lambda read: -read["frames_per_cpu_second"])
    header = ["", "frames/CPU s", "frames/s", "bytes a frame"]
    return aligned([header, *map(_make_cells, ranked)])


def _make_cells(read: Row) -> list[str]:
    nbytes = read.get("bytes_a_frame")
    return [
        read["name"],
        *(f"{read[name]:,.1f}" for name in ("frames_per_cpu_second", "frames_per_second")),
        "" if nbytes is None else f"{nbytes:,}",
    ]
