import os
import subprocess
import sys
from pathlib import Path

import pytest

from framefeed.bench._goals import SMALLEST, Mark, per_file, steady
from framefeed.bench._measuring import Interval, Sample, Timings, settle
from framefeed.bench.baselines import load_module
from framefeed.bench.scan import _trees
from framefeed.bench.scan._family import descendants, family_megabytes, family_now, peak_megabytes
from framefeed.bench.scan._media import find_originals, make_stills
from framefeed.bench.scan._trees import linked_tree
from framefeed.bench.scan._whole import count_opened

BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_stills(tmp_path_factory.mktemp("stills"))


def test_time_of_children_counts_while_they_live_and_after() -> None:
    before = family_now()
    with subprocess.Popen([sys.executable, "-c", BUSY + "print(flush=True)\ninput()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        living = family_now() - before
        assert child.pid in descendants(os.getpid())
        assert family_megabytes(child.pid) > 1
        child.communicate(b"\n")
    ended = family_now() - before
    assert child.pid not in descendants(os.getpid())
    assert family_megabytes(child.pid) == 0
    assert 0.3 <= living.cpu <= ended.cpu + 0.02  # the system counts ended ones in whole ticks at worst


def test_time_of_grandchildren_counts() -> None:
    before = family_now()
    inner = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert (family_now() - before).cpu >= 0.3
        child.communicate(b"\n")


def test_settling_takes_a_clock() -> None:
    readings = iter([Sample(0, 0), Sample(5, 0), Sample(5, 0), Sample(5, 0)])
    settle(lambda: next(readings))
    assert next(readings, None) is None


def test_peak_is_of_this_process() -> None:
    assert 10 < peak_megabytes() < 100_000


def test_trees_are_links_in_byte_order_and_vanish(stills: list[Path], tmp_path: Path) -> None:
    with linked_tree(stills, tmp_path / "tree", 2017) as tree:
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
    with pytest.raises(error), linked_tree(stills, root, 20):
        raise error
    assert not root.exists()
    link = os.link

    def failing(source: str, target: str) -> None:
        if target.endswith("00000009.jpg"):
            raise error
        link(source, target)

    monkeypatch.setattr(_trees.os, "link", failing)
    with pytest.raises(error), linked_tree(stills, root, 20):
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

    monkeypatch.setattr(_trees.os, "link", limited)
    with linked_tree(stills[:2], tmp_path / "tree", 20) as tree:
        contents = [Path(path).read_bytes() for path in tree.paths()]
        assert contents == [stills[number % 2].read_bytes() for number in range(20)]
        assert max(os.stat(path).st_nlink for path in tree.paths()) == 3


def test_few_originals_become_sixteen_files(stills: list[Path], tmp_path: Path) -> None:
    originals = find_originals([stills[0], stills[3]], tmp_path)
    assert len(originals.stills) == len({path.stat().st_ino for path in originals.stills}) == 16
    assert originals.stills[1].read_bytes() == stills[3].read_bytes()
    assert {path.suffix for path in originals.stills} == {".jpg", ".png"}
    assert originals.videos == []


def test_a_mark_judges_figures_against_its_floor_and_aim() -> None:
    at_least, at_most = Mark("rate", 30, 60), Mark("memory", 1500, 600, at_most=True, unit=" MB")
    assert [at_least.standing(value) for value in (60, 30, 29)] == [
        "aim 60 reached", "floor 30 held, aim 60", "BELOW floor 30",
    ]  # fmt: skip
    assert [at_most.standing(value) for value in (600, 1500, 1501)] == [
        "aim 600 reached", "floor 1500 held, aim 600", "ABOVE floor 1500",
    ]  # fmt: skip
    assert Mark("opened", 0, 0, at_most=True).standing(0) == "aim 0 reached"
    judged = at_least.judge({"CPU": Interval(31, 30, 33, 0.95, 20), "wall": 3.0})
    assert judged["standing"] == "floor 30 held, aim 60"
    assert judged["figures"]["wall"] == {"median": 3.0}


def test_rates_are_a_file_and_without_the_start() -> None:
    samples = Timings({"a": {0: Sample(2, 4)}, "b": {0: Sample(1, 1)}})
    assert per_file(samples, {"a": 4, "b": 1}).of == {"a": {0: Sample(0.5, 1)}, "b": {0: Sample(1, 1)}}
    large, small = {0: Sample(11, 12), 1: Sample(1, 1)}, {0: Sample(1, 2), 1: Sample(2, 2)}
    assert steady(large, small, 100) == {0: Sample(0.1, 0.1), 1: Sample(SMALLEST, SMALLEST)}


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
def test_sizes_are_read_from_the_output_of_ffprobe(printed: bytes, size: tuple[int, int] | None) -> None:
    ffprobe = load_module("sizes_ffprobe")
    if isinstance(ffprobe, str):
        pytest.skip(ffprobe)
    assert ffprobe.parsed(printed) == size
