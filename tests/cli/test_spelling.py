from __future__ import annotations

import os
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.cache import find_codec
from framefeed.cli import main
from framefeed.decode import find_decoder
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
        (["bench", "all", "--rows", "tabel"], "'table'"),
        (["cache", "bulid", "x", "y"], "'build'"),
        (["scan", "x", "--verify", "proofs"], "'proof'"),
    ],
)
def test_the_nearest_word_is_named(words: list[str], meant: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert f"did you mean {meant}?" in err
    assert len(err.splitlines()) == 1


def test_a_word_unlike_all_others_gets_no_suggestion(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["xyzzy"], ["doctor", "--xyzzy"]):
        assert main(words) == 1
        assert "did you mean" not in capfd.readouterr().err


def test_arguments_in_python_get_suggestions_too() -> None:
    with pytest.raises(ff.UsageError, match=r"did you mean 'magicyuv'\?$"):
        find_codec("magicyuw")
    with pytest.raises(ff.UsageError, match=r"did you mean 'pyav'\?$"):
        find_decoder("pyva")
    with pytest.raises(ff.UsageError, match=r"did you mean 'nearest'\?$"):
        ff.AtSeconds([0], pick="nearst")  # type: ignore[arg-type]
    with pytest.raises(ff.UsageError, match=r"did you mean 'repeat_last'\?$"):
        ff.Uniform(2, policy="repeat-last")  # type: ignore[arg-type]


def test_files_may_stand_behind_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = clip_file("good.mp4"), clip_file("good.mkv")
    assert main(["scan", os.fspath(first), "--workers", "0", os.fspath(second)]) == 0
    assert capfd.readouterr().out.startswith("2 of 2 files can be read")
    assert main(["bench", "all", "--minutes", "1", os.fspath(tmp_path / "none")]) == 1
    assert "none: no such file or folder" in capfd.readouterr().err
