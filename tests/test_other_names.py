"""Names that a newcomer guesses from other libraries: each is answered with names that exist."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed._nearest import OTHER_FRAME_NAMES, OTHER_METHODS, OTHER_NAMES
from tests.corpus import clip_file


def resolve(name: str) -> Any:
    found: Any = ff
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_other_libraries_are_answered_with_names_that_exist(name: str) -> None:
    pytest.importorskip("torch")
    assert not hasattr(ff, name)
    with pytest.raises(AttributeError, match=re.escape(OTHER_NAMES[name])):
        getattr(ff, name)
    if name != "DataLoader":
        assert not hasattr(ff.torch, name)
        with pytest.raises(ImportError, match=re.escape(OTHER_NAMES[name])):
            __import__("framefeed.torch", fromlist=[name])
    named = re.findall(r"\bff\.([\w.]*\w)", OTHER_NAMES[name])
    assert named or "framefeed " in OTHER_NAMES[name]
    for each in named:
        assert resolve(each) is not None


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("DataLoader", "ff.torch.DataLoader"), ("DataLoader", "ff.ClipLoader"), ("VideoReader", "ff.VideoDecoder"),
        ("AudioDecoder", "torchcodec"), ("VideoEncoder", "ff.map_video"), ("set_cuda_backend", "CPU"),
        ("VideoClips", "framefeed.compat.torchvision"), ("read_video", "framefeed.compat.torchvision"),
    ],
)  # fmt: skip
def test_the_guesses_of_newcomers_are_answered(name: str, advice: str) -> None:
    assert advice in OTHER_NAMES[name]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("width", r"use size=\(height, width\)$"), ("ctx", "decodes on the CPU$"), ("num_threads", r"ff\.ClipLoader"),
        ("device", r"ff\.torch\.VideoDecoder has"), ("seek_mode", r"ff\.torch\.VideoDecoder has"),
    ],
)  # fmt: skip
def test_arguments_of_other_decoders_are_answered(name: str, advice: str) -> None:
    with pytest.raises(TypeError, match=f"^VideoDecoder: there is no argument {name}=: .*{advice}"):
        ff.VideoDecoder("a.mp4", **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        ff.VideoDecoder("a.mp4", colour=1)  # type: ignore[call-arg]  # the wrong call


@pytest.mark.parametrize(
    ("function", "name", "advice"),
    [
        ("plan_clips", "resize", r"use size=\(height, width\)"), ("plan_clips", "num_clips", "use clips_per_video="),
        ("plan_clips", "batch_size", r"ff\.ClipLoader"), ("plan_requests", "resize", "use size="),
        ("scan", "num_workers", "use workers=$"),
    ],
)  # fmt: skip
def test_arguments_of_other_libraries_are_answered(function: str, name: str, advice: str) -> None:
    with pytest.raises(TypeError, match=f"^{function}: there is no argument {name}=: .*{advice}"):
        getattr(ff, function)("videos", **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        getattr(ff, function)("videos", colour=1)


@pytest.mark.parametrize(
    ("name", "argument", "advice"),
    [
        ("RandomResizedCrop", "size", r"write RandomResizedCrop\(224\), or .* plan_clips\(size=\(224, 224\)\)"),
        ("RandomResizedCrop", "antialias", "antialiased$"), ("RandomResizedCrop", "interpolation", "bilinear"),
        ("CenterCrop", "size", r"write CenterCrop\(224\)"), ("RandomCrop", "size", r"write RandomCrop\(224\)"),
        ("RandomCrop", "padding", r"ff\.Letterbox"), ("RandomCrop", "pad_if_needed", r"ff\.Letterbox"),
        ("ResizeCrop", "size", r"write ResizeCrop\(256, 224\)"), ("LongSide", "max_size", r"write LongSide\(640\)"),
        ("Letterbox", "size", r"write Letterbox\(640\)"),
    ],
)  # fmt: skip
def test_arguments_of_torchvisions_transforms_are_answered(name: str, argument: str, advice: str) -> None:
    for error in (TypeError, ff.UsageError):
        with pytest.raises(error, match=f"^{name}: there is no argument {argument}=: .*{advice}"):
            getattr(ff, name)(**{argument: 224})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        getattr(ff, name)(colour=1)


@pytest.mark.parametrize("name", ["Frame", "FrameBatch", "ClipLoader", "scan"])
def test_names_of_framefeed_are_found_from_its_door_for_torch(name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ImportError, match=f"framefeed.torch has no {name}: use ff.{name}$"):
        __import__("framefeed.torch", fromlist=[name])
    assert resolve(name) is not None


@pytest.mark.parametrize("statement", ["import framefeed.torch.samplers", "from framefeed.torch import samplers"])
def test_a_script_that_imports_samplers_is_told_what_to_use(statement: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ImportError, match=r"has no samplers: plan clips with ff\.plan_clips"):
        exec(statement)  # noqa: S102 - an import as a script writes it


@pytest.mark.parametrize("door", ["VideoDecoder", "torch.VideoDecoder"])
def test_methods_of_other_readers_are_answered_with_names_that_exist(door: str) -> None:
    if door.startswith("torch"):
        pytest.importorskip("torch")
    video = resolve(door)(Path(clip_file("good.mp4")))
    for name, advice in OTHER_METHODS.items():
        assert not hasattr(video, name)
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}: {advice}")):
            getattr(video, name)
        for owner, attribute in re.findall(r"\b(\w+(?=[(.])|metadata)(?:\.(\w+))?", advice):
            assert owner == "len" or hasattr(video, owner), advice
            assert not attribute or hasattr(getattr(video, owner), attribute), advice
    with pytest.raises(AttributeError, match="did you mean 'get_frames_at'"):
        _ = video.get_frames_att
    video.close()


@pytest.mark.parametrize("method", ["get_frame_at", "get_frames_at"])
def test_names_of_other_frames_are_answered_with_names_that_exist(method: str) -> None:
    with ff.VideoDecoder(Path(clip_file("good.mp4"))) as video:
        given = getattr(video, method)(3 if method == "get_frame_at" else [3])
    for name, advice in OTHER_FRAME_NAMES.items():
        assert not hasattr(given, name)
        with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}: {advice}")):
            getattr(given, name)
        assert hasattr(given, advice.split()[-1])
    with pytest.raises(AttributeError, match="did you mean 'pts_seconds'"):
        _ = given.pts_second
    for copied in (copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        assert np.array_equal(copied.data, given.data)
