"""``framefeed scan``: list many media in one table."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from fractions import Fraction
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import is_url, make_absolute, refuse_url
from framefeed._units import format_bytes, format_count, format_seconds
from framefeed.catalog import (
    BUILT_FROM_IN_WORDS,
    Catalog,
    Label,
    SurveyOptions,
    check_classes,
    count_built_from,
    get_missing_frames_path,
)
from framefeed.cli._arguments import (
    add_limit_arguments,
    add_workers_argument,
    make_limits,
    read_columns,
    read_positive,
    read_rate,
)
from framefeed.cli._io import Exit, list_as_json, make_printable, print_error, print_failed, print_json, print_out
from framefeed.errors import UsageError
from framefeed.index import TIMES_FROM_IN_WORDS
from framefeed.media import READ_BY_ARROW, parse_rate
from framefeed.scanning import (
    ListOptions,
    ScanRequest,
    ScanStats,
    TextForm,
    check_fps,
    count_times,
    explain_lost_facts,
    explain_no_media,
    scan_roots,
)

_SHOWN_KINDS = 5
_GONE = "of the earlier catalog left out, because they were removed or are not among the files of this scan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("roots", nargs="+", metavar="ROOT",
                        help="folder, media file, archive, glob, list (text, CSV, JSON, Parquet), URL, bucket or "
                        "prefix of S3, such as s3://bucket/train/, or folder of the Hub, such as "
                        "hf://datasets/ORG/NAME/")  # fmt: skip
    parser.add_argument("-o", "--out", metavar="CATALOG",
                        help="file to write the table to, such as cat.parquet or s3://bucket/cat.parquet")  # fmt: skip
    parser.add_argument("--journal", metavar="FOLDER",
                        help="folder for what an interrupted scan continues from (default: CATALOG.journal, and for a "
                             "bucket one in ~/.cache/framefeed)")  # fmt: skip
    parser.add_argument("--label-from", choices=["parent"], help="label each file with the name of its folder")
    parser.add_argument("--columns", type=read_columns, metavar="NAME=COLUMN,...",
                        help="columns of a list, by number from 0 or name, such as path=0,label=1, or of "
                             "archives, by name, such as label=json.label")  # fmt: skip
    parser.add_argument("--text-from", metavar="ENDING",
                        help="read a text beside each file into the column text: .txt, the file a.txt of a.mp4; "
                             ".json:caption, a field of a.json")  # fmt: skip
    parser.add_argument("--path-template", metavar="TEXT",
                        help="make the paths of a list from its columns, as in '{label}/{id}.mp4'")  # fmt: skip
    parser.add_argument("--classes-of", metavar="CATALOG",
                        help="give labels the same numbers as this catalog, such as train.parquet")  # fmt: skip
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--depth", choices=["frames", "header"], default="frames",
                       help="frames: find every frame (default); header: read headers only")  # fmt: skip
    depth.add_argument("--headers-only", dest="depth", action="store_const", const="header",
                       help="the same as --depth header")  # fmt: skip
    parser.add_argument("--verify", choices=["proof", "ends", "none", "full"], default="proof",
                        help="how frames are verified: proof, by packet headers (default); ends, by decoding both ends "
                             "of each video; full, by decoding all of it; none, not at all")  # fmt: skip
    parser.add_argument("--assume-fps", type=read_rate, metavar="FPS",
                        help="frames per second of videos without usable times; others keep theirs")  # fmt: skip
    add_workers_argument(parser)
    parser.add_argument("--root", metavar="FOLDER",
                        help="store paths relative to this folder or its URL; relative paths in lists start "
                        "from it")  # fmt: skip
    parser.add_argument("--image-folders", choices=["image", "video"], default="image",
                        help="image: a row for each picture (default); video: a folder is one video")  # fmt: skip
    parser.add_argument("--fps", type=read_rate, metavar="FPS",
                        help="frames per second of folders of pictures, with --image-folders video")  # fmt: skip
    parser.add_argument("--deadline-seconds", type=read_positive("seconds"), default=60, metavar="S",
                        help="longest time for one file (default: 60), after which it is listed as failed")  # fmt: skip
    add_limit_arguments(parser)
    parser.add_argument("--anew", dest="resume", action="store_false",
                        help="open every file again, also files that have not changed since the last scan")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a summary as JSON")
    parser.epilog = (
        "Keys and servers of S3 come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, "
        "AWS_PROFILE and others); headers of http, and keys of one server alone, are given in Python: "
        "ff.scan(..., storage_options=...)."
    )


def run(args: argparse.Namespace) -> int:
    """Scan, save, and describe the catalog."""
    begin, request = perf_counter(), _make_request(args)
    lost = explain_lost_facts(args.out, request.options)
    if lost is not None:
        print_error(lost)
    try:
        done = scan_roots(args.roots, request)
    except KeyboardInterrupt as interrupt:
        kept = "interrupted; nothing was saved, because there is no -o CATALOG"
        if args.out is not None:
            beside = "" if args.journal is not None or is_url(args.out) else f" from {args.out}.journal"
            kept = f"interrupted; run the same command again to continue{beside}"
        raise KeyboardInterrupt(str(interrupt) or kept) from None
    catalog, seconds = done.catalog, perf_counter() - begin
    if not len(catalog):
        raise UsageError(explain_no_media(args.roots, done.stats))
    print_error(*done.remarks)
    facts = summarise(catalog)
    if args.json:
        # asdict would count the pairs of a Counter.
        passed_over = dict(done.stats.passed_over)
        work = {"scan": {**asdict(done.stats), "passed_over": passed_over, "seconds": seconds}}
        print_json({"catalog": args.out, **facts, **work, "failed": list_as_json(catalog.failures)})
    else:
        print_out(
            *describe_summary(facts),
            *_describe_assumed_rate(args.assume_fps, facts),
            *_describe_row_groups(catalog),
            *_describe_work(done.stats, seconds, args.out, args.root),
        )
        print_failed(catalog.failures)
    return Exit.FAILED_FILES if len(catalog.errors) else Exit.WELL


def _make_request(args: argparse.Namespace) -> ScanRequest:
    image_rate = check_fps(args.image_folders, args.fps)
    options = SurveyOptions(
        args.depth,
        args.verify,
        args.workers,
        None,
        image_rate,
        limits=make_limits(args),
        deadline_seconds=args.deadline_seconds,
        assume_fps=None if args.assume_fps is None else parse_rate(args.assume_fps),
    )
    root = None if args.root is None else make_absolute(args.root)
    lists = ListOptions(args.columns, args.path_template, root)
    known: tuple[Label, ...] | None = None
    if args.classes_of is not None:
        classes = Catalog.open(args.classes_of).classes
        if not classes:
            raise UsageError(
                f"--classes-of {args.classes_of}: this catalog has no labels: name one that was made with --label-from "
                "parent, or from a list with labels"
            )
        known = check_classes(classes)
    return ScanRequest(
        options,
        args.out,
        args.label_from,
        args.resume,
        args.image_folders,
        lists,
        known,
        print_error,
        journal=None if args.journal is None else make_absolute(refuse_url("--journal", args.journal)),
        texts=TextForm.parse(args.text_from),
    )


def summarise(catalog: Catalog) -> dict[str, Any]:
    """Count the contents of a catalog."""
    names = ["kind", "codec", "width", "height", "num_frames", "num_damaged_frames", "duration_seconds", "bytes"]
    # Arrow sums and counts: a Python object for each of a million rows would take too long.
    usable = catalog.table.select(names).take(pa.array(catalog.usable_rows))
    sizes = pc.binary_join_element_wise(usable["width"].cast(pa.string()), usable["height"].cast(pa.string()), "x")
    # The number of damaged frames is known only for pictures that were decoded.
    decoded = pc.and_(pc.equal(usable["kind"], "image"), usable["num_damaged_frames"].is_valid())
    return {
        "files": len(catalog),
        "usable": usable.num_rows,
        "kinds": _count_values(usable["kind"]),
        "frames": _sum(usable["num_frames"]),
        "video_frames": _sum(usable.filter(pc.equal(usable["kind"], "video"))["num_frames"]),
        "damaged_frames": pc.sum(usable["num_damaged_frames"]).as_py(),
        "damaged_files": _sum(pc.greater(usable["num_damaged_frames"], 0)),
        "frames_known_by": count_built_from(catalog),
        "decoded_pictures": _sum(decoded),
        "missing_frame_tables": get_missing_frames_path(catalog),
        "times_from": count_times(catalog),
        "seconds": float(_sum(usable["duration_seconds"])),
        "bytes": _sum(usable["bytes"]),
        "codecs": _count_values(usable["codec"]),
        "sizes": _count_values(sizes),
        "classes": catalog.classes,
        "depth": "frames" if catalog.has_frame_indexes else "header",
    }


def _sum(column: pa.ChunkedArray) -> Any:
    return pc.sum(column).as_py() or 0


def _count_values(column: pa.ChunkedArray) -> dict[str, int]:
    """Count each value, the most frequent first."""
    pairs = pc.value_counts(column).to_pylist()
    return {pair["values"]: pair["counts"] for pair in sorted(pairs, key=lambda pair: -pair["counts"])}


def describe_summary(facts: dict[str, Any]) -> list[str]:
    """Describe the contents of a catalog in sentences."""
    readable = f"{facts['usable']:,} of {format_count(facts['files'], 'file')} can be read"
    lines = [f"{readable}: {_describe_contents(facts)}, {format_bytes(facts['bytes'])}"]
    if facts["codecs"]:
        lines.append(f"codecs: {_list_counts(facts['codecs'])}; width x height: {_list_counts(facts['sizes'])}")
    if facts["frames_known_by"]:
        known = (
            f"{BUILT_FROM_IN_WORDS[each]} ({format_count(count, 'video')})"
            for each, count in facts["frames_known_by"].items()
        )
        lines.append(f"frames found by: {'; '.join(known)}")
    if facts["missing_frame_tables"] is not None:
        lines.append(
            f"the frame tables are missing, there is no file {facts['missing_frame_tables']}: restore it, or scan again"
        )
    if set(facts["times_from"]) - {"pts"}:
        times = facts["times_from"]
        tiers = (f"{TIMES_FROM_IN_WORDS[tier]} ({format_count(count, 'video')})" for tier, count in times.items())
        advice = "; for clips by time, scan the files without times with --assume-fps" if "none" in times else ""
        lines.append(f"times come from: {'; '.join(tiers)}{advice}")
    if facts["damaged_files"]:
        lines.append(
            f"damaged: {format_count(facts['damaged_frames'], 'frame')} in "
            f"{format_count(facts['damaged_files'], 'file')} that can be read: "
            "--on-damaged of clip, feed and cache build says what is delivered for them (in Python: "
            "plan_clips(on_damaged=...))"
        )
    if facts["classes"]:
        names = [str(name) for name in facts["classes"]]
        lines.append(
            f"{format_count(len(names), 'class', 'classes')}: {', '.join(names[:_SHOWN_KINDS])}"
            f"{_describe_rest(len(names))}"
        )
    return lines


def _describe_row_groups(catalog: Catalog) -> list[str]:
    """Describe how many media lie compressed or encoded in Parquet files, and what to do about it."""
    if "source_offset" not in catalog.table.column_names:
        return []
    count = _sum(pc.equal(catalog.table["source_offset"].take(pa.array(catalog.usable_rows)), READ_BY_ARROW))
    if not count:
        return []
    return [
        f"compressed or with a dictionary in Parquet files: {format_count(count, 'file')}; a clip of them reads a "
        'whole row group: write the Parquet files with compression="none", use_dictionary=False'
    ]


def _describe_assumed_rate(fps: Fraction | None, facts: dict[str, Any]) -> list[str]:
    """Describe for how many videos the assumed rate was used."""
    if fps is None:
        return []
    if facts["depth"] == "header":
        return [f"--assume-fps {fps}: saved for Catalog.with_frame_indexes, because headers have no times of frames"]
    used = facts["times_from"].get("assumed", 0)
    others = sum(facts["times_from"].values()) - used
    return [f"--assume-fps {fps}: used for {format_count(used, 'video')}, not for {others:,} that have their own times"]


def _describe_contents(facts: dict[str, Any]) -> str:
    pictures, videos = (facts["kinds"].get(kind, 0) for kind in ("image", "video"))
    # Without its tables, a catalog still has the facts that were read from them.
    is_claimed = facts["depth"] == "header" and facts["missing_frame_tables"] is None
    claimed = " according to headers" if is_claimed else ""
    is_known = facts["seconds"] or not videos
    length = f"{format_seconds(facts['seconds'])} of video{claimed}" if is_known else "length of the video unknown"
    frames = f"{format_count(facts['video_frames'], 'frame')}, {length}"
    if not pictures:
        return frames
    if facts["decoded_pictures"] == pictures:
        shown = f"{format_count(pictures, 'decoded picture')}"
    else:
        shown = f"{format_count(pictures, 'picture')} (only headers were read)"
    return shown + (f" and {format_count(videos, 'video')}, {frames}" if videos else "")


def _describe_work(stats: ScanStats, seconds: float, out: str | None, root: str | None) -> list[str]:
    """Describe the work of the scan, the files and folders that gave no row, and where the catalog is."""
    known = f"; {format_count(stats.known, 'unchanged file')} skipped" if stats.known else ""
    gone = f"; {format_count(stats.gone, 'file')} {_GONE}" if stats.gone else ""
    read = f"read {format_bytes(stats.bytes_read)}"
    lines = [f"opened {format_count(stats.surveyed, 'file')} in {format_seconds(seconds)}, {read}{known}{gone}"]
    counts = ((stats.repeated_files, "file"), (stats.repeated_folders, "folder"))
    repeated = [format_count(count, noun) for count, noun in counts if count]
    if repeated:
        lines.append(f"counted once: {' and '.join(repeated)} found again, through a link or a second name")
    if stats.passed_over:
        endings = {make_printable(ending) or "without an ending": n for ending, n in stats.passed_over.most_common()}
        others = format_count(stats.passed_over.total(), "file")
        lines.append(
            f"not scanned: {others} with other endings than media: {_list_counts(endings)}; to scan a file, name it"
        )
    if out is None:
        return lines
    lines.append(f"saved as {out}")
    if root is not None and os.path.realpath(root) != os.path.realpath(os.path.dirname(os.path.abspath(out))):
        lines.append(f"its paths are relative to {root}: open it with root={root!r}, or move it to that folder")
    return lines


def _list_counts(counts: dict[str, int]) -> str:
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:_SHOWN_KINDS]]
    return ", ".join(shown) + _describe_rest(len(counts))


def _describe_rest(count: int) -> str:
    return f" and {count - _SHOWN_KINDS:,} more" if count > _SHOWN_KINDS else ""
