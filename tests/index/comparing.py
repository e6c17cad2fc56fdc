"""The oracle of the moov route: libav, asked for the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from framefeed._values import DEFAULT_LIMITS, HEAD_BYTES, MediaInfo, PacketTable, PacketWalk, read_bytes
from framefeed.errors import MediaError
from framefeed.index import FrameIndex, Verify, _probe, build_index, index_media
from framefeed.index._movie import OpenedMovie, open_movie
from framefeed.media import MediaSource, VideoContainer, walk_packets

Source = str | bytes | os.PathLike[str]
_INDEX = ("pts", "duration", "time_base", "key_frame_indices", "built_from", "frame_packet", "frame_start", "stream")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one route says of a source: facts, index, and both at once, or the name of the error."""

    info: MediaInfo | str
    index: FrameIndex | str
    indexed: tuple[MediaInfo, FrameIndex] | str


def opened(source: Source) -> OpenedMovie | None:
    """What the moov box gives; None where libav has to read the source."""
    media = MediaSource.of(source)
    with media.opened() as reader:
        return open_movie(reader, read_bytes(reader, 0, HEAD_BYTES), media.name, DEFAULT_LIMITS)


def walk_of_libav(source: Source) -> PacketWalk | str:
    """What the demuxer gives, or the name of the error."""
    try:
        with VideoContainer(MediaSource.of(source)) as container:
            return walk_packets(container)
    except MediaError as error:
        return type(error).__name__


def facts(source: Source) -> MediaInfo | str:
    """Ask the ordinary way for the facts alone, which costs no decoding."""
    return _tried(lambda: _probe.probe(source))


def facts_of_libav(source: Source) -> MediaInfo | str:
    """Ask for the facts alone, without the moov route."""
    with _without_moov_route():
        return facts(source)


def answer(source: Source, verify: Verify = "none") -> Answer:
    """Ask the ordinary way."""
    return Answer(
        facts(source),
        _tried(lambda: build_index(source, verify)),
        _tried(lambda: index_media(source, verify)),
    )


def answer_of_libav(source: Source, verify: Verify = "none") -> Answer:
    """Ask without the moov route."""
    with _without_moov_route():
        return answer(source, verify)


@contextmanager
def _without_moov_route() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("framefeed.index._build.open_movie", lambda *_, **__: None)
        patch.setattr(_probe, "movie_info", lambda *_, **__: None)
        yield


def _tried(ask: Any) -> Any:
    try:
        return ask()
    except MediaError as error:
        return type(error).__name__


def differences(ours: Any, theirs: Any) -> list[str]:
    """Name what two answers, walks, indexes or values differ in."""
    if type(ours) is not type(theirs):
        return [f"{ours!r} is not {theirs!r}"]
    if isinstance(ours, Answer):
        return _of_fields(ours, theirs, ("info", "index", "indexed"))
    if isinstance(ours, FrameIndex):
        return _of_fields(ours, theirs, (*_INDEX, "packets"))
    if isinstance(ours, (PacketTable, PacketWalk)):
        return _of_fields(ours, theirs, [field.name for field in fields(ours) if field.compare])
    if isinstance(ours, tuple) and len(ours) == len(theirs):
        return [difference for pair in zip(ours, theirs, strict=True) for difference in differences(*pair)]
    if isinstance(ours, np.ndarray):
        return [] if ours.dtype == theirs.dtype and np.array_equal(ours, theirs) else [f"{ours} is not {theirs}"]
    return [] if ours == theirs else [f"{ours!r} is not {theirs!r}"]


def _of_fields(ours: Any, theirs: Any, names: Any) -> list[str]:
    return [
        f"{name}: {difference}"
        for name in names
        for difference in differences(getattr(ours, name), getattr(theirs, name))
    ]
