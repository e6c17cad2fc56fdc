"""Program that scans on a cluster of its own, and stops when a part of the results is in the journal."""

from __future__ import annotations

import sys
from typing import Any

import ray

import framefeed as ff
from framefeed.adapters.ray import _scan
from tests.scanning.small_chunks import use_small_chunks


def main(folder: str, out: str) -> None:
    """Scan; after the second result, say so and wait to be killed."""
    use_small_chunks()
    ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    taken, take = list[int](), _scan._take

    def take_and_stop(chunk: Any, ref: Any) -> Any:
        if len(taken) == 4:
            print("stopped", flush=True)
            sys.stdin.read()
        taken.append(len(chunk))
        return take(chunk, ref)

    _scan._take = take_and_stop
    ff.ray.scan(folder, out=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
