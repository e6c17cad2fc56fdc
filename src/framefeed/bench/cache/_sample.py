"""The frames that ``bench cache`` stores and reads: some of a video, spread over all of it, decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framefeed._cached import cached_property
from framefeed.bench._frames import NUM_FRAMES, SEED, spread_ordinals
from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import Rounds
from framefeed.decode import Converter, Pixels, PlaneLayout, copy_planes, describe_layout
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import FramefeedError, MissingMedia, UsageError
from framefeed.index import probe
from framefeed.plan import Dense, EpochPlan, plan_clips
from framefeed.request import OutputSpec, RandomResizedCrop
from framefeed.scanning import scan

FULL_SIZE = OutputSpec(dimension_order="NHWC")
"""As files of pictures have it."""
BATCHED = OutputSpec()
"""Full size too, channels first, as batches have it: what a decoder is asked for."""
STRIDE = 24
MAX_BYTES = 800 * 10**6
"""Of RGB: more frames than that are not held."""
_AHEAD_PIXELS = 4000 * 1280 * 720
"""Pixels decoded at most to reach the frames of a sample, about: half a minute where groups of pictures are long."""


@dataclass(frozen=True, slots=True, eq=False)
class SampleFrame:
    """One frame in every form that a cache may be asked for.

    As displayed, uint8 [H, W, 3]; its planes as the decoder gave them, uint8 [layout.nbytes]; and as the decoder path
    gives it at the output's size, uint8 [3, h, w].
    """

    ordinal: int
    rgb: Pixels
    layout: PlaneLayout
    planes: Pixels
    small: Pixels


@dataclass(frozen=True, eq=False)
class Sample:
    """Some frames of one video."""

    video: BenchVideo
    frames: Sequence[SampleFrame]
    output: OutputSpec

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def size(self) -> str:
        """The output's size, as people write it."""
        return "" if self.output.size is None else "x".join(map(str, self.output.size))

    @property
    def share(self) -> float:
        """Frames of the sample, of all that the video has."""
        return len(self.frames) / len(self.video)

    @cached_property
    def order(self) -> list[int]:
        """Places in the sample, as an epoch that is shuffled would ask for them; the same each time."""
        chance = np.random.Generator(np.random.Philox(key=len(self.frames)))
        return list(map(int, chance.permutation(len(self.frames))))


def take_sample(video: BenchVideo, count: int, size: tuple[int, int], rounds: Rounds) -> Sample:
    """Decode frames from the middle of equal parts of a video."""
    stream = video.index.stream
    output = OutputSpec(size=size)
    most = max(1, MAX_BYTES // (3 * stream.width * stream.height))
    converter = Converter()
    frames = []
    for ordinal, picture in PyAVDecoder().iter_native(video.source, video.index, near_keys(video, min(count, most))):
        rounds.check_time_to_make("the frames of a sample")
        layout = describe_layout(picture)
        rgb = np.empty((*stream.displayed, 3), dtype=np.uint8)
        small = np.empty((3, *size), dtype=np.uint8)
        planes = np.empty(layout.nbytes, dtype=np.uint8)
        converter.write(picture, stream, FULL_SIZE, rgb)
        converter.write(picture, stream, output, small)
        copy_planes(picture, planes)
        frames.append(SampleFrame(ordinal, rgb, layout, planes, small))
    if not frames:
        raise MissingMedia(f"{video.path.name}: no frame can be decoded: name another video")
    return Sample(video, sorted(frames, key=lambda frame: frame.ordinal), output)


def near_keys(video: BenchVideo, count: int) -> list[int]:
    """Ordinals spread over a video, moved towards the key frames before them where decoding as far takes too long."""
    index = video.index
    chosen = np.array(spread_ordinals(len(index), count), dtype=np.int64)
    keys = np.union1d(index.key_frame_indices, 0)
    group = np.searchsorted(keys, chosen, side="right") - 1
    distance = chosen - keys[group]
    groups = np.unique(group)
    furthest = np.array([distance[group == number].max() for number in groups])
    frames = _AHEAD_PIXELS // max(1, index.stream.width * index.stream.height)
    if furthest.sum() > frames:
        most = max(1, frames // len(groups))
        shrunk = np.minimum(furthest, most) / np.maximum(furthest, 1)
        distance = (distance * shrunk[np.searchsorted(groups, group)]).astype(np.int64)
    return list(map(int, np.unique(keys[group] + distance)))


def plan_random_clips(
    video: BenchVideo, clips: int, size: tuple[int, int] | None, crop: RandomResizedCrop | None = None
) -> EpochPlan:
    """Plan clips of 16 frames 24 apart with random starts; nearer to each other where the video is short."""
    rule = Dense(NUM_FRAMES, stride=max(1, min(STRIDE, (len(video) - 1) // NUM_FRAMES)))
    catalog = scan(str(video.path), progress=False)
    return plan_clips(catalog, rule, clips_per_video=clips, seed=SEED, shuffle=False, size=size, crop=crop)


def video_of(media: Sequence[Path], work: Path, rounds: Rounds) -> BenchVideo:
    """Choose the first of the user's videos that can be read, or make one where none is named."""
    for video in MediaStore(media, work, rounds).iter_own():
        if not is_picture(video.path):
            return video
    raise MissingMedia("MEDIA has no video that can be read: name a video, or a folder with one")


def refuse_pictures(media: Sequence[Path]) -> None:
    """Raise UsageError where nothing but pictures is named."""
    if media and all(map(is_picture, media)):
        raise UsageError(f"{media[0]}: expected a video, got a picture")


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, by its content."""
    try:
        return probe(path).kind == "image"
    except FramefeedError:
        return False
