"""VideoClips: the clips of many videos, by one number."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import accumulate
from typing import Any, Self

import torch

from framefeed._callers import find_callers_level
from framefeed._checks import check_integer, check_position, expected, is_number
from framefeed.compat.torchvision._videos import VideoTable
from framefeed.compat.torchvision._windows import Windows
from framefeed.errors import UsageError

Clip = tuple[torch.Tensor, torch.Tensor, dict[str, Any], int]
"""Frames, sound, facts and the number of the video."""
_FORMATS = ("THWC", "TCHW")
_MOST_NAMED = 3
"""Videos named in a warning."""


def check_format(output_format: object) -> str:
    """Check the order of dimensions, and return it in capitals."""
    chosen = output_format.upper() if isinstance(output_format, str) else ""
    if chosen not in _FORMATS:
        raise expected("output_format", "'THWC' or 'TCHW'", output_format)
    return chosen


def order_frames(video: torch.Tensor, output_format: str) -> torch.Tensor:
    """View frames [T, H, W, C] in the order that was asked for."""
    return video.permute(0, 3, 1, 2) if output_format == "TCHW" else video


def make_silence() -> torch.Tensor:
    """Make the sound of a video without sound, float32 [1, 0]."""
    return torch.empty((1, 0), dtype=torch.float32)


class VideoClips:
    """All clips of consecutive frames of a list of videos, with the arguments of torchvision's class.

    All videos are indexed when this is made, and only the frames of a clip are decoded when it is read. A video with
    fewer frames than a clip has none.

    Args:
        video_paths: Paths or URLs of the videos.
        clip_length_in_frames: Frames of a clip.
        frames_between_clips: Frames from the start of a clip to the start of the next.
        frame_rate: Frames per second that the videos are resampled to; None takes every frame.
        _precomputed_metadata: ``metadata`` of an earlier run, in place of indexing the videos.
        num_workers: Number of threads that index the videos; with 0 the calling thread does.
        _video_width: Only 0: there is no resizing.
        _video_height: Only 0.
        _video_min_dimension: Only 0.
        _video_max_dimension: Only 0.
        _audio_samples: Only 0: sound is not decoded.
        _audio_channels: Is not used.
        output_format: Order of the dimensions of a clip, "THWC" or "TCHW".

    Raises:
        UsageError: An argument is wrong, or asks for sound or a size.
    """

    def __init__(
        self,
        video_paths: Sequence[Any],
        clip_length_in_frames: int = 16,
        frames_between_clips: int = 1,
        frame_rate: float | None = None,
        _precomputed_metadata: Mapping[str, Any] | None = None,
        num_workers: int = 0,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _video_max_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        output_format: str = "THWC",
    ) -> None:
        self.output_format = check_format(output_format)
        self.num_workers = check_integer("num_workers", num_workers, least=0)
        sizes = {
            "_video_width": _video_width,
            "_video_height": _video_height,
            "_video_min_dimension": _video_min_dimension,
            "_video_max_dimension": _video_max_dimension,
        }
        for name, value in sizes.items():
            if value:
                raise UsageError(f"{name}: expected 0, got {value!r}: resize clips in transform=, as with PyAV")
        if _audio_samples:
            raise UsageError(
                f"_audio_samples: expected 0, got {_audio_samples!r}: framefeed does not decode sound: read it with "
                "torchcodec.decoders.AudioDecoder, by the path of the video"
            )
        windows = _check_windows(clip_length_in_frames, frames_between_clips, frame_rate)
        if isinstance(video_paths, (str, bytes)):
            raise expected("video_paths", "a list of paths", video_paths)
        self._videos = (
            VideoTable.scan(video_paths, self.num_workers)
            if _precomputed_metadata is None
            else VideoTable.of_metadata(_precomputed_metadata)
        )
        self._place_clips(windows)
        self._warn_of_short()

    def compute_clips(self, num_frames: int, step: int, frame_rate: float | None = None) -> None:
        """Choose other clips of the same videos; no file is read.

        Args:
            num_frames: Frames of a clip.
            step: Frames from the start of a clip to the start of the next.
            frame_rate: Frames per second that the videos are resampled to; None takes every frame.
        """
        self._place_clips(_check_windows(num_frames, step, frame_rate))
        self._warn_of_short()

    def _place_clips(self, windows: Windows) -> None:
        self._windows = windows
        facts = zip(self._videos.num_frames.tolist(), self._videos.fps, strict=True)
        self._num_clips = [windows.count_clips(num_frames, fps) for num_frames, fps in facts]
        self.cumulative_sizes = list(accumulate(self._num_clips))

    def _warn_of_short(self) -> None:
        frames = self._videos.num_frames
        short = [video for video, count in enumerate(self._num_clips) if not count and frames[video]]
        if short:
            named = [f"{self._videos.paths[video]} ({frames[video]} frames)" for video in short[:_MOST_NAMED]]
            warnings.warn(
                f"{len(short)} of {len(frames)} videos have fewer frames than a clip of {self.num_frames}, and are "
                f"left out: {', '.join(named)}{', ...' if len(short) > _MOST_NAMED else ''}",
                UserWarning,
                stacklevel=find_callers_level(),
            )

    @property
    def num_frames(self) -> int:
        """Frames of a clip."""
        return self._windows.size

    @property
    def step(self) -> int:
        """Frames from the start of a clip to the start of the next."""
        return self._windows.step

    @property
    def frame_rate(self) -> float | None:
        """Frames per second that the videos are resampled to, or None."""
        return self._windows.frame_rate

    @property
    def video_paths(self) -> list[str]:
        """Paths of the videos, also of those without clips."""
        return self._videos.paths

    @property
    def video_fps(self) -> list[float | None]:
        """Frames per second of each video; None for one that cannot be read."""
        return self._videos.fps

    @property
    def video_pts(self) -> list[torch.Tensor]:
        """Times of all frames of each video in ticks of its time base, int64 [N] each; made anew by each access."""
        return [self._videos.read_pts(video) for video in range(len(self._videos))]

    @property
    def metadata(self) -> dict[str, Any]:
        """What ``_precomputed_metadata`` takes: paths, times of frames and rates."""
        return {"video_paths": self.video_paths, "video_pts": self.video_pts, "video_fps": self.video_fps}

    @property
    def clips(self) -> list[torch.Tensor]:
        """Times of the frames of each clip of each video, int64 [clips, T] each; made anew by each access."""
        return [self._list_clips(video) for video in range(len(self._videos))]

    @property
    def clips_per_video(self) -> list[int]:
        """Number of clips of each video."""
        return self._num_clips

    def _list_clips(self, video: int) -> torch.Tensor:
        if not self._num_clips[video]:
            return torch.empty((0, self.num_frames), dtype=torch.int64)
        numbers = self._windows.resample_video(int(self._videos.num_frames[video]), self._videos.fps[video])
        resampled = self._videos.read_pts(video)[torch.from_numpy(numbers)]
        return resampled.unfold(0, self.num_frames, self.step)

    def subset(self, indices: Sequence[int]) -> Self:
        """Give the clips of some of the videos, by the numbers of these; nothing is indexed again."""
        part = copy(self)
        part._videos = self._videos.take(indices)
        part._place_clips(self._windows)
        return part

    def __len__(self) -> int:
        return self.num_clips()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_clips()} clips of {self.num_videos()} videos, {self.num_frames} frames "
            f"each, step={self.step}, frame_rate={self.frame_rate}, output_format={self.output_format!r})"
        )

    def num_videos(self) -> int:
        """Return the number of videos, also of those without clips."""
        return len(self._videos)

    def num_clips(self) -> int:
        """Return the number of clips of all videos."""
        return self.cumulative_sizes[-1] if self.cumulative_sizes else 0

    def get_clip_location(self, idx: int) -> tuple[int, int]:
        """Find the number of a clip's video, and the number of the clip in that.

        Raises:
            IndexError: There is no such clip.
        """
        clip = check_position("idx", idx, self.num_clips(), "list of clips")
        video = bisect_right(self.cumulative_sizes, clip)
        return video, clip - (self.cumulative_sizes[video] - self._num_clips[video])

    def get_clip(self, idx: int) -> Clip:
        """Decode the frames of a clip, and no others than these need.

        Returns:
            The frames, uint8 [T, H, W, C] or [T, C, H, W]; empty sound, float32 [1, 0]; a dict with ``video_fps``; and
            the number of the video.

        Raises:
            IndexError: There is no such clip.
            MediaError: The frames cannot be decoded.
        """
        return self.get_clips([idx])[0]

    def get_clips(self, indices: Sequence[int]) -> list[Clip]:
        """Decode several clips, those of one video together; torchvision has no such method.

        Returns:
            What `get_clip` gives, in the order of ``indices``.

        Raises:
            IndexError: There is no such clip.
            MediaError: The frames of one cannot be decoded.
        """
        slots_of: dict[int, list[int]] = {}
        frame_numbers = []
        for slot, idx in enumerate(indices):
            video, clip = self.get_clip_location(idx)
            facts = int(self._videos.num_frames[video]), self._videos.fps[video]
            frame_numbers.append(self._windows.find_frames(clip, *facts))
            slots_of.setdefault(video, []).append(slot)
        clips: dict[int, Clip] = {}
        for video, slots in slots_of.items():
            decoded = self._videos.decode(video, [frame_numbers[slot] for slot in slots])
            rate = self._videos.fps[video] if self.frame_rate is None else self.frame_rate
            for slot, frames in zip(slots, decoded, strict=True):
                info = {} if rate is None else {"video_fps": rate}
                clips[slot] = order_frames(frames, self.output_format), make_silence(), info, video
        return [clips[slot] for slot in range(len(indices))]


def _check_windows(num_frames: object, step: object, frame_rate: object) -> Windows:
    if frame_rate is not None and not (is_number(frame_rate) and 0 < frame_rate < float("inf")):  # type: ignore[operator]
        raise expected("frame_rate", "frames per second above 0, or None", frame_rate)
    return Windows(
        check_integer("clip_length_in_frames", num_frames, least=1),
        check_integer("frames_between_clips", step, least=1),
        frame_rate,  # type: ignore[arg-type]
    )
