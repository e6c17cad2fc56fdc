"""Read the clips of a plan by tasks of Ray Data: order and frames are the plan's, all else is Ray's."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.data import Datasource
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask

from framefeed._arrays import AnyArray
from framefeed._checks import check_integer, expected, refuse_names
from framefeed._values import Limits
from framefeed.adapters.ray._nodes import ask_nodes, check_cluster, check_nodes, count_cpus, count_store_bytes
from framefeed.adapters.ray._reading import Reading, explain_unreadable, make_block, read_run
from framefeed.catalog import sending_as_data
from framefeed.decode import Decoder, as_decoder
from framefeed.errors import UsageError
from framefeed.load import ArraySpec, ClipLoader, OnError, check_cache, check_on_error, list_streams, map_streams
from framefeed.plan import EpochPlan, mean_clip_bytes

if TYPE_CHECKING:
    from framefeed.cache import FrameCache

_MOST_BLOCK_BYTES = 128 << 20
"""As Ray's own target_max_block_size; larger batches are several blocks."""
_MOST_TASKS = 10_000
"""Each takes about 10 ms of Ray's, and its driver keeps a list of them."""
_GOOD_SECONDS = 10.0
"""Of a task: after each its CPU waits 0.1 to 0.3 s for the next, as Ray's driver looks for ended tasks each 0.1 s."""
_STORE_SHARE = 0.25
"""Of the object store of a CPU: blocks of a task are there until those of the tasks before it were taken."""
_LEAST_TASKS = 8
"""For each CPU of the cluster, so that all have work until the end."""
_JOINED = 0.9
"""Ray joins what a task yields until it is as large as the target, and cuts what is half as large again."""
_MOST_SEEN = 16
_OWN_COLUMNS = ("row", "position", "box", "error")


@refuse_names(
    "ray.dataset",
    {
        "workers": "use concurrency=, the most tasks at once",
        "num_workers": "use concurrency=, the most tasks at once",
        "epoch": "give plan.with_epoch(epoch)",
        "shuffle": "the plan has its order: give shuffle= to plan_clips",
        "transform": "use dataset.map_batches(function)",
        "collate_fn": "give it to dataset.iter_torch_batches",
    },
)
def dataset(
    plan: EpochPlan,
    *,
    batch_size: int = 16,
    backend: str | Decoder = "auto",
    cache: FrameCache | None = None,
    on_error: OnError = "raise",
    limits: Limits | None = None,
    concurrency: int | None = None,
) -> ray.data.Dataset:
    """Make a dataset of Ray of the clips of a plan: a row for each position, in the order of the plan.

    A row has data (uint8 [T, C, H, W]; with ``unequal=True`` of the plan, rows may differ in it), position (global),
    row (of the catalog), pts_seconds (float64 [T]), valid (bool [T]), ok (bool), box and flipped where the plan has
    them, and the columns of the plan. Of several streams there are columns ``data/NAME``, ``pts_seconds/NAME`` and
    ``valid/NAME``. With an ``on_error`` other than "raise" a column of text, ``error``, is None for clips that were
    loaded.

    Tasks read runs of positions, a block for each batch; the clips of one file in a batch are decoded together, by one
    thread. Iterating again gives the same epoch: make a dataset of ``plan.with_epoch(epoch)`` for each. There is no
    state: to resume within an epoch, use a `ClipLoader` in each rank.

    Args:
        plan: From ``plan_clips``, ``plan_requests``, ``plan_buckets`` or ``mix_plans``; of one rank, or of all. Of
            buckets, so many rows are a step, in their order, as ``global_batch`` says.
        batch_size: Clips of a block, and of the batches that are taken from it without a copy.
        backend: Name of a decoder, or a Decoder.
        cache: A `FrameCache` at a path of each node.
        on_error: "raise", "skip" or "substitute", as of `ClipLoader`.
        limits: What a file may claim; None for the defaults.
        concurrency: Most tasks at once in the cluster; None leaves it to Ray. Each uses one CPU.

    Raises:
        UsageError: Ray does not run, a rule gives any T without ``unequal=True``, a node has another version of
            framefeed or cannot see the files, or an argument is wrong.
        MissingDependency: A node lacks framefeed.
    """
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips, ff.plan_requests or ff.mix_plans)", plan)
    plan = plan.without_steps()
    count = check_integer("batch_size", batch_size, least=1)
    most = None if concurrency is None else check_integer("concurrency", concurrency, least=1)
    check_on_error(on_error, None)
    as_decoder(backend, limits)
    check_cache(cache)
    check_cluster("ff.ray.dataset")
    source = ClipSource(Reading(plan, count, backend, limits, cache, on_error, _list_seen(plan)))
    num_tasks = max(1, source.count_tasks())
    made = ray.data.read_datasource(
        source, num_cpus=1, override_num_blocks=num_tasks, concurrency=None if most is None else min(most, num_tasks)
    )
    # Of this dataset alone: the context of the program stays as it is.
    made.context.execution_options.preserve_order = True
    made.context.target_max_block_size = max(1, int(_JOINED * source.block_bytes))
    return made


class ClipSource(Datasource):  # type: ignore[misc]  # mypy runs without Ray
    """The clips of a plan; large batches are read as several blocks."""

    def __init__(self, asked: Reading) -> None:
        super().__init__()
        self._length = len(asked.plan)
        specs = _describe(asked.plan)
        others = sum(_count_bytes(each) for name, each in specs.items() if name != "data")
        self._clip_bytes = mean_clip_bytes(asked.plan) + others
        self._batch_size = min(asked.batch_size, max(1, _MOST_BLOCK_BYTES // max(1, self._clip_bytes)))
        errors: list[str | None] | None = None if asked.on_error == "raise" else [None]
        one = _make_one_clip(asked.plan, specs)
        self._schema = make_block(one, np.zeros(1, np.int64), errors).schema
        reading = replace(asked, batch_size=self._batch_size)
        check_nodes()
        self._task_clips = self._count_clips(asked.plan)
        self._ref = _put(reading)
        if any(ask_nodes(explain_unreadable, [self._ref])):
            # Perhaps a node does not see the catalog.
            with sending_as_data():
                self._ref = _put(reading)
            for problem in filter(None, ask_nodes(explain_unreadable, [self._ref])):
                raise UsageError(problem)

    @property
    def block_bytes(self) -> int:
        """Of a whole batch."""
        return self._batch_size * self._clip_bytes

    def get_name(self) -> str:
        """Name it for Ray's progress bars and statistics."""
        return "Clips"

    def count_tasks(self) -> int:
        return -(-self._length // self._task_clips)

    def _count_clips(self, plan: EpochPlan) -> int:
        """Count the clips of a task: whole batches, of whole files where the plan keeps the clips of one together."""
        size = self._batch_size
        step = math.lcm(size, plan.order.unit)
        step = step if step <= 8 * size else size
        cpus = max(1, count_cpus())
        # Of the whole epoch: that of a rank would compare the ranks, too.
        whole = plan.whole
        seconds = whole.describe().predicted_cpu_seconds / max(1, len(whole)) * step
        most = min(
            _GOOD_SECONDS / max(1e-9, seconds),
            _STORE_SHARE * count_store_bytes() / cpus / max(1, step * self._clip_bytes),
            self._length / (step * _LEAST_TASKS * cpus),
        )
        return step * max(1, round(most), -(-self._length // (step * _MOST_TASKS)))

    def estimate_inmemory_data_size(self) -> int:
        return self._length * self._clip_bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        ref, clips = self._ref, self._task_clips
        tasks = []
        for first in range(0, self._length, clips):
            last = min(first + clips, self._length)
            metadata = BlockMetadata(
                num_rows=last - first, size_bytes=(last - first) * self._clip_bytes, input_files=None, exec_stats=None
            )
            read = partial(read_run, ref, first, last)
            tasks.append(ReadTask(read, metadata, schema=self._schema, per_task_row_limit=per_task_row_limit))
        return tasks


def _put(reading: Reading) -> ray.ObjectRef:
    try:
        return ray.put(reading)
    except (TypeError, AttributeError) as error:
        raise UsageError(
            f"the decoder {reading.backend!r}, the cache or a source of the plan cannot be sent to the nodes: {error}. "
            "Give objects that can be pickled, such as the name of a decoder"
        ) from error


def _describe(plan: EpochPlan) -> dict[str, Any]:
    """Describe the arrays of the plan's batches by name, `ArraySpec` or dicts of them by stream."""
    with ClipLoader(plan, batch_size=1, workers=0) as loader:
        arrays: dict[str, Any] = dict(loader.describe_batches(unequal=True).arrays)
    if any(form.num_frames is None and not form.unequal for form in plan.clips.forms.values()):
        raise UsageError(
            "the clips of this plan differ in their number of frames: give the plan unequal=True, or make one for each "
            "length"
        )
    if clashing := [name for name in plan.columns if name in _OWN_COLUMNS]:
        raise UsageError(f"columns {clashing} have the same names as other columns of a row: rename them")
    return arrays


def _count_bytes(arrays: Any) -> int:
    """Count the bytes of a row."""
    return sum(math.prod(n or 1 for n in each.shape[1:]) * each.dtype.itemsize for each in list_streams(arrays))


def _make_one_clip(plan: EpochPlan, specs: Mapping[str, Any]) -> dict[str, Any]:
    """Make what a batch of one clip has: lists where clips may differ in shape."""

    def make(spec: ArraySpec, is_list: bool) -> AnyArray | list[Any]:
        if spec.dtype == object:
            return [[""]] if None in spec.shape[1:] else [""]
        one = np.zeros([n or 1 for n in spec.shape[1:]], spec.dtype)
        return [one] if is_list else one[np.newaxis]

    made: dict[str, Any] = {name: map_streams(partial(make, is_list=False), each) for name, each in specs.items()}
    for name in ("data", "pts_seconds", "valid"):
        lists = {part: form.unequal if name == "data" else form.is_ragged for part, form in plan.clips.forms.items()}
        each = specs[name]
        if isinstance(each, dict):
            made[name] = {part: make(spec, lists[part]) for part, spec in each.items()}
        else:
            made[name] = make(each, lists[""])
    return made


def _list_seen(plan: EpochPlan) -> tuple[str, ...]:
    """List some files of a plan that this process can see."""
    positions = {round(at) for at in np.linspace(0, len(plan) - 1, min(len(plan), _MOST_SEEN))}
    found = plan.clips_at(plan.global_position(np.array(sorted(positions), dtype=np.int64)))
    rows = {row for of_take in found.rows for row in of_take}
    paths = [plan.clips.sources.media_source(row).local_path for row in sorted(rows)]
    return tuple(path for path in dict.fromkeys(paths) if path is not None and os.path.exists(path))
