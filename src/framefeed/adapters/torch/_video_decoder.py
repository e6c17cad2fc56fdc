"""Replace torchcodec.decoders.VideoDecoder: tensors, the same arguments and names of metadata, exact frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, cast

import numpy as np
import torch

from framefeed._cached import cached_property
from framefeed._nearest import make_absence
from framefeed._values import Limits, resolve_limits
from framefeed.adapters.torch._arguments import (
    as_dtype,
    as_ordinal,
    as_ordinals,
    as_scalar,
    as_source,
    as_stream,
    as_thread_count,
    as_times,
    check_device,
)
from framefeed.adapters.torch._transforms import as_steps
from framefeed.decode import (
    Decoder,
    Frame,
    FrameBatch,
    RefusedValue,
    VideoMetadata,
    WrongKind,
    check_frame_index,
    clip_slice,
    make_auto_decoder,
)
from framefeed.decode import VideoDecoder as ArrayDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.media import MATRICES, PRIMARIES, TRANSFERS, MediaSource, StorageOptions
from framefeed.parallel import allocate
from framefeed.request import AnySize, FixedCrop

_RESERVED = (0, 3)
"""Codes without a meaning in ITU-T H.273; FFmpeg names them "reserved"."""


@dataclass(frozen=True, slots=True)
class CpuFallbackStatus:
    """Status of falling back from GPU to CPU decoding. This version always decodes on the CPU: there is no fallback.

    ``bool(status)`` is True if there was a fallback; ``str(status)`` describes it.

    Attributes:
        status_known: Whether the status is known yet.
    """

    status_known: bool = True

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "[CPU] Fallback status: No fallback required"


def as_torchcodec_metadata(facts: VideoMetadata) -> VideoMetadata:
    """Convert colour tags to names, and average_fps to TorchCodec's: frames over duration."""
    duration = facts.duration_seconds
    return replace(
        facts,
        average_fps=facts.num_frames / duration if duration else facts.average_fps or facts.average_fps_from_header,
        color_primaries=_name_code(PRIMARIES, facts.color_primaries),
        color_space=_name_code(MATRICES, facts.color_space),
        color_transfer_characteristic=_name_code(TRANSFERS, facts.color_transfer_characteristic),
    )


def _name_code(names: Mapping[int, str], code: int | str | None) -> str | None:
    if not isinstance(code, int):
        return code
    return names.get(code, "reserved" if code in _RESERVED else None)


_MAX_BYTES = 2**28
_KEYS = (("pts", "pkt_pts"), ("duration", "pkt_duration"), ("key_frame",))


class InvalidMappings(UsageError, KeyError, IndexError, TypeError, RuntimeError, OverflowError):
    """JSON that is no mapping; TorchCodec raises one of these types."""


def check_mappings(mappings: Any, index: FrameIndex) -> None:
    """Check that a mapping has the frames of the index.

    The index is always built from the packets, because it has their byte offsets too; a mapping with other frames
    belongs to another file or stream. It is ``{"frames": [{"pts", "duration", "key_frame"}, ...]}``.
    """
    frames = _read_frames(mappings)
    try:
        keys = [_find_key(frames[0], names) for names in _KEYS]
        columns = [[int(frame[key]) for frame in frames] for key in keys]
        claimed = np.sort(np.array(columns[0], dtype=np.int64))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InvalidMappings(
            f"invalid custom frame mappings: each frame needs integers for {_KEYS}: {error!r}"
        ) from error
    # The pts of packets, not of frames, which may come from elsewhere. Frames without a known packet have none.
    own = index.packets.pts[index.frame_packet[index.frame_packet >= 0]]
    if not np.array_equal(claimed, np.sort(own)):
        raise UsageError(
            f"invalid custom frame mappings: they list {len(claimed)} frames, the stream has {len(index)}, "
            "or their pts differ: make the mappings again from this file and stream"
        )


def _read_frames(mappings: Any) -> list[Any]:
    text = mappings.read(_MAX_BYTES + 1) if hasattr(mappings, "read") else mappings
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidMappings(f"custom_frame_mappings: expected JSON as text, bytes or a file object, got {type(text)}")
    if len(text) > _MAX_BYTES:
        raise InvalidMappings(f"invalid custom frame mappings: more than {_MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMappings(f"invalid custom frame mappings: not JSON: {error}") from error
    frames = document.get("frames") if isinstance(document, dict) else None
    if not isinstance(frames, list) or not frames:
        raise InvalidMappings("invalid custom frame mappings: no list of frames under the key 'frames'")
    return frames


def _find_key(frame: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in frame:
            return name
    raise KeyError(" or ".join(names))


Tensor = torch.Tensor
_ADVICE = "ask for fewer frames at once or a smaller size"
_NO_MEMORY = "can't allocate memory"
"""Part of the message of torch's allocator, whose error is a plain RuntimeError."""


class VideoDecoder:
    """Decodes frames of one video into tensors, with the names, arguments and errors of TorchCodec's class.

    Args:
        source: Path, bytes, uint8 tensor of encoded bytes, seekable binary file object, or ``ImageSequence``.
        stream_index: The stream to decode, or None for the best one.
        dimension_order: "NCHW" or "NHWC".
        num_ffmpeg_threads: Number of decoder threads; with 0, FFmpeg chooses it.
        device: None or "cpu".
        seek_mode: "exact" verifies which frames the packets give; "approximate" trusts the packets and is faster to
            open. Frame numbers are exact with either.
        transforms: Resize, CenterCrop and RandomCrop of TorchCodec or torchvision, in order, each any number of times.
            The decoder does a first crop and resize; later steps use its pictures.
        output_dtype: ``torch.uint8`` (also None), or ``torch.float32`` with values from 0 to 1.
        custom_frame_mappings: JSON of the frames' pts, duration and key_frame, as TorchCodec takes it: text, bytes or
            a file object. It must agree with the packets of the stream.
        size: (height, width), the short side, ResizeCrop or LongSide, to resize to.
        crop: (top, left, height, width) in displayed pixels, or a crop rule.
        backend: Name of a decoder, or a decoder.
        frame_index: Frame index of the same source, if you have one.
        limits: Limits on what the file may claim, such as the size of its pictures.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Raises:
        MediaError: The source cannot be read.
        UsageError: An argument is wrong. The error also has the type that TorchCodec raises: ValueError, TypeError or
            RuntimeError.
    """

    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        num_ffmpeg_threads: int = 1,
        device: str | torch.device | None = None,
        seek_mode: Literal["exact", "approximate"] = "exact",
        transforms: Sequence[Any] | None = None,
        output_dtype: torch.dtype | None = None,
        custom_frame_mappings: Any = None,
        size: AnySize | None = None,
        crop: Any = None,
        backend: str | Decoder = "auto",
        frame_index: FrameIndex | None = None,
        limits: Limits | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        if dimension_order not in ("NCHW", "NHWC"):
            raise UsageError(f"dimension_order must be 'NCHW' or 'NHWC', got {dimension_order!r}")
        check_device(device)
        self._dtype = as_dtype(output_dtype)
        bounds = resolve_limits(limits)
        threads = as_thread_count(num_ffmpeg_threads)
        if threads != 1 and backend != "auto":
            raise UsageError(f"num_ffmpeg_threads={threads} needs backend='auto', got backend={backend!r}")
        decoder = backend if threads == 1 else make_auto_decoder(PyAVDecoder(threads=threads, limits=bounds), bounds)
        if seek_mode not in ("exact", "approximate"):
            raise UsageError(f"seek_mode must be 'exact' or 'approximate', got {seek_mode!r}")
        if custom_frame_mappings is not None and seek_mode == "approximate":
            raise UsageError("custom_frame_mappings is incompatible with seek_mode='approximate'")
        verify: Literal["proof", "none"] = "proof" if seek_mode == "exact" else "none"
        media, number = as_source(source), as_stream(stream_index)
        check_frame_index(frame_index)
        index = frame_index or build_index(
            media, verify, stream_index=number, limits=bounds, storage_options=storage_options
        )
        if custom_frame_mappings is not None:
            check_mappings(custom_frame_mappings, index)
        self._steps = as_steps(transforms, size, crop, index.stream.displayed)
        # The order that costs the decoder least: whole pictures with channels last, resized ones in planes.
        self._stored: Literal["NCHW", "NHWC"] = "NHWC" if self._steps.size is None else dimension_order
        self._arrays = ArrayDecoder(
            media,
            stream_index=number,
            dimension_order=self._stored,
            size=self._steps.size,
            crop=None if self._steps.crop is None else FixedCrop(self._steps.crop),
            backend=decoder,
            frame_index=index,
            limits=bounds,
            storage_options=storage_options,
        )
        self._order, self._source = dimension_order, media

    @cached_property
    def metadata(self) -> VideoMetadata:
        """Facts of the stream, under the names of TorchCodec and of framefeed."""
        return as_torchcodec_metadata(self._arrays.metadata)

    @property
    def cpu_fallback(self) -> CpuFallbackStatus:
        """Status of falling back to the CPU: never in this version, which decodes on the CPU only."""
        return CpuFallbackStatus()

    @property
    def stream_index(self) -> int:
        """Number of the decoded stream in its container."""
        return self._arrays.stream_index

    @property
    def frame_index(self) -> FrameIndex:
        """The frame index: times and positions of all frames."""
        return self._arrays.frame_index

    if not TYPE_CHECKING:  # type checkers report names that a class does not have, unless it has this method

        def __getattr__(self, name: str) -> NoReturn:
            raise make_absence(self, name, dir(type(self)))

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        # Not the order of the arrays, see __init__.
        form = f"size={self._steps.size}, crop={self._steps.crop}, dimension_order={self._order!r}"
        return f"{type(self).__name__}({MediaSource.of(self._source).name!r}, {len(self)} frames, {form})"

    def __getitem__(self, key: Any) -> Tensor:
        if not isinstance(key, (slice, Integral)):
            raise WrongKind(f"Unsupported key type: {type(key)}. Supported types are int and slice.")
        return self._as_tensor(self._arrays[key])

    def __iter__(self) -> Iterator[Tensor]:
        return (self._as_tensor(pixels) for pixels in self._arrays)

    def get_frame_at(self, index: int) -> Frame:
        """Decode frame ``index``; see ``framefeed.VideoDecoder.get_frame_at``."""
        return self._as_frame(self._arrays.get_frame_at(as_ordinal(index)))

    def get_frames_at(self, indices: Tensor | Sequence[int]) -> FrameBatch:
        """Decode several frames; see ``framefeed.VideoDecoder.get_frames_at``. A tensor may hold integers as floats."""
        return self._as_batch(self._arrays.get_frames_at(as_ordinals(indices)))

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Decode a range of frames; see ``framefeed.VideoDecoder.get_frames_in_range``.

        Raises:
            RefusedValue: ``stop`` is before ``start``, or ``step`` is negative; a slice may be both.
        """
        frames = clip_slice(slice(start, stop, step), len(self))
        if frames.step < 0 or frames.start > frames.stop:
            raise RefusedValue(
                f"expected start <= stop and step > 0, got {start}, {stop}, {step}: use decoder[start:stop:step]"
            )
        return self._as_batch(self._arrays.get_frames_in_range(start, stop, step))

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Decode the frame shown at a time; see ``framefeed.VideoDecoder.get_frame_played_at``."""
        return self._as_frame(self._arrays.get_frame_played_at(as_scalar(seconds)))

    def get_frames_played_at(self, seconds: Tensor | Sequence[float]) -> FrameBatch:
        """Decode the frames shown at several times; see ``framefeed.VideoDecoder.get_frames_played_at``."""
        return self._as_batch(self._arrays.get_frames_played_at(as_times(seconds)))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Decode the frames shown in a range of time; see ``framefeed.VideoDecoder.get_frames_played_in_range``."""
        start, stop, rate = as_scalar(start_seconds), as_scalar(stop_seconds), as_scalar(fps)
        return self._as_batch(self._arrays.get_frames_played_in_range(start, stop, rate))

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Decode all frames; see ``framefeed.VideoDecoder.get_all_frames``."""
        return self._as_batch(self._arrays.get_all_frames(as_scalar(fps)))

    def close(self) -> None:
        """Release files and decoders; may be called more than once."""
        self._arrays.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _as_tensor(self, pixels: Any) -> Tensor:
        what, nbytes = f"a tensor {list(pixels.shape)} of {self._dtype}", pixels.size * self._dtype.itemsize
        return allocate(lambda: self._convert(pixels), nbytes, what, _ADVICE)

    def _convert(self, pixels: Any) -> Tensor:
        tensor = torch.from_numpy(pixels)
        try:
            if self._steps.rest:
                pictures = tensor if self._stored == "NCHW" else tensor.movedim(-1, -3)
                pictures = self._steps.finish(pictures)
                tensor = (pictures if self._order == "NCHW" else pictures.movedim(-3, -1)).contiguous()
            elif self._stored != self._order:
                tensor = tensor.movedim(-1, -3)
            return tensor if self._dtype is torch.uint8 else tensor.to(torch.float32).div_(255)
        except RuntimeError as error:
            if _NO_MEMORY not in str(error):
                raise
            raise MemoryError(str(error)) from error

    def _as_frame(self, frame: Frame) -> Frame:
        return Frame(self._as_tensor(frame.data), frame.pts_seconds, frame.duration_seconds, frame.indices)

    def _as_batch(self, batch: FrameBatch) -> FrameBatch:
        return FrameBatch(
            self._as_tensor(batch.data),
            torch.from_numpy(batch.pts_seconds),
            torch.from_numpy(batch.duration_seconds),
            cast("Any", torch.from_numpy(np.array(batch.indices))),
        )
