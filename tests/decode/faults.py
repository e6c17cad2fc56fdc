"""Decoders that decode in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from framefeed.decode.backends import _pyav_pools
from framefeed.decode.backends._pyav_pools import get_thread_pools
from framefeed.media import VideoContainer


class ChangedDecoder:
    """A decoder of which only ``decode`` is another.

    Args:
        real: The decoder.
        decode: Called with it and each packet.
    """

    def __init__(self, real: Any, decode: Callable[[Any, Any], Any]) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_decode", decode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def decode(self, packet: Any) -> Any:
        return self._decode(self._real, packet)


@contextmanager
def changed_decoders(decode: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Have another function decode, for containers' own decoders, for those beside them and for those without."""
    own, beside, bare = VideoContainer.decoder, VideoContainer.make_decoder, _pyav_pools.make_decoder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VideoContainer, "decoder", lambda container: ChangedDecoder(own(container), decode))
        patch.setattr(VideoContainer, "make_decoder", lambda container: ChangedDecoder(beside(container), decode))
        patch.setattr(_pyav_pools, "make_decoder", lambda *given: ChangedDecoder(bare(*given), decode))
        get_thread_pools().clear()
        yield
        get_thread_pools().clear()
