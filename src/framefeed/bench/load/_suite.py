"""The rows of ``framefeed bench load``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from framefeed._cached import cached_property
from framefeed.bench._media import MediaStore
from framefeed.bench._runner import Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.load._clips import lock_row, processes_row, restore_row, slow_row
from framefeed.bench.load._epochs import choose_videos, epoch_row, memory_row, start_row, users_row
from framefeed.bench.load._frameworks import frameworks_row
from framefeed.bench.load._light import light_row
from framefeed.bench.load._programs import ClipSet, make_clip_set
from framefeed.bench.load._simulation import simulation_row
from framefeed.errors import MissingMedia

ROWS: Mapping[str, str] = {
    "epoch": "epochs of random clips of your videos, against loops over other libraries",
    "memory": "memory of all processes of such a loop",
    "start": "time from the start of a process to its first batch",
    "users": "a data set over TorchCodec under framefeed's DataLoader, against torch's",
    "light": "items that are ready in memory under framefeed's DataLoader, against torch's",
    "slow": "one slow clip among many, against the least time that is possible",
    "processes": "processes against threads, for 720p clips",
    "lock": "processes against threads, for a transform that holds the interpreter's lock",
    "restore": "time to restore a state",
    "tensorflow": "ff.tensorflow.dataset over a loader with a warm cache, against the loader itself",
    "jax": "ff.jax.iterate, likewise",
    "simulation": "1 to 30 producers and one consumer, against threads with a queue and other loaders",
}
PEERS = ("torch", "decord2", "torchcodec", "spdl", "queues", "grain")
ROW_SECONDS = {
    "epoch": 300,
    "memory": 300,
    "start": 60,
    "users": 60,
    "light": 20,
    "processes": 60,
    "tensorflow": 30,
    "jax": 30,
    "simulation": 150,
}
PAIRS = 7
LARGE_FILES = 4


class EpochMedia:
    """The clips of the user's videos, chosen and scanned at the first row that needs them."""

    def __init__(self, options: BenchOptions, store: MediaStore, peers: Peers, work: Path, begin: Begin) -> None:
        self._options, self._store, self._peers, self._work, self._begin = options, store, peers, work, begin

    @cached_property
    def clips(self) -> ClipSet:
        """Clips that all loops load."""
        self._begin("choosing videos")
        videos = choose_videos(self._store, self._options.media)
        torchcodec = self._peers.modules.get("torchcodec")
        mappings = {} if torchcodec is None else {str(each.path): torchcodec.frame_mappings(each) for each in videos}
        folder = self._work / "load"
        folder.mkdir(parents=True, exist_ok=True)
        return make_clip_set(videos, folder, mappings)


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for."""
    store = MediaStore(options.media, work, options.rounds)
    media = EpochMedia(options, store, peers, work, begin)

    def make_processes(scratch: Path, stack: ExitStack) -> Row:
        try:
            video = store.trailer
        except MissingMedia:
            video = store.plain_video
        return processes_row(store.copies(video, LARGE_FILES), stack)

    makes: dict[str, Callable[[Path, ExitStack], Row]] = {
        "epoch": lambda scratch, stack: epoch_row(media.clips, peers),
        "memory": lambda scratch, stack: memory_row(media.clips, peers),
        "start": lambda scratch, stack: start_row(media.clips, peers),
        "users": lambda scratch, stack: users_row(media.clips, peers),
        "light": lambda scratch, stack: light_row(peers, stack),
        "slow": slow_row,
        "processes": make_processes,
        "lock": lock_row,
        "restore": restore_row,
        "tensorflow": lambda scratch, stack: frameworks_row("tensorflow", scratch, stack),
        "jax": lambda scratch, stack: frameworks_row("jax", scratch, stack),
        "simulation": lambda scratch, stack: simulation_row(peers, scratch),
    }
    return [PlannedRow(key, makes[key]) for key in makes if not options.rows or key in options.rows]


LOAD = Suite("load", ROWS, PEERS, plan_rows, ROW_SECONDS, PAIRS, lambda options: {"workers": 2, "batch_size": 8})
