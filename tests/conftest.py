"""Shared by every room's tests."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.corpus_folder import share_folder
from tests.lengths import IS_ALL, IS_LONG
from tests.parallel.clocks import HandClock
from tests.poison import poison
from tests.tiers import mark_slow, put_long_files_first, turn

if TYPE_CHECKING:
    from tests.media.remote.stores import Store

settings.register_profile(
    "house",
    deadline=None,  # a shared machine's clock says nothing about the code
    derandomize=True,  # the same examples everywhere: a red run can be repeated
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],  # likewise about the machine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))

CHECKOUT = Path(__file__).resolve().parents[1]

# Some 300 processes that tests start import framefeed: compiling it takes each of them 0.25 s of 0.8 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Servers of the tests are on this machine.
for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
    os.environ.pop(name, None)
    os.environ.pop(name.upper(), None)

# Threads of PyTorch that wait for each other spin: on a busy machine, two thirds of the time of training in the demo.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # of a process of xdist, which has the folder of the one that started it
        config.add_cleanup(share_folder())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have each process of xdist begin elsewhere: what one has compiled, the others read."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path in (CHECKOUT, CHECKOUT / "tests"):  # what is named, or all
        number = int(worker["workerid"].removeprefix("gw"))
        report.result = turn(report.result, number / worker["workercount"])
    return report


# Before all others, which must meet the items of every process in one order.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_slow(items)
    markers = [name for name, is_run in (("test_all", IS_ALL), ("chaos", IS_LONG)) if not is_run]
    left_out = {item for item in items if any(map(item.get_closest_marker, markers))}
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        put_long_files_first(items)


@pytest.fixture(scope="session")
def media_root() -> Path:
    """Real media files, which are not part of the repository."""
    root = Path(os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media"))
    if not root.is_dir():
        pytest.skip(f"no media folder at {root}; FRAMEFEED_MEDIA names another")
    return root


_LAST = -200  # after multiprocessing has removed its own folder in it


@pytest.fixture(scope="session", autouse=True)
def temporary_folder() -> Iterator[None]:
    """Remove all that is left in the temporary folder: torch's persistent workers leave a folder each there."""
    folder = tempfile.mkdtemp(prefix="framefeed-tests-")
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=_LAST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def disk_is_not_waited_for() -> Iterator[None]:
    """Some 3,000 calls took 2 to 8 ms each; what a loss of power leaves is tested with disks that tests make up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which fails as it does, where the descriptor is none
        yield


@pytest.fixture(scope="session", autouse=True)
def doctor_imports_nothing() -> Iterator[None]:
    """Each `framefeed doctor` imports what is installed, which takes 6 s of CPU: tests/cli/test_doctor.py sees it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.cli.doctor.find_faults", lambda _: {})
        yield


@pytest.fixture(scope="session", autouse=True)
def servers_are_asked_again_at_once() -> Iterator[None]:
    """Behind an answer that may pass, a client waits 0.1, 0.4 and 1.6 s."""
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError):  # There is no client.
            patch.setattr("framefeed.media.remote._client._FIRST_PAUSE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def uncleared_memory_is_filled() -> Iterator[None]:
    """Memory that is lent again has another batch's pixels, and fresh memory zeros: neither looks wrong by itself."""
    with poison():
        yield


@pytest.fixture(scope="module", autouse=True)
def collections_are_cheap() -> None:
    """Have the collector pass over what is there already: thousands of tests collect, 0.2 s each in a large process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Store]:
    """moto's server, one for all tests of this process; a module takes ``s3``."""
    from tests.media.remote.stores import serving

    with serving() as store:
        yield store


@pytest.fixture(scope="module")
def s3(s3_server: Store) -> Store:
    """A server of S3 in which nothing is but the bucket "many"."""
    s3_server.empty()
    return s3_server


_GENERATIONS_OF_GARBAGE = 4
"""What one collection finalises may free what only the next one collects: an error, its frames, their loader."""


@pytest.fixture
def hand_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The clock of deadlines: stands still until the test moves it, and is read often by a thread that waits."""
    clock = HandClock()
    monkeypatch.setattr("framefeed.parallel._ordered.monotonic", clock)
    monkeypatch.setattr("framefeed.parallel._ordered.LIVENESS_SECONDS", 0.001)
    return clock


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    """Every test ends its loaders and pools, or drops them: no thread of one test runs in the next."""
    before = set(_own_threads())
    yield
    left = set(_own_threads()) - before
    for _ in range(_GENERATIONS_OF_GARBAGE):
        if any(thread.is_alive() for thread in left):
            gc.collect()
            for thread in left:
                thread.join(1)
    assert not any(thread.is_alive() for thread in left)


_SCHEDULING = os.sched_getscheduler(0)


@pytest.fixture(autouse=True)
def scheduling_stays_as_it_was() -> Iterator[None]:
    """An encoder that leaves the thread on real-time scheduling stops all that runs beside it on one core."""
    yield
    assert os.sched_getscheduler(0) == _SCHEDULING


def _own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("framefeed-")]
