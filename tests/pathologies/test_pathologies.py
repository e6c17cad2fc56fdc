"""Every hard file has the property that it is named for, and a sequential decode reads what it promises."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file
from tests.lengths import either
from tests.pathologies import iter_pathologies, pathology
from tests.pathologies.facts import MediaFacts, Pathology, find_missed_by_seeking, read_facts, verify

ALL = [pytest.param(recipe, id=f"{recipe.number}-{recipe.name}") for recipe in iter_pathologies()]


@cache
def facts_of(name: str) -> MediaFacts:
    return read_facts(corpus_file(name), pathology(name).stream_index)


@pytest.mark.parametrize("recipe", ALL)
def test_a_pathology_has_its_property(recipe: Pathology) -> None:
    verify(recipe, facts_of(recipe.name))


@pytest.mark.long
@pytest.mark.parametrize("recipe", ALL[:: either(short=4, long=1)])
def test_same_recipe_same_bytes(recipe: Pathology, tmp_path: Path) -> None:
    recipe.write(tmp_path / recipe.name)
    assert (tmp_path / recipe.name).read_bytes() == corpus_file(recipe.name).read_bytes()


# What an encoder makes when it heeds no option: readable, orderly, and none of the hard cases but one.
HARMLESS = ClipSpec(num_frames=110, b_frames=None, codec_options={"x264-params": "bframes=9:b-adapt=0:scenecut=0"})
SATISFIED = {"base.mkv", "base.mp4", "huge_frame.avi", "no_cues.mkv", "rotated_0.mp4"}
"""Of these, a harmless file has the property: it is small, upright, and no Matroska."""


@cache
def _harmless_facts() -> MediaFacts:
    return read_facts(clip_file("harmless.mp4", HARMLESS))


@pytest.mark.parametrize("name", [recipe.name for recipe in iter_pathologies() if recipe.name not in SATISFIED])
def test_a_harmless_file_is_refused(name: str) -> None:
    with pytest.raises(AssertionError, match="lacks its property"):
        verify(pathology(name), _harmless_facts())


def test_wrong_frames_are_called_wrong() -> None:
    with pytest.raises(AssertionError, match="expected the frames"):
        verify(pathology("base.mp4"), read_facts(clip_file("shifted.mp4", ClipSpec(first_stamp=1))))


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(KeyError, match=r"open_gop\.mp4"):
        pathology("open_gop.webm")


def test_names_are_unique_and_no_number_is_missing() -> None:
    recipes = list(iter_pathologies())
    assert len({recipe.name for recipe in recipes}) == len(recipes)
    covered = {recipe.number for recipe in recipes}
    # M20 is about pipes: any of the files through one.
    expected = {f"M{number:02d}" for number in range(1, 25) if number != 20} | {
        "D01",
        "D02",
        "D03",
        "P01",
        "P04",
        "S04",
    }
    assert expected <= covered


@pytest.mark.parametrize("name", ["open_gop.mp4", "open_gop_hevc.mp4"])
def test_M04_open_gop_plain_seeks_miss_the_leading_pictures(name: str) -> None:
    assert len(find_missed_by_seeking(facts_of(name))) == 9
