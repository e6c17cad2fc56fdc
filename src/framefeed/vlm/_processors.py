"""Read rule and size of a processor, ask it for frames, and count its tokens: by its attributes, whatever its class."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_integer, expected
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import Timeline
from framefeed.plan import EpochPlan, WholeVideo
from framefeed.request import ClipContext, Filter, PixelBudget, Size
from framefeed.vlm._metadata import USUAL_FPS

_FILTERS: dict[int, Filter] = {2: "bilinear", 3: "bicubic"}
"""Filters by their numbers in Pillow, which ``resample`` of a processor has."""
_OWN_SIZE = "give plan_clips size=None, load_video rule= and no processor=, and the processor do_resize=True"


def get_video_processor(processor: Any) -> Any:
    """Return the part of a processor that is for videos, or itself."""
    found = getattr(processor, "video_processor", processor)
    if not hasattr(found, "size") or not hasattr(found, "sample_frames"):
        raise expected("processor", "a processor with a video_processor, or a video processor", processor)
    return found


def rules(
    processor: Any,
    *,
    fps: float | None = None,
    min_frames: int | None = None,
    max_frames: int | None = None,
    batch_size: int | None = None,
) -> tuple[WholeVideo, PixelBudget | Size]:
    """Read which frames a processor samples, and the size that it gives them, as values of ``plan_clips``.

    They are for ``processor(..., do_sample_frames=False, do_resize=False)``. The frames are those on the screen at the
    rate, not those at ``index / average rate``; of files of constant rate they are as many. T is a multiple of
    ``temporal_patch_size``, unless the processor itself samples others, and pads them by repeating the last frame.

    Args:
        processor: Of a video language model, or its video processor; it is not kept.
        fps: Frames per second; None for the processor's own, or 2.
        min_frames: Least T; None for the processor's own, or 1.
        max_frames: Most T; None for the processor's own, or any.
        batch_size: Clips in a call. Processors that stack videos take several only if all have one T.

    Returns:
        The rule, and the size: `PixelBudget`, or (height, width).

    Raises:
        UsageError: None of these values gives its sizes, it stacks videos of different T, or its rate depends on the
            duration and ``fps`` is not given.
    """
    video = get_video_processor(processor)
    rule = find_rule(video, fps, min_frames, max_frames)
    size = find_size(video)
    if isinstance(size, tuple) and rule.num_frames is None and batch_size != 1:
        count = getattr(video, "num_frames", None) or rule.max_frames or 32
        raise UsageError(
            f"{type(video).__name__} gives all pictures one size, and stacks the videos of a call, which must have one "
            f"number of frames: plan with ff.Uniform({count}) and size={size}; or call it for one clip at a time, and "
            "give batch_size=1 here"
        )
    return rule, size


def find_rule(video: Any, fps: float | None, min_frames: int | None, max_frames: int | None) -> WholeVideo:
    """Find the rule of a video processor; what is given comes before its own values."""
    if fps is None and getattr(video, "max_duration", None):
        raise UsageError(
            f"{type(video).__name__} samples long videos at another rate than short ones: give fps=, or plan with "
            "ff.vlm.AsTrained(processor)"
        )
    multiple = getattr(video, "temporal_patch_size", None) or 1
    if _samples_any_count(video, multiple):
        multiple = 1
    rate = fps if fps is not None else getattr(video, "fps", None) or USUAL_FPS
    most = max_frames if max_frames is not None else getattr(video, "max_frames", None)
    least = min_frames if min_frames is not None else getattr(video, "min_frames", None) or 1
    if most is not None and min_frames is None:
        least = min(least, check_integer("max_frames", most, least=1))
    return WholeVideo(rate, min_frames=least, max_frames=most, multiple=multiple)


def _samples_any_count(video: Any, multiple: int) -> bool:
    """Whether a video processor samples counts that are no multiples: it is asked for 9.5 seconds at 2 a second."""
    facts = {"total_num_frames": 190, "fps": 20.0, "duration": 9.5, "width": 64, "height": 64}
    try:
        return len(video.sample_frames(metadata=make_metadata(facts), fps=2)) % multiple != 0
    except (AttributeError, TypeError, ValueError):  # it needs other facts
        return False


def find_size(video: Any) -> PixelBudget | Size:
    """Find the size that a video processor gives pictures."""
    size = video.size
    height, width, shortest, longest = (
        _read(size, name) for name in ("height", "width", "shortest_edge", "longest_edge")
    )
    patch, merge = getattr(video, "patch_size", None), getattr(video, "merge_size", None)
    name = type(video).__name__
    if getattr(video, "do_center_crop", None) or getattr(video, "do_resize", True) is False:
        raise UsageError(f"{name} crops pictures, or does not resize them: {_OWN_SIZE}, if it resizes")
    if height and width:
        return int(height), int(width)
    if not (shortest and longest and patch and merge):
        raise UsageError(f"the size {size} of {name} is none that ff.PixelBudget or (height, width) say: {_OWN_SIZE}")
    multiple, capped = patch * merge, bool(getattr(video, "cap_pixels_per_frame", None))
    most = int(getattr(video, "max_video_tokens", 0) * multiple * multiple) if capped else None
    if _is_of_clip(video, multiple, longest):
        budget = PixelBudget(multiple, max_pixels=most, min_total=shortest, max_total=longest)
    else:
        # As qwen-vl-utils: 0.9 of so many tokens, each of temporal_patch_size pictures.
        total = None if most is None else int(most * 0.9) * (getattr(video, "temporal_patch_size", None) or 1)
        budget = PixelBudget(multiple, shortest, longest, max_total=total)
    _check_sizes(video, budget, capped)
    return budget


def _read(size: Any, name: str) -> int | None:
    value = size.get(name) if isinstance(size, Mapping) else getattr(size, name, None)
    return None if value is None else int(value)


def _is_of_clip(video: Any, multiple: int, longest: int) -> bool:
    """Whether the longest "edge" is a number of pixels of a clip, T * H * W, or of a picture."""
    count = getattr(video, "get_num_of_video_patches", None)
    if count is None:
        return False
    # Of a square that fills the budget at T = 2; at T = 64 it has fewer patches a frame, if the budget is of the clip.
    side = max(1, int((longest / 2) ** 0.5) // multiple) * multiple
    return int(count(64, side, side, {})) != 32 * int(count(2, side, side, {}))


_ASKED = ((2, 480, 640), (16, 720, 1280), (64, 1080, 1920), (64, 1920, 1080), (4, 90, 120))


def _check_sizes(video: Any, budget: PixelBudget, capped: bool) -> None:
    """Compare a budget with the sizes that a video processor gives, if PyTorch, which it needs for that, is there."""
    torch, resize = sys.modules.get("torch"), getattr(video, "resize", None)
    if torch is None or resize is None:
        return
    options = {"factor": budget.multiple, "temporal_factor": getattr(video, "temporal_patch_size", None) or 1}
    options |= {"cap_pixels_per_frame": True} if capped else {}
    for length, height, width in _ASKED:
        own = budget.for_frames(length).fit(height, width)[0]
        meta = torch.empty((1, length, 3, height, width), device="meta")
        try:
            given = tuple(
                resize(meta, size=video.size, resample=getattr(video, "resample", None), **options).shape[-2:]
            )
        except (TypeError, ValueError, RuntimeError) as error:
            given = f"{type(error).__name__}: {error}"  # type: ignore[assignment]
        if own != given:
            raise UsageError(
                f"{type(video).__name__} resizes {length} frames of {height} x {width} to {given}, and {budget} to "
                f"{own}: {_OWN_SIZE}"
            )


def find_filter(processor: Any) -> Filter:
    """Find the ``filter=`` of a plan with which pictures are resized as by a processor; of one that says none, bicubic.

    Raises:
        UsageError: It resizes by another filter.
    """
    video = get_video_processor(processor)
    number = getattr(video, "resample", None)
    name = "bicubic" if number is None else _FILTERS.get(int(number))
    if name is None:
        raise UsageError(
            f"resample={number!r} of {type(video).__name__} is neither bilinear nor bicubic: {_OWN_SIZE}, or give "
            "filter= here"
        )
    return name


def make_metadata(values: Mapping[str, Any]) -> Any:
    """Make the object that processors read facts of a video from: of their own class, if their library is there."""
    module = sys.modules.get("transformers.video_utils")
    return SimpleNamespace(**values) if module is None else module.VideoMetadata(**values)


def sample_frames(sample: Any, timeline: Timeline, **arguments: Any) -> IntArray:
    """Ask a function of a processor's library for frame numbers of a timeline, int64 [T], below their count N.

    Some give N itself at the end, by rounding; a warning says that N - 1 is taken then.
    """
    index, count = timeline.index, len(timeline)
    seconds = (timeline.end_pts - timeline.origin) * index.time_base
    height, width = index.stream.displayed
    facts = {
        "total_num_frames": count,
        "fps": float(count / seconds) if seconds > 0 else USUAL_FPS,
        "width": width,
        "height": height,
        "duration": float(seconds),
        "video_backend": "framefeed",
    }
    try:
        sampled = sample(metadata=make_metadata(facts), **arguments)
    except TypeError as error:  # as some do where they have no rate of their own
        raise UsageError(f"the processor cannot choose frames ({error}): give fps= or num_frames=") from error
    except (ValueError, ZeroDivisionError) as error:
        raise FrameNotFound(f"the processor cannot choose among {count} frames: {error}") from error
    chosen = np.array([int(number) for number in sampled], dtype=np.int64)
    if len(chosen) and chosen.max() >= count:
        warnings.warn(
            f"the processor asks for frame {chosen.max()} of {count} frames, which there is not: it gets the last one",
            UserWarning,
            stacklevel=2,
        )
    return np.minimum(chosen, count - 1)


@dataclass(frozen=True, eq=False)
class AsTrained:
    """The frames that a processor samples by itself: for models that were trained on frames by number.

    Its ``sample_frames`` is called with the exact number of frames, rate and duration of each video; of files whose
    rate varies, the frames are at other seconds than the model was told in training, which `metadata` says.

    Example: ``ff.plan_clips(catalog, ff.vlm.AsTrained(processor, fps=2), unequal=True, ...)``

    Args:
        processor: Of a video language model, or its video processor, which is pickled with the plan.
        arguments: Of its ``sample_frames``, such as fps or num_frames.
    """

    processor: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    num_frames: ClassVar[None] = None
    needs_times: ClassVar[bool] = True

    def __init__(self, processor: Any, **arguments: Any) -> None:
        object.__setattr__(self, "processor", get_video_processor(processor))
        object.__setattr__(self, "arguments", arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_rule, (self.processor, self.arguments))

    @cached_property
    def _text(self) -> str:
        kind, values = type(self.processor), self.processor.to_dict()
        version = getattr(sys.modules.get(kind.__module__.partition(".")[0]), "__version__", "")
        digest = blake2b(json.dumps(values, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
        return f"{kind.__name__} {version} {digest}".replace("  ", " ")

    def __repr__(self) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in sorted(self.arguments.items()))
        return f"AsTrained({self._text}{arguments})"

    def choose(self, timeline: Timeline, context: ClipContext) -> IntArray:
        """Choose the frames of one clip."""
        return sample_frames(self.processor.sample_frames, timeline, **self.arguments)


def _restore_rule(processor: Any, arguments: dict[str, Any]) -> AsTrained:
    """Make a rule again; pickles of plans name this function."""
    return AsTrained(processor, **arguments)


def count_tokens(plan: EpochPlan, processor: Any) -> IntArray:
    """Count the tokens that the pictures of each position become, int64 [len(plan)], before anything is decoded.

    They are T * H * W by the patches of the processor that are merged, or its tokens of each frame; those of texts,
    such as seconds and marks, come to them.

    Raises:
        UsageError: The processor does not say how many they are, or sides of pictures are not multiples of its patches.
    """
    video = get_video_processor(processor)
    shapes = np.array(plan.shapes(), dtype=np.int64).reshape(-1, 3)
    patch, merge = getattr(video, "patch_size", None), getattr(video, "merge_size", None)
    each = getattr(processor, "image_seq_length", None)
    if patch and merge:
        step = check_integer("patch_size * merge_size", patch * merge, least=1)
        if (odd := (shapes[:, 1:] % step != 0).any(axis=1)).any():
            shape = shapes[odd.argmax()].tolist()
            raise UsageError(
                f"pictures of {shape[1]} x {shape[2]} (position {int(odd.argmax())}) are no multiples of {step}, as "
                f"{type(video).__name__} needs them with do_resize=False: plan with the size of ff.vlm.rules(processor)"
            )
        lengths = -(-shapes[:, 0] // (getattr(video, "temporal_patch_size", None) or 1))
        tokens: IntArray = lengths * (shapes[:, 1] // step) * (shapes[:, 2] // step)
        return tokens
    if each:
        return shapes[:, 0] * check_integer("image_seq_length", each, least=1)
    raise UsageError(
        f"{type(processor).__name__} does not say the tokens of a video: it has neither patch_size and merge_size nor "
        "image_seq_length: count those of its results"
    )
