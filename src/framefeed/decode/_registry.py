"""Find decoders by name, and choose one by the kind of each source.

Other packages add theirs as entry points in the group "framefeed.decoders".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed._nearest import did_you_mean
from framefeed._outcome import Err, catch_error
from framefeed._shortage import raise_shortage
from framefeed._values import DEFAULT_LIMITS, Limits, resolve_limits
from framefeed.decode._decoder import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Ordinals,
    Pixels,
    adapt_decoder,
)
from framefeed.errors import FramefeedError, MissingDependency, UsageError
from framefeed.index import FrameIndex, has_picture_files
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "framefeed.decoders"
AUTO = "auto"
_BUILT_IN = {
    "pyav": "framefeed.decode.backends.pyav:PyAVDecoder",
    "still": "framefeed.decode.backends.still:StillDecoder",
    "opencv": "framefeed.decode.backends.opencv:OpenCVDecoder",
    "dali": "framefeed.decode.backends.dali:DaliDecoder",
    "decord": "framefeed.decode.backends.decord:DecordDecoder",
    "torchcodec": "framefeed.decode.backends.torchcodec:TorchCodecDecoder",
    "torchcodec-approximate": "framefeed.decode.backends.torchcodec:ApproximateTorchCodecDecoder",
}
_decoders: dict[tuple[str, Limits], BaseDecoder] = {}


@dataclass(frozen=True, slots=True)
class AutoRule:
    """The backend for one kind of sources, and why."""

    kind: str
    backend: str
    reason: str


PICTURES = AutoRule("pictures and image sequences", "still", "the only one that decodes them")
VIDEOS = AutoRule(
    "videos", "pyav", "the only one that gives every frame of every index, as the page on engines in the docs shows"
)
AUTO_RULES = (PICTURES, VIDEOS)


def check_kind(decoder: Decoder, index: FrameIndex, name: str) -> None:
    """Raise UsageError if a source is of the kind that only another built-in backend decodes."""
    are_pictures = has_picture_files(index)
    if decoder.name in _BUILT_IN and (decoder.name == PICTURES.backend) != are_pictures:
        kind, fitting = ("pictures", PICTURES) if are_pictures else ("videos", VIDEOS)
        raise UsageError(
            f'{name}: backend="{decoder.name}" cannot decode {kind}: use backend="{fitting.backend}" for them, or '
            f'"auto", which decodes pictures by "{PICTURES.backend}" and videos by "{VIDEOS.backend}"'
        )


class AutoDecoder(BaseDecoder):
    """Decode videos with one backend, and still pictures and image sequences with another."""

    name = "auto"

    def __init__(self, videos: Decoder, pictures: Decoder) -> None:
        self._videos = adapt_decoder(videos)
        self._pictures = adapt_decoder(pictures)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return self._choose(index).decode(source, index, slots)

    def list_ranges(self, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> list[tuple[int, int]]:
        return self._choose(index).list_ranges(index, ordinals, output)

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        return self._choose(index).iter_rgb(source, index, ordinals, output)

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[tuple[int, Any]]:
        return self._choose(index).iter_native(source, index, ordinals, counts)

    def can_iter_rgb(self, index: FrameIndex) -> bool:
        return self._choose(index).can_iter_rgb(index)

    def can_iter_native(self, index: FrameIndex) -> bool:
        return self._choose(index).can_iter_native(index)

    def for_output(self, index: FrameIndex, output: OutputSpec) -> BaseDecoder:
        return self._choose(index).for_output(index, output)

    def recipe(self, index: FrameIndex) -> str:
        return self._choose(index).recipe(index)

    def close(self) -> None:
        self._videos.close()
        self._pictures.close()

    def _choose(self, index: FrameIndex) -> BaseDecoder:
        return self._pictures if has_picture_files(index) else self._videos


def find_decoder(name: str = AUTO, limits: Limits | None = None) -> BaseDecoder:
    """Find a decoder by name; it is made once per process and limits, and all threads share it.

    ``limits`` are for built-in decoders. The error for an unknown name lists all names.
    """
    bounds = resolve_limits(limits)
    if (name, bounds) not in _decoders:
        made = make_auto_decoder(limits=bounds) if name == AUTO else _make_decoder(name, bounds)
        _decoders[name, bounds] = adapt_decoder(made)
    return _decoders[name, bounds]


def make_auto_decoder(videos: Decoder | None = None, limits: Limits | None = None) -> BaseDecoder:
    """Make the decoder "auto", with another decoder for videos if one is given."""
    return AutoDecoder(videos or find_decoder(VIDEOS.backend, limits), find_decoder(PICTURES.backend, limits))


def as_decoder(backend: str | Decoder, limits: Limits | None = None) -> BaseDecoder:
    """Find a decoder by name, or give one of another package the methods of a BaseDecoder."""
    if isinstance(backend, str):
        return find_decoder(backend, limits)
    if isinstance(backend, type) or not isinstance(backend, Decoder):
        raise expected("backend", "a name such as 'auto' or 'pyav', or a Decoder", backend)
    if resolve_limits(limits) != DEFAULT_LIMITS:
        raise UsageError(
            f"limits: expected None beside a decoder that has its own limits, got a Limits: give the limits to "
            f"{type(backend).__name__}(...), or give the backend by name"
        )
    return adapt_decoder(backend)


def list_decoders() -> list[str]:
    """List the names of all decoders, built in and installed."""
    return sorted({*_BUILT_IN, *(point.name for point in _list_entry_points())} - {AUTO})


def _make_decoder(name: str, limits: Limits) -> Decoder:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        built_in: Decoder = getattr(importlib.import_module(module), attribute)(limits=limits)
        return built_in
    for point in _list_entry_points().select(name=name):
        if limits != DEFAULT_LIMITS:
            raise UsageError(
                f"limits: the backend {name!r} of another package takes no limits by name: make it in code with limits "
                "of its own and give it as backend="
            )
        return _make_from_entry_point(point)
    known = ["auto", *list_decoders()]
    raise UsageError(f"unknown backend {name!r}: use one of {', '.join(known)}{did_you_mean(name, known)}")


def _make_from_entry_point(point: EntryPoint) -> Decoder:
    """Make a decoder of another package; what goes wrong names the package, whose fault it is."""
    package = "" if point.dist is None else f" of the package {point.dist.name}"
    whose = f"the backend {point.name!r} ({point.value}){package}"
    outcome = catch_error(lambda each: each.load()(), point)
    if isinstance(outcome, Err):
        error = outcome.error
        if isinstance(error, FramefeedError):
            raise error
        raise_shortage(error, point.name, "import")
        if isinstance(error, ImportError):
            raise MissingDependency(f"{whose} cannot be imported: {error}: install what its package needs") from error
        raise UsageError(f"{whose} cannot be made: {type(error).__name__}: {error}: tell its authors") from error
    made = outcome.value
    if isinstance(made, type) or not isinstance(made, Decoder):
        lacking = [each for each in ("name", "decode", "close") if not hasattr(made, each)]
        what = f"has no {' and no '.join(lacking)}" if lacking else "is a class: return an object of it"
        raise UsageError(f"{whose} gives no decoder: its {type(made).__name__} {what}")
    return made


def _list_entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # with the package email, 15 ms that only unknown names need

    return entry_points(group=GROUP)
