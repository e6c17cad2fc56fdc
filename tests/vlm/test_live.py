"""`ff.vlm` beside the installed transformers: sizes, frames, texts and whole calls of its processors (``make vlm``)."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.errors import UsageError
from framefeed.testing import ClipSpec, write_clip
from tests.vlm.golden import read_golden

transformers = pytest.importorskip("transformers", reason="needs transformers: make vlm")
torch = pytest.importorskip("torch")

GOLDEN = read_golden()
DESCRIBED = [name for name in GOLDEN["processors"] if name.startswith(("qwen", "glm"))]


def make_video_processor(name: str) -> Any:
    """The installed class, with the recorded values."""
    facts = GOLDEN["processors"][name]
    values = (
        {}
        if facts["from"] == "class"
        else {key: value for key, value in facts["to_dict"].items() if key != "video_processor_type"}
    )
    return getattr(transformers, facts["class"])(**values)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """33 frames of 1.68 s to 0.04 s, as of a screen recording."""
    path = tmp_path_factory.mktemp("videos") / "uneven.mkv"
    steps = [1680 if number % 11 == 3 else 40 + 10 * (number % 5) for number in range(33)]
    pts = np.cumsum([0, *steps[:-1]]).tolist()
    write_clip(path, ClipSpec(num_frames=33, pts=pts, time_base=Fraction(1, 1000), height=180, width=320))
    return path


@pytest.mark.parametrize("name", DESCRIBED)
def test_sizes_and_tokens_are_those_of_the_installed_processor(name: str) -> None:
    processor = make_video_processor(name)
    _, size = ff.vlm.rules(processor, fps=2, max_frames=64)
    assert isinstance(size, ff.PixelBudget)
    capped = bool(getattr(processor, "cap_pixels_per_frame", None))
    options = {
        "factor": size.multiple,
        "temporal_factor": processor.temporal_patch_size,
        "resample": processor.resample,
    }
    options |= {"cap_pixels_per_frame": True} if capped else {}
    generator = np.random.default_rng(0)
    for _ in range(60):
        length = 2 * int(generator.integers(1, 385))
        height, width = (int(2 ** generator.uniform(6, 12)) for _ in range(2))
        meta = torch.empty((1, length, 3, height, width), device="meta")
        theirs = tuple(processor.resize(meta, size=processor.size, **options).shape[-2:])
        own = size.for_frames(length).fit(height, width)[0]
        assert own == theirs, (length, height, width)
        plan: Any = SimpleNamespace(shapes=lambda shape=(length, *own): [shape])
        patches = getattr(processor, "get_num_of_video_patches", None)
        if patches is not None and not (capped and name.startswith("qwen2")):
            counted = patches(length, height, width, {}) // processor.merge_size**2
            assert ff.vlm.count_tokens(plan, processor).tolist() == [counted]


@pytest.mark.parametrize("name", list(GOLDEN["processors"]))
def test_frames_are_those_that_the_installed_processor_samples(name: str, video: Path) -> None:
    processor = make_video_processor(name)
    arguments = {"num_frames": 8} if name.startswith(("intern", "gemma", "llava")) else {"fps": 2}
    clip = ff.vlm.load_video(video, rule=ff.vlm.AsTrained(processor, **arguments))
    index = ff.build_index(video)
    seconds = float((index.end_pts - int(index.pts[0])) * index.time_base)
    from transformers.video_utils import VideoMetadata

    facts = VideoMetadata(total_num_frames=33, fps=33 / seconds, duration=seconds, height=180, width=320)
    theirs = np.minimum([int(each) for each in processor.sample_frames(metadata=facts, **arguments)], 32)
    assert clip.indices.tolist() == theirs.tolist()


# Of transformers beside NumPy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("origin", ["video", "window"])
def test_a_processor_writes_the_seconds_at_which_pictures_are_on_the_screen(video: Path, origin: Any) -> None:
    from tests.vlm.make_golden import make_whole_processors, write_text

    processors = make_whole_processors()
    clip = ff.vlm.load_video(
        video, processor=processors["Qwen3VLProcessor"], fps=2, max_frames=16, start=1.25, end=6.5, origin=origin
    )
    times = clip.seconds - (clip.seconds[0] if origin == "window" else 0)
    texts = {name: write_text(each, clip.metadata, 56 if "Glm" in name else 64) for name, each in processors.items()
             if name.startswith(("Qwen3VL", "Glm", "Gemma"))}  # fmt: skip
    pairs = times.reshape(-1, 2)
    written = re.findall(r"<([0-9.]+) seconds>", texts["Qwen3VLProcessor"]["text"])
    assert written == [f"{pair.mean():.1f}" for pair in pairs]
    assert re.findall(r"([0-9.]+) seconds", texts["Glm46VProcessor"]["text"]) == [f"{pair[0]:.1f}" for pair in pairs]
    assert re.findall(r"image\|>([0-9]+)", texts["Glm4vProcessor"]["text"]) == [str(int(pair[0])) for pair in pairs]
    whole = re.findall(r"([0-9]+):([0-9]+)", texts["Gemma4Processor"]["text"])
    assert [60 * int(minutes) + int(seconds) for minutes, seconds in whole] == [int(each) for each in times]
    rates = write_text(processors["Qwen2_5_VLProcessor"], clip.metadata, 56)["second_per_grid_ts"]
    assert rates == pytest.approx([1.0], rel=1e-5)
    index = ff.build_index(video)
    ends = np.append(index.pts_seconds[1:], float(index.end_pts * index.time_base)) - index.pts_seconds[0]
    begins = index.pts_seconds - index.pts_seconds[0]
    assert (begins[clip.indices] <= clip.seconds + 1e-9).all()
    assert (clip.seconds < ends[clip.indices]).all()


@pytest.mark.parametrize("name", [name for name in DESCRIBED if "capped" not in name])
def test_a_processor_takes_what_is_loaded_and_loads_by_itself(name: str, video: Path) -> None:
    processor = make_video_processor(name)
    clip = ff.vlm.load_video(video, processor=processor, fps=2, max_frames=8)
    result = processor(videos=[clip.frames], video_metadata=[clip.metadata], do_sample_frames=False, do_resize=False)
    _, height, width = clip.frames.shape[1:]
    patch = processor.patch_size
    expected = [[-(-len(clip.frames) // processor.temporal_patch_size), height // patch, width // patch]]
    assert np.asarray(result["video_grid_thw"]).tolist() == expected
    processor.fetch_videos = ff.vlm.fetch_videos
    own = processor(videos=[str(video)], do_sample_frames=True, return_metadata=True, fps=2)
    (facts,) = own["video_metadata"]
    assert facts.video_backend == "framefeed"


def test_a_processor_that_no_value_describes_takes_pictures_of_any_size(video: Path) -> None:
    processor = make_video_processor("gemma4")
    with pytest.raises(UsageError, match="do_resize=True"):
        ff.vlm.load_video(video, processor=processor, fps=2)
    clip = ff.vlm.load_video(video, fps=2, max_frames=8)
    processor(videos=[clip.frames], video_metadata=[clip.metadata], do_sample_frames=False)
