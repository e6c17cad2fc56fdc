"""What all engines have in common, by engines that do wrong in one way each: typed errors that name file and engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.decode import VideoDecoder, _slots, find_decoder
from framefeed.decode.backends._engine import EngineDecoder, EngineFailure, NotOpened, Picture
from framefeed.decode.backends._engine_facts import EngineFacts
from framefeed.errors import CorruptMedia, FormatChanged, StaleSource, UnsupportedCodec, UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import read_stamps
from tests.corpus import corpus_file, expected_stamps
from tests.makers import slot_of
from tests.programs import run_python

FACTS = EngineFacts("Fake", sources=frozenset({"path", "bytes"}), times="stream", counts=True, chooses_stream=True)
Change = Callable[[Picture], Picture]


def keep(picture: Picture) -> Picture:
    return picture


@dataclass
class FakeFile:
    """A file that PyAV's backend reads, with each picture changed."""

    source: MediaSource
    index: FrameIndex
    change: Change
    num_frames: int

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        for ordinal in ordinals:
            stored = replace(self.index, stream=replace(self.index.stream, rotation=0, mirrored=False))
            slot = slot_of(stored, [ordinal], OutputSpec(dimension_order="NHWC"))
            find_decoder("pyav").decode(self.source, stored, [slot]).raise_first()
            yield self.change(Picture(ordinal, slot.out[0], float(self.index.pts_seconds[ordinal])))

    def close(self) -> None:
        pass


class FakeEngine(EngineDecoder):
    """An engine that gives what PyAV does, but for one change."""

    name = "fake"

    def __init__(self, change: Change = keep, facts: EngineFacts = FACTS, num_frames: int | None = None) -> None:
        super().__init__()
        self.facts, self.change, self.num_frames = facts, change, num_frames
        self.opens = 0

    def open_file(self, source: MediaSource, index: FrameIndex) -> FakeFile:
        self.opens += 1
        return FakeFile(source, index, self.change, len(index) if self.num_frames is None else self.num_frames)

    def describe_versions(self) -> str:
        return "Fake 1"


@pytest.fixture(autouse=True)
def _no_idle_files() -> Iterator[None]:
    yield
    FakeEngine().close()


def fail_at(ordinal: int) -> Change:
    def change(picture: Picture) -> Picture:
        if picture.ordinal == ordinal:
            raise EngineFailure("no such frame")
        return picture

    return change


def test_an_engine_that_is_right_gives_the_frames_asked_for() -> None:
    engine = FakeEngine()
    for name in ("base.mp4", "rotated_90_mirrored.mp4"):
        with VideoDecoder(corpus_file(name), backend=engine) as fake, VideoDecoder(corpus_file(name)) as ours:
            wanted = [20, 3, 3, 11]
            assert read_stamps(fake.get_frames_at(wanted).data) == [expected_stamps(name)[each] for each in wanted]
            np.testing.assert_array_equal(fake[5], ours[5])
    assert engine.opens == 2  # idle files are used again


def test_a_frame_that_fails_fails_only_its_clips() -> None:
    with VideoDecoder(corpus_file("base.mp4"), backend=FakeEngine(fail_at(7))) as decoder:
        with pytest.raises(
            CorruptMedia, match=r"base\.mp4: frame 7: Fake: no such frame: use backend='pyav'"
        ) as caught:
            decoder.get_frames_at([3, 7, 9])
        assert caught.value.frames == (7,)
        assert read_stamps(decoder.get_frames_at([3, 9]).data) == [3, 9]


def test_a_repeated_last_frame_is_told_by_its_time() -> None:
    def repeat(picture: Picture) -> Picture:
        return replace(picture, seconds=min(picture.seconds or 0, 3.9))

    with VideoDecoder(corpus_file("base.mp4"), backend=FakeEngine(repeat)) as decoder:
        with pytest.raises(CorruptMedia, match=r"Fake gave the picture of 3\.9\d* s for the frame at 3\.96") as caught:
            decoder[-1]
        assert caught.value.frames == (99,)


def test_a_time_is_the_frame_whose_own_is_nearest() -> None:
    shift = [0.0]

    def change(picture: Picture) -> Picture:
        return replace(picture, seconds=(picture.seconds or 0) + shift[0])

    with VideoDecoder(corpus_file("base.mp4"), backend=FakeEngine(change)) as decoder:
        shift[0] = 0.019
        assert read_stamps(decoder[4:5]) == [4]
        for shift[0] in (0.021, -0.021, float("nan")):
            with pytest.raises(CorruptMedia, match="Fake gave the picture of"):
                decoder[4]


def test_other_counts_and_sizes_are_typed() -> None:
    path = corpus_file("base.mp4")
    for count in (99, 101):
        counted = pytest.raises(CorruptMedia, match=rf"base\.mp4: Fake counts {count} frames where the index has 100")
        with VideoDecoder(path, backend=FakeEngine(num_frames=count)) as decoder, counted:
            decoder[0]
    engine = FakeEngine(lambda picture: replace(picture, pixels=picture.pixels[:40]))
    with VideoDecoder(path, backend=engine) as decoder, pytest.raises(FormatChanged, match="a picture of 128x40"):
        decoder[0]


@pytest.mark.parametrize(
    ("facts", "name", "said"),
    [
        ({"codecs": frozenset({"vp8"})}, "base.mp4", "Fake does not decode h264, only vp8"),
        ({"refused_codecs": frozenset({"h264"})}, "base.mp4", "Fake does not decode h264:"),
        ({"containers": frozenset({"matroska"})}, "base.mp4", "Fake does not find the frames of mov, only those of"),
        ({"refused_pairs": frozenset({("mov", "h264")})}, "base.mp4", "pictures of h264 in mov"),
        ({"pixel_formats": frozenset({"yuv420p"})}, "ten_bit.mp4", "Fake does not convert pixel format yuv420p10le"),
        ({"refused_widths": frozenset({128})}, "base.mp4", "Fake does not give pictures of 128 columns"),
        ({"rotations": frozenset({0, 180})}, "rotated_90.mp4", "Fake does not turn pictures by 90 degrees"),
        ({"rotations": frozenset({0})}, "mirrored.mp4", "by 0 degrees, mirrored"),
        ({}, "raw.h264", "the frames have no times of their own"),
        ({"takes_packets": True}, "duplicate_pts.mkv", "takes each packet for one frame"),
        ({"chooses_stream": False}, "two_videos.mp4", "cannot be told to decode stream 0 of several"),
        ({"interlaced": False}, "interlaced.mp4", "does not convert interlaced pictures"),
        ({"interlaced": False}, "fields.mp4", "does not convert interlaced pictures"),
    ],
)
def test_D11_what_an_engine_cannot_do_is_refused_by_name(facts: dict[str, object], name: str, said: str) -> None:
    engine = FakeEngine(facts=replace(FACTS, **facts))  # type: ignore[arg-type]
    with VideoDecoder(corpus_file(name), backend=engine) as decoder:
        with pytest.raises(UnsupportedCodec, match=said) as caught:
            decoder[0]
        assert "use backend='pyav', which decodes it" in str(caught.value)
        assert caught.value.source == str(corpus_file(name))
    assert not engine.opens


def test_sources_that_an_engine_does_not_read_are_wrong_calls() -> None:
    refused = pytest.raises(UsageError, match=r"base\.mp4: Fake reads paths and bytes, not file objects")
    with corpus_file("base.mp4").open("rb") as file, VideoDecoder(file, backend=FakeEngine()) as decoder, refused:
        decoder[0]


def test_what_a_failing_engine_prints_is_in_its_error_and_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    class Loud(FakeEngine):
        def open_file(self, source: MediaSource, index: FrameIndex) -> FakeFile:
            os.write(2, b"[h264 @ 0x000000] the codec is on strike\n")
            raise NotOpened("cannot open")

    said = pytest.raises(UnsupportedCodec, match=r"Fake cannot open it: cannot open; .* the codec is on strike")
    with VideoDecoder(corpus_file("base.mp4"), backend=Loud()) as decoder, said:
        decoder[0]
    os.write(2, b"after")
    assert capfd.readouterr() == ("", "after")


def test_a_frame_that_memory_ran_out_for_is_written_at_the_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    convert = _slots._try_converting

    def fail_once(*arguments: Any) -> Any:
        tried.append(1)
        if len(tried) == 2:
            raise MemoryError
        return convert(*arguments)

    monkeypatch.setattr(_slots, "_try_converting", fail_once)
    with VideoDecoder(corpus_file("base.mp4"), backend=FakeEngine()) as decoder:
        assert read_stamps(decoder.get_frames_at([3, 4, 5]).data) == [3, 4, 5]
    assert len(tried) > 3


def test_D09_a_file_that_changes_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(corpus_file("base.mp4").read_bytes())
    index, engine = build_index(path), FakeEngine()
    with VideoDecoder(path, backend=engine, frame_index=index) as decoder:
        decoder[0]
        path.write_bytes(corpus_file("vfr.mp4").read_bytes())
        with pytest.raises(StaleSource):
            decoder[0]


MODULES = {"opencv": "cv2", "decord": "decord", "torchcodec": "torchcodec", "dali": "nvidia"}
PROGRAM = """
import sys
import framefeed as ff
for name in sys.argv[2:]:
    try:
        ff.VideoDecoder(sys.argv[1], backend=name)
    except ff.MissingDependency as error:
        print(error)
"""


def list_refusals(prelude: str, *backends: str) -> list[str]:
    """Ask for backends in a process that begins with a line; list what it says. None needs PyTorch for its refusal."""
    program = f"import sys; sys.modules['torch'] = sys; {prelude}\n{PROGRAM}"
    run = run_python("-c", program, str(corpus_file("base.mp4")), *backends)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


def test_a_missing_library_names_its_extra() -> None:
    prelude = f"sys.modules.update(dict.fromkeys({list(MODULES.values())}))"
    for name, said in zip(MODULES, list_refusals(prelude, *MODULES), strict=True):
        assert f"backend='{name}' needs" in said
        assert f"pip install 'framefeed[{'dali' if name == 'dali' else 'engines'}]'" in said


def test_torchcodec_without_ffmpeg_says_so(tmp_path: Path) -> None:
    (tmp_path / "torchcodec.py").write_text("raise RuntimeError('Could not load libtorchcodec')")
    (said,) = list_refusals(f"sys.path.insert(0, {str(tmp_path)!r})", "torchcodec")
    assert "FFmpeg's shared libraries" in said


def test_a_library_that_cannot_be_imported_is_answered_by_the_innermost_cause(tmp_path: Path) -> None:
    lacking = "OSError('libnvrtc.so.13: cannot open')"
    (tmp_path / "torchcodec.py").write_text(f"raise OSError('Could not load this library') from {lacking}")
    (tmp_path / "cv2.py").write_text(f"raise Import{lacking[2:]}")
    said = list_refusals(f"sys.path.insert(0, {str(tmp_path)!r})", "torchcodec", "opencv")
    assert len(said) == 2
    for each in said:
        assert "Error: libnvrtc.so.13: cannot open)" in each
        assert "FFmpeg" not in each
        assert "not installed" not in each
