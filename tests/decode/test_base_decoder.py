"""Decoders with and without the optional methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from framefeed.decode._decoder import BaseDecoder, ClipSlot, Decoder, DecodeReport, adapt_decoder, describe_recipe
from framefeed.decode._registry import AutoDecoder, as_decoder, find_decoder
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.backends.still import StillDecoder
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from tests.corpus import corpus_file


class Minimal:
    """A decoder of another package, with no optional method."""

    name = "minimal"

    def __init__(self) -> None:
        self.slots = 0

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        self.slots += len(slots)
        return PyAVDecoder().decode(source, index, slots)

    def close(self) -> None:
        pass


class Streaming(Minimal):
    """The same with all optional methods, but without the base class."""

    def iter_rgb(self, *arguments: Any) -> Iterator[Any]:
        return PyAVDecoder().iter_rgb(*arguments)

    def iter_native(self, *arguments: Any) -> Iterator[Any]:
        return PyAVDecoder().iter_native(*arguments)

    def recipe(self, index: FrameIndex) -> str:
        return "streaming 1"


@pytest.fixture(scope="module")
def index() -> FrameIndex:
    return build_index(corpus_file("base.mp4"))


@pytest.mark.parametrize(("decoder", "has_methods"), [(Minimal(), False), (Streaming(), True), (PyAVDecoder(), True)])
def test_optional_methods_are_found(decoder: Decoder, has_methods: bool, index: FrameIndex) -> None:
    adapted = as_decoder(decoder)
    assert isinstance(adapted, BaseDecoder)
    assert adapted is adapt_decoder(adapted)
    assert (adapted.name, adapted.can_iter_native(index)) == (decoder.name, has_methods)
    auto = AutoDecoder(decoder, StillDecoder())
    assert auto.can_iter_rgb(index) == auto.can_iter_native(index) == adapted.can_iter_rgb(index) == has_methods


def test_a_decoder_without_a_recipe_is_known_by_its_class(index: FrameIndex) -> None:
    assert describe_recipe(Minimal(), index) == f"minimal, {Minimal.__module__}.Minimal"
    assert describe_recipe(Streaming(), index) == describe_recipe(as_decoder(Streaming()), index) == "streaming 1"
    assert describe_recipe(find_decoder(), index) == PyAVDecoder().recipe(index)


@pytest.mark.parametrize(("kind", "slots"), [(Minimal, 100), (Streaming, 0)])
def test_reading_forward_with_and_without_pictures(kind: type[Minimal], slots: int) -> None:
    decoder = kind()
    with VideoDecoder(corpus_file("base.mp4"), backend=decoder) as ours, VideoDecoder(corpus_file("base.mp4")) as plain:
        for own, other in zip(ours, plain, strict=True):
            np.testing.assert_array_equal(own, other)
    assert decoder.slots == slots


@pytest.mark.parametrize(
    ("name", "plans"), [("base.mp4", [range(25), range(25, 100)]), ("closed_gop.ts", [range(100)])]
)
def test_reading_forward_plans_few_frames_first_but_not_through_a_container(name: str, plans: list[range]) -> None:
    planned: list[Any] = []

    class Noting(PyAVDecoder):
        def iter_rgb(self, source: Any, index: Any, ordinals: Any, output: Any) -> Iterator[Any]:
            planned.append(ordinals)
            return super().iter_rgb(source, index, ordinals, output)

    with VideoDecoder(corpus_file(name), backend=Noting()) as decoder:
        assert sum(1 for _ in decoder) == 100
    assert planned == plans
