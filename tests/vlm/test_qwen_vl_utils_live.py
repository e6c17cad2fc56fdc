"""compat.qwen_vl_utils beside qwen-vl-utils itself, where that is installed (make vlm)."""

from __future__ import annotations

import importlib.util
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.judges import psnr

theirs = pytest.importorskip("qwen_vl_utils", exc_type=ImportError)
torch = pytest.importorskip("torch")
ours = pytest.importorskip("framefeed.compat.qwen_vl_utils")

# Of theirs: a reader that is not there, or that warns, says nothing of the comparison.
pytestmark = pytest.mark.filterwarnings("ignore")
HAS_READER = any(importlib.util.find_spec(name) for name in ("torchcodec", "decord"))
LEAST_DB = 45


def draw_scene(ordinal: int) -> Any:
    """Waves of all sizes in three colours, which move."""
    row, column = np.mgrid[0:240, 0:320]
    red = 127 + 100 * np.sin((column + 3 * ordinal) / 17) * np.cos(row / 23)
    blue = 127 + 90 * np.cos(row * column / 4000 + ordinal / 5)
    return np.stack([red, column * 0.7 + ordinal % 20, blue], axis=-1).astype(np.uint8)


def video_file() -> str:
    return str(clip_file("qwen_live.mp4", ClipSpec(num_frames=120, height=240, width=320, draw=draw_scene)))


def list_sources(folder: Path) -> list[Any]:
    """A picture as everything that an element takes."""
    picture, path = Image.fromarray(draw_scene(3)), folder / "picture.png"
    picture.save(path)
    picture.save(path.with_suffix(".jpg"), quality=90)
    clear = picture.copy()
    clear.putalpha(Image.fromarray(draw_scene(9)[..., 0]))
    clear.save(folder / "clear.png")
    url = "data:image/png;base64," + b64encode(path.read_bytes()).decode()
    modes = [picture.convert(mode) for mode in ("L", "P", "CMYK", "LA")]
    return [picture, clear, *modes, str(path), f"file://{path.with_suffix('.jpg')}", str(folder / "clear.png"), url]


def describe(value: Any) -> Any:
    """Replace pixels by their shapes, and metadata of videos, which differ, by a word."""
    if isinstance(value, (list, tuple)):
        return [describe(each) for each in value]
    if isinstance(value, dict) and "frames_indices" in value:
        return "metadata"
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else getattr(value, "size", value)


@pytest.mark.skipif(not HAS_READER, reason="needs torchcodec or decord, by which qwen-vl-utils reads videos")
@pytest.mark.parametrize("patch", [14, 16])
@pytest.mark.parametrize(
    "element",
    [
        {},
        {"nframes": 8},
        {"fps": 5, "max_frames": 12},
        {"video_start": 1.0, "video_end": 3.0},
        {"max_pixels": 151_200},
        {"min_pixels": 4096, "max_pixels": 30_000},
        {"total_pixels": 600_000, "min_pixels": 4096},
        {"resized_height": 300, "resized_width": 300},
    ],
)
def test_videos(element: dict[str, Any], patch: int) -> None:
    element = {"video": video_file(), **element}
    expected, rate = theirs.fetch_video(element, patch, return_video_sample_fps=True)
    frames, our_rate = ours.fetch_video(element, patch, return_video_sample_fps=True)
    assert (frames.shape, frames.dtype, our_rate) == (expected.shape, expected.dtype, rate)
    assert min(psnr(one, other) for one, other in zip(frames, expected, strict=True)) >= LEAST_DB


@pytest.mark.parametrize("limits", [{}, {"max_pixels": 30_000}, {"resized_height": 100, "resized_width": 90}])
def test_pictures(tmp_path: Path, limits: dict[str, Any]) -> None:
    for source in list_sources(tmp_path):
        expected = theirs.fetch_image({"image": source, **limits})
        picture = ours.fetch_image({"image": source, **limits})
        assert (picture.size, picture.mode) == (expected.size, expected.mode)
        assert picture.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "element", [{}, {"sample_fps": 4, "raw_fps": 25.0}, {"resized_height": 99, "resized_width": 99}]
)
def test_lists_of_pictures(tmp_path: Path, element: dict[str, Any]) -> None:
    sources = list_sources(tmp_path)
    for video in (sources[:1] * 3, sources[-4:], sources[1:2]):
        asked = {"video": video, **element}
        (expected, metadata), rate = theirs.fetch_video(asked, 14, True, True)
        (frames, our_metadata), our_rate = ours.fetch_video(asked, 14, True, True)
        assert (our_metadata, our_rate) == (metadata, rate)
        assert torch.equal(frames, expected)


@pytest.mark.skipif(not HAS_READER, reason="needs torchcodec or decord, by which qwen-vl-utils reads videos")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"return_video_kwargs": True},
        {"return_video_kwargs": True, "return_video_metadata": True, "image_patch_size": 16},
        {"return_video_metadata": True},
    ],
)
def test_messages(arguments: dict[str, Any]) -> None:
    picture = Image.fromarray(draw_scene(3))
    elements = [{"type": "image", "image": picture}, {"type": "text", "text": "?"}, {"video": video_file()}]
    user, text = {"role": "user", "content": elements}, {"role": "assistant", "content": "Waves."}
    for messages in ([user, text], [[user, text], [user]], [text], [{"role": "user", "content": elements[:2]}]):
        assert ours.extract_vision_info(messages) == theirs.extract_vision_info(messages)
        expected = theirs.process_vision_info(messages, **arguments)
        assert describe(ours.process_vision_info(messages, **arguments)) == describe(expected)
