"""How good the advice of ``framefeed bench all`` is: all ways of loading, measured on the whole folder.

    python -m benchmarks.advice [--folders phone,240p,photos,mixed] [--minutes 1.5] [--runs 1] [--rounds 6]
        [--patience 300] [--media ../shared/media] [--work FOLDER] [--out FILE.json]

Of each folder: a cache is filled with every frame and proxies are made of all files, as the advised code does; then
`ClipLoader` loads whole epochs from originals, cache and proxies with one thread and with all, in turns, between which
the command runs in a process of its own. The **regret** of an advice is 1 - its speed / that of the best setting that
is a choice: has room, pays within the epochs, by what was measured here; speeds above that of a training step that was
given count as that. An advice is right if its regret is within 15 %, or if the intervals of both speeds meet.

Where they were busy all the time, the regret **by CPU** says more: a setting's speed is then its threads / CPU seconds.
Each measurement waits until other processes are quiet, ``--patience`` seconds of a folder at most; those in which
others had more than 0.15 cores are taken again, and do not count if enough others are there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import framefeed as ff
from benchmarks.advice_media import FOLDERS, AdviceMedia, Folder
from benchmarks.proxies import GOP, RULE, SHORT_SIDE, SIZE, decide
from framefeed._units import format_number, format_table
from framefeed.bench import describe_machine, median_interval, read_busy_seconds, read_family_clocks
from framefeed.bench.advice import Recommendation, Setting, list_settings, recommend
from framefeed.catalog import read_proxy_table
from framefeed.parallel import thread_budget

BATCH = 16
SOURCES = ("originals", "cache", "proxies")
_ROUND_SECONDS = 2.5
"""Of a setting in a round, at least: of whole epochs, as many as it takes."""
_MOST_CLIPS = 8192
_QUIET = 0.15
"""Cores that other processes may have in a round that counts."""
_LEAST_QUIET = 3
"""Quiet rounds of a setting, with fewer of which all count."""
_TRIES = 3
"""Of a measurement that was not quiet."""
_LOOK_SECONDS = 0.5
RIGHT = 0.15
"""Regret of a right advice, at most."""
_FAR = 1.25
"""Ratio of predicted and measured that is marked."""


@dataclass(slots=True)
class Measured:
    """What loading in one way gave, round by round."""

    sources: str
    workers: int
    epochs: int = 1
    rates: list[float] = field(default_factory=list)  # clips a second
    cpu: list[float] = field(default_factory=list)  # seconds a clip
    others: list[float] = field(default_factory=list)  # cores of other processes

    @property
    def name(self) -> str:
        """Name it as `Setting.name` does."""
        return f"{self.sources}, {self.workers} thread{'s' * (self.workers > 1)}"

    def select(self, values: Sequence[float]) -> list[float]:
        """Choose the values of quiet rounds."""
        quiet = [value for value, other in zip(values, self.others, strict=True) if other < _QUIET]
        return quiet if len(quiet) >= _LEAST_QUIET else list(values)

    def as_setting(self) -> Setting:
        """Give its speed with an interval."""
        rate = median_interval(self.select(self.rates))
        return Setting(self.sources, "threads", self.workers, rate.median, rate.low, rate.high)  # type: ignore[arg-type]

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of a clip; those of noisy rounds are some percent too many."""
        return median(self.select(self.cpu))


@dataclass(slots=True)
class Patience:
    """Seconds that may be waited for other processes."""

    seconds: float

    def wait(self) -> None:
        """Wait until other processes are quiet."""
        while self.seconds > 0:
            busy = read_busy_seconds()
            time.sleep(_LOOK_SECONDS)
            if read_busy_seconds() - busy <= _QUIET * _LOOK_SECONDS:
                return
            self.seconds -= _LOOK_SECONDS


@dataclass(slots=True)
class Prepared:
    """A folder with all that can be made of it."""

    catalogs: dict[str, ff.Catalog]
    cache: ff.FrameCache
    made: dict[str, dict[str, Any]]  # sources -> bytes and seconds that it took

    @property
    def rule(self) -> ff.ClipRule:
        """The rule of the clips."""
        return ff.Uniform(1) if self.catalogs["originals"].table["kind"][0].as_py() == "image" else RULE

    def plan(self, sources: str, first: int, epochs: int) -> ff.EpochPlan:
        """Join epochs to one, so that the start and the end of an epoch of a small folder weigh little."""
        catalog, requests = self.catalogs[sources], list[ff.DecodeRequest]()
        plan = ff.plan_clips(catalog, self.rule, seed=0, size=SIZE)
        for number in range(first, first + epochs):
            drawn = plan.with_epoch(number)
            clips = (drawn[position] for position in range(len(drawn)))
            requests += [ff.DecodeRequest(catalog[clip.row], indices=clip.indices) for clip in clips]
        return ff.plan_requests(requests, size=SIZE)


def prepare(folder: Path, work: Path, patience: Patience) -> Prepared:
    """Fill a cache with every frame, and make all proxies."""
    catalog = ff.scan(folder, progress=False)
    catalog = catalog.take(catalog.usable_rows)
    patience.wait()
    originals = {"bytes": sum(catalog.table["bytes"].to_pylist()), "files": len(catalog)}
    began = time.perf_counter()
    estimate = ff.estimate_proxies(catalog, short_side=SHORT_SIDE, gop=GOP, workers="auto", progress=False)
    sampled = time.perf_counter() - began
    # The journal of a run that has sampled: so the time is that of the writing alone.
    decide(work / "proxies", {each.kind: each.reason for each in estimate.kinds})
    before = read_family_clocks()
    small = ff.make_proxies(catalog, work / "proxies", short_side=SHORT_SIDE, gop=GOP, progress=False)
    wrote = read_family_clocks() - before
    rows = [row for row in read_proxy_table(str(work / "proxies")).rows.to_pylist() if row["proxy"] is not None]
    proxies = {
        "bytes": sum(row["proxy_bytes"] for row in rows),
        "seconds": wrote.wall,
        "cpu_seconds": wrote.cpu,
        "sampling_seconds": sampled,
        "files": len(rows),
        "estimated_gain": [estimate.gain, *estimate.gain_interval],
        "estimated_bytes": estimate.proxy_bytes,
        "estimated_seconds": estimate.seconds,
    }
    cache = ff.FrameCache(work / "cache", codec="raw")
    is_picture = catalog.table["kind"][0].as_py() == "image"
    every = ff.plan_clips(catalog, ff.Uniform(1) if is_picture else ff.EveryFrame(), seed=0, size=SIZE)
    before = read_family_clocks()
    report = ff.cache.build(every, cache, progress=False)
    took = read_family_clocks() - before
    assert report.is_complete, report
    filled = {"bytes": cache.info().bytes_on_disk, "seconds": took.wall, "cpu_seconds": took.cpu}
    catalogs = {"originals": catalog, "cache": catalog, "proxies": small}
    return Prepared(catalogs, cache, {"originals": originals, "cache": filled, "proxies": proxies})


def run_epochs(prepared: Prepared, each: Measured, first: int) -> None:
    """Load epochs in one way, and note what they took."""
    plan = prepared.plan(each.sources, first, each.epochs)
    cache = prepared.cache if each.sources == "cache" else None
    with ff.ClipLoader(plan, batch_size=BATCH, workers=each.workers, cache=cache) as loader:
        before, busy, count = read_family_clocks(), read_busy_seconds(), 0
        for batch in loader:
            count += len(batch.data)
            del batch
        took, others = read_family_clocks() - before, read_busy_seconds() - busy
    assert count == len(plan), (count, len(plan))
    each.rates.append(count / took.wall)
    each.cpu.append(took.cpu / count)
    each.others.append(max(0.0, others - took.cpu) / took.wall)


def run_round(prepared: Prepared, ways: Sequence[Measured], number: int, patience: Patience) -> None:
    """Load in every way, each round in another order; what was not quiet again."""
    for each in ways if number % 2 == 0 else ways[::-1]:
        for _ in range(_TRIES):
            patience.wait()
            run_epochs(prepared, each, 1 + number * each.epochs)
            if each.others[-1] < _QUIET or patience.seconds <= 0:
                break


def choose_lengths(prepared: Prepared, ways: Sequence[Measured]) -> None:
    """Load an epoch in each way, which also warms it, and choose how many are long enough."""
    for each in ways:
        clips = len(prepared.catalogs[each.sources])
        for _ in range(2):  # the first, in which all is new, may be many times as long
            run_epochs(prepared, each, 0)
            needed = _ROUND_SECONDS * each.rates[-1] / clips
            each.epochs = max(1, min(round(needed + 0.5), _MOST_CLIPS // clips))
            if needed < 1:
                break
        each.rates, each.cpu, each.others = [], [], []


def ask(folder: Path, words: Sequence[str], minutes: float, work: Path) -> dict[str, Any]:
    """Run the command."""
    work.mkdir(parents=True)
    out = work / "bench.json"
    command = [sys.executable, "-m", "framefeed", "bench", "all", str(folder), "--minutes", f"{minutes:g}"]
    busy, before = read_busy_seconds(), read_family_clocks()
    run = subprocess.run(
        [*command, "--json", str(out), "--disk", str(work), *words], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(f"the command failed with {run.returncode}: {run.stderr[-2000:]}\n{run.stdout[-2000:]}")
    took = read_family_clocks() - before
    results: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    results["cores_of_others"] = max(0.0, read_busy_seconds() - busy - took.cpu) / took.wall
    results["printed"] = run.stdout
    shutil.rmtree(work)
    return results


def list_choices(results: Mapping[str, Any], settings: Iterable[Setting], prepared: Prepared) -> dict[str, Setting]:
    """List what is a choice by what was measured: has room, and pays within the epochs."""
    options, settings = results["settings"], list(settings)
    clips, epochs = len(prepared.catalogs["originals"]), options["epochs"]
    base = max(each.clips_per_second for each in settings if each.sources == "originals")
    enough = BATCH / options["step_seconds"] if options["is_step_given"] else float("inf")
    choices = {}
    for each in settings:
        made = prepared.made[each.sources]
        if each.sources == "proxies" and not made["files"]:
            continue
        if each.sources != "originals":
            later = epochs * clips / each.clips_per_second
            seconds = made["cpu_seconds"] / options["cores"]  # which other processes do not make longer
            if made["bytes"] > options["space_bytes"] or seconds + later >= epochs * clips / base:
                continue
        choices[each.name] = each.bound(enough)
    return choices


def judge(results: Mapping[str, Any], ways: Sequence[Measured], prepared: Prepared) -> dict[str, Any]:
    """Compare the advice with the best that was a choice."""
    advice, choices = recommend(results), list_choices(results, [each.as_setting() for each in ways], prepared)
    best = max(choices.values(), key=lambda each: each.clips_per_second)
    taken = {each.name: each.as_setting() for each in ways}[advice.setting]
    bounded = taken.bound(best.clips_per_second)
    regret = 1 - bounded.clips_per_second / best.clips_per_second
    is_possible = advice.setting in choices
    return {
        "advised": advice.setting,
        "predicted": [advice.clips_per_second, *advice.clips_per_second_interval],
        "measured": [taken.clips_per_second, taken.low, taken.high],
        "best": best.name,
        "best_measured": [best.clips_per_second, best.low, best.high],
        "regret": regret,
        "regret_by_cpu": find_regret_by_cpu(results, advice.setting, ways, prepared),
        "is_possible": is_possible,
        "verdict": "no choice" * (not is_possible)
        or ("right" if regret <= RIGHT else "noise" if bounded.high >= best.low else "WRONG"),
        "choices": list(choices),
        "estimates": compare_estimates(results, advice, ways, prepared),
        "cores_of_others": results["cores_of_others"],
        "seconds": results["seconds"],
    }


def find_regret_by_cpu(
    results: Mapping[str, Any], advised: str, ways: Sequence[Measured], prepared: Prepared
) -> float | None:
    """Find the regret as if each thread had a core of its own; None if the advice is no choice."""
    settings = []
    for each in ways:
        rate = each.workers / each.cpu_seconds
        settings.append(replace(each.as_setting(), clips_per_second=rate, low=rate, high=rate))
    choices = list_choices(results, settings, prepared)
    best = max(each.clips_per_second for each in choices.values())
    return 1 - choices[advised].clips_per_second / best if advised in choices else None


def compare_estimates(
    results: Mapping[str, Any], advice: Recommendation, ways: Sequence[Measured], prepared: Prepared
) -> dict[str, list[float]]:
    """Predicted and measured: clips a second and CPU seconds of each setting, bytes and seconds of what is made."""
    measured, found = {each.name: each for each in ways}, dict[str, list[float]]()
    settings = {each.name: each for each in list_settings(results)}
    cpu = {(run["sources"], run["workers"]): run["cpu_seconds_per_clip"] for run in results["runs"]}
    for name, each in settings.items():
        if name not in measured:
            continue
        found[f"{name}: clips/s"] = [each.clips_per_second, measured[name].as_setting().clips_per_second]
        seconds = cpu.get((each.sources, each.workers))
        if each.sources == "proxies" and ("originals", each.workers) in cpu:
            base = settings[name.replace("proxies", "originals")]
            seconds = cpu["originals", each.workers] * base.clips_per_second / each.clips_per_second
        if seconds is not None:
            found[f"{name}: CPU ms"] = [1e3 * seconds, 1e3 * measured[name].cpu_seconds]
    for sources in ("cache", "proxies"):
        if results[sources] and prepared.made[sources]["bytes"] and results[sources]["bytes"]:
            found[f"{sources}: MB"] = [results[sources]["bytes"] / 1e6, prepared.made[sources]["bytes"] / 1e6]
            seconds, made = results[sources]["make_seconds"], prepared.made[sources]
            found[f"{sources}: s to make"] = [seconds, made["seconds"]]
            found[f"{sources}: CPU s to make"] = [seconds * results["settings"]["cores"], made["cpu_seconds"]]
    return found


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def measure_folder(
    folder: Path, asked: Folder, work: Path, minutes: float, runs: int, rounds: int, patience: Patience
) -> dict[str, Any]:
    """Measure a folder: what is true, in rounds between which the command is asked."""
    began = time.perf_counter()
    prepared = prepare(folder, work, patience)
    counts = sorted({1, thread_budget().threads})
    has = [each for each in SOURCES if each != "proxies" or prepared.made["proxies"]["files"]]
    ways = [Measured(sources, count) for sources in has for count in counts]
    choose_lengths(prepared, ways)
    say(f"prepared in {time.perf_counter() - began:.0f} s; epochs: {[each.epochs for each in ways]}")
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in asked.questions}
    turns = [(number, name) for number in range(runs) for name in asked.questions]
    done = 0
    for turn, (number, name) in enumerate(turns):
        patience.wait()
        answers[name].append(ask(folder, asked.questions[name], minutes, work / f"asked-{turn}"))
        say(f"{name}, run {number + 1}: {recommend(answers[name][-1]).summary}")
        while done < rounds * (turn + 1) // len(turns):
            run_round(prepared, ways, done, patience)
            done += 1
    result = {
        "what": asked.what,
        "made": prepared.made,
        "settings": {
            each.name: {"clips_per_second": each.rates, "cpu_seconds": each.cpu, "cores_of_others": each.others}
            for each in ways
        },
        "questions": {
            name: [judge(each, ways, prepared) | {"result": each} for each in found] for name, found in answers.items()
        },
    }
    prepared.cache.close()
    return result


def write_speed(values: Sequence[float]) -> str:
    """Write a speed with its interval."""
    middle, low, high = map(format_number, values)
    return f"{middle} ({low}-{high})"


def describe_answers(results: Mapping[str, Any]) -> list[str]:
    """Write the table of the advices."""
    table = [
        (
            "question",
            "advised",
            "predicted",
            "measured",
            "best",
            "measured",
            "regret",
            "by CPU",
            "verdict",
            "others' cores",
        )
    ]
    for each in results.values():
        for name, answers in each["questions"].items():
            for answer in answers:
                speeds = [write_speed(answer[key]) for key in ("predicted", "measured", "best_measured")]
                table.append((
                    name, answer["advised"], *speeds[:2], answer["best"], speeds[2], f"{answer['regret']:.0%}",
                    "no choice" if answer["regret_by_cpu"] is None else f"{answer['regret_by_cpu']:.0%}",
                    answer["verdict"], f"{answer['cores_of_others']:.2f}",
                ))  # fmt: skip
    return format_table(table)


def describe_estimates(result: Mapping[str, Any]) -> list[str]:
    """Write predicted and measured of one folder."""
    table = [("", "predicted", "measured", "ratio", "")]
    for name, answers in result["questions"].items():
        for number, answer in enumerate(answers):
            table.append((f"{name}, run {number + 1}", "", "", "", ""))
            for what, (predicted, real) in answer["estimates"].items():
                ratio = predicted / real
                mark = "" if 1 / _FAR <= ratio <= _FAR else "far"
                numbers = (format_number(predicted), format_number(real), f"{ratio:.2f}")
                table.append((f"  {what}", *numbers, mark))
    return format_table(table)


def main() -> None:
    """Measure folders, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", default=",".join(FOLDERS), help=f"of {', '.join(FOLDERS)}")
    parser.add_argument("--minutes", type=float, default=1.5, help="of a run of the command")
    parser.add_argument("--runs", type=int, default=1, help="of the command, of each question")
    parser.add_argument("--rounds", type=int, default=6, help="of each setting")
    parser.add_argument("--patience", type=float, default=300, help="seconds to wait for other processes, of a folder")
    parser.add_argument("--media", type=Path, default=Path("../shared/media"))
    parser.add_argument("--work", type=Path, help="keep generated media here, and use them again")
    parser.add_argument("--out", type=Path, help="write the figures; those of other folders that it has stay")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    chosen = asked.folders.split(",")
    results: dict[str, Any] = {}
    if asked.out and asked.out.exists():
        results = json.loads(asked.out.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="framefeed-advice-") as scratch:
        media = AdviceMedia(asked.media.resolve(), (asked.work or Path(scratch) / "media").resolve())
        for name in chosen:
            say(f"== {name}: {FOLDERS[name].what}")
            work = Path(scratch) / name
            work.mkdir()
            folder = FOLDERS[name].make(media)
            patience = Patience(asked.patience)
            result = measure_folder(folder, FOLDERS[name], work, asked.minutes, asked.runs, asked.rounds, patience)
            shutil.rmtree(work)
            results[name] = {"machine": describe_machine(), "minutes": asked.minutes, **result}
            say("\n".join(describe_estimates(results[name])))
            if asked.out:
                text = json.dumps(results, indent=1)
                text = text.replace(f"{scratch}{os.sep}", "").replace(f"{media.work}{os.sep}", "")
                asked.out.write_text(text + "\n", encoding="utf-8")
        say("\n".join(describe_answers({name: results[name] for name in chosen})))


if __name__ == "__main__":
    main()
