"""A node that does not see what this process sees: its own mounts hide a folder."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.adapters.ray import _scan
from framefeed.load import ClipLoader
from framefeed.testing import make_folder
from tests.adapters.ray.conftest import Nodes
from tests.makers import folder
from tests.scanning.small_chunks import OF_ONE_VIDEO

ray = pytest.importorskip("ray", reason="Ray is not installed: make ray runs this in .venv-ray")

MESSAGE = r"node \S+ \(\S+\) cannot see {}, which .* mount the storage on all nodes at the same path"


@pytest.fixture(scope="module")
def hidden(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that one more node, of one CPU, does not see."""
    path = tmp_path_factory.mktemp("hidden")
    with adding_node(nodes, path, 1):
        yield path


@contextmanager
def adding_node(nodes: Nodes, hidden: Path, num_cpus: int) -> Iterator[None]:
    """Add a node that does not see a folder, and remove it."""
    ray_command = Path(sys.executable).with_name("ray")
    start = f"{ray_command} start --block --address {nodes.cluster.address} --num-cpus {num_cpus}"
    limits = "--object-store-memory 100000000 --dashboard-agent-listen-port 0"
    script = f'mount -t tmpfs none "$0" && exec {start} {limits}'
    command, before = ["unshare", "--mount", "sh", "-c", script, str(hidden)], count_nodes()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as node:
        try:
            assert node.stdout is not None
            lines = list(itertools.takewhile(lambda line: "runtime started" not in line, node.stdout))
            if node.poll() is not None or count_nodes() == before:
                pytest.skip(f"no node with mounts of its own: {''.join(lines)}")
            yield
        finally:
            node.terminate()
            node.communicate()


def count_nodes() -> int:
    return sum(node["Alive"] for node in ray.nodes())


def test_a_saved_catalog_that_a_node_does_not_see_is_sent_as_data(hidden: Path) -> None:
    saved = ff.scan(folder(), out=hidden / "cat.parquet", workers=0)
    plan = ff.plan_clips(saved, ff.Uniform(4), seed=0, clips_per_video=4)
    with ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
        (expected,) = loader
    batches = list(ff.ray.dataset(plan, batch_size=2).iter_batches(batch_size=2))
    assert np.array_equal(np.concatenate([batch["data"] for batch in batches]), expected.data)


def test_files_that_a_node_does_not_see_are_an_error(
    hidden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = make_folder(hidden / "videos", classes=1, videos_per_class=4, seconds=0.5, size=(32, 48))
    with tarfile.open(hidden / "shard.tar", "w") as tar:
        for path in videos:
            tar.add(path, Path(path).name)
    for roots, name in ((hidden / "videos", r"\S+\.mp4"), (hidden / "shard.tar", r"\S+shard\.tar")):
        plan = ff.plan_clips(ff.scan(roots, workers=0), ff.Uniform(2), seed=0)
        with pytest.raises(ff.UsageError, match=MESSAGE.format(name)):
            ff.ray.dataset(plan, on_error="skip")
        with pytest.raises(ff.UsageError, match=MESSAGE.format(name)):
            scan_on_all_nodes(roots, tmp_path / name[-5:], monkeypatch)


def scan_on_all_nodes(roots: Path, meeting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan, a task a video; the first tasks wait until each of three nodes has one."""
    meeting.mkdir()
    os.mkfifo(begun := meeting / "begun")
    os.mkfifo(go := meeting / "go")
    gate = os.open(go, os.O_RDWR)  # what is written stays until it is read
    have_met, survey_chunk, wait = meeting / "have met", _scan._survey_chunk, _scan._wait

    def survey_together(survey: Any, chunk: Any) -> Any:
        if not have_met.exists():
            begun.write_text("x")
            with open(go, "rb", buffering=0) as pipe:
                pipe.read(1)
        return survey_chunk(survey, chunk)

    def wait_for_all(ref: Any) -> None:
        at_once = 0
        while at_once < 3 and not have_met.exists():
            at_once += len(begun.read_text())
        if not have_met.exists():
            have_met.touch()
            os.write(gate, b"xxx")
        wait(ref)

    with monkeypatch.context() as patched:
        patched.setattr(_scan, "_survey_chunk", survey_together)
        patched.setattr(_scan, "_wait", wait_for_all)
        patched.setattr("framefeed.scanning._chunks.CHUNK_WEIGHT", OF_ONE_VIDEO)
        try:
            ff.ray.scan(roots)
        finally:
            os.close(gate)


@pytest.mark.chaos  # it adds a node
def test_nodes_without_cpus_are_not_asked(nodes: Nodes, tmp_path: Path) -> None:
    make_folder(tmp_path / "a", classes=1, videos_per_class=1, seconds=0.5, size=(32, 48))
    plan = ff.plan_clips(ff.scan(tmp_path / "a", workers=0), ff.Uniform(2), seed=0)
    with adding_node(nodes, tmp_path / "a", 0):
        assert ff.ray.dataset(plan).count() == 1
