"""The simulation of producers and a consumer, without waiting for it, and its plot."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.load import simulation
from benchmarks.load.chart import draw_use
from benchmarks.load.simulation import BATCH, FRAMES, Loader, Records, find_period, find_wrong
from benchmarks.peers.kinds import Producers
from framefeed.bench import Reading, Rounds, Timings, run_row
from framefeed.bench.baselines import Peers, load_module

OURS = Loader("framefeed")
QUEUE = Loader("threads + queue.Queue", "queues", keeps_order=False)


def make_shown(numbers: list[int]) -> list[list[int]]:
    return [[number % FRAMES] * BATCH for number in numbers]


def take(offered: Producers, batches: int, producers: int) -> list[list[int]]:
    def load(position: int) -> Any:
        return np.full((3, 2, 2), position // BATCH % FRAMES, dtype=np.uint8)

    length = BATCH * (batches + 40)
    iterator = offered.begin(load, length, BATCH, producers)
    shown = [np.asarray(next(iterator))[:, 0, 0, 0].tolist() for _ in range(batches)]
    del iterator
    return shown


@pytest.mark.parametrize("name", ["queues", "spdl", "grain"])
def test_loaders_of_threads_make_whole_batches(name: str) -> None:
    module = load_module(f"benchmarks.peers.{name}")
    if isinstance(module, str):
        pytest.skip(module)
    (offered,) = module.PRODUCERS
    loader = Loader(offered.name, name, offered.keeps_order)
    assert find_wrong(loader, take(offered, 6, 3)) == []


def test_our_loader_gives_the_samples_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "PRODUCER_SECONDS", 0.0)
    simulation.make_files(tmp_path)
    loader = simulation.make_loader(tmp_path, BATCH * 18, 3)
    shown = [batch[:, 0, 0, 0].tolist() for batch in simulation.begin_ours(loader)]
    assert len(shown) == 18
    assert find_wrong(OURS, shown) == []


def test_wrong_batches_are_named() -> None:
    assert find_wrong(OURS, make_shown([0, 1, 2])) == []
    assert "expected" in find_wrong(OURS, make_shown([0, 2, 1]))[0]
    assert find_wrong(QUEUE, make_shown([2, 0, 1])) == []
    mixed = make_shown([0, 1])
    mixed[1][3] = 2
    assert "mixes" in find_wrong(QUEUE, mixed)[0]


def test_a_program_trains_until_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "PRODUCER_SECONDS", 0.001)
    monkeypatch.setattr(simulation, "CONSUMER_SECONDS", 0.0001)
    simulation.make_files(tmp_path)
    for module in ("", "queues"):
        result = simulation.simulate(module, "2", "3", str(tmp_path))
        assert len(result["arrivals"]) == len(result["shown"]) >= 4
        assert result["arrivals"] == sorted(result["arrivals"])
        assert result["cpu"] >= 0


def test_shares_and_samples_are_concluded() -> None:
    by_name = {f"{each.name}, {count}": (each, count) for each in (OURS, QUEUE) for count in (1, 10)}
    walls = {"framefeed, 1": 0.1, "framefeed, 10": 0.025, "threads + queue.Queue, 1": 0.2}
    timings = Timings({name: dict.fromkeys(range(3), Reading(0.0, wall)) for name, wall in walls.items()})
    records = Records({("framefeed", 1): {0: 88, 1: 88}, ("threads + queue.Queue", 1): {0: 80, 1: 44}})
    findings = simulation.conclude_simulation(timings, by_name, records)
    figures = {each.key: {name: of.value.median for name, of in each.figures.items()} for each in findings.comparisons}
    assert figures["share"] == pytest.approx({"1 producers": 100.0, "10 producers": 80.0})
    assert figures["share of threads + queue.Queue"] == pytest.approx({"1 producers": 50.0})
    assert figures["samples"] == pytest.approx({"1 producers": (1.1 + 2.0) / 2})
    assert findings.facts["use_of_the_consumer_in_percent"] == {
        "framefeed": {"1": 20.0, "10": 80.0},
        "threads + queue.Queue": {"1": 10.0},
    }


def run_ready(loader: Loader, producers: int, batches: int, folder: Path) -> dict[str, Any]:
    """What a run gives at the ideal rate."""
    arrivals = [0.1 + number * find_period(producers) for number in range(batches + 1)]
    return {"arrivals": arrivals, "shown": make_shown(list(range(len(arrivals)))), "cpu": 0.1}


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(Loader, "run", run_ready)
    row = run_row(simulation.simulation_row(Peers.find(["benchmarks.peers.queues"]), tmp_path), Rounds(2))
    return {"rows": [row], "machine": {"processor": "a <processor>", "cores": 2}}


def test_the_plot_has_a_line_for_each_loader(report: dict[str, Any]) -> None:
    drawn = draw_use(json.loads(json.dumps(report)))
    assert drawn is not None
    tree = ET.fromstring(drawn)
    names = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"framefeed", "threads + queue.Queue", "ideal", "a <processor>, 2 cores", "100 %"} <= set(names)
    lines = [each.get("points") for each in tree.iter("{http://www.w3.org/2000/svg}polyline")]
    # At the ideal rate all lines are the same.
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert draw_use({"rows": [], "machine": {}}) is None
