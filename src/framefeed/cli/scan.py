"""``framefeed scan``: many media as one table."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from framefeed.cli.exits import Exit
from framefeed.cli.failures import as_json, list_failed
from framefeed.cli.parsing import workers
from framefeed.cli.printing import say, say_json
from framefeed.errors import UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.scanning import scan

_SHOWN_KINDS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("roots", nargs="+", metavar="ROOT", help="folder, media file, or manifest (text, CSV, Parquet)")
    parser.add_argument("-o", "--out", metavar="CATALOG", help="where to keep the table, such as cat.parquet")
    parser.add_argument("--label-from", choices=["parent"], help="label each file by its folder")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--depth", choices=["frames", "header"], default="frames",
                       help="find every frame (default), or believe the headers")  # fmt: skip
    depth.add_argument("--headers-only", dest="depth", action="store_const", const="header",
                       help="the same as --depth header")  # fmt: skip
    parser.add_argument("--verify", choices=["ends", "none", "full"], default="ends",
                        help="decode the ends of each video (default), nothing, or all of it")  # fmt: skip
    parser.add_argument("--workers", type=workers, default=None, metavar="N", help="threads; by default as many as fit")
    parser.add_argument("--root", metavar="FOLDER", help="store paths relative to this folder")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Scan, save, and say what was found."""
    catalog = scan(
        args.roots,
        out=args.out,
        depth=args.depth,
        verify=args.verify,
        workers=args.workers,
        label_from=args.label_from,
        root=args.root,
    )
    if not len(catalog):
        raise UsageError(f"no media found in {', '.join(args.roots)}: in folders, files are known by their endings")
    facts = summary(catalog)
    if args.json:
        say_json({"catalog": args.out, **facts, "failed": as_json(catalog.failures)})
    else:
        say(*sentences(facts), *([] if args.out is None else [f"saved as {args.out}"]))
        list_failed(catalog.failures)
    return Exit.FAILED_FILES if len(catalog.errors) else Exit.WELL


def summary(catalog: Catalog) -> dict[str, Any]:
    """What is in a catalog, in numbers."""
    columns = catalog.table.select(["codec", "width", "height", "duration_seconds", "bytes"]).to_pydict()
    rows = catalog.usable_rows.tolist()
    codecs = Counter(columns["codec"][row] for row in rows)
    sizes = Counter(f"{columns['width'][row]}x{columns['height'][row]}" for row in rows)
    return {
        "files": len(catalog),
        "usable": len(rows),
        "frames": int(catalog.num_frames[rows].clip(min=0).sum()),
        "seconds": sum(columns["duration_seconds"][row] or 0.0 for row in rows),
        "bytes": sum(columns["bytes"][row] or 0 for row in rows),
        "codecs": dict(codecs.most_common()),
        "sizes": dict(sizes.most_common()),
        "classes": catalog.classes,
        "depth": "frames" if catalog.has_frame_indexes else "header",
    }


def sentences(facts: dict[str, Any]) -> list[str]:
    """The same, for people."""
    lines = [
        f"{facts['usable']:,} of {facts['files']:,} files can be read: {facts['frames']:,} frames, "
        f"{as_hours(facts['seconds'])} of video, {facts['bytes'] / 1e6:,.1f} MB"
    ]
    if facts["codecs"]:
        lines.append(f"codecs: {_counted(facts['codecs'])}; sizes: {_counted(facts['sizes'])}")
    if facts["classes"]:
        names = [str(name) for name in facts["classes"]]
        lines.append(f"{len(names):,} classes: {', '.join(names[:_SHOWN_KINDS])}{_more(len(names))}")
    return lines


def as_hours(seconds: float) -> str:
    """Write a duration: ``9.5 s``, ``3:25 min``, ``1:02:03 h``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d} h"


def _counted(counts: dict[str, int]) -> str:
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:_SHOWN_KINDS]]
    return ", ".join(shown) + _more(len(counts))


def _more(count: int) -> str:
    return f" and {count - _SHOWN_KINDS:,} more" if count > _SHOWN_KINDS else ""
