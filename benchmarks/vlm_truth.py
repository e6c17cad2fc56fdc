"""What second a reader tells for a picture, and when that picture is really on the screen.

    .venv-vlm/bin/python -m benchmarks.vlm_truth [FILES] [--media ../shared/media] [--readers hf-pyav ...] [--out TSV]

In .venv-vlm (make vlm), beside which are installed:

    .venv-vlm/bin/pip install torchcodec==0.17.0 decord2==3.4.0 opencv-python-headless==5.0.0.93

Readers are those of transformers (hf-*, by `load_video` with the indices of Qwen3-VL's processor), of qwen-vl-utils
(qwen-*), and framefeed; each is asked for 2 frames a second, at most 64. Told is index / fps, which processors write
into prompts, for the picture at that place of what came. True is the time in which the picture that came is on the
screen: it is compared with all frames of the file, decoded by PyAV in order, and of frames that look alike the one is
taken that is on the screen nearest to what was told. Both count from the first frame. Off is how far the told second
lies outside of that time: 0 inside, negative before it. A reader is a process of its own, with a deadline for a file.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FPS, MOST = 2.0, 64
SIDE = 96
DEADLINE_SECONDS = 90
TOLERANCE = 0.001
ALIKE = 1.02
"""Frames whose difference is at most so many times the least are one picture: readers convert colours differently."""

FILES = """
    napari/mitosis.webm napari/command-palette.webm napari/tracks_tail_length.webm napari/auto-fill-labels.webm
    napari/draw_component.webm marimo/docs-chart-builder-table.mp4 marimo/docs-ai-completion-preview.mp4
    ts-ebml/chrome57.webm tika/testWMV.wmv file-type/fixture.mpg file-type/fixture2.3gp file-type/fixture.mxf
    file-type/fixture.flv file-type/fixture-null.webm androidx-media/sample_edit_list.mp4
    androidx-media/iibbibb_editlist_videoonly.mp4 androidx-media/sample_edit_list_only_preroll_sync_sample.mp4
    androidx-media/pixel-motion-photo-2-hevc-tracks.mp4 androidx-media/sample_android_slow_motion.mp4
    androidx-media/roadtrip-vp92-10bit.webm androidx-media/fragmented_captions.mp4 androidx-media/sample.avi
    androidx-media/sd-hls0000000000.ts ExoPlayer/video_1.mp4 ExoPlayer/video_big_buck_bunny.mp4
    Track-Anything/test-sample2.mp4 jcodec/cat_avc_clip.mp4 moviepy/no_duration.webm mmaction2/part_0.mp4
    mmaction2/test.avi opencv-doc/Megamind.avi opencv-doc/tree.avi pliers/park.mp4
    streamio-ffmpeg/awesome_movie.mov gradio/video_sample.avi interactive-examples/stream-of-water.webm
    webrtc-samples/mixed-content.webm Cutie/example.mp4 WebGL/npot-video.mp4
"""
"""Under video/ of the media: variable rates, edit lists, headers without counts, late starts; the last two plain."""

Frames = Any
Told = list[float]


def choose_frames(metadata: Any, **_: Any) -> Any:
    """Choose as Qwen3-VL's processor does."""
    import transformers

    return transformers.Qwen3VLVideoProcessor(max_frames=MOST).sample_frames(metadata, fps=FPS)


def read_by_transformers(backend: str) -> Callable[[str], tuple[Frames, Told]]:
    """Make a reader of transformers."""

    def read(path: str) -> tuple[Frames, Told]:
        from transformers.video_utils import load_video

        frames, metadata = load_video(path, backend=backend, sample_indices_fn=choose_frames)
        return frames, [int(index) / metadata.fps for index in metadata.frames_indices]

    return read


def read_by_qwen(backend: str) -> Callable[[str], tuple[Frames, Told]]:
    """Make a reader of qwen-vl-utils, without its fallback to what torchvision no longer has."""

    def read(path: str) -> tuple[Frames, Told]:
        from qwen_vl_utils import vision_process

        reader = vision_process.VIDEO_READER_BACKENDS[backend]
        frames, metadata, _ = reader({"video": path, "fps": FPS, "max_frames": MOST})
        return frames, [int(index) / metadata["fps"] for index in metadata["frames_indices"]]

    return read


def read_by_framefeed(path: str) -> tuple[Frames, Told]:
    """Read by framefeed, told by the dict that it gives to processors."""
    import framefeed as ff

    frames, metadata = ff.vlm.load_video(path, fps=FPS, max_frames=MOST)
    return frames, [index / metadata["fps"] for index in metadata["frames_indices"]]


READERS: dict[str, Callable[[str], tuple[Frames, Told]]] = {
    **{f"hf-{backend}": read_by_transformers(backend) for backend in ("torchcodec", "pyav", "decord", "opencv")},
    **{f"qwen-{backend}": read_by_qwen(backend) for backend in ("torchcodec", "decord")},
    "framefeed": read_by_framefeed,
}


def shrink(picture: np.ndarray) -> np.ndarray:
    """Make a small picture by means of boxes, the same from every size."""
    return np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.BOX))


def shrink_all(frames: Frames) -> np.ndarray:
    """Make small pictures of [T, C, H, W] or [T, H, W, C]."""
    array = np.asarray(frames)
    if array.shape[1] == 3 and array.shape[-1] != 3:
        array = array.transpose(0, 2, 3, 1)
    return np.stack([shrink(np.ascontiguousarray(picture)) for picture in array])


def decode_in_order(path: str) -> tuple[np.ndarray, list[tuple[float, float]], float]:
    """Decode all: small pictures, when each is on the screen, counted from the first, and when that is."""
    import av

    pictures, times, ends = [], [], []
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for frame in container.decode(stream):
            time = frame.time if frame.time is not None else (times[-1] if times else 0.0)
            length = float(frame.duration * frame.time_base) if frame.duration else 0.0
            pictures.append(shrink(frame.to_ndarray(format="rgb24")))
            times.append(float(time))
            ends.append(float(time) + length)
    # Decoders give frames in the order in which they are shown. Where libavformat guesses times of an AVI file with
    # B-frames, it mixes them up: the k-th frame has the k-th of the times.
    times.sort()
    start = times[0]
    last = max(ends[-1], times[-1] + (times[-1] - start) / max(len(times) - 1, 1))
    spans = [(time - start, end - start) for time, end in zip(times, [*times[1:], last], strict=True)]
    return np.stack(pictures), spans, start


def find_distances(pictures: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Give the mean squared difference of each picture to each true frame, turned as the reader turned it."""
    flat = truth.reshape(len(truth), -1).astype(np.float32)
    squares = (flat**2).mean(axis=1)

    def compare(turned: np.ndarray) -> np.ndarray:
        mine = turned.reshape(len(turned), -1).astype(np.float32)
        return (mine**2).mean(axis=1)[:, None] + squares[None] - 2 * mine @ flat.T / flat.shape[1]

    found = [compare(np.rot90(pictures, turns, axes=(1, 2))) for turns in range(4)]
    return min(found, key=lambda distances: float(distances.min(axis=1).mean()))


def measure_off(told: float, span: tuple[float, float]) -> float:
    """Say how far a second lies outside a span; a millisecond is nothing, which containers round to."""
    begin, end = span
    if told < begin - TOLERANCE:
        return told - begin
    return told - end if told >= end + TOLERANCE else 0.0


def list_offs(pictures: np.ndarray, told: Told, truth: np.ndarray, spans: list[tuple[float, float]]) -> list[float]:
    """Say of each picture that came how far its told second lies outside of its time on the screen."""
    offs = []
    for row, second in zip(find_distances(pictures, truth), told, strict=False):
        alike = np.flatnonzero(row <= max(float(row.min()), 0.0) * ALIKE + 0.05)
        offs.append(min((measure_off(second, spans[index]) for index in alike), key=abs))
    return offs


def compare(pictures: np.ndarray, told: Told, truth: np.ndarray, spans: list[tuple[float, float]]) -> dict[str, Any]:
    """Compare what a reader told with what is true."""
    offs = list_offs(pictures, told, truth, spans)
    wrong = sum(off != 0 for off in offs)
    worst = max(offs, key=abs)
    mean = statistics.mean(map(abs, offs))
    return {"came": len(pictures), "asked": len(told), "wrong": wrong, "mean": round(mean, 4), "worst": round(worst, 4)}


def serve(reader: str, folder: str, paths: list[str]) -> None:
    """Read files one after the other; say when each begins and ends. Other processes may crash or hang here."""
    import torch

    torch.set_num_threads(1)
    for path in paths:
        print(json.dumps({"begins": path}), flush=True)
        try:
            frames, told = READERS[reader](path)
            name = f"{reader}-{abs(hash(path))}.npz"
            np.savez(Path(folder) / name, pictures=shrink_all(frames), told=np.asarray(told, float))
            print(json.dumps({"file": path, "kept": name}), flush=True)
        except Exception as error:  # any failure of a reader is a row
            text = re.sub(r"\[[0-9:]{8}\] ", "", str(error).replace(path, Path(path).name)).strip().splitlines()
            print(json.dumps({"file": path, "error": f"{type(error).__name__}: {text[0] if text else ''}"}), flush=True)


def listen(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Give what a process says, and None where it says nothing until the deadline."""
    lines: queue.Queue[str | None] = queue.Queue()

    def pass_on() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=pass_on, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=DEADLINE_SECONDS)
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        if line.startswith("{"):
            yield json.loads(line)


def run_reader(reader: str, paths: list[str], folder: str) -> dict[str, dict[str, Any]]:
    """Run a reader over all files, begun again behind a file at which it crashed or hung."""
    results: dict[str, dict[str, Any]] = {}
    left = list(paths)
    while left:
        command = [sys.executable, "-m", "benchmarks.vlm_truth", "--serve", reader, "--folder", folder, *left]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TORCHCODEC_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            now = None
            for said in listen(process):
                if said is None:
                    process.kill()
                    if now is not None:
                        results[now] = {"error": f"no answer within {DEADLINE_SECONDS} s"}
                    break
                now = said.get("begins", now)
                if "file" in said:
                    results[said["file"]] = said
            process.wait()
        if now is None:
            raise RuntimeError(f"{reader} did not start: {' '.join(command[:6])}")
        results.setdefault(now, {"error": f"the process ended with {process.returncode}"})
        left = [path for path in left if path not in results]
    return results


def describe(row: dict[str, Any]) -> str:
    """Write a row for the terminal."""
    if "error" in row:
        return f"  {row['reader']:16} {row['error'][:90]}"
    came = f"{row['came']} of {row['asked']}" if row["came"] != row["asked"] else str(row["came"])
    off = f"mean {row['mean']:7.3f} s, worst {row['worst']:+8.3f} s"
    return f"  {row['reader']:16} {came:>9} frames, {row['wrong']:3} told wrong, {off}"


def main() -> None:
    """Compare readers over files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="videos; without any, a selection of the media")
    parser.add_argument("--media", default="../shared/media", help="the folder of the selection")
    parser.add_argument(
        "--readers", nargs="*", choices=READERS, default=[name for name in READERS if name != "framefeed"]
    )
    parser.add_argument("--out", help="write a table of tabs")
    parser.add_argument("--serve", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder, options.files)
        return
    root = Path(options.media) / "video"
    paths = options.files or [str(root / name) for name in FILES.split()]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        results = {reader: run_reader(reader, paths, folder) for reader in options.readers}
        for path in paths:
            truth, spans, start = decode_in_order(path)
            name = "/".join(Path(path).parts[-2:])
            print(f"{name}: {len(spans)} frames, {spans[-1][1]:.2f} s, the first at {start:.3f} s", flush=True)
            for reader in options.readers:
                row: dict[str, Any] = {
                    "file": name,
                    "frames": len(spans),
                    "seconds": round(spans[-1][1], 3),
                    "reader": reader,
                }
                result = results[reader][path]
                if "error" in result:
                    row["error"] = result["error"]
                else:
                    with np.load(Path(folder) / result["kept"]) as kept:
                        row |= compare(kept["pictures"], kept["told"].tolist(), truth, spans)
                rows.append(row)
                print(describe(row), flush=True)
    print("\nreader            files read   told right   frames told wrong   mean     worst")
    for reader in options.readers:
        mine = [row for row in rows if row["reader"] == reader]
        read = [row for row in mine if "error" not in row]
        if not read:
            print(f"{reader:16}  0 of {len(mine)}")
            continue
        right = sum(not row["wrong"] and row["came"] == row["asked"] for row in read)
        wrong, frames = sum(row["wrong"] for row in read), sum(row["came"] for row in read)
        mean = statistics.mean(row["mean"] for row in read)
        worst = max((row["worst"] for row in read), key=abs)
        off = f"{mean:7.3f} s {worst:+8.3f} s"
        print(f"{reader:16}  {len(read):3} of {len(mine):3}   {right:6}       {wrong:5} of {frames:5}     {off}")
    if options.out:
        columns = ("file", "frames", "seconds", "reader", "came", "asked", "wrong", "mean", "worst", "error")
        lines = ["\t".join(columns), *("\t".join(str(row.get(column, "")) for column in columns) for row in rows)]
        Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
