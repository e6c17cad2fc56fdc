"""Rows of loaders: whole loops beside those of other libraries, and what our own loader costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.load.clips import lock_row, processes_row, restore_row, slow_row
from benchmarks.load.epochs import EpochMedia, epoch_row, memory_row, users_row
from benchmarks.load.frameworks import decoded_row, frameworks_row
from benchmarks.load.light import light_row
from benchmarks.load.simulation import simulation_row
from benchmarks.load.start import start_row
from benchmarks.media import OwnStore
from framefeed.bench import Begin, BenchOptions, BenchVideo, MakeRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia

ROWS: Mapping[str, str] = {
    "epoch": "epochs of random clips of your videos, against loops over other libraries",
    "memory": "memory of all processes of such a loop",
    "users": "a data set over TorchCodec under framefeed's DataLoader, against torch's",
    "start": "time from the start of a process to its first batch",
    "light": "items that are ready in memory under framefeed's DataLoader, against torch's",
    "slow": "one slow clip among many, against the least time that is possible",
    "processes": "processes against threads, for 720p clips",
    "lock": "processes against threads, for a transform that holds the interpreter's lock",
    "restore": "time to restore a state",
    "tensorflow": "ff.tensorflow.dataset over a loader with a warm cache, against the loader itself",
    "jax": "ff.jax.iterate, likewise",
    "dali": "ff.dali.pipeline without a size, likewise",
    "dali-decoded": "the same over clips of 720p that the loader decodes",
    "simulation": "1 to 30 producers and one consumer, against threads with a queue and other loaders",
}
PEERS = (
    "decord2",
    "torchcodec",
    "benchmarks.peers.torch",
    "benchmarks.peers.spdl",
    "benchmarks.peers.queues",
    "benchmarks.peers.grain",
)
ROW_SECONDS = {
    "epoch": 300,
    "memory": 300,
    "users": 60,
    "start": 60,
    "light": 20,
    "processes": 60,
    "tensorflow": 30,
    "jax": 30,
    "dali": 30,
    "dali-decoded": 60,
    "simulation": 150,
}
LARGE_FILES = 4


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows."""
    store = OwnStore(options.media, work, options.rounds)
    media = EpochMedia(options, peers, work, begin)

    def copy_large() -> Sequence[BenchVideo]:
        try:
            video = store.trailer
        except MissingMedia:
            video = store.plain_video
        return store.copies(video, LARGE_FILES)

    return {
        "epoch": lambda scratch, stack: epoch_row(media.clips, peers),
        "memory": lambda scratch, stack: memory_row(media.clips, peers),
        "users": lambda scratch, stack: users_row(media.clips, peers),
        "start": lambda scratch, stack: start_row(media.clips, peers),
        "light": lambda scratch, stack: light_row(peers, stack),
        "slow": slow_row,
        "processes": lambda scratch, stack: processes_row(copy_large(), stack),
        "lock": lock_row,
        "restore": restore_row,
        "tensorflow": lambda scratch, stack: frameworks_row("tensorflow", scratch, stack),
        "jax": lambda scratch, stack: frameworks_row("jax", scratch, stack),
        "dali": lambda scratch, stack: frameworks_row("dali", scratch, stack),
        "dali-decoded": lambda scratch, stack: decoded_row("dali", copy_large(), stack),
        "simulation": lambda scratch, stack: simulation_row(peers, scratch),
    }


SUITE = Suite("load", ROWS, PEERS, plan_rows, ROW_SECONDS, 7, lambda options: {"workers": 2, "batch_size": 8})
