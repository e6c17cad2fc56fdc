"""The exam of decoders: our own pass it, the docs' example passes it, and every test of it catches a wrong one."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest

import pytest
from PIL import Image

from framefeed.cache import FrameCache
from framefeed.decode import Decoder, make_auto_decoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.backends.still import StillDecoder
from framefeed.media import ImageSequence
from framefeed.testing import ClipSpec, DecoderExam, draw_stamp
from tests.test_docs import ROOT, blocks_of, run_python
from tests.testing.wrong_decoders import CAUGHT, Right, StreamsLate

VIDEO_ABILITIES = frozenset({"bytes", "file", "iter_native", "iter_rgb", "pickle", "rotation"})


class TestPyAV(DecoderExam):
    abilities = VIDEO_ABILITIES

    def make_decoder(self) -> Decoder:
        return PyAVDecoder()


class TestDemuxedPyAV(TestPyAV):
    """Packets come from FFmpeg's demuxer."""

    def make_decoder(self) -> Decoder:
        return PyAVDecoder(direct=False, skip=False)


class TestAuto(TestPyAV):
    def make_decoder(self) -> Decoder:
        return make_auto_decoder()


class TestStill(DecoderExam):
    abilities = frozenset({"iter_native", "iter_rgb", "pickle"})

    def make_decoder(self) -> Decoder:
        return StillDecoder()

    def write_source(self, folder: Path, spec: ClipSpec) -> ImageSequence:
        for number, stamp in enumerate(spec.stamps):
            picture = draw_stamp(stamp, *spec.displayed_size, style=spec.style, seed=spec.seed)
            Image.fromarray(picture).save(folder / f"img{number}.png")
        return ImageSequence(folder, fps=spec.fps)

    def lose_frame(self, source: ImageSequence, ordinal: int) -> None:
        path = Path(str(source.folder)) / f"img{ordinal}.png"
        data = path.read_bytes()
        path.write_bytes(data[:60] + bytes(len(data) - 60))


class TestAutoOfPictures(TestStill):
    def make_decoder(self) -> Decoder:
        return make_auto_decoder()


class TestCaching(DecoderExam):
    abilities = frozenset({"bytes", "file", "iter_rgb", "rotation"})

    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        with FrameCache(tmp_path_factory.mktemp("cache")) as cache:
            self.cache = cache
            yield

    def make_decoder(self) -> Decoder:
        return self.cache.decoder(PyAVDecoder())


# --- the example of docs/own-decoder.md -----------------------------------------------------------


def _documented_decoder() -> type:
    # Its definition alone: tests/test_docs.py runs the whole page.
    block = next(block for block in blocks_of(ROOT / "docs" / "own-decoder.md") if "class FromTheStart" in block.code)
    module = ModuleType("own_decoder")
    definition = replace(block, code=block.code.partition("\ncatalog = ")[0])
    run_python(definition, module)
    found: type = module.__dict__["FromTheStart"]
    return found


class TestDocumented(DecoderExam):
    def make_decoder(self) -> Decoder:
        decoder: Decoder = _documented_decoder()()
        return decoder


# --- every test of it catches a decoder that is wrong ---------------------------------------------


class ExamOfWrong(DecoderExam):
    """All abilities but those that a wrong decoder cannot have."""

    def __init__(self, kind: type[Right]) -> None:
        self.kind = kind
        self.abilities = VIDEO_ABILITIES - (set() if issubclass(kind, StreamsLate) else {"iter_native", "iter_rgb"})

    def make_decoder(self) -> Decoder:
        return self.kind()


EXAM = [name for name in dir(DecoderExam) if name.startswith("test_")]


def caught_by(kind: type[Right], test: str, folder: Path) -> bool:
    examine = getattr(ExamOfWrong(kind), test)
    try:
        examine(folder) if "tmp_path" in inspect.signature(examine).parameters else examine()
    except Exception as error:  # a skip too: pytest would show it
        return not isinstance(error, SkipTest)
    return False


@pytest.mark.parametrize(("kind", "test"), CAUGHT, ids=lambda each: getattr(each, "__name__", each))
def test_a_wrong_decoder_is_caught(kind: type[Right], test: str, tmp_path: Path) -> None:
    assert caught_by(kind, test, tmp_path)


@pytest.mark.parametrize("test", [test for test in EXAM if "iter" not in test])
def test_what_wrong_decoders_wrap_is_right(test: str, tmp_path: Path) -> None:
    assert not caught_by(Right, test, tmp_path)


def test_every_test_of_the_exam_catches_one() -> None:
    assert {test for _, test in CAUGHT} == set(EXAM)
