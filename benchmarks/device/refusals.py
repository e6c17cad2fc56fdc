"""What hardware should refuse, and what is cut or damaged: where it fails, with which text, and what the CPU says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.device.media import Clip
from benchmarks.device.rows import Trial, require_module

_MOST_TEXTS = 3


def measure_refusals(trial: Trial, make_decoder: Callable[[Clip], Any], sound: Clip, clips: Iterable[Clip]) -> None:
    """Write a row per clip: by hardware, by the CPU, and whether a sound clip still decodes in the same process."""
    for clip in clips:
        values = lambda clip=clip: {  # noqa: E731
            "hardware": follow(clip, make_decoder),
            "cpu": follow(clip, lambda clip: clip.make_cpu_decoder()),
            "next_clip_frames": sum(1 for _ in sound.decode(make_decoder(sound), sound.whole)),
        }
        trial.run(clip.kind, values, clip=clip.name, trait=clip.trait)


def follow(clip: Clip, make_decoder: Callable[[Clip], Any]) -> dict[str, Any]:
    """Decode a clip from first to last; note errors by call and packet, corrupt frames and the log."""
    found: dict[str, Any] = {"frames": 0, "corrupt": [], "errors": [], "log": []}
    with _catching_log() as log:
        call = "make"
        try:
            context = make_decoder(clip)
            for number, packet in enumerate(clip.packets(clip.whole.send)):
                call = f"packet {number}" if packet is not None else "drain"
                try:
                    frames = context.decode(packet)
                except (OSError, ValueError, NotImplementedError, MemoryError) as error:
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
