"""Calls of decord's VideoReader, and a description of each result that both sides can be compared by."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.testing import ClipSpec, read_stamps
from tests.corpus import clip_file, corpus_file

Call = Callable[[Any, Path], Any]
"""Takes decord, or what stands for it, and the path of a clip."""

CLIPS = {
    "base.mp4": ClipSpec(num_frames=60, gop=12, b_frames=2),
    "no_b.mp4": ClipSpec(num_frames=40, gop=12, b_frames=0),
    "base.mkv": ClipSpec(num_frames=40, gop=12, b_frames=2, start_seconds=1.0),
    "vp9.webm": ClipSpec(num_frames=30, gop=10, codec="libvpx-vp9"),
    "one.mp4": ClipSpec(num_frames=1),
    "vfr.mp4": ClipSpec(num_frames=5, pts=(0, 33, 71, 200, 230), time_base=Fraction(1, 1000), b_frames=0),
    "turned.mp4": ClipSpec(num_frames=10, rotation=90),
    "mirrored.mp4": ClipSpec(num_frames=10, mirrored=True),
}
# Files of the corpus in which decord gives other frames, or none.
HARD = ("late_key.mp4", "hidden_vp8.webm", "fields.mkv", "flipped_bytes.mp4", "intra_refresh.mp4", "closed_gop.ts")


def path_of(name: str) -> Path:
    return clip_file(f"decord_{name}", CLIPS[name]) if name in CLIPS else corpus_file(name)


def pixels_of(frames: Any) -> Any:
    return frames.asnumpy()


def stamps(frames: Any) -> Any:
    """Read the numbers that frames show: one, or a list."""
    pixels = pixels_of(frames)
    assert pixels.dtype == np.uint8
    batch = pixels.reshape(-1, *pixels.shape[-3:]).transpose(0, 3, 1, 2)
    numbers = read_stamps(batch)
    return numbers if pixels.ndim == 4 else numbers[0]


def rounded(times: Any) -> list[Any]:
    return np.round(np.asarray(times, dtype=np.float64), 6).tolist()  # type: ignore[no-any-return]


def shape(frames: Any) -> list[Any]:
    return [*pixels_of(frames).shape, str(pixels_of(frames).dtype)]


def go_on(prepare: Callable[[Any], object]) -> Call:
    """Make a call, then read the next frame."""

    def call(decord: Any, path: Path) -> Any:
        reader = decord.VideoReader(str(path))
        prepare(reader)
        return stamps(reader.next())

    return call


def on(use: Callable[[Any], Any], **options: Any) -> Call:
    """Use a new reader."""
    return lambda decord, path: use(decord.VideoReader(str(path), **options))


def read_to_the_end(reader: Any) -> int:
    count = 0
    try:
        while True:
            reader.next()
            count += 1
    except StopIteration:
        return count


def read_file(decord: Any, path: Path) -> Any:
    with path.open("rb") as file:
        reader = decord.VideoReader(file)
    return [len(reader), stamps(reader[7])]


CALLS: dict[str, Call] = {
    "len": on(len),
    "[7]": on(lambda r: [shape(r[7]), stamps(r[7])]),
    "[-1]": on(lambda r: stamps(r[-1])),
    "[numpy 3]": on(lambda r: stamps(r[np.int64(3)])),
    "[True]": on(lambda r: stamps(r[True])),
    "[len]": on(lambda r: r[len(r)]),
    "[-len-1]": on(lambda r: r[-len(r) - 1]),
    "[1.5]": on(lambda r: r[1.5]),
    "['a']": on(lambda r: r["a"]),
    "[None]": on(lambda r: r[None]),
    "[[1, 2]]": on(lambda r: stamps(r[[1, 2]])),
    "[3:7]": on(lambda r: stamps(r[3:7])),
    "[::-10]": on(lambda r: stamps(r[::-10])),
    "[5:1]": on(lambda r: shape(r[5:1])),
    "[-3:]": on(lambda r: stamps(r[-3:])),
    "[::0]": on(lambda r: r[::0]),
    "list(reader)": on(lambda r: [stamps(each) for each in r]),
    "next(reader)": on(lambda r: next(r)),
    "reversed": on(lambda r: stamps(next(reversed(r)))),
    "next to the end": on(read_to_the_end),
    "next after the end": on(lambda r: [read_to_the_end(r), r.next()]),
    "batch": on(lambda r: [shape(r.get_batch([0, 5, -1, 5])), stamps(r.get_batch([0, 5, -1, 5]))]),
    "batch of a tuple": on(lambda r: stamps(r.get_batch((4, 2)))),
    "batch of a range": on(lambda r: stamps(r.get_batch(range(0, 30, 7)))),
    "batch of an array": on(lambda r: stamps(r.get_batch(np.arange(3, dtype=np.uint8)))),
    "batch of fractions": on(lambda r: stamps(r.get_batch(np.linspace(0, len(r) - 1, 4)))),
    "batch in two dimensions": on(lambda r: stamps(r.get_batch([[1, 2], [3, 4]]))),
    "batch of nothing": on(lambda r: shape(r.get_batch([]))),
    "batch of a mask": on(lambda r: stamps(r.get_batch([True, False]))),
    "batch of one number": on(lambda r: r.get_batch(3)),
    "batch past the end": on(lambda r: r.get_batch([0, len(r)])),
    "batch before the start": on(lambda r: r.get_batch([-len(r) - 1])),
    "batch of text": on(lambda r: r.get_batch("a")),
    "batch of None": on(lambda r: r.get_batch(None)),
    "batch of lists": on(lambda r: r.get_batch([[1], [1, 2]])),
    "get_avg_fps": on(lambda r: round(r.get_avg_fps(), 6)),
    "get_key_indices": on(lambda r: r.get_key_indices()),
    "times": on(lambda r: rounded(r.get_frame_timestamp([0, 1, 2, -1]))),
    "times of one": on(lambda r: [rounded(r.get_frame_timestamp(-1)), str(r.get_frame_timestamp(0).dtype)]),
    "times of none": on(lambda r: [*r.get_frame_timestamp([]).shape, str(r.get_frame_timestamp([]).dtype)]),
    "times past the end": on(lambda r: r.get_frame_timestamp([len(r)])),
    "times of a slice": on(lambda r: rounded(r.get_frame_timestamp(slice(0, 2)))),
    "seek(0)": go_on(lambda r: r.seek(0)),
    "seek(1)": go_on(lambda r: r.seek(1)),
    "seek(12)": go_on(lambda r: r.seek(12)),
    "seek(17)": go_on(lambda r: r.seek(17)),
    "seek(24)": go_on(lambda r: r.seek(24)),
    "seek(len - 1)": go_on(lambda r: r.seek(len(r) - 1)),
    "seek(17) from 31": go_on(lambda r: [r.get_batch([30]), r.seek(17)]),
    "seek(48) from 31": go_on(lambda r: [r.get_batch([30]), r.seek(48)]),
    "seek(1) twice": go_on(lambda r: [r.seek(1), r.seek(1)]),
    "seek(1), seek(5)": go_on(lambda r: [r.seek(1), r.seek(5)]),
    "seek(5), seek(1)": go_on(lambda r: [r.seek(5), r.seek(1)]),
    "seek(1), next() twice, seek(5)": go_on(lambda r: [r.seek(1), r.next(), r.next(), r.seek(5)]),
    "seek(5), skip_frames(4), seek(7)": go_on(lambda r: [r.seek(5), r.skip_frames(4), r.seek(7)]),
    "next to the end from seek(17)": on(lambda r: [r.seek(17), read_to_the_end(r)][1]),
    "next to the end from seek(17), from 31": on(lambda r: [r.get_batch([30]), r.seek(17), read_to_the_end(r)][2]),
    "seek(-1)": go_on(lambda r: r.seek(-1)),
    "seek(len)": go_on(lambda r: r.seek(len(r))),
    "seek(1.5)": go_on(lambda r: r.seek(1.5)),
    "seek_accurate(17)": go_on(lambda r: r.seek_accurate(17)),
    "seek_accurate(-1)": go_on(lambda r: r.seek_accurate(-1)),
    "seek_accurate(len)": go_on(lambda r: r.seek_accurate(len(r))),
    "skip_frames()": go_on(lambda r: r.skip_frames()),
    "skip_frames(5)": go_on(lambda r: r.skip_frames(5)),
    "skip_frames(1000)": go_on(lambda r: r.skip_frames(1000)),
    "skip_frames(0)": go_on(lambda r: r.skip_frames(0)),
    "next, skip_frames(5)": go_on(lambda r: [r.next(), r.skip_frames(5)]),
    "next after [20]": go_on(lambda r: r[20]),
    "next after [-1]": go_on(lambda r: r[-1]),
    "next after [10:13]": go_on(lambda r: r[10:13]),
    "next after batch 3, 4": go_on(lambda r: r.get_batch([3, 4])),
    "next after batch 5, 4, 3": go_on(lambda r: r.get_batch([5, 4, 3])),
    "next after batch 2, 1, 2": go_on(lambda r: r.get_batch([2, 1, 2])),
    "next after batch 7, 9, 8, 8": go_on(lambda r: r.get_batch([7, 9, 8, 8])),
    "next after batch 0, 5, -1, 5": go_on(lambda r: r.get_batch([0, 5, -1, 5])),
    "next after an empty batch": go_on(lambda r: [r.seek_accurate(10), r.get_batch([])]),
    "next after times": go_on(lambda r: [r.seek_accurate(10), r.get_frame_timestamp([20])]),
    "next after a part of an iteration": go_on(lambda r: next(iter(r))),
    "width": on(lambda r: shape(r[0]), width=64),
    "height": on(lambda r: shape(r[0]), height=48),
    "width and height": on(lambda r: shape(r.get_batch([0, 1])), width=63, height=47),
    "larger": on(lambda r: shape(r[0]), width=256, height=200),
    "width of 32": on(lambda r: shape(r[0]), width=32, height=24),
    "pixels": on(lambda r: r[5].asnumpy()[40:48, 60:70].tobytes().hex()),
    "pixels, smaller": on(lambda r: r[5].asnumpy().tobytes().hex(), width=40, height=30),
    "no size": on(lambda r: shape(r[0]), width=0, height=-7),
    "width of a float": on(lambda r: shape(r[0]), width=64.0, height=48),
    "num_threads": on(lambda r: stamps(r.get_batch([20, 3])), num_threads=2),
    "num_threads=-1": on(lambda r: stamps(r[3]), num_threads=-1),
    "fault_tol": on(lambda r: stamps(r[3]), fault_tol=0.5),
    "a file object": read_file,
    "a file in memory": lambda decord, path: len(decord.VideoReader(io.BytesIO(path.read_bytes()))),
    "bytes": lambda decord, path: len(decord.VideoReader(path.read_bytes())),
    "a Path": lambda decord, path: len(decord.VideoReader(path)),
    "None": lambda decord, path: decord.VideoReader(None),
    "no such file": lambda decord, path: decord.VideoReader(str(path.with_name("none.mp4"))),
    "a folder": lambda decord, path: decord.VideoReader(str(path.parent)),
    "no path": lambda decord, path: decord.VideoReader(""),
    "no bytes": lambda decord, path: decord.VideoReader(io.BytesIO(b"")),
    "text": lambda decord, path: decord.VideoReader(io.BytesIO(b"hello")),
    "ctx=cpu(3)": lambda decord, path: stamps(decord.VideoReader(str(path), decord.cpu(3))[3]),
    "ctx=gpu(0)": lambda decord, path: decord.VideoReader(str(path), decord.gpu(0)),
    "ctx=0": lambda decord, path: decord.VideoReader(str(path), 0),
    "names of devices": lambda decord, path: [str(decord.cpu()), str(decord.gpu(1)), decord.cpu(0) == decord.cpu(0)],
    "a bridge by another name": lambda decord, path: decord.bridge.set_bridge("numpy"),
    "a bridge by no name": lambda decord, path: decord.bridge.set_bridge(None),
    "fields of an array": on(lambda r: [list(r[0].shape), r[0].dtype == "uint8", str(r[0].ctx)]),
    "asnumpy can be written": on(lambda r: [r[0].asnumpy().flags.writeable, r[0].asnumpy().flags.c_contiguous]),
    "[i] of an array": on(lambda r: list(r[0][0].shape)),
    "len of an array": on(lambda r: len(r[0])),
    "== of arrays": on(lambda r: np.shape(r[0] == r[0])),
}
# What is called with every clip; the rest with the first alone.
EVERYWHERE = (
    "len",
    "[7]",
    "[-1]",
    "list(reader)",
    "next to the end",
    "batch",
    "get_avg_fps",
    "get_key_indices",
    "times",
    "seek(1)",
    "seek(17)",
    "width",
)
# Of damaged frames decord gives pictures or errors, from one run to the next.
STEADY = ("len", "get_avg_fps", "get_key_indices", "times")


def list_pairs() -> list[tuple[str, str]]:
    """List clips and calls."""
    clips = [*CLIPS, *HARD]
    chosen = {clips[0]: tuple(CALLS), "flipped_bytes.mp4": STEADY}
    return [(clip, call) for clip in clips for call in chosen.get(clip, EVERYWHERE)]


def describe(decord: Any, clip: str, call: str) -> Any:
    """Make a call, and give its result as JSON has it, or the kinds of its error."""
    try:
        result = CALLS[call](decord, path_of(clip))
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        return {"error": kinds[:-2]}  # not BaseException and object
    return list(result) if isinstance(result, tuple) else result
