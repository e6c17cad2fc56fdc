"""VideoDecoder: decode frames of one source as NumPy arrays, exactly and in any order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_choice, expected, refuse_names
from framefeed._nearest import make_absence
from framefeed._values import Limits, MediaInfo, resolve_limits
from framefeed.decode._decoder import ClipSlot, Decoder, Pixels, allocate_pixels
from framefeed.decode._forward import ForwardReader
from framefeed.decode._frames import Frame, FrameBatch, VideoMetadata, make_metadata
from framefeed.decode._queries import (
    WrongKind,
    check_ordinal,
    check_ordinals,
    clip_slice,
    find_frame_at,
    find_frames_at,
    find_frames_in_range,
    require_times,
    resample_frames,
)
from framefeed.decode._registry import as_decoder, check_kind
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, Timeline, has_picture_files, index_media, probe
from framefeed.media import (
    MediaSource,
    StorageOptions,
    check_storage_options,
    describe_picture_stream,
    read_stream_details,
)
from framefeed.request import (
    AnySize,
    Crop,
    Filter,
    FixedCrop,
    PictureRule,
    StillQuality,
    as_crop,
    explain_small_proxy,
)

_OTHER_ARGUMENTS = {
    **dict.fromkeys(("width", "height"), "use size=(height, width)"),
    **dict.fromkeys(
        ("device", "num_ffmpeg_threads", "seek_mode"), "ff.torch.VideoDecoder has the arguments of TorchCodec's class"
    ),
    "ctx": "leave it out, framefeed decodes on the CPU",
    "num_threads": "leave it out; ff.ClipLoader decodes many clips at once",
}
"""Arguments of decord's VideoReader and TorchCodec's VideoDecoder -> what to write here."""


class VideoDecoder:
    """Decode frames of one video, by number or by time.

    ``len()``, ``[i]``, ``[a:b:c]`` and iteration work as on a sequence of pictures, each uint8 [C, H, W] (or
    [H, W, C]). The methods return Frame and FrameBatch, which also have times. Frame numbers may come in any order, be
    repeated, and be negative (counted from the end). The frames of one call are decoded together, each group of
    pictures once.

    Args:
        source: Path, bytes, seekable binary file object, `ImageSequence`, or catalog entry. A still picture has one
            frame, at 0 s.
        stream_index: The stream to decode, or None for the best one.
        dimension_order: "NCHW" (default) or "NHWC".
        size: (height, width), the short side, ResizeCrop or LongSide, to resize to; None keeps the size.
        crop: (top, left, height, width) in displayed pixels, or ``CenterCrop(h, w)``; applied before ``size``.
        backend: Name of a decoder, or a decoder; "auto" is "pyav" for videos and "still" for pictures.
        frame_index: An index of the same source; None calls ``build_index(source)``.
        still_quality: "exact" decodes JPEG picture files at full size; "scaled" decodes them at 1/2, 1/4 or 1/8 of it
            where that is at least twice ``size``, as plans do by default.
        filter: Of the resize, "bilinear" or "bicubic"; see ``plan_clips``.
        limits: Largest sizes that the file may have, checked before memory is allocated; None is ``Limits()``.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Raises:
        MediaError: The source cannot be read; see ``probe``.
        UsageError: An argument is wrong, or two arguments contradict each other.
    """

    @refuse_names("VideoDecoder", _OTHER_ARGUMENTS)
    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        source: Any,
        *,
        stream_index: int | None = None,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        size: AnySize | None = None,
        crop: Crop | Sequence[int] | None = None,
        backend: str | Decoder = "auto",
        frame_index: FrameIndex | None = None,
        still_quality: StillQuality = "exact",
        filter: Filter = "bilinear",
        limits: Limits | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        check_storage_options(storage_options)
        check_choice("dimension_order", dimension_order, ("NCHW", "NHWC"))
        rule = PictureRule(size, as_crop(crop), still_quality, filter)
        check_frame_index(frame_index)
        self._limits = resolve_limits(limits)
        # A decoder object keeps its own limits; these are then for the index alone.
        self._decoder = as_decoder(backend, self._limits if isinstance(backend, str) else None)
        self._source = MediaSource.of(source, storage_options, limits=self._limits)
        self._info: MediaInfo | None = None
        given = frame_index or getattr(source, "frame_index", None)
        if given is None:
            self._info, given = index_media(self._source, stream_index=stream_index, limits=self._limits, warns=True)
        elif stream_index not in (None, given.stream.stream_index):
            raise UsageError(
                f"stream_index: expected {given.stream.stream_index}, the stream of frame_index, or None; "
                f"got {stream_index}"
            )
        self._index: FrameIndex = given
        check_kind(self._decoder, given, self._source.name)
        # A decoder has no epoch and no position: a random crop is drawn once.
        height, width = given.stream.displayed
        output = rule.decoder_output(height, width)
        # A FixedCrop is no argument of users: ff.torch.VideoDecoder gives it, after its own warning.
        if not isinstance(crop, FixedCrop) and (remark := rule.explain_enlarging(height, width)) is not None:
            warnings.warn(remark, UserWarning, stacklevel=3)  # behind the check of names
        if given.stream.is_proxy:
            enlarging = rule.find_enlarging((height, width), given.stream.upright)
            if enlarging is not None:
                raise UsageError(explain_small_proxy(self._source.name, given.stream.upright, *enlarging))
        self._output = replace(output, dimension_order=dimension_order)
        self._forward = ForwardReader(self._decoder, self._source, given, self._output)
        self._is_closed = False

    @property
    def frame_index(self) -> FrameIndex:
        """The index of all frames of the source."""
        return self._index

    @property
    def stream_index(self) -> int:
        """Number of the decoded stream in its container."""
        return self._index.stream.stream_index

    @cached_property
    def metadata(self) -> VideoMetadata:
        """Facts of the stream: size, rate, duration, codec; see `VideoMetadata`."""
        if has_picture_files(self._index):
            details = describe_picture_stream(self._info or probe(self._source, limits=self._limits))
        else:
            details = read_stream_details(self._source, self.stream_index, self._limits)
        return make_metadata(self._index, details)

    if not TYPE_CHECKING:  # type checkers report names that a class does not have, unless it has this method

        def __getattr__(self, name: str) -> NoReturn:
            raise make_absence(self, name, dir(type(self)))

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source.name!r}, {len(self)} frames, {self._output})"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._decode_frames(_to_array(clip_slice(key, len(self))))
        return self._read_frame(check_ordinal(self._index, key, self._source.name))

    def __iter__(self) -> Iterator[Any]:
        return (self._read_frame(number) for number in range(len(self)))

    def get_frame_at(self, index: int) -> Frame:
        """Decode frame ``index``; a negative number counts from the end.

        Raises:
            FrameNotFound: There is no such frame.
            CorruptMedia: The frame cannot be decoded without damage.
        """
        return self._make_frame(check_ordinal(self._index, index, self._source.name))

    def get_frames_at(self, indices: Any) -> FrameBatch:
        """Decode several frames in the order of ``indices``, repeats allowed; errors as ``get_frame_at``."""
        return self._make_batch(check_ordinals(self._index, indices, self._source.name))

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Decode the frames of ``range(start, stop, step)``, clipped to the video as a slice is.

        Raises:
            UsageError: ``step`` is 0.
        """
        return self._make_batch(_to_array(clip_slice(slice(start, stop, step), len(self))))

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Decode the frame shown at a time on the stream's timeline.

        Raises:
            FrameNotFound: Nothing is shown at that time.
            TimeUnavailable: The stream has no usable timestamps.
        """
        return self._make_frame(find_frame_at(self._index, seconds, self._source.name))

    def get_frames_played_at(self, seconds: Any) -> FrameBatch:
        """Decode the frames shown at several times; errors as ``get_frame_played_at``."""
        return self._make_batch(find_frames_at(self._index, seconds, self._source.name))

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Decode the frames shown in [start, stop).

        Args:
            start_seconds: Time on the stream's timeline; the frame shown at this time is the first.
            stop_seconds: Frames that begin at or after this time are left out.
            fps: None decodes every frame. A number decodes the frames shown at start + k / fps: (stop - start) * fps
                frames, rounded, with these times as ``pts_seconds``.

        Raises:
            UsageError: The range does not lie inside the stream, or ``fps`` is not a finite number above 0.
        """
        if fps is None:
            return self._make_batch(find_frames_in_range(self._index, start_seconds, stop_seconds, self._source.name))
        numbers, times, durations = resample_frames(self._index, start_seconds, stop_seconds, fps, self._source.name)
        return FrameBatch(self._decode_frames(numbers), times, durations, numbers)

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Decode all frames, or with ``fps`` the frames shown every 1 / fps seconds."""
        if fps is None:
            return self._make_batch(np.arange(len(self), dtype=np.int64))
        require_times(self._index, self._source.name)
        return self.get_frames_played_in_range(*Timeline.whole(self._index).span_seconds, fps)

    def close(self) -> None:
        """Release files and decoders; may be called more than once. After that, no frame can be decoded."""
        self._is_closed = True
        self._forward.close()

    def __reduce__(self) -> NoReturn:
        raise WrongKind(
            f"{self._source.name}: a VideoDecoder cannot be pickled or sent to another process: send the path or the "
            "catalog entry, and make a VideoDecoder from it there"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_frame(self, number: int) -> Pixels:
        self._check_open()
        return self._forward.read(number)

    def _decode_frames(self, numbers: IntArray) -> Pixels:
        self._check_open()
        shape = len(numbers), *self._output.shape(*self._index.stream.displayed)
        what = f"{self._source.name}: {len(numbers)} frames {list(shape)}"
        out = allocate_pixels(shape, what, "ask for fewer frames at once or a smaller size", self._source.name)
        if len(numbers):
            slot = ClipSlot(numbers, self._output, out)
            self._decoder.decode(self._source, self._index, [slot]).raise_first()
        return out

    def _make_frame(self, number: int) -> Frame:
        pts, duration = self._find_times(np.array([number], dtype=np.int64))
        return Frame(self._read_frame(number), float(pts[0]), float(duration[0]), number)

    def _make_batch(self, numbers: IntArray) -> FrameBatch:
        return FrameBatch(self._decode_frames(numbers), *self._find_times(numbers), numbers)

    def _find_times(self, numbers: IntArray) -> tuple[FloatArray, FloatArray]:
        index = self._index
        ticks = index.pts[numbers]
        following = index.pts[np.minimum(numbers + 1, len(index) - 1)]
        gap = following - ticks if index.has_timestamps else np.zeros_like(ticks)
        shown = np.where(index.duration[numbers] > 0, index.duration[numbers], gap)
        shown = np.where(shown > 0, shown, index.step if index.has_timestamps else 0)
        seconds = shown * float(index.time_base)
        return index.to_seconds(ticks), np.where(shown > 0, seconds, np.nan)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"{self._source.name}: this VideoDecoder is closed: make a new one to decode more frames")


def check_frame_index(frame_index: object) -> None:
    """Check that an argument is a FrameIndex or None."""
    if frame_index is not None and not isinstance(frame_index, FrameIndex):
        raise expected("frame_index", "a FrameIndex (from ff.build_index) or None", frame_index)


def _to_array(frames: range) -> IntArray:
    return np.arange(frames.start, frames.stop, frames.step, dtype=np.int64)
