"""estimate: predict size, build time and speed of a cache for a plan, from a sample of its clips.

What an epoch will find in a cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from framefeed._checks import check_integer, expected
from framefeed._units import counted, readable_bytes
from framefeed.cache._choosing import FRAME_OVERHEAD, PIECE_OVERHEAD, kept_codec, memory_bytes
from framefeed.cache._demand import Gathering, Outlook, outlook, scattered
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache._state import AUTO
from framefeed.cache.codecs._auto import CodecFigures, Conditions, choose_codec
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import codec_for, codec_named, exact_codecs
from framefeed.cache.prefill._sampling import Decoded, Sampler, converting_seconds, measured
from framefeed.decode import Decoder, PlaneLayout, as_decoder
from framefeed.errors import FrameNotFound, MediaError, TimeUnavailable
from framefeed.media import Limits, MediaSource
from framefeed.parallel import resource_exhausted, thread_budget
from framefeed.plan import EpochPlan

LOOKED_UP_CLIPS = 512
"""Clips of an epoch that are looked up at most, in about a second: the share is then known to 5 % or better."""


def share_found(plan: EpochPlan, cache: FrameCache, inner: Decoder) -> float:
    """Look up which share of the frames of an epoch a cache has, from 0 to 1; nothing is decoded.

    Args:
        plan: At the epoch. In a long one, clips from all over it are looked up.
        cache: That has some of its frames.
        inner: The decoder that makes the frames which the cache does not have.

    Raises:
        ResourceExhausted: Something ran out.
    """
    count = min(len(plan), LOOKED_UP_CLIPS)
    decoder = cache.decoder(inner, cache.form_for(plan))
    wanted = found = 0
    for number in scattered(count):
        position = number * len(plan) // count
        try:
            request, index = plan[position], plan.catalog.frame_index(plan.row_at(position))
            source = MediaSource.of(plan.catalog.source(plan.row_at(position)))
            lacks = decoder.lacks(source, index, request.storable, request.output)
        except (FrameNotFound, TimeUnavailable, MediaError, OSError):
            continue  # The clip fails in the epoch too, and delivers no frames.
        wanted += len(lacks)
        found += len(lacks) - int(lacks.sum())
    return found / max(1, wanted)


SAMPLED_CLIPS = 24
CLIP_SECONDS = 240e-6
"""Of planning, looking up and delivering or storing a clip, in Python, so that threads do not share it (two x86-64
cores)."""
_MOST_CLIPS = 1 / CLIP_SECONDS
_GROUP_BYTES = 256 << 20
_NO_CACHE = "no cache"
_ASKED = "the codec that was given"


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
        share_there: Share of the plan's frames that are among them, from 0 to 1.
    """

    workers: int
    max_bytes: int | None = None
    bytes_there: int = 0
    free_bytes: int | None = None
    memory_bytes: int = 0
    frames_there: int = 0
    share_there: float = 0.0

    @property
    def most_bytes(self) -> int | None:
        """Largest possible size of the cache, or None if there is no limit."""
        bounds = [] if self.max_bytes is None else [self.max_bytes]
        bounds += [] if self.free_bytes is None else [self.free_bytes + self.bytes_there]
        return min(bounds, default=None)

    def lacks(self, nbytes: int) -> str:
        """Say why a cache of this size does not fit; empty if it fits."""
        if self.max_bytes is not None and nbytes > self.max_bytes:
            return f"more than max_bytes, {readable_bytes(self.max_bytes)}"
        if self.most_bytes is not None and nbytes > self.most_bytes:
            return f"more than the {readable_bytes(self.most_bytes)} that the disk has left for the cache"
        return ""


@dataclass(frozen=True, slots=True)
class CacheEstimate:
    """Estimate of a cache for a plan; ``print`` shows it as a short table.

    Attributes:
        outlook: Clips and frames of the plan.
        form: Form in which frames are stored: "output" or "planes".
        codecs: One entry for each codec that was measured; empty if no sampled clip could be decoded.
        codec: Label of the codec to use: the cache's own, or with codec="auto" the best for this plan.
        reason: Why this codec.
        decode_clips_per_second: Speed of decoding without a cache.
        room: Memory, disk space and threads.
        sample: Counts and times of the decoded sample.
        sampled_frames: Frames that each codec stored and read.
    """

    outlook: Outlook
    form: Form
    codecs: tuple[CodecEstimate, ...]
    codec: str
    reason: str
    decode_clips_per_second: float
    room: Room
    sample: Decoded
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
        return self.bytes_at_most is not None and not self.room.lacks(self.bytes_at_most)

    @property
    def bytes_at_most(self) -> int | None:
        """Size of a cache that has the frames of all epochs, with the codec to use; None if there is no limit."""
        if self.chosen is None:
            return None
        found, nbytes = self.outlook, self.chosen.nbytes
        if not found.varies:
            return nbytes
        return None if found.frames_at_most is None else round(nbytes / max(1, found.frames) * found.frames_at_most)

    def __str__(self) -> str:
        return "\n".join([_wanted(self), *_table(self), *_remarks(self)])


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
    """Estimate the size, build time and speed of a cache; a few clips are decoded, and no frame is stored.

    A cache with codec="auto" chooses its codec in the same way, but measures again. To use the codec of the estimate,
    make ``FrameCache(path, codec=estimate.codec)``. If the cache already has such frames with an exact codec, the
    estimate is for that codec.

    Example: ``print(ff.cache.estimate(plan, cache))``

    Args:
        plan: The plan at its first epoch.
        cache: The cache to be filled.
        workers: Threads; "auto" uses the thread budget.
        backend: Name of a decoder, or a decoder.
        epochs: Number of epochs to store, from the plan's epoch on.
        clips: About how many clips are decoded.
        limits: Largest sizes that a file may have, checked before memory is allocated; None is ``Limits()``.

    Raises:
        UsageError: An argument is wrong, or the decoder cannot give frames in the form to be stored.
        CacheError: The folder of the cache cannot be used.
        ResourceExhausted: Memory ran out.
    """
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    if not isinstance(cache, FrameCache):
        raise expected("cache", "an ff.FrameCache", cache)
    check_integer("epochs", epochs, least=1)
    check_integer("clips", clips, least=1)
    if workers != "auto":
        check_integer("workers", workers, least=0)
    inner = as_decoder(backend, limits)
    cache.decoder_for(plan, inner, epochs)
    form = cache.form_for(plan)
    found = outlook(plan, epochs, Gathering(form == "output", _GROUP_BYTES))
    room = _room(cache, thread_budget().threads if workers == "auto" else max(1, workers))
    sampler = Sampler(plan, inner, form)
    try:
        if room.frames_there and len(plan):
            ends = {0, epochs - 1}
            share = sum(share_found(plan.with_epoch(plan.epoch + number), cache, inner) for number in ends) / len(ends)
            room = replace(room, share_there=share)
        figures, reason = _measured(sampler, cache, clips if len(plan) else 0)
    except MemoryError as error:
        raise resource_exhausted("memory", cache.path, "estimate") from error
    return estimated(found, form, (sampler.decoded, figures), room, reason)


def _measured(sampler: Sampler, cache: FrameCache, clips: int) -> tuple[list[CodecFigures], str]:
    """Decode clips and store their frames with each codec in question; give figures, and why there is no choice."""
    if clips:
        sampler.take(clips)
    frames = sampler.frames
    if not frames:
        return [], ""
    candidates, reason = _candidates(cache, frames[0].layout)
    figures = [measured(codec, frames) for codec in candidates]
    sampler.decoded.convert_seconds = converting_seconds(frames)
    return figures, reason


def estimated(
    found: Outlook, form: Form, sample: tuple[Decoded, Sequence[CodecFigures]], room: Room, reason: str = ""
) -> CacheEstimate:
    """Scale the measurements of a sample up to a plan; pure.

    Args:
        found: Clips and frames of the plan.
        form: Form in which frames are stored.
        sample: Times of decoding, and the measurements of each codec.
        room: Memory, disk space and threads.
        reason: Why only one codec comes into question; empty if there is a choice.
    """
    decoded, figures = sample
    clip_frames = found.clip_frames / max(1, found.clips)
    decoding = found.pictures * decoded.fill_seconds / max(1, decoded.pictures)
    decoding_cpu = found.pictures * decoded.fill_cpu_seconds / max(1, decoded.pictures)
    planning = found.clips * CLIP_SECONDS
    codecs = []
    for each in figures:
        a_frame = each.stored_bytes / each.num_frames + FRAME_OVERHEAD
        reading = (each.read_seconds / each.num_frames + decoded.convert_seconds) * clip_frames
        storing = each.write_seconds / each.num_frames * found.frames
        codecs.append(
            CodecEstimate(
                codec=each.codec,
                nbytes=round(found.frames * a_frame + found.pieces * PIECE_OVERHEAD),
                build_seconds=(decoding + storing) / room.workers + planning,
                build_cpu_seconds=decoding_cpu + storing + planning,
                clips_per_second=min(room.workers / (reading + CLIP_SECONDS), _MOST_CLIPS),
            )
        )
    codec, why = _choice(figures, found.frames, room)
    a_clip = decoded.decode_seconds / max(1, decoded.clip_frames) * clip_frames
    return CacheEstimate(
        outlook=found,
        form=form,
        codecs=tuple(codecs),
        codec=codec,
        reason=f"{codec}: {reason}" if reason and codec else why,
        decode_clips_per_second=min(room.workers / (a_clip + CLIP_SECONDS), _MOST_CLIPS) if a_clip else 0.0,
        room=room,
        sample=decoded,
        sampled_frames=figures[0].num_frames if figures else 0,
    )


def _choice(figures: Sequence[CodecFigures], num_frames: int, room: Room) -> tuple[str, str]:
    """Label of the codec to use, and why."""
    if not figures:
        return "", "no frame could be measured"
    first = figures[0]
    if len(figures) == 1:
        return first.codec, f"{first.codec}: {_ASKED}"
    raw_bytes = round(first.raw_bytes / first.num_frames * num_frames)
    choice = choose_codec(figures, Conditions(raw_bytes, room.most_bytes, room.memory_bytes))
    return choice.codec, choice.reason


def _candidates(cache: FrameCache, layout: PlaneLayout) -> tuple[list[FrameCodec], str]:
    """The codec that was asked for, or that such frames have already, and why; else all that are exact and here."""
    if cache.options.codec != AUTO:
        return [codec_for(codec_named(cache.options.codec), layout)], _ASKED
    kept = kept_codec(layout, cache.info().kinds)
    if kept is not None:
        return [kept], "the cache already has such frames with this codec"
    return exact_codecs({layout}), ""


def _room(cache: FrameCache, workers: int) -> Room:
    info = cache.info()
    folder = Path(cache.path)
    while not folder.exists():
        folder = folder.parent
    try:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
    except OSError:
        free = None
    return Room(workers, cache.options.max_bytes, info.bytes_on_disk, free, memory_bytes(), info.num_frames)


# --- in words -----------------------------------------------------------------------------------------


def _wanted(of: CacheEstimate) -> str:
    found = of.outlook
    what = "after crop and resize" if of.form == "output" else "as whole pictures"
    clips, frames = counted(found.clips, "clip"), counted(found.frames, "different frame")
    return f"{clips} {'needs' if found.clips == 1 else 'need'} {frames}, stored {what}:"


def _table(of: CacheEstimate) -> list[str]:
    rows = [("", "a frame", "on disk", "CPU to build", "then clips/s, at most")]
    for each in of.codecs:
        a_frame = readable_bytes(each.nbytes / max(1, of.outlook.frames))
        mark = "> " if each.codec == of.codec else "  "
        speed = _speed(each.clips_per_second)
        rows.append((mark + each.codec, a_frame, readable_bytes(each.nbytes), _duration(each.build_cpu_seconds), speed))
    rows.append((f"  {_NO_CACHE}", "", "", "", _speed(of.decode_clips_per_second)))
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, others, strict=True)]
        lines.append("   ".join([name.ljust(first), *aligned]).rstrip())
    return lines


def _remarks(of: CacheEstimate) -> list[str]:
    found, done, chosen = of.outlook, of.sample, of.chosen
    what = f"{counted(of.sampled_frames, 'frame')} of {counted(done.clips, 'clip')}"
    workers = counted(of.room.workers, "worker")
    lines = [f"measured on {what}; clips/s with {workers}, all frames in the cache and its files in memory"]
    lines += _limit(of)
    if of.room.frames_there:
        held = counted(of.room.frames_there, "frame")
        lines.append(f"the cache has {held} already; those that this plan needs are not decoded again")
    if done.failed:
        lines.append(f"{done.failed:,} of {done.failed + done.clips:,} sampled clips cannot be decoded: {done.error}")
    if chosen is None:
        return lines
    lacks, size = of.room.lacks(chosen.nbytes), readable_bytes(chosen.nbytes)
    fits = f"do not fit: {size} is {lacks}" if lacks else f"fit: {size}"
    lines += [of.reason, _building(of, chosen), f"the frames of these clips {fits}"]
    return [*lines, f"each epoch needs other frames: {_all(of)}"] if found.varies else lines


def _limit(of: CacheEstimate) -> list[str]:
    """Explain the highest speed that is shown, if it is shown."""
    if not any(each.clips_per_second == _MOST_CLIPS for each in of.codecs):
        return []
    lines = [
        f"{_speed(_MOST_CLIPS)} clips/s is the limit of this estimate: to plan and deliver a clip takes at least "
        f"{1e3 * CLIP_SECONDS:.2f} ms in Python, in one worker at a time"
    ]
    if of.decode_clips_per_second == _MOST_CLIPS:
        lines.append(
            "no cache reaches this limit too, so these clips cannot show what a cache gains: estimate a plan of longer "
            "clips"
        )
    return lines


def _building(of: CacheEstimate, chosen: CodecEstimate) -> str:
    if of.room.share_there == 1:
        return "all frames of these clips are in the cache already: a build has nothing to store"
    workers = counted(of.room.workers, "worker")
    return (
        f"to build with {chosen.codec}: about {_duration(chosen.build_cpu_seconds)} of CPU time; with {workers} about "
        f"{_duration(chosen.build_seconds)}, longer if other programs use the processor"
    )


def _all(of: CacheEstimate) -> str:
    """Say how many frames all epochs together need, and whether they fit."""
    frames, nbytes = of.outlook.frames_at_most, of.bytes_at_most
    if frames is None or nbytes is None:
        return "their number has no limit, so no cache can hold them all"
    lacks = of.room.lacks(nbytes)
    size = f"all epochs together need up to {counted(frames, 'frame')}, {readable_bytes(nbytes)}"
    return f"{size}: they do not fit, because this is {lacks}" if lacks else f"{size}: they fit too"


def _speed(clips_per_second: float) -> str:
    """Write three digits: an estimate is not worth more."""
    return f"{float(f'{clips_per_second:.3g}'):,.12g}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
