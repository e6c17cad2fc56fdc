"""A drop-in for torchcodec.decoders.VideoDecoder: tensors, its keyword arguments with their meaning, exact frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
import torch

from framefeed.adapters.torch.mappings import check_mappings
from framefeed.adapters.torch.transforms import as_steps
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.frames import Frame, FrameBatch
from framefeed.decode.metadata import VideoMetadata
from framefeed.decode.registry import auto_decoder
from framefeed.decode.video_decoder import VideoDecoder as ArrayDecoder
from framefeed.errors import UsageError
from framefeed.index.build import build_index
from framefeed.index.frame_index import FrameIndex
from framefeed.parallel.shortage import allocate

Tensor = torch.Tensor
_DTYPES: dict[object, torch.dtype] = {None: torch.uint8, torch.uint8: torch.uint8, torch.float32: torch.float32}
_ADVICE = "ask for fewer frames at once or a smaller size"
_NO_MEMORY = "can't allocate memory"
"""What torch's allocator says; its error is a RuntimeError like any other."""


class VideoDecoder:
    """Decodes frames of one video into tensors; the names, arguments and errors of TorchCodec's class.

    Args:
        source: Path, bytes, uint8 tensor of encoded bytes, seekable binary file object, or ``ImageSequence``.
        stream_index: The stream to decode, or None for the best one.
        dimension_order: "NCHW" or "NHWC".
        num_ffmpeg_threads: Threads of the decoder; 0 leaves the number to FFmpeg.
        device: None or "cpu".
        seek_mode: "exact" checks the ends of the stream by decoding; "approximate" believes its packets. Either way
            frame i is frame i.
        transforms: TorchCodec's or torchvision's Resize, CenterCrop and RandomCrop, in order.
        output_dtype: ``torch.uint8`` (also None), or ``torch.float32`` with values from 0 to 1.
        custom_frame_mappings: JSON of the frames' pts, duration and key_frame, as TorchCodec takes it: text, bytes or
            a file object. It must agree with the packets of the stream.
        size: (height, width), or the short side, to resize to.
        crop: (top, left, height, width) in displayed pixels, or a crop rule.
        frame_index: A ready index of the same source.

    Raises:
        MediaError: The source cannot be read.
        UsageError: Contradicting arguments (also a ValueError, as TorchCodec's).
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
        frame_index: FrameIndex | None = None,
    ) -> None:
        check_device(device)
        self._dtype = _checked_dtype(output_dtype)
        threads = _checked_threads(num_ffmpeg_threads)
        media = _encoded(source)
        if frame_index is None:
            frame_index = _index(media, stream_index, seek_mode, custom_frame_mappings)
        steps = as_steps(transforms, size, crop, frame_index.stream.displayed)
        self._slices = steps
        self._arrays = ArrayDecoder(
            media,
            dimension_order=dimension_order,
            size=steps.size,
            crop=steps.crop,
            frame_index=frame_index,
            backend="auto" if threads == 1 else auto_decoder(PyAVDecoder(threads=threads)),
        )
        self._order = dimension_order

    @property
    def metadata(self) -> VideoMetadata:
        """Facts of the stream under TorchCodec's names, and ours."""
        return self._arrays.metadata

    @property
    def stream_index(self) -> int:
        """Number of the decoded stream in its container."""
        return self._arrays.stream_index

    @property
    def frame_index(self) -> FrameIndex:
        """Where every frame is."""
        return self._arrays.frame_index

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(self._arrays)

    def __getitem__(self, key: Any) -> Tensor:
        if not isinstance(key, slice) and not hasattr(key, "__index__"):
            raise TypeError(f"Unsupported key type: {type(key)}. Supported types are int and slice.")
        return self._tensor(self._arrays[key])

    def __iter__(self) -> Iterator[Tensor]:
        return (self._tensor(pixels) for pixels in self._arrays)

    def get_frame_at(self, index: int) -> Frame:
        """Decode frame ``index``; see ``framefeed.VideoDecoder.get_frame_at``."""
        return self._frame(self._arrays.get_frame_at(index))

    def get_frames_at(self, indices: Tensor | Sequence[int]) -> FrameBatch:
        """Decode several frames; see ``framefeed.VideoDecoder.get_frames_at``."""
        numbers = indices.tolist() if isinstance(indices, Tensor) else indices
        return self._batch(self._arrays.get_frames_at(numbers))

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Decode a range of frames; see ``framefeed.VideoDecoder.get_frames_in_range``."""
        return self._batch(self._arrays.get_frames_in_range(start, stop, step))

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Decode the frame shown at a time; see ``framefeed.VideoDecoder.get_frame_played_at``."""
        return self._frame(self._arrays.get_frame_played_at(seconds))

    def get_frames_played_at(self, seconds: Tensor | Sequence[float]) -> FrameBatch:
        """Decode the frames shown at several times; see ``framefeed.VideoDecoder.get_frames_played_at``."""
        times = seconds.tolist() if isinstance(seconds, Tensor) else seconds
        return self._batch(self._arrays.get_frames_played_at(times))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Decode what is shown in a range; see ``framefeed.VideoDecoder.get_frames_played_in_range``."""
        return self._batch(self._arrays.get_frames_played_in_range(start_seconds, stop_seconds, fps))

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Decode all frames; see ``framefeed.VideoDecoder.get_all_frames``."""
        return self._batch(self._arrays.get_all_frames(fps))

    def close(self) -> None:
        """Release files and decoders; more than once is fine."""
        self._arrays.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tensor(self, pixels: Any) -> Tensor:
        cut = self._slices.cut(pixels, self._order)
        what, nbytes = f"a tensor {list(cut.shape)} of {self._dtype}", cut.size * self._dtype.itemsize
        return allocate(lambda: self._converted(cut), nbytes, what, _ADVICE)

    def _converted(self, cut: Any) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(cut))
        try:
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


def check_device(device: str | torch.device | None) -> None:
    """Refuse all devices but the CPU."""
    wanted = torch.device(device) if device is not None else torch.get_default_device()
    if wanted.type != "cpu":
        raise UsageError(f"device={str(wanted)!r} is not in this version: use device='cpu' and move the tensors")


def _checked_dtype(dtype: torch.dtype | None) -> torch.dtype:
    if dtype not in _DTYPES:
        raise UsageError(f"output_dtype must be torch.uint8 or torch.float32, not {dtype}")
    return _DTYPES[dtype]


def _checked_threads(threads: int) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 0:
        raise UsageError(f"num_ffmpeg_threads must be a whole number from 0 on, not {threads!r}")
    return threads


def _encoded(source: Any) -> Any:
    if isinstance(source, Tensor):
        if source.dtype != torch.uint8 or source.ndim != 1:
            raise UsageError("a tensor as a source must be flat and uint8: the encoded bytes of a file")
        return source.cpu().numpy().tobytes()
    if not isinstance(source, (str, bytes, bytearray, memoryview)) and not any(
        hasattr(source, name) for name in ("__fspath__", "read", "source", "kind", "as_media_source")
    ):
        raise TypeError(f"Unknown source type: {type(source)}")
    return source


def _index(media: Any, stream_index: int | None, seek_mode: str, mappings: Any) -> FrameIndex:
    if seek_mode not in ("exact", "approximate"):
        raise UsageError(f"seek_mode must be 'exact' or 'approximate', not {seek_mode!r}")
    if mappings is not None and seek_mode == "approximate":
        raise UsageError("custom_frame_mappings is incompatible with seek_mode='approximate'")
    believes = mappings is not None or seek_mode == "approximate"
    index = build_index(media, "none" if believes else "ends", stream_index=stream_index)
    if mappings is not None:
        check_mappings(mappings, index)
    return index
