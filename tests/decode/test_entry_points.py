"""A decoder of another package that is installed is found by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from framefeed.decode import ClipSlot, DecodeReport, VideoDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from tests.corpus import corpus_file
from tests.programs import run_python

ENTRY_POINTS = """
[framefeed.decoders]
grey = grey_frames:GreyDecoder
missing = grey_frames.that_is_not_there:Decoder
misspelled = grey_frames:GrayDecoder
unlicensed = grey_frames:refuse
incomplete = grey_frames:dict
classy = grey_frames:give_class
empty = grey_frames:give_nothing
"""
"""What an installer writes of a package's own list of entry points."""
MODULE = """
import framefeed as ff


class GreyDecoder:
    name = "grey"

    def decode(self, source, index, slots):
        for slot in slots:
            slot.out[:] = 128
        return ff.DecodeReport([None] * len(slots))

    def close(self):
        pass


dict = dict


def refuse():
    raise RuntimeError("no licence")


def give_class():
    return GreyDecoder


def give_nothing():
    assert False, "empty"
"""
PROGRAM = """
import sys
import framefeed as ff

with ff.VideoDecoder(sys.argv[1], backend="grey") as decoder:
    assert (decoder.get_frames_at([3, 1]).data == 128).all()
catalog = ff.scan(sys.argv[1])
with ff.ClipLoader(ff.plan_clips(catalog, ff.Uniform(2), seed=0), batch_size=1, backend="grey") as loader:
    assert (next(iter(loader)).data == 128).all()
for name in ("gray", "missing", "misspelled", "unlicensed", "incomplete", "classy", "empty"):
    try:
        ff.VideoDecoder(sys.argv[1], backend=name)
    except ff.FramefeedError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_an_installed_decoder_is_found_by_name(tmp_path: Path) -> None:
    facts = tmp_path / "grey_frames-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: grey-frames\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "grey_frames.py").write_text(MODULE)
    run = run_python("-c", f"import sys; sys.path.append({str(tmp_path)!r})\n{PROGRAM}", str(corpus_file("base.mp4")))
    assert (run.returncode, run.stderr) == (0, "")
    unknown, missing, *broken = run.stdout.splitlines()
    assert unknown.startswith(
        "UsageError unknown backend 'gray': use one of auto, classy, dali, decord, empty, grey, inc"
    )
    assert unknown.endswith("did you mean 'grey'?")
    whose = "(grey_frames.that_is_not_there:Decoder) of the package grey-frames"
    assert missing.startswith(f"MissingDependency the backend 'missing' {whose} cannot be imported: No module named")
    reasons = (
        "(grey_frames:GrayDecoder) of the package grey-frames cannot be made: AttributeError",
        "(grey_frames:refuse) of the package grey-frames cannot be made: RuntimeError: no licence: tell its authors",
        "(grey_frames:dict) of the package grey-frames gives no decoder: its dict has no name and no decode",
        "(grey_frames:give_class) of the package grey-frames gives no decoder: its type is a class: return an object",
        "(grey_frames:give_nothing) of the package grey-frames cannot be made: AssertionError: empty",
    )
    for text, reason in zip(broken, reasons, strict=True):
        assert text.startswith("UsageError the backend ")
        assert reason in text


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (None, "returned a NoneType"),
        (DecodeReport([]), "returned 0 errors"),
        (DecodeReport(["bad"]), "returned a str as an error"),  # type: ignore[list-item]
        (DecodeReport([None], None), "returned a DecodeReport"),  # type: ignore[arg-type]
    ],
)
def test_a_report_that_is_none_is_a_wrong_decoder(report: DecodeReport | None, said: str) -> None:
    class Wrong:
        name = "wrong"

        def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
            return report  # type: ignore[return-value]

        def close(self) -> None: ...

    with VideoDecoder(corpus_file("base.mp4"), backend=Wrong()) as decoder, pytest.raises(UsageError, match=said):
        decoder[0]
