"""The page of ``framefeed bench all``: which way of loading files is fastest on a machine, and what was measured there.

It is made of the result that is written as JSON. Any part of that may be missing: the page says what, and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import dedent

from framefeed._units import format_number, format_share
from framefeed.report._columns import show_full_name
from framefeed.report._files import MAX_MESSAGE
from framefeed.report._markup import Node, Section, make_element, make_grid
from framefeed.report._measured import (
    Result,
    clip_number,
    describe_machine,
    format_milliseconds,
    make_measured_sections,
    read_number,
    read_part,
    read_rows,
    show,
    write,
)
from framefeed.report._page import StrPath, check_page, make_document, write_page

GENERATOR = "framefeed bench all"
_NAMES = "page of advice", "advice.html"
# Begins of lines of code: the first of them ends the sentences of the advice.
_CODE = re.compile(r"\s*(import \w|from \S+ import |@|ff\.|\w+ = |framefeed (scan|cache|proxy|feed) )")
# Keys of ``stages`` -> names, in the order of the bars; all other keys are summed up in the last.
STAGES = {"plan": "planning", "decode": "decoding", "transform": "transform", "waiting": "waiting", "other": "other"}
WHISKER = "Thin lines and numbers in parentheses are intervals, in which the true value probably lies."


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One way of loading, as it is compared with others."""

    name: str  # such as "cache, 2 threads"
    clips_per_second: float
    low: float  # interval in which the true value probably lies; NaN where it is not known
    high: float
    is_advised: bool
    is_measured: bool  # False: estimated from a sample
    note: str = ""  # what it costs, such as "31 GB, 35 minutes to make", or why it is excluded
    is_excluded: bool = False  # whether it cannot be used here, for instance because it does not fit


def make_advice_page(results: Result, advice: Sequence[str], settings: Sequence[SettingRow]) -> str:
    """Make the page.

    Args:
        results: What ``framefeed bench all --json`` writes.
        advice: The lines that the command prints; the last ones are code.
        settings: What is compared.
    """
    media, machine = read_part(results, "media"), read_part(results, "machine")
    files = f"{write(media, 'files')} files" if media else "files"
    subject = f"Loading {files} on {show(machine.get('processor') or 'this machine')}"
    sections = [_make_advice(advice), _make_speed(results, settings), *make_measured_sections(results)]
    subtitle = make_element("p", make_element("bdi", subject))
    return make_document(GENERATOR, "Which way is fastest here", subtitle, sections, describe_machine(results))


def write_advice_page(path: StrPath, results: Result, advice: Sequence[str], settings: Sequence[SettingRow]) -> None:
    """Write the page that `make_advice_page` makes. An earlier one is replaced.

    Raises:
        UsageError: The folder does not exist, another file is already there, or the page cannot be written.
    """
    write_page(path, partial(make_advice_page, results, advice, settings), GENERATOR, *_NAMES)


def check_advice_page(path: StrPath) -> None:
    """Check that such a page can be written, before anything is measured for it."""
    check_page(path, GENERATOR, *_NAMES)


def _make_advice(advice: Sequence[str]) -> Section:
    first = next((at for at, line in enumerate(advice) if at and _CODE.match(line)), len(advice))
    lines = [line.removeprefix("Advice:").strip() for line in advice[:first]]
    lines = [line for line in lines if line] or ["none, because too little was measured."]
    texts = [make_element("p", show(line[:1].upper() + line[1:], 4 * MAX_MESSAGE)) for line in lines]
    box = make_element("div", *texts, class_="remarks advice")
    code = map(show_full_name, dedent("\n".join(advice[first:])).strip("\n").split("\n"))
    copied = make_element("pre", make_element("code", "\n".join(code)))
    hint = make_element("p", "One click on it selects all of it, to be copied.", class_="note")
    return Section("advice", "Advice", box, make_element("figure", copied, hint) if advice[first:] else None)


def _make_speed(results: Result, settings: Sequence[SettingRow]) -> Section:
    runs = [_draw_run(run) for run in read_rows(results, "runs") if any(_share_time(run))]
    stages = None
    if runs:
        legend = (_make_sample(name, f"stage{at}") for at, name in enumerate(STAGES.values()))
        heading = make_element("h3", "Where a batch's time goes")
        listed = make_element("ul", *legend, class_="legend note"), make_element("ul", *runs, class_="bars ways")
        stages = make_element("figure", heading, *listed)
    return Section("speed", "Speed", make_grid(_draw_settings(settings), stages, class_="pair"))


def _draw_settings(settings: Sequence[SettingRow]) -> Node:
    """Draw a bar for each setting, the fastest first, and those that are excluded last."""
    heading = make_element("h3", "Ways of loading", make_element("span", "clips/s", class_="unit"))
    if not settings:
        return make_element("figure", heading, make_element("p", "None was measured.", class_="note"))
    most = max(max(clip_number(row.clips_per_second), clip_number(row.high)) for row in settings) or 1.0
    lines, kinds = [], dict[str, str]()
    for row in sorted(settings, key=lambda row: (row.is_excluded, -clip_number(row.clips_per_second))):
        rate, width = format_number(row.clips_per_second), clip_number(row.clips_per_second) / most
        marks = [_draw_part("mark", 0, max(width, 0.006))] if width else []
        low, high = clip_number(row.low), clip_number(row.high)
        if low < high:
            marks.append(_draw_part("whisker", low / most, (high - low) / most))
            rate += f" ({format_number(low)} to {format_number(high)})"
        kind, tag = ("guess", "estimated") if not row.is_measured else ("", "")
        kind, tag = ("excluded", "not possible here") if row.is_excluded else (kind, tag)
        kinds[kind] = tag or "measured"
        tags = [tag, "\N{CHECK MARK} advised" if row.is_advised else ""]
        chips = [make_element("span", each, class_="tag") for each in tags if each]
        lines.append(_make_line(show(row.name), chips, marks, rate, row.note and [show(row.note)], kind))
    samples = [_make_sample(name, "mark", kind) for kind, name in kinds.items()]
    legend = make_element("ul", *samples, class_="legend note")
    return make_element("figure", heading, legend, make_element("ul", *lines, class_="bars ways"),
                        make_element("p", WHISKER, class_="note"))  # fmt: skip


def _draw_run(run: Result) -> Node:
    """Draw the shares of the time of a run, each with its number."""
    kind = str(run.get("kind") or "workers")
    kind = {"threads": "thread", "processes": "process"}.get(kind, kind) if run.get("workers") == 1 else kind
    name = f"{show(run.get('sources') or 'files')}, {write(run, 'workers')} {show(kind)}"
    start, marks, notes = 0.0, list[Node](), list[str | Node]()
    for at, (stage, share) in enumerate(zip(STAGES.values(), _share_time(run), strict=True)):
        if share:
            marks.append(_draw_part(f"stage{at}", start, share))
            notes.append(f"{stage} {format_share(share)}".replace(" ", "\N{NO-BREAK SPACE}"))
        start += share
    if "cpu_seconds_per_clip" in run:
        notes.append(f"{write(run, 'cpu_seconds_per_clip', format_milliseconds)} ms of CPU a clip")
    if run.get("failed_clips"):
        notes.append(make_element("b", f"clips that failed: {write(run, 'failed_clips')}"))
    return _make_line(name, [], marks, f"{write(read_part(run, 'clips_per_second'), 'median')} clips/s", notes)


def _share_time(run: Result) -> list[float]:
    """Compute the share of each of ``STAGES`` in the time of a run; all are 0 where it is not known."""
    times = dict.fromkeys(STAGES, 0.0)
    stages = read_part(run, "stages")
    for name in stages:
        times[name if name in STAGES else "other"] += clip_number(read_number(stages, name))
    return [each / (sum(times.values()) or 1) for each in times.values()]


def _make_line(
    name: str, chips: Sequence[Node], marks: Sequence[Node], number: str, notes: Sequence[str | Node], kind: str = ""
) -> Node:
    label = make_element("span", make_element("bdi", name), *chips, class_="value")
    below = [part for note in notes for part in (", ", note)][1:]
    note = make_element("span", *below, class_="note") if below else None
    line = make_element("svg", *marks, class_="line", aria_hidden="true")
    return make_element("li", label, line, make_element("span", number, class_="number"), note, class_=kind or None)


def _draw_part(kind: str, start: float, width: float) -> Node:
    return make_element("rect", class_=kind, x=f"{100 * start:.2f}%", width=f"{100 * width:.2f}%", height="100%")


def _make_sample(name: str, mark: str, kind: str = "") -> Node:
    sample = make_element("svg", _draw_part(mark, 0, 1), width=14, height=14, aria_hidden="true")
    return make_element("li", sample, name, class_=kind or None)
