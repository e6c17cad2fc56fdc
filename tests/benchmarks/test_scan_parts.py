import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.scan.media import Tree, linked_tree, make_stills
from benchmarks.scan.whole import SMALLEST, Pair, Steady, count_opened
from framefeed.bench import Reading, Rounds


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_stills(tmp_path_factory.mktemp("stills"), Rounds())


def test_trees_are_links_in_byte_order_and_vanish(stills: list[Path], tmp_path: Path) -> None:
    with linked_tree(stills, tmp_path / "tree", 2017, Rounds()) as tree:
        paths = tree.paths()
        assert sorted(str(path) for path in tree.root.rglob("*.*")) == paths == sorted(paths, key=os.fsencode)
        assert len(paths) == len(tree) == 2017
        assert os.path.samefile(tree.path(33), stills[33 % len(stills)])
        assert sorted({os.path.dirname(path) for path in paths}) == tree.folders()
        assert tree.paths(5) == paths[:5]
    assert not tree.root.exists()
    assert all(still.stat().st_nlink == 1 for still in stills)


def test_what_a_scan_costs_however_many_files_there_are_is_taken_off(
    stills: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Reading(0.0, 0.0)

    def work(tree: Tree) -> None:
        """Take two seconds, and one more a file."""
        nonlocal clock
        clock = Reading(clock.cpu + 2 + len(tree), clock.wall)

    monkeypatch.setattr("benchmarks.scan.whole.read_family_clocks", lambda: clock)
    with (
        linked_tree(stills, tmp_path / "few", 16, Rounds()) as few,
        linked_tree(stills, tmp_path / "many", 48, Rounds()) as many,
    ):
        way = Steady(Pair(few, many), work)
        assert (way.run(0).cpu, way.small[0].cpu, len(way.pair)) == (32, 18, 32)
        assert Steady(Pair(many, few), work).run(0).cpu == SMALLEST


def test_the_kernel_sees_every_opening(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    assert count_opened([str(tmp_path)], lambda: list(os.scandir(tmp_path)))[1] == 0
    assert count_opened([str(tmp_path)], lambda: os.stat(tmp_path / "a"))[1] == 0
    originals, opened = count_opened(
        [str(tmp_path)], lambda: subprocess.run(["cat", tmp_path / "a"], capture_output=True, check=True).stdout
    )
    assert (originals, opened) == (b"1", 1)
    assert count_opened([str(tmp_path / "gone")], lambda: 5) == (5, None)
