"""Section B: producers, a bounded queue and one consumer.

The write-up's producer takes a second for a batch and its consumer 0.2 s; ours a tenth of both. It reports the use of
the processor by the consumer; here it is the share of its time in which the consumer has a batch to train on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.load.simulation import CONSUMER_SECONDS, PRODUCERS, find_period, simulation_row
from benchmarks.sections.section import Result, Section, Table
from framefeed.bench import Begin, BenchOptions, MakeRow, Row
from framefeed.bench.baselines import Peers

PUBLISHED = {1: "5 %", 10: "30 %", 30: "119 %"}
"""Producers -> use of the processor that the write-up shows."""


def plan(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan the simulation of the suite "load"."""

    def make(scratch: Path, stack: ExitStack) -> Row:
        return replace(simulation_row(peers, scratch), key="B")

    return {"B": make}


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    """Use of the consumer, a column for each number of producers."""
    use = rows["B"]["facts"]["use_of_the_consumer_in_percent"]
    ideal = [f"{100 * CONSUMER_SECONDS / find_period(each):.0f} %" for each in PRODUCERS]
    lines = [
        ["published: TensorFlow's queue, CPU in all", *(PUBLISHED.get(each, "") for each in PRODUCERS)],
        ["the most that is possible", *ideal],
        *(
            [name, *(f"{shares[str(each)]:.0f} %" if str(each) in shares else "" for each in PRODUCERS)]
            for name, shares in use.items()
        ),
    ]
    return {"Use of the consumer, by producers": Table(["", *map(str, PRODUCERS)], lines)}


SECTION = Section(
    "a loader with producers and a consumer", ("benchmarks.peers.queues", "benchmarks.peers.torch"), plan, tabulate, 40
)
