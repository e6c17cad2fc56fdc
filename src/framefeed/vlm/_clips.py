"""Load the frames of one video for a processor, with the seconds at which they are on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from framefeed._arrays import AnyArray, FloatArray, IntArray
from framefeed._checks import check_choice
from framefeed._values import Limits
from framefeed.decode import Decoder, VideoDecoder, require_times
from framefeed.errors import UsageError
from framefeed.index import Timeline, build_index, count_seconds, find_end_seconds, read_seconds
from framefeed.media import MediaSource, StorageOptions
from framefeed.plan import ClipRule, choose_by, open_window
from framefeed.request import AnySize, ClipContext, Filter, PictureRule, read_bounds
from framefeed.vlm._metadata import Origin, describe_frames
from framefeed.vlm._processors import (
    find_filter,
    find_rule,
    find_size,
    get_video_processor,
    make_metadata,
    sample_frames,
)


@dataclass(frozen=True, slots=True, eq=False)
class VideoClip:
    """Frames of one video, which unpack to (frames, metadata).

    Attributes:
        frames: uint8 [T, C, H, W].
        metadata: As `metadata` gives it for a batch.
        indices: Frame numbers, int64 [T].
        seconds: From the video's first frame, float64 [T]: those at which the frames were requested.
        pts_seconds: Time of each frame on the stream's timeline, float64 [T].
        end_seconds: When the last frame leaves the screen, from the video's first frame; NaN if it is not known.
    """

    frames: AnyArray
    metadata: dict[str, Any]
    indices: IntArray
    seconds: FloatArray
    pts_seconds: FloatArray
    end_seconds: float

    def __iter__(self) -> Iterator[Any]:
        return iter((self.frames, self.metadata))

    def __repr__(self) -> str:
        return f"VideoClip(frames {list(self.frames.shape)}, {self.seconds[0]:.3f} s to {self.seconds[-1]:.3f} s)"


def load_video(  # noqa: PLR0913 - public: what its users ask for
    video: Any,
    *,
    processor: Any = None,
    fps: float | None = None,
    min_frames: int | None = None,
    max_frames: int | None = None,
    start: float | None = None,
    end: float | None = None,
    origin: Origin = "video",
    rule: ClipRule | None = None,
    size: AnySize | None = None,
    filter: Filter | None = None,
    backend: str | Decoder = "auto",
    limits: Limits | None = None,
    storage_options: StorageOptions | None = None,
) -> VideoClip:
    """Load the frames of a video, or of a part of it, that a processor of a video language model takes.

    They are those of ``plan_clips`` with the same rule, size and filter, byte for byte; give the processor
    ``do_sample_frames=False`` and ``do_resize=False``.

    Example::

        clip = ff.vlm.load_video("video.mp4", processor=processor, fps=2, max_frames=64)
        processor(text=[prompt], videos=[clip.frames], video_metadata=[clip.metadata], do_sample_frames=False,
                  do_resize=False)

    Args:
        video: Path, URL, bytes, `ImageSequence`, or catalog entry.
        processor: Of the model, or its video processor: gives rule, size and filter as `rules` does.
        fps: Frames per second; None for the processor's own, or 2.
        min_frames: Least number of frames; None for the processor's own, or 1.
        max_frames: Most frames; None for the processor's own, or any.
        start: Begin of the part in seconds from the first frame; None for that of the video.
        end: Its end; None for that of the video.
        origin: What the seconds of ``metadata`` count from: "video", or "window" for the first of them.
        rule: A clip rule, in place of the processor's and of fps, min_frames and max_frames.
        size: Of the pictures, as of ``plan_clips``, in place of the processor's; None without a processor keeps it.
        filter: "bilinear" or "bicubic"; None for the processor's, or bicubic.
        backend: Name of a decoder, or a decoder.
        limits: What the file may claim; None for the defaults.
        storage_options: What servers need, by URL prefix, such as keys or headers.

    Raises:
        MediaError: The video cannot be read, or a frame is damaged.
        TimeUnavailable: It has no usable times.
        FrameNotFound: The part begins at or after the video's end.
        UsageError: Arguments contradict each other; or as for `rules`.
    """
    check_choice("origin", origin, ("video", "window"))
    if rule is not None and (fps, min_frames, max_frames) != (None, None, None):
        raise UsageError("give either rule=, or fps=, min_frames= and max_frames=, but not both")
    own = None if processor is None else get_video_processor(processor)
    if rule is None:
        rule = find_rule(own, fps, min_frames, max_frames)
    if size is None and own is not None:
        size = find_size(own)
    source = MediaSource.of(video, storage_options, limits=limits)
    index = build_index(video, limits=limits, storage_options=storage_options)
    require_times(index, source.name)
    timeline = open_window(index, rule, *read_bounds("start, end", start, end))
    chosen = choose_by(rule, timeline, ClipContext(0, 0, 0))
    if filter is None:
        filter = "bicubic" if own is None else find_filter(own)
    decoder = VideoDecoder(
        source,
        size=PictureRule(size).for_frames(len(chosen.ordinals)).size,
        filter=filter,
        frame_index=index,
        still_quality="scaled",
        backend=backend,
        limits=limits,
    )
    return load_frames(decoder, chosen.ordinals, chosen.seconds, origin)


def load_frames(
    decoder: VideoDecoder, ordinals: IntArray, seconds: FloatArray | None = None, origin: Origin = "video"
) -> VideoClip:
    """Decode frames that were requested at some seconds, float64 [T], or by number, and close the decoder."""
    index = decoder.frame_index
    with decoder:
        frames = decoder.get_frames_at(ordinals).data
    if seconds is None:
        seconds = count_seconds(index, ordinals)
    end_seconds = find_end_seconds(index, int(ordinals[-1]))
    facts = describe_frames(seconds, end_seconds, frames.shape[-2:], origin)
    return VideoClip(frames, facts, ordinals, seconds, read_seconds(index, ordinals), end_seconds)


def fetch_videos(video_url_or_urls: Any, sample_indices_fn: Callable[..., Any] | None = None) -> Any:
    """Load videos in place of a video processor's own function: its frames by number and its size, exact seconds.

    For scripts that give a processor paths: ``processor.video_processor.fetch_videos = ff.vlm.fetch_videos``. The
    processor chooses the frames, from the exact number of frames, rate and duration, and resizes them.

    Args:
        video_url_or_urls: A path or URL, or lists of them.
        sample_indices_fn: Function of the processor that chooses frame numbers; None for all frames.

    Returns:
        (frames, metadata) of a video, uint8 [T, C, H, W]; of a list, the list of all frames and that of all metadata.

    Raises:
        MediaError: A video cannot be read, or a frame is damaged.
        TimeUnavailable: It has no usable times.
    """
    if isinstance(video_url_or_urls, list):
        return list(zip(*(fetch_videos(each, sample_indices_fn) for each in video_url_or_urls), strict=True))
    source = MediaSource.of(video_url_or_urls)
    index = build_index(source)
    require_times(index, source.name)
    ordinals = np.arange(len(index), dtype=np.int64)
    if sample_indices_fn is not None:
        ordinals = sample_frames(sample_indices_fn, Timeline.whole(index))
    clip = load_frames(VideoDecoder(source, frame_index=index), ordinals)
    return clip.frames, make_metadata(clip.metadata)
