"""Every exception of framefeed.

::

    FramefeedError
    ├── UsageError            a wrong argument or call              (also ValueError)
    │   └── NotInThisVersion  a promised name that is not there yet (also AttributeError)
    ├── MediaError            this file is the problem              (also RuntimeError)
    │   ├── UnreadableMedia   text, empty, folder, FIFO, playlist
    │   │   └── MissingMedia  no such file                          (also FileNotFoundError)
    │   ├── NoVideoStream     audio only, cover picture only        (also ValueError)
    │   ├── EmptyVideo        a video stream without one frame
    │   ├── UnsupportedCodec  no decoder here, or encrypted
    │   ├── CorruptMedia      promised frames that do not come
    │   ├── FormatChanged     size or pixel format changes mid-stream
    │   ├── StaleSource       the file is not the one that was indexed
    │   └── LimitExceeded     larger than the configured limits
    ├── FrameNotFound         no such frame                         (also IndexError)
    ├── TimeUnavailable       the stream has no usable timestamps   (also RuntimeError)
    ├── LoadError             a sample failed inside the loader
    │   ├── WorkerLost
    │   └── DeadlineExceeded  (also TimeoutError)
    ├── CacheError
    ├── ResourceExhausted     memory, descriptors or threads ran out: no fact about a file
    └── MissingDependency     names the extra to install            (also ImportError)

Each can be built from its message alone, because PyTorch rebuilds a worker's exception as
``type(e)(message)``; context travels as attributes with defaults, and survives pickling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FramefeedError(Exception):
    """Base of all errors raised on purpose by framefeed.

    Attributes:
        source: Name of the file or buffer concerned, if there is one.
        position: Global position in the plan, if the error came through a loader.
        stage: What was being done: "open", "index", "plan", "decode", "transform", ...
    """

    source: str | None
    position: int | None
    stage: str | None

    def __init__(
        self,
        message: str = "",
        *,
        source: str | None = None,
        position: int | None = None,
        stage: str | None = None,
    ) -> None:
        super().__init__(message)
        self.source = source
        self.position = position
        self.stage = stage

    def __str__(self) -> str:
        # OSError and ImportError bases print more than the message: every error here prints just that.
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), dict(self.__dict__)))


def _rebuild(kind: type[FramefeedError], message: str, attributes: dict[str, Any]) -> FramefeedError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error


class UsageError(FramefeedError, ValueError):
    """The call is wrong: its message says what to ask for instead."""


class NotInThisVersion(UsageError, AttributeError):
    """A name that a later version will have; also an AttributeError, so that ``hasattr`` tells."""


class MediaError(FramefeedError, RuntimeError):
    """The media is the problem, not the call; ``source`` names it."""


class UnreadableMedia(MediaError):
    """Not media at all: text, zero bytes, a folder, a FIFO, a playlist, or a damaged header."""


class MissingMedia(UnreadableMedia, FileNotFoundError):
    """There is no such file."""


class NoVideoStream(MediaError, ValueError):
    """Readable, but without a video stream: audio only, or a cover picture only. TorchCodec raises ValueError here."""


class EmptyVideo(MediaError):
    """There is a video stream, but it gives no frame."""


class UnsupportedCodec(MediaError):
    """No decoder for this codec here, or the stream is encrypted."""


class CorruptMedia(MediaError):
    """Frames that the index promised did not come out of the decoder.

    Attributes:
        frames: Ordinals of those frames; empty where the damage has no known place.
    """

    frames: tuple[int, ...]

    def __init__(self, message: str = "", *, frames: Sequence[int] = (), **context: Any) -> None:
        super().__init__(message, **context)
        self.frames = tuple(int(frame) for frame in frames)


class FormatChanged(MediaError):
    """The size or pixel format changes within the frames asked for."""


class StaleSource(MediaError):
    """The file differs from the one that was indexed."""


class LimitExceeded(MediaError):
    """The file claims more than the limits allow, or takes longer than its deadline.

    Attributes:
        limit: Name of the limit: a field of `Limits` such as "max_pixels", or "deadline_seconds".
    """

    limit: str | None

    def __init__(self, message: str = "", *, limit: str | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.limit = limit


class FrameNotFound(FramefeedError, IndexError):
    """There is no frame at this index or time."""


class TimeUnavailable(FramefeedError, RuntimeError):
    """The stream's timestamps are missing or out of order, so time cannot address its frames."""


class LoadError(FramefeedError):
    """A sample failed inside the loader with an error that is not framefeed's own.

    Attributes:
        remote_traceback: The traceback of the worker as text, where it ran elsewhere.
    """

    remote_traceback: str | None

    def __init__(self, message: str = "", *, remote_traceback: str | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.remote_traceback = remote_traceback


class WorkerLost(LoadError):
    """A worker died with what it worked on, or there is none and none can be started."""


class DeadlineExceeded(LoadError, TimeoutError):
    """A sample took longer than the deadline."""


class CacheError(FramefeedError):
    """The frame cache cannot be used as asked."""


class ResourceExhausted(FramefeedError):
    """The machine or a limit of this process ran out of something; it says nothing about the file that was read.

    Attributes:
        resource: What ran out: "memory", "file descriptors of this process", ...
    """

    resource: str

    def __init__(self, message: str = "", *, resource: str = "", **context: Any) -> None:
        super().__init__(message, **context)
        self.resource = resource


class MissingDependency(FramefeedError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""
