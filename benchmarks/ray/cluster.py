"""Clusters of small nodes on this machine, and the process that watches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import ray
from ray.cluster_utils import Cluster


@contextmanager
def running(nodes: int, store_mib: int = 150) -> Iterator[Watcher]:
    """Run a cluster of nodes of one CPU each, and watch it. RAY_TMPDIR names its folder."""
    node = {"num_cpus": 1, "object_store_memory": store_mib << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        with Watcher() as watcher:
            yield watcher
    finally:
        ray.shutdown()
        cluster.shutdown()


class Watcher:
    """benchmarks.ray.watch, as a process."""

    def __enter__(self) -> Self:
        addresses = [f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}" for node in ray.nodes()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ray.watch", str(os.getpid()), *addresses],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.count()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def count(self) -> dict[str, Any]:
        """CPU seconds so far, and the peaks of the stores since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]
