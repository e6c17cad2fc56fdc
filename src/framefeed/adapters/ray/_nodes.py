"""Check that the nodes of a cluster have this version of framefeed, and can open what is sent to them."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from framefeed.errors import MissingDependency, UsageError, WorkerLost

_VERSION = importlib.metadata.version("framefeed")
_SECONDS = 60
"""A node that does not answer for so long is not checked: its tasks say themselves what it lacks."""
MOST_RETRIES = 10
"""Of a task whose node or worker process is lost. Without a bound, a file that ends each process that reads it would be
read for ever."""


def check_cluster(what: str) -> None:
    if not ray.is_initialized():
        raise UsageError(
            f'{what} needs a running Ray: call ray.init() first, for this machine alone, or ray.init(address="auto") '
            "for a cluster that runs already"
        )


def count_cpus() -> int:
    """Count the CPUs of the cluster; 0 while it has no node for tasks."""
    return int(ray.cluster_resources().get("CPU", 0))


def count_store_bytes() -> int:
    """Count the bytes of the object stores of the cluster."""
    return int(ray.cluster_resources().get("object_store_memory", 0))


def count_retries() -> int:
    """Count how often Ray has begun the task of this process before; 0 where Ray does not say."""
    worker = getattr(ray._private.worker.global_worker, "core_worker", None)
    get_number = getattr(worker, "get_current_task_attempt_number", None)
    return 0 if get_number is None else int(get_number())


def check_retries(what: str, advice: str, position: int | None = None) -> None:
    """Check that the task of this process, which reads ``what``, has not lost its processes time and again.

    Ray itself bounds neither the retries of a dataset nor those of tasks that were killed for memory.
    """
    if (times := count_retries()) > MOST_RETRIES:
        raise WorkerLost(
            f"the processes that read {what} were lost, {times} times: a file of them may need too much memory, or end "
            f"each process. {advice}",
            position=position,
        )


def get_node_name() -> str:
    return f"{platform.node()} ({ray.util.get_node_ip_address()})"


def check_nodes() -> None:

    # Ray sends it by value, as it is none of a module: a node may lack ours.
    def find_version() -> tuple[str, str | None]:
        import importlib.metadata
        import sys

        import ray

        name = f"{ray.util.get_node_ip_address()} ({sys.executable})"
        try:
            return name, importlib.metadata.version("framefeed")
        except importlib.metadata.PackageNotFoundError:
            return name, None

    for name, version in ask_nodes(find_version):
        if version is None:
            raise MissingDependency(
                f"node {name} lacks framefeed {_VERSION}: install 'framefeed[ray]=={_VERSION}' in the Python that its "
                'workers run, or give ray.init(runtime_env={"pip": ["framefeed[ray]"]})'
            )
        if version != _VERSION:
            raise UsageError(
                f"node {name} has framefeed {version}, and this process {_VERSION}: install one version on all nodes"
            )


def ask_nodes(question: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Call a function on each node that has CPUs for tasks, and return the answers of those that answer."""
    task = ray.remote(num_cpus=0, max_retries=0)(question)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    asked = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*arguments)
        for node in nodes
    ]
    ready, _ = ray.wait(asked, num_returns=len(asked), timeout=_SECONDS)
    answers = []
    for each in ready:
        with suppress(ray.exceptions.RayError):  # it has just gone, or cannot start a worker: Ray tells of it
            answers.append(ray.get(each))
    return answers
