"""``framefeed report``: write an HTML page about a catalog."""

from __future__ import annotations

import argparse
import os

from framefeed._units import format_bytes, format_count
from framefeed.catalog import Catalog, get_missing_frames_path
from framefeed.cli._arguments import add_root_argument
from framefeed.cli._io import Exit, make_printable, print_error, print_json, print_out
from framefeed.cli._plans import check_media
from framefeed.proxies import estimate_proxies
from framefeed.report import write_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", metavar="CATALOG", help="catalog from 'framefeed scan', such as cat.parquet")
    parser.add_argument("-o", "--out", metavar="PAGE", default="report.html",
                        help="file to write (default: %(default)s)")  # fmt: skip
    parser.add_argument("--title", metavar="TEXT", help="heading of the page (default: the name of the catalog)")
    add_root_argument(parser)
    parser.add_argument("--no-thumbnails", dest="thumbnails", action="store_false",
                        help="open no media file: leave out the pictures of three files of each label")  # fmt: skip
    parser.add_argument("--proxies", action="store_true",
                        help="also make a sample of smaller copies, and show what they would bring; a minute or so",
                        )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the page of a catalog."""
    catalog = Catalog.open(args.catalog, args.root)
    check_media(catalog, args.catalog)
    if (path := get_missing_frames_path(catalog)) is not None:
        print_error(
            f"the frame tables are missing, there is no file {path}: the page shows facts of headers only; put it back"
        )
    title = args.title or os.path.basename(args.catalog)
    estimate = estimate_proxies(catalog) if args.proxies else None
    write_report(catalog, args.out, title=title, thumbnails=args.thumbnails, estimate=estimate)
    failed, size = len(catalog.failed_rows), os.path.getsize(args.out)
    if args.json:
        counts = {"rows": len(catalog), "usable": len(catalog.usable_rows), "failed": failed}
        print_json({"report": args.out, "catalog": args.catalog, "bytes": size, **counts})
    else:
        rows = format_count(len(catalog), "row")
        print_out(f"{make_printable(args.out)} written: {rows}, {failed:,} failed, {format_bytes(size)}")
    return Exit.WELL
