import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.scan import media
from benchmarks.scan.media import find_originals, linked_tree, make_stills
from benchmarks.scan.whole import SMALLEST, Pair, Steady, count_opened
from framefeed.bench import Rounds
from framefeed.bench.baselines import load_module


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


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_trees_vanish_when_interrupted(
    stills: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    root = tmp_path / "tree"
    with pytest.raises(error), linked_tree(stills, root, 20, Rounds()):
        raise error
    assert not root.exists()
    link = os.link

    def failing(source: str, target: str) -> None:
        if target.endswith("00000009.jpg"):
            raise error
        link(source, target)

    monkeypatch.setattr(media.os, "link", failing)
    with pytest.raises(error), linked_tree(stills, root, 20, Rounds()):
        pytest.fail("never made")
    assert not root.exists()


def test_a_file_with_too_many_names_is_copied(
    stills: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def limited(source: str, target: str) -> None:
        if os.stat(source).st_nlink >= 3:
            raise OSError(31, "Too many links")
        link(source, target)

    monkeypatch.setattr(media.os, "link", limited)
    with linked_tree(stills[:2], tmp_path / "tree", 20, Rounds()) as tree:
        contents = [Path(path).read_bytes() for path in tree.paths()]
        assert contents == [stills[number % 2].read_bytes() for number in range(20)]
        assert max(os.stat(path).st_nlink for path in tree.paths()) == 3


def test_few_originals_become_sixteen_files(stills: list[Path], tmp_path: Path) -> None:
    originals = find_originals([stills[0], stills[3]], tmp_path, Rounds())
    assert len(originals.stills) == len({path.stat().st_ino for path in originals.stills}) == 16
    assert originals.stills[1].read_bytes() == stills[3].read_bytes()
    assert {path.suffix for path in originals.stills} == {".jpg", ".png"}
    assert originals.videos == []


def test_what_a_scan_costs_however_many_files_there_are_is_taken_off(stills: list[Path], tmp_path: Path) -> None:
    with (
        linked_tree(stills, tmp_path / "few", 16, Rounds()) as few,
        linked_tree(stills, tmp_path / "many", 48, Rounds()) as many,
    ):
        way = Steady(Pair(few, many), lambda tree: sum(range(40_000 * len(tree))))
        took = way.run(0)
        assert len(way.pair) == 32
        assert 0 < way.small[0].cpu < took.cpu
        other = Steady(Pair(many, few), lambda tree: sum(range(40_000 * len(tree))))
        assert other.run(0).cpu == SMALLEST


def test_the_kernel_sees_every_opening(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    assert count_opened([str(tmp_path)], lambda: list(os.scandir(tmp_path)))[1] == 0
    assert count_opened([str(tmp_path)], lambda: os.stat(tmp_path / "a"))[1] == 0
    originals, opened = count_opened(
        [str(tmp_path)], lambda: subprocess.run(["cat", tmp_path / "a"], capture_output=True, check=True).stdout
    )
    assert (originals, opened) == (b"1", 1)
    assert count_opened([str(tmp_path / "gone")], lambda: 5) == (5, None)


@pytest.mark.parametrize(
    ("printed", "size"),
    [(b"1280,851\n", (1280, 851)), (b"", None), (b"N/A,N/A\n", None), (b"0,0\n", None), (b"1,2,3\n", None)],
)
def test_what_ffprobe_prints(printed: bytes, size: tuple[int, int] | None) -> None:
    ffprobe = load_module("benchmarks.peers.ffprobe")
    if isinstance(ffprobe, str):
        pytest.skip(ffprobe)
    assert ffprobe.parse_size(printed) == size
