"""The rows of ``framefeed bench load``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from framefeed._cached import cached_property
from framefeed.bench._media import MediaStore
from framefeed.bench._runner import Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.load._epochs import choose_videos, epoch_row, memory_row, users_row
from framefeed.bench.load._programs import ClipSet, make_clip_set

ROWS: Mapping[str, str] = {
    "epoch": "epochs of random clips of your videos, against loops over other libraries",
    "memory": "memory of all processes of such a loop",
    "users": "a data set over TorchCodec under framefeed's DataLoader, against torch's",
}
MAKES: Mapping[str, Callable[[ClipSet, Peers], Row]] = {"epoch": epoch_row, "memory": memory_row, "users": users_row}
PEERS = ("torch", "decord2", "torchcodec", "spdl")
ROW_SECONDS = {"epoch": 300, "memory": 300, "users": 60}
PAIRS = 7


class EpochMedia:
    """The clips of the user's videos, chosen and scanned at the first row that needs them."""

    def __init__(self, options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> None:
        self._options, self._peers, self._work, self._begin = options, peers, work, begin

    @cached_property
    def clips(self) -> ClipSet:
        """Clips that all loops load."""
        self._begin("choosing videos")
        store = MediaStore(self._options.media, self._work, self._options.rounds)
        videos = choose_videos(store, self._options.media)
        torchcodec = self._peers.modules.get("torchcodec")
        mappings = {} if torchcodec is None else {str(each.path): torchcodec.frame_mappings(each) for each in videos}
        folder = self._work / "load"
        folder.mkdir(parents=True, exist_ok=True)
        return make_clip_set(videos, folder, mappings)


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for."""
    media = EpochMedia(options, peers, work, begin)
    return [
        PlannedRow(key, lambda scratch, stack, make=make: make(media.clips, peers))  # type: ignore[misc]
        for key, make in MAKES.items()
        if not options.rows or key in options.rows
    ]


LOAD = Suite("load", ROWS, PEERS, plan_rows, ROW_SECONDS, PAIRS, lambda options: {"workers": 2, "batch_size": 8})
