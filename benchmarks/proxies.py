"""Proxies against their originals, against caches, and against the ffmpeg program that writes the same.

    python -m benchmarks.proxies [--films] [--photos] [--caches] [--writing] [--estimate] [--crops]
        [--media ../shared/media] [--rounds 5] [--work FOLDER] [--out FILE.json]

Without a section's name, all are measured; ``--out`` keeps the sections of a file that are not measured again. What
the media are is in `benchmarks.proxies_media`. Contenders run in turns in one process; CPU seconds of the process, of
`ClipLoader(workers=0)`, in which every clip is a batch of its own, as in a shuffled epoch of many files: so no clip has
the decoding of another for nothing. Ratios are original / proxy of rounds: the median, and the ends.

``--films``: random clips of 16 frames, 4 apart, at 224 x 224; every frame once, in clips of 16, of which a quarter is
measured; every frame in one pass of `VideoDecoder`. ``--photos``: pictures at 224 x 224, in batches of 32.
``--caches``: the 720p film and photos again, and from frame caches that hold all of their frames at 224 x 224.
``--writing``: the wall of eight files, two at once, without the sampling; ffmpeg's part is only to write them, while
framefeed reads each proxy again, and compares it. ``--estimate``: what `estimate_proxies` says of folders, against
clips of all that `make_proxies` makes of them. ``--crops``: how near clips of proxies are to those of originals.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import framefeed as ff
from benchmarks.peers import ffmpeg
from benchmarks.proxies_media import FILMS, PHOTOS, ProxyMedia, run_ffmpeg
from framefeed.bench import describe_machine, psnr, read_busy_seconds, read_family_clocks
from framefeed.catalog import PROXY_SCHEMA, read_proxy_table, write_proxy_table
from framefeed.proxies import ProxySettings, make_proxy

SIZE = (224, 224)
RULE = ff.Dense(16, stride=4)
SHORT_SIDE, GOP = 256, 8
CLIPS = {"1080p": 16, "720p": 24, "360p": 48, "240p": 48, "phone": 24}
CACHED_CLIPS = 24
_MOST_PSNR = 60.0
"""Of equal pictures, such as black ones, as in the table of proxies."""
_CROPPED_CLIPS = 60
_QUIET = 0.15
"""Cores that other processes may have in a round whose wall counts."""
CROPS: Mapping[str, dict[str, Any]] = {
    "size=(224, 224)": {"size": SIZE},
    "ResizeCrop(256, 224)": {"size": ff.ResizeCrop(256, 224)},
    "RandomResizedCrop(224, scale=(0.35, 1))": {"crop": ff.RandomResizedCrop(224, scale=(0.35, 1.0))},
    "RandomResizedCrop(224, scale=(0.08, 1))": {"crop": ff.RandomResizedCrop(224, scale=(0.08, 1.0))},
    "CenterCrop(448), size=(224, 224)": {"crop": ff.CenterCrop(448), "size": SIZE},
    "CenterCrop(224)": {"crop": ff.CenterCrop(224)},
}
FFMPEG_SETTINGS = (
    "-vf", "scale=-2:256:flags=bilinear", "-c:v", "libx264", "-preset", "medium", "-crf", "18", "-g", "8", "-bf", "0",
    "-x264-params", "cabac=0:no-deblock=1", "-an",
)  # fmt: skip
Run = Callable[[int], int]
"""Does the work of a round, and returns how many clips or pictures it gave."""


def measure(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Measure the CPU seconds of a clip or picture of each run, in turns; a warm round first."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            count = run(turn)
            if turn:
                seconds[name].append((time.process_time() - began) / count)
    return seconds


def compare(seconds: Mapping[str, Sequence[float]], name: str, base: str) -> list[float]:
    """Ratio base / name of each round: its median, and the ends."""
    ratios = [before / after for before, after in zip(seconds[base], seconds[name], strict=True)]
    return [median(ratios), min(ratios), max(ratios)]


def say(what: str, ratio: Sequence[float]) -> str:
    """Write a ratio with its ends."""
    return f"{what} {ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})"


def make_run(plan: ff.EpochPlan, batch_size: int = 1, cache: ff.FrameCache | None = None) -> Run:
    """Make the run that loads the clips of a plan, of another epoch in each round."""

    def run(turn: int) -> int:
        with ff.ClipLoader(plan.with_epoch(turn), batch_size=batch_size, workers=0, cache=cache) as loader:
            return sum(len(batch.data) for batch in loader)

    return run


def plan_random(catalog: ff.Catalog, count: int) -> ff.EpochPlan:
    """Plan random clips of each video."""
    return ff.plan_clips(catalog, RULE, clips_per_video=count, seed=0, size=SIZE)


def plan_pictures(catalog: ff.Catalog) -> ff.EpochPlan:
    """Plan each picture once."""
    return ff.plan_clips(catalog, ff.Uniform(1), seed=0, size=SIZE)


def plan_every_frame(catalog: ff.Catalog) -> ff.EpochPlan:
    """Plan every fourth of the clips of 16 frames that together have every frame of a video once."""
    first = range(0, len(catalog.frame_index(0)) - 15, 4 * 16)
    requests = [ff.DecodeRequest(catalog[0], list(range(each, each + 16))) for each in first]
    return ff.plan_requests(requests, size=SIZE, seed=0, shuffle=True)


def pass_once(catalog: ff.Catalog, turn: int = 0) -> int:
    """Decode every frame in one pass."""
    with ff.VideoDecoder(catalog[0], size=SIZE) as decoder:
        return sum(1 for _ in decoder)


def make(catalog: ff.Catalog, folder: Path, short_side: int = SHORT_SIDE) -> tuple[ff.Catalog, list[dict[str, Any]]]:
    """Make proxies as the rule says; return the catalog that reads them, and the rows of their table."""
    small = ff.make_proxies(catalog, folder, short_side=short_side, gop=GOP, workers=2, progress=False)
    return small, read_proxy_table(str(folder)).rows.drop_columns(["numbers", "row"]).to_pylist()


def force(catalog: ff.Catalog, folder: Path, short_side: int = SHORT_SIDE) -> tuple[ff.Catalog, list[dict[str, Any]]]:
    """Make the proxy of each file, also of those that the rule leaves as they are."""
    folder.mkdir(parents=True)
    rows = []
    shared = [name for name in PROXY_SCHEMA.names if name in catalog.table.column_names]
    for row, facts in enumerate(catalog.table.select(shared).to_pylist()):
        name = f"{row}.mp4"
        settings = ProxySettings(short_side, GOP)
        made = make_proxy(
            catalog.media_source(row), catalog.frame_index(row), str(folder / name), settings, facts["fingerprint"]
        )
        known = {**facts, "original": catalog.shown_name(row), "kind": "forced", "proxy": name}
        rows.append({**dict.fromkeys(PROXY_SCHEMA.names), **known, **made.to_row(catalog.info(row))})
    table = pa.Table.from_pylist(rows, schema=PROXY_SCHEMA)
    write_proxy_table(str(folder), {"short_side": short_side, "gop": GOP, "decisions": {}}, table)
    return catalog.with_proxies(folder), table.drop_columns(["numbers", "row"]).to_pylist()


def describe(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes and nearness of some proxies."""
    made = [row for row in rows if row["proxy"] is not None]
    if not made:
        return {"proxies": 0}
    before, after = (sum(row[name] for row in made) for name in ("bytes", "proxy_bytes"))
    means = {name: float(np.mean([row[name] for row in made])) for name in ("psnr", "ssim", "rgb_psnr")}
    return {
        "proxies": len(made),
        "original_bytes": before,
        "proxy_bytes": after,
        "bytes": after / before,
        **means,
        "psnr_worst": min(row["psnr_worst"] for row in made),
        "psnr_least_mean": min(row["psnr"] for row in made),
        "settings": sorted({row["quality"] for row in made}),
    }


def measure_films(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """Films by size."""
    results: dict[str, Any] = {}
    for key, what in FILMS.items():
        catalog = ff.scan([media.film(key)], progress=False)
        side = min(SHORT_SIDE, int(min(catalog.heights[0], catalog.widths[0])))
        small, rows = make(catalog, folder / f"rule-{key}")
        reason = rows[0]["reason"]
        if reason is not None:
            small, rows = force(catalog, folder / f"forced-{key}", side)
        both = {"original": catalog, "proxy": small}
        random = measure({name: make_run(plan_random(each, CLIPS[key])) for name, each in both.items()}, rounds)
        alone = measure({name: make_run(plan_every_frame(each)) for name, each in both.items()}, rounds)
        once = measure({name: partial(pass_once, each) for name, each in both.items()}, rounds)
        results[key] = {
            "what": what,
            "frames": len(catalog.frame_index(0)),
            "short_side": side,
            "rule": reason,
            **describe(rows),
            "random": compare(random, "proxy", "original"),
            "every": compare(alone, "proxy", "original"),
            "once": compare(once, "proxy", "original"),
            "seconds_a_clip": {name: median(each) for name, each in random.items()},
        }
        shown = results[key]
        print(f"{key}: {say('random', shown['random'])}; {say('every frame', shown['every'])}; "
              f"{say('one pass', shown['once'])}; bytes {shown['bytes']:.2f}; {shown['psnr']:.1f} dB, worst "
              f"{shown['psnr_worst']:.1f}, SSIM {shown['ssim']:.3f}, RGB {shown['rgb_psnr']:.1f}; crf "
              f"{shown['settings']}; rule: {reason or 'proxy'}", flush=True)  # fmt: skip
    return results


def measure_photos(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """Photos by size: pictures at 224 x 224."""
    results: dict[str, Any] = {}
    for key, what in PHOTOS.items():
        catalog = ff.scan(media.photos(key), progress=False)
        small, rows = make(catalog, folder / f"photos-{key}")
        has = np.isin(catalog.table["fingerprint"].to_pylist(), [row["fingerprint"] for row in rows if row["proxy"]])
        both = {"original": catalog.filter(has), "proxy": small.filter(has)}
        seconds = measure({name: make_run(plan_pictures(each), 32) for name, each in both.items()}, rounds)
        reasons: dict[str, int] = {}
        for row in rows:
            if row["reason"] is not None:
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
        results[key] = {
            "what": what,
            "files": len(catalog),
            "stay": reasons,
            **describe(rows),
            "pictures": compare(seconds, "proxy", "original"),
            "milliseconds": {name: 1e3 * median(each) for name, each in seconds.items()},
        }
        shown = results[key]
        print(f"{key}: {shown['proxies']} of {len(catalog)}; {say('pictures', shown['pictures'])}; bytes "
              f"{shown['bytes']:.2f}; {shown['psnr']:.1f} dB, worst {shown['psnr_worst']:.1f}, SSIM "
              f"{shown['ssim']:.3f}, RGB {shown['rgb_psnr']:.1f}; stay: {reasons}", flush=True)  # fmt: skip
    return results


def measure_caches(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """Clips and pictures at 224 x 224 from originals, proxies, and caches of all frames of this size."""
    results: dict[str, Any] = {}
    sources = {"film": [str(media.film("720p"))], "500": media.photos("500"), "12mp": media.photos("12mp")}
    for key, paths in sources.items():
        catalog = ff.scan(paths, progress=False)
        small, rows = make(catalog, folder / f"cached-{key}")
        has = np.isin(catalog.table["fingerprint"].to_pylist(), [row["fingerprint"] for row in rows if row["proxy"]])
        catalog, small = catalog.filter(has), small.filter(has)
        is_film = key == "film"
        whole = ff.plan_clips(catalog, ff.EveryFrame(), seed=0, size=SIZE) if is_film else plan_pictures(catalog)
        caches = {}
        for codec in ("lz4", "raw"):
            caches[codec] = ff.FrameCache(folder / f"cache-{key}-{codec}", codec=codec, form="output")
            ff.cache.build(whole, caches[codec], workers=2, progress=False)
        plans = {
            name: plan_random(each, CACHED_CLIPS) if is_film else plan_pictures(each)
            for name, each in {"original": catalog, "proxy": small, **dict.fromkeys(caches, catalog)}.items()
        }
        batch_size = 1 if is_film else 32
        seconds = measure({name: make_run(plan, batch_size, caches.get(name)) for name, plan in plans.items()}, rounds)
        facts = describe(rows)
        frames = len(catalog.frame_index(0)) if is_film else len(catalog)
        nbytes = {"original": facts["original_bytes"], "proxy": facts["proxy_bytes"]}
        for codec, cache in caches.items():
            assert cache.stats().frames_missed == 0, cache.stats()
            nbytes[codec] = cache.info().bytes_on_disk
            cache.close()
        unit = "clips" if is_film else "pictures"
        rates = {name: [1 / median(each), 1 / max(each), 1 / min(each)] for name, each in seconds.items()}
        results[key] = {"unit": unit, "frames": frames, "bytes": nbytes, "rates": rates}
        print(f"{key}: " + "; ".join(f"{name} {rate[0]:.0f} {unit} a CPU second, {nbytes[name]:,} bytes"
                                     for name, rate in rates.items()), flush=True)  # fmt: skip
    return results


def name_kinds(catalog: ff.Catalog, short_side: int = SHORT_SIDE) -> list[str]:
    """Name the kinds of files that `make_proxies` samples."""
    return [each.kind for each in ff.estimate_proxies(catalog, short_side=short_side, workers=2, progress=False).kinds]


def decide(folder: Path, decisions: Mapping[str, str | None]) -> None:
    """Write the journal of a run that has sampled all kinds, and was interrupted: the next run samples none."""
    folder.mkdir(parents=True)
    head = {"settings": {"short_side": SHORT_SIDE, "gop": GOP}, "decisions": dict(decisions)}
    (folder / ".proxies.jsonl").write_text(json.dumps(head) + "\n", encoding="utf-8")


def measure_writing(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """Eight files, two at once: wall and CPU seconds of `make_proxies` without its sampling, and of ffmpeg's."""
    paths = media.copies(8)
    catalog = ff.scan(paths, progress=False)
    decisions = dict.fromkeys(name_kinds(catalog))

    def ours(out: Path) -> None:
        decide(out, decisions)
        ff.make_proxies(catalog, out, short_side=SHORT_SIDE, gop=GOP, workers=2, progress=False)
        assert all(row is None for row in read_proxy_table(str(out)).rows["reason"].to_pylist())

    def theirs(out: Path, *threads: str) -> None:
        out.mkdir(parents=True)

        def write(path: str) -> None:
            run_ffmpeg(*threads, "-i", path, *FFMPEG_SETTINGS, *threads, str(out / Path(path).name))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, paths))

    runs: dict[str, Callable[[Path], None]] = {
        "framefeed": ours,
        "ffmpeg": theirs,
        "ffmpeg, one thread each": lambda out: theirs(out, "-threads", "1"),
    }
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    wall: dict[str, list[float]] = {name: [] for name in runs}
    nbytes, others = {}, list[float]()
    while sum(each < _QUIET for each in others) < rounds and len(others) < 3 * rounds:
        most = 0.0
        for number, (name, run) in enumerate(runs.items()):
            out = folder / f"written-{number}"
            before, busy = read_family_clocks(), read_busy_seconds()
            run(out)
            after = read_family_clocks()
            cpu[name].append(after.cpu - before.cpu)
            wall[name].append(after.wall - before.wall)
            other = (read_busy_seconds() - busy - cpu[name][-1]) / wall[name][-1]
            most = max(most, other)
            nbytes[name] = sum(path.stat().st_size for path in out.rglob("*.mp4"))
            shutil.rmtree(out)
            print(f"  {name}: {wall[name][-1]:.1f} s, {cpu[name][-1]:.1f} s of CPU, {nbytes[name]:,} bytes; others "
                  f"took {other:.2f} cores", flush=True)  # fmt: skip
        others.append(most)
    # Wall says nothing where other processes had the cores; rounds without them count, if there are some.
    quiet = [turn for turn, each in enumerate(others) if each < _QUIET] or range(len(others))
    cpu, wall = ({name: [each[name][turn] for turn in quiet] for name in runs} for each in (cpu, wall))
    results: dict[str, Any] = {
        "what": "8 stream copies of the 720p trailer, 1,253 frames each",
        "bytes": nbytes,
        "cores_of_others": [others[turn] for turn in quiet],
        "seconds": {name: {"wall": wall[name], "CPU": cpu[name]} for name in runs},
        **{name: {"wall": compare(wall, "framefeed", name), "CPU": compare(cpu, "framefeed", name)}
           for name in runs if name != "framefeed"},
    }  # fmt: skip
    for name in runs:
        if name != "framefeed":
            print(f"{name} / framefeed: {say('wall', results[name]['wall'])}; {say('CPU', results[name]['CPU'])}")
    return results


def measure_gain(catalog: ff.Catalog, small: ff.Catalog, rounds: int, clips: int) -> list[float]:
    """Ratio of the CPU seconds of clips, each file being read as often as any other."""
    is_video = np.array([kind == "video" for kind in catalog.table["kind"].to_pylist()])

    def run(each: ff.Catalog, turn: int) -> int:
        for rule, chosen, batch_size in ((RULE, is_video, 1), (ff.Uniform(1), ~is_video, 32)):
            if chosen.any():
                # All clips of a file one after the other: opening it is in few of them, as in the sample.
                plan = ff.plan_clips(
                    each.filter(chosen), rule, clips_per_video=clips, seed=0, size=SIZE, shuffle="videos"
                )
                make_run(plan, batch_size)(turn)
        return len(catalog) * clips

    seconds = measure({"original": partial(run, catalog), "proxy": partial(run, small)}, rounds)
    return compare(seconds, "proxy", "original")


def measure_estimates(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """What is estimated of folders, against what comes."""
    results: dict[str, Any] = {}
    for key, (what, paths) in media.folders().items():
        catalog = ff.scan(paths, progress=False)
        catalog = catalog.take(catalog.usable_rows)
        began = time.perf_counter()
        estimate = ff.estimate_proxies(catalog, short_side=SHORT_SIDE, gop=GOP, workers=2, progress=False)
        took = time.perf_counter() - began
        out = folder / f"estimated-{len(results)}"
        decide(out, {each.kind: each.reason for each in estimate.kinds})
        began = time.perf_counter()
        small, rows = make(catalog, out)
        wrote = time.perf_counter() - began
        made = {row["fingerprint"] for row in rows if row["proxy"]}
        prints = catalog.table["fingerprint"].to_pylist()
        chosen = np.zeros(len(catalog), bool)
        for row, fingerprint in enumerate(prints):
            if fingerprint in made:
                made.remove(fingerprint)  # a file that is there twice is made once
                chosen[row] = True
        facts = describe(rows)
        result: dict[str, Any] = {
            "what": what,
            "files": len(catalog),
            **facts,
            "estimated": {
                "proxies": estimate.num_proxies,
                "gain": estimate.gain,
                "interval": list(estimate.gain_interval),
                "bytes": estimate.proxy_bytes,
                "original_bytes": estimate.original_bytes,
                "seconds": estimate.seconds,
                "took": took,
                "answer": estimate.answer(),
            },
            "wrote": wrote,
        }
        if facts["proxies"]:
            clips = 4 if facts["proxies"] < 60 else 1
            gain = measure_gain(catalog.filter(chosen), small.filter(chosen), rounds, clips)
            result["gain"] = gain
            result["gain_ratio"] = estimate.gain / gain[0]
            result["bytes_ratio"] = (
                estimate.proxy_bytes / estimate.original_bytes / facts["bytes"] if estimate.original_bytes else None
            )
        results[key] = result
        print(f"{key}: {estimate.answer()}\n   made {facts['proxies']}, " + (
            f"gain {result['gain'][0]:.2f}, estimated / measured {result['gain_ratio']:.2f}; bytes "
            f"{result['bytes_ratio'] or 0:.2f}; seconds {estimate.seconds:.0f} / {wrote:.0f}"
            if facts["proxies"] else ""), flush=True)  # fmt: skip
        shutil.rmtree(out)
    return results


def load_clips(catalog: ff.Catalog, rule: ff.ClipRule, count: int, options: Mapping[str, Any]) -> Iterable[Any]:
    """Load clips of each file, the same of each catalog of the same files."""
    plan = ff.plan_clips(catalog, rule, clips_per_video=count, seed=0, **options)
    with ff.ClipLoader(plan, batch_size=1, workers=2) as loader:
        yield from (batch.data[0].copy() for batch in loader)


def measure_crops(media: ProxyMedia, folder: Path, rounds: int) -> dict[str, Any]:
    """PSNR of clips of proxies to the same clips of originals, of RGB as delivered; mean and worst clip."""
    photos = [path for path in media.photos("own") if path.endswith("_1280.jpg")]
    sources: dict[str, tuple[list[str], ff.ClipRule, tuple[int, ...], int]] = {
        "film": ([str(media.trailer)], ff.Dense(4, stride=4), (256, 320, 512), _CROPPED_CLIPS),
        "photos": (photos, ff.Uniform(1), (256, 320, 512, 792), 4),
    }
    results: dict[str, Any] = {}
    for key, (paths, rule, sides, count) in sources.items():
        catalog = ff.scan(paths, progress=False)
        smalls, has = {}, np.ones(len(catalog), bool)
        for side in sides:
            # Of the film also those that would have more bytes.
            write = force if key == "film" else make
            smalls[side], rows = write(catalog, folder / f"crops-{key}-{side}", side)
            made = [row["fingerprint"] for row in rows if row["proxy"]]
            has &= np.isin(catalog.table["fingerprint"].to_pylist(), made)
        for crop, options in CROPS.items():
            right = list(load_clips(catalog.filter(has), rule, count, options))
            for side, small in smalls.items():
                facts: dict[str, Any] = {"refused": True}
                try:
                    clips = list(load_clips(small.filter(has), rule, count, options))
                    values = [min(_MOST_PSNR, psnr(*pair)) for pair in zip(clips, right, strict=True)]
                    facts = {"mean": float(np.mean(values)), "worst": min(values), "clips": len(values)}
                except ff.UsageError as error:  # of a plan that would enlarge the proxies, but not the originals
                    print(f"{key}, {side}, {crop}: {error}", flush=True)
                else:
                    print(f"{key}, {side}, {crop}: {facts['mean']:.1f} dB, worst {facts['worst']:.1f}", flush=True)
                results.setdefault(key, {}).setdefault(crop, {})[str(side)] = facts
    return results


SECTIONS: Mapping[str, Callable[[ProxyMedia, Path, int], dict[str, Any]]] = {
    "films": measure_films,
    "photos": measure_photos,
    "caches": measure_caches,
    "writing": measure_writing,
    "estimate": measure_estimates,
    "crops": measure_crops,
}


def main() -> None:
    """Measure sections, and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SECTIONS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--media", type=Path, default=Path("../shared/media"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="keep generated media here, and use them again")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    chosen = [name for name in SECTIONS if getattr(asked, name)] or list(SECTIONS)
    results: dict[str, Any] = {}
    if asked.out and asked.out.exists():
        results = json.loads(asked.out.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="framefeed-proxies-") as folder:
        media = ProxyMedia(asked.media, asked.work or Path(folder) / "media")
        for name in chosen:
            print(f"== {name}", file=sys.stderr, flush=True)
            machine = describe_machine() | {"ffmpeg": ffmpeg.VERSIONS["ffmpeg"], "rounds": asked.rounds}
            part = Path(folder) / name
            part.mkdir()
            results[name] = {"machine": machine, "rows": SECTIONS[name](media, part, asked.rounds)}
            if asked.out:
                text = json.dumps(results, indent=1)
                asked.out.write_text(text.replace(f"{folder}{os.sep}", "") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
