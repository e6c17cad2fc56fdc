"""Scans by tasks of Ray: the catalog of one process, with each of its values."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import framefeed as ff
from framefeed.adapters.ray import _scan
from framefeed.testing import ClipSpec, make_folder, write_clip
from tests.adapters.ray.conftest import SETTINGS, Nodes, find_paths, find_processes
from tests.patience import PATIENCE_SECONDS
from tests.scanning.small_chunks import OF_ONE_VIDEO

ray = pytest.importorskip("ray", reason="Ray is not installed: make ray runs this in .venv-ray")


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """Videos in two folders, pictures, a file that is no video, and one that is cut short."""
    root = tmp_path / "media"
    make_folder(root, classes=2, videos_per_class=10, seconds=0.5, size=(32, 48))
    (root / "pictures").mkdir()
    from PIL import Image

    for number in range(5):
        Image.new("RGB", (20 + number, 10)).save(root / "pictures" / f"{number}.png")
    (root / "text.mp4").write_text("no video")
    whole = next(root.rglob("*.mp4")).read_bytes()
    (root / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    return root


def assert_same(ours: ff.Catalog, expected: ff.Catalog) -> None:
    assert ours.table.equals(expected.table)
    assert ours.fingerprint == expected.fingerprint
    for row in expected.plannable_rows.tolist():
        one, other = ours.frame_index(row), expected.frame_index(row)
        assert np.array_equal(one.pts, other.pts)
        assert np.array_equal(one.packets.offset, other.packets.offset)
        assert np.array_equal(one.frame_packet, other.frame_packet)


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"depth": "header"}, {"label_from": "parent"}], ids=repr)
def test_the_catalog_is_that_of_one_process(media: Path, options: dict[str, Any]) -> None:
    assert_same(ff.ray.scan(media, **options), ff.scan(media, **{**options, "workers": 0}))


@pytest.mark.usefixtures("nodes")
def test_archives_lists_and_folders_of_frames_are_as_in_one_process(media: Path, tmp_path: Path) -> None:
    videos = sorted(map(str, media.rglob("*.mp4")))
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for path in videos[:3]:
            tar.add(path, Path(path).name)
    for roots in ([tmp_path / "shard.tar", media / "pictures"], videos[::-1]):
        assert_same(ff.ray.scan(roots), ff.scan(roots, workers=0))
    frames: dict[str, Any] = {"image_folders": "video", "fps": 5}
    assert_same(ff.ray.scan(media / "pictures", **frames), ff.scan(media / "pictures", workers=0, **frames))


def test_a_saved_catalog_is_the_same_and_is_brought_up_to_date(media: Path, tmp_path: Path, nodes: Nodes) -> None:
    out = tmp_path / "cat.parquet"
    assert_same(ff.ray.scan(media, out=out), ff.scan(media, out=tmp_path / "expected.parquet", workers=0))
    tables = [pa.ipc.open_file(path).read_all() for path in sorted(tmp_path.glob("*.frames.arrow"))]
    assert len(tables) == 2
    assert tables[0].equals(tables[1])
    write_clip(media / "new.mp4", ClipSpec(num_frames=5))
    assert_same(ff.ray.scan(media, out=out), ff.scan(media, workers=0))
    assert not list(tmp_path.glob("*.journal"))


def test_a_node_that_is_lost_costs_its_tasks(media: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ff.scan(media, workers=0)
    take, taken = _scan._take, list[int]()

    def take_and_lose(chunk: Any, ref: Any) -> Any:
        result = take(chunk, ref)
        taken.append(len(chunk))
        if len(taken) == 1:
            nodes.lose()
        return result

    monkeypatch.setattr(_scan, "_take", take_and_lose)
    monkeypatch.setattr("framefeed.scanning._chunks.CHUNK_WEIGHT", OF_ONE_VIDEO)
    try:
        assert_same(ff.ray.scan(media), expected)
    finally:
        nodes.add()
    assert len(taken) > 20


@pytest.mark.chaos  # it starts another cluster
def test_a_scan_goes_on_where_its_cluster_was_killed(
    media: Path, tmp_path: Path, nodes: Nodes, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, expected = tmp_path / "cat.parquet", ff.scan(media, workers=0)
    settings = {**os.environ, **SETTINGS, "HOME": str(tmp_path), "RAY_TMPDIR": str(short_folder / "k")}
    settings["PYTHONPATH"] = os.pathsep.join(find_paths())
    (short_folder / "k" / "ray").mkdir(parents=True)
    command = [sys.executable, "-m", "tests.adapters.ray.scan_and_stop", str(media), str(out)]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "stopped\n"
        os.killpg(program.pid, signal.SIGKILL)
    for line in find_processes(str(short_folder / "k")):
        os.kill(int(line.split()[0]), signal.SIGKILL)
    surveyed, take = list[int](), _scan._take
    monkeypatch.setattr(_scan, "_take", lambda chunk, ref: surveyed.append(len(chunk)) or take(chunk, ref))
    assert_same(ff.ray.scan(media, out=out), expected)
    assert 0 < sum(surveyed) <= len(expected) - 2  # what was in the journal was not opened again


def test_a_file_that_a_node_does_not_see_is_an_error(
    media: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    (media / "gone.mp4").symlink_to(media / "nowhere.mp4")
    catalog = ff.scan(media, workers=0)
    assert "MissingMedia" in catalog.table["error_type"].to_pylist()
    with pytest.raises(ff.UsageError, match=r"node .* cannot see .*gone\.mp4, which this process can: mount"):
        ff.ray.scan(media)


def test_an_interrupted_scan_ends_its_tasks(
    media: Path, tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(begun := tmp_path / "begun")
    os.mkfifo(never := tmp_path / "never")
    running = list[int]()

    def survey_for_ever(survey: Any, chunk: Any) -> None:
        with open(begun, "w") as pipe:
            pipe.write(f"{os.getpid()}\n")
        never.read_text()

    def interrupt(ref: Any) -> None:
        while len(running) < 2:
            running.extend(map(int, begun.read_text().split()))
        raise KeyboardInterrupt

    monkeypatch.setattr(_scan, "_survey_chunk", survey_for_ever)
    monkeypatch.setattr(_scan, "_wait", interrupt)
    monkeypatch.setattr("framefeed.scanning._chunks.CHUNK_WEIGHT", OF_ONE_VIDEO)
    with pytest.raises(KeyboardInterrupt):
        ff.ray.scan(media)
    for pid in running:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            assert select.select([process], [], [], PATIENCE_SECONDS)[0], "a task goes on"
            os.close(process)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.usefixtures("nodes")
def test_workers_is_the_most_tasks_at_once(workers: int, media: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, at_once, remote, take = list[Any](), list[int](), ray.remote, _scan._take

    def begin(**options: Any) -> Any:
        def wrap(function: Any) -> Any:
            task = remote(**options)(function)
            if not options["num_cpus"]:  # a question to a node
                return task
            return SimpleNamespace(remote=lambda *given: begun.append(task.remote(*given)) or begun[-1])

        return wrap

    def count_and_take(chunk: Any, ref: Any) -> Any:
        at_once.append(len(begun) - len(at_once))
        return take(chunk, ref)

    monkeypatch.setattr("framefeed.scanning._chunks.CHUNK_WEIGHT", OF_ONE_VIDEO)
    monkeypatch.setattr(ray, "remote", begin)
    monkeypatch.setattr(_scan, "_take", count_and_take)
    ff.ray.scan(media, workers=workers)
    assert len(begun) > workers
    assert max(at_once) == workers
