"""compat.qwen_vl_utils: the recorded rule and sizes of qwen-vl-utils 0.0.14, and each row of docs/qwen-vl-utils.md.

tests/vlm/test_qwen_vl_utils_live.py compares with the library itself.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from PIL import Image

import framefeed as ff
from framefeed.compat import qwen_vl_utils
from framefeed.compat.qwen_vl_utils import (
    extract_vision_info,
    fetch_image,
    fetch_video,
    process_vision_info,
    smart_nframes,
    smart_resize,
)
from framefeed.compat.qwen_vl_utils._rules import choose_frames
from framefeed.errors import (
    CorruptMedia,
    LimitExceeded,
    MediaError,
    MissingMedia,
    TimeUnavailable,
    UnreadableMedia,
    UsageError,
)
from framefeed.index import build_index, count_seconds
from framefeed.testing import ClipSpec, read_stamps
from tests.corpus import clip_file, corpus_file, expected_stamps
from tests.damaged import damaged_clip
from tests.differences import Differences
from tests.fakes import STREAM, steady_index
from tests.house import HEAVY, modules_after
from tests.patience import PATIENCE_SECONDS
from tests.remote import served
from tests.vlm.golden import condense, read_golden

GOLDEN = read_golden()["qwen_vl_utils"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "qwen-vl-utils.md"
difference = Differences()

THIN = "a side of 0 there"
ON_PURPOSE = {
    "smart_resize": {(30, 5990, factor): THIN for factor in (28, 32)},
    "fetch_video": {(30, 5990, patch): THIN for patch in (14, 16)},
}
"""Recorded cases that differ -> why."""

VARIABLE = ClipSpec(
    num_frames=40, height=96, width=128, pts=tuple(int(40 * n + 600 * (n // 10)) for n in range(40)),
    time_base=Fraction(1, 1000), start_seconds=0.4,
)  # fmt: skip
"""Four bursts of ten frames at 25 a second, 0.6 s without a frame between them; the first frame is late."""


def make_picture(height: int = 90, width: int = 120, mode: str = "RGB") -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise).convert(mode)


def encode(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def numbers_of(video: torch.Tensor) -> list[int]:
    return read_stamps(video.byte().numpy())


def seconds_of(metadata: dict[str, Any]) -> list[float]:
    """What a processor computes."""
    return [index / metadata["fps"] for index in metadata["frames_indices"]]


# --- recorded cases ---------------------------------------------------------------------------------


def test_smart_resize_gives_the_recorded_sizes() -> None:
    odd = []
    for height, width, factor, limits, *expected in GOLDEN["smart_resize"]:
        if isinstance(expected[0], str):
            with pytest.raises(UsageError, match="200"):
                smart_resize(height, width, factor, **limits)
        elif list(smart_resize(height, width, factor, **limits)) != expected:
            assert smart_resize(height, width, factor, **limits) == (factor, expected[1])
            odd.append((height, width, factor))
    assert odd == list(ON_PURPOSE["smart_resize"])


def test_smart_nframes_gives_the_recorded_numbers() -> None:
    for count, rate, element, expected in GOLDEN["smart_nframes"]:
        if isinstance(expected, str):
            with pytest.raises(UsageError, match="nframes"):
                smart_nframes(element, count, float(Fraction(rate)))
        else:
            assert smart_nframes(element, count, float(Fraction(rate))) == expected, (count, rate, element)


def test_videos_have_the_recorded_frames_and_sizes() -> None:
    odd = []
    for case in GOLDEN["fetch_video"]:
        index = steady_index(case["N"], fps=Fraction(case["rate"]))
        index = replace(index, stream=replace(STREAM, width=case["w"], height=case["h"]))
        expected, factor = case["result"], 2 * case["patch"]
        if isinstance(expected, str) and (case["h"], case["w"], case["patch"]) not in ON_PURPOSE["fetch_video"]:
            with pytest.raises(UsageError):
                choose_frames(case["element"], index, factor)
            continue
        numbers, size, rate = choose_frames(case["element"], index, factor)
        if isinstance(expected, str):
            assert size[0] == factor
            odd.append((case["h"], case["w"], case["patch"]))
            continue
        ours = {"n": len(numbers), "size": list(size), "indices": condense(numbers), "sample_fps": rate}
        assert ours == {key: expected[key] for key in ours}, case
    assert odd == list(ON_PURPOSE["fetch_video"])


def test_lists_of_pictures_have_the_recorded_sizes_and_rates() -> None:
    for case in GOLDEN["fetch_video_of_frames"]:
        picture, expected = Image.new("RGB", (case["w"], case["h"])), case["result"]
        element = {"video": [picture] * case["frames"], **case["element"]}
        if isinstance(expected, str):
            with pytest.raises(UsageError, match="pixels"):
                fetch_video(element, case["patch"])
            continue
        (video, metadata), rate = fetch_video(element, case["patch"], True, True)
        first = fetch_image({"image": picture, **case["element"]}, 2 * case["patch"])
        ours = {"n": len(video), "size": list(video.shape[-2:]), "first": [first.height, first.width]}
        ours |= {"sample_fps": rate, "indices": metadata["frames_indices"], "fps": metadata["fps"]}
        assert {**ours, "total_num_frames": metadata["total_num_frames"]} == expected, case


def test_the_environment_names_tokens_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    element = {"video": str(corpus_file("base.mp4")), "nframes": 100, "min_pixels": 784}
    whole = fetch_video(element)
    monkeypatch.setenv("MODEL_SEQ_LEN", "4e2")
    assert (whole.shape[-2:], fetch_video(element).shape[-2:]) == ((84, 140), (56, 84))


# --- videos -----------------------------------------------------------------------------------------


def test_a_video_is_its_frames_resized_bicubically() -> None:
    path = str(corpus_file("base.mp4"))
    for video in (path, f"file://{path}", Path(path), Path(path).read_bytes()):
        frames, rate = fetch_video({"video": video, "nframes": 10}, return_video_sample_fps=True)
        assert numbers_of(frames) == [0, 11, 22, 33, 44, 55, 66, 77, 88, 99]
        assert (frames.shape, frames.dtype, rate) == ((10, 3, 280, 392), torch.float32, 2.5)
    with ff.VideoDecoder(path, size=(280, 392), filter="bicubic") as decoder:
        assert (frames.numpy() == decoder.get_frames_at([0, 11, 22, 33, 44, 55, 66, 77, 88, 99]).data).all()
    assert fetch_video({"video": path, "nframes": 10}, 16).shape == (10, 3, 320, 448)


@difference("Number and rate of frames")
def test_number_and_rate() -> None:
    frames, rate = fetch_video({"video": str(corpus_file("edit_list.mp4")), "fps": 8}, 14, True)
    stamps = expected_stamps("edit_list.mp4")
    assert numbers_of(frames) == [stamps[round(n * (len(stamps) - 1) / (len(frames) - 1))] for n in range(len(frames))]
    index = build_index(corpus_file("edit_list.mp4"))
    duration = (index.end_pts - int(index.pts[0])) * index.time_base
    assert rate == pytest.approx(len(frames) / float(duration))


@difference("Seconds in metadata")
@pytest.mark.parametrize("name", ["variable", "vfr.mp4", "edit_list.mp4", "start_8s.mp4", "base.mp4"])
def test_seconds_are_those_of_the_frames(name: str) -> None:
    path = clip_file("qwen_variable.mp4", VARIABLE) if name == "variable" else corpus_file(name)
    index = build_index(path)
    for element in ({"fps": 8}, {"nframes": 8, "video_start": 0.9}):
        frames, metadata = fetch_video({"video": str(path), **element}, return_video_metadata=True)
        stamps = list(range(40)) if name == "variable" else list(expected_stamps(name))
        numbers = np.array([stamps.index(number) for number in numbers_of(frames)])
        assert seconds_of(metadata) == pytest.approx(count_seconds(index, numbers).tolist(), abs=1e-6)
        assert {"duration", "width", "height"} < set(metadata)
        assert (metadata["height"], metadata["width"]) == frames.shape[-2:]


def test_frames_at_equal_distances_have_their_own_rate() -> None:
    _, metadata = fetch_video({"video": str(corpus_file("base.mp4")), "fps": 25}, return_video_metadata=True)
    assert (metadata["fps"], metadata["total_num_frames"]) == (25.0, 100)


@difference("`video_start`, `video_end`")
def test_windows_are_of_times() -> None:
    path = str(clip_file("qwen_variable.mp4", VARIABLE))
    # Frames 20 to 29 begin at 2.0 to 2.36 s; by the mean rate, 2.0 s would be frame 23.
    element = {"video": path, "video_start": 2.0, "video_end": 2.36, "nframes": 10}
    frames, rate = fetch_video(element, return_video_sample_fps=True)
    assert numbers_of(frames) == list(range(20, 30))
    # Until frame 30 comes, at 3.0 s, the last one is on the screen.
    assert rate == pytest.approx(10.0)
    assert numbers_of(fetch_video({"video": path, "video_start": -5, "video_end": 0.3, "fps": 30})) == list(range(8))
    assert numbers_of(fetch_video({"video": path, "video_start": 3.3, "nframes": 2})) == [38, 39]
    for start, end in ((2.4, 2.9), (2.0, 2.0), (90, None), (None, -1), (2.36, 2.5)):
        with pytest.raises(UsageError, match=re.escape(path)):
            fetch_video({"video": path, "video_start": start, "video_end": end})


def test_a_window_ends_when_its_last_frame_leaves_the_screen() -> None:
    path = str(clip_file("qwen_variable.mp4", VARIABLE))
    element = {"video": path, "video_start": 2.0, "video_end": 2.36, "nframes": 8}
    frames, metadata = fetch_video(element, return_video_metadata=True)
    assert numbers_of(frames) == [20, 21, 23, 24, 25, 26, 28, 29]
    assert metadata["duration"] == pytest.approx(1.0)  # frame 30 comes at 3.0 s


def test_an_error_of_an_element_has_its_source() -> None:
    path = str(corpus_file("base.mp4"))
    for wrong in ({"nframes": 200}, {"video_start": 9.0}):
        with pytest.raises(UsageError) as caught:
            fetch_video({"video": path, **wrong})
        assert caught.value.source == path


@difference("Videos without times")
def test_no_times() -> None:
    with pytest.raises(TimeUnavailable, match=r"raw\.h264"):
        fetch_video({"video": str(corpus_file("raw.h264"))})


@difference("Mirrored videos")
@pytest.mark.parametrize("name", ["mirrored.mp4", "rotated_90_mirrored.mp4"])
def test_mirrored(name: str) -> None:
    stamps = expected_stamps(name)
    frames = fetch_video({"video": str(corpus_file(name)), "nframes": 2})
    assert numbers_of(frames) == [stamps[0], stamps[-1]]


@difference("Files that cannot be read")
def test_broken_files(tmp_path: Path) -> None:
    with pytest.raises(MissingMedia, match=r"none\.mp4"):
        fetch_video({"video": str(tmp_path / "none.mp4")})
    with pytest.raises(CorruptMedia, match=r"damage\.mp4"):
        fetch_video({"video": str(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30))), "nframes": 40})
    text = tmp_path / "text.png"
    text.write_text("no picture")
    cases = [(text, UnreadableMedia)]
    for ending, mode, kind in (
        ("png", "RGB", UnreadableMedia),
        ("jpeg", "RGB", CorruptMedia),
        ("tiff", "RGBA", CorruptMedia),
    ):
        cut = tmp_path / f"cut.{ending}"
        cut.write_bytes(encode(make_picture(mode=mode), ending)[:-2000])
        cases.append((cut, kind))
    for path, kind in cases:
        with pytest.raises(kind, match=path.name):
            fetch_image({"image": f"file://{path}"})
        with pytest.raises(kind, match=path.name):
            fetch_video({"video": [make_picture(), str(path)]})
    with pytest.raises(MediaError):
        fetch_image({"image": "data:image/png;base64,bm9uZQ=="})
    data = bytearray(encode(make_picture(mode="RGBA")))
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = crc32(data[12:29]).to_bytes(4, "big")
    with pytest.raises(LimitExceeded):
        fetch_image({"image": bytes(data)})


@difference("Wrong elements")
@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"video": "base", "fps": 2, "nframes": 4}, "Only accept either `fps` or `nframes`"),
        ({"video": "base", "nframes": 200}, r"base\.mp4: nframes: expected 2 to 100"),
        ({"video": "base", "fps": "2"}, "fps: expected a number"),
        ({"video": "base", "max_pixels": 5}, "least number of pixels"),
        ({"video": "base", "min_pixels": "5"}, "min_pixels: expected a number"),
        ({"video": "base", "resized_height": None, "resized_width": 28}, "height: expected a number"),
        ({"video": "base", "video_start": "0"}, "video_start, video_end: expected"),
        ({"video": []}, "expected pictures"),
        ({"video": ["x"], "sample_fps": 0}, "sample_fps=0"),
        ({"video": ["x"], "sample_fps": -1}, "sample_fps=-1"),
        ({"video": ["x"], "sample_fps": "2"}, "sample_fps: expected a number"),
        ({"video": [make_picture()], "raw_fps": "2"}, "raw_fps: expected a number"),
        ({"video": "base", "max_pixels": 0, "min_pixels": 0}, "max_pixels: expected a number above 0"),
        ({"image": make_picture(), "resized_height": 0, "resized_width": 0}, "height, width: expected numbers above 0"),
        ({"video": [make_picture(28, 28), make_picture(300, 300)]}, "pictures of one size"),
        ({"video": None}, "source: expected a path"),
        ({"image": None}, "source: expected a path"),
        ({"image": {"url": "x.png"}}, "source: expected a path"),
        ({"image": "data:image/png,raw"}, "image: expected data:image"),
        ({"image": "data:image/png;base64,A"}, "image: expected data:image"),
        ({"type": "video", "path": "x.mp4"}, "expected image, image_url or video in an element"),
    ],
)
def test_wrong_elements(element: dict[str, Any], message: str) -> None:
    if element.get("video") == "base":
        element = {**element, "video": str(corpus_file("base.mp4"))}
    with pytest.raises(UsageError, match=message):
        process_vision_info([{"role": "user", "content": [{"type": "video", **element}]}])


@difference("A side of less than a multiple")
def test_thin_pictures() -> None:
    assert smart_resize(30, 5990, 28, 4096, 65_536) == (28, 3612)


# --- pictures ---------------------------------------------------------------------------------------


def test_pictures_come_from_everywhere(tmp_path: Path) -> None:
    picture, path = make_picture(), tmp_path / "picture.png"
    data = encode(picture)
    path.write_bytes(data)
    url = "data:image/png;base64," + b64encode(data).decode()
    expected = picture.resize((112, 84))
    with served({"/picture.png": data}) as server:
        for given in (picture, str(path), f"file://{path}", url, f"{server}/picture.png"):
            for key in ("image", "image_url"):
                fetched = fetch_image({key: given})
                assert (fetched.mode, fetched.size) == ("RGB", (112, 84))
                assert fetched.tobytes() == expected.tobytes()
    assert fetch_image({"image": picture, "max_pixels": 5000}, 16).size == (64, 32)
    assert fetch_image({"image": picture, "resized_height": 60, "resized_width": 200}).size == (196, 56)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "1"])
def test_alpha_lies_on_white(mode: str) -> None:
    picture = make_picture(mode="RGBA")
    picture.putalpha(Image.linear_gradient("L").resize(picture.size))
    picture = picture.convert(mode)
    white = Image.new("RGB", picture.size, "white")
    white.paste(picture, mask=picture if mode == "RGBA" else None)
    expected = white.resize((112, 84))
    for given in (picture, encode(picture)):
        assert fetch_image({"image": given}).tobytes() == expected.tobytes()


@difference("Pictures that are turned by EXIF")
def test_exif() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind, mode in (("JPEG", "RGB"), ("PNG", "RGBA")):
        data = encode(make_picture(mode=mode), kind, exif=exif)
        assert fetch_image({"image": data}).size == (84, 112)
        assert fetch_image({"image": Image.open(io.BytesIO(data))}).size == (112, 84)


@difference("Grey pictures of 16 bits")
def test_deep_grey() -> None:
    data = encode(Image.fromarray(np.full((56, 56), 257 * 100, np.uint16)))
    assert fetch_image({"image": data}).getextrema() == ((100, 100),) * 3


@difference("`image` that is a video")
def test_a_video_as_picture() -> None:
    picture = fetch_image({"image": str(corpus_file("base.mp4"))})
    assert read_stamps(np.asarray(picture)[None]) == [0]


@difference("What an element takes")
def test_paths_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    make_picture().save(path)
    frames = fetch_video({"video": [path, path.read_bytes(), str(path)]})
    assert frames.shape == (4, 3, 336, 336)
    assert all((frame == frames[0]).all() for frame in frames)


def test_pictures_of_a_list_are_resized_as_pillow_does() -> None:
    blocks = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (10, 14, 3))
    picture = Image.fromarray(blocks.repeat(30, 0).repeat(30, 1))
    element = {"video": (picture, picture.rotate(180)), "total_pixels": 64 * 28 * 28, "min_pixels": 784}
    video = fetch_video(element)
    assert (video.shape, float(video.min()), float(video.max())) == ((2, 3, 168, 280), 0, 255)
    first = fetch_image({**element, "image": picture}, 28)
    expected = np.asarray(first.resize((280, 168), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    assert np.abs(video[0].numpy() - expected).max() <= 1
    assert (video == video.round()).all()


def test_no_least_number_of_pixels() -> None:
    assert smart_resize(100, 60, 28, 0, 10**6) == smart_resize(100, 60, 28, -5, 10**6) == (112, 56)


# --- messages ---------------------------------------------------------------------------------------


def test_messages_are_read_in_order() -> None:
    picture, path = make_picture(), str(corpus_file("base.mp4"))
    elements = [
        {"type": "image", "image": picture}, {"image_url": picture}, {"video": path, "nframes": 4},
        {"type": "video", "video": [picture], "sample_fps": 5},
    ]  # fmt: skip
    message = {"role": "user", "content": [elements[0], {"type": "text", "text": "?"}, *elements[1:]]}
    text = {"role": "system", "content": "You see."}
    assert extract_vision_info([text, message]) == elements
    assert extract_vision_info([[text, message], [message]]) == elements * 2
    assert process_vision_info([text]) == (None, None)
    assert process_vision_info([text], True) == (None, None, {"do_sample_frames": False, "fps": []})
    images, videos, arguments = process_vision_info([text, message], return_video_kwargs=True)
    assert [each.size for each in images] == [(112, 84)] * 2
    assert [tuple(each.shape) for each in videos] == [(4, 3, 280, 392), (2, 3, 336, 336)]
    assert arguments == {"do_sample_frames": False, "fps": [1.0, 5]}
    images, videos, arguments = process_vision_info([message], True, True, image_patch_size=16)
    assert [(tuple(frames.shape), metadata["frames_indices"]) for frames, metadata in videos] == [
        ((4, 3, 320, 448), [0, 1, 2, 3]),
        ((2, 3, 320, 448), [0, 1]),
    ]
    assert seconds_of(videos[0][1]) == pytest.approx([0, 1.32, 2.64, 3.96])
    assert arguments == {"do_sample_frames": False}


def test_an_image_comes_before_a_video_and_its_url() -> None:
    small, large = make_picture(56, 56), make_picture(112, 112)
    images, videos = process_vision_info([{"content": [{"image_url": large, "video": [large], "image": small}]}])
    assert ([each.size for each in images], videos) == ([(56, 56)], None)


@difference("Readers")
def test_no_reader_is_chosen_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FORCE_QWENVL_VIDEO_READER", "none")
    assert len(fetch_video({"video": str(corpus_file("base.mp4")), "fps": 90, "max_pixels": 10**9})) == 100
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


# --- the module -------------------------------------------------------------------------------------


def test_torch_alone_is_imported_and_its_extra_is_named() -> None:
    assert sorted(qwen_vl_utils.__all__) == qwen_vl_utils.__all__
    assert all(hasattr(qwen_vl_utils, name) for name in qwen_vl_utils.__all__)
    loaded = {name.split(".")[0] for name in modules_after("import framefeed.compat.qwen_vl_utils")}
    assert loaded & (HEAVY | {"torchvision", "qwen_vl_utils", "transformers", "requests"}) == {"torch"}
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from framefeed.errors import MissingDependency\n"
        "try:\n    import framefeed.compat.qwen_vl_utils\n"
        "except MissingDependency as error:\n    assert 'framefeed[torch]' in str(error)\n"
        "else:\n    raise SystemExit('imported')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=PATIENCE_SECONDS)


def test_the_page_lists_these() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", text[text.index("## What differs") :], re.M)
    assert rows == list(dict.fromkeys(rows))
    assert sorted(rows) == sorted(difference.names)
    counts = [len(cases) for cases in GOLDEN.values()]
    assert f"In {sum(counts) - 4} of {sum(counts)} recorded cases" in text
