"""The border at which libav's errors become framefeed's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import av

from framefeed.errors import (
    CorruptMedia,
    MediaError,
    MissingMedia,
    UnreadableMedia,
    UnsupportedCodec,
)

av.logging.set_level(None)  # FFmpeg's log never reaches stderr; a Python log callback would serialise the threads.

_UNSUPPORTED = (av.DecoderNotFoundError, av.PatchWelcomeError, av.BSFNotFoundError, av.EncoderNotFoundError)
FOREIGN = (av.FFmpegError, EOFError)
"""What libav raises; PyAV's own classes all derive from the first but for a bare end of file."""


@contextmanager
def translated(name: str, stage: str) -> Iterator[None]:
    """Turn libav's errors inside the block into framefeed's.

    Args:
        name: The source's name, for the message.
        stage: What is being done: "open", "index" or "decode".
    """
    try:
        yield
    except FOREIGN as error:
        raise translate(error, name, stage) from error


def translate(error: BaseException, name: str, stage: str, log: str = "") -> MediaError:
    """Build framefeed's error for one of libav's; ``log`` is what FFmpeg logged about it."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    message = f"{name}: {reason}{log and f' ({log})'}"
    if isinstance(error, FileNotFoundError):
        return MissingMedia(f"{name}: no such file", source=name, stage=stage)
    if isinstance(error, _UNSUPPORTED):
        return UnsupportedCodec(f"{message}: this build of FFmpeg cannot decode it", source=name, stage=stage)
    if stage == "decode":
        return CorruptMedia(f"{message} while decoding", source=name, stage=stage)
    return UnreadableMedia(
        f"{message}: not a container that framefeed reads, or its header is damaged", source=name, stage=stage
    )


_LISTENING = threading.Lock()
_MESSAGES = 3
logging.getLogger("libav").addHandler(logging.NullHandler())


def overheard(action: Callable[[], object]) -> str:
    """Repeat what failed and return the last that FFmpeg logs about it in this thread, on one line.

    Only failures are listened to: a log callback in Python for every message makes threads wait for each other (D14).
    """
    with _LISTENING, av.logging.Capture(local=True) as heard:
        av.logging.set_level(av.logging.ERROR)
        skips = av.logging.get_skip_repeated()
        av.logging.set_skip_repeated(False)  # or what another file's failure has said already would not be said again
        try:
            action()
        except FOREIGN:
            pass
        finally:
            av.logging.set_skip_repeated(skips)
            av.logging.set_level(None)
    said = (" ".join(message.split()) for _, _, message in heard)
    return "; ".join([line for line in dict.fromkeys(said) if line][-_MESSAGES:])
