"""What ``bench all`` measures: a program a row, each of which runs in a process of its own and reports as it goes."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed._names import is_url, make_absolute
from framefeed._units import format_count
from framefeed.bench._isolated import Report
from framefeed.bench._runner import Interval, median_interval
from framefeed.bench.advice._recommend import USED_SHARE
from framefeed.bench.cache import forget, measure_disk
from framefeed.cache import FrameCache, build
from framefeed.catalog import Catalog
from framefeed.decode import ClipSlot, Decoder, allocate_pixels, as_decoder
from framefeed.errors import FramefeedError, MissingMedia
from framefeed.index import FrameIndex, plan_runs, predict_seconds
from framefeed.media import MediaSource
from framefeed.parallel import SAYS_NOTHING_OF_FILES, ordered_map
from framefeed.plan import (
    ClipRule,
    Dense,
    EpochPlan,
    PlannedClip,
    Rates,
    Uniform,
    iterate_takes,
    plan_clips,
    plan_requests,
)
from framefeed.proxies import (
    LEAST_GAIN,
    SAMPLED_FILES,
    Original,
    ProxySettings,
    StaysItself,
    list_originals,
    make_proxy,
)
from framefeed.request import DecodeRequest, OutputSpec
from framefeed.scanning import list_roots, scan

Options = Mapping[str, Any]
SAMPLED_VIDEOS, SAMPLED_PICTURES = 24, 96
MOST_SCANNED = 1024
_SCANNED_STEPS = 4, 24, MOST_SCANNED
"""Files; the time of the first says how many more there is time for."""
_SHOWN_ERRORS = 3
SCANNED, SAMPLE = "scanned.parquet", "sample.parquet"
_CACHE_BYTES = 600 * 10**6
"""Of frames that are stored to measure a cache, at most."""
MOST_ROUNDS = 9
_NEAR_FRAMES = 16
"""Of a run that a cache of every frame has together on disk."""
_FILLED_FRAMES = 64
"""Stored together, so that what a call takes by itself weighs little."""
_LEAST_READ, _LEAST_FILES = 4 * 10**6, 16
"""Less bytes, of fewer files, say nothing of the storage."""
_READ_BYTES, _WRITTEN_BYTES = 256 * 10**6, 64 * 10**6
"""To measure the storage: of files at most, and of a new one."""
_CHUNK = 1 << 20
_LINKS = 12
"""Names of one file, more than the open files that a thread keeps: with many files, each clip opens one."""
_SAMPLED_PROXIES = 4
_PROXY_TURNS = 4
_TIMED_CLIPS = 6
"""Of each file that `make_proxies` samples, about."""
_NOISE, _OTHER_FILES = 1.1, 1.15
"""Factors between two measurements of a gain, and between the gains of two files, where one was measured."""


def make_rule(options: Options, kind: str) -> ClipRule:
    """Make the rule of the clips: the user's, else 16 frames 4 apart of a video, or a picture."""
    if options["rates"] is not None:
        start = options["start"]
        rates = [(Fraction(fps), count) for fps, count in options["rates"]]
        return Rates(rates, start if start == "random" else Fraction(start))
    return Uniform(1) if kind == "image" else Dense(16, stride=4)


def write_rule(options: Options, kind: str) -> str:
    """Write the rule as Python does."""
    if options["rates"] is None:
        return "ff.Uniform(1)" if kind == "image" else "ff.Dense(16, stride=4)"
    rates = ", ".join(f"({_write_number(fps)}, {count})" for fps, count in options["rates"])
    start = "" if options["start"] == "random" else f", start={_write_number(options['start'])}"
    return f"ff.Rates([{rates}]{start})"


def _write_number(text: str) -> str:
    number = Fraction(text)
    return str(int(number)) if number.denominator == 1 else repr(float(number))


def make_sample_plan(options: Options, catalog: Catalog, kind: str) -> EpochPlan:
    """Plan a clip of each file, in the order of the catalog."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return plan_clips(
            catalog, make_rule(options, kind), seed=0, shuffle=False, size=tuple(options["size"]), on_damaged="deliver"
        )


def open_sample(options: Options) -> tuple[Catalog, EpochPlan]:
    """Open the catalog of the sampled files, and their clips."""
    catalog = Catalog.open(Path(options["work"], SAMPLE), options["root"])
    return catalog, make_sample_plan(options, catalog, options["kind"])


def as_json(interval: Interval, digits: int = 5) -> dict[str, float]:
    """Write a median with its interval."""
    numbers = {name: round(getattr(interval, name), digits) for name in ("median", "low", "high")}
    return {**numbers, "rounds": interval.count}


def measure_files(options: Options, report: Report) -> None:
    """Scan the media, or as many of them as there is time for, and choose the sample."""
    rng = np.random.default_rng(0)
    if options["is_catalog"]:
        whole = Catalog.open(options["media"][0], options["root"])
        count = min(len(whole), MOST_SCANNED)
        scanned = whole.take(np.sort(rng.permutation(len(whole))[:count]))
        report(_choose_sample(options, scanned, len(whole)))
        return
    until = time.perf_counter() + options["row_seconds"]
    paths = [make_absolute(path) for path in list_roots(options["media"]).paths if not is_url(path)]
    if not paths:
        raise MissingMedia(f"{', '.join(options['media'])}: no video or picture is in it")
    drawn = rng.permutation(len(paths)).tolist()

    def scan_some(count: int) -> None:
        chosen = [paths[number] for number in sorted(drawn[:count])]
        seconds = max(1.0, until - time.perf_counter())
        scanned = scan(chosen, out=Path(options["work"], SCANNED), progress=False, deadline_seconds=seconds)
        # Of an archive or a table each member is a file.
        report(_choose_sample(options, scanned, round(len(scanned) * len(paths) / len(chosen))))

    done, files_per_second, failure = 0, float("inf"), None
    for step in _SCANNED_STEPS:
        began = time.perf_counter()
        # In half of the time that is left, for the next files may be larger; more if none could be read so far.
        more = max(done if failure else 0, int(min(MOST_SCANNED, files_per_second * max(0.0, until - began) / 2)))
        count = min(len(paths), step, done + more) if done else min(len(paths), step)
        if count == done:
            break
        try:
            scan_some(count)
        except MissingMedia as error:
            failure = error
        else:
            failure = None
        files_per_second, done = (count - done) / max(1e-6, time.perf_counter() - began), count
    if failure is not None:
        raise failure


def _choose_sample(options: Options, scanned: Catalog, files: int) -> dict[str, Any]:
    """Choose the kind of media that most files are, and files of all their kinds; save the catalog of these."""
    failed = [(row["source"], row["error_type"], row["error"]) for row in scanned.errors.table.to_pylist()]
    kinds = scanned.table["kind"].take(scanned.usable_rows).to_pylist()
    kind = "video" if 2 * kinds.count("video") >= len(kinds) else "image"
    chosen = scanned.filter(kind=kind) if kinds else scanned
    plan = make_sample_plan(options, chosen, kind) if len(chosen) else None
    if plan is None or not len(plan):
        first = f": {failed[0][2]}" if failed else ""
        excluded = f": {plan.excluded[0][1]}" if plan is not None and plan.excluded else ""
        raise MissingMedia(f"none of {format_count(len(scanned), 'file')} can be planned{first or excluded}")
    usable = chosen.take(sorted({plan[position].row for position in range(len(plan))}))
    originals = list_originals(usable, options["short_side"])
    sample = usable.take(choose_spread(originals, SAMPLED_VIDEOS if kind == "video" else SAMPLED_PICTURES))
    sample.to_parquet(Path(options["work"], SAMPLE))
    share = files / len(scanned)
    counted: dict[str, int] = {}
    for each in originals:
        counted[each.kind] = counted.get(each.kind, 0) + 1
    clips = len(usable) * share * options["clips_per_video"]
    described = plan.describe()
    return {
        "files": files,
        "scanned": len(scanned),
        "failed": len(failed),
        "errors": failed[:_SHOWN_ERRORS],
        "kind": kind,
        "clips": max(1, round(clips)),
        "frames": round(sum(each.num_frames for each in originals) * share),
        "bytes": round(sum(each.bytes for each in originals) * share),
        "sampled": len(sample),
        "usable": len(usable),
        "left_out": len(kinds) - len(usable),
        "kinds": dict(sorted(counted.items(), key=lambda item: -item[1])),
        "pixels": sum(each.work for each in originals) * share,
        "larger": sum(each.reason is None for each in originals),
        "predicted_seconds": described.predicted_cpu_seconds / max(1, described.clips),
        "frames_per_clip": plan.frames_per_clip or 1,
        "rule": write_rule(options, kind),
        "has_random_draws": plan.clips.is_random,
    }


def choose_spread(originals: Sequence[Original], count: int) -> list[int]:
    """Choose rows at even distances among files sorted by kind and work; each beginning of the list is spread too."""
    ordered = sorted(originals, key=lambda each: (each.kind, each.work, each.bytes))
    count = min(count, len(ordered))
    rows = [ordered[(2 * number + 1) * len(ordered) // (2 * count)].row for number in range(count)]
    bits = max(1, (count - 1).bit_length())
    return [rows[at] for at in sorted(range(count), key=lambda at: f"{at:0{bits}b}"[::-1])]


@dataclass(slots=True)
class _Timed:
    """CPU seconds of a clip of one file, round by round."""

    kind: str
    seconds: list[float]


def measure_decoding(options: Options, report: Report) -> None:
    """Decode a clip of each file of the sample, round after round, in one thread."""
    until = time.perf_counter() + options["row_seconds"]
    catalog, plan = open_sample(options)
    originals = {each.row: each for each in list_originals(catalog, options["short_side"])}
    decoder, timed, failed, rounds = as_decoder("auto", None), dict[int, _Timed](), dict[int, str](), list[float]()
    decoded = plan.describe().decoded_frames_per_delivered_frame
    shares = np.minimum(1.0, decoded * options["frames_per_clip"] / np.maximum(1, catalog.num_frames))
    constant = {
        "bytes_per_clip": round(float(np.mean(shares * catalog.table["bytes"].to_numpy()))),
        "decoded_frames_per_delivered": round(decoded, 3),
    }

    def describe(factor: float) -> dict[str, Any]:
        return _describe_decoding(options, timed, rounds, failed, factor) | constant

    def compare() -> float:
        return compare_predictions(options, catalog, plan, list(timed))

    for number in range(MOST_ROUNDS + 1):
        drawn = plan.with_epoch(number)
        for position in range(len(plan)):
            if timed and time.perf_counter() > until:
                report(describe(compare()))
                return
            if position in failed:
                continue
            row = plan[position].row
            source, index = catalog.media_source(row), catalog.frame_index(row)
            try:
                takes = iterate_takes(drawn[position])
                seconds = sum(_time(decoder, source, index, take.indices, take.output) for take in takes)
            except SAYS_NOTHING_OF_FILES:
                raise
            except FramefeedError as error:
                failed[position] = str(error)
                continue
            own = timed.setdefault(position, _Timed(originals[row].kind, []))
            # Of the first round, in which all is new to the processor and the system, only what no other has is kept.
            own.seconds = [seconds] if number == 1 else [*own.seconds, seconds]
            if number == 0:
                report(describe(1.0))
        if not timed:
            raise MissingMedia(f"no clip of {format_count(len(plan), 'file')} can be decoded: {failed[0]}")
        if number:
            rounds.append(fmean(each.seconds[-1] for each in timed.values()))
        report(describe(compare()))


def decode_frames(decoder: Decoder, source: MediaSource, index: FrameIndex, ordinals: IntArray, output: Any) -> None:
    """Decode some frames, and throw them away."""
    shape = (len(ordinals), *output.shape(*index.stream.displayed))
    pixels = allocate_pixels(shape, source.name, source=source.name)
    decoder.decode(source, index, [ClipSlot(ordinals.astype(np.int64), output, pixels)]).raise_first()


def _describe_decoding(
    options: Options,
    timed: Mapping[int, _Timed],
    rounds: Sequence[float],
    failed: Mapping[int, str],
    factor: float,
) -> dict[str, Any]:
    means = list(rounds) or [fmean(each.seconds[-1] for each in timed.values())]
    kinds: dict[str, list[float]] = {}
    for each in timed.values():
        kinds.setdefault(each.kind, []).append(median(each.seconds))
    return {
        "clip_cpu_seconds": as_json(median_interval(means).scale(factor), 7),
        "factor": factor,
        "clips": max(timed) + 1,
        "failed": list(failed.values())[:_SHOWN_ERRORS],
        "kinds": [
            {"kind": kind, "sampled": len(values), "files": options["kinds"].get(kind, 0), "seconds": fmean(values)}
            for kind, values in sorted(kinds.items(), key=lambda item: -options["kinds"].get(item[0], 0))
        ],
    }


def compare_predictions(options: Options, sample: Catalog, plan: EpochPlan, positions: Sequence[int]) -> float:
    """Compare the predicted cost of a clip of all scanned files with that of the sampled clips."""
    if options["usable"] <= len(positions):
        return 1.0
    predicted = []
    for position in positions:
        for take in iterate_takes(plan[position]):
            index = sample.frame_index(plan[position].row)
            predicted.append(predict_seconds(index, plan_runs(index, take.indices)))
    seconds: float = options["predicted_seconds"]
    return seconds / fmean(predicted)


def measure_storage(options: Options, report: Report) -> None:
    """Read the sampled files and a new one, when the system has forgotten them."""
    until = time.perf_counter() + options["row_seconds"] / 2
    catalog, _ = open_sample(options)
    measured: dict[str, Any] = {
        "media_bytes_per_second": None,
        "disk_bytes_per_second": None,
        "disk_written_per_second": None,
        "why": "",
    }
    names = [source.name for source in map(catalog.media_source, range(len(catalog))) if os.path.isfile(source.name)]
    nbytes, seconds, paths = 0, 0.0, iter(names)
    while nbytes < _READ_BYTES and time.perf_counter() < until and (group := list(islice(paths, options["cores"]))):
        measured["why"] = forget(group) or ""
        if measured["why"]:
            break
        began = time.perf_counter()
        with ordered_map(partial(_read, until=until), group, workers=len(group), max_in_flight=len(group)) as counts:
            nbytes += sum(counts)
        seconds += time.perf_counter() - began
    if nbytes > _LEAST_READ or len(names) >= _LEAST_FILES:
        measured["media_bytes_per_second"] = round(nbytes / max(1e-6, seconds))
    elif not measured["why"]:
        measured["why"] = "the sampled files are too small to tell"
    report(measured)
    if options["disk_work"] is None:
        return
    speeds = measure_disk(os.path.join(options["disk_work"], "written"), _WRITTEN_BYTES)
    if isinstance(speeds, str):
        measured["why"] = measured["why"] or speeds
    else:
        measured["disk_bytes_per_second"] = round(speeds["read"] * 10**6)
        measured["disk_written_per_second"] = round(speeds["write"] * 10**6)
    report(measured)


def _read(path: str, until: float) -> int:
    done = 0
    with open(path, "rb", buffering=0) as file:
        while (part := len(file.read(_CHUNK))) and time.perf_counter() < until:
            done += part
    return done


def measure_cache(options: Options, report: Report) -> None:
    """Store the frames of some clips; where each epoch draws others, all from the first to the last of a clip."""
    until = time.perf_counter() + options["row_seconds"] * 2 / 3
    catalog, plan = open_sample(options)
    height, width = options["size"]
    frame_bytes = 3 * height * width
    is_random, space = options["has_random_draws"], options["space_bytes"]
    # A file's clips that are not drawn are one, and a short file's repeat frames.
    distinct = fmean(len(np.unique(plan[position].indices)) for position in range(len(plan)))
    total = options["frames"] if is_random else round(options["clips"] / options["clips_per_video"] * distinct)
    codec = "raw" if total * frame_bytes <= space else "lz4"
    cache = FrameCache(options["cache"], codec=codec)
    stored, written, seconds, clips, failure = 0, 0, 0.0, 0, ""
    while clips < len(plan):
        requests, asked = list[DecodeRequest](), 0
        while clips + len(requests) < len(plan) and asked < _FILLED_FRAMES:
            clip = plan[clips + len(requests)]
            ordinals = np.unique(clip.indices)
            if is_random:
                ordinals = _surround(ordinals, len(catalog.frame_index(clip.row)), _CACHE_BYTES // frame_bytes)
            requests.append(DecodeRequest(catalog[clip.row], indices=ordinals))
            asked += len(ordinals)
        if clips and (time.perf_counter() > until or (stored + asked) * frame_bytes > min(_CACHE_BYTES, space)):
            break
        began = time.process_time()
        filled = build(plan_requests(requests, size=(height, width), unequal=True), cache, workers=0, progress=False)
        if filled.stopped_because:
            raise MissingMedia(filled.stopped_because)
        stored, written = stored + filled.frames_stored + filled.frames_present, written + filled.bytes_written
        seconds, clips = seconds + time.process_time() - began, clips + len(requests)
        if not stored:
            failure = filled.failed[0][2] if filled.failed else ""
            continue
        ratio = written / (stored * frame_bytes)
        report({
            "codec": codec,
            "holds": "every frame" if is_random else "clips",
            "clips": clips,
            "bytes": round(total * frame_bytes * ratio),
            "ratio": ratio,
            "make_seconds": max(
                seconds / stored * total / (USED_SHARE * options["cores"]),
                total * frame_bytes * ratio / (options["disk_written_per_second"] or math.inf),
            ),
        })  # fmt: skip
    if not stored:
        raise MissingMedia(f"no frame of {format_count(clips, 'clip')} could be stored: {failure}")


def _surround(ordinals: IntArray, count: int, most: int) -> IntArray:
    """All frames from the first to the last; where these are too many, those near each."""
    whole = np.arange(ordinals[0], ordinals[-1] + 1)
    near = np.unique(ordinals[:, None] // _NEAR_FRAMES * _NEAR_FRAMES + np.arange(_NEAR_FRAMES))
    return whole if len(whole) <= most else near[near < count]


def measure_proxies(options: Options, report: Report) -> None:
    """Make proxies of what the clips of some files need, and decode these clips from both."""
    until = time.perf_counter() + options["row_seconds"]
    catalog, plan = open_sample(options)
    settings = ProxySettings(options["short_side"])
    originals = {each.row: each for each in list_originals(catalog, settings.short_side)}
    measured = list[dict[str, float]]()
    most = _SAMPLED_PROXIES if options["kind"] == "video" else SAMPLED_PICTURES // 4
    reasons, failure = dict[str, int](), ""
    for position in range(min(most, len(plan))):
        if measured and time.perf_counter() > until:
            break
        original = originals[plan[position].row]
        try:
            try:
                measured.append(_try_proxy(options, catalog, original, plan[position], settings))
            except StaysItself as stays:
                measured.append(_time_original(catalog, original, plan[position]))
                reasons[str(stays)] = reasons.get(str(stays), 0) + 1
        except SAYS_NOTHING_OF_FILES:
            raise
        except FramefeedError as error:
            failure = str(error)
            continue
        report(_describe_proxies(options, measured, reasons))
    if not measured:
        raise MissingMedia(failure)


def _try_proxy(
    options: Options, catalog: Catalog, original: Original, clip: PlannedClip, settings: ProxySettings
) -> dict[str, float]:
    """Compare a file with its proxy; raise StaysItself where it would have none."""
    if original.reason is not None:
        raise StaysItself(original.reason)
    measured = _compare_proxy(options, catalog, original, clip, settings)
    if measured["bytes"] > 1:
        raise StaysItself("proxies would have more bytes")
    if measured["before"] < LEAST_GAIN * measured["after"]:
        raise StaysItself(f"proxies would be less than {LEAST_GAIN} times as fast")
    return measured


def _compare_proxy(
    options: Options, catalog: Catalog, original: Original, clip: PlannedClip, settings: ProxySettings
) -> dict[str, float]:
    """Make the proxy of the groups of pictures that a clip needs, and time the clip from both, in turns."""
    source, index = catalog.media_source(original.row), catalog.frame_index(original.row)
    (take,) = iterate_takes(clip)
    needed = np.unique(take.indices)
    blocks = np.unique(needed // settings.gop)[:, None] * settings.gop + np.arange(settings.gop)
    frames = None if original.is_still else blocks[blocks < len(index)].ravel().astype(np.int64)
    folder = Path(options["work"], f"proxy_{original.row}")
    folder.mkdir()
    ending = ".jpg" if original.is_still else ".mp4"
    path = folder / f"proxy{ending}"
    made = make_proxy(source, index, os.fspath(path), settings, original.fingerprint, frames)
    ordinals = take.indices if frames is None else np.searchsorted(frames, take.indices)
    names = [folder / f"{number}{ending}" for number in range(_LINKS)]
    for name in names:
        name.symlink_to(path.resolve())
    decoder, before, after = as_decoder("auto", None), list[float](), list[float]()
    for turn in range(_PROXY_TURNS + 1):
        times = [_time(decoder, source, index, take.indices, take.output)]
        small = [_time(decoder, MediaSource.of(name), made.index, ordinals, take.output) for name in names]
        before, after = (times, small) if turn == 0 else ([*before, *times], [*after, *small])
        if turn and sum(before) > 1:
            break
    share, size = len(made.index) / len(index), made.index.identity
    assert size is not None
    return {
        "before": fmean(before[1:] or before),
        "after": fmean(after[_LINKS:] or after),
        "bytes": size.bytes / share / max(1, original.bytes),
        "seconds": made.seconds / share / max(1, original.work),
        "original_bytes": original.bytes,
        "work": original.work,
    }


def _time_original(catalog: Catalog, original: Original, clip: PlannedClip) -> dict[str, float]:
    source, index = catalog.media_source(original.row), catalog.frame_index(original.row)
    decoder, (take,) = as_decoder("auto", None), iterate_takes(clip)
    seconds = min(_time(decoder, source, index, take.indices, take.output) for _ in range(2))
    facts = {"original_bytes": original.bytes, "work": original.work}
    return {"before": seconds, "after": seconds, "bytes": 0.0, "seconds": 0.0, "stays": 1.0, **facts}


def _time(decoder: Decoder, source: MediaSource, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> float:
    began = time.thread_time()
    decode_frames(decoder, source, index, ordinals, output)
    return time.thread_time() - began


def _describe_proxies(
    options: Options, measured: Sequence[Mapping[str, float]], reasons: Mapping[str, int]
) -> dict[str, Any]:
    made = [each for each in measured if not each.get("stays")]
    share = len(made) / len(measured)
    gain = sum(each["before"] for each in measured) / sum(each["after"] for each in measured)
    half = max(math.log(_NOISE), 2 * _find_spread(measured))
    low, high = gain * math.exp(-half), gain * math.exp(half)
    return {
        "short_side": options["short_side"],
        "sampled": len(measured),
        "share": share,
        "gain": {"median": gain, "low": max(min(1.0, gain), low), "high": high},
        # Files that stay are often the small ones.
        "bytes": round(options["bytes"] * _weigh(measured, "bytes", "original_bytes")),
        "make_seconds": _predict_making(options, measured),
        "why": ", ".join(reasons),
    }


def _predict_making(options: Options, measured: Sequence[Mapping[str, float]]) -> float:
    """Predict the wall seconds of `make_proxies`, which first makes and times a sample of each kind by itself."""
    making = _weigh(measured, "seconds", "work")
    counts = [min(SAMPLED_FILES, count) for count in options["kinds"].values()]
    each = making * fmean(each["work"] for each in measured) + _TIMED_CLIPS * fmean(each["before"] for each in measured)
    sampling = sum(counts) * each / min(options["cores"], len(counts))
    seconds: float = sampling + making * options["pixels"] / (USED_SHARE * options["cores"])
    return seconds


def _find_spread(measured: Sequence[Mapping[str, float]]) -> float:
    """Standard error of the logarithm of the gain, by leaving out each file in turn (jackknife)."""
    if len(measured) == 1:
        return math.log(_OTHER_FILES)
    sums = {name: sum(each[name] for each in measured) for name in ("before", "after")}
    without = [math.log((sums["before"] - each["before"]) / (sums["after"] - each["after"])) for each in measured]
    return float(np.std(without)) * math.sqrt(len(measured) - 1)


def _weigh(measured: Sequence[Mapping[str, float]], name: str, weight: str) -> float:
    """Mean of a ratio over files, each as heavy as it is."""
    return sum(each[name] * each[weight] for each in measured) / max(1, sum(each[weight] for each in measured))
