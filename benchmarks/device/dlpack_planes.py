"""Part 3, planes by DLPack to torch: what must be waited for, on a stream of the consumer's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.device.hardware_decoder import export_planes, make_decoder
from benchmarks.device.media import Clip, open_fast_clip
from benchmarks.device.rows import Trial, require_decoder, require_module

ROUNDS = 200
REHEARSED_ROUNDS = 10
_SLEEP_CYCLES = 50_000_000
"""About 30 ms of a GPU."""
_DECODED_ON = 12
"""Frames that the decoder gives while the consumer is held back: more than it has surfaces to spare."""
# Name: whether the device is waited for before the planes are read; whether the consumer is held back; whether the
# frame is kept until the consumer is done.
ORDERS = {
    "read at once": (False, False, True),
    "read at once, waited before": (True, False, True),
    "read late, frame freed": (True, True, False),
    "read late, frame kept": (True, True, True),
    "read late, frame kept, not waited before": (False, True, True),
}


def measure(trial: Trial) -> None:
    if trial.is_rehearsal:
        clip = open_fast_clip(trial)
        trial.run("read late, frame freed", lambda: _rehearse(clip), device="cpu")
        return
    require_decoder()
    clip = open_fast_clip(trial)
    for number, name in enumerate(ORDERS):
        share = (trial.deadline - time.monotonic()) / (len(ORDERS) - number)
        trial.run(name, lambda name=name, share=share: _race(clip, *ORDERS[name], until=time.monotonic() + share))


def repeat_frames(clip: Clip, context: Any) -> Iterator[tuple[int, Any]]:
    """Yield (ordinal, frame) of the whole clip, over and over."""
    while True:
        yield from clip.decode(context, clip.whole)


def _race(clip: Clip, is_waited: bool, is_held_back: bool, is_kept: bool, until: float) -> dict[str, Any]:
    """Copy luma on a stream of its own, and count the copies that differ from the CPU's planes."""
    torch = require_decoder()
    expected = {ordinal: torch.from_numpy(planes[0]).cuda() for ordinal, planes in clip.reference.items()}
    copies = torch.empty_like(expected[0])
    consumer = torch.cuda.Stream()
    frames = repeat_frames(clip, make_decoder(clip))
    wrong, rounds = 0, 0
    while rounds < ROUNDS and time.monotonic() < until:
        ordinal, frame = next(frames)
        if is_waited:
            torch.cuda.synchronize()
        luma, _ = export_planes(frame)
        with torch.cuda.stream(consumer):
            if is_held_back:
                torch.cuda._sleep(_SLEEP_CYCLES)
            copies.copy_(luma, non_blocking=True)
        kept = (frame, luma) if is_kept else None
        del frame, luma, _
        if is_held_back:
            for _ in range(_DECODED_ON):
                next(frames)
        consumer.synchronize()
        del kept
        wrong += not torch.equal(copies, expected[ordinal])
        rounds += 1
    verdict = "wrong" if wrong else "not seen wrong"
    return {"rounds": rounds, "wrong": wrong, "verdict": verdict}


def _rehearse(clip: Clip) -> dict[str, Any]:
    """The same on CPU tensors: a thread reads planes after their frame was freed and the decoder went on."""
    torch = require_module("torch")
    context = clip.make_cpu_decoder()
    frames = repeat_frames(clip, context)
    wrong = 0
    with ThreadPoolExecutor(1) as consumer:
        for _ in range(REHEARSED_ROUNDS):
            ordinal, frame = next(frames)
            nv12 = frame.reformat(format="nv12")
            luma, chroma = (torch.from_dlpack(plane.__dlpack__()) for plane in nv12.planes)
            go = threading.Event()

            def read(luma: Any = luma, chroma: Any = chroma, go: threading.Event = go) -> tuple[Any, Any]:
                go.wait()
                return luma.clone(), chroma.clone()

            copies = consumer.submit(read)
            del frame, nv12, luma, chroma, read
            for _ in range(_DECODED_ON):
                next(frames)
            go.set()
            pairs = zip(copies.result(), clip.reference[ordinal], strict=True)
            wrong += not all(torch.equal(copy, torch.from_numpy(plane)) for copy, plane in pairs)
    if wrong:
        raise ArithmeticError(f"{wrong} of {REHEARSED_ROUNDS} copies are wrong")
    return {"rounds": REHEARSED_ROUNDS, "wrong": wrong}
