from __future__ import annotations

from pathlib import Path

import pytest

import framefeed as ff
from framefeed.cache import find_codec
from framefeed.decode import find_decoder
from tests.cli.running import Answer
from tests.corpus import clip_file


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["scna", "x"], "'scan'"),
        (["benhc"], "'bench'"),
        (["clip", "x.mp4", "--indexes", "0", "-o", "out"], "'--indices'"),
        (["clip", "x.mp4", "--at", "0", "--ou=out"], "'--out'"),
        (["clip", "x.mp4", "--at", "0", "-o", "out", "--format", "jpgg"], "'jpg'"),
        (["bench", "cahce"], "'cache'"),
        (["bench", "cache", "--rows", "tabel"], "'table'"),
        (["cache", "bulid", "x", "y"], "'build'"),
        (["scan", "x", "--verify", "proofs"], "'proof'"),
    ],
)
def test_the_nearest_word_is_named(words: list[str], meant: str, answer: Answer) -> None:
    out, err = answer(*words, code=1)
    assert out == ""
    assert f"did you mean {meant}?" in err
    assert len(err.splitlines()) == 1


def test_a_word_unlike_all_others_gets_no_suggestion(answer: Answer) -> None:
    for words in (["xyzzy"], ["doctor", "--xyzzy"]):
        assert "did you mean" not in answer(*words, code=1).err


def test_arguments_in_python_get_suggestions_too() -> None:
    with pytest.raises(ff.UsageError, match=r"did you mean 'magicyuv'\?$"):
        find_codec("magicyuw")
    with pytest.raises(ff.UsageError, match=r"did you mean 'pyav'\?$"):
        find_decoder("pyva")
    with pytest.raises(ff.UsageError, match=r"did you mean 'nearest'\?$"):
        ff.AtSeconds([0], pick="nearst")  # type: ignore[arg-type]
    with pytest.raises(ff.UsageError, match=r"did you mean 'repeat_last'\?$"):
        ff.Uniform(2, policy="repeat-last")  # type: ignore[arg-type]


def test_files_may_stand_behind_options(tmp_path: Path, answer: Answer) -> None:
    first, second = clip_file("good.mp4"), clip_file("good.mkv")
    assert answer("scan", first, "--workers", "0", second).out.startswith("2 of 2 files can be read")
    assert "none: no such file or folder" in answer("bench", "all", "--minutes", "1", tmp_path / "none", code=1).err
