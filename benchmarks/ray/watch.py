"""Watch a cluster from a process of its own: CPU seconds of its processes, and what its object stores hold.

    python -m benchmarks.ray.watch DRIVER_PID ADDRESS:PORT...

Each line on standard input is answered by what was counted until then, as JSON; the peaks of the stores begin anew with
it. It asks every 50 ms, so that a process that ends takes little with it that was not seen. Its own CPU is counted
nowhere.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

import ray  # noqa: F401  # brings psutil along
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

import psutil  # isort: skip

SECONDS = 0.05
PARTS = ("used", "primary", "spilled", "fallback")


class Processes:
    """CPU seconds of the driver, of the workers that run tasks, and of all else of Ray."""

    def __init__(self, driver: int) -> None:
        self._driver = psutil.Process(driver)
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}

    def look(self) -> None:
        """Count anew; a process that has ended keeps what was seen last."""
        for process in self._driver.children(recursive=True):
            if process.pid == os.getpid():
                continue
            try:
                key, title = (process.pid, process.create_time()), " ".join(process.cmdline())
                self._seen[key] = self._name(key, title), _cpu_of(process)
            except psutil.Error:
                continue

    def _name(self, key: tuple[int, float], title: str) -> str:
        """Workers are what runs tasks; actors of Ray Data's own, such as ray::_StatsActor, are Ray's."""
        if self._seen.get(key, ("",))[0] == "daemons" and "default_worker" not in title:
            return "daemons"
        is_worker = (title.startswith("ray::") and not title.startswith("ray::_")) or "default_worker" in title
        return "workers" if is_worker and "Agent" not in title and "Coordinator" not in title else "daemons"

    def total(self) -> dict[str, float]:
        """Seconds so far."""
        self.look()
        found = {"driver": _cpu_of(self._driver), "workers": 0.0, "daemons": 0.0}
        for kind, seconds in self._seen.values():
            found[kind] += seconds
        return found


def _cpu_of(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class Stores:
    """Bytes in use of each node's object store at their peak, by Ray's own count."""

    def __init__(self, addresses: list[str]) -> None:
        self._stubs = [node_manager_pb2_grpc.NodeManagerServiceStub(init_grpc_channel(each)) for each in addresses]
        self.start_anew()

    def start_anew(self) -> None:
        self._peaks = [dict.fromkeys(PARTS, 0) for _ in self._stubs]

    def look(self) -> None:
        request = node_manager_pb2.GetNodeStatsRequest(include_memory_info=False)
        for stub, peaks in zip(self._stubs, self._peaks, strict=True):
            stats = stub.GetNodeStats(request, timeout=30.0).store_stats
            counts = {
                "used": stats.object_store_bytes_used,
                "primary": stats.object_store_bytes_primary_copy,
                "spilled": stats.spilled_bytes_total,
                "fallback": stats.object_store_bytes_fallback,
            }
            for name, count in counts.items():
                peaks[name] = max(peaks[name], count)

    def peaks(self) -> list[dict[str, int]]:
        return self._peaks


def main() -> None:
    """Watch until standard input ends."""
    processes, stores = Processes(int(sys.argv[1])), Stores(sys.argv[2:])
    while True:
        processes.look()
        stores.look()
        if select.select([sys.stdin], [], [], SECONDS)[0]:
            if not sys.stdin.readline():
                return
            found = {"cpu": processes.total(), "store": stores.peaks(), "time": time.perf_counter()}
            print(json.dumps(found), flush=True)
            stores.start_anew()


if __name__ == "__main__":
    main()
