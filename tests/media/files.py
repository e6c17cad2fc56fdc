"""The generated files by whether framefeed reads them; `from tests.media.files import ...`."""

from __future__ import annotations

from pathlib import Path

from tests.codec_clips import CODECS
from tests.corpus import clip_file, corpus_file
from tests.lengths import sampled
from tests.pathologies import iter_pathologies

# Stills by their first bytes, and a game's format that nobody trains on: not on the list of containers.
REFUSED_CODECS = {"apng", "gif", "roq"}
REFUSED = {
    recipe.name
    for recipe in iter_pathologies()
    if recipe.stamps == () or recipe.number in ("M19", "S01") or recipe.name == "billion_samples.mp4"
}
HARD_FILES = [recipe.name for recipe in iter_pathologies() if recipe.name not in REFUSED]
CODEC_CLIPS = [f"{name}{clip.suffix}" for name, clip in CODECS.items() if name not in REFUSED_CODECS]
READABLE = HARD_FILES + CODEC_CLIPS
_NUMBERS = {recipe.name: recipe.number for recipe in iter_pathologies()}


def _kind_of_picture(name: str) -> str:
    """Codecs and pathologies of pictures each for itself; those of containers and of damage have like pictures."""
    letter = _NUMBERS.get(name, "")[:1]
    return letter if letter in ("M", "D") else name


KINDS_OF_PICTURES = sampled(READABLE, _kind_of_picture, step=8)
"""Of `READABLE`, for tests of nothing but the pictures."""


def readable_path(name: str) -> Path:
    """Path of one of `READABLE`."""
    codec = name.partition(".")[0]
    return clip_file(name, CODECS[codec].spec) if name in CODEC_CLIPS else corpus_file(name)
