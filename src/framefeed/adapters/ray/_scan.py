"""Scan on all nodes of a cluster: tasks survey parts of one listing, and their results are gathered in order."""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import pyarrow.compute as pc
import ray

from framefeed import scanning
from framefeed._checks import check_integer
from framefeed.adapters.ray._nodes import (
    MOST_RETRIES,
    check_cluster,
    check_nodes,
    check_retries,
    count_cpus,
    get_node_name,
)
from framefeed.catalog import Catalog
from framefeed.errors import ResourceExhausted, UsageError, WorkerLost
from framefeed.scanning import Chunk, ChunkResult, Survey, surveying_by

_IN_FLIGHT_PER_CPU = 4
"""As for the workers of one machine."""
_LOOK_SECONDS = 30
_NODE_SECONDS = 600
"""So long a cluster may have no node with a CPU: one that starts nodes when they are needed takes minutes for one."""
_MISSING = "MissingMedia"


def scan(roots: Any, **options: Any) -> Catalog:
    """Make a catalog of many files on all nodes of a cluster of Ray; else as ``ff.scan``.

    This process lists the files, and writes the journal and the catalog; tasks open the files, which all nodes must see
    at the same paths. A node that is lost costs its tasks, which Ray runs again. Where this process or the cluster is
    killed, the same call continues from the journal.

    Args:
        roots: As of ``ff.scan``.
        **options: As of ``ff.scan``; ``workers`` is the most tasks at once in the cluster, each of one CPU.

    Raises:
        UsageError: Ray does not run, or a node has another version of framefeed, or cannot see a file.
        MissingDependency: A node lacks framefeed.
    """
    check_cluster("ff.ray.scan")
    workers = options.get("workers")
    most = None if workers is None else max(1, check_integer("workers", workers, least=0))
    with surveying_by(functools.partial(_survey_all, most=most)):
        return scanning.scan(roots, **options)


scan.__signature__ = inspect.signature(scanning.scan)  # type: ignore[attr-defined]
Answer = tuple[ChunkResult, str]


def _survey_chunk(survey: Survey, chunk: Chunk) -> Answer:
    """Survey a chunk; return the result, and the name of this node."""
    # Ray would replace processes that memory runs out for, for ever.
    check_retries(_name(chunk), "ff.scan finds it: scan without it")
    return survey(chunk), get_node_name()


def _survey_all(survey: Survey, chunks: Sequence[Chunk], *, most: int | None) -> Generator[ChunkResult]:
    check_nodes()
    # A task that was lost with its node gives the same result again.
    task = ray.remote(num_cpus=1, max_retries=MOST_RETRIES)(_survey_chunk)
    shared = ray.put(survey)
    pending: deque[tuple[Chunk, Any]] = deque()
    left = iter(chunks)
    try:
        while True:
            in_flight = most or _IN_FLIGHT_PER_CPU * max(1, count_cpus())  # nodes come and go
            while len(pending) < in_flight and (chunk := next(left, None)) is not None:
                pending.append((chunk, task.remote(shared, chunk)))
            if not pending:
                return
            result = _take(*pending[0])
            pending.popleft()
            yield result
    finally:
        for _, ref in pending:
            ray.cancel(ref, force=True)


def _take(chunk: Chunk, ref: Any) -> ChunkResult:
    try:
        _wait(ref)
        result, node = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except ray.exceptions.OutOfMemoryError as error:
        raise ResourceExhausted(f"a task of Ray ran out of memory at {_name(chunk)}: {error}") from error
    except ray.exceptions.RayError as error:
        raise WorkerLost(
            f"the task of Ray that read {_name(chunk)} was lost, and again each time that it was repeated: {error}"
        ) from error
    _check_missing(chunk, result, node)
    return result  # type: ignore[no-any-return]


def _wait(ref: Any) -> None:
    """Wait until a task has ended. Ray itself waits for ever for a node that has a CPU."""
    without_since: float | None = None
    while not ray.wait([ref], timeout=_LOOK_SECONDS)[0]:
        now = time.monotonic()
        without_since = None if count_cpus() else (without_since or now)
        if without_since is not None and now - without_since >= _NODE_SECONDS:
            raise WorkerLost("no node of the cluster has a CPU: add one, and run the same scan again")


def _name(chunk: Chunk) -> str:
    """Name the files of a chunk by the first and their number."""
    first = next(path for group in chunk.groups for path in group.paths())
    return str(first) if len(chunk) == 1 else f"{first} and {len(chunk) - 1} more files"


def _list_files(chunk: Chunk) -> list[Any]:
    """List the local file of each source of a chunk, or what a source is if it is none."""
    files = list[Any]()
    for group in chunk.groups:
        container = group.find_local_container()
        files += group.paths() if container is None else [container] * len(group)
    return files


def _check_missing(chunk: Chunk, result: ChunkResult, node: str) -> None:
    """Check that files which a node did not find are missing here, too."""
    kinds = result.facts.column("error_type")
    if not pc.any(pc.equal(kinds, _MISSING)).as_py():
        return
    for path, kind in zip(_list_files(chunk), kinds.to_pylist(), strict=True):
        if kind == _MISSING and isinstance(path, str) and os.path.exists(path):
            raise UsageError(
                f"node {node} cannot see {path}, which this process can: mount the storage on all nodes at the same "
                "path, or scan URLs"
            )
