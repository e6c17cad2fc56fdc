"""What Ray's users get wrong, and clusters that are not as they should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.adapters.ray import _nodes, _reading, _scan
from framefeed.scanning import Chunk
from framefeed.testing import make_folder
from tests.adapters.ray.conftest import SETTINGS, Nodes, find_paths, find_processes
from tests.adapters.ray.decoders import EndsItsProcess, Unsendable
from tests.makers import catalog, folder, plan_of
from tests.patience import PATIENCE_SECONDS

ray = pytest.importorskip("ray", reason="Ray is not installed: make ray runs this in .venv-ray")


def read(plan: ff.EpochPlan, **options: Any) -> list[int]:
    dataset = ff.ray.dataset(plan, batch_size=2, **options)
    return [row["position"] for row in dataset.select_columns(["position"]).iter_rows()]


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "all"}, "concurrency"),
        ({"on_error": "ignore"}, "on_error"),
        ({"backend": "nothing"}, "nothing"),
        ({"cache": "folder"}, "cache"),
        ({"backend": Unsendable()}, "cannot be sent to the nodes"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ff.UsageError, match=message):
        ff.ray.dataset(plan_of(), **options)


@pytest.mark.usefixtures("nodes")
def test_plans_whose_rows_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ff.UsageError, match="expected an EpochPlan"):
        ff.ray.dataset(catalog())  # type: ignore[arg-type]
    path = next(folder().rglob("*.mp4"))
    requests = [ff.DecodeRequest(source=path, indices=[0]), ff.DecodeRequest(source=path, indices=[0, 1])]
    with pytest.raises(ff.UsageError, match="differ in their number of frames"):
        ff.ray.dataset(ff.plan_requests(requests))
    named = ff.plan_requests([ff.DecodeRequest(source=path, indices=[0])], columns={"row": [1]})
    with pytest.raises(ff.UsageError, match=r"columns \['row'\] have the same names"):
        ff.ray.dataset(named)
    large = ff.plan_requests([ff.DecodeRequest(source=path.read_bytes() + bytes(65_000_000), indices=[0])])
    with pytest.raises(ff.UsageError, match="save it with"):
        ff.ray.dataset(large)
    with pytest.warns(UserWarning, match="has no rows"):
        empty = ff.plan_clips(catalog().take([]), ff.Uniform(4), seed=0, size=(8, 8))
    with pytest.raises(ff.UsageError, match="this plan has no clips"):
        ff.ray.dataset(empty)
    share = plan_of(clips_per_video=1, rank=7, world_size=8, tail="drop")  # of a plan with clips, none
    assert ff.ray.dataset(share).count() == len(share) == 0
    assert list(ff.ray.dataset(share).iter_batches()) == []


def test_ray_must_run(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    for call in (lambda: ff.ray.dataset(plan_of()), lambda: ff.ray.scan(folder())):
        with pytest.raises(ff.UsageError, match=r"needs a running Ray: call ray\.init\(\) first"):
            call()


def test_nodes_must_have_this_version(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    monkeypatch.setattr(_nodes, "_VERSION", "9.9")
    with pytest.raises(ff.UsageError, match=r"node \S+ \(.*python.*\) has framefeed 0\.1\.0, and this process 9\.9"):
        ff.ray.dataset(plan_of())
    monkeypatch.setattr(_nodes, "ask_nodes", lambda question: [("a (/bin/python)", None)])
    with pytest.raises(ff.MissingDependency, match=r"node a \(/bin/python\) lacks framefeed 9\.9: install"):
        ff.ray.scan(folder())


@pytest.mark.usefixtures("nodes")
def test_files_that_nodes_do_not_see_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path, classes=1, videos_per_class=2, seconds=0.5, size=(32, 48))
    plan = ff.plan_clips(ff.scan(tmp_path, workers=0), ff.Uniform(2), seed=0)
    (gone,) = [path for path in tmp_path.rglob("*.mp4") if path.name.endswith("0.mp4")]
    gone.unlink()
    monkeypatch.setattr(os.path, "exists", lambda path: True)  # this process sees it
    with pytest.raises(ff.UsageError, match=r"node \S+ .*cannot see .*0\.mp4, which the process .* mount the storage"):
        ff.ray.dataset(plan, on_error="skip")


@pytest.mark.usefixtures("nodes")
def test_workers_that_die_are_replaced(tmp_path: Path) -> None:
    assert read(plan_of(), backend=EndsItsProcess(tmp_path, 2)) == list(range(12))
    assert {path.name for path in tmp_path.iterdir()} == {"end 0", "end 1"}


@pytest.mark.chaos  # it starts a worker process for each of many retries
@pytest.mark.usefixtures("nodes")
def test_clips_that_end_every_process_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ff.WorkerLost, match=r"the clips at positions 0 to 1 were lost, 11 times: a file of them"):
        read(plan_of(clips_per_video=1), concurrency=1, backend=EndsItsProcess(tmp_path, 1000))


def test_clips_that_end_every_process_are_named_by_positions_of_the_epoch(
    monkeypatch: pytest.MonkeyPatch, nodes: Nodes
) -> None:
    plan = plan_of(clips_per_video=1, rank=1, world_size=2)
    reading = ray.put(_reading.Reading(plan, 2, "auto", None, None, "raise", ()))
    monkeypatch.setattr(_nodes, "count_retries", lambda: _nodes.MOST_RETRIES)
    assert next(_reading.read_run(reading, 0, 2)).num_rows == 2
    monkeypatch.setattr(_nodes, "count_retries", lambda: _nodes.MOST_RETRIES + 1)
    with pytest.raises(ff.WorkerLost, match=r"the clips at positions 1 to 3 were lost, 11 times") as caught:
        next(_reading.read_run(reading, 0, 2))
    assert caught.value.position == 1


def test_files_that_end_every_process_are_an_error(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    monkeypatch.setattr(_scan, "MOST_RETRIES", 1)
    monkeypatch.setattr(_scan, "_survey_chunk", end_process)
    with pytest.raises(ff.WorkerLost, match=r"the task of Ray that read .*\.mp4 and 5 more files was lost, and again"):
        ff.ray.scan(folder())


def test_files_that_memory_runs_out_for_are_an_error(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    # In this process: Ray itself would wait for longer and longer before it tries again.
    monkeypatch.setattr(_nodes, "count_retries", lambda: _nodes.MOST_RETRIES + 1)
    monkeypatch.setattr(_scan, "_take", lambda chunk, ref: _scan._survey_chunk(ray.get(surveys[0]), chunk)[0])
    surveys, put = [], ray.put
    monkeypatch.setattr(ray, "put", lambda survey: surveys.append(put(survey)) or surveys[-1])
    with pytest.raises(ff.WorkerLost, match=r"the processes that read .*\.mp4 and 5 more files were lost, 11 times"):
        ff.ray.scan(folder())


def end_process(survey: Any, chunk: Any) -> None:
    os._exit(1)


@pytest.mark.usefixtures("nodes")
def test_a_store_that_is_full_is_emptied_to_disk() -> None:
    held = [ray.put(np.zeros(40 << 20, np.uint8)) for _ in range(3)]
    assert read(plan_of()) == list(range(12))
    del held


@pytest.mark.chaos  # it writes 100 MB to disk
@pytest.mark.usefixtures("nodes")
def test_a_dataset_larger_than_the_stores_is_kept_on_disk() -> None:
    plan = plan_of(ff.Dense(16), clips_per_video=26, size=(224, 224))  # 375 MB for two stores of 150
    held = ff.ray.dataset(plan, batch_size=8).materialize()
    assert [row["position"] for row in held.select_columns(["position"]).iter_rows()] == list(range(156))


def test_a_cluster_without_cpus_is_waited_for_and_then_an_error(monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    never = ray.remote(resources={"of no node": 1})(end_process).remote(None, None)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    monkeypatch.setattr(_scan, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(_scan, "_NODE_SECONDS", 0.05)
    with pytest.raises(ff.WorkerLost, match="no node of the cluster has a CPU: add one"):
        _scan._take(Chunk(()), never)
    ray.cancel(never, force=True)


PROGRAM = """
import sys
import ray, framefeed as ff
ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
plan = ff.plan_clips(ff.Catalog.open(sys.argv[1]), ff.Dense(4), seed=0, clips_per_video=500)
for number, batch in enumerate(ff.ray.dataset(plan, batch_size=2).iter_batches(batch_size=2)):
    if number == 1:
        print("begun", flush=True)
"""


@pytest.mark.chaos  # under load Ray may swallow the only interrupt
def test_an_interrupted_driver_leaves_nothing(tmp_path: Path, short_folder: Path) -> None:
    ff.scan(folder(), out=tmp_path / "cat.parquet", workers=0)
    settings = {**os.environ, **SETTINGS, "HOME": str(tmp_path), "RAY_TMPDIR": str(short_folder / "i")}
    settings["PYTHONPATH"] = os.pathsep.join(find_paths())
    (short_folder / "i" / "ray").mkdir(parents=True)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "cat.parquet")]
    with subprocess.Popen(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        assert program.wait(PATIENCE_SECONDS) != 0
    assert not find_processes(str(short_folder / "i"))


@pytest.mark.chaos  # it starts two clusters
def test_a_cluster_follows_another(short_folder: Path, tmp_path: Path) -> None:
    ff.scan(folder(), out=tmp_path / "cat.parquet", workers=0)
    (short_folder / "t" / "ray").mkdir(parents=True)
    code = (
        "import sys, ray, framefeed as ff\n"
        "plan = ff.plan_clips(ff.Catalog.open(sys.argv[1]), ff.Uniform(4), seed=0)\n"
        "for _ in range(2):\n"
        "    ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)\n"
        "    print(ff.ray.dataset(plan).select_columns(['position']).take_all())\n"
        "    ray.shutdown()\n"
    )
    settings = {**os.environ, **SETTINGS, "HOME": str(tmp_path), "RAY_TMPDIR": str(short_folder / "t")}
    settings["PYTHONPATH"] = os.pathsep.join(find_paths())
    command = [sys.executable, "-c", code, str(tmp_path / "cat.parquet")]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("{'position': 5}") == 2
