"""Section E: width and height of very many pictures, per core.

The write-up has 1.3 million files and 20 cores; here a tree of links to some hundred generated pictures is read again
and again, and rates are those of one core, which the published ones are divided to.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.scan import suite
from benchmarks.sections.section import Result, Section, Table, list_reasons
from framefeed.bench import Begin, BenchOptions, MakeRow, Row
from framefeed.bench.baselines import Peers

FILES = 100_000
"""Of the tree of the suite "scan", whose row "headers" takes a fifth."""
CORES = 20
PUBLISHED = {
    "ffprobe, asyncio": 20,
    "ffprobe, process pool": 200,
    "ffprobe, fork server": 2_000,
    "PyAV": 20_000,
    "PyAV, process pool": 28_092,
}
"""Engine -> files a second on 20 cores."""


def plan(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan the row "headers" of the suite "scan"."""

    def make(scratch: Path, stack: ExitStack) -> Row:
        return replace(suite.plan_rows(FILES, options, peers, work, begin)["headers"](scratch, stack), key="E")

    return {"E": make}


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    """Files a second of one core."""
    reasons = list_reasons(rows["E"])
    rates = {each["name"]: each["per_cpu_second"] for each in rows["E"]["contenders"] if not each["num_wrong"]}
    names = [*PUBLISHED, *(name for name in rates if name not in PUBLISHED), *(set(reasons) - PUBLISHED.keys())]
    lines = [
        [
            name,
            f"{PUBLISHED[name]:,}" if name in PUBLISHED else "",
            f"{PUBLISHED[name] / CORES:,.0f}" if name in PUBLISHED else "",
            f"{rates[name]:,.0f}" if name in rates else reasons.get(name, "not installed"),
        ]
        for name in names
    ]
    header = ["", f"published, {CORES} cores", "the same, a core", "here, a CPU second"]
    return {"Width and height of pictures: files a second": Table(header, lines)}


SECTION = Section("width and height of a million pictures", suite.PEERS[:5], plan, tabulate, 35)
