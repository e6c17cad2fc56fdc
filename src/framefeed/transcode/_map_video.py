"""map_video: pass every frame of a video through a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from time import perf_counter
from typing import Any, Literal, overload

import numpy as np

from framefeed._checks import check_progress, expected, name_callable, showing_progress
from framefeed._files import write_errors
from framefeed._names import check_local_path
from framefeed.decode import describe_recipe
from framefeed.encode import (
    QUALITY,
    VideoOptions,
    VideoTags,
    check_video_output,
    find_still_format,
    join_segments,
    read_ffmpeg_versions,
    resolve_video,
)
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, has_picture_files, index_media
from framefeed.media import MediaSource, VideoContainer, parse_rate, read_stream_details
from framefeed.parallel import raise_shortage
from framefeed.transcode._folder import WorkFolder, has_unfinished_run
from framefeed.transcode._iterating import MapIterator
from framefeed.transcode._options import Kind, OnError, UserFunction, WorkerOptions
from framefeed.transcode._reading import DECODER
from framefeed.transcode._results import MapResult
from framefeed.transcode._running import SegmentRun
from framefeed.transcode._segments import plan_segments
from framefeed.transcode._targets import PICTURE, ImageTarget, Target, VideoTarget
from framefeed.transcode._timetable import Timetable, check_known, check_rising, make_timetable
from framefeed.transcode._working import MapJob

Progress = bool | Callable[[int, int], object] | None

_FORMAT = 1
"""Version of work folders, and of how segments are planned and written."""


@overload
def map_video(
    source: Any,
    function: Callable[..., Any],
    out: None = None,
    *,
    workers: int | Literal["auto"] = ...,
    kind: Kind = ...,
    setup: Callable[[], Any] | None = ...,
    fps: float | Fraction | None = ...,
    batch_size: int | None = ...,
    on_error: OnError = ...,
    deadline_seconds: float | None = ...,
) -> MapIterator: ...
@overload
def map_video(
    source: Any,
    function: Callable[..., Any],
    out: str | os.PathLike[str],
    *,
    workers: int | Literal["auto"] = ...,
    kind: Kind = ...,
    setup: Callable[[], Any] | None = ...,
    codec: str | None = ...,
    quality: int | None = ...,
    pixel_format: str | None = ...,
    gop: int | None = ...,
    fps: float | Fraction | None = ...,
    audio: bool = ...,
    batch_size: int | None = ...,
    on_error: OnError = ...,
    deadline_seconds: float | None = ...,
    resume: bool = ...,
    overwrite: bool = ...,
    progress: Progress = ...,
) -> MapResult: ...
def map_video(  # noqa: PLR0913 - public: what its users ask for
    source: Any,
    function: Callable[..., Any],
    out: str | os.PathLike[str] | None = None,
    *,
    workers: int | Literal["auto"] = "auto",
    kind: Kind = "threads",
    setup: Callable[[], Any] | None = None,
    codec: str | None = None,
    quality: int | None = None,
    pixel_format: str | None = None,
    gop: int | None = None,
    fps: float | Fraction | None = None,
    audio: bool = False,
    batch_size: int | None = None,
    on_error: OnError = "raise",
    deadline_seconds: float | None = 60,
    resume: bool = True,
    overwrite: bool = False,
    progress: Progress = None,
) -> MapIterator | MapResult:
    """Pass every frame of a video through a function, and write the results in order or iterate over them.

    Args:
        source: Path, bytes, URL, `ImageSequence`, or catalog entry.
        function: Called as ``function(frame, *, index, pts_seconds)`` with a frame uint8 [H, W, 3], which it may
            change, its number, and its time. It returns a picture (uint8 [H, W, 3]), a list of pictures, or None for no
            picture; without ``out``, anything.
        out: A video (.mp4, .mov, .mkv, .webm, .avi), which appears whole or not at all; several pictures of a frame
            are drawn side by side, or with ``{picture}`` in its name each has a video of its own. Or a folder, for
            images. None returns an iterator.
        workers: Number of calls at once; 0 works in the calling thread; "auto" is the thread budget of the process.
        kind: "threads", or "processes" for functions that hold the interpreter's lock.
        setup: Called once in each worker; the function gets what it returns as ``state=``.
        codec: Codec of the video, or format of the images: "png", "jpg" or "webp".
        quality: Quality of the codec, see `VideoOptions`; of JPEG and WebP images 1 to 100.
        pixel_format: Pixel format of the video.
        gop: Largest distance of key frames.
        fps: Pictures a second, each of the frame that is played then; None keeps the frames' own times.
        audio: Copy the first audio stream.
        batch_size: Call the function with up to so many frames, uint8 [N, H, W, 3], index int64 [N] and pts_seconds
            float64 [N]; it returns a list of N results.
        on_error: "raise" stops at a frame for which the function fails, "skip" leaves it out, "keep" writes the frame
            itself.
        deadline_seconds: Longest time for one call of the function, or None.
        resume: Continue a run of the same settings that was interrupted; its finished segments are kept.
        overwrite: Replace files that are there. Else they are refused, unless they are empty, or a run that writes this
            output was interrupted.
        progress: True shows a progress bar, False none; None shows it if standard error is a terminal. Or a function,
            which is called with the number of pictures that are done, and of all.

    Returns:
        What was written; without ``out``, a `MapIterator` of `MappedFrame`.

    Raises:
        LoadError: The function failed; ``position`` is the number of the frame.
        WorkerLost: A worker process died twice at one frame.
        DeadlineExceeded: A frame took too long.
        UsageError: An argument is wrong, the function returned something else than pictures, or the output cannot be
            written.
        MediaError: The source cannot be read; see ``probe``.
        ResourceExhausted: Memory, descriptors or threads ran out.
    """
    began = perf_counter()
    user = UserFunction(function, setup, batch_size, on_error)
    options = WorkerOptions(workers, kind, deadline_seconds)
    if options.are_processes:
        user.check_sendable()
    rate = None if fps is None else parse_rate(fps)
    for name, value in {"audio": audio, "resume": resume, "overwrite": overwrite}.items():
        if not isinstance(value, bool):
            raise expected(name, "True or False", value)
    check_progress(progress)
    coding = {"codec": codec, "quality": quality, "pixel_format": pixel_format, "gop": gop}
    if out is None:
        given = [name for name, value in {**coding, "audio": audio or None}.items() if value is not None]
        if given:
            raise UsageError(f"{given[0]}: without out=, nothing is written: name an output, or leave it out")
    else:
        out = check_local_path("out", out, "out.mp4")
    media, index = _open_source(source)
    times = make_timetable(index, rate, media.name)
    if out is None:
        return MapIterator(media, index, times, user, options)
    settings = {"coding": coding, "fps": rate and str(rate), "audio": audio}
    try:
        target = _make_target(out, media, index, times, settings)
        identity = _make_identity(media, index, target, user, settings)
        images = target.folder if isinstance(target, ImageTarget) else None
        for path in target.list_existing(times):
            _check_other(media, path)
            if os.path.getsize(path) and not overwrite and not has_unfinished_run(target.path):
                raise UsageError(
                    f"{path}: this file is already there, and is not overwritten: choose another output, or allow it "
                    "with overwrite=True (--overwrite)"
                )
        with WorkFolder(target.path, identity, resume=resume, images=images) as folder:
            job = MapJob(media, index, times, plan_segments(times, index), user, target, folder.path)
            resumed = [job.segments[number] for number in folder.records]
            num_resumed = sum(len(np.unique(times.ordinals[each.first : each.stop])) for each in resumed)
            with showing_progress(len(times), progress) as show:
                SegmentRun(job, options, folder, show).run()
                show(len(times))
            return _finish(job, folder, num_resumed, began, audio=audio)
    except MemoryError as error:
        raise_shortage(error, media.name, "map")
        raise


def _open_source(source: Any) -> tuple[MediaSource, FrameIndex]:
    media = MediaSource.of(source)
    if media.kind == "file":
        raise UsageError(
            f"{media.name}: several workers cannot read one file object: give its path, or its bytes, file.read()"
        )
    index = getattr(source, "frame_index", None)
    if index is not None and index.stream.is_proxy:
        raise UsageError(
            f"{media.name}: is a proxy, whose pictures are smaller than the original's: map the entry of the catalog "
            "of the originals",
            source=media.name,
        )
    return media, index_media(media)[1] if index is None else index


def _make_target(
    out: str, media: MediaSource, index: FrameIndex, times: Timetable, settings: Mapping[str, Any]
) -> VideoTarget | ImageTarget:
    coding, audio = settings["coding"], settings["audio"]
    folder, name = os.path.split(out)
    if PICTURE in folder:
        raise UsageError(f"out: expected {PICTURE} in the name of the file, not of its folder, got {out!r}")
    if not name or os.path.isdir(out) or "." not in name.lstrip("."):
        return _make_image_target(out, media, settings)
    check_known(index, media.name)
    check_rising(times, media.name)
    given = VideoOptions(**coding)
    audio_codec = aspect = None
    if audio and not has_picture_files(index):
        with VideoContainer(media) as container:
            if container.first_audio is not None:
                audio_codec = container.first_audio.codec_context.codec.canonical_name
    check_video_output(out, given, is_variable_frame_rate=times.is_variable, audio_codec=audio_codec)
    if not has_picture_files(index):
        aspect = read_stream_details(media, index.stream.stream_index).pixel_aspect_ratio
    options, tags = resolve_video(out, given, VideoTags.of(index.stream, aspect))
    target = VideoTarget(out, options, tags, times.rate, index.stream.displayed)
    _check_other(media, target.name_output(0))
    return target


def _check_other(media: MediaSource, path: str) -> None:
    """Check that an output is not the source, also by a link."""
    own = media.local_path
    if own is not None and os.path.exists(path) and os.path.samefile(path, own):
        raise UsageError(f"out: {path} is the source itself: choose another name")


def _make_image_target(out: str, media: MediaSource, settings: Mapping[str, Any]) -> ImageTarget:
    coding = settings["coding"]
    for name in ("pixel_format", "gop", "audio"):
        if {**coding, "audio": settings["audio"] or None}[name] is not None:
            raise UsageError(f"{name}: is for videos, and {out!r} is a folder of images: name a file such as out.mp4")
    suffix = f".{coding['codec'] or 'png'}"
    form = find_still_format(f"codec={coding['codec']!r}: image{suffix}")
    quality = QUALITY if coding["quality"] is None else coding["quality"]
    if form == "PNG" and coding["quality"] is not None:
        raise UsageError('quality: PNG is lossless and takes none: leave it out, or use codec="jpg" or "webp"')
    if not isinstance(quality, int) or isinstance(quality, bool) or not 1 <= quality <= 100:
        raise expected("quality", "1 to 100", quality)
    folder = os.path.abspath(out)
    if media.kind == "sequence" and os.path.isdir(folder):
        inside = getattr(getattr(media, "sequence", None), "folder", None)
        if inside is not None and os.path.samefile(inside, folder):
            raise UsageError(f"out: {out} is the folder of the source itself: choose another one")
    with write_errors(folder):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
    return ImageTarget(out, folder, suffix, quality, are_numbered=settings["fps"] is not None)


def _make_identity(
    media: MediaSource, index: FrameIndex, target: Target, user: UserFunction, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe all that the segments depend on, but the function's code."""
    identity = index.identity or media.identity()
    return {
        "format": _FORMAT,
        "versions": read_ffmpeg_versions(),
        "decoder": describe_recipe(DECODER, index),
        "source": [
            media.kind,
            media.name if media.is_remote else media.path or media.name,  # a URL may be signed anew
            identity.fingerprint,
            index.stream.stream_index,
            len(index),
        ],
        "target": type(target).__name__,
        "function": user.name,
        "setup": user.setup and name_callable(user.setup),
        "batch_size": user.batch_size,
        "on_error": user.on_error,
        **settings,
    }


def _finish(job: MapJob, folder: WorkFolder, num_resumed: int, began: float, *, audio: bool) -> MapResult:
    """Join the segments, delete the work folder, and describe what was written."""
    records = [folder.records[segment.number] for segment in job.segments]
    target, outputs = job.target, [""]
    has_audio = audio and not has_picture_files(job.index)
    if isinstance(target, VideoTarget):
        written = [record for record in records if record.files]
        if not written:
            raise UsageError(f"{job.source.name}: no frame has a picture, and a video needs at least one")
        outputs = []
        for number in range(written[0].count):
            outputs.append(target.name_output(number))
            _check_other(job.source, outputs[-1])
            segments = [folder.find(record, number) for record in written]
            join_segments(segments, outputs[-1], audio_from=job.source if has_audio else None)
    elif isinstance(target, ImageTarget):
        outputs = [target.path]
    faults = tuple(fault for record in records for fault in record.faults)
    folder.remove()
    return MapResult(
        tuple(outputs),
        job.times.num_frames,
        sum(record.num_pictures for record in records),
        num_resumed,
        faults,
        perf_counter() - began,
    )
