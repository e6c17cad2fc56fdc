"""One of several processes over whose devices batches are divided, and what it has of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import framefeed as ff
from tests.makers import plan_of


def make_report(folder: Path) -> dict[str, Any]:
    rank, world_size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", world_size, rank, initialization_timeout=60)
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("clips",)), PartitionSpec("clips"))
    plan = plan_of(shuffle=False, rank=rank, world_size=world_size)
    shapes, own, sums = [], [], []
    with ff.ClipLoader(plan, batch_size=2, workers=1) as loader:
        for batch in ff.jax.iterate(loader, sharding):
            shapes.append(list(batch["data"].shape))
            own.append([np.asarray(shard.data).tolist() for shard in batch["positions"].addressable_shards])
            # Computed over the devices of all processes.
            sums.append(int(jax.jit(lambda positions: positions.sum())(batch["positions"])))
    refused = []
    for wrong, options in ((sharding, {"world_size": 1}), (NamedSharding(sharding.mesh, PartitionSpec()), {})):
        single = plan_of(**{"rank": 0 if options else rank, "world_size": world_size, **options})
        with ff.ClipLoader(single, batch_size=2, workers=0) as loader:
            try:
                ff.jax.iterate(loader, wrong)
            except ff.UsageError as error:
                refused.append(str(error))
    jax.distributed.shutdown()
    return {"shapes": shapes, "own": own, "sums": sums, "refused": refused}
