"""Whole rows of ``bench scan``, made small."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.command import main, read_arguments
from benchmarks.peers.kinds import Engine, Size, one_by_one
from benchmarks.scan import large, media
from benchmarks.scan.facts import OUR_ENGINES, OURS, headers_row, mp4_row, size_of
from benchmarks.scan.large import memory_row, videos_row
from benchmarks.scan.media import Originals, Tree, find_originals, linked_tree, make_stills
from benchmarks.scan.suite import PEERS, make_suite
from benchmarks.scan.whole import Pair, scan_row, second_row, wrong_rows
from framefeed.bench import BenchOptions, Rounds, describe_closing, describe_row, run_row, run_suite
from framefeed.bench.baselines import Peers
from framefeed.errors import UnreadableMedia
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

ONCE = Rounds(1)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    folder = tmp_path_factory.mktemp("originals")
    clip = write_clip(folder / "clip.mp4", ClipSpec(num_frames=20))
    return find_originals([*make_stills(folder, ONCE), clip], folder / "work", ONCE)


@pytest.fixture
def tree(originals: Originals, tmp_path: Path) -> Sequence[Tree]:
    with linked_tree(originals.stills, tmp_path / "tree", 48, ONCE) as made:
        yield made


def in_process_engines() -> list[Engine]:
    engines = [*OUR_ENGINES, *Peers.find(PEERS).list_all("ENGINES")]
    return [engine for engine in engines if engine.pace in ("quick", "steady")]


def run_headers(tree: Tree, originals: Originals, engines: list[Engine]) -> dict[str, Any]:
    with ExitStack() as stack:
        return run_row(headers_row(tree, originals, engines, 1, stack), ONCE)


def test_engines_agree_and_are_compared(tree: Tree, originals: Originals) -> None:
    row = run_headers(tree, originals, in_process_engines())
    assert {engine["name"]: engine["wrong"] for engine in row["contenders"] if engine["num_wrong"]} == {}
    assert "limit" in {comparison["key"] for comparison in row["comparisons"]}
    text = "\n".join(describe_row(row))
    assert OURS in text
    assert "WRONG" not in text
    assert all("opening_cpu_seconds" in engine["facts"] for engine in row["contenders"])


def swapped_once(path: str) -> Size:
    """The right size of every file but one."""
    size = size_of(path)
    return (size[1], size[0]) if size and path.endswith("original_004.jpg") else size


def lying_about_a_broken_file(path: str) -> Size:
    return size_of(path) or ((1, 1) if path.endswith("text.png") else None)


@pytest.mark.parametrize("wrong", [swapped_once, lying_about_a_broken_file])
def test_an_engine_that_is_wrong_about_one_file_is_caught(tree: Tree, originals: Originals, wrong: object) -> None:
    engines = [OUR_ENGINES[0], Engine("hasty", one_by_one(wrong), "quick")]
    row = run_headers(tree, originals, engines)
    found = {engine["name"]: engine["num_wrong"] for engine in row["contenders"]}
    assert found[OURS] == 0
    assert found["hasty"] >= 1
    assert "WRONG" in "\n".join(describe_row(row))


def test_an_engine_that_is_wrong_only_while_it_is_timed_is_caught(tree: Tree, originals: Originals) -> None:
    def hasty(path: str) -> Size:
        return (1, 1) if "tree" in path and path.endswith("00000007.png") else size_of(path)

    row = run_headers(tree, originals, [OUR_ENGINES[0], Engine("hasty", one_by_one(hasty), "quick")])
    assert [engine["num_wrong"] for engine in row["contenders"]] == [0, 1]


def test_a_whole_scan_has_every_file(originals: Originals, tree: Tree, tmp_path: Path) -> None:
    with linked_tree(originals.stills, tmp_path / "small", 16, ONCE) as small, ExitStack() as stack:
        row = run_row(scan_row(Pair(small, tree), Pair(small, tree), tmp_path, 1, stack), ONCE)
    assert [each["wrong"] for each in row["contenders"]] == [[]] * 4
    assert row["facts"]["pictures"] == {"1 core": [16, 48], "1 cores": [16, 48]}
    assert [comparison["key"] for comparison in row["comparisons"]] == ["1 core", "all cores"]
    assert describe_row(row)


def test_rows_of_a_scan_that_are_wrong_are_caught(originals: Originals, tree: Tree) -> None:
    catalog = scan(str(tree.root), depth="header", workers=0, progress=False)
    assert wrong_rows(catalog, tree) == []
    turned = list(range(len(catalog)))
    turned[3], turned[4] = turned[4], turned[3]
    assert len(wrong_rows(catalog.take(turned), tree)) == 2
    assert wrong_rows(catalog.take([0]), tree) == ["1 rows of 48 files"]


@pytest.mark.test_all
@pytest.mark.slow
def test_a_second_scan_is_watched_and_paired(tree: Tree, tmp_path: Path) -> None:
    row = run_row(second_row(tree, tmp_path), ONCE)
    assert row["wrong"] == []
    assert [comparison["key"] for comparison in row["comparisons"]] == ["opened", "cost"]
    assert row["comparisons"][0]["figures"]["audit hook"]["median"] == 0


@pytest.mark.slow
def test_memory_of_a_scan(tree: Tree, tmp_path: Path) -> None:
    row = run_row(memory_row(tree, tmp_path, ONCE), ONCE)
    assert row["wrong"] == []
    assert all(20 < figure["median"] < 1500 for figure in row["comparisons"][0]["figures"].values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_facts_of_videos_agree(originals: Originals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.scan.facts.READS", 1)
    peers = Peers.find(["benchmarks.peers.pyav", "benchmarks.peers.torchcodec"])
    row = run_row(mp4_row(originals.videos, peers), ONCE)
    assert [engine["wrong"] for engine in row["contenders"] if engine["num_wrong"]] == []
    assert len(row["comparisons"]) == len(peers.modules)


@pytest.mark.test_all
def test_memory_of_planning_is_of_workers_that_still_hold_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "OPENINGS", 1)
    monkeypatch.setattr(large, "WORKERS", 2)
    row = run_row(videos_row(10, tmp_path, ONCE), ONCE)
    assert row["wrong"] == []
    assert sum(row["facts"]["planned_positions"]) == 10
    memory = row["comparisons"][1]["figures"]
    assert memory["planning"]["median"] > memory["imports alone"]["median"] / 2 > 20
    assert describe_row(row)


@pytest.mark.test_all
def test_the_command_writes_a_report(
    originals: Originals, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "LEAST_ORIGINALS", 4)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    out = tmp_path / "out" / "scan.json"
    own = str(originals.stills[0])
    out.parent.mkdir()
    given = read_arguments("scan", [own, "--rows", "headers", "--pairs", "1", "--json", str(out)])
    assert main(make_suite(4), given) == 0
    assert "the rate of PyAV in a process pool" in capsys.readouterr().out
    assert own not in out.read_text()
    engines = {engine["name"]: engine for engine in json.loads(out.read_text())["rows"][0]["contenders"]}
    assert {name: engine["wrong"] for name, engine in engines.items() if engine["num_wrong"]} == {}
    assert engines["PyAV, process pool"]["facts"]["opening_cpu_seconds"] > 0
    # A program a file costs the processor milliseconds: were its time not seen, the rate would be beyond all others.
    assert all(engine["per_cpu_second"] < 1000 for name, engine in engines.items() if name.startswith("ffprobe"))


def test_a_row_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(videos: object, rounds: object) -> None:
        raise UnreadableMedia("no facts today")

    monkeypatch.setattr("benchmarks.scan.suite.mp4_row", failing)
    monkeypatch.setattr("benchmarks.scan.suite.make_videos", lambda work, rounds: [])
    report = run_suite(make_suite(16), BenchOptions(work=tmp_path, rows=("scan", "mp4"), rounds=ONCE))
    assert [row["key"] for row in report["rows"]] == ["scan"]
    assert report["skipped"] == {"mp4": "UnreadableMedia: no facts today"}
    assert "not run: mp4" in "\n".join(describe_closing(report))
    assert [path.name for path in tmp_path.iterdir()] == ["originals"]
