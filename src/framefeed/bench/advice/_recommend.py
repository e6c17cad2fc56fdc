"""Choose among the ways of loading that ``bench all`` measured: from its result to one advice. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, hypot, log
from typing import Any, Literal

from framefeed._units import format_bytes, format_count, format_number, format_seconds, format_share
from framefeed.errors import UsageError

Sources = Literal["originals", "cache", "proxies"]
Kind = Literal["threads", "processes"]
SAME = 1.15
"""Settings whose speeds differ by less are one answer."""
SURELY_OTHER = 1.3
"""Settings whose speeds differ by more are two answers, however wide their intervals."""
_SIMPLEST: tuple[Sources, ...] = ("originals", "cache", "proxies")
_MEMORY_SHARE = 0.5
"""Of the memory that the system may keep files in, about."""
USED_SHARE = 0.8
"""Share of the cores' time that a loader uses, where it was not measured; also the width of its interval."""
_FEW_ROUNDS = 3
"""Of fewer, the interval of what was measured says little: it is at least as wide as that of what was not."""
_BUSY_CORES = 0.3
"""Of other programs, above which they are named."""
MAX_LINES = 7
HELD = {"every frame": "every frame", "clips": "the frames of all clips"}
"""What a cache holds -> in words."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A way of loading, and clips a second of all files."""

    sources: Sources
    kind: Kind
    workers: int
    clips_per_second: float
    low: float
    high: float
    is_measured: bool = True  # else computed from what a sample showed
    why_not: str = ""  # why it is no choice
    note: str = ""  # what it takes

    @property
    def name(self) -> str:
        """Name it for tables."""
        return f"{self.sources}, {format_workers(self.kind, self.workers)}"

    @property
    def order(self) -> tuple[int, bool, int]:
        """Sort key: the simplest first."""
        return _SIMPLEST.index(self.sources), self.kind == "processes", self.workers

    def bound(self, most: float) -> Setting:
        """Limit the speed to what something else allows."""
        return replace(
            self,
            clips_per_second=min(most, self.clips_per_second),
            low=min(most, self.low),
            high=min(most, self.high),
        )

    def is_as_good_as(self, best: Setting) -> bool:
        """Whether this is as fast as the fastest, or within the noise of both."""
        gap = best.clips_per_second / self.clips_per_second
        return gap <= SAME or (gap < SURELY_OTHER and self.high >= best.low)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Which way is fastest; ``print(recommendation)`` says it in at most seven lines.

    Attributes:
        kind: "threads" or "processes", of a ``ClipLoader``.
        workers: Their number.
        cache: Codec of a cache of frames, such as "raw"; None for no cache.
        proxies: Short side of proxies in pixels; None for no proxies.
        clips_per_second: Clips a second that are expected, of all files.
        step_wait: Share of the time that a training step waits for its batch, from 0 to 1.
        code: Python that does it.
        reasons: Sentences: what it takes, and why not another way.
        clips_per_second_interval: Where the true speed lies, by the rounds that were measured.
        summary: The advice in one sentence.
        setting: Its name in the tables of ``bench all``, such as "cache, 2 threads".
    """

    kind: Kind
    workers: int
    cache: str | None
    proxies: int | None
    clips_per_second: float
    step_wait: float
    code: str
    reasons: tuple[str, ...]
    clips_per_second_interval: tuple[float, float]
    summary: str
    setting: str

    def __str__(self) -> str:
        code = self.code.splitlines()
        room = MAX_LINES - 1 - len(code)
        reasons = [*self.reasons[: room - 1], " ".join(self.reasons[room - 1 :])]
        lines = [
            f"Advice: {self.summary}",
            *filter(None, reasons),
            f"Code: {code[0]}",
            *(f"      {line}" for line in code[1:]),
        ]
        return "\n".join(f"        {line}" if number else line for number, line in enumerate(lines))


def recommend(results: Mapping[str, Any]) -> Recommendation:
    """Recommend a way of loading from what ``framefeed bench all`` measured.

    The fastest setting that has room and pays within the epochs that were asked for; of those that are within 15 % of
    it, or within the noise, the simplest: no cache, no proxies, threads before processes, with all workers. With a
    training step that was given, settings that it never waits for are equally fast, and few workers are enough.

    Example: ``print(ff.bench.recommend(json.load(open("bench.json"))))``

    Args:
        results: The result of ``framefeed bench all --json FILE``, as ``json.load`` gives it. Rows may be missing.

    Returns:
        The advice.

    Raises:
        UsageError: This is another result, or no setting was measured.
    """
    is_result = isinstance(results, Mapping) and results.get("bench") == "all"
    if not is_result or not isinstance(results.get("settings"), Mapping):
        raise UsageError("results: expected the result of 'framefeed bench all --json FILE', read by json.load")
    settings = list_settings(results)
    if not settings:
        raise UsageError("results: no setting was measured: give 'framefeed bench all' more --minutes")
    options = results["settings"]
    chosen = _choose(settings, options)
    step, batch = options["step_seconds"], options["batch_size"]
    wait, least, most = (
        1 - step / max(step, batch / speed) for speed in (chosen.clips_per_second, chosen.high, chosen.low)
    )
    low, high = chosen.low, chosen.high
    estimated = "" if chosen.is_measured else ", estimated"
    later = " from the second epoch on" if chosen.sources == "cache" and results["cache"]["holds"] == "clips" else ""
    waits = f"{format_share(wait)} of the time"
    if format_share(least) != format_share(most):
        waits += f" ({format_share(least)} to {format_share(most)})"
    summary = (
        f"{_describe_sources(chosen, results)}, {format_workers(chosen.kind, chosen.workers)}.  Expected "
        f"{format_number(chosen.clips_per_second)} clips/s ({format_number(low)}-{format_number(high)}{estimated})"
        f"{later}; a step of {format_seconds(step)} {'waits' if options['is_step_given'] else 'would wait'} {waits}."
    )
    return Recommendation(
        kind=chosen.kind,
        workers=chosen.workers,
        cache=results["cache"]["codec"] if chosen.sources == "cache" else None,
        proxies=results["proxies"]["short_side"] if chosen.sources == "proxies" else None,
        clips_per_second=chosen.clips_per_second,
        step_wait=wait,
        code=_write_code(chosen, results),
        reasons=tuple(_explain(chosen, settings, results)),
        clips_per_second_interval=(low, high),
        summary=summary,
        setting=chosen.name,
    )


def list_settings(results: Mapping[str, Any]) -> list[Setting]:
    """List all settings that were measured, or that a sample tells of, with what speaks against them."""
    originals = [_read_run(each) for each in _select_runs(results, "originals")] or _predict_originals(results)
    if not originals or not results.get("media"):
        return []
    cached = [_read_run(each) for each in _select_runs(results, "cache")] if results.get("cache") else []
    proxies = _predict_proxies(originals, results)
    settings = [_slow_by_storage(each, results) for each in (*originals, *cached, *proxies)]
    base = max(each.clips_per_second for each in settings if each.sources == "originals")
    return [each if each.sources == "originals" else _judge(each, base, results) for each in settings]


def _select_runs(results: Mapping[str, Any], sources: Sources) -> list[Mapping[str, Any]]:
    return [run for run in results.get("runs") or () if run["sources"] == sources]


def _read_run(run: Mapping[str, Any]) -> Setting:
    rate = run["clips_per_second"]
    median, low, high = rate["median"], rate["low"], rate["high"]
    if rate["rounds"] < _FEW_ROUNDS:
        low, high = min(low, USED_SHARE * median), max(high, median / USED_SHARE)
    return Setting(run["sources"], run["kind"], run["workers"], median, low, high)


def predict_speed(results: Mapping[str, Any], workers: int) -> float:
    """Predict the clips a second of threads that do nothing but decode originals, and transform them."""
    options, seconds = results["settings"], results["decode"]["clip_cpu_seconds"]["median"]
    transform = options.get("transform_seconds") or 0.0
    held = transform if options.get("holds_lock") else 0.0  # by one thread at a time
    return float(1 / max((seconds + transform) / workers, held))


def _find_decoding(run: Mapping[str, Any]) -> float:
    """Find the share of a run's work that is decoding."""
    work = sum(seconds for name, seconds in run["stages"].items() if name not in ("waiting", "start"))
    return run["stages"]["decode"] / work if work else 1.0


def _predict_originals(results: Mapping[str, Any]) -> list[Setting]:
    """Predict the speed of originals from the time that decoding takes, where no loader was run."""
    if not results.get("decode"):
        return []
    options, settings = results["settings"], []
    for count in sorted({1, options["cores"]}):
        rate = USED_SHARE * predict_speed(results, count)
        low, high = USED_SHARE * rate, rate / USED_SHARE
        settings.append(Setting("originals", "threads", count, rate, low, high, is_measured=False))
    return settings


def _predict_proxies(originals: list[Setting], results: Mapping[str, Any]) -> Iterator[Setting]:
    """Predict the speed of proxies: what a loader does beside decoding takes as long as before."""
    proxies = results.get("proxies")
    if not proxies or not proxies["share"] or not results.get("decode"):
        return
    shares = {(run["kind"], run["workers"]): _find_decoding(run) for run in _select_runs(results, "originals")}
    holds_lock = any(kind == "processes" for kind, _ in shares)  # else none were run
    gain = proxies["gain"]
    alone = predict_speed(results, 1) * results["decode"]["clip_cpu_seconds"]["median"]
    for each in originals:
        if holds_lock and each.kind == "threads" and each.workers > 1:
            continue  # decoding faster, they would wait for the lock
        # Of one worker: with more, an epoch that ends early has more of what is neither.
        share = shares.get((each.kind, 1), shares.get((each.kind, each.workers), min(1.0, alone)))
        factor = 1 / (1 - share + share / gain["median"])
        # Intervals of two measurements that know nothing of each other.
        below = hypot(log(each.clips_per_second / each.low), log(gain["median"] / gain["low"]))
        above = hypot(log(each.high / each.clips_per_second), log(gain["high"] / gain["median"]))
        rate = each.clips_per_second * factor
        note = f"{format_bytes(proxies['bytes'])}, {format_seconds(proxies['make_seconds'])} to make"
        yield Setting(
            "proxies",
            each.kind,
            each.workers,
            rate,
            rate * exp(-below),
            rate * exp(above),
            is_measured=False,
            note=note,
        )


def _slow_by_storage(setting: Setting, results: Mapping[str, Any]) -> Setting:
    """Limit the speed to that of the storage, where memory cannot keep the files."""
    storage, machine = results.get("storage"), results["machine"]
    if setting.sources == "cache":
        cache, settings = results["cache"], results["settings"]
        height, width = settings["size"]
        nbytes, clip_bytes = cache["bytes"], settings["frames_per_clip"] * 3 * height * width * cache["ratio"]
        speed = (storage or {}).get("disk_bytes_per_second")
        note = f"{format_bytes(nbytes)}, {format_seconds(cache['make_seconds'])} to fill"
        setting = replace(setting, note=note)
    else:
        nbytes, clip_bytes = results["media"]["bytes"], (results.get("decode") or {}).get("bytes_per_clip")
        speed = (storage or {}).get("media_bytes_per_second")
        if setting.sources == "proxies":
            whole, proxies = max(1, nbytes), results["proxies"]
            nbytes = proxies["bytes"] + (1 - proxies["share"]) * whole  # files that stay are read themselves
            clip_bytes = clip_bytes and clip_bytes * nbytes / whole
            speed = (storage or {}).get("disk_bytes_per_second")
    if not speed or not clip_bytes or nbytes <= _MEMORY_SHARE * machine["memory_gib"] * 2**30:
        return setting
    return setting.bound(speed / clip_bytes)


def _judge(setting: Setting, base: float, results: Mapping[str, Any]) -> Setting:
    """Say why a cache or proxies are no choice: no room, or not worth their time in so many epochs."""
    made, options = results[setting.sources], results["settings"]
    free, epochs, clips = options["space_bytes"], options["epochs"], results["media"]["clips"]
    if made["bytes"] > free:
        return replace(setting, why_not=f"no room: {format_bytes(made['bytes'])} needed, of {_describe_space(options)}")
    enough = _find_enough(options)
    if base >= enough:
        return setting  # not needed
    epoch = clips / min(enough, setting.clips_per_second)
    first = made["make_seconds"] + epoch
    if made.get("holds") == "clips":  # it fills as the first epoch is read
        first = clips / base
    if first + (epochs - 1) * epoch >= epochs * clips / base:
        return replace(setting, why_not=f"takes longer to make than it saves in {format_count(epochs, 'epoch')}")
    return setting


def _describe_space(options: Mapping[str, Any]) -> str:
    """Write the bytes that a cache or proxies may take."""
    return f"{format_bytes(options['space_bytes'])} {'allowed' if options.get('is_space_given') else 'free'}"


def _find_enough(options: Mapping[str, Any]) -> float:
    """Find the clips a second that a training step never waits for, if one was given."""
    step = options["step_seconds"]
    return options["batch_size"] / step if options["is_step_given"] and step else float("inf")


def _choose(settings: list[Setting], options: Mapping[str, Any]) -> Setting:
    possible = [each for each in settings if not each.why_not]
    bounded = {each: each.bound(_find_enough(options)) for each in possible}
    best = max(bounded.values(), key=lambda each: (each.clips_per_second, [-part for part in each.order]))
    equal = [each for each, limited in bounded.items() if limited.is_as_good_as(best)]
    first = min(equal, key=lambda each: each.order)
    same = [each for each in equal if each.order[:2] == first.order[:2]]
    # All workers, which cost nothing where the cores are free; where a step never waits for fewer, these.
    full = [each for each in same if each.low >= _find_enough(options)]
    return min(full, key=lambda each: each.workers) if full else max(same, key=lambda each: each.workers)


def format_workers(kind: Kind, workers: int) -> str:
    """Write a number of workers."""
    return format_count(workers, kind.removesuffix("es") if kind == "processes" else "thread", kind)


def _describe_sources(chosen: Setting, results: Mapping[str, Any]) -> str:
    options = results["settings"]
    free = _describe_space(options)
    if chosen.sources == "cache":
        cache, (height, width) = results["cache"], options["size"]
        room = f"{format_bytes(cache['bytes'])} of {free}"
        # Others fill as they are read.
        room += f", {format_seconds(cache['make_seconds'])} to fill" if cache["holds"] == "every frame" else ""
        return f"cache {HELD[cache['holds']]} {cache['codec']} at {height}x{width} ({room})"
    if chosen.sources == "proxies":
        made = results["proxies"]
        return (
            f"proxies of {made['short_side']} pixels ({format_bytes(made['bytes'])} of {free}, "
            f"{format_seconds(made['make_seconds'])} to make)"
        )
    return "the files as they are"


def _explain(chosen: Setting, settings: list[Setting], results: Mapping[str, Any]) -> Iterator[str]:
    """Say what the other sources would give, or why they are no choice."""
    parts = []
    for sources in _SIMPLEST:
        others = [each for each in settings if each.sources == sources]
        if sources == chosen.sources or (not others and sources == "originals"):
            continue
        name = {"originals": "the files as they are", "cache": "a cache", "proxies": "proxies"}[sources]
        if not others:
            why = (results.get("left_out") or {}).get(sources) or (results.get("failed") or {}).get(sources)
            made = results.get("proxies") if sources == "proxies" else None
            if made and not made["share"]:
                why = f"none of {format_count(made['sampled'], 'file')} would have one"
            if made is None and results.get(sources):
                late = "it was interrupted before" if results.get("interrupted") else "no time was left"
                why = f"stored, but not read: {(results.get('failed') or {}).get('loader', late)}"
            parts.append(f"{name}: {' '.join((why or 'not measured').split())}")
            continue
        best = max(others, key=lambda each: each.clips_per_second)
        speed = f"{format_number(best.clips_per_second)} clips/s"
        note = f" ({best.note})" if best.note and not best.why_not else ""
        parts.append(f"{name}{note}: {speed}{_say_why_not(best, chosen, _find_enough(results['settings']))}")
    parts.sort(key=lambda part: part.startswith("the files"))
    if parts:
        yield f"Others: {'; '.join(parts)}."
    limits = []  # on one line, so that there is room for it beside four lines of code
    if results["media"]["scanned"] < results["media"]["files"]:
        scanned, files = (format_count(results["media"][name], "file") for name in ("scanned", "files"))
        limits.append(f"By {scanned} drawn from {files}.")
    busy, cores = results["machine"].get("cores_of_others", 0.0), results["machine"]["cores"]
    if busy > _BUSY_CORES:
        limits.append(f"Other programs used {busy:.1f} of {cores} cores meanwhile: alone, expect more.")
    if results.get("interrupted"):
        limits.append("Interrupted: by what was measured until then.")
    if limits:
        yield " ".join(limits)


def _say_why_not(other: Setting, chosen: Setting, enough: float) -> str:
    """Say why a setting is not chosen, where its speed alone does not."""
    if other.why_not:
        return f", {other.why_not}"
    if other.clips_per_second <= chosen.clips_per_second:
        return ""
    if other.clips_per_second <= SAME * chosen.clips_per_second:
        return f", no more than {format_share(SAME - 1)} faster"
    if other.bound(enough).clips_per_second <= SAME * chosen.clips_per_second:
        return ", which a step of this length does not need"
    return ", within the noise"


def _write_code(chosen: Setting, results: Mapping[str, Any]) -> str:
    options = results["settings"]
    media = options["media"]
    roots = _quote(media[0]) if len(media) == 1 else f"[{', '.join(map(_quote, media))}]"
    name = media[0].rstrip("/").rpartition("/")[2].strip(".") if len(media) == 1 else ""
    is_plain = re.fullmatch(r"[^\W_][-.\w]*", name)
    out = _quote(f"{name if is_plain else 'catalog'}.parquet")
    catalog = f"ff.scan({roots}, out={out})"
    if options.get("is_catalog"):
        root = f", {_quote(options['root'])}" if options.get("root") else ""
        catalog = f"ff.Catalog.open({roots}{root})"
    if chosen.sources == "proxies":
        folder = _quote(options.get("proxies_folder") or _join(options["disk"], "proxies"))
        catalog = f"ff.make_proxies({catalog}, {folder}, short_side={results['proxies']['short_side']})"
    size = f"size={tuple(options['size'])}"
    many = f"clips_per_video={options['clips_per_video']}, " if options["clips_per_video"] > 1 else ""
    lines = [f"catalog = {catalog}", f"plan = ff.plan_clips(catalog, {options['rule']}, {many}seed=0, {size})"]
    words = [f"batch_size={options['batch_size']}", f"workers={chosen.workers}"]
    words += ['kind="processes"'] if chosen.kind == "processes" else []
    if chosen.sources == "cache":
        folder = _quote(_join(options["disk"], "cache"))
        codec = "" if results["cache"]["codec"] == "raw" else f", codec={_quote(results['cache']['codec'])}"
        if results["cache"]["holds"] == "every frame":
            every = f"ff.plan_clips(catalog, ff.EveryFrame(), seed=0, {size})"
            lines.append(f"ff.cache.build({every}, ff.FrameCache({folder}{codec}))")
        words.append(f"cache=ff.FrameCache({folder}{codec})")
    if options["transform"]:
        module, _, function = options["transform"].partition(":")
        lines.insert(0, f"from {module} import {function.partition('.')[0]}")
        words.append(f"transform={function}")
    return "\n".join([*lines, f"loader = ff.ClipLoader(plan, {', '.join(words)})"])


def _quote(text: str) -> str:
    """Write a text as Python does, in double quotes where it can be."""
    return f'"{text}"' if text.isprintable() and not {'"', "\\"} & {*text} else repr(text)


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder.rstrip('/')}/{name}"
