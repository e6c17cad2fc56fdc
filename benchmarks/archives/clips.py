"""Rows of random clips: from tar archives against the unpacked files, and against WebDataset with TorchCodec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import framefeed as ff
from benchmarks.archives.media import Packed, PackedMedia, read_all
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
)
from framefeed.bench.baselines import Peers

WORKERS = 2
BATCH = 4
STRIDE = 2
TAR, FILES = f"{OURS}, tar", f"{OURS}, files"
EXACT, APPROXIMATE = "webdataset, torchcodec", "webdataset, torchcodec approximate"
CHECKED = 4
"""Clips of the first epoch whose frames are compared."""
_PEER = "webdataset_clips"
_NUMBER = re.compile(r"(\d{6})\.mp4")

Clips = Mapping[int, Sequence[int]]
"""Frames of each member, by number."""


def plan_epoch(sources: Sequence[Path]) -> ff.EpochPlan:
    """Plan one clip of each video."""
    catalog = ff.scan(list(sources), progress=False)
    assert not len(catalog.errors), catalog.errors.table["error"][0]
    return ff.plan_clips(catalog, ff.Dense(NUM_FRAMES, stride=STRIDE), seed=SEED, size=(SIZE, SIZE))


def load_clips(plan: ff.EpochPlan, workers: int, epoch: int) -> Iterator[tuple[int, Any]]:
    """Load an epoch; give the number of each member with its frames."""
    with ff.ClipLoader(plan.with_epoch(epoch), batch_size=BATCH, workers=workers) as loader:
        for batch in loader:
            yield from zip(map(find_number, batch.sources), batch.data, strict=True)


def find_number(source: object) -> int:
    """Find the number of a member in its name."""
    match = _NUMBER.search(str(source))
    assert match is not None
    return int(match[1])


def choose_clips(plan: ff.EpochPlan, epoch: int) -> Clips:
    """List the frames of an epoch."""
    epoch_plan = plan.with_epoch(epoch)
    return {find_number(clip.source): clip.indices.tolist() for clip in epoch_plan}


def exhaust(clips: Iterator[tuple[int, Any]]) -> None:
    for _ in clips:
        pass


def check_clips(packed: Packed, chosen: Clips, clips: Iterator[tuple[int, Any]]) -> list[str]:
    """Compare some clips with frames of the unpacked files, and say what differs."""
    found = dict(clips)
    wrong = [] if found.keys() == chosen.keys() else [f"{len(found)} clips of {len(chosen)}"]
    for number in sorted(found)[:CHECKED]:
        reference = make_reference(packed.files[number], tuple(chosen[number]))
        if reference.share_matching(found[number], "NCHW") < 1:
            wrong.append(f"clip of {number}: not the frames that were asked for")
    return wrong


@cache
def make_reference(path: Path, ordinals: tuple[int, ...]) -> Reference:
    return Reference(BenchVideo(path), ordinals)


def unpacked_row(media: PackedMedia) -> Row:
    """Epochs of one clip of each video, from archives and from files, with two workers."""
    packed = media.make_short()
    read_all([*packed.files, *packed.shards])
    plans = {TAR: plan_epoch(packed.shards), FILES: plan_epoch(packed.files)}

    def run(name: str, number: int) -> None:
        exhaust(load_clips(plans[name], WORKERS, number))

    def check(contender: Contender) -> list[str]:
        plan = plans[contender.name]
        return check_clips(packed, choose_clips(plan, 0), load_clips(plan, WORKERS, 0))

    def conclude(timings: Timings) -> Findings:
        share = {
            clock: Figure(timings.ratio(FILES, TAR, metric), TAR, FILES)
            for clock, metric in (("CPU", "cpu"), ("wall", "wall"))
        }  # fmt: skip
        return Findings([Comparison("files", "share of the rate of the unpacked files", share)])

    return Row(
        "unpacked", f"random clips of {NUM_FRAMES} frames to {SIZE}x{SIZE}, one of each of {len(packed.files)} members",
        [Contender(name, ready(partial(run, name)), amount=len(packed.files)) for name in plans],
        conclude, unit="clips", check=check, warms_up=True,
    )  # fmt: skip


def webdataset_row(media: PackedMedia, peers: Peers, key: str) -> Row:
    """Epochs of one clip of each member, all in the calling thread: ours where they lie, WebDataset's one by one."""
    packed = media.make_short() if key == "webdataset" else media.make_long()
    read_all(packed.shards)
    plan = plan_epoch(packed.shards)
    paths = list(map(str, packed.shards))

    def read_theirs(seek_mode: str, epoch: int) -> Iterator[tuple[int, Any]]:
        clips: Iterator[tuple[int, Any]] = peers.modules[_PEER].read_clips(paths, choose_clips(plan, epoch), seek_mode)
        return clips

    ways = {OURS: partial(load_clips, plan, 0)}
    if _PEER in peers.modules:
        ways |= {EXACT: partial(read_theirs, "exact"), APPROXIMATE: partial(read_theirs, "approximate")}

    def make_run(name: str) -> Run:
        return lambda number: exhaust(ways[name](number))

    def check(contender: Contender) -> list[str]:
        return check_clips(packed, choose_clips(plan, 0), ways[contender.name](0))

    def conclude(timings: Timings) -> Findings:
        facts = {
            "member_megabytes": round(packed.files[0].stat().st_size / 1e6, 1),
            "member_seconds": round(float(plan.catalog.table.column("duration_seconds")[0].as_py()), 1),
        }
        return Findings([
            Comparison(name, f"clips a second by those of {peer}", compare_times(timings, OURS, peer))
            for name, peer in (("exact", EXACT), ("approximate", APPROXIMATE))
        ], facts)  # fmt: skip

    return Row(
        key, f"random clips of {NUM_FRAMES} frames to {SIZE}x{SIZE}, one of each of {len(packed.files)} members, "
        "in the calling thread",
        [
            Contender(name, ready(make_run(name)), "" if name == OURS else "webdataset", amount=len(packed.files))
            for name in ways
        ],
        conclude, unit="clips", check=check, warms_up=True,
    )  # fmt: skip
