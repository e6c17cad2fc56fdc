"""The table of codecs is the only one: each of its columns is used, and no other module lists codecs by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from framefeed.bitstreams import CODECS, STREAM_FORMATS, Codec, UnitTypes
from tests.house import Source, package_sources

TABLE = "framefeed.bitstreams._codecs"
OTHER_QUESTIONS = {
    "framefeed.index._provers": "codec -> prover: the second of the two tables to touch",
    "framefeed.bitstreams._packet_readers": "codec -> reader of its packets, of which provers are made",
    "framefeed.decode.backends._engine": "what is left out where another library decodes",
    "framefeed.decode.backends._engine_facts": "what is left out where another library decodes",
    "framefeed.decode.backends.dali": "what another library decodes",
    "framefeed.decode.backends.decord": "what another library decodes",
    "framefeed.encode._codecs": "what framefeed writes, and what each container holds of it",
}
"""Modules with collections of codec names, and why these are no columns."""
NOT_THE_PACKAGE = ("bench", "testing")
"""Rooms whose clips and peers are of codecs that they choose."""


def _list_collections(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Dict):
            members = [*node.keys, *node.values]
        elif isinstance(node, ast.Set | ast.List | ast.Tuple):
            members = list(node.elts)
        else:
            continue
        named = {member.value for member in members if isinstance(member, ast.Constant)} & CODECS.keys()
        if len(named) > 1:
            yield source.at(node, str(sorted(named)))


@pytest.fixture(scope="module")
def others() -> list[Source]:
    """The modules beside the table; what is parsed of them is kept."""
    return [each for each in package_sources() if each.module != TABLE and each.room not in NOT_THE_PACKAGE]


def test_no_other_module_lists_codecs(others: list[Source]) -> None:
    found = {source.module: list(_list_collections(source)) for source in others}
    listed = {module: places for module, places in found.items() if places}
    assert listed.keys() == OTHER_QUESTIONS.keys(), listed


@pytest.mark.parametrize(
    "text", ['_LATE = frozenset({"h264", "hevc"})', 'COST = {"vp8": 1, "vp9": 2}', 'x in ("av1", "vvc")']
)
def test_a_table_of_another_module_is_seen(text: str) -> None:
    assert list(_list_collections(Source("framefeed.media._made_up", text)))


def test_every_column_is_used(others: list[Source]) -> None:
    used = {node.attr for source in others for node in source.nodes if isinstance(node, ast.Attribute)}
    used |= {"stream_formats"}  # in STREAM_FORMATS
    assert not {*Codec._fields, *UnitTypes._fields} - used


def test_every_column_tells_codecs_apart() -> None:
    for column in Codec._fields:
        assert len({getattr(codec, column) for codec in CODECS.values()}) > 1, column


def test_a_codec_that_is_not_in_the_table_has_the_defaults() -> None:
    assert Codec.of("made_up") == Codec("made_up")
    assert Codec.of("h264") is CODECS["h264"]


def test_no_tag_and_no_demuxer_is_of_two_codecs() -> None:
    tags = [tag for codec in CODECS.values() for tag in codec.mp4_tags]
    assert len(tags) == len(set(tags))
    assert len(STREAM_FORMATS) == sum(len(codec.stream_formats) for codec in CODECS.values())
