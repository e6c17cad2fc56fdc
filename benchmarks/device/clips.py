"""Media of the trial: clips of each kind that a hardware decoder meets, and JPEGs, made by PyAV's encoders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from benchmarks.scene import Scene
from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets, write_clip

LIST = "media.json"
"""Beside the media: what each is for."""
NUM_JPEGS = 60
_SMALL = {"height": 240, "width": 320}
_OPEN_GOP = "open-gop=1:keyint=28:min-keyint=28:scenecut=0:bframes=3:b-adapt=0"
_PYRAMID = "bframes=7:b-adapt=0:b-pyramid=normal:ref=4:scenecut=0:keyint=50"
_FASTSTART = {"movflags": "+faststart"}
_VARIABLE_STEPS = (1, 1, 3, 2, 7)
_SPEED_FRAMES = 144


@dataclass(frozen=True)
class Recipe:
    """One clip.

    Attributes:
        name: Of the file.
        codec: Canonical name.
        kind: "plain"; "refused" by the hardware, as we suppose; "cut" short; "damaged" by bit errors.
        write: Writes the file.
        is_fast: Whether speed is measured with it.
        trait: What is special about it.
    """

    name: str
    codec: str
    kind: str
    write: Callable[[Path], Any]
    trait: str = ""
    is_fast: bool = False


def _of(spec: ClipSpec) -> Callable[[Path], Any]:
    return lambda path: write_clip(path, spec)


def _spec(codec: str = "libx264", **options: Any) -> ClipSpec:
    return ClipSpec(**{**_SMALL, "codec": codec, **options})


def _without_b_frames(codec: str, **options: Any) -> ClipSpec:
    return _spec(codec, b_frames=None, **options)


def _variable_rate(num_frames: int = 100) -> ClipSpec:
    steps = [_VARIABLE_STEPS[number % len(_VARIABLE_STEPS)] for number in range(num_frames - 1)]
    return _spec(num_frames=num_frames, pts=tuple(np.cumsum([0, *steps]).tolist()))


def _write_edit_list(path: Path) -> None:
    """Write a file that begins in the middle of a GOP: the frames before it are in the file, and are not shown."""
    clip = clip_bytes(_spec(), "mp4")
    packets, time_base = take_packets(clip)
    start = round(1.5 / time_base)
    first = max(
        n for n, packet in enumerate(packets) if packet.is_key and packet.pts is not None and packet.pts <= start
    )
    put_packets(path, clip, _shift(packets[first:], -start), time_base)


def _shift(packets: Iterable[Coded], ticks: int) -> list[Coded]:
    return [
        Coded(packet.data, packet.pts + ticks, packet.dts + ticks, packet.is_key, packet.duration)  # type: ignore[operator]
        for packet in packets
    ]


def _write_cut(path: Path) -> None:
    data = write_clip(path, _spec(container_options=_FASTSTART)).read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])


def _write_bit_errors(path: Path) -> None:
    """Invert 40 bytes of the last two thirds, which hold nothing but coded pictures."""
    data = np.frombuffer(write_clip(path, _spec(container_options=_FASTSTART)).read_bytes(), np.uint8).copy()
    offsets = np.random.default_rng(0).choice(np.arange(len(data) // 3, len(data)), 40, replace=False)
    data[offsets] ^= 0xFF
    path.write_bytes(data.tobytes())


def _scene_spec(codec: str, crf: int, **options: Any) -> ClipSpec:
    return ClipSpec(
        num_frames=_SPEED_FRAMES,
        height=720,
        width=1280,
        fps=30,
        gop=48,
        codec=codec,
        codec_options={"crf": str(crf)},
        draw=Scene(720, 1280).draw,
        **options,
    )


RECIPES: tuple[Recipe, ...] = (
    Recipe("speed_h264.mp4", "h264", "plain", _of(_scene_spec("libx264", 30)), "720p", is_fast=True),
    Recipe("speed_hevc.mp4", "hevc", "plain", _of(_scene_spec("libx265", 32)), "720p", is_fast=True),
    Recipe("speed_av1.mp4", "av1", "plain", _of(_scene_spec("libsvtav1", 55, b_frames=None)), "720p", is_fast=True),
    Recipe("h264_b.mp4", "h264", "plain", _of(_spec()), "B-frames"),
    Recipe(
        "h264_pyramid.mp4", "h264", "plain",
        _of(_spec(gop=None, b_frames=None, codec_options={"x264-params": _PYRAMID})), "pyramid of B-frames",
    ),
    Recipe(
        "h264_open_gop.mp4", "h264", "plain",
        _of(_spec(gop=None, b_frames=None, codec_options={"x264-params": _OPEN_GOP})), "open GOP",
    ),
    Recipe("h264_edit_list.mp4", "h264", "plain", _write_edit_list, "edit list"),
    Recipe("h264_vfr.mp4", "h264", "plain", _of(_variable_rate()), "variable rate"),
    Recipe("hevc_b.mp4", "hevc", "plain", _of(_spec("libx265")), "B-frames"),
    Recipe("hevc_10.mp4", "hevc", "plain", _of(_spec("libx265", pixel_format="yuv420p10le")), "10 bit"),
    Recipe(
        "hevc_open_gop.mp4", "hevc", "plain",
        _of(_spec("libx265", gop=None, b_frames=None, codec_options={"x265-params": _OPEN_GOP})), "open GOP",
    ),
    Recipe("av1_8.mp4", "av1", "plain", _of(_without_b_frames("libsvtav1")), "hidden frames"),
    Recipe("av1_10.mp4", "av1", "plain", _of(_without_b_frames("libsvtav1", pixel_format="yuv420p10le")), "10 bit"),
    Recipe("av1_odd.mp4", "av1", "plain", _of(_without_b_frames("libsvtav1", height=241, width=321)), "odd size"),
    Recipe("vp9_8.webm", "vp9", "plain", _of(_without_b_frames("libvpx-vp9")), "8 bit"),
    Recipe(
        "vp9_hidden.webm", "vp9", "plain",
        _of(
            _without_b_frames(
                "libvpx-vp9",
                codec_options={"deadline": "good", "auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k"},
            )
        ), "hidden frames",
    ),
    Recipe("vp9_odd.webm", "vp9", "plain", _of(_without_b_frames("libvpx-vp9", height=241, width=321)), "odd size"),
    Recipe("h264_cut.mp4", "h264", "cut", _write_cut, "ends at 60 % of its bytes"),
    Recipe("h264_bit_errors.mp4", "h264", "damaged", _write_bit_errors, "40 bytes inverted"),
    Recipe("h264_10.mp4", "h264", "refused", _of(_spec(pixel_format="yuv420p10le")), "10 bit"),
    Recipe("h264_422.mp4", "h264", "refused", _of(_spec(pixel_format="yuv422p")), "4:2:2"),
    Recipe("hevc_422.mp4", "hevc", "refused", _of(_spec("libx265", pixel_format="yuv422p")), "4:2:2"),
    Recipe("h264_32x360.mp4", "h264", "refused", _of(_spec(height=360, width=32)), "32 columns"),
)  # fmt: skip
"""10-bit VP9 is not among them: PyAV's libvpx has no encoder for it."""


@dataclass
class Media:
    """Files of a folder, as their list says.

    Attributes:
        clips: Facts of each clip.
        jpegs: Names of the pictures.
        not_made: Reason per clip that an encoder refused.
    """

    clips: list[dict[str, Any]] = field(default_factory=list)
    jpegs: list[str] = field(default_factory=list)
    not_made: dict[str, str] = field(default_factory=dict)


def make_media(folder: Path, recipes: Iterable[Recipe] = RECIPES, num_jpegs: int = NUM_JPEGS) -> Media:
    """Write the clips and pictures, and their list."""
    folder.mkdir(parents=True, exist_ok=True)
    media = Media()
    for recipe in recipes:
        path = folder / recipe.name
        try:
            recipe.write(path)
        except av.FFmpegError as error:
            media.not_made[recipe.name] = f"{type(error).__name__}: {error}"
            path.unlink(missing_ok=True)
            continue
        facts = {"codec": recipe.codec, "kind": recipe.kind, "trait": recipe.trait, "is_fast": recipe.is_fast}
        media.clips.append({"name": recipe.name, **facts})
    scene = Scene(750, 1000)
    for number in range(num_jpegs):
        name = f"{number:02}.jpg"
        # At half the size of the scene, which has the detail of a photo then, and not its whole grain.
        Image.fromarray(scene.draw(number * 11)).reduce(2).save(folder / name, quality=70)
        media.jpegs.append(name)
    (folder / LIST).write_text(json.dumps(vars(media), indent=1) + "\n", encoding="utf-8")
    return media
