"""estimate: predict size, build time and speed of a cache for a plan, by building a sample of its clips."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framefeed._checks import check_integer
from framefeed._units import format_bytes, format_count, format_seconds
from framefeed._values import Limits
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache.prefill._build import TASK_BYTES
from framefeed.cache.prefill._demand import FillOptions, PlanDemand, count_demand
from framefeed.cache.prefill._opening import check_filling, choose_form
from framefeed.cache.prefill._sampling import PlanSample, SampleCounts, sample_plan
from framefeed.cache.store._format import ROW
from framefeed.decode import Decoder, as_decoder
from framefeed.parallel import make_shortage_error, thread_budget
from framefeed.plan import EpochPlan, flatten_streams

SAMPLED_CLIPS = 24
CLIP_SECONDS = 240e-6
"""Time in Python to plan, look up and deliver or store a clip; threads do not share it (on two x86-64 cores)."""
_MAX_CLIPS_PER_SECOND = 1 / CLIP_SECONDS
_NO_CACHE = "no cache"


@dataclass(frozen=True, slots=True)
class CodecEstimate:
    """Estimate of a cache with one codec.

    Attributes:
        codec: Label of the codec.
        nbytes: Size of the files.
        build_seconds: Time to decode and store all frames, if no other programs use the processor.
        build_cpu_seconds: CPU time for it, of all threads together.
        clips_per_second: Speed of reading from the finished cache, with its files in memory.
    """

    codec: str
    nbytes: int
    build_seconds: float
    build_cpu_seconds: float
    clips_per_second: float


@dataclass(frozen=True, slots=True)
class Room:
    """Resources for a cache.

    Attributes:
        workers: Number of threads.
        max_bytes: Largest size of the cache, or None.
        bytes_there: Size of the files that the cache already has.
        free_bytes: Free space of its disk, or None if unknown.
        memory_bytes: Memory of the machine.
        frames_there: Frames that the cache already has.
    """

    workers: int
    max_bytes: int | None = None
    bytes_there: int = 0
    free_bytes: int | None = None
    memory_bytes: int = 0
    frames_there: int = 0

    @property
    def most_bytes(self) -> int | None:
        """Largest possible size of the cache, or None if there is no limit."""
        bounds = [] if self.max_bytes is None else [self.max_bytes]
        bounds += [] if self.free_bytes is None else [self.free_bytes + self.bytes_there]
        return min(bounds, default=None)

    def explain_lack(self, nbytes: int) -> str:
        """Explain why a cache of this size does not fit; empty if it fits."""
        if self.max_bytes is not None and nbytes > self.max_bytes:
            return f"more than max_bytes, {format_bytes(self.max_bytes)}"
        if self.most_bytes is not None and nbytes > self.most_bytes:
            return f"more than the {format_bytes(self.most_bytes)} that the disk has left for the cache"
        return ""


@dataclass(frozen=True, slots=True)
class CacheEstimate:
    """Estimate of a cache for a plan; ``print`` shows it as a short table.

    Attributes:
        outlook: Clips and frames of the plan.
        form: Form in which frames are stored: "output" or "planes".
        codecs: The entry of the codec that the cache uses; empty if no sampled clip could be decoded.
        codec: Label of the codec that the cache uses; empty if no sampled clip could be decoded.
        reason: Why this codec.
        decode_clips_per_second: Speed of decoding without a cache.
        room: Memory, disk space and threads.
        sample: Counts and times of the decoded sample.
        sampled_frames: Frames that were stored and read.
    """

    outlook: PlanDemand
    form: Form
    codecs: tuple[CodecEstimate, ...]
    codec: str
    reason: str
    decode_clips_per_second: float
    room: Room
    sample: SampleCounts
    sampled_frames: int

    @property
    def chosen(self) -> CodecEstimate | None:
        """The entry of the codec to use; None if no clip could be decoded."""
        return next((each for each in self.codecs if each.codec == self.codec), None)

    @property
    def fits(self) -> bool:
        """Whether all frames of the plan fit; if epochs have different frames, those of all epochs together."""
        if self.chosen is None:
            return True
        return self.bytes_at_most is not None and not self.room.explain_lack(self.bytes_at_most)

    @property
    def bytes_at_most(self) -> int | None:
        """Size of a cache that has the frames of all epochs, with the codec to use; None if there is no limit."""
        if self.chosen is None:
            return None
        demand, nbytes = self.outlook, self.chosen.nbytes
        if not demand.varies:
            return nbytes
        return None if demand.frames_at_most is None else round(nbytes / max(1, demand.frames) * demand.frames_at_most)

    def __str__(self) -> str:
        form = "after crop and resize" if self.form == "output" else "as whole pictures"
        demand = self.outlook
        clips, frames = format_count(demand.clips, "clip"), format_count(demand.frames, "different frame")
        head = f"{clips} {'needs' if demand.clips == 1 else 'need'} {frames}, stored {form}:"
        return "\n".join([head, *_make_table(self), *_list_remarks(self)])


def estimate(
    plan: EpochPlan,
    cache: FrameCache,
    *,
    workers: int | Literal["auto"] = "auto",
    backend: str | Decoder = "auto",
    epochs: int = 1,
    clips: int = SAMPLED_CLIPS,
    limits: Limits | None = None,
) -> CacheEstimate:
    """Estimate the size, build time and speed of a cache, by building a few clips in a temporary folder beside it.

    The folder is removed at the end, and nothing is stored in the cache. The clips are stored with the codec that the
    cache uses for this plan.

    Example: ``print(ff.cache.estimate(plan, cache))``

    Args:
        plan: The plan at its first epoch.
        cache: The cache to be filled.
        workers: Threads; "auto" uses the thread budget.
        backend: Name of a decoder, or a decoder.
        epochs: Number of epochs to store, from the plan's epoch on.
        clips: About how many clips are built.
        limits: Largest sizes that a file may have, checked before memory is allocated; None is ``Limits()``.

    Raises:
        UsageError: An argument is wrong, or the decoder cannot give frames in the form to be stored.
        MissingDependency: A file needs a package that is not installed.
        CacheError: The folder of the cache, or the temporary one beside it, cannot be used.
        ResourceExhausted: A resource ran out.
    """
    check_filling(plan, cache, epochs)
    plan = flatten_streams(plan)
    check_integer("clips", clips, least=1)
    if workers != "auto":
        check_integer("workers", workers, least=0)
    inner = as_decoder(backend, limits)
    form = choose_form(plan, cache)
    demand = count_demand(plan, epochs, FillOptions(form == "output", TASK_BYTES))
    room = _measure_room(cache, thread_budget().threads if workers == "auto" else max(1, workers))
    try:
        sample = sample_plan(plan, cache, inner, epochs, clips)
    except MemoryError as error:
        raise make_shortage_error("memory", cache.path, "estimate") from error
    return scale_up(demand, form, sample, room)


def scale_up(demand: PlanDemand, form: Form, sample: PlanSample, room: Room) -> CacheEstimate:
    """Scale the measurements of a sample up to a plan; pure."""
    counts, clip_frames = sample.counts, demand.clip_frames / max(1, demand.clips)
    # The pictures are counted by plan_runs, as for EpochPlan.describe; what each takes here is measured, not predicted.
    pictures = demand.pictures / max(1, counts.pictures)
    frames, runs = demand.frames / max(1, sample.frames), demand.pieces / max(1, sample.runs)
    listing = demand.clips * sample.list_seconds
    codecs = []
    if sample.codec:
        reading = sample.read_seconds / max(1, sample.stored_frames) * clip_frames
        storing = sample.write_seconds * demand.frames
        stored = sample.stored_bytes + ROW.itemsize * sample.stored_frames
        codecs.append(
            CodecEstimate(
                codec=sample.codec,
                nbytes=round(stored * frames + sample.stream_bytes * runs),
                build_seconds=(counts.fill_seconds * pictures + storing) / room.workers + listing,
                build_cpu_seconds=counts.fill_cpu_seconds * pictures + storing + listing,
                clips_per_second=min(room.workers / (reading + CLIP_SECONDS), _MAX_CLIPS_PER_SECOND),
            )
        )
    decoding = counts.decode_seconds / max(1, counts.pictures) * sample.loader_pictures
    return CacheEstimate(
        outlook=demand,
        form=form,
        codecs=tuple(codecs),
        codec=sample.codec,
        reason=f"{sample.codec}: {sample.reason}" if sample.codec else "no frame could be measured",
        decode_clips_per_second=min(room.workers / (decoding + CLIP_SECONDS), _MAX_CLIPS_PER_SECOND)
        if decoding
        else 0.0,
        room=room,
        sample=counts,
        sampled_frames=sample.stored_frames,
    )


def _measure_room(cache: FrameCache, workers: int) -> Room:
    info = cache.info()
    folder = Path(cache.path)
    while not folder.exists():
        folder = folder.parent
    try:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
    except OSError:
        free = None
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Room(workers, cache.options.max_bytes, info.bytes_on_disk, free, memory_bytes, info.num_frames)


# --- in words -----------------------------------------------------------------------------------------


def _make_table(estimate: CacheEstimate) -> list[str]:
    rows = [("", "a frame", "on disk", "CPU to build", "then clips/s, at most")]
    for each in estimate.codecs:
        name = f"{'> ' if each.codec == estimate.codec else '  '}{each.codec}"
        frame_size, size = format_bytes(each.nbytes / max(1, estimate.outlook.frames)), format_bytes(each.nbytes)
        cpu_time, speed = format_seconds(each.build_cpu_seconds), _format_speed(each.clips_per_second)
        rows.append((name, frame_size, size, cpu_time, speed))
    rows.append((f"  {_NO_CACHE}", "", "", "", _format_speed(estimate.decode_clips_per_second)))
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, others, strict=True)]
        lines.append("   ".join([name.ljust(first), *aligned]).rstrip())
    return lines


def _list_remarks(estimate: CacheEstimate) -> list[str]:
    sample, chosen = estimate.sample, estimate.chosen
    measured = f"{format_count(estimate.sampled_frames, 'frame')} of {format_count(sample.clips, 'clip')}"
    workers = format_count(estimate.room.workers, "worker")
    lines = [f"measured on {measured}; clips/s with {workers}, all frames in the cache and its files in memory"]
    lines += _explain_limit(estimate)
    if estimate.room.frames_there:
        cached = format_count(estimate.room.frames_there, "frame")
        lines.append(f"the cache has {cached} already; those that this plan needs are not decoded again")
    if sample.failed:
        clips = sample.failed + sample.clips
        lines.append(f"{sample.failed:,} of {clips:,} sampled clips cannot be decoded: {sample.error}")
    if chosen is None:
        return lines
    lines.append(estimate.reason)
    cpu_time, time = format_seconds(chosen.build_cpu_seconds), format_seconds(chosen.build_seconds)
    lines.append(
        f"to build with {chosen.codec}: about {cpu_time} of CPU time; with {workers} about {time}, longer if other "
        "programs use the processor"
    )
    lack, size = estimate.room.explain_lack(chosen.nbytes), format_bytes(chosen.nbytes)
    lines.append(f"the frames of these clips {f'do not fit: {size} is {lack}' if lack else f'fit: {size}'}")
    if estimate.outlook.varies:
        frames, nbytes = estimate.outlook.frames_at_most, estimate.bytes_at_most
        if frames is None or nbytes is None:
            all_epochs = "their number has no limit, so no cache can hold them all"
        else:
            lack = estimate.room.explain_lack(nbytes)
            fits = f"they do not fit, because this is {lack}" if lack else "they fit too"
            size = f"{format_count(frames, 'frame')}, {format_bytes(nbytes)}"
            all_epochs = f"all epochs together need up to {size}: {fits}"
        lines.append(f"each epoch needs other frames: {all_epochs}")
    return lines


def _explain_limit(estimate: CacheEstimate) -> list[str]:
    """Explain the highest speed of the table, if it occurs there."""
    if not any(each.clips_per_second == _MAX_CLIPS_PER_SECOND for each in estimate.codecs):
        return []
    lines = [
        f"{_format_speed(_MAX_CLIPS_PER_SECOND)} clips/s is the limit of this estimate: to plan and deliver a clip "
        f"takes at least {format_seconds(CLIP_SECONDS)} in Python, in one worker at a time"
    ]
    if estimate.decode_clips_per_second == _MAX_CLIPS_PER_SECOND:
        lines.append(
            "no cache reaches this limit too, so these clips cannot show what a cache gains: estimate a plan of longer "
            "clips"
        )
    return lines


def _format_speed(clips_per_second: float) -> str:
    """Format three digits, the precision of an estimate."""
    return f"{float(f'{clips_per_second:.3g}'):,.12g}"
