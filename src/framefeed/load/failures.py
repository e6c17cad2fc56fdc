"""Errors of one clip: framefeed's own keep their type and learn where they happened, all others become LoadErrors."""

from __future__ import annotations

import copy
from traceback import format_exception

from framefeed.errors import FramefeedError, LoadError
from framefeed.parallel.shortage import resource_exhausted, shortage_in

_TO_A_LOADERS = "a NumPy array, uint8 [T, C, H, W], and a NumPy generator"
"""What a ClipLoader calls a transform with."""


def placed(
    error: Exception, *, position: int, source: str | None, stage: str, given: str = _TO_A_LOADERS
) -> FramefeedError:
    """Say of an error which clip it belongs to.

    Args:
        error: Whatever was raised.
        position: Global position of the clip.
        source: Name of its source.
        stage: What was being done; kept where the error itself knows better.
        given: What a transform received, which is told where it seems to be made for something else.

    Returns:
        The error itself, a copy of it where it has a position already, for one error may spoil several clips, or what
        it caused: ResourceExhausted where something ran out, else a LoadError.
    """
    # In the user's own function only what it could not handle itself.
    is_theirs = stage == "transform" and not isinstance(error, MemoryError)
    resource = None if isinstance(error, FramefeedError) or is_theirs else shortage_in(error)
    if resource is not None:
        shortage = resource_exhausted(resource, source or "a clip", stage)
        shortage.__cause__ = error
        error = shortage
    if not isinstance(error, FramefeedError):
        is_of_type = stage == "transform" and isinstance(error, (AttributeError, TypeError))
        return _wrapped(error, position, source, stage, f" (the transform received {given})" if is_of_type else "")
    if error.position not in (None, position):
        cause, traceback = error.__cause__, error.__traceback__
        error = copy.copy(error).with_traceback(traceback)
        error.__cause__ = cause
    if error.position is None:
        # In the message too: PyTorch's workers hand on nothing else of an error.
        error.args = (f"{error} (clip at position {position})",)
    error.position = position
    error.source = error.source or source
    error.stage = error.stage or stage
    return error


def _wrapped(error: Exception, position: int, source: str | None, stage: str, remark: str) -> LoadError:
    wrapped = LoadError(
        f"{source}: {stage} failed for the clip at position {position}: {type(error).__name__}: {error}{remark}",
        position=position,
        source=source,
        stage=stage,
        remote_traceback="".join(format_exception(error)),
    )
    wrapped.__cause__ = error
    return wrapped


def drop_tracebacks(error: BaseException) -> None:
    """Free what the frames of an error hold, which is whole batches; for errors that are kept, not raised."""
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None and link.__traceback__ is not None:
            link.__traceback__ = None
            links += [link.__cause__, link.__context__]
