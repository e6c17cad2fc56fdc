"""Results equal TorchCodec's: frames, times, metadata, transforms, and its samplers on our decoder."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from framefeed._values import Limits
from framefeed.adapters.torch._video_decoder import VideoDecoder, as_torchcodec_metadata
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import LimitExceeded, UsageError
from framefeed.index import build_index
from framefeed.testing import ClipSpec, read_stamp, read_stamps
from tests.adapters.torchcodec_calls import STAND_INS, CenterCrop, RandomCrop, Resize, mappings_of_base
from tests.corpus import clip_file, corpus_file
from tests.judges import psnr

PICTURE = (96, 128)
N = 100


@pytest.fixture(scope="module")
def decoder() -> Iterator[VideoDecoder]:
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        yield decoder


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("torchcodec.decoders").VideoDecoder(str(corpus_file("base.mp4")))


@pytest.fixture(scope="module")
def torchcodec() -> SimpleNamespace:
    decoders, transforms, samplers = (
        pytest.importorskip(f"torchcodec.{name}") for name in ("decoders", "transforms", "samplers")
    )
    return SimpleNamespace(kind=decoders.VideoDecoder, transforms=transforms, samplers=samplers)


def stamps(pictures: torch.Tensor) -> list[int]:
    return read_stamps(pictures.numpy())


# --- numbers and times of any kind ------------------------------------------------------------------

NUMBERS: dict[str, Any] = {
    "a list": [3, 1],
    "NumPy's": [np.int64(3), np.uint8(1)],
    "an array": np.array([3, 1], dtype=np.int32),
    "a tensor of int64": torch.tensor([3, 1]),
    "a tensor of int32": torch.tensor([3, 1], dtype=torch.int32),
    "a tensor of uint8": torch.tensor([3, 1], dtype=torch.uint8),
    "a tensor of float32": torch.tensor([3.0, 1.0]),
    "a tensor of float64": torch.tensor([3.0, -99.0], dtype=torch.float64),
    "a tensor of bfloat16": torch.tensor([3, 1], dtype=torch.bfloat16),
    "tensors in a list": [torch.tensor(3), torch.tensor(1)],
    "a tensor with a gradient": torch.tensor([3.0, 1.0], requires_grad=True),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_frame_numbers_of_any_kind(kind: str, decoder: VideoDecoder) -> None:
    batch = decoder.get_frames_at(NUMBERS[kind])
    assert (stamps(batch.data), torch.as_tensor(batch.indices).tolist()) == ([3, 1], [3, 1])


@pytest.mark.parametrize(
    "number", [7, np.int32(7), np.float32(7), torch.tensor(7), torch.tensor(7.0), Fraction(7), -93]
)
def test_one_frame_number_of_any_kind(number: Any, decoder: VideoDecoder) -> None:
    assert read_stamp(decoder.get_frame_at(number).data.numpy()) == 7


@pytest.mark.parametrize("number", [7, np.array(7), torch.tensor(7), torch.tensor(7.0)])
def test_one_number_is_a_batch_of_one(number: Any, decoder: VideoDecoder) -> None:
    assert stamps(decoder.get_frames_at(number).data) == [7]


TIMES: dict[str, Any] = {
    "a list": [0.5, 1],
    "an array": np.array([0.5, 1.0]),
    "an array of float32": np.array([0.5, 1.0], dtype=np.float32),
    "fractions": [Fraction(1, 2), Fraction(1)],
    "a tensor of float64": torch.tensor([0.5, 1.0], dtype=torch.float64),
    "a tensor of float32": torch.tensor([0.5, 1.0]),
    "a tensor of float16": torch.tensor([0.5, 1.0], dtype=torch.float16),
    "tensors in a list": [torch.tensor(0.5, dtype=torch.float64), torch.tensor(1)],
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_kind(kind: str, decoder: VideoDecoder) -> None:
    assert stamps(decoder.get_frames_played_at(TIMES[kind]).data) == [12, 25]


def test_times_of_whole_tensors_and_single_ones(decoder: VideoDecoder) -> None:
    assert stamps(decoder.get_frames_played_at(torch.tensor([0, 1], dtype=torch.int32)).data) == [0, 25]
    for time in (1.0, torch.tensor(1.0), np.array(1.0)):
        assert stamps(decoder.get_frames_played_at(time).data) == [25]
    for time in (1, torch.tensor(1.0), torch.tensor([1.0]), np.float32(1), Fraction(1)):
        assert read_stamp(decoder.get_frame_played_at(time).data.numpy()) == 25


FLOAT32: dict[str, Callable[[VideoDecoder, torch.Tensor], list[int]]] = {
    "a tensor": lambda one, times: stamps(one.get_frames_played_at(times).data),
    "tensors in a list": lambda one, times: stamps(one.get_frames_played_at(list(times)).data),
    "an array": lambda one, times: stamps(one.get_frames_played_at(times.numpy()).data),
    "one by one": lambda one, times: [read_stamp(one.get_frame_played_at(time).data.numpy()) for time in times],
    "NumPy's": lambda one, times: [read_stamp(one.get_frame_played_at(time).data.numpy()) for time in times.numpy()],
    "ranges": lambda one, times: [
        stamps(one.get_frames_played_in_range(time, time.double() + 0.001).data)[0] for time in times
    ],
}


@pytest.mark.parametrize("kind", FLOAT32)
def test_M24_float32_is_widened_and_not_repaired(kind: str) -> None:
    tick = Fraction(1001, 30_000)
    numbers = range(50, 99, 5)
    times = torch.tensor([float(number * tick) for number in numbers], dtype=torch.float32)
    shown = [math.floor((Fraction(float(time)) + Fraction(1, 10**9)) / tick) for time in times]
    assert 0 < sum(found < number for found, number in zip(shown, numbers, strict=True)) < len(shown)
    with VideoDecoder(corpus_file("ntsc.mp4")) as decoder:
        assert FLOAT32[kind](decoder, times) == shown


RANGES: dict[str, tuple[Any, ...]] = {
    "floats": (0.0, 1.0, 5.0),
    "whole": (0, 1, 5),
    "tensors": (torch.tensor(0.0), torch.tensor(1.0), torch.tensor(5.0)),
    "tensors of one": (torch.tensor([0.0]), 1.0, torch.tensor([5.0])),
    "NumPy's": (np.float32(0), np.float64(1), np.float32(5)),
    "fractions": (Fraction(0), Fraction(1), Fraction(5)),
}


@pytest.mark.parametrize("kind", RANGES)
def test_ranges_of_any_kind(kind: str, decoder: VideoDecoder) -> None:
    batch = decoder.get_frames_played_in_range(*RANGES[kind])
    assert stamps(batch.data) == [0, 5, 10, 15, 20]
    torch.testing.assert_close(batch.pts_seconds, torch.tensor([0, 0.2, 0.4, 0.6, 0.8], dtype=torch.float64))
    torch.testing.assert_close(batch.duration_seconds, torch.full((5,), 0.2, dtype=torch.float64))


RATES = (3, 5.0, 7.3, 24, 29.97, 60, 0.1, 0.13, 1e-9)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("span", [(0.0, 4.0), (0.5, 1.013), (1.0, 1.0), (3.9, 4.0)])
def test_as_many_frames_at_a_rate_as_torchcodec_gives(
    rate: float, span: tuple[float, float], decoder: VideoDecoder, theirs: Any
) -> None:
    ours, other = (one.get_frames_played_in_range(*span, fps=rate) for one in (decoder, theirs))
    assert stamps(ours.data) == stamps(other.data)
    torch.testing.assert_close(ours.pts_seconds, other.pts_seconds, atol=1e-12, rtol=0)
    torch.testing.assert_close(ours.duration_seconds, other.duration_seconds, atol=1e-12, rtol=0)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", ["base.mp4", "start_8s.mkv", "vfr.mp4", "vfr.mkv"])
def test_all_frames_at_a_rate_are_those_of_torchcodec(name: str, rate: float, torchcodec: SimpleNamespace) -> None:
    path = str(corpus_file(name))
    with VideoDecoder(path) as decoder:
        ours, other = (one.get_all_frames(fps=rate) for one in (decoder, torchcodec.kind(path)))
    assert stamps(ours.data) == stamps(other.data)
    torch.testing.assert_close(ours.pts_seconds, other.pts_seconds, atol=1e-9, rtol=0)
    torch.testing.assert_close(ours.duration_seconds, other.duration_seconds, atol=1e-9, rtol=0)


def test_a_rate_is_checked_only_where_there_is_a_range(decoder: VideoDecoder) -> None:
    assert len(decoder.get_frames_played_in_range(1.0, 1.0, fps=0)) == 0
    assert len(decoder.get_all_frames(fps=0.1)) == 0


# --- pictures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_whole_pictures_lie_in_memory_as_torchcodecs_do(order: Any, torchcodec: SimpleNamespace) -> None:
    path = str(corpus_file("base.mp4"))
    ours, other = (kind(path, dimension_order=order) for kind in (VideoDecoder, torchcodec.kind))
    for ask in (lambda one: one[3], lambda one: one[3:5], lambda one: one.get_frames_at([5, 1]).data):
        assert torch.equal(ask(ours), ask(other))
        assert ask(ours).stride() == ask(other).stride()


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_pictures_that_are_cut_or_resized_lie_dense(order: Any) -> None:
    for transforms in ([Resize((48, 64))], [Resize((48, 64)), CenterCrop((24, 32))], [CenterCrop((24, 32))]):
        decoder = VideoDecoder(corpus_file("base.mp4"), transforms=transforms, dimension_order=order)
        batch = decoder[:2]
        assert batch.untyped_storage().nbytes() == batch.numel()
        assert batch.is_contiguous() or batch.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(decoder[1], batch[1])


def test_float32() -> None:
    for transforms in (None, [Resize((48, 64)), Resize((24, 32))]):
        whole = VideoDecoder(corpus_file("base.mp4"), transforms=transforms)[:2]
        ours = VideoDecoder(corpus_file("base.mp4"), transforms=transforms, output_dtype=torch.float32)[:2]
        assert ours.dtype is torch.float32
        torch.testing.assert_close(ours, whole.to(torch.float32) / 255)


@pytest.mark.parametrize("threads", [0, -1, 2, np.int64(2), torch.tensor(2), True])
def test_threads_of_any_kind(threads: Any, decoder: VideoDecoder) -> None:
    with VideoDecoder(corpus_file("base.mp4"), num_ffmpeg_threads=threads) as other:
        assert torch.equal(other[60:70], decoder[60:70])


def test_a_backend_and_limits_can_be_given(decoder: VideoDecoder) -> None:
    for backend in ("pyav", PyAVDecoder()):
        assert torch.equal(VideoDecoder(corpus_file("base.mp4"), backend=backend)[3], decoder[3])
    with pytest.raises(LimitExceeded):
        VideoDecoder(corpus_file("base.mp4"), limits=Limits(max_side=100))
    with pytest.raises(UsageError, match="stream_index"):
        VideoDecoder(corpus_file("base.mp4"), stream_index=3, frame_index=build_index(corpus_file("base.mp4")))


def test_no_other_device_had_to_be_replaced(decoder: VideoDecoder) -> None:
    status = decoder.cpu_fallback
    assert status.status_known
    assert not status
    assert str(status) == "[CPU] Fallback status: No fallback required"


def test_the_fallback_status_equals_torchcodecs(decoder: VideoDecoder, theirs: Any) -> None:
    assert str(decoder.cpu_fallback) == str(theirs.cpu_fallback)
    assert bool(decoder.cpu_fallback) == bool(theirs.cpu_fallback)
    assert decoder.cpu_fallback.status_known == theirs.cpu_fallback.status_known


# --- transforms -------------------------------------------------------------------------------------

PIPELINES: dict[str, Callable[[Any], list[Any]]] = {
    "crop": lambda kinds: [kinds.CenterCrop((51, 63))],
    "random crop": lambda kinds: [kinds.RandomCrop((40, 50))],
    "crops": lambda kinds: [kinds.CenterCrop((80, 101)), kinds.RandomCrop((60, 71)), kinds.CenterCrop((31, 30))],
    "crop, resize": lambda kinds: [kinds.CenterCrop((80, 100)), kinds.Resize((40, 50))],
    "crops, resize": lambda kinds: [kinds.CenterCrop((81, 100)), kinds.RandomCrop((60, 61)), kinds.Resize((40, 50))],
    "resize": lambda kinds: [kinds.Resize((48, 64))],
    "resize, crop": lambda kinds: [kinds.Resize((60, 80)), kinds.RandomCrop((40, 50))],
    "resizes": lambda kinds: [kinds.Resize((80, 100)), kinds.Resize((40, 50))],
    "larger, smaller, crop": lambda kinds: [
        kinds.Resize((160, 200)), kinds.Resize((120, 130)), kinds.CenterCrop((100, 100)),
    ],
    "all": lambda kinds: [
        kinds.CenterCrop((90, 110)), kinds.Resize((100, 100)), kinds.RandomCrop((70, 71)), kinds.Resize((50, 52)),
        kinds.CenterCrop((25, 24)),
    ],
    "to the size it has": lambda kinds: [kinds.Resize(PICTURE), kinds.Resize(PICTURE), kinds.CenterCrop(PICTURE)],
}  # fmt: skip
WITHOUT_RESIZE = ("crop", "random crop", "crops")


def apply_separately(pictures: torch.Tensor, transforms: list[Any]) -> torch.Tensor:
    """Apply a pipeline to whole pictures as torchvision does: antialiased bilinear, crops rounded to even."""
    for transform in transforms:
        (rows, columns), (height, width) = transform.size, pictures.shape[-2:]
        kind = type(transform).__name__
        if kind == "Resize":
            pictures = interpolate(pictures, size=(rows, columns), mode="bilinear", antialias=True)
            continue
        if kind == "CenterCrop":
            top, left = round((height - rows) / 2), round((width - columns) / 2)
        else:
            top = int(torch.randint(0, height - rows + 1, size=()))
            left = int(torch.randint(0, width - columns + 1, size=()))
        pictures = pictures[..., top : top + rows, left : left + columns]
    return pictures


@pytest.fixture(scope="module")
def smooth() -> Path:
    """A clip whose pictures are no test patterns: what swscale and torch make of sharp edges is not the matter."""
    return clip_file("smooth.mp4", ClipSpec(num_frames=4, width=PICTURE[1], height=PICTURE[0]))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_is_what_it_is_by_hand(name: str, order: Any, smooth: Path) -> None:
    transforms = PIPELINES[name](STAND_INS)
    torch.manual_seed(11)
    with VideoDecoder(smooth, transforms=transforms, dimension_order=order) as decoder:
        batch, empty, single = decoder[:4], decoder[4:], decoder.get_frame_at(2).data
    torch.manual_seed(11)
    wanted = apply_separately(VideoDecoder(smooth)[:4], transforms)
    given = batch if order == "NCHW" else batch.movedim(-1, -3)
    assert given.shape == wanted.shape
    assert empty.shape == (0, *batch.shape[1:])
    assert torch.equal(single, batch[2])
    assert torch.equal(given, wanted) if name in WITHOUT_RESIZE else psnr(given, wanted) > 30


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_is_torchcodecs(name: str, smooth: Path, torchcodec: SimpleNamespace) -> None:
    transforms = PIPELINES[name](torchcodec.transforms)
    batches = []
    for kind in (VideoDecoder, torchcodec.kind):
        torch.manual_seed(12)
        batches.append(kind(str(smooth), transforms=transforms)[:4])
    ours, other = batches
    assert ours.shape == other.shape
    assert torch.equal(ours, other) if name in WITHOUT_RESIZE else psnr(ours, other) > 30


def test_random_crops_draw_from_torchs_generator_once(smooth: Path) -> None:
    def cropped(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        decoder = VideoDecoder(smooth, transforms=[RandomCrop((20, 20))])
        assert torch.equal(decoder[0], decoder[0])
        return decoder[0]

    assert torch.equal(cropped(1), cropped(1))
    assert not torch.equal(cropped(1), cropped(2))


@pytest.mark.parametrize(
    "size", [[40, 50], (40.0, 50), np.array([40, 50]), torch.tensor([40, 50]), (np.int64(40), torch.tensor(50))]
)
@pytest.mark.parametrize("kind", [Resize, CenterCrop, RandomCrop])
def test_sizes_of_any_kind(kind: Any, size: Any, smooth: Path) -> None:
    assert VideoDecoder(smooth, transforms=iter([kind(size)]))[0].shape == (3, 40, 50)


def test_transforms_of_turned_pictures() -> None:
    path = corpus_file("rotated_90.mp4")
    whole = VideoDecoder(path)[0]
    assert whole.shape == (3, 128, 96)
    assert torch.equal(VideoDecoder(path, transforms=[CenterCrop((50, 40))])[0], whole[:, 39:89, 28:68])
    pipeline = [Resize((100, 80)), Resize((60, 50)), CenterCrop((30, 30))]
    assert VideoDecoder(path, transforms=pipeline)[0].shape == (3, 30, 30)


# --- facts ------------------------------------------------------------------------------------------

OURS_BY_LAW = {"rotation", "bit_rate", "pixel_aspect_ratio", "average_fps_from_header"}
"""Fields of the metadata that differ: docs/torchcodec.md says how."""
FILES = ("base.mp4", "base.mkv", "open_gop.mp4", "vfr.mp4", "start_8s.mkv", "ntsc.mp4", "ntsc.mkv", "edit_list.mp4",
         "rotated_90.mp4", "sound_first.mp4", "one_frame.mp4", "wide_samples.mp4")  # fmt: skip


def test_media_type_is_named_as_in_later_versions_of_torchcodec() -> None:
    assert VideoDecoder(corpus_file("base.mp4")).metadata.media_type == "video"


def check_metadata(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    assert ours.stream_index == theirs.stream_index
    for field in dataclasses.fields(theirs.metadata):
        if field.name not in OURS_BY_LAW:
            mine, their = getattr(ours.metadata, field.name), getattr(theirs.metadata, field.name)
            assert mine == (pytest.approx(their) if isinstance(their, float) else their), field.name


@pytest.mark.parametrize("name", FILES)
def test_metadata_are_torchcodecs(name: str, torchcodec: SimpleNamespace) -> None:
    path = str(corpus_file(name))
    check_metadata(VideoDecoder(path), torchcodec.kind(path))


@pytest.mark.parametrize("stream_index", [0, 1])
def test_M18_metadata_of_each_stream_are_torchcodecs(stream_index: int, torchcodec: SimpleNamespace) -> None:
    path = str(corpus_file("two_videos.mp4"))
    ours, theirs = (kind(path, stream_index=stream_index) for kind in (VideoDecoder, torchcodec.kind))
    check_metadata(ours, theirs)
    assert torch.equal(ours[3], theirs[3])


@pytest.mark.parametrize("stream_index", [None, 0, 3])
def test_M18_six_streams_of_which_two_are_videos(
    stream_index: int | None, media_root: Path, torchcodec: SimpleNamespace
) -> None:
    path = str(media_root / "video" / "torchcodec" / "nasa_13013.mp4")
    ours, theirs = (kind(path, stream_index=stream_index) for kind in (VideoDecoder, torchcodec.kind))
    check_metadata(ours, theirs)
    assert torch.equal(ours.get_frames_at([0, 100, -1]).data, theirs.get_frames_at([0, 100, -1]).data)


def test_colours_have_names(decoder: VideoDecoder) -> None:
    facts = dataclasses.replace(
        decoder.metadata, color_primaries=9, color_space=0, color_transfer_characteristic=16, average_fps=None
    )
    named = as_torchcodec_metadata(facts)
    assert (named.color_primaries, named.color_space, named.color_transfer_characteristic) == (
        "bt2020",
        "gbr",
        "smpte2084",
    )
    unknown = as_torchcodec_metadata(
        dataclasses.replace(facts, color_primaries=2, color_space=3, duration_seconds=None)
    )
    assert (unknown.color_primaries, unknown.color_space) == (None, "reserved")
    assert unknown.average_fps == unknown.average_fps_from_header == 25


def test_frame_mappings(decoder: VideoDecoder) -> None:
    text = mappings_of_base()
    renamed = text.replace('"pts"', '"pkt_pts"').replace('"duration"', '"pkt_duration"')
    for mappings in (
        text,
        text.encode(),
        io.StringIO(text),
        io.BytesIO(text.encode()),
        renamed,
        bytearray(text.encode()),
    ):
        with VideoDecoder(corpus_file("base.mp4"), custom_frame_mappings=mappings) as mapped:
            assert len(mapped) == N
            assert torch.equal(mapped[60], decoder[60])
    other = json.loads(text)
    del other["frames"][3]
    with pytest.raises(UsageError, match="99 frames, the stream has 100"):
        VideoDecoder(corpus_file("base.mp4"), custom_frame_mappings=json.dumps(other))


def test_torch_as_a_source(decoder: VideoDecoder) -> None:
    data = corpus_file("base.mp4").read_bytes()
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    for source in (tensor, tensor.repeat_interleave(2)[::2], io.BytesIO(data), data, bytearray(data), memoryview(data)):
        assert torch.equal(VideoDecoder(source)[60], decoder[60])


# --- samplers ---------------------------------------------------------------------------------------

CLIPS: dict[str, Callable[[Any, Any], Any]] = {
    "random indices": lambda s, d: s.clips_at_random_indices(d, num_clips=4, num_frames_per_clip=3),
    "random indices apart": lambda s, d: s.clips_at_random_indices(
        d, num_clips=4, num_frames_per_clip=5, num_indices_between_frames=3, sampling_range_start=-60
    ),
    "regular indices": lambda s, d: s.clips_at_regular_indices(d, num_clips=7, num_frames_per_clip=2),
    "regular indices, wrap": lambda s, d: s.clips_at_regular_indices(
        d, num_clips=3, num_frames_per_clip=6, sampling_range_start=-3, sampling_range_end=1000, policy="wrap"
    ),
    "random times": lambda s, d: s.clips_at_random_timestamps(d, num_clips=5, num_frames_per_clip=4),
    "random times apart": lambda s, d: s.clips_at_random_timestamps(
        d, num_clips=5, num_frames_per_clip=3, seconds_between_frames=0.31
    ),
    "regular times": lambda s, d: s.clips_at_regular_timestamps(
        d, seconds_between_clip_starts=0.3701, num_frames_per_clip=2, seconds_between_frames=0.1103
    ),
    "regular times, repeat": lambda s, d: s.clips_at_regular_timestamps(
        d, seconds_between_clip_starts=0.0507, num_frames_per_clip=5, seconds_between_frames=0.0713,
        sampling_range_start=d.metadata.end_stream_seconds - 0.2309, sampling_range_end=d.metadata.end_stream_seconds,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["base.mp4", "vfr.mp4", "start_8s.mkv", "ntsc.mkv"])
@pytest.mark.parametrize("sampler", CLIPS)
def test_torchcodecs_samplers_give_the_same_clips(sampler: str, name: str, torchcodec: SimpleNamespace) -> None:
    path = str(corpus_file(name))
    batches = []
    for kind in (VideoDecoder, torchcodec.kind):
        torch.manual_seed(21)
        batches.append(CLIPS[sampler](torchcodec.samplers, kind(path)))
    ours, other = batches
    assert ours.data.ndim == 5
    assert torch.equal(ours.data, other.data)
    torch.testing.assert_close(ours.pts_seconds, other.pts_seconds, atol=1e-9, rtol=0)
    if name != "vfr.mp4":  # docs/torchcodec.md, "Duration of a frame"
        torch.testing.assert_close(ours.duration_seconds, other.duration_seconds, atol=1e-9, rtol=0)


@pytest.mark.parametrize("policy", ["repeat_last", "wrap", "error"])
def test_samplers_refuse_what_they_refuse(policy: str, decoder: VideoDecoder, torchcodec: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="num_clips"):
        torchcodec.samplers.clips_at_random_indices(decoder, num_clips=0, policy=policy)
    with pytest.raises(ValueError, match="sampling_range_start"):
        torchcodec.samplers.clips_at_random_timestamps(decoder, sampling_range_start=1000, policy=policy)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [None, (24, 32)])
def test_its_text_shows_the_order_that_was_asked_for(order: str, size: tuple[int, int] | None) -> None:
    path = clip_file("torch_repr.mp4", ClipSpec(num_frames=3))
    with VideoDecoder(path, dimension_order=order, size=size) as decoder:
        assert repr(decoder) == (
            f"VideoDecoder({str(path)!r}, 3 frames, size={size}, crop=None, dimension_order={order!r})"
        )
