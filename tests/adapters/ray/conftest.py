"""A cluster of two nodes of one CPU on this machine, for the tests of this room; ``make ray`` runs them."""

from __future__ import annotations

import glob
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.data", reason="Ray is not installed: make ray runs this in .venv-ray")

STORE_BYTES = 150 << 20
"""Of a node."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    # A node that is lost is noticed within 3 s, not 15.
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
# Of Ray's own: its DataContext warns of two of its own settings.
OF_RAY = "ignore::DeprecationWarning:ray"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(OF_RAY))
    # Pages start a cluster of their own: before that of the other tests.
    items.sort(key=lambda item: item.path.name != "test_pages.py")


class Nodes:
    """A cluster: a head, where this process is, and one more node."""

    def __init__(self, folder: Path, *, store_bytes: int = STORE_BYTES) -> None:
        import ray
        from ray.cluster_utils import Cluster

        (folder / "ray").mkdir(parents=True)
        self._store_bytes = store_bytes
        head = {"num_cpus": 1, "object_store_memory": store_bytes, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.other = self.add()
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="error")
        ray.data.DataContext.get_current().enable_progress_bars = False

    def add(self) -> Any:
        """Add a node of one CPU."""
        self.other = self.cluster.add_node(num_cpus=1, object_store_memory=self._store_bytes)
        return self.other

    def lose(self) -> None:
        """Kill the other node."""
        self.cluster.remove_node(self.other, allow_graceful=False)

    def stop(self) -> None:
        """Stop the cluster."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder with a short path, because those of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="ff", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        assert not find_processes(folder), "processes of Ray are left"
    assert not Path(folder).exists(), "files of Ray are left"


@pytest.fixture(scope="session")
def nodes(short_folder: Path) -> Iterator[Nodes]:
    set_up(short_folder / "c")
    shared = set(os.listdir("/dev/shm"))
    made = Nodes(short_folder / "c")
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(short_folder / "c", ignore_errors=True)
    assert set(os.listdir("/dev/shm")) <= shared, "shared memory is left"


def set_up(folder: Path) -> None:
    """Set what Ray reads when it is imported or a node starts."""
    os.environ.update(SETTINGS, RAY_TMPDIR=str(folder), PYTHONPATH=os.pathsep.join(find_paths()))
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def find_paths() -> list[str]:
    """List where workers find framefeed and these tests."""
    root = Path(__file__).resolve().parents[3]
    return [str(root / "src"), str(root)]


def find_processes(text: str) -> list[str]:
    """Find the running processes whose command lines have a text in them: number and line of each."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            line = Path(path).read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and str(os.getpid()) != path.split("/")[2]:
            found.append(f"{path.split('/')[2]} {line}")
    return found
