"""The rows of ``framefeed bench decode``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from framefeed.bench._frames import SEED
from framefeed.bench._media import MediaStore
from framefeed.bench._runner import Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.decode._workloads import Workload, own_workloads, workload_row
from framefeed.errors import MissingMedia

PEERS = ("torchcodec", "decord2", "spdl", "opencv")
OWN = "own"
ROWS = {OWN: "random clips of your videos, against other installed decoders"}
# About, on two x86-64 cores, with its first round.
ROW_SECONDS = {OWN: 8}


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List a row for each video and distance of frames.

    Raises:
        MissingMedia: No video is long enough.
    """
    store, methods = MediaStore(options.media, work, options.rounds), peers.list_all("METHODS")

    def plan(workload: Workload) -> PlannedRow:
        def make(scratch: Path, stack: ExitStack) -> Row:
            return workload_row(workload, store, methods, options.rounds)

        return PlannedRow(workload.key, make)

    rows = [plan(workload) for workload in own_workloads(store)]
    if not rows:
        raise MissingMedia("MEDIA has no video of 65 frames that can be read: name a longer one")
    return rows


DECODE = Suite("decode", ROWS, PEERS, plan_rows, ROW_SECONDS, 20, lambda options: {"seed": SEED, "threads": 1})
