"""Part 2, PyAV's hardware decoding on a bare context fed with our packets: frames, planes, speeds and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.device.hardware_decoder import (
    CONTEXTS,
    FellBack,
    download_planes,
    make_decoder,
    try_context,
)
from benchmarks.device.media import Clip, Difference, Planes, Run, compare, open_clips, open_fast_clip
from benchmarks.device.rows import Trial, refuse_rehearsal, require_decoder
from benchmarks.device.timing import run_threads, time_calls, warm_up

NUM_STARTS = 8
CLIP_FRAMES = 16


def measure(trial: Trial) -> None:
    refuse_rehearsal(trial)
    require_decoder()
    sound = open_fast_clip(trial)
    for name in CONTEXTS:
        trial.run("context", lambda name=name: try_context(sound, name), context=name)
    for clip in open_clips(trial, "plain"):
        trial.run("frames", lambda clip=clip: compare_frames(clip), clip=clip.name, trait=clip.trait)
        trial.run("starts", lambda clip=clip: compare_starts(clip), clip=clip.name)
    warm_up(require_decoder())
    for codec in ("h264", "hevc", "av1"):
        measure_speeds(trial, codec)
    trial.run("memory", lambda: measure_memory(sound), codec="h264")


def compare_frames(clip: Clip) -> dict[str, Any]:
    """Compare all frames with the index and with the CPU's planes."""
    context, index = make_decoder(clip), clip.index
    came: list[int] = []
    gaps: list[Difference] = []
    extra, shifted, formats, times_right = 0, 0, set(), True
    for packet in clip.packets(clip.whole.send):
        for frame in context.decode(packet):
            ordinal = clip.ordinal_of.get(frame.pts)
            if ordinal is None:
                extra += 1
                continue
            planes = download_planes(frame)
            formats.add(frame.sw_format.name)
            came.append(ordinal)
            times_right &= int(index.packets.pts[frame.pts]) == int(index.pts[ordinal])
            gap = compare(planes, clip.reference[ordinal])
            gaps.append(gap)
            shifted += not _is_nearest(clip, planes, ordinal, gap)
    return {
        "frames": len(came),
        "expected": len(index),
        "not_in_index": extra,
        "order_right": came == sorted(came) and len(set(came)) == len(came),
        "times_right": times_right,
        "nearer_to_neighbour": shifted,
        "mean": round(max((gap.mean for gap in gaps), default=0.0), 5),
        "worst": max((gap.worst for gap in gaps), default=0),
        "formats": sorted(formats),
    }


def _is_nearest(clip: Clip, planes: Planes, ordinal: int, gap: Difference) -> bool:
    """Whether the frames before and after differ more than the frame itself."""
    neighbours = [clip.reference[n] for n in (ordinal - 1, ordinal + 1) if n in clip.reference]
    return all(compare(planes, neighbour).mean > gap.mean for neighbour in neighbours)


def compare_starts(clip: Clip) -> dict[str, Any]:
    """Compare single frames decoded from their own start, in one decoder that is flushed between them."""
    chosen = np.random.default_rng(7).choice(len(clip.index), NUM_STARTS, replace=False).tolist()
    context = make_decoder(clip)
    worst, mean, came, sent = 0, 0.0, 0, 0
    for ordinal in chosen:
        for run in clip.plan([ordinal]):
            sent += len(run.send)
            for number, frame in clip.decode(context, run):
                gap = compare(download_planes(frame), clip.reference[number])
                came, worst, mean = came + 1, max(worst, gap.worst), max(mean, gap.mean)
    return {"asked": len(chosen), "came": came, "packets": sent, "mean": round(mean, 5), "worst": worst}


def measure_speeds(trial: Trial, codec: str) -> None:
    """Write the speeds of the 720p clip of a codec."""
    torch = require_decoder()
    wait = torch.cuda.synchronize
    opened: list[Clip] = []
    if not trial.run("speed clip", lambda: opened.append(open_fast_clip(trial, codec)), codec=codec):
        return
    clip = opened[0]

    def show_first(make: Callable[[], Any]) -> dict[str, Any]:
        return {"time": time_calls(lambda: next(clip.decode(make(), clip.whole)), wait)}

    trial.run("make a decoder", lambda: {"time": time_calls(lambda: make_decoder(clip), wait)}, codec=codec)
    try:
        context = make_decoder(clip)
    except Exception as error:  # the rows below would all say so
        trial.add("speed", "failed", codec=codec, reason=str(error)[:200])
        return
    trial.run("flush", lambda: {"time": time_calls(context.flush_buffers, wait)}, codec=codec)
    trial.run("first frame, new decoder", lambda: show_first(lambda: make_decoder(clip)), codec=codec)
    trial.run("first frame, flushed decoder", lambda: show_first(lambda: context), codec=codec)
    for threads in (1, 8):
        labels = {"codec": codec, "threads": threads}
        trial.run("sequential", lambda n=threads: _measure_rate(clip, n, lambda seed: [clip.whole]), **labels)
        trial.run(
            "16 random frames",
            lambda n=threads: _measure_rate(clip, n, lambda seed: _plan_random(clip, seed)),
            **labels,
        )


def _measure_rate(clip: Clip, threads: int, plan: Callable[[int], list[Run]]) -> dict[str, Any]:
    """Decode in threads, each with a decoder of its own that is kept; give frames a second."""
    torch = require_decoder()
    contexts = [make_decoder(clip) for _ in range(threads)]
    plans = [plan(seed) for seed in range(threads)]
    delivered = sum(len(run.ordinals) for runs in plans for run in runs)

    def decode(number: int) -> None:
        for run in plans[number]:
            for _, frame in clip.decode(contexts[number], run):
                if frame.format.name != "cuda":
                    raise FellBack(f"the frame is {frame.format.name} in memory, not on the device")

    took = time_calls(lambda: run_threads(decode, threads), torch.cuda.synchronize)
    return {"time": took, "frames_per_second": round(delivered / took["ms"] * 1e3, 1)}


def _plan_random(clip: Clip, seed: int) -> list[Run]:
    return clip.plan(np.random.default_rng(seed).choice(len(clip.index), CLIP_FRAMES, replace=False).tolist())


def measure_memory(clip: Clip) -> dict[str, Any]:
    """Measure the device memory of open decoders, and what stays after many were made and freed."""
    torch = require_decoder()
    next(clip.decode(make_decoder(clip), clip.whole))  # libraries and contexts, once a process
    before = _count_free(torch)
    kept: list[Any] = []
    values: dict[str, Any] = {}
    for count in (1, 8, 16):
        while len(kept) < count:
            kept.append(make_decoder(clip))
            next(clip.decode(kept[-1], clip.whole))
        values[f"mb_of_{count}"] = round((before - _count_free(torch)) / 1e6, 1)
    kept.clear()
    values["mb_left_after_16"] = round((before - _count_free(torch)) / 1e6, 1)
    begin = time.perf_counter()
    for _ in range(100):
        next(clip.decode(make_decoder(clip), clip.whole))
    values["seconds_of_100"] = round(time.perf_counter() - begin, 2)
    values["mb_left_after_100"] = round((before - _count_free(torch)) / 1e6, 1)
    return values


def _count_free(torch: Any) -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])
