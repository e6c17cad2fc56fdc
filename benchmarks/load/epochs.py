"""Rows "epoch", "memory", "users": whole programs that load clips of many real videos, whose index is ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from benchmarks.load.programs import (
    BATCH,
    FILES,
    SPAN,
    WATCH,
    ClipSet,
    Loop,
    Mark,
    make_clip_set,
    run_loop,
    take_batches,
)
from framefeed._cached import cached_property
from framefeed._units import format_count, format_share
from framefeed.bench import (
    METRICS,
    Begin,
    BenchOptions,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    MediaStore,
    Reading,
    Reference,
    Row,
    Run,
    Timings,
    compare_times,
    ready,
)
from framefeed.bench.baselines import Peers
from framefeed.errors import FramefeedError, MissingMedia
from framefeed.index import build_index
from framefeed.scanning import list_roots

CODECS = ("h264",)
SUFFIXES = frozenset({".mp4", ".mov", ".mkv"})
MEMORY_RUNS = 2
OURS, OURS_TORCH = "framefeed", "framefeed, torch imported"
DROP_IN = "framefeed.torch.DataLoader"
USERS, USERS_OURS = "torchcodec exact, resized by torch", f"the same under {DROP_IN}"
_EDIT = "from framefeed.torch import DataLoader"
OWN_LOOPS = (
    Loop(OURS, "framefeed threads", prelude="import framefeed"),
    Loop("framefeed, processes", "framefeed processes", prelude="import framefeed"),
)
OURS_IN_TORCH = Loop(OURS_TORCH, "framefeed threads", prelude="import torch, framefeed", needs=("torch",))
PEER_LOOPS = (
    Loop("decord2", "decord2", needs=("decord2", "torch")),
    *(
        Loop(name, name, needs=("torchcodec",))
        for how in ("exact", "approximate", "mappings")
        for name in (f"torchcodec {how}", f"torchcodec {how}, resized by torch")
    ),
    Loop("spdl", "spdl", needs=("spdl",)),
)
USERS_LOOPS = (Loop(USERS, USERS, needs=("torchcodec",)), Loop(USERS_OURS, USERS, prelude=_EDIT, needs=("torchcodec",)))


def choose_videos(store: MediaStore, media: Sequence[Path]) -> list[BenchVideo]:
    """Choose the user's first undamaged H.264 videos that hold a clip; copies of a made one if none are named."""
    if not media:
        return store.copies(store.plain_video, FILES)
    chosen: list[BenchVideo] = []
    for path in list_roots(media, suffixes=SUFFIXES).paths:
        try:
            index = build_index(path)
            if index.stream.codec not in CODECS or len(index) < SPAN + 3:
                continue
            is_whole = not build_index(path, "full").num_damaged_frames
        except FramefeedError:
            continue
        if is_whole:
            chosen.append(BenchVideo(Path(path)))
        if len(chosen) == FILES:
            break
    if not chosen:
        raise MissingMedia(f"none of the media is an undamaged H.264 video of {SPAN + 3} frames")
    return chosen


def choose_loops(loops: Iterable[Loop], peers: Peers) -> list[Loop]:
    """Those whose libraries are installed."""
    return [loop for loop in loops if not set(loop.needs) - peers.modules.keys()]


def make_check(clips: ClipSet, loops: Sequence[Loop]) -> Callable[[Contender], list[str]]:
    """Compare the first clips that each loop gives with the frames that were asked for."""
    by_name = {loop.name: loop for loop in loops}

    @cache
    def references() -> list[Reference]:
        listed = clips.specification["clips"][: 2 * BATCH]
        return [Reference(BenchVideo(Path(path)), ordinals) for path, ordinals in listed]

    def check(contender: Contender) -> list[str]:
        kept = take_batches(by_name[contender.name], clips)
        return [
            f"clip {position}: {format_share(1 - share)} of the frames are not the ones that were asked for"
            for position, (reference, clip) in enumerate(zip(references(), kept, strict=False))
            if (share := reference.share_matching(clip, "NCHW")) < 1
        ]

    return check


def time_loop(loop: Loop, specification: Path, begin: Mark | None, end: Mark) -> Run:
    """Time a loop from one of its marks, or from its start, to another."""

    def run(number: int) -> Reading:
        marks = run_loop(loop, specification).of
        return marks[end] - marks[begin] if begin else marks[end]

    return run


def enter_loops(
    loops: Iterable[Loop], specification: Path, begin: Mark | None, end: Mark, amount: float = 1
) -> list[Contender]:
    """Make contenders that are timed from one mark to another; the loops of a library compete for being its best."""
    return [
        Contender(
            loop.name,
            ready(time_loop(loop, specification, begin, end)),
            loop.library,
            groups=(loop.library,) if loop.library else (),
            amount=amount,
        )
        for loop in loops
    ]


def compare_libraries(timings: Timings, ours: str) -> dict[str, dict[str, Figure]]:
    """Library -> our speed in times of its fastest loop, by metric."""
    found: dict[str, dict[str, Figure]] = {}
    for library in dict.fromkeys(name.split()[0] for name in timings.of if not name.startswith(OURS)):
        names = [name for name in timings.of if name.split()[0] == library]
        found[library] = {}
        for metric in METRICS.values():
            found[library] |= compare_times(timings, ours, timings.best(names, metric), (metric,))
    return found


def epoch_row(clips: ClipSet, peers: Peers) -> Row:
    """Whole epochs: from the end of the imports to the last batch."""
    loops = choose_loops((*OWN_LOOPS, *PEER_LOOPS), peers)
    specification, amount = clips.write(), len(clips.plan)

    def conclude(timings: Timings) -> Findings:
        found = compare_libraries(timings, OURS)
        what = "the speed of its fastest loop"
        return Findings([Comparison(library, f"{what}, {library}", figures) for library, figures in found.items()])

    contenders = enter_loops(loops, specification, "ready", "done", amount)
    videos = format_count(len(clips.plan.catalog), "video")
    title = (
        f"epochs of {amount} random clips of 16 frames 4 apart at 224x224, {videos}, batches of {BATCH}, 2 workers; "
        "each epoch is a process of its own, timed from the end of its imports"
    )
    return Row("epoch", title, contenders, conclude, unit="clips", check=make_check(clips, loops), between=lambda: None)


def memory_row(clips: ClipSet, peers: Peers) -> Row:
    """Memory of whole programs."""
    # How TorchCodec finds frames takes no memory to speak of.
    others = [loop for loop in PEER_LOOPS if "approximate" not in loop.name and "mappings" not in loop.name]
    loops = choose_loops((*OWN_LOOPS, OURS_IN_TORCH, *others, USERS_LOOPS[1]), peers)
    specification = clips.write()
    peaks: dict[str, list[float]] = {loop.name: [] for loop in loops}
    for _ in range(MEMORY_RUNS):
        for loop in loops:
            peaks[loop.name].append(run_loop(loop, specification, watch=WATCH).peak_megabytes)
    most = {name: median(found) for name, found in peaks.items()}
    shares = []
    for ours in (OURS, OURS_TORCH):
        figures = {name: Figure(most[ours] / of) for name, of in most.items() if ours in most and OURS not in name}
        shares.append(Comparison(ours, f"memory of {ours}, as a share of another's", figures))
    if USERS_OURS in most:
        what = f"memory of a user's TorchCodec data set under {DROP_IN}, as a share of that under torch's"
        shares.append(Comparison("users", what, {"users": Figure(most[USERS_OURS] / most[USERS])}))
    facts = {"peak_MB": {name: round(value) for name, value in most.items()}}
    title = "the same epochs: sum of the proportional sets of all processes at most, imports included"
    return Row("memory", title, conclude=lambda timings: Findings(shares, facts))


def users_row(clips: ClipSet, peers: Peers) -> Row:
    """A data set that a user wrote over TorchCodec, under both classes called DataLoader."""
    loops = choose_loops(USERS_LOOPS, peers)
    if not loops:
        raise MissingMedia(f"it needs TorchCodec: {peers.missing.get('torchcodec', 'not installed')}")
    specification = clips.write()

    def conclude(timings: Timings) -> Findings:
        return Findings(
            [Comparison("users", "the speed under torch's DataLoader", compare_times(timings, USERS_OURS, USERS))]
        )

    contenders = [
        Contender(loop.name, ready(time_loop(loop, specification, "ready", "done")), amount=len(clips.plan))
        for loop in loops
    ]
    title = "the same epochs of a data set that a user wrote over TorchCodec, 2 workers"
    check = make_check(clips, loops)
    return Row("users", title, contenders, conclude, unit="clips", check=check, between=lambda: None)


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
