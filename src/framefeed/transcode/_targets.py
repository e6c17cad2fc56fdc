"""What a run writes: videos made of segments, or images; one segment's output at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import xxhash

from framefeed._arrays import ByteArray
from framefeed._files import raise_file_error
from framefeed.encode import SEGMENT_CONTAINER, VideoOptions, VideoTags, VideoWriter, make_still_name, save_still
from framefeed.errors import UsageError
from framefeed.transcode._pictures import draw_mosaic, take_pictures
from framefeed.transcode._results import FrameFault, name_frame, read_fault
from framefeed.transcode._segments import Segment
from framefeed.transcode._timetable import Timetable

PICTURE = "{picture}"
"""In the name of an output: the number of a picture, of which the function returns several for a frame."""

_BLOCK = 1 << 20
_NUMBER = re.compile(r"_\d+\.[a-z]+$")  # of one of several images of a frame, and the ending


def list_existing(out: str) -> list[str]:
    """List the files at the path of a video; with ``{picture}`` in it, those of any number."""
    folder, name = os.path.split(out)
    if PICTURE not in name or not os.path.isdir(folder or os.curdir):
        return [out] if os.path.isfile(out) else []
    pattern = re.compile(re.escape(name).replace(re.escape(PICTURE), "[0-9]+"))
    paths = (os.path.join(folder, each) for each in sorted(os.listdir(folder or os.curdir)) if pattern.fullmatch(each))
    return [path for path in paths if os.path.isfile(path)]


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """What a worker has written for a segment."""

    number: int
    num_pictures: int = 0  # pictures in each of its videos, or images
    count: int = 0  # pictures of each frame, 0 if no frame has any
    # (height, width) of the pictures of a video; None for images, and without a picture.
    size: tuple[int, int] | None = None
    frame: int = -1  # number of the first frame that has a picture; -1 if none has
    # Files in the work folder, one for each video, with the hash of their bytes; or images, with their sizes.
    files: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[FrameFault, ...] = ()  # frames that could not be decoded, or for which the function failed

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        fields = {name: getattr(self, name) for name in ("number", "num_pictures", "count", "size", "frame")}
        return {**fields, "files": dict(self.files), "faults": [fault.to_json() for fault in self.faults]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild it; any error means that the values are damaged."""
        size = values["size"]
        return cls(
            number=int(values["number"]),
            num_pictures=int(values["num_pictures"]),
            count=int(values["count"]),
            size=None if size is None else (int(size[0]), int(size[1])),
            frame=int(values["frame"]),
            files={str(name): str(digest) for name, digest in values["files"].items()},
            faults=tuple(read_fault(fault) for fault in values["faults"]),
        )


@dataclass(frozen=True, slots=True)
class VideoTarget:
    """Videos."""

    path: str  # the output; with ``{picture}`` in its name, one for each picture of a frame
    options: VideoOptions
    tags: VideoTags
    rate: Fraction | None
    # (height, width) of the source's frames: only pictures of this size have its sample aspect ratio.
    displayed: tuple[int, int]

    def name_output(self, number: int) -> str:
        """Return the path of the video of one picture of each frame."""
        folder, name = os.path.split(self.path)
        return os.path.join(folder, name.replace(PICTURE, str(number)))

    def list_existing(self, times: Timetable) -> list[str]:
        """List the files that would be replaced."""
        return list_existing(self.path)

    def check(self, result: Any) -> list[ByteArray]:
        """Return the pictures of one frame: one for each video."""
        pictures = take_pictures(result)
        has_several = PICTURE in os.path.basename(self.path)
        return pictures if has_several or not pictures else [draw_mosaic(pictures)]

    def open(self, segment: Segment, times: Timetable, folder: str) -> SegmentVideos:
        """Begin the output of one segment, in the work folder."""
        return SegmentVideos(self, segment, times, folder)


class SegmentVideos:
    """Takes the pictures of one segment, and writes a video for each picture of a frame."""

    def __init__(self, target: VideoTarget, segment: Segment, times: Timetable, folder: str) -> None:
        self._target, self._times, self._folder, self._number = target, times, folder, segment.number
        self._writers: dict[str, VideoWriter] = {}
        self._size: tuple[int, int] | None = None
        self._frame = -1
        self._num_pictures = 0

    def add(self, position: int, pictures: Sequence[ByteArray]) -> None:
        """Write the pictures of one frame, at one position of the timetable."""
        frame = int(self._times.ordinals[position])
        if self._size is None:
            self._frame, self._size = frame, pictures[0].shape[:2]
            for number in range(len(pictures)):
                self._open(f"{self._number:06d}-{number}.{SEGMENT_CONTAINER}", self._size)
        first = self._frame, len(self._writers), self._size
        for picture in pictures:
            check_alike(first, (frame, len(pictures), picture.shape[:2]))
        for writer, picture in zip(self._writers.values(), pictures, strict=True):
            writer.write(picture, int(self._times.pts[position]), int(self._times.durations[position]))
        self._num_pictures += 1

    def _open(self, name: str, size: tuple[int, int]) -> None:
        target, tags = self._target, self._target.tags
        if size != target.displayed:
            tags = VideoTags(tags.primaries, tags.transfer, tags.space, tags.range)
        self._writers[name] = VideoWriter(
            os.path.join(self._folder, name),
            target.options,
            tags,
            self._times.time_base,
            container=SEGMENT_CONTAINER,
            rate=target.rate,
        )

    def finish(self, faults: Sequence[FrameFault]) -> SegmentRecord:
        """Finish the files, and describe them."""
        files = {}
        for name, writer in self._writers.items():
            writer.close()
            files[name] = hash_file(os.path.join(self._folder, name))
        return SegmentRecord(
            self._number, self._num_pictures, len(files), self._size, self._frame, files, tuple(faults)
        )

    def discard(self) -> None:
        """Remove unfinished files."""
        for writer in self._writers.values():
            writer.discard()


def check_alike(first: tuple[int, int, tuple[int, int]], other: tuple[int, int, tuple[int, int]]) -> None:
    """Check that two frames, (number, number of pictures, their (height, width)), have as many pictures of one size.

    Raises:
        UsageError: They differ; the message names the frames.
    """
    frame, count, size = other
    if count != first[1]:
        raise UsageError(
            f"the function gave {count} pictures for frame {frame}, and {first[1]} for frame {first[0]}: with "
            f"{PICTURE} in the name of the output, each frame needs the same number"
        )
    if size != first[2]:
        raise UsageError(
            f"the function gave a picture of {size[1]} x {size[0]} pixels (width x height) for frame {frame}, and "
            f"of {first[2][1]} x {first[2][0]} for frame {first[0]}: a video has one size"
        )


@dataclass(frozen=True, slots=True)
class ImageTarget:
    """Images in a folder."""

    path: str
    folder: str
    suffix: str
    quality: int
    are_numbered: bool  # whether names have the number of the picture, as with ``fps``, in place of the frame's

    def name(self, frame: int, position: int, seconds: float, suffix: str) -> str:
        """Name an image of a frame, at one position of the timetable."""
        return make_still_name(position if self.are_numbered else frame, seconds, suffix)

    def list_existing(self, times: Timetable) -> list[str]:
        """List the files that would be replaced."""
        there = [name for name in sorted(os.listdir(self.folder)) if name.endswith(self.suffix)]
        facts = enumerate(zip(times.ordinals.tolist(), times.pts_seconds.tolist(), strict=True)) if there else ()
        stems = {self.name(frame, position, seconds, "") for position, (frame, seconds) in facts}
        named = [name for name in there if not stems.isdisjoint((name[: -len(self.suffix)], _NUMBER.sub("", name)))]
        return [os.path.join(self.folder, name) for name in named]

    def check(self, result: Any) -> list[ByteArray]:
        """Return the pictures of one frame: one for each image."""
        return take_pictures(result)

    def open(self, segment: Segment, times: Timetable, folder: str) -> SegmentImages:
        """Begin the output of one segment, which does not need the work folder."""
        return SegmentImages(self, segment, times)


class SegmentImages:
    """Takes the pictures of one segment, and writes each as an image."""

    def __init__(self, target: ImageTarget, segment: Segment, times: Timetable) -> None:
        self._target, self._times, self._number = target, times, segment.number
        self._files: dict[str, str] = {}
        self._count = 0
        self._frame = -1

    def add(self, position: int, pictures: Sequence[ByteArray]) -> None:
        """Write the pictures of one frame, at one position of the timetable."""
        target, frame = self._target, int(self._times.ordinals[position])
        if self._frame < 0:
            self._frame, self._count = frame, len(pictures)
        seconds = float(self._times.pts_seconds[position])
        for number, picture in enumerate(pictures):
            suffix = target.suffix if len(pictures) == 1 else f"_{number}{target.suffix}"
            name = target.name(frame, position, seconds, suffix)
            try:
                size = save_still(os.path.join(target.folder, name), picture, target.quality)
            except UsageError as error:
                raise UsageError(f"{name_frame(frame, seconds)}: {error}") from error
            self._files[name] = str(size)

    def finish(self, faults: Sequence[FrameFault]) -> SegmentRecord:
        """Describe the files."""
        return SegmentRecord(self._number, len(self._files), self._count, None, self._frame, self._files, tuple(faults))

    def discard(self) -> None:
        """Do nothing: finished images stay, and each appears whole."""


Target = VideoTarget | ImageTarget
SegmentOutput = SegmentVideos | SegmentImages


def hash_file(path: str) -> str:
    """Hash the bytes of a file."""
    digest = xxhash.xxh3_64()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise_file_error(error, path, "read")
    return digest.hexdigest()
