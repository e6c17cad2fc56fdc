"""``framefeed cache``: build, inspect, verify and clear a cache of frames."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

from tqdm import tqdm

from framefeed._files import name_special_kind
from framefeed._names import is_url
from framefeed._units import format_bytes, format_count, format_seconds, format_share, format_table
from framefeed.cache import (
    KEY_VERSION,
    TASK_BYTES,
    BuildReport,
    FillOptions,
    FrameCache,
    build,
    choose_form,
    count_demand,
)
from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.cli._arguments import make_limits, read_at_least
from framefeed.cli._io import Exit, Failed, list_as_json, print_failed, print_json, print_out
from framefeed.cli._plans import (
    SIZE,
    add_cache_arguments,
    add_plan_arguments,
    describe_contents,
    get_shuffle,
    get_workers,
    ignoring_cache_warnings,
    list_plan_failures,
    make_cache,
    make_plan,
    open_catalog,
    print_trouble,
    suggest_remedy,
)
from framefeed.decode import SCALE_MARK, describe_recipe, find_decoder
from framefeed.errors import UsageError
from framefeed.index import MIXED, FrameIndex
from framefeed.pictures import PLUGGED_CODECS
from framefeed.plan import EpochPlan, estimate_reuse

_MAX_KINDS = 8
_MAX_NAMES = 3
_OUR_DECODERS = ("pyav", "still")
_UNKNOWN = "unknown"
_PARQUET = b"PAR1"
# The next epoch is described if it finds a smaller share of its frames.
_MIN_REUSE = 0.95
# An empty file that processes lock, beside the files of frames.
_OWN_FILES = frozenset({"lock"})


def collect_facts(cache: FrameCache) -> dict[str, Any]:
    """Describe the contents of a cache, as values for JSON."""
    info = cache.info()
    streams = [_read_stream(text) for text in info.descriptions.values()]
    readable = [stream for stream in streams if stream["is_read"]]
    return {
        "bytes_on_disk": info.bytes_on_disk,
        "files": info.num_segments,
        "frames": info.num_frames,
        "stored_bytes": info.stored_bytes,
        "raw_bytes": info.raw_bytes,
        "kinds": [
            {"codec": kind.codec, "layout": kind.layout, "frames": frames, "bytes": nbytes}
            for kind, (frames, nbytes) in sorted(info.kinds.items(), key=lambda item: -item[1][1])
        ],
        "sources": len({stream["source"] for stream in streams}),
        "streams": len(streams),
        "forms": dict(Counter(stream["form"] for stream in readable)),
        "made_by": dict(Counter(stream["decoder"] for stream in readable)),
        "not_read_any_more": dict(Counter(stream["decoder"] for stream in streams if not stream["is_read"])),
        "unfinished": info.unfinished,
        "refused": info.refused,
    }


def _read_stream(text: str) -> dict[str, Any]:
    """Read the description of a stream; a file can hold any text there."""
    try:
        described = json.loads(text)
        recipe, source = described["recipe"], described["source"]
        decoder, form = str(recipe["decoder"]), str(recipe["form"])
        known = {"source": (str(source["bytes"]), str(source["fingerprint"])), "form": form, "decoder": decoder}
        return {**known, "is_read": described["schema"] == KEY_VERSION and _is_current(decoder)}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {"source": (_UNKNOWN, text), "form": _UNKNOWN, "decoder": _UNKNOWN, "is_read": False}


def _is_current(recipe: str) -> bool:
    """Whether an installed decoder has this recipe; True for decoders of other packages, which are not loaded."""
    for name in _OUR_DECODERS:
        if recipe.startswith((f"{name} ", f"{name},")):
            # Of an index, their recipes depend on the codec alone, and on that of pictures only.
            streams = [SimpleNamespace(codec=codec) for codec in ("", "mjpeg", MIXED, *PLUGGED_CODECS)]
            indexes = [cast("FrameIndex", SimpleNamespace(stream=stream)) for stream in streams]
            known = {describe_recipe(find_decoder(name), index) for index in indexes}
            return recipe.partition(SCALE_MARK)[0] in known
    return True


def describe_facts(folder: str, facts: Mapping[str, Any]) -> list[str]:
    """Describe the contents of a cache, one fact a line."""
    head, rows = "no frames", list[tuple[str, str]]()
    if facts["frames"]:
        head = f"{format_count(facts['frames'], 'frame')} of {format_count(facts['sources'], 'source')}"
        rows.append(("on disk", f"{format_bytes(facts['bytes_on_disk'])} in {format_count(facts['files'], 'file')}"))
        rows.append(("uncompressed", format_bytes(facts["raw_bytes"])))
    for kind in facts["kinds"][:_MAX_KINDS]:
        pixel_format, size, *_ = (*str(kind["layout"]).split(), "", "")
        pictures = f"{size} {'RGB' if pixel_format in ('rgbp', 'rgb24') else pixel_format}"
        rows.append((kind["codec"], f"{kind['frames']:,} of {pictures}, {format_bytes(kind['bytes'])}"))
    if len(facts["kinds"]) > _MAX_KINDS:
        rows.append(("more", format_count(len(facts["kinds"]) - _MAX_KINDS, "kind")))
    for name, counts in (("decoded by", facts["made_by"]), ("not used any more", facts["not_read_any_more"])):
        rows += [(name, f"{recipe}: {format_count(count, 'stream')}") for recipe, count in counts.items()]
    if facts["unfinished"]:
        rows.append(("unfinished", format_count(len(facts["unfinished"]), "file")))
    by_reason: dict[str, list[str]] = {}
    for name, why in facts["refused"].items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        rows.append(("refused", f"{min(names)}{more}: {why}"))
    return [f"{folder}: {head}", *(format_table(rows, indent="  ") if rows else [])]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="what to do", metavar="ACTION")
    building = _add_action(actions, "build", "decode the frames of a plan in advance, and store them", _build)
    building.add_argument("media", metavar="CATALOG|MEDIA",
                          help="catalog from 'framefeed scan', such as cat.parquet; or one video, such as my.mp4",
                          )  # fmt: skip
    building.add_argument("folder", metavar="CACHE", help="folder to store frames in; created if missing")
    add_plan_arguments(building, every_frame=True)
    add_cache_arguments(building)
    building.add_argument("--clips", type=read_at_least(1), metavar="N",
                          help="fill only N clips, spread over the plan, and say what the others would take; without "
                          "it, all are filled")  # fmt: skip
    others = [
        _add_action(actions, "info", "show what is in a cache", _info),
        _add_action(actions, "verify", "read all stored frames, and list the damaged ones", _verify),
        _add_action(actions, "clear", "remove all stored frames; other files in the folder stay", _clear),
    ]
    for action in others:
        action.add_argument("folder", metavar="CACHE", help="the cache folder")
    others[1].add_argument("--repair", action="store_true",
                           help="remove files that are incomplete or have damaged frames, so that their frames can be "
                           "stored again")  # fmt: skip
    for action in (building, *others):
        action.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_action(
    actions: Any, name: str, purpose: str, act: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}."
    )
    parser.set_defaults(act=act)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    act = getattr(args, "act", None)
    if act is None:
        raise UsageError("expected an action: build, info, verify or clear ('framefeed cache --help' describes them)")
    return int(act(args))


# --- build --------------------------------------------------------------------------------------------


def _build(args: argparse.Namespace) -> int:
    cache = make_cache(args, args.folder)
    cache.info()  # reports a folder that cannot be used, before anything is decoded
    catalog = _open_media(args)
    plan = make_plan(args, catalog)
    document: dict[str, Any] = {"cache": args.folder, "media": args.media}
    if not args.json:
        print_out(_describe_work(args, catalog, plan))
    with ignoring_cache_warnings(), cache:
        if not len(plan):
            return _finish(args, plan, cache, document)
        try:
            report = build(
                plan, cache, workers=get_workers(args), epochs=args.epochs, clips=args.clips, limits=make_limits(args)
            )
        except KeyboardInterrupt:
            message = "interrupted; stored frames are kept: run the same command again to continue"
            raise KeyboardInterrupt(message) from None
        values = {name: value for name, value in asdict(report).items() if name != "failed"}
        document["build"] = {**values, "is_complete": report.is_complete}
        if not args.json:
            print_out(*_describe_build(args, plan, report, cache))
        return _finish(args, plan, cache, document, report.failed)


def _finish(
    args: argparse.Namespace,
    plan: EpochPlan,
    cache: FrameCache,
    document: dict[str, Any],
    not_stored: Sequence[Failed] = (),
) -> Exit:
    """Print the contents of the cache and the failures; return the exit code."""
    failed = [*list_plan_failures(plan), *not_stored]
    if args.json:
        print_json({**document, **collect_facts(cache), "failed": list_as_json(failed)})
    else:
        print_failed(failed, known=len(plan.catalog.failed_rows))
    if cache.stats().trouble and not cache.stats().is_full:
        print_trouble(cache)
        return Exit.MISTAKE
    return Exit.FAILED_FILES if failed else Exit.WELL


def _open_media(args: argparse.Namespace) -> Catalog:
    if os.path.isdir(args.media):
        raise UsageError(
            f"{args.media}: expected a catalog or one video, got a folder: make a catalog of it with "
            f"'framefeed scan {args.media} -o cat.parquet'"
        )
    try:
        if is_url(args.media):
            is_catalog = args.media.endswith(".parquet")
        else:
            with open(args.media, "rb") as file:
                is_catalog = file.read(len(_PARQUET)) == _PARQUET
    except OSError as error:
        raise UsageError(
            f"{args.media}: expected a catalog (from 'framefeed scan') or one video, but the file cannot be opened: "
            f"{error.strerror}"
        ) from error
    return open_catalog(args.media, args.root) if is_catalog else make_memory_catalog([args.media], make_limits(args))


def _describe_work(args: argparse.Namespace, catalog: Catalog, plan: EpochPlan) -> str:
    if not len(plan):
        return f"none of {format_count(len(catalog), 'file')} can be planned: there is nothing to store"
    _, height, width = plan.picture_shape
    frames = format_count(plan.frames_per_clip or 0, "frame")
    what = f"{describe_contents(catalog)}: {format_count(len(plan), 'clip')} of {frames} of {width}x{height}"
    if args.rates is None:
        return what
    size = SIZE if args.size is None else args.size
    is_random = args.start is None or args.start == "random"
    drawn = f", seed={args.seed}, shuffle={get_shuffle(args)!r} (here --shuffle)" if is_random else ""
    return (
        f"{what}, {format_count(args.epochs, 'epoch')}; for these frames, give plan_clips the same catalog, the same "
        f"rates and start, clips_per_video={args.clips_per_video}, size={size}{drawn}, and no crop"
    )


def _describe_build(args: argparse.Namespace, plan: EpochPlan, report: BuildReport, cache: FrameCache) -> Iterator[str]:
    """Describe the stored frames, those of a plan that a full cache has, and a next epoch that misses many."""
    present = f"; {report.frames_present:,} were stored before" if report.frames_present else ""
    failed = f"; {report.frames_failed:,} failed" if report.frames_failed else ""
    codec, info = cache.stats().codec, cache.info()
    with_codec = "" if codec is None or not report.frames_stored else f" with {codec}"
    frames = f"{format_count(report.frames_stored, 'frame')} stored{with_codec}, {format_bytes(report.bytes_written)}"
    yield f"{frames}, in {format_seconds(report.seconds)}{present}{failed}"
    if cache.stats().is_full:
        yield f"stopped: {report.stopped_because}"
        options = FillOptions(choose_form(plan, cache) == "output", TASK_BYTES)
        planned, _ = count_demand(plan, args.epochs, options)
        of_plan = report.frames_stored + report.frames_present
        # More frames of this plan may have been stored earlier: the search for them ended when the cache was full.
        least = "at least " if info.num_frames > of_plan else ""
        share = format_share(of_plan / max(1, planned))
        yield f"stored: {least}{of_plan:,} of {format_count(planned, 'frame')} of this plan ({share})"
    yield f"{args.folder}: {format_count(info.num_frames, 'frame')}, {format_bytes(info.bytes_on_disk)} on disk"
    if report.rest_clips:
        yield _describe_rest(report, cache.options.max_bytes, info.bytes_on_disk)
        return
    reuse = estimate_reuse(plan, choose_form(plan, cache) == "output", args.epochs)
    if reuse < _MIN_REUSE and report.stopped_because is None:
        cached = f"about {format_share(reuse)} of its frames in the cache"
        yield f"after this build, the next epoch finds {cached}: {suggest_remedy(args)}"


def _describe_rest(report: BuildReport, max_bytes: int | None, bytes_on_disk: int) -> str:
    clips, rest = format_count(report.clips, "clip"), f"the other {report.rest_clips:,}"
    filled = f"{clips} filled; by these, {rest}"
    if report.stopped_because is not None or report.failed:
        filled = f"of {clips}, not all frames are stored; by those that are, all that is missing"
    if report.rest_bytes is None or report.rest_seconds is None:
        if report.frames_present and report.stopped_because is None and not report.failed:
            return (
                f"{format_count(report.frames_present, 'frame')} of {clips} were stored before, and none now, so what "
                f"{rest} would take is not known: give a larger --clips, or none to fill all"
            )
        return f"no frame was stored now, so what {rest} would take is not known"
    lack, advice = "", "the same command without --clips fills them"
    if max_bytes is not None and report.rest_bytes > max_bytes - bytes_on_disk:
        lack = f", more than max_bytes leaves ({format_bytes(max(0, max_bytes - bytes_on_disk))})"
        advice = "give a larger --max-bytes"
    return (
        f"{filled} would take about {format_bytes(report.rest_bytes)}{lack}, and "
        f"{format_seconds(report.rest_seconds)} with {format_count(max(1, report.workers), 'worker')}: {advice}"
    )


# --- info, verify, clear ------------------------------------------------------------------------------


def _info(args: argparse.Namespace) -> int:
    with _opening_cache(args.folder) as cache:
        facts = collect_facts(cache)
    if args.json:
        print_json({"cache": args.folder, **facts})
    else:
        print_out(*describe_facts(args.folder, facts))
    return Exit.WELL


def _verify(args: argparse.Namespace) -> int:
    with _opening_cache(args.folder) as cache:
        total = cache.info().stored_bytes
        with tqdm(total=total, unit="B", unit_scale=True, file=sys.stderr, disable=None, leave=False) as bar:
            checked = cache.verify(bar.update)
            removed = cache.store.drop_damaged(checked) if args.repair else {}
    damaged = {name: format_count(len(numbers), "frame") for name, numbers in checked.damaged.items()}
    failures = [(name, "damaged", f"{frames} cannot be read") for name, frames in damaged.items()]
    failures += [(name, "refused", why) for name, why in checked.refused.items()]
    failed = [failure for failure in failures if failure[0] not in removed]
    if args.json:
        counts = {"files": checked.num_segments, "frames": checked.num_frames, "bytes": checked.num_bytes}
        print_json({"cache": args.folder, **counts, "damaged": checked.damaged, "removed": removed,
                  "failed": list_as_json(failed)})  # fmt: skip
    else:
        what = f"{format_count(checked.num_frames, 'frame')} in {format_count(checked.num_segments, 'file')}"
        damage = "no damage found"
        num_damaged, num_refused = sum(map(len, checked.damaged.values())), len(checked.refused)
        if num_damaged or num_refused:
            refused = f"; {format_count(num_refused, 'file')} cannot be used" if num_refused else ""
            damage = f"{format_count(num_damaged, 'damaged frame')}{refused}"
        print_out(f"{args.folder}: {what} checked, {format_bytes(checked.num_bytes)}: {damage}")
        if removed:
            freed = f"{format_count(len(removed), 'file')} removed, {format_bytes(sum(removed.values()))} freed"
            print_out(f"{freed}; the next build or epoch stores their frames again")
            print_out(*(f"  {name}" for name in sorted(removed)))
        elif failed and not args.repair:
            print_out(
                f"'framefeed cache verify {args.folder} --repair' removes damaged files; a build stores them again"
            )
        print_failed(failed)
    return Exit.FAILED_FILES if failed else Exit.WELL


def _clear(args: argparse.Namespace) -> int:
    with _opening_cache(args.folder) as cache:
        before = cache.info()
        freed = cache.clear()
        left = cache.info()
    if args.json:
        print_json({"cache": args.folder, "frames": before.num_frames, "bytes_freed": freed, "left": left.unfinished})
    else:
        print_out(f"{args.folder}: {format_count(before.num_frames, 'frame')} removed, {format_bytes(freed)} freed")
        if left.unfinished:
            print_out(f"not removed: {format_count(len(left.unfinished), 'file')} that another process is writing")
    return Exit.WELL


@contextmanager
def _opening_cache(folder: str) -> Iterator[FrameCache]:
    """Open a cache that exists."""
    if not os.path.isdir(folder):
        kind = name_special_kind(folder) or "a file"
        raise UsageError(f"{folder}: {f'is {kind}, not a folder' if os.path.exists(folder) else 'no such folder'}")
    with FrameCache(folder) as cache:
        info = cache.info()
        is_ours = info.num_segments or info.refused or info.unfinished
        if not is_ours and (others := sorted({*os.listdir(folder)} - _OWN_FILES)):
            shown = ", ".join(others[:_MAX_NAMES]) + (", ..." if len(others) > _MAX_NAMES else "")
            raise UsageError(
                f"{folder}: expected the folder of a frame cache (from 'framefeed cache build'), but it has no files "
                f"of a cache, only {shown}"
            )
        yield cache
