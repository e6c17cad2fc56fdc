"""One row of the report: every method of every peer against ours, paired, checked frame by frame.

Whether a contender delivered the frames that were asked for: compared by content, whatever its resize does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from framefeed.bench import _rules
from framefeed.bench._measuring import Contender, Metric, Rounds, Run, Timings, as_json, measure
from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._ours import OUR_METHOD, OURS, decode_plainly
from framefeed.bench._peer import Method
from framefeed.bench._rules import Batches, BenchClip
from framefeed.bench._workloads import Goal, Rule, Workload
from framefeed.bench.baselines import NAMES, load_baseline
from framefeed.parallel import Ok, catch_outcome

FloatArray = npt.NDArray[np.float32]

NEIGHBOURS = (-3, -2, -1, 1, 2, 3)
_CELL = 4
"""Side in pixels of the squares whose mean brightness is compared: coarser than any difference of resizing."""
MEAN_TOLERANCE = 6.0
"""Largest mean difference in brightness, of 255: colour matrices and ranges that a peer ignores stay below it."""
PEAK_TOLERANCE = 60.0
"""Largest difference of one square: a figure of a number that differs is above it."""
_TIE = 0.2
"""Neighbours that look the same are not told apart."""


def brightness(pictures: npt.NDArray[np.uint8], layout: Literal["NCHW", "NHWC"]) -> FloatArray:
    """Mean brightness of squares of 4 pixels, float32 [T, H / 4, W / 4]."""
    channels_last = pictures.transpose(0, 2, 3, 1) if layout == "NCHW" else pictures
    luma = channels_last.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    count, height, width = luma.shape
    cells: FloatArray = luma.reshape(count, height // _CELL, _CELL, width // _CELL, _CELL).mean((2, 4))
    return cells


class Reference:
    """The requested frames of a clip and their neighbours, decoded with nothing left out.

    Args:
        video: Where from.
        ordinals: The requested frames.
    """

    def __init__(self, video: BenchVideo, ordinals: Sequence[int]) -> None:
        self._ordinals = list(ordinals)
        self._last = len(video) - 1
        needed = sorted({self._near(ordinal, step) for ordinal in ordinals for step in (0, *NEIGHBOURS)})
        pictures = brightness(decode_plainly(video, needed), "NCHW")
        self._of = dict(zip(needed, pictures, strict=True))

    def _near(self, ordinal: int, step: int) -> int:
        return min(max(ordinal + step, 0), self._last)

    def share_matching(self, delivered: npt.NDArray[np.uint8], layout: Literal["NCHW", "NHWC"]) -> float:
        """Share of the requested frames that came: like the reference, and not more like a neighbour of it."""
        if len(delivered) != len(self._ordinals):
            return 0.0
        came = brightness(delivered, layout)
        hits = [self._is_right(picture, ordinal) for picture, ordinal in zip(came, self._ordinals, strict=True)]
        return float(np.mean(hits))

    def _is_right(self, picture: FloatArray, ordinal: int) -> bool:
        difference = np.abs(picture - self._of[ordinal])
        if difference.mean() > MEAN_TOLERANCE or difference.max() > PEAK_TOLERANCE:
            return False
        others = [_unlikeness(picture, self._of[self._near(ordinal, step)]) for step in NEIGHBOURS]
        return _unlikeness(picture, self._of[ordinal]) <= min(others) + _TIE


def _unlikeness(picture: FloatArray, reference: FloatArray) -> float:
    """What of a picture a reference does not explain, in levels (root mean square).

    A gain and a shift of brightness are no evidence: other colour recipes have them, and so have fades.
    """
    came, expected = picture - picture.mean(), reference - reference.mean()
    power = float((expected * expected).sum())
    gain = float((came * expected).sum()) / power if power else 0.0
    return float(np.sqrt(((came - gain * expected) ** 2).mean()))


_RUNS: dict[str, Callable[[Method, Batches], Run]] = {
    "many files": _rules.opening_each,
    "one file": _rules.kept_open,
    "clip by clip": _rules.opened_once,
    "one call": _rules.in_one_call,
}
CHECKED_CLIPS = 2


@dataclass(frozen=True, slots=True)
class Field:
    """All methods that can be measured here.

    Attributes:
        methods: Of all peers that are installed.
        versions: Of their libraries.
        missing: Peer -> why it cannot be had.
    """

    methods: list[Method]
    versions: dict[str, str]
    missing: dict[str, str]


def find_field(names: Sequence[str] = NAMES) -> Field:
    """Load the baselines that are installed."""
    checks = Field([], {}, {})
    for name in names:
        baseline = load_baseline(name)
        if isinstance(baseline, str):
            checks.missing[name] = baseline
            continue
        checks.methods.extend(baseline.methods())
        checks.versions.update(baseline.versions())
    return checks


def compare(workload: Workload, store: MediaStore, field: Field, rounds: Rounds) -> dict[str, Any]:
    """Measure one row under all its rules.

    Args:
        workload: The row.
        store: Its media.
        field: The peers.
        rounds: How often.
    """
    batches = {rule: workload.batches(store, rounds.pairs, rule) for rule in workload.rules}
    # Checked first: whatever a library sets up at its first use is not timed.
    checked = {rule: _checked(field.methods, rule, batches[rule]) for rule in workload.rules}
    contenders = [
        _entry(method, rule, batches[rule], workload.goals)
        for rule in workload.rules
        for method in (OUR_METHOD, *field.methods)
        if method.name in checked[rule].shares
    ]
    samples = measure([entry.contender for entry in contenders], rounds)
    return {
        "key": workload.key,
        "title": workload.title,
        "rules": {rule: _rules.RULES[rule] for rule in workload.rules},
        "clips_a_round": workload.clips,
        "contenders": [_facts(entry, samples, workload.clips, checked[entry.rule].shares) for entry in contenders],
        "failed": {rule: checks.failed for rule, checks in checked.items() if checks.failed},
        "best": [outcome_against(Goal(rule), samples, contenders) for rule in workload.rules],
        "goals": [outcome_against(goal, samples, contenders) for goal in workload.goals],
    }


@dataclass(frozen=True, slots=True)
class RuledContender:
    """A method that plays by a rule."""

    method: Method
    rule: Rule
    contender: Contender

    @property
    def name(self) -> str:
        """Unique in a row."""
        return self.contender.name


def _entry(method: Method, rule: Rule, batches: Batches, goals: Sequence[Goal]) -> RuledContender:
    for clip in (clip for batch in batches for clip in batch):
        method.prepare(clip.video)
    own = method.name == OURS
    run = _rules.ours_in_one_call(batches) if own and rule == "one call" else _RUNS[rule](method, batches)
    groups = [] if own else [f"{rule} {kind}" for kind in ("all", "own resize")[: 1 + method.resizes_itself]]
    groups += [f"goal {number}" for number, goal in enumerate(goals) if _plays_for(goal, method, rule)]
    return RuledContender(method, rule, Contender(f"{method.name} | {rule}", run, tuple(groups)))


def _plays_for(goal: Goal, method: Method, rule: Rule) -> bool:
    return goal.rule == rule and method.resizes_itself and _competes(method, goal.peers)


def _facts(entry: RuledContender, samples: Timings, clips: int, shares: dict[str, float]) -> dict[str, Any]:
    return {
        "name": entry.method.name,
        "rule": entry.rule,
        "clips_per_cpu_second": round(clips / samples.median(entry.name), 3),
        "clips_per_second": round(clips / samples.median(entry.name, "wall"), 3),
        "rounds": len(samples.of[entry.name]),
        "frames_right": shares[entry.method.name],
        "cpu_seconds": [round(sample.cpu, 4) for sample in samples.of[entry.name].values()],
        "wall_seconds": [round(sample.wall, 4) for sample in samples.of[entry.name].values()],
    }


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether each method delivers what it was asked for.

    Attributes:
        shares: Way -> share of its frames that were the right ones.
        failed: Way -> the error that it raised instead.
    """

    shares: dict[str, float]
    failed: dict[str, str]


def _checked(methods: Sequence[Method], rule: Rule, batches: Batches) -> Checked:
    if rule == "one call":
        able = [method for method in methods if method.takes_many]
        return check_methods(able, [(batches[0][0], _rules.all_ordinals(batches[0]))])
    return check_methods(methods, [(clip, clip.ordinals) for clip in batches[0][:CHECKED_CLIPS]])


def check_methods(methods: Sequence[Method], asked: Sequence[tuple[BenchClip, list[int]]]) -> Checked:
    """Compare some frames of ours and of each peer's method to the reference.

    Args:
        methods: Of the peers.
        asked: Clips, and the frames to ask for of their videos.
    """
    references = [Reference(clip.video, ordinals) for clip, ordinals in asked]
    checked = Checked({}, {})

    def share(method: Method) -> float:
        delivered = (_delivered(method, clip, ordinals) for clip, ordinals in asked)
        return float(np.mean([r.share_matching(d, method.layout) for r, d in zip(references, delivered, strict=True)]))

    for method in (OUR_METHOD, *methods):
        outcome = catch_outcome(share, method)
        if isinstance(outcome, Ok):
            checked.shares[method.name] = round(outcome.value, 4)
        elif method is OUR_METHOD or not isinstance(outcome.error, Exception):
            raise outcome.error
        else:
            checked.failed[method.name] = f"{type(outcome.error).__name__}: {outcome.error}"
    return checked


def _delivered(method: Method, clip: BenchClip, ordinals: list[int]) -> Any:
    method.prepare(clip.video)
    session = method.open(clip.video)
    try:
        return np.asarray(session.clip(ordinals))
    finally:
        session.close()


def outcome_against(goal: Goal, samples: Timings, entries: Sequence[RuledContender]) -> dict[str, Any]:
    """Our figures against the fastest method of the peers that compete."""
    out: dict[str, Any] = {"rule": goal.rule, "peers": list(goal.peers), "floor": goal.floor, "aim": goal.aim}
    rivals = [entry for entry in entries if entry.rule == goal.rule and _competes(entry.method, goal.peers)]
    itself = [entry for entry in rivals if entry.method.resizes_itself]
    ours = f"{OURS} | {_our_rule(goal.rule, samples)}"
    for key, entrants, metric in (("cpu", rivals, "cpu"), ("wall", rivals, "wall"), ("cpu_own_resize", itself, "cpu")):
        if entrants:
            out[key] = _against([entry.name for entry in entrants], ours, samples, cast(Metric, metric))
    return out


def _against(rivals: Sequence[str], ours: str, samples: Timings, metric: Metric) -> dict[str, Any]:
    best = samples.best(rivals, metric)
    return {"against": best.partition(" | ")[0], **as_json(samples.ratio(best, ours, metric))}


def _our_rule(rule: str, samples: Timings) -> str:
    """A batch of one file is one call for us, whatever the peers do."""
    return "one call" if rule == "clip by clip" and f"{OURS} | one call" in samples.of else rule


def _competes(method: Method, peers: Sequence[str]) -> bool:
    return method.name != OURS and (not peers or method.library in peers)
