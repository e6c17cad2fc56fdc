"""What ``bench all`` prints: what each row measured, and the settings that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framefeed._units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_number,
    format_seconds,
    format_table,
)
from framefeed.bench._printing import describe_row
from framefeed.bench.advice._recommend import HELD, Setting

_MOST_KINDS = 8


def describe_measured(row: str, measured: Mapping[str, Any]) -> list[str]:
    """Describe what a row measured."""
    if row.startswith("peer"):
        return describe_row(measured)
    describe: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
        "media": _describe_media,
        "decode": _describe_decoding,
        "storage": _describe_storage,
        "cache": _describe_cache,
        "proxies": _describe_proxies,
        "loader": lambda measured: [],
    }
    return describe[row](measured)


def _describe_media(measured: Mapping[str, Any]) -> list[str]:
    nouns = {"video": "video", "image": "picture"}
    drawn = (
        f", of {format_count(measured['files'], 'file')} that are there"
        if measured["scanned"] < measured["files"]
        else ""
    )
    left = f"; {format_count(measured['left_out'], 'file')} of another kind left out" if measured["left_out"] else ""
    by = "codecs, sizes and distances of key frames" if measured["kind"] == "video" else "formats and sizes"
    spread = f", spread over {by}" if measured["sampled"] < measured["scanned"] else ""
    lines = [
        f"media: {format_count(measured['scanned'], 'file')} scanned{drawn}; {measured['failed']} failed{left}; "
        f"an epoch of all has {format_count(measured['clips'], 'clip')} of "
        f"{format_count(measured['frames_per_clip'], 'frame')} by {measured['rule']}",
        f"  measured: {format_count(measured['sampled'], nouns[measured['kind']])}{spread}",
    ]
    return lines + [f"  failed: {message}" for _, _, message in measured["errors"]]


def _describe_decoding(measured: Mapping[str, Any]) -> list[str]:
    rows = [("CPU time of a clip", "scanned", "measured", "ms")]
    for each in measured["kinds"][:_MOST_KINDS]:
        milliseconds = format_number(1000 * each["seconds"])
        rows.append((each["kind"], f"{each['files']:,}", f"{each['sampled']}", milliseconds))
    whole = measured["clip_cpu_seconds"]
    low, high = format_number(1000 * whole["low"]), format_number(1000 * whole["high"])
    interval = f" ({low}-{high})" if whole["rounds"] > 1 else ""
    rows.append(("all", "", "", f"{format_number(1000 * whole['median'])}{interval}"))
    lines = [f"decode: {measured['decoded_frames_per_delivered']:.1f} frames decoded for each delivered frame"]
    return [*lines, *format_table(rows, indent="  "), *(f"  failed: {message}" for message in measured["failed"])]


def _describe_storage(measured: Mapping[str, Any]) -> list[str]:
    speeds = [
        f"{what} {UNKNOWN if measured[name] is None else format_bytes(measured[name]) + '/s'}"
        for what, name in (("media", "media_bytes_per_second"), ("disk for a cache", "disk_bytes_per_second"))
    ]
    return [f"storage, read cold: {', '.join(speeds)}{'; ' + measured['why'] if measured['why'] else ''}"]


def _describe_cache(measured: Mapping[str, Any]) -> list[str]:
    return [
        f"cache: {HELD[measured['holds']]} {measured['codec']}: {format_bytes(measured['bytes'])}, "
        f"{format_seconds(measured['make_seconds'])} to fill; by {format_count(measured['clips'], 'clip')}"
    ]


def _count_sampled(measured: Mapping[str, Any]) -> str:
    count, files = measured["sampled"], format_count(measured["sampled"], "file")
    with_one = round(measured["share"] * count)
    return files if with_one == count else f"{files}, of which {with_one} would have one"


def _describe_proxies(measured: Mapping[str, Any]) -> list[str]:
    gain = measured["gain"]
    stay = f"; others stay: {measured['why']}" if measured["why"] else ""
    if not measured["share"]:
        return [f"proxies: none of {format_count(measured['sampled'], 'file')} would have one: {measured['why']}"]
    return [
        f"proxies of {measured['short_side']} pixels: clips {gain['median']:.1f} times as fast "
        f"({gain['low']:.1f}-{gain['high']:.1f}) on the CPU, {format_bytes(measured['bytes'])}, "
        f"{format_seconds(measured['make_seconds'])} to make; by {_count_sampled(measured)}{stay}"
    ]


def describe_settings(settings: Sequence[Setting], results: Mapping[str, Any]) -> list[str]:
    """Write the settings as a table, and what was not measured."""
    rows = [("setting", "clips/s", "", "")]
    for each in settings:
        interval = f"({format_number(each.low)}-{format_number(each.high)})"
        speed = f"{format_number(each.clips_per_second)} {interval}"
        rows.append((each.name, speed, "" if each.is_measured else "estimated", each.why_not or each.note))
    return [
        "",
        *(format_table(rows, sides="<><<") if settings else []),
        # Of others the advice says why.
        *(f"not measured: {row}: {why}" for row, why in results["left_out"].items() if row not in ("cache", "proxies")),
        *(f"failed: {row}: {why}" for row, why in results["failed"].items()),
        *results["notes"],
    ]
