"""``framefeed proxy``: make smaller copies of a catalog's files, or estimate what they would bring."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from time import perf_counter
from typing import Any

from framefeed._names import unescape
from framefeed._units import format_bytes, format_count, format_seconds, format_share, format_table
from framefeed.catalog import ProxyTable, read_proxy_table
from framefeed.cli._arguments import read_at_least, read_workers
from framefeed.cli._io import Exit, list_as_json, print_failed, print_json, print_out
from framefeed.cli._plans import open_catalog
from framefeed.errors import UsageError
from framefeed.proxies import CATALOG_NAME, FAILED, ProxyEstimate, estimate_proxies, make_proxies

_MAX_REASONS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", metavar="CATALOG", help="catalog from 'framefeed scan', such as cat.parquet")
    parser.add_argument("out", nargs="?", metavar="FOLDER",
                        help="folder for the copies, outside of that of the originals; with --estimate none is needed",
                        )  # fmt: skip
    parser.add_argument("--estimate", action="store_true",
                        help="make a sample and throw it away; say bytes, minutes and gain by kind of file, and "
                        "whether it pays")  # fmt: skip
    parser.add_argument("--short-side", type=read_at_least(16), default=256, metavar="PIXELS",
                        help="rows or columns of the shorter side of a copy (default: 256, for training at 224)",
                        )  # fmt: skip
    parser.add_argument("--gop", type=read_at_least(1), default=8, metavar="N",
                        help="distance of key frames of videos, in frames (default: 8)")  # fmt: skip
    parser.add_argument("--workers", type=read_workers, metavar="N",
                        help="number of files at once, or auto (default: auto, the thread budget)")  # fmt: skip
    parser.add_argument("--no-resume", dest="resume", action="store_false",
                        help="make all copies anew, also those that an earlier run has finished")  # fmt: skip
    parser.add_argument("--root", metavar="FOLDER", help="folder that the catalog's relative paths start at")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Make the copies, or an estimate of them."""
    catalog = open_catalog(args.catalog, args.root)
    workers = "auto" if args.workers is None else args.workers
    options: dict[str, Any] = {"short_side": args.short_side, "gop": args.gop, "workers": workers}
    if args.estimate:
        estimate = estimate_proxies(catalog, **options)
        if args.json:
            print_json(_make_document(estimate))
        else:
            print_out(*str(estimate).splitlines())
        return Exit.WELL
    if args.out is None:
        raise UsageError("expected CATALOG FOLDER, got no folder for the copies; or ask first, with --estimate")
    began = perf_counter()
    small = make_proxies(catalog, args.out, resume=args.resume, **options)
    saved = os.path.join(args.out, CATALOG_NAME)
    small.to_parquet(saved)
    table = read_proxy_table(args.out)
    failures = [
        (unescape(row["original"]), "MediaError", row["reason"].removeprefix(FAILED))
        for row in table.rows.select(["original", "reason"]).to_pylist()
        if (row["reason"] or "").startswith(FAILED)
    ]
    if args.json:
        print_json({**_count(table), "seconds": perf_counter() - began, "failed": list_as_json(failures)})
    else:
        print_out(*_describe(args.out, table, perf_counter() - began), f"saved as {saved}")
        print_failed(failures)
    return Exit.FAILED_FILES if failures else Exit.WELL


def _make_document(estimate: ProxyEstimate) -> dict[str, Any]:
    low, high = estimate.gain_interval
    facts = {name: getattr(estimate, name) for name in ("num_files", "num_proxies", "bytes", "proxy_bytes", "seconds")}
    return {
        **facts,
        "original_bytes": estimate.original_bytes,
        "gain": estimate.gain,
        "gain_low": low,
        "gain_high": high,
        "workers": estimate.workers,
        "kinds": [asdict(each) for each in estimate.kinds],
        "stay": {reason: count for reason, (count, _) in estimate.reasons.items()},
        "answer": estimate.answer(),
    }


def _count(table: ProxyTable) -> dict[str, Any]:
    made = table.rows.filter(table.rows["proxy"].is_valid())
    facts = {
        name: made[name].to_pylist() for name in ("bytes", "proxy_bytes", "psnr", "psnr_worst", "ssim", "rgb_psnr")
    }
    worst = min(range(len(made)), key=facts["psnr_worst"].__getitem__, default=None)
    return {
        "files": table.rows.num_rows,
        "proxies": made.num_rows,
        "original_bytes": sum(facts["bytes"]),
        "proxy_bytes": sum(facts["proxy_bytes"]),
        **{f"{name}_mean": sum(facts[name]) / max(1, len(made)) for name in ("psnr", "ssim", "rgb_psnr")},
        "psnr_worst": None if worst is None else facts["psnr_worst"][worst],
        "worst": None if worst is None else unescape(made["original"][worst].as_py()),
        "stay": dict(table.count_reasons()),
    }


def _describe(out: str, table: ProxyTable, seconds: float) -> list[str]:
    """Describe what was made, and what stays itself."""
    counts = _count(table)
    nbytes, before = counts["proxy_bytes"], counts["original_bytes"]
    rows = []
    if counts["proxies"]:
        rows = [
            ("bytes", f"{format_bytes(nbytes)}, {format_share(nbytes, before)} of {format_bytes(before)}"),
            ("luma", f"{counts['psnr_mean']:.1f} dB, SSIM {counts['ssim_mean']:.3f} on average; the worst frame "
             f"{counts['psnr_worst']:.1f} dB, of {counts['worst']}"),
            ("RGB", f"{counts['rgb_psnr_mean']:.1f} dB on average"),
        ]  # fmt: skip
    stay = list(counts["stay"].items())
    stays = [f"stay as they are, {count:,}: {reason}" for reason, count in stay[:_MAX_REASONS]]
    if len(stay) > _MAX_REASONS:
        left = sum(count for _, count in stay[_MAX_REASONS:])
        stays.append(f"stay as they are, {left:,}: for other reasons, in {out}/proxies.parquet")
    return [
        f"{out}: {format_count(counts['proxies'], 'proxy', 'proxies')} of {format_count(counts['files'], 'file')}, in "
        f"{format_seconds(seconds)}",
        *(format_table(rows, indent="  ") if rows else []),
        *stays,
    ]
