"""Every exception of framefeed.

::

    FramefeedError
    ├── UsageError            a wrong argument or call              (also ValueError)
    ├── MediaError            this file is the problem              (also RuntimeError)
    │   ├── UnreadableMedia   text, empty, folder, FIFO, playlist
    │   │   └── MissingMedia  no such file                          (also FileNotFoundError)
    │   ├── NoVideoStream     audio only, cover picture only        (also ValueError)
    │   ├── EmptyVideo        a video stream without one frame
    │   ├── UnsupportedCodec  no decoder here, or encrypted
    │   ├── CorruptMedia      frames that are damaged or do not come
    │   ├── FormatChanged     size or pixel format changes mid-stream
    │   ├── StaleSource       the file is not the one that was indexed
    │   └── LimitExceeded     larger than the configured limits
    ├── FrameNotFound         no such frame                         (also IndexError)
    ├── TimeUnavailable       the stream has no usable timestamps   (also RuntimeError)
    ├── LoadError             a sample failed inside the loader
    │   ├── WorkerLost
    │   └── DeadlineExceeded  (also TimeoutError)
    ├── CacheError
    ├── ResourceExhausted     memory, descriptors or threads ran out; says nothing about a file
    └── MissingDependency     names the extra to install            (also ImportError)

Each error can be made from its message alone, because PyTorch rebuilds an exception of a worker as
``type(e)(message)``. The context is in attributes with defaults, which survive pickling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framefeed._shown import show_name, show_text


class FramefeedError(Exception):
    """The base of all errors of framefeed.

    Neither the message nor ``source`` has the user, the password, the query or the fragment of a URL.

    Attributes:
        source: Name of the file or buffer with the problem; None if unknown.
        position: Global position in the plan; None if the error did not come through a plan.
        stage: The step that failed: "open", "index", "plan", "decode", "transform", ...; None if unknown.
        late_position: The position, if it became known after the message was written.
        stream: Name of the stream of the clip, if it became known after the message was written.
        advice: A further next step.

    ``str()`` adds the last three at the end, because PyTorch's workers send nothing else of an error.
    """

    source: str | None
    position: int | None
    stage: str | None
    late_position: int | None = None
    stream: str | None = None
    advice: str | None = None

    def __init__(
        self,
        message: str = "",
        *,
        source: str | None = None,
        position: int | None = None,
        stage: str | None = None,
    ) -> None:
        super().__init__(show_text(message))
        self.source = None if source is None else show_name(source)
        self.position = position
        self.stage = stage

    def __str__(self) -> str:
        # OSError and ImportError bases print more than the message: every error here prints just that.
        stream = "" if self.stream is None else f" (stream {self.stream!r})"
        advice = "" if self.advice is None else f"; {self.advice}"
        position = "" if self.late_position is None else f" (clip at position {self.late_position})"
        return f"{self.plain_message}{stream}{advice}{position}"

    @property
    def plain_message(self) -> str:
        """The message without what became known later."""
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.plain_message, dict(self.__dict__)))


def _rebuild(kind: type[FramefeedError], message: str, attributes: dict[str, Any]) -> FramefeedError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error


class UsageError(FramefeedError, ValueError):
    """The call is wrong; the message says what to do instead."""


class MediaError(FramefeedError, RuntimeError):
    """Something is wrong with the file, not with the call; ``source`` names the file."""


class UnreadableMedia(MediaError):
    """The file is not media: it is text, empty, a folder, a FIFO or a playlist, or its header is damaged."""


class MissingMedia(UnreadableMedia, FileNotFoundError):
    """There is no such file."""


class NoVideoStream(MediaError, ValueError):
    """The file has no video stream: only sound, or only a cover picture. Also a ValueError, as in TorchCodec."""


class EmptyVideo(MediaError):
    """The video stream gives no frame."""


class UnsupportedCodec(MediaError):
    """There is no decoder for the codec or the picture format, or the stream is encrypted."""


class CorruptMedia(MediaError):
    """Frames of the index are damaged or did not come out of the decoder.

    Attributes:
        frames: Numbers (ordinals) of these frames; empty if they are not known.
    """

    frames: tuple[int, ...]

    def __init__(self, message: str = "", *, frames: Sequence[int] = (), **context: Any) -> None:
        super().__init__(message, **context)
        self.frames = tuple(int(frame) for frame in frames)


class FormatChanged(MediaError):
    """The size or pixel format changes within the frames that were asked for."""


class StaleSource(MediaError):
    """The file has changed since it was indexed."""


class LimitExceeded(MediaError):
    """The file claims more than the limits allow, or takes longer than the deadline.

    Attributes:
        limit: Name of the limit: a field of `Limits` such as "max_pixels", or "deadline_seconds".
    """

    limit: str | None

    def __init__(self, message: str = "", *, limit: str | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.limit = limit


class FrameNotFound(FramefeedError, IndexError):
    """There is no frame with this number or at this time."""


class TimeUnavailable(FramefeedError, RuntimeError):
    """The stream's timestamps are missing or go backwards, so its frames cannot be found by time."""


class LoadError(FramefeedError):
    """A clip failed in the loader with an error that is not framefeed's own; the original error is the cause.

    Attributes:
        remote_traceback: The worker's traceback as text; None if the worker was in the same thread.
    """

    remote_traceback: str | None

    def __init__(self, message: str = "", *, remote_traceback: str | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.remote_traceback = None if remote_traceback is None else show_text(remote_traceback)


class WorkerLost(LoadError):
    """A worker died, or no worker can be started."""


class DeadlineExceeded(LoadError, TimeoutError):
    """A clip took longer than the deadline."""


class CacheError(FramefeedError):
    """The frame cache cannot be used as asked."""


class ResourceExhausted(FramefeedError):
    """Memory, file descriptors or threads ran out; this says nothing about the file that was read.

    Attributes:
        resource: What ran out: "memory", "file descriptors of this process", ...
    """

    resource: str

    def __init__(self, message: str = "", *, resource: str = "", **context: Any) -> None:
        super().__init__(message, **context)
        self.resource = resource


class MissingDependency(FramefeedError, ImportError):
    """An optional package is not installed; the message says what to install."""
