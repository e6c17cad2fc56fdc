"""Call the user's function on frames, and turn its errors into framefeed's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framefeed._arrays import ByteArray, FloatArray
from framefeed.decode import Pixels
from framefeed.errors import FramefeedError, LoadError
from framefeed.parallel import Err, catch_error, raise_shortage
from framefeed.transcode._options import UserFunction
from framefeed.transcode._pictures import split_batch
from framefeed.transcode._results import Action, FrameFault, add_context, describe_fault, name_frame

STAGE = "function"


@dataclass(frozen=True, slots=True, eq=False)
class FrameOutcome:
    """What came of one frame."""

    frame: int
    result: Any  # what the function returned for it, checked by `FrameCaller`; the frame itself if it was kept
    fault: FrameFault | None = None  # why it failed or could not be decoded; None if neither

    @property
    def is_skipped(self) -> bool:
        """Whether there is no result."""
        return self.fault is not None and self.fault.action == "skipped"


class FrameCaller:
    """Calls the user's function in one worker; it runs ``setup`` at once.

    Args:
        check: Converts the result for one frame; it raises UsageError if it is not acceptable.

    Raises:
        LoadError: ``setup`` failed.
    """

    def __init__(
        self,
        user: UserFunction,
        source: str,
        pts_seconds: FloatArray,
        check: Callable[[Any], Any] | None = None,
    ) -> None:
        self._user = user
        self._source = source
        self._pts_seconds = pts_seconds
        self._check = check
        self._state: dict[str, Any] = {}
        if user.setup is not None:
            self._state["state"] = self._set_up(user.setup)

    def _set_up(self, setup: Callable[[], Any]) -> Any:
        outcome = catch_error(lambda _: setup(), None)
        if not isinstance(outcome, Err):
            return outcome.value
        error = outcome.error
        raise_shortage(error, self._source, "setup")
        if isinstance(error, FramefeedError):
            raise error
        raise LoadError(f"setup raised {type(error).__name__}: {error}", source=self._source, stage="setup") from error

    def __call__(self, frames: Sequence[int], pixels: Sequence[Pixels]) -> list[FrameOutcome]:
        """Call the function for the frames of one call, at most ``batch_size``, each uint8 [H, W, 3].

        Its error is raised if ``on_error`` is "raise", as LoadError unless it is ours; a shortage is always raised.
        """
        originals = [each.copy() for each in pixels] if self._user.on_error == "keep" else []
        outcome = catch_error(lambda _: self._call(frames, pixels), None)
        if not isinstance(outcome, Err):
            return [FrameOutcome(*pair) for pair in zip(frames, outcome.value, strict=True)]
        try:
            return self._handle(outcome.error, frames, originals)
        finally:
            del outcome

    def _call(self, frames: Sequence[int], pixels: Sequence[Pixels]) -> list[Any]:
        function = self._user.function
        if self._user.batch_size is None:
            seconds = float(self._pts_seconds[frames[0]])
            results = [function(pixels[0], index=frames[0], pts_seconds=seconds, **self._state)]
        else:
            index = np.array(frames, dtype=np.int64)
            returned = function(np.stack(pixels), index=index, pts_seconds=self._pts_seconds[index], **self._state)
            results = split_batch(returned, len(frames))
        return results if self._check is None else [self._check(result) for result in results]

    def _handle(
        self, error: BaseException, frames: Sequence[int], originals: Sequence[ByteArray]
    ) -> list[FrameOutcome]:
        raise_shortage(error, self._source, STAGE)
        if self._user.on_error == "raise":
            raise self._make_error(error, frames) from error
        action: Action = "kept" if originals else "skipped"
        faults = [describe_fault(each, float(self._pts_seconds[each]), "function", error, action) for each in frames]
        # The result of a frame that is written is a list of pictures.
        kept: list[Any] = [[original] if self._check else original for original in originals]
        results = kept or [None] * len(frames)
        return [FrameOutcome(*parts) for parts in zip(frames, results, faults, strict=True)]

    def _make_error(self, error: BaseException, frames: Sequence[int]) -> FramefeedError:
        name = name_frame(frames[0], float(self._pts_seconds[frames[0]]))
        if len(frames) > 1:
            name += f" to {name_frame(frames[-1], float(self._pts_seconds[frames[-1]]))}"
        if isinstance(error, FramefeedError):
            made: FramefeedError = type(error)(f"{self._source}: {name}: {error}")
            made.__dict__.update(error.__dict__)
            add_context(made, frames[0], self._source, STAGE)
            return made
        return LoadError(
            f"{self._source}: {name}: the function {self._user.name} raised {type(error).__name__}: {error}",
            position=frames[0],
            source=self._source,
            stage=STAGE,
        )
