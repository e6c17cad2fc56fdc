"""Decoders by name, loaded on first use; others bring theirs as entry points "framefeed.decoders"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points

from framefeed._checks import expected
from framefeed.decode.auto import AutoDecoder
from framefeed.decode.decoder import Decoder
from framefeed.errors import MissingDependency, UsageError

GROUP = "framefeed.decoders"
AUTO = "auto"
_BUILT_IN = {
    "pyav": "framefeed.decode.backends.pyav:PyAVDecoder",
    "still": "framefeed.decode.backends.still:StillDecoder",
}
_made: dict[str, Decoder] = {}


def decoder_named(name: str = AUTO) -> Decoder:
    """Find a decoder; each is made once a process and serves all threads.

    Args:
        name: "auto" ("pyav" for videos, "still" for stills and image sequences), a built-in name, or the name of an
            entry point in the group "framefeed.decoders".

    Raises:
        UsageError: There is no such decoder; the message lists the known ones.
        MissingDependency: Its entry point cannot be imported.
    """
    if name not in _made:
        _made[name] = auto_decoder() if name == AUTO else _factory(name)()
    return _made[name]


def auto_decoder(videos: Decoder | None = None) -> Decoder:
    """Make the decoder that is known as "auto", with another decoder for videos if one is given."""
    return AutoDecoder(videos or decoder_named("pyav"), decoder_named("still"))


def as_decoder(backend: str | Decoder) -> Decoder:
    """Take a decoder as it is, or find it by name."""
    if isinstance(backend, str):
        return decoder_named(backend)
    if not isinstance(backend, Decoder):
        raise expected("backend", "the name of a decoder, or a Decoder", backend)
    return backend


def known_decoders() -> list[str]:
    """Names of all decoders, built in and installed."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def _factory(name: str) -> Callable[[], Decoder]:
    place = _BUILT_IN.get(name)
    if place is not None:
        module, _, attribute = place.partition(":")
        factory: Callable[[], Decoder] = getattr(importlib.import_module(module), attribute)
        return factory
    for point in entry_points(group=GROUP, name=name):
        try:
            loaded: Callable[[], Decoder] = point.load()
        except ImportError as error:
            raise MissingDependency(f"the backend {name!r} ({point.value}) cannot be imported: {error}") from error
        return loaded
    raise UsageError(f"unknown backend {name!r}: use one of {', '.join(['auto', *known_decoders()])}")
