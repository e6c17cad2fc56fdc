"""Every engine passes the exam of decoders, and says what it reads."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from framefeed.decode import Decoder, VideoDecoder, find_decoder
from framefeed.errors import CorruptMedia, UsageError
from framefeed.media import ImageSequence
from framefeed.request import OutputSpec
from framefeed.testing import DecoderExam, read_stamps
from tests.corpus import corpus_file
from tests.engines.conftest import require_engine
from tests.engines.law import catch
from tests.media.pictures import write_folder


class EngineExam(DecoderExam):
    """The exam of one engine by its name; skipped where it is not installed."""

    __test__ = False
    engine: str

    @pytest.fixture(autouse=True)
    def _required(self) -> None:
        require_engine(self.engine)

    def make_decoder(self) -> Decoder:
        return find_decoder(self.engine)


class TestOpenCV(EngineExam):
    __test__ = True
    engine = "opencv"
    abilities = frozenset({"pickle", "rotation"})


class TestTorchCodec(EngineExam):
    __test__ = True
    engine = "torchcodec"
    # It turns pictures, and does not mirror them.
    abilities = frozenset({"bytes", "pickle"})


class TestApproximateTorchCodec(TestTorchCodec):
    engine = "torchcodec-approximate"


class TestDecord(EngineExam):
    __test__ = True
    engine = "decord"
    abilities = frozenset({"bytes", "pickle"})

    def test_a_lost_frame_fails_only_its_slots(self, tmp_path: Path) -> None:
        """It decodes ahead in a thread of its own, so that a lost frame may fail others too; none is wrong."""
        lost, spec = 17, replace(self.clip, gop=1, b_frames=0)
        with self._opening(tmp_path, spec, lost=lost) as source:
            for ordinal in (0, lost, lost + 1, spec.num_frames - 1):
                (pixels,), report = source.decode(([ordinal], OutputSpec()))
                if report.errors[0] is None:
                    assert read_stamps(pixels) == [spec.stamps[ordinal]]
                else:
                    assert isinstance(report.errors[0], CorruptMedia)
                assert report.errors[0] or ordinal != lost


def test_a_source_that_the_engine_does_not_read_is_a_wrong_call(engine: str) -> None:
    wanted = pytest.raises(UsageError, match=r"reads paths.*not file objects: use backend='pyav'")
    with corpus_file("base.mp4").open("rb") as file, VideoDecoder(file, backend=engine) as decoder, wanted:
        decoder[0]


def test_pictures_are_refused(engine: str, tmp_path: Path) -> None:
    sequence = ImageSequence(write_folder(tmp_path / "pictures"), fps=25)
    with pytest.raises(UsageError, match=f'backend="{engine}" cannot decode pictures'):
        VideoDecoder(sequence, backend=engine)


def test_D14_nothing_is_printed(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("open_gop.ts", "flipped_bytes.mp4", "shifted_key_flags.mp4", "truncated.mp4", "no_cues.mkv"):
        with VideoDecoder(corpus_file(name), backend=engine) as decoder:
            for ordinal in range(0, len(decoder), 9):
                catch(partial(decoder.get_frame_at, ordinal))
    assert capfd.readouterr() == ("", "")


def test_L01_a_forked_child_opens_files_of_its_own(engine: str) -> None:
    with VideoDecoder(corpus_file("base.mp4"), backend=engine) as decoder:
        before = decoder.get_frames_at([60, 3]).data
        child = os.fork()
        if not child:
            os._exit(0 if (decoder.get_frames_at([60, 3]).data == before).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert (decoder.get_frames_at([60, 3]).data == before).all()
