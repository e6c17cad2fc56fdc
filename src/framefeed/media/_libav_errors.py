"""Turn libav's errors into framefeed's; collect libav's log."""

from __future__ import annotations

import logging
import mmap
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import av

from framefeed._shortage import find_shortage
from framefeed._values import Limits
from framefeed.bitstreams import Codec
from framefeed.errors import CorruptMedia, MediaError, MissingMedia, UnreadableMedia, UnsupportedCodec

# Errors alone: PyAV checks the level before it takes the GIL, so that an intact file costs nothing (D14).
av.logging.set_level(av.logging.ERROR)
# Otherwise a message about one file would not be repeated for the next file.
av.logging.set_skip_repeated(False)
# Messages outside of `libav_log`, at the closing of a file, stay out of the user's log; a level set by them is kept.
if logging.getLogger("libav").level == logging.WARNING:  # PyAV's own
    logging.getLogger("libav").setLevel(logging.CRITICAL + 1)

LogLine = tuple[int, str, str]
"""Level, part of FFmpeg, message."""
_UNSUPPORTED = (av.DecoderNotFoundError, av.PatchWelcomeError, av.BSFNotFoundError, av.EncoderNotFoundError)
LIBAV_EXCEPTIONS = (av.FFmpegError, EOFError)
"""Exceptions of PyAV: all derive from the first, except a bare end of file."""
_MESSAGES = 3
_INVALID_DATA = av.error.tag_to_code(b"INDA")
# get_buffer() fails for lack of memory, and for a picture larger than allowed; a message about its size precedes that.
_NO_MEMORY = re.compile(r"get_buffer\(\) failed|[Cc]annot allocate memory|[Cc]ould not allocate|[Oo]ut of memory")
_TOO_LARGE = re.compile(r"[Pp]icture size")
# mov_read_header of libavformat/mov.c: writers put this box at the end.
_NOT_READ = "not on whitelist"
_NO_MOVIE = "moov atom not found"
_PROBED_BYTES = 2**24
# Decoder whose packets may have several frames. If two of them are damaged, it meets the second one when it has taken
# the next packet, keeps that one, and takes no other before it is flushed. This has the number of a shortage of
# threads, which it needs when it is opened alone. What refers to earlier frames is lost, up to the next key frame.
_SPLITS_PACKETS = "vp9"
MOST_PIXEL_BYTES = 8
"""Largest pixel: four samples of 16 bits."""


class libav_errors:  # noqa: N801  read as a verb: with translated(name, "open"): ...
    """Turn libav's errors inside the block into framefeed's; leave shortages of the machine alone.

    Not a generator: entering one takes longer than demuxing a packet. ``stage`` is "open", "index" or "decode", ``log``
    what libav logs in the block, and ``most_bytes`` is that of `check_memory`.
    """

    __slots__ = ("_log", "_most_bytes", "_name", "_stage")

    def __init__(self, name: str, stage: str, most_bytes: int | None = None, log: Sequence[LogLine] = ()) -> None:
        self._name, self._stage, self._most_bytes, self._log = name, stage, most_bytes, log

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, LIBAV_EXCEPTIONS):
            return
        check_memory(error, self._log, 0, self._most_bytes)
        # A cause that is a lack of memory would make this error a shortage; here it is damage.
        raise translate(error, self._name, self._stage, in_one_line(self._log)) from (
            None if isinstance(error, av.MemoryError) else error
        )


def translate(error: BaseException, name: str, stage: str, log: str = "") -> MediaError:
    """Build framefeed's error for one of libav's; ``log`` is FFmpeg's message about it."""
    if _NOT_READ in log:  # FFmpeg then lists all formats that it may read
        log = ""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    message = f"{name}: {reason}{log and f' ({log})'}"
    if isinstance(error, FileNotFoundError):
        return MissingMedia(f"{name}: no such file", source=name, stage=stage)
    if isinstance(error, _UNSUPPORTED):
        return UnsupportedCodec(f"{message}: this build of FFmpeg cannot decode it", source=name, stage=stage)
    if stage == "decode":
        return CorruptMedia(f"{message} while decoding", source=name, stage=stage)
    advice = "not a media file framefeed can read, or its header is damaged"
    if _NO_MOVIE in log:
        advice = "its index is missing, so the file may be cut short: copy it again, or record it again"
    return UnreadableMedia(f"{message}: {advice}", source=name, stage=stage)


def send_packet(context: av.VideoCodecContext, packet: av.Packet[Any] | None) -> list[av.VideoFrame]:
    """Send a packet to a decoder, None to drain it, and return the frames that come out, or raise libav's error."""
    try:
        return context.decode(packet)
    except av.BlockingIOError:
        if context.name != _SPLITS_PACKETS or not context.is_open:
            raise
        context.flush_buffers()
        return context.decode(packet)
    except ValueError as error:
        if isinstance(error, av.FFmpegError):
            raise
        # A decoder that could not be opened for an earlier packet: PyAV 18 tries once more, with libav's error.
        raise av.InvalidDataError(_INVALID_DATA, str(error)) from error


# The H.264 decoder logs this if a picture to be released is missing, as after every open-GOP start.
_HARMLESS = "mmco: unref short failure"


libav_log = partial(av.logging.Capture, local=True)
"""Collect the errors that libav logs in this thread, around one call: ``with libav_log() as lines: ...``.

Decoders with several threads of their own log from those, which is not collected. Not a function: it is called for
each packet.
"""


def is_harmless(lines: Sequence[LogLine]) -> bool:
    """Whether a decoder's log for one packet tells nothing about its pictures."""
    return all(message.startswith(_HARMLESS) for _, _, message in lines)


def is_damage_logged(codec: Codec, lines: Sequence[LogLine]) -> bool:
    """Whether a codec's decoder logged for one packet that a picture without the flag for damage is damaged."""
    beginnings = codec.damage_messages
    return bool(beginnings) and any(message.startswith(beginnings) for _, _, message in lines)


def in_one_line(lines: Sequence[LogLine]) -> str:
    """Write the first distinct messages of a log on one line."""
    said = (" ".join(message.split()) for _, _, message in lines)
    return "; ".join([line for line in dict.fromkeys(said) if line][:_MESSAGES])


def is_memory_there(nbytes: int) -> bool:
    """Whether the system would give this process so many bytes."""
    try:
        mmap.mmap(-1, nbytes).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def bound_picture_bytes(limits: Limits) -> int:
    """Bytes of the largest picture that the limits allow."""
    return limits.max_pixels * MOST_PIXEL_BYTES


def check_memory(
    error: BaseException | None, lines: Sequence[LogLine], picture_bytes: int, most_bytes: int | None
) -> None:
    """Raise if apparent damage may be a lack of memory, which libavcodec also reports as invalid data.

    A damaged file may claim more memory than libav allocates at once. It is damage if the system has as much memory
    as the limits allow a file to need.

    Args:
        error: What libav raised, if it did; it is raised where something else than memory ran out.
        lines: What it logged.
        picture_bytes: Bytes of one decoded picture; 0 if unknown.
        most_bytes: The most that a file within the limits needs at once; None if a lack of memory is never damage.
    """
    messages = " ".join(message for _, _, message in lines)
    says_so = bool(_NO_MEMORY.search(messages)) and not _TOO_LARGE.search(messages)
    try:
        if isinstance(error, av.MemoryError) or says_so:
            if most_bytes is None or not is_memory_there(most_bytes):
                raise error if isinstance(error, av.MemoryError) else MemoryError(in_one_line(lines))
        elif error is not None and find_shortage(error) is not None:
            raise error
        elif not is_memory_there(2 * picture_bytes + _PROBED_BYTES):
            raise MemoryError("the system refuses the memory of two pictures")
    finally:
        del error  # Its traceback reaches this frame.
