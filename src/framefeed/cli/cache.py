"""``framefeed cache``: build, inspect, verify and clear a cache of frames.

Contents of a cache, as plain values and in words.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

from tqdm import tqdm

from framefeed._units import counted, readable_bytes
from framefeed.cache import (
    FILE_NAME,
    GROUP_BYTES,
    KEY_VERSION,
    BuildReport,
    CacheEstimate,
    FrameCache,
    Gathering,
    Verified,
    build,
    estimate,
    outlook,
)
from framefeed.catalog import Catalog
from framefeed.catalog.scan import catalog_of
from framefeed.cli._arguments import limits_of
from framefeed.cli._io import Exit, Failed, as_json, failures_of_plan, list_failed, say, say_json, table
from framefeed.cli._plans import (
    SIZE,
    add_cache_arguments,
    add_plan_arguments,
    cache_of,
    contents,
    found_next,
    is_by_output,
    num_workers,
    opened,
    percent,
    planned,
    quietly,
    remedy,
    say_trouble,
    shuffle_of,
)
from framefeed.cli.scan import as_hours
from framefeed.decode import decoder_named, recipe_of
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import kind_at
from framefeed.plan import EpochPlan

_SHOWN = 8
_OURS = ("pyav", "still")
_UNKNOWN = "unknown"


def facts_of(cache: FrameCache) -> dict[str, Any]:
    """Describe the contents of a cache as plain values."""
    info = cache.info()
    streams = [_stream(text) for text in info.descriptions.values()]
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


def _stream(text: str) -> dict[str, Any]:
    """Read the description of a stream, which is not trusted."""
    try:
        described = json.loads(text)
        recipe, source = described["recipe"], described["source"]
        decoder, form = str(recipe["decoder"]), str(recipe["form"])
        known = {"source": (str(source["bytes"]), str(source["fingerprint"])), "form": form, "decoder": decoder}
        return {**known, "is_read": described["schema"] == KEY_VERSION and _is_current(decoder)}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {"source": (_UNKNOWN, text), "form": _UNKNOWN, "decoder": _UNKNOWN, "is_read": False}


def _is_current(recipe: str) -> bool:
    """Whether a decoder with this recipe is here; of those of other packages it is unknown, and they pass."""
    for name in _OURS:
        if recipe.startswith((f"{name} ", f"{name},")):
            # Theirs is the same for every source.
            return recipe == recipe_of(decoder_named(name), cast(FrameIndex, None))
    return True


def sentences(folder: str, facts: Mapping[str, Any]) -> list[str]:
    """The same, for people."""
    lines = [_size(folder, facts)]
    if facts["kinds"]:
        rows = [("stored with", "pictures", "frames", "size", "per frame")]
        rows += [_kind(kind) for kind in facts["kinds"][:_SHOWN]]
        lines += table(rows, "llrrr", indent="  ")
        if len(facts["kinds"]) > _SHOWN:
            lines.append(f"  and {len(facts['kinds']) - _SHOWN:,} more kinds")
    lines += [_decoded_by(recipe, count) for recipe, count in facts["made_by"].items()]
    for recipe, count in facts["not_read_any_more"].items():
        lines.append(
            f"not used any more: {counted(count, 'stream')} by {recipe}, which is not the version that is installed"
        )
    if facts["unfinished"]:
        lines.append(
            f"unfinished: {counted(len(facts['unfinished']), 'file')}, being written or left by a killed process"
        )
    lines += [f"cannot be used: {name}: {why}" for name, why in facts["refused"].items()]
    return lines


def _size(folder: str, facts: Mapping[str, Any]) -> str:
    if not facts["frames"]:
        return f"{folder}: no frames"
    what = f"{counted(facts['frames'], 'frame')} of {counted(facts['sources'], 'source')}"
    disk = f"{counted(facts['files'], 'file')}, {readable_bytes(facts['bytes_on_disk'])}"
    times = f"{facts['raw_bytes'] / max(1, facts['stored_bytes']):.1f}"
    more = "" if times == "1.0" else f" ({times} times as much)"
    return f"{folder}: {what} in {disk}; without compression: {readable_bytes(facts['raw_bytes'])}{more}"


def _decoded_by(recipe: str, count: int) -> str:
    library = recipe.removeprefix("still, ")
    what = counted(count, "video stream" if library == recipe else "picture stream")
    return f"{what} decoded by {library}"


def _kind(kind: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    pixel_format, size, *_ = (*str(kind["layout"]).split(), "", "")
    pictures = f"{size} {'RGB' if pixel_format in ('rgbp', 'rgb24') else pixel_format}"
    a_frame = readable_bytes(kind["bytes"] / max(1, kind["frames"]))
    return kind["codec"], pictures, f"{kind['frames']:,}", readable_bytes(kind["bytes"]), a_frame


_PARQUET = b"PAR1"
_MOST = 0.95
_MOST_NAMES = 3
_OWN_FILES = frozenset({"lock", FILE_NAME})
"""Besides the frames: empty files that processes lock."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="what to do", metavar="ACTION")
    building = _action(actions, "build", "decode the frames of a plan in advance, and store them", _build)
    building.add_argument("media", metavar="CATALOG|MEDIA",
                          help="catalog from 'framefeed scan', such as cat.parquet; or one video, such as my.mp4",
                          )  # fmt: skip
    building.add_argument("folder", metavar="CACHE", help="folder to store frames in; created if missing")
    add_plan_arguments(building, every_frame=True)
    add_cache_arguments(building)
    building.add_argument(
        "--no-estimate", dest="estimate", action="store_false", help="do not estimate sizes and speeds first"
    )
    others = [
        _action(actions, "info", "show what is in a cache", _info),
        _action(actions, "verify", "read all stored frames, and list the damaged ones", _verify),
        _action(actions, "clear", "remove all stored frames; other files in the folder stay", _clear),
    ]
    for action in others:
        action.add_argument("folder", metavar="CACHE", help="the cache folder")
    others[1].add_argument("--repair", action="store_true",
                           help="remove files that are incomplete or have damaged frames, so that their frames can be "
                           "stored again")  # fmt: skip
    for action in (building, *others):
        action.add_argument("--json", action="store_true", help="print the result as JSON")


def _action(actions: Any, name: str, purpose: str, act: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}."
    )
    parser.set_defaults(act=act)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    act = getattr(args, "act", None)
    if act is None:
        raise UsageError("expected an action: build, info, verify or clear ('framefeed cache --help' describes them)")
    return int(act(args))


# --- build --------------------------------------------------------------------------------------------


def _build(args: argparse.Namespace) -> int:
    given = cache_of(args, args.folder)
    given.info()  # A folder that cannot be used is said before anything is decoded.
    catalog = _catalog(args)
    plan = planned(args, catalog)
    document: dict[str, Any] = {"cache": args.folder, "media": args.media}
    if not args.json:
        say(_announced(args, catalog, plan))
    with quietly(), given:
        if not len(plan):
            return _closed(args, plan, given, document)
        expected = _estimated(args, plan, given)
    if expected is not None and expected.codec and args.max_bytes is None:
        args.codec = expected.codec  # With a bound "auto" chooses once more, and revises its choice while it fills.
    with quietly(), cache_of(args, args.folder) as cache:
        report = _built(args, plan, cache)
        document |= {"estimate": expected and _plain(expected), "build": _done(report)}
        if not args.json:
            wanted = _num_wanted(args, plan, cache, expected) if cache.stats().is_full else 0
            say(*_sentences(args.folder, report, cache, wanted), *_prospect(args, plan, cache))
        return _closed(args, plan, cache, document, report.failed)


def _closed(
    args: argparse.Namespace,
    plan: EpochPlan,
    cache: FrameCache,
    document: dict[str, Any],
    not_stored: Sequence[Failed] = (),
) -> Exit:
    """Say what is in the cache, what failed, and how it ends."""
    failed = [*failures_of_plan(plan), *not_stored]
    if args.json:
        say_json({**document, **facts_of(cache), "failed": as_json(failed)})
    else:
        list_failed(failed, known=len(plan.catalog.failed_rows))
    if cache.stats().trouble and not cache.stats().is_full:
        say_trouble(cache)
        return Exit.MISTAKE
    return Exit.FAILED_FILES if failed else Exit.WELL


def _catalog(args: argparse.Namespace) -> Catalog:
    if os.path.isdir(args.media):
        raise UsageError(
            f"{args.media}: expected a catalog or one video, got a folder: make a catalog of it with "
            f"'framefeed scan {args.media} -o cat.parquet'"
        )
    try:
        with open(args.media, "rb") as file:
            is_catalog = file.read(len(_PARQUET)) == _PARQUET
    except OSError as error:
        raise UsageError(
            f"{args.media}: expected a catalog (from 'framefeed scan') or one video, but the file cannot be opened: "
            f"{error.strerror}"
        ) from error
    return opened(args.media, args.root) if is_catalog else catalog_of([args.media], limits_of(args))


def _announced(args: argparse.Namespace, catalog: Catalog, plan: EpochPlan) -> str:
    if not len(plan):
        return f"none of {counted(len(catalog), 'file')} can be read: there is nothing to store"
    _, height, width = plan.picture_shape
    frames = counted(plan.frames_per_clip or 0, "frame")
    what = f"{contents(catalog)}: {counted(len(plan), 'clip')} of {frames} of {width}x{height}"
    if args.rates is None:
        return what
    return f"{what}, {counted(args.epochs, 'epoch')}; {_to_find(args)}"


def _to_find(args: argparse.Namespace) -> str:
    """Say how to plan the clips whose frames are stored."""
    size = SIZE if args.size is None else args.size
    is_random = args.start is None or args.start == "random"
    drawn = f", seed={args.seed}, shuffle={shuffle_of(args)!r} (here --shuffle)" if is_random else ""
    return (
        f"for these frames, give plan_clips the same catalog, the same rates and start, "
        f"clips_per_video={args.clips_per_video}, size={size}{drawn}, and no crop"
    )


def _estimated(args: argparse.Namespace, plan: EpochPlan, cache: FrameCache) -> CacheEstimate | None:
    if not args.estimate:
        return None
    expected = estimate(plan, cache, workers=num_workers(args), epochs=args.epochs, limits=limits_of(args))
    if not args.json:
        say(*str(expected).splitlines(), "")
    return expected


def _built(args: argparse.Namespace, plan: EpochPlan, cache: FrameCache) -> BuildReport:
    try:
        return build(plan, cache, workers=num_workers(args), epochs=args.epochs, limits=limits_of(args))
    except KeyboardInterrupt:
        message = "interrupted; stored frames are kept: run the same command again to continue"
        raise KeyboardInterrupt(message) from None


def _part(report: BuildReport, cache: FrameCache, wanted: int) -> str:
    """Say which part of a plan is in a cache that is full."""
    there, info = report.frames_stored + report.frames_present, cache.info()
    # Frames stored earlier may be of this plan too: the search for them ended when nothing more could be added.
    least = "at least " if info.num_frames > there else ""
    return f"stored: {least}{there:,} of {counted(wanted, 'frame')} of this plan ({percent(there / max(1, wanted))})"


def _sentences(folder: str, report: BuildReport, cache: FrameCache, wanted: int) -> Iterator[str]:
    present = f"; {report.frames_present:,} were stored before" if report.frames_present else ""
    failed = f"; {report.frames_failed:,} failed" if report.frames_failed else ""
    codec = cache.stats().codec
    with_codec = "" if codec is None or not report.frames_stored else f" with {codec}"
    frames = f"{counted(report.frames_stored, 'frame')} stored{with_codec}, {readable_bytes(report.bytes_written)}"
    yield f"{frames}, in {as_hours(report.seconds)}{present}{failed}"
    if cache.stats().is_full:
        yield f"stopped: {report.stopped_because}"
        yield _part(report, cache, wanted)
    info = cache.info()
    yield f"{folder}: {counted(info.num_frames, 'frame')}, {readable_bytes(info.bytes_on_disk)} on disk"


def _num_wanted(args: argparse.Namespace, plan: EpochPlan, cache: FrameCache, expected: CacheEstimate | None) -> int:
    """Different frames of a plan."""
    if expected is not None:
        return expected.outlook.frames
    return outlook(plan, args.epochs, Gathering(is_by_output(plan, cache), GROUP_BYTES)).frames


def _prospect(args: argparse.Namespace, plan: EpochPlan, cache: FrameCache) -> Iterator[str]:
    """Say what the epoch after those that were built will find."""
    share = found_next(plan, cache, args.epochs, limits_of(args))
    if share is not None and share < _MOST:
        found = f"about {percent(share)} of its frames in the cache"
        yield f"after this build, the next epoch finds {found}: {remedy(args)}"


def _plain(expected: CacheEstimate) -> dict[str, Any]:
    return {**asdict(expected), "fits": expected.fits}


def _done(report: BuildReport) -> dict[str, Any]:
    done = {name: value for name, value in asdict(report).items() if name != "failed"}
    return {**done, "is_complete": report.is_complete}


# --- info, verify, clear ------------------------------------------------------------------------------


def _info(args: argparse.Namespace) -> int:
    with _existing(args.folder) as cache:
        facts = facts_of(cache)
    if args.json:
        say_json({"cache": args.folder, **facts})
    else:
        say(*sentences(args.folder, facts))
    return Exit.WELL


def _verify(args: argparse.Namespace) -> int:
    with _existing(args.folder) as cache, _bar(cache.info().stored_bytes) as shown:
        checked = cache.verify(shown)
        removed = cache.store.drop_damaged(checked) if args.repair else {}
    failed = [each for each in _failures(checked) if each[0] not in removed]
    if args.json:
        counts = {"files": checked.num_segments, "frames": checked.num_frames, "bytes": checked.num_bytes}
        say_json({"cache": args.folder, **counts, "damaged": checked.damaged, "removed": removed,
                  "failed": as_json(failed)})  # fmt: skip
    else:
        what = f"{counted(checked.num_frames, 'frame')} in {counted(checked.num_segments, 'file')}"
        say(f"{args.folder}: {what} checked, {readable_bytes(checked.num_bytes)}: {_verdict(checked)}")
        say(*_remedy(args, failed, removed))
        list_failed(failed)
    return Exit.FAILED_FILES if failed else Exit.WELL


def _verdict(checked: Verified) -> str:
    damaged, refused = sum(map(len, checked.damaged.values())), len(checked.refused)
    if not damaged and not refused:
        return "no damage found"
    return counted(damaged, "damaged frame") + (f"; {counted(refused, 'file')} cannot be used" if refused else "")


def _remedy(args: argparse.Namespace, failed: list[Failed], removed: dict[str, int]) -> Iterator[str]:
    if removed:
        freed = f"{counted(len(removed), 'file')} removed, {readable_bytes(sum(removed.values()))} freed"
        yield f"{freed}; the next build or epoch stores their frames again"
        yield from (f"  {name}" for name in sorted(removed))
    elif failed and not args.repair:
        yield f"'framefeed cache verify {args.folder} --repair' removes damaged files; a build stores them again"


def _failures(checked: Verified) -> list[Failed]:
    damaged = [
        (name, "damaged", f"{counted(len(numbers), 'frame')} cannot be read")
        for name, numbers in checked.damaged.items()
    ]
    return damaged + [(name, "refused", why) for name, why in checked.refused.items()]


def _clear(args: argparse.Namespace) -> int:
    with _existing(args.folder) as cache:
        before = cache.info()
        freed = cache.clear()
        left = cache.info()
    if args.json:
        say_json({"cache": args.folder, "frames": before.num_frames, "bytes_freed": freed, "left": left.unfinished})
    else:
        say(f"{args.folder}: {counted(before.num_frames, 'frame')} removed, {readable_bytes(freed)} freed")
        if left.unfinished:
            say(f"not removed: {counted(len(left.unfinished), 'file')} that another process is writing")
    return Exit.WELL


@contextmanager
def _existing(folder: str) -> Iterator[FrameCache]:
    """Open a cache that is there.

    Raises:
        UsageError: There is none.
    """
    if not os.path.isdir(folder):
        kind = kind_at(folder) or "a file"
        raise UsageError(f"{folder}: {f'is {kind}, not a folder' if os.path.exists(folder) else 'no such folder'}")
    with FrameCache(folder) as cache:
        info = cache.info()
        is_ours = info.num_segments or info.refused or info.unfinished
        if not is_ours and (others := sorted({*os.listdir(folder)} - _OWN_FILES)):
            shown = ", ".join(others[:_MOST_NAMES]) + (", ..." if len(others) > _MOST_NAMES else "")
            raise UsageError(
                f"{folder}: expected the folder of a frame cache (from 'framefeed cache build'), but it has no files "
                f"of a cache, only {shown}"
            )
        yield cache


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], object]]:
    hidden = not sys.stderr.isatty()
    with tqdm(total=total, unit="B", unit_scale=True, file=sys.stderr, disable=hidden, leave=False) as bar:
        yield bar.update
