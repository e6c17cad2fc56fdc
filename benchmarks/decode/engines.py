"""Row "engines": each engine through its backend against itself called directly, 16 sparse frames of full size a call.

Both keep the file open. Direct calls are written as the library's own documentation does it, one thread, RGB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from framefeed.bench import (
    NUM_FRAMES,
    SEED,
    BenchVideo,
    Comparison,
    Contender,
    Findings,
    Rounds,
    Row,
    Run,
    Timings,
    compare_times,
)
from framefeed.decode import Pixels, VideoDecoder

Read = Callable[[Sequence[int]], Any]


def open_opencv(video: BenchVideo) -> Read:
    import cv2

    capture = cv2.VideoCapture(str(video.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    stream = video.index.stream

    def read(ordinals: Sequence[int]) -> Pixels:
        out = np.empty((len(ordinals), stream.height, stream.width, 3), np.uint8)
        for number, ordinal in enumerate(ordinals):
            capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
            cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB, dst=out[number])
        return out

    return read


def open_torchcodec(video: BenchVideo, seek_mode: str = "exact") -> Read:
    from torchcodec.decoders import VideoDecoder as TorchCodecDecoder

    decoder = TorchCodecDecoder(str(video.path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode=seek_mode)
    return lambda ordinals: decoder.get_frames_at(list(ordinals)).data.numpy()


def open_decord(video: BenchVideo) -> Read:
    import decord

    reader = decord.VideoReader(str(video.path), num_threads=1)
    return lambda ordinals: reader.get_batch(list(ordinals)).asnumpy()


def open_dali(video: BenchVideo) -> Read:
    from nvidia import dali
    from nvidia.dali import fn, types

    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipeline:
        data = fn.external_source(name="data", dtype=types.UINT8, ndim=1, no_copy=True)
        frames = fn.external_source(name="frames", dtype=types.INT32, ndim=1)
        pipeline.set_outputs(fn.decoders.video(data, frames=frames, device="cpu", pad_mode="none"))
    pipeline.build()
    encoded = np.fromfile(video.path, np.uint8)

    def read(ordinals: Sequence[int]) -> Pixels:
        pipeline.feed_input("data", [encoded])
        pipeline.feed_input("frames", [np.array(ordinals, np.int32)])
        return np.array(pipeline.run()[0].at(0))  # its own memory is valid until the next run

    return read


def open_backend(name: str, video: BenchVideo) -> Read:
    """Open the engine's backend, index known."""
    decoder = VideoDecoder(video.path, backend=name, dimension_order="NHWC", frame_index=video.index)
    return lambda ordinals: decoder.get_frames_at(ordinals).data


DIRECT: dict[str, Callable[[BenchVideo], Read]] = {
    "opencv": open_opencv,
    "torchcodec": open_torchcodec,
    "torchcodec-approximate": partial(open_torchcodec, seek_mode="approximate"),
    "decord": open_decord,
    "dali": open_dali,
}


def engines_row(h264: BenchVideo, vp9: BenchVideo, rounds: Rounds) -> Row:
    """Time of an engine called directly, in times of the same call through framefeed; DALI reads VP9, others H.264."""
    rng = np.random.Generator(np.random.Philox(key=SEED))
    calls = [sorted(rng.choice(len(h264), NUM_FRAMES, replace=False).tolist()) for _ in range(rounds.pairs)]
    plays = {f"{name}, {way}": (name, way) for name in DIRECT for way in ("directly", "through framefeed")}

    def open_play(name: str, way: str) -> Read:
        video = vp9 if name == "dali" else h264
        return DIRECT[name](video) if way == "directly" else open_backend(name, video)

    def enter(key: str) -> Contender:
        name, way = plays[key]

        def begin() -> Run:
            read = open_play(name, way)
            return lambda number: read(calls[number])

        return Contender(key, begin, library=name, amount=NUM_FRAMES)

    def check(contender: Contender) -> list[str] | None:
        name, way = plays[contender.name]
        if way == "directly":
            return None
        same = np.array_equal(open_play(name, way)(calls[0]), open_play(name, "directly")(calls[0]))
        return [] if same else ["other pixels than the engine called directly"]

    def conclude(timings: Timings) -> Findings:
        what = "time of the engine called directly, in times of the same call through framefeed"
        return Findings(
            [
                Comparison(name, f"{name}: {what}", figures)
                for name in DIRECT
                if (figures := compare_times(timings, f"{name}, through framefeed", f"{name}, directly"))
            ]
        )

    title = "each engine through framefeed against itself: 16 frames of 720p a call, file kept open"
    return Row("engines", title, list(map(enter, plays)), conclude, unit="frames", check=check)
