"""Part 2, its limits: clips that hardware should refuse, cut and damaged ones, and how many frames may be held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.device.hardware_decoder import download_planes, make_decoder
from benchmarks.device.media import Clip, compare, open_clips, open_fast_clip
from benchmarks.device.rows import Trial, refuse_rehearsal, require_decoder, require_module

_MOST_TEXTS = 3
MOST_HELD = 48
HELD_OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"hwaccel_flags": "unsafe_output"},
    {"extra_hw_frames": "8"},
    {"extra_hw_frames": "16"},
    {"hwaccel_flags": "unsafe_output", "extra_hw_frames": "16"},
)
_CHANGED = 2.0
"""Mean difference from which a held frame counts as overwritten."""


def measure(trial: Trial) -> None:
    refuse_rehearsal(trial)
    require_decoder()
    sound = open_fast_clip(trial)
    sound_frames = count_frames(sound)  # finds torch's context with a clip that is decoded
    trial.run("sound clip", lambda: {"frames": sound_frames}, clip=sound.name)
    for clip in open_clips(trial, "refused", "cut", "damaged"):
        trial.run(clip.kind, lambda clip=clip: compare_failures(clip, sound), clip=clip.name, trait=clip.trait)
    for options in HELD_OPTIONS:
        trial.run("held", lambda options=options: hold_frames(sound, options), options=options)


def compare_failures(clip: Clip, sound: Clip) -> dict[str, Any]:
    """Decode by hardware and by the CPU, then a sound clip in the same process."""
    return {
        "hardware": follow(clip, make_decoder),
        "cpu": follow(clip, lambda clip: clip.make_cpu_decoder()),
        "sound_frames_after": count_frames(sound),
    }


def count_frames(clip: Clip) -> int:
    """Count the frames that the hardware decodes."""
    return sum(1 for _ in clip.decode(make_decoder(clip), clip.whole))


def follow(clip: Clip, make_decoder: Callable[[Clip], Any]) -> dict[str, Any]:
    """Decode a clip from first to last; note errors by call and packet, corrupt frames and the log."""
    found: dict[str, Any] = {"frames": 0, "corrupt": [], "errors": [], "log": []}
    av = require_module("av")
    with _catching_log() as log:
        call = "make"
        try:
            context = make_decoder(clip)
            for number, packet in enumerate(clip.packets(clip.whole.send)):
                call = f"packet {number}" if packet is not None else "drain"
                try:
                    frames = context.decode(packet)
                except av.FFmpegError as error:
                    _note(found["errors"], f"{call}: {type(error).__name__}: {error}"[:160])
                    continue
                found["frames"] += len(frames)
                found["corrupt"] += [frame.pts for frame in frames if frame.is_corrupt]
                found["format"] = frames[0].format.name if frames else found.get("format")
        except Exception as error:  # what a decoder raises when it is made is the result
            _note(found["errors"], f"{call}: {type(error).__name__}: {error}"[:160])
    for _, name, message in log:
        _note(found["log"], f"{name}: {message.strip()}"[:120])
    return found


def _note(texts: list[str], text: str) -> None:
    if len(texts) < _MOST_TEXTS and text not in texts:
        texts.append(text)


@contextmanager
def _catching_log() -> Iterator[list[tuple[int, str, str]]]:
    """Catch libav's errors and warnings of this thread and of others."""
    av = require_module("av")
    before = av.logging.get_level()
    av.logging.set_level(av.logging.WARNING)
    try:
        with av.logging.Capture(local=False) as caught:
            yield caught
    finally:
        av.logging.set_level(before)


def hold_frames(clip: Clip, options: dict[str, str]) -> dict[str, Any]:
    """Keep every frame that comes, until the decoder fails; then look which were overwritten."""
    context = make_decoder(clip, options)
    held: list[tuple[int, Any]] = []
    reason = ""
    try:
        for ordinal, frame in clip.decode(context, clip.whole):
            held.append((ordinal, frame))
            if len(held) == MOST_HELD:
                break
    except require_module("av").FFmpegError as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    gaps = [compare(download_planes(frame), clip.reference[ordinal]).mean for ordinal, frame in held]
    return {"held": len(held), "overwritten": sum(gap > _CHANGED for gap in gaps), "failed_with": reason}
