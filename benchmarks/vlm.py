"""Frames for a video language model: framefeed against the readers that others use, in turns, in one process.

    make vlm; .venv-vlm/bin/python -m benchmarks.vlm TRAILER.mp4 [--rounds 5] [--json FILE]

Two frames a second of a video of constant rate, at most 64, resized to 364 x 644 and 352 x 640 by a bicubic filter in
all rows: by framefeed's decoder, in the other rows by torchvision's antialiased resize of full pictures, as
transformers does it. CPU seconds and wall of a video, opening included; medians and ends of the ratios other /
framefeed of rounds.
The long video is the same packets again. Each reader gets one thread, but for the row "transformers", which is its
own call with its own defaults.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from framefeed.testing import Coded, put_packets, take_packets

SIZES = ((364, 644), (352, 640))
FPS, MOST = 2, 64


def list_frames(path: str) -> list[int]:
    """Frame numbers of two a second, at most 64, by number: the same for all other readers."""
    index = ff.build_index(path)
    count = min(MOST, int(len(index) / (index.average_fps or FPS) * FPS))
    return np.linspace(0, len(index) - 1, count).round().astype(int).tolist()


def resize(frames: Any, size: tuple[int, int]) -> Any:
    """Resize uint8 [T, C, H, W] as transformers does."""
    from torchvision.transforms.v2 import functional

    return functional.resize(frames, list(size), interpolation=functional.InterpolationMode.BICUBIC, antialias=True)


def load_framefeed(path: str, numbers: list[int], size: tuple[int, int]) -> Any:
    return ff.vlm.load_video(path, fps=FPS, max_frames=MOST, size=size, filter="bicubic").frames


def load_torchcodec(path: str, numbers: list[int], size: tuple[int, int]) -> Any:
    from torchcodec.decoders import VideoDecoder

    return resize(VideoDecoder(path, num_ffmpeg_threads=1).get_frames_at(numbers).data, size)


def load_transformers(path: str, numbers: list[int], size: tuple[int, int]) -> Any:
    import torch
    from transformers.video_utils import load_video

    frames, _ = load_video(path, backend="torchcodec", sample_indices_fn=lambda **_: numbers)
    pictures = torch.as_tensor(frames)
    return resize(pictures.permute(0, 3, 1, 2) if pictures.shape[-1] == 3 else pictures, size)


def load_decord(path: str, numbers: list[int], size: tuple[int, int]) -> Any:
    import decord
    import torch

    frames = decord.VideoReader(path, num_threads=1).get_batch(numbers).asnumpy()
    return resize(torch.from_numpy(frames).permute(0, 3, 1, 2), size)


def load_pyav(path: str, numbers: list[int], size: tuple[int, int]) -> Any:
    import av
    import torch

    wanted = set(numbers)
    with av.open(path) as container:
        container.streams.video[0].thread_type = "NONE"
        pictures = [
            torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
            for number, frame in enumerate(container.decode(video=0))
            if number in wanted
        ]
    return resize(torch.stack(pictures), size)


def write_repeated(path: Path, video: Path, times: int) -> None:
    """Write the packets of a video so many times, one after the other."""
    template, index = video.read_bytes(), ff.build_index(video)
    packets, time_base = take_packets(template)
    span = index.end_pts - int(index.pts[0])
    put_packets(
        path,
        template,
        (
            Coded(each.data, (each.pts or 0) + span * turn, (each.dts or 0) + span * turn, each.is_key, each.duration)
            for turn in range(times)
            for each in packets
        ),
        time_base,
    )


READERS: dict[str, Callable[[str, list[int], tuple[int, int]], Any]] = {
    "framefeed": load_framefeed,
    "TorchCodec, one thread": load_torchcodec,
    "transformers": load_transformers,
    "decord2": load_decord,
    "PyAV": load_pyav,
}


def measure(path: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Measure CPU and wall seconds of each reader, in turns; a warm round first."""
    numbers = list_frames(path)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in READERS}
    for turn in range(rounds + 1):
        for name, load in READERS.items():
            begin = time.process_time(), time.perf_counter()
            frames = load(path, numbers, SIZES[turn % len(SIZES)])
            taken = time.process_time() - begin[0], time.perf_counter() - begin[1]
            assert len(frames) == MOST, (name, len(frames))
            if turn:
                seconds[name].append(taken)
    return seconds


def main() -> None:
    """Measure a video and the same for 1,000 s, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path, help="of constant rate, about a minute of 720p")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="framefeed-vlm-") as folder:
        index = ff.build_index(args.video)
        seconds = float((index.end_pts - int(index.pts[0])) * index.time_base)
        long = Path(folder) / "long.mp4"
        write_repeated(long, args.video, round(1000 / seconds))
        for name, path in ((f"{seconds:.0f} s", args.video), ("1,000 s", long)):
            measured = measure(str(path), args.rounds)
            results[name] = measured
            own = measured["framefeed"]
            print(f"{name}: framefeed {statistics.median(cpu for cpu, _ in own):.2f} s of CPU", flush=True)
            for reader, values in measured.items():
                ratios = [[each[at] / mine[at] for each, mine in zip(values, own, strict=True)] for at in (0, 1)]
                text = "; ".join(
                    f"{unit} {statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})"
                    for unit, each in zip(("CPU", "wall"), ratios, strict=True)
                )
                print(f"  {reader} / framefeed: {text}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
