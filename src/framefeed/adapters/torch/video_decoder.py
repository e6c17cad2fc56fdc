"""A drop-in replacement for torchcodec.decoders.VideoDecoder: tensors, the same arguments, exact frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, Literal, Self, cast

import numpy as np
import torch

from framefeed._cached import cached_property
from framefeed.adapters.torch.arguments import (
    as_ordinal,
    as_ordinals,
    as_scalar,
    as_source,
    as_times,
    checked_device,
    checked_dtype,
    checked_stream,
    checked_threads,
)
from framefeed.adapters.torch.facts import CpuFallbackStatus, in_torchcodecs_words
from framefeed.adapters.torch.mappings import check_mappings
from framefeed.adapters.torch.transforms import as_steps
from framefeed.decode.asking import RefusedValue, WrongKind, frame_range
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.decoder import Decoder
from framefeed.decode.frames import Frame, FrameBatch
from framefeed.decode.metadata import VideoMetadata
from framefeed.decode.registry import auto_decoder
from framefeed.decode.video_decoder import VideoDecoder as ArrayDecoder
from framefeed.decode.video_decoder import check_frame_index
from framefeed.errors import UsageError
from framefeed.index.build import build_index
from framefeed.index.frame_index import FrameIndex
from framefeed.media.limits import Limits, limits_or_default
from framefeed.media.source import MediaSource
from framefeed.parallel.shortage import allocate

Tensor = torch.Tensor
_ADVICE = "ask for fewer frames at once or a smaller size"
_NO_MEMORY = "can't allocate memory"
"""What torch's allocator says; its error is a RuntimeError like any other."""


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
        size: (height, width), or the short side, to resize to.
        crop: (top, left, height, width) in displayed pixels, or a crop rule.
        backend: Name of a decoder, or a decoder.
        frame_index: Frame index of the same source, if you have one.
        limits: Limits on what the file may claim, such as the size of its pictures.

    Raises:
        MediaError: The source cannot be read.
        UsageError: An argument is wrong. The error also has the type that TorchCodec raises: ValueError, TypeError or
            RuntimeError.
    """

    def __init__(
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
        size: tuple[int, int] | int | None = None,
        crop: Any = None,
        backend: str | Decoder = "auto",
        frame_index: FrameIndex | None = None,
        limits: Limits | None = None,
    ) -> None:
        if dimension_order not in ("NCHW", "NHWC"):
            raise UsageError(f"dimension_order must be 'NCHW' or 'NHWC', got {dimension_order!r}")
        checked_device(device)
        self._dtype = checked_dtype(output_dtype)
        bounds = limits_or_default(limits)
        decoder = _backend(backend, checked_threads(num_ffmpeg_threads), bounds)
        verify = _verify(seek_mode, custom_frame_mappings)
        media, number = as_source(source), checked_stream(stream_index)
        check_frame_index(frame_index)
        index = frame_index or build_index(media, verify, stream_index=number, limits=bounds)
        if custom_frame_mappings is not None:
            check_mappings(custom_frame_mappings, index)
        self._steps = as_steps(transforms, size, crop, index.stream.displayed)
        # As decoders give them: whole pictures with channels last, resized ones in planes.
        self._stored: Literal["NCHW", "NHWC"] = "NHWC" if self._steps.size is None else dimension_order
        self._arrays = ArrayDecoder(
            media,
            stream_index=number,
            dimension_order=self._stored,
            size=self._steps.size,
            crop=self._steps.crop,
            backend=decoder,
            frame_index=index,
            limits=bounds,
        )
        self._order, self._source = dimension_order, media

    @cached_property
    def metadata(self) -> VideoMetadata:
        """Facts of the stream, under the names of TorchCodec and of framefeed."""
        return in_torchcodecs_words(self._arrays.metadata)

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

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        # Not that of the arrays, which are stored in the order that costs least.
        form = f"size={self._steps.size}, crop={self._steps.crop}, dimension_order={self._order!r}"
        return f"{type(self).__name__}({MediaSource.of(self._source).name!r}, {len(self)} frames, {form})"

    def __getitem__(self, key: Any) -> Tensor:
        if not isinstance(key, (slice, Integral)):
            raise WrongKind(f"Unsupported key type: {type(key)}. Supported types are int and slice.")
        return self._tensor(self._arrays[key])

    def __iter__(self) -> Iterator[Tensor]:
        return (self._tensor(pixels) for pixels in self._arrays)

    def get_frame_at(self, index: int) -> Frame:
        """Decode frame ``index``; see ``framefeed.VideoDecoder.get_frame_at``."""
        return self._frame(self._arrays.get_frame_at(as_ordinal(index)))

    def get_frames_at(self, indices: Tensor | Sequence[int]) -> FrameBatch:
        """Decode several frames; see ``framefeed.VideoDecoder.get_frames_at``. A tensor may hold integers as floats."""
        return self._batch(self._arrays.get_frames_at(as_ordinals(indices)))

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Decode a range of frames; see ``framefeed.VideoDecoder.get_frames_in_range``.

        Raises:
            RefusedValue: ``stop`` is before ``start``, or ``step`` is negative; a slice may be both.
        """
        frames = frame_range(slice(start, stop, step), len(self))
        if frames.step < 0 or frames.start > frames.stop:
            raise RefusedValue(
                f"expected start <= stop and step > 0, got {start}, {stop}, {step}: use decoder[start:stop:step]"
            )
        return self._batch(self._arrays.get_frames_in_range(start, stop, step))

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Decode the frame shown at a time; see ``framefeed.VideoDecoder.get_frame_played_at``."""
        return self._frame(self._arrays.get_frame_played_at(as_scalar(seconds)))

    def get_frames_played_at(self, seconds: Tensor | Sequence[float]) -> FrameBatch:
        """Decode the frames shown at several times; see ``framefeed.VideoDecoder.get_frames_played_at``."""
        return self._batch(self._arrays.get_frames_played_at(as_times(seconds)))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Decode the frames shown in a range of time; see ``framefeed.VideoDecoder.get_frames_played_in_range``."""
        start, stop, rate = as_scalar(start_seconds), as_scalar(stop_seconds), as_scalar(fps)
        return self._batch(self._arrays.get_frames_played_in_range(start, stop, rate))

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Decode all frames; see ``framefeed.VideoDecoder.get_all_frames``."""
        return self._batch(self._arrays.get_all_frames(as_scalar(fps)))

    def close(self) -> None:
        """Release files and decoders; may be called more than once."""
        self._arrays.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tensor(self, pixels: Any) -> Tensor:
        what, nbytes = f"a tensor {list(pixels.shape)} of {self._dtype}", pixels.size * self._dtype.itemsize
        return allocate(lambda: self._converted(pixels), nbytes, what, _ADVICE)

    def _converted(self, pixels: Any) -> Tensor:
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

    def _frame(self, frame: Frame) -> Frame:
        return Frame(self._tensor(frame.data), frame.pts_seconds, frame.duration_seconds, frame.indices)

    def _batch(self, batch: FrameBatch) -> FrameBatch:
        return FrameBatch(
            self._tensor(batch.data),
            torch.from_numpy(batch.pts_seconds),
            torch.from_numpy(batch.duration_seconds),
            cast("Any", torch.from_numpy(np.array(batch.indices))),
        )


def _backend(backend: str | Decoder, threads: int, limits: Limits) -> str | Decoder:
    if threads == 1:
        return backend
    if backend != "auto":
        raise UsageError(f"num_ffmpeg_threads={threads} needs backend='auto', got backend={backend!r}")
    return auto_decoder(PyAVDecoder(threads=threads, limits=limits), limits)


def _verify(seek_mode: str, mappings: Any) -> Literal["proof", "none"]:
    if seek_mode not in ("exact", "approximate"):
        raise UsageError(f"seek_mode must be 'exact' or 'approximate', got {seek_mode!r}")
    if mappings is not None and seek_mode == "approximate":
        raise UsageError("custom_frame_mappings is incompatible with seek_mode='approximate'")
    return "proof" if seek_mode == "exact" else "none"
