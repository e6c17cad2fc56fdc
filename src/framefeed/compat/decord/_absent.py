"""Names of decord that framefeed does not have: a script may import them, and using one says what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

from framefeed.errors import UsageError

_SOUND = "framefeed does not decode sound: use torchcodec or PyAV for it"


class _Absent:
    """A class that cannot be used."""

    advice = ""

    def __new__(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse the call.

        Raises:
            UsageError: Always; the message names what to use instead.
        """
        raise UsageError(f"framefeed.compat.decord has no {cls.__name__}: {cls.advice}")


class VideoLoader(_Absent):
    """Not here: ``ff.ClipLoader`` loads clips of many videos."""

    advice = "plan the clips with ff.scan and ff.plan_clips, and load them with ff.ClipLoader"


class AudioReader(_Absent):
    """Not here: framefeed does not decode sound."""

    advice = _SOUND


class AVReader(_Absent):
    """Not here: framefeed does not decode sound."""

    advice = f"{_SOUND}, and VideoReader for the frames"
