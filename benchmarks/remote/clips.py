"""Row "epoch": random clips of many videos by URL, against TorchCodec, against downloading them, and from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import framefeed as ff
from benchmarks.remote.media import ServedMedia
from benchmarks.remote.server import Server
from framefeed.bench import (
    NUM_FRAMES,
    OURS,
    SEED,
    SIZE,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    Reference,
    Row,
    Run,
    Timings,
    compare_times,
    ready,
    take_time,
)
from framefeed.bench.baselines import Peers

WORKERS = 2
BATCH = 4
STRIDE = 2
IN_FLIGHT = 64
"""Clips that are prepared ahead; their bytes are at most `READ_AHEAD`."""
READ_AHEAD = "512MB"
AHEAD = f"{OURS}, {IN_FLIGHT} clips in flight"
DISK = f"{OURS}, local disk, {IN_FLIGHT} clips in flight"
FSSPEC, APPROXIMATE, DOWNLOADED = (
    "torchcodec over fsspec",
    "torchcodec approximate over fsspec",
    "downloaded, torchcodec",
)
CHECKED = 4
"""Clips of the first epoch whose frames are compared."""
_PEER = "torchcodec_urls"

Read = Callable[[str, Sequence[int]], Any]
"""Gives frames of a URL by ordinal."""


def plan_epoch(sources: Sequence[str]) -> ff.EpochPlan:
    """Plan one clip of each video."""
    catalog = ff.scan(list(sources), resume=False, progress=False)
    assert not len(catalog.errors), catalog.errors.table["error"][0]
    return ff.plan_clips(catalog, ff.Dense(NUM_FRAMES, stride=STRIDE), seed=SEED, size=(SIZE, SIZE))


def load_epoch(plan: ff.EpochPlan, options: Mapping[str, Any], epoch: int) -> Iterator[ff.ClipBatch]:
    """Load the batches of an epoch."""
    with ff.ClipLoader(plan.with_epoch(epoch), batch_size=BATCH, workers=WORKERS, **options) as loader:
        yield from loader


def load_all(plan: ff.EpochPlan, options: Mapping[str, Any], epoch: int) -> None:
    for _ in load_epoch(plan, options, epoch):
        pass


def read_all(plan: ff.EpochPlan, read: Read, epoch: int) -> None:
    """Read the clips of an epoch by a function, in threads."""
    planned = list(plan.with_epoch(epoch))
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(lambda clip: len(read(str(clip.source), clip.indices.tolist())), planned):
            pass


def list_readers(peers: Peers, scratch: Path) -> dict[str, Read]:
    """The ways of other libraries, where they are installed."""
    if _PEER not in peers.modules:
        return {}
    peer = peers.modules[_PEER]

    def download(url: str, ordinals: Sequence[int]) -> Any:
        return peer.read_downloaded(url, ordinals, scratch / url.rpartition("/")[2])

    return {
        FSSPEC: peer.read_over_fsspec,
        APPROXIMATE: partial(peer.read_over_fsspec, seek_mode="approximate"),
        DOWNLOADED: download,
    }


def epoch_row(server: Server, media: ServedMedia, peers: Peers, scratch: Path) -> Row:
    """Epochs of one clip of each video: by URL as a loader is, with many clips in flight, from the disk, by peers."""
    names = [str(video.path.relative_to(media.folder)) for video in media.videos]
    remote = plan_epoch([server.url(name) for name in names])
    local = plan_epoch([str(media.folder / name) for name in names])
    ahead = {"prefetch": IN_FLIGHT // BATCH, "read_ahead": READ_AHEAD}
    ours: dict[str, tuple[ff.EpochPlan, Mapping[str, Any]]] = {
        OURS: (remote, {}), AHEAD: (remote, ahead), DISK: (local, ahead),
    }  # fmt: skip
    others = list_readers(peers, scratch)
    first_epochs: dict[str, float] = {}

    def open_ours(name: str) -> Run:
        # The fingerprint of each video is compared once a process.
        first_epochs[name] = take_time(partial(load_all, *ours[name], 0)).wall
        return lambda number: load_all(*ours[name], number + 1)

    @cache
    def references() -> list[Reference]:
        requests = [local[position] for position in range(CHECKED)]
        return [Reference(BenchVideo(Path(str(each.source))), each.indices.tolist()) for each in requests]

    def check(contender: Contender) -> list[str]:
        if contender.name in ours:
            plan, options = ours[contender.name]
            clips = list(next(load_epoch(plan, options, 0)).data)
        else:
            requests = [remote[position] for position in range(CHECKED)]
            clips = [others[contender.name](str(each.source), each.indices.tolist()) for each in requests]
        pairs = zip(references(), clips, strict=True)
        return [
            f"clip {number}: not the frames that were asked for"
            for number, (reference, clip) in enumerate(pairs)
            if reference.share_matching(clip, "NCHW") < 1
        ]

    contenders = [Contender(name, partial(open_ours, name), amount=len(remote)) for name in ours]
    contenders += [
        Contender(name, ready(partial(read_all, remote, read)), "torchcodec", amount=len(remote))
        for name, read in others.items()
    ]

    def conclude(timings: Timings) -> Findings:
        _, asked = server.count(partial(load_all, *ours[OURS], 1000))
        facts = {
            "first_epoch_seconds": {name: round(seconds, 2) for name, seconds in first_epochs.items()},
            "requests_a_clip": round(len(asked) / len(remote), 2),
            "megabytes_a_clip": round(sum(each.bytes for each in asked) / len(remote) / 1e6, 2),
            "file_megabytes": round(media.videos[0].path.stat().st_size / 1e6, 1),
        }
        against = {"torchcodec": FSSPEC, "torchcodec approximate": APPROXIMATE, "downloaded": DOWNLOADED}
        compared = [
            Comparison(key, f"clips a second by those of {name}", compare_times(timings, OURS, name, ("wall", "cpu")))
            for key, name in against.items()
        ]
        share = {
            clock: Figure(timings.ratio(DISK, AHEAD, metric), AHEAD, DISK)
            for clock, metric in (("wall", "wall"), ("CPU", "cpu"))
        }  # fmt: skip
        return Findings([*compared, Comparison("disk", "share of the rate from local disk", share)], facts)

    return Row(
        "epoch", f"random clips of {NUM_FRAMES} frames to {SIZE}x{SIZE}, one of each of {len(remote)} videos",
        contenders, conclude, unit="clips", check=check,
    )  # fmt: skip
