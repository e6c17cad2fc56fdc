"""estimate: what a cache of a plan would take and give, from a sample of its clips."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framefeed._checks import check_integer, expected
from framefeed._units import readable_bytes
from framefeed.cache.choosing import FRAME_OVERHEAD, PIECE_OVERHEAD, kept_codec, memory_bytes
from framefeed.cache.codecs import FrameCodec, codec_for, codec_named, exact_codecs
from framefeed.cache.codecs.choice import CodecFigures, Conditions, choose_codec
from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.keeper import AUTO
from framefeed.cache.keys import Form
from framefeed.cache.outlook import Outlook, outlook
from framefeed.cache.sampling import Decoded, Sampler, converting_seconds, measured
from framefeed.cache.wanted import Gathering
from framefeed.decode.decoder import Decoder
from framefeed.decode.planes import PlaneLayout
from framefeed.decode.registry import as_decoder
from framefeed.media.limits import Limits
from framefeed.parallel import thread_budget
from framefeed.parallel.shortage import resource_exhausted
from framefeed.plan.epoch import EpochPlan

SAMPLED_CLIPS = 24
CLIP_SECONDS = 240e-6
"""Of planning, looking up and delivering or storing a clip, in Python, so that threads do not share it (two x86-64
cores)."""
_MOST_CLIPS = 1 / CLIP_SECONDS
_GROUP_BYTES = 256 << 20
_NO_CACHE = "no cache"


@dataclass(frozen=True, slots=True)
class CodecEstimate:
    """What a cache would take and give with one codec.

    Attributes:
        codec: Its label.
        nbytes: Of the files.
        build_seconds: To decode and store all frames, where nothing else uses the processor.
        build_cpu_seconds: Of the processor, all threads together, for the same.
        clips_per_second: Read afterwards, files in memory.
    """

    codec: str
    nbytes: int
    build_seconds: float
    build_cpu_seconds: float
    clips_per_second: float


@dataclass(frozen=True, slots=True)
class Room:
    """What there is for a cache.

    Attributes:
        workers: Threads.
        max_bytes: Of its files, or None.
        bytes_there: Of files that it has.
        free_bytes: Of its disk, or None where unknown.
        memory_bytes: Of the machine.
        frames_there: Frames that it has.
    """

    workers: int
    max_bytes: int | None = None
    bytes_there: int = 0
    free_bytes: int | None = None
    memory_bytes: int = 0
    frames_there: int = 0

    @property
    def most_bytes(self) -> int | None:
        """What the cache can take at all, or None where there is no bound."""
        bounds = [] if self.max_bytes is None else [self.max_bytes]
        bounds += [] if self.free_bytes is None else [self.free_bytes + self.bytes_there]
        return min(bounds, default=None)

    def lacks(self, nbytes: int) -> str:
        """Say why there is no room for so much; empty where there is."""
        if self.max_bytes is not None and nbytes > self.max_bytes:
            return f"more than the {readable_bytes(self.max_bytes)} that it may take"
        if self.most_bytes is not None and nbytes > self.most_bytes:
            return f"more than the {readable_bytes(self.most_bytes)} that the disk has for it"
        return ""


@dataclass(frozen=True, slots=True)
class CacheEstimate:
    """What a cache of a plan would take and give; ``str()`` is a short table.

    Attributes:
        outlook: What the plan wants.
        form: In which frames are stored.
        codecs: One entry a codec that was tried; empty where no sampled clip could be decoded.
        codec: Label of the one to use: the cache's, or with codec="auto" the best for this plan.
        reason: Why.
        decode_clips_per_second: Without a cache.
        room: What there is.
        sample: What was decoded for it.
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
        """The codec to use; None where nothing is known."""
        return next((each for each in self.codecs if each.codec == self.codec), None)

    @property
    def fits(self) -> bool:
        """Whether the cache would hold all that the plan wants; where epochs differ, of all of them together."""
        if self.chosen is None:
            return True
        return self.bytes_at_most is not None and not self.room.lacks(self.bytes_at_most)

    @property
    def bytes_at_most(self) -> int | None:
        """Of the files once further epochs want nothing new, with the codec to use; None where there is no such end."""
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
    """Estimate what ``build`` would take and what the cache would give: a few clips are decoded, nothing is stored.

    A cache with codec="auto" chooses for itself, in the same way; with ``FrameCache(path, codec=estimate.codec)`` it
    follows the estimate. Where the cache holds such frames, with an exact codec, it is that one.

    Example: ``print(ff.cache.estimate(plan, cache))``

    Args:
        plan: At the first epoch.
        cache: That would be filled.
        workers: Threads; "auto" takes the thread budget.
        backend: Name of a decoder, or a decoder.
        epochs: How many epochs from the plan's on.
        clips: How many clips are decoded, about.
        limits: What a file may claim before anything is allocated for it; None is ``Limits()``.

    Raises:
        UsageError: The arguments do not fit, or this decoder cannot give what is to be stored.
        CacheError: The cache's folder cannot be used.
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
    """Multiply what was measured by what is wanted; pure.

    Args:
        found: What is wanted.
        form: In which frames are stored.
        sample: What decoding took, and what each codec did with the frames.
        room: What there is.
        reason: Why there is no choice; empty where there is.
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
        return "", "nothing could be measured"
    first = figures[0]
    if len(figures) == 1:
        return first.codec, f"{first.codec}: the codec that was asked for"
    raw_bytes = round(first.raw_bytes / first.num_frames * num_frames)
    choice = choose_codec(figures, Conditions(raw_bytes, room.most_bytes, room.memory_bytes))
    return choice.codec, choice.reason


def _candidates(cache: FrameCache, layout: PlaneLayout) -> tuple[list[FrameCodec], str]:
    """The codec that was asked for, or that such frames have already, and why; else all that are exact and here."""
    if cache.options.codec != AUTO:
        return [codec_for(codec_named(cache.options.codec), layout)], "the codec that was asked for"
    kept = kept_codec(layout, cache.info().kinds)
    if kept is not None:
        return [kept], "this cache stores such frames with it already"
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
    what = "in the plan's form" if of.form == "output" else "as whole pictures"
    clips, frames = _counted(found.clips, "clip"), _counted(found.frames, "different frame")
    return f"{clips} {'wants' if found.clips == 1 else 'want'} {frames}, stored {what}:"


def _table(of: CacheEstimate) -> list[str]:
    rows = [("", "a frame", "on disk", "CPU to build", "then clips/s")]
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
    what = f"{_counted(of.sampled_frames, 'frame')} of {_counted(done.clips, 'clip')}"
    workers = _counted(of.room.workers, "worker")
    lines = [f"measured on {what}; clips/s with {workers}, all frames in the cache and its files in memory"]
    if of.room.frames_there:
        held = _counted(of.room.frames_there, "frame")
        lines.append(f"the cache holds {held} already: frames of this plan among them need no time to build")
    if done.failed:
        lines.append(f"{done.failed:,} of {done.failed + done.clips:,} sampled clips cannot be decoded: {done.error}")
    if chosen is None:
        return lines
    lacks, size = of.room.lacks(chosen.nbytes), readable_bytes(chosen.nbytes)
    lines += [of.reason, _building(of, chosen)]
    lines.append(
        f"all frames of these clips do not fit: {size} is {lacks}"
        if lacks
        else f"all frames of these clips fit: {size}"
    )
    return [*lines, f"but each epoch wants other frames: {_all(of)}"] if found.varies else lines


def _building(of: CacheEstimate, chosen: CodecEstimate) -> str:
    workers = _counted(of.room.workers, "worker")
    return (
        f"to build with {chosen.codec}: about {_duration(chosen.build_cpu_seconds)} of CPU time; with {workers} about "
        f"{_duration(chosen.build_seconds)}, longer if other programs use the processor"
    )


def _all(of: CacheEstimate) -> str:
    """What all epochs together want, and whether it fits."""
    frames, nbytes = of.outlook.frames_at_most, of.bytes_at_most
    if frames is None or nbytes is None:
        return "their number has no limit, so no cache can hold them all"
    lacks = of.room.lacks(nbytes)
    size = f"all epochs together up to {frames:,} frames, {readable_bytes(nbytes)}"
    return f"{size}, which does not fit: that is {lacks}" if lacks else f"{size}, which fits too"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _speed(clips_per_second: float) -> str:
    """Write three digits: an estimate is not worth more."""
    return f"{float(f'{clips_per_second:.3g}'):,.12g}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
