"""Frames for a video language model: framefeed against the readers that others use, in turns, in one process.

    make vlm; .venv-vlm/bin/python -m benchmarks.vlm TRAILER.mp4 [--epoch FOLDER] [--rounds 5] [--json FILE]

Two frames a second of a video of constant rate, at most 64, resized to 364 x 644 and 352 x 640 by a bicubic filter in
all rows: by framefeed's decoder, in the other rows by torchvision's antialiased resize of full pictures, as
transformers does it. CPU seconds and wall of a video, opening included; medians and ends of the ratios other /
framefeed of rounds. With ``--epoch``, an epoch of the first 100 H.264 files of a folder, of any container and at most
3 MB, that both can read, by two workers too: `ClipLoader` over a plan, scanning and indexing in it, against torch's
`DataLoader` over a dataset that calls transformers' `load_video` and the resize.
The long video is the same packets again. Each reader gets one thread, but for the row "transformers", which is its
own call with its own defaults.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
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
MOST_VIDEOS = 100


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


class Videos:
    """A dataset as people write it, over transformers' own functions."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Any:
        import torch
        from transformers.video_utils import load_video

        torch.set_num_threads(1)
        path = self.paths[number]

        def sample(metadata: Any, **_: Any) -> Any:
            length = metadata.total_num_frames
            count = max(1, min(MOST, int(length / metadata.fps * FPS)))
            return np.linspace(0, length - 1, count).round().astype(int).tolist()

        frames, metadata = load_video(path, backend="torchcodec", sample_indices_fn=sample)
        pictures = torch.as_tensor(frames)
        return resize(pictures.permute(0, 3, 1, 2) if pictures.shape[-1] == 3 else pictures, SIZES[0]), metadata


def run_framefeed(paths: list[str]) -> int:
    catalog = ff.scan(paths, progress=False, workers=2)
    rule = ff.WholeVideo(FPS, max_frames=MOST)
    plan = ff.plan_clips(catalog, rule, size=SIZES[0], filter="bicubic", unequal=True, seed=0)
    with ff.ClipLoader(plan, batch_size=4, workers=2) as loader:
        return sum(len(ff.vlm.metadata(batch)) for batch in loader)


def run_dataset(paths: list[str]) -> int:
    from torch.utils.data import DataLoader

    loader = DataLoader(Videos(paths), batch_size=4, shuffle=True, num_workers=2, collate_fn=list)
    return sum(len(batch) for batch in loader)


def list_videos(folder: Path) -> list[str]:
    """List the first `MOST_VIDEOS` H.264 files of a folder that both can read; none is there twice."""
    paths: dict[bytes, str] = {}
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file() and path.stat().st_size < 3_000_000 and ff.probe(path).codec == "h264":
                Videos([str(path)])[0]
                ff.vlm.load_video(path, fps=FPS, max_frames=2)
                paths.setdefault(hashlib.sha256(path.read_bytes()).digest(), str(path))
        except Exception as error:
            print(f"left out: {path.name}: {type(error).__name__}", flush=True)
        if len(paths) == MOST_VIDEOS:
            break
    print(f"{len(paths)} videos", flush=True)
    return list(paths.values())


def measure_epoch(folder: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Measure CPU seconds, with those of workers, and wall of an epoch, in turns."""
    paths = list_videos(folder)
    runs = {"framefeed": run_framefeed, "DataLoader and transformers": run_dataset}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begin = sum(os.times()[:4]), time.perf_counter()
            assert run(paths) == len(paths)
            seconds[name].append((sum(os.times()[:4]) - begin[0], time.perf_counter() - begin[1]))
    return seconds


def show(name: str, measured: dict[str, list[tuple[float, float]]]) -> None:
    """Print ratios of CPU and wall to framefeed."""
    own = measured["framefeed"]
    print(f"{name}: framefeed {statistics.median(cpu for cpu, _ in own):.2f} s of CPU", flush=True)
    for reader, values in measured.items():
        ratios = [[each[at] / mine[at] for each, mine in zip(values, own, strict=True)] for at in (0, 1)]
        text = "; ".join(
            f"{unit} {statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})"
            for unit, each in zip(("CPU", "wall"), ratios, strict=True)
        )
        print(f"  {reader} / framefeed: {text}", flush=True)


READERS: dict[str, Callable[[str, list[int], tuple[int, int]], Any]] = {
    "framefeed": load_framefeed,
    "TorchCodec, one thread": load_torchcodec,
    "transformers": load_transformers,
    "decord2": load_decord,
    "PyAV": load_pyav,
}


def measure(path: str, rounds: int, readers: list[str]) -> dict[str, list[tuple[float, float]]]:
    """Measure CPU and wall seconds of each reader, in turns; a warm round first."""
    numbers = list_frames(path)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    for turn in range(rounds + 1):
        for name in readers:
            load = READERS[name]
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
    parser.add_argument("--epoch", type=Path, help="folder of videos")
    parser.add_argument("--only", choices=("short", "long", "epoch"))
    parser.add_argument("--readers", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="framefeed-vlm-") as folder:
        index = ff.build_index(args.video)
        seconds = float((index.end_pts - int(index.pts[0])) * index.time_base)
        long = Path(folder) / "long.mp4"
        write_repeated(long, args.video, round(1000 / seconds))
        videos = {"short": (f"{seconds:.0f} s", args.video), "long": ("1,000 s", long)}
        for kind, (name, path) in videos.items():
            if args.only not in (None, kind):
                continue
            measured = measure(str(path), args.rounds, args.readers)
            results[name] = measured
            show(name, measured)
        if args.epoch is not None and args.only in (None, "epoch"):
            results["epoch"] = measure_epoch(args.epoch, args.rounds)
            show("an epoch", results["epoch"])
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
