"""Errors of one clip: framefeed's own keep their type and learn where they happened, all others become LoadErrors."""

from __future__ import annotations

import copy
from traceback import format_exception

from framefeed.errors import FramefeedError, LoadError
from framefeed.parallel.shortage import resource_exhausted, shortage_in


def placed(error: Exception, *, position: int, source: str | None, stage: str) -> FramefeedError:
    """Say of an error which clip it belongs to.

    Args:
        error: Whatever was raised.
        position: Global position of the clip.
        source: Name of its source.
        stage: What was being done; kept where the error itself knows better.

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
        return _wrapped(error, position, source, stage)
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


def _wrapped(error: Exception, position: int, source: str | None, stage: str) -> LoadError:
    wrapped = LoadError(
        f"{source}: {stage} failed for the clip at position {position}: {type(error).__name__}: {error}",
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
