"""What may go wrong around an engine: memory of its data, standard error, forks, shortages, other libraries."""

from __future__ import annotations

import os
import random
import resource
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.decode import PendingFrames, VideoDecoder, find_decoder
from framefeed.errors import CorruptMedia, MediaError, ResourceExhausted, UnsupportedCodec
from framefeed.testing import ClipSpec, read_stamp, read_stamps, write_clip
from tests.corpus import corpus_file
from tests.engines.conftest import require_engine
from tests.engines.law import catch
from tests.media.files import readable_path
from tests.programs import run_python

BYTES = ("torchcodec", "decord")
"""Engines that read bytes."""


@pytest.mark.parametrize("name", BYTES)
def test_M01_bytes_at_the_address_of_others_are_read_anew(name: str, tmp_path: Path) -> None:
    require_engine(name)
    clips = [write_clip(tmp_path / "clip.mp4", ClipSpec(4, first_stamp=9 * number)).read_bytes() for number in range(6)]
    size = max(map(len, clips))
    for number in [*range(6)] * 3:
        data = b"".join((clips[number], bytes(size - len(clips[number]))))  # of one size, so that addresses come again
        with VideoDecoder(data, backend=name) as decoder:
            assert read_stamp(decoder[3]) == 9 * number + 3
        del data, decoder


DAMAGED = {
    "hevc.mp4": ClipSpec(100, codec="libx265"),
    "ffv1.mkv": ClipSpec(20, codec="ffv1", gop=None, b_frames=None),
    "h264.mp4": ClipSpec(60, gop=12, b_frames=2),
}
TYPE_OF_SKIPPED = 0x12
"""A header of HEVC's units, of a picture that decoders leave out behind a key frame."""


@pytest.mark.parametrize("name", DAMAGED)
def test_D01_a_damaged_packet_moves_no_frame(engine: str, name: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / name, DAMAGED[name])
    packets, whole = ff.build_index(path).packets, path.read_bytes()
    chance = random.Random(name)
    for number, kind in ((41 % len(packets.offset), "header"), (5, "bytes"), (9, "bytes")):
        at, size = (int(column[number]) for column in (packets.offset, packets.size))
        spoiled = bytearray(whole)
        if kind == "header":
            spoiled[at + 4] = TYPE_OF_SKIPPED
        for _ in range(30 if kind == "bytes" else 0):
            spoiled[at + chance.randrange(size)] = chance.randrange(256)
        path = tmp_path / f"{number}_{kind}_{name}"
        path.write_bytes(spoiled)
        shown = [read_numbers(path, backend) for backend in (engine, "pyav")]
        for ordinal in shown[0].keys() & shown[1].keys():
            assert shown[0][ordinal] == shown[1][ordinal], f"packet {number}, {kind}, frame {ordinal}"


def read_numbers(path: Path, backend: str) -> dict[int, int]:
    """The numbers that frames show, without those that do not come, or whose number is damaged; the first ones last."""
    shown: dict[int, int] = {}
    try:
        with VideoDecoder(path, backend=backend) as decoder:
            begin = 2 * len(decoder) // 5  # decord counts from a key frame after a seek
            for ordinal in (*range(begin, len(decoder)), *range(begin)):
                with suppress(CorruptMedia, ValueError):
                    shown[ordinal] = read_stamp(decoder[ordinal])
    except MediaError:
        return {}
    return shown


def test_standard_error_is_not_led_away_while_frames_are_read(
    engine: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fill = PendingFrames.fill

    def print_and_fill(*arguments: object) -> None:
        os.write(2, b"[my line @ 0x0000000] here\n")  # like one of FFmpeg's: it would be kept
        fill(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PendingFrames, "fill", print_and_fill)
    with VideoDecoder(corpus_file("base.mp4"), backend=engine) as decoder:
        decoder.get_frames_at([7, 30, 8])
    assert capfd.readouterr().err == "[my line @ 0x0000000] here\n" * 3


ENDS = """
import os, sys
import framefeed as ff
decoder = ff.VideoDecoder(sys.argv[2], backend=sys.argv[1])
decoder[4]
if os.fork() == 0:
    sys.exit(7)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
CLOSED = """
import os, sys
import framefeed as ff
os.close(0)
os.close(2)
ff.VideoDecoder(sys.argv[2], backend=sys.argv[1])[4]
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "code", "out"), [(ENDS, 7, ""), (CLOSED, 0, "done\n")], ids=["ends", "closed"])
def test_L01_programs_end(engine: str, program: str, code: int, out: str) -> None:
    """A forked child that ends as programs do, and a program without standard input and error."""
    run = run_python("-c", program, engine, str(corpus_file("base.mp4")))
    assert (run.returncode, run.stdout, run.stderr) == (code, out, "")


BESIDE = """
import sys
import framefeed as ff
ff.VideoDecoder(sys.argv[1], backend="decord")[4]
try:
    ff.VideoDecoder(sys.argv[2], backend="torchcodec")[0]
except ff.UnsupportedCodec as error:
    print(error)
"""


@pytest.mark.slow
def test_torchcodec_is_not_given_av1_beside_decord() -> None:
    for name in BYTES:
        require_engine(name)
    run = run_python("-c", BESIDE, str(corpus_file("base.mp4")), str(readable_path("av1.mp4")))
    assert run.returncode == 0, run.stderr
    assert "TorchCodec cannot open it: this process has imported decord, beside which" in run.stdout


def test_a_name_that_is_not_utf8_is_refused(engine: str, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.mp4")
    path.write_bytes(corpus_file("base.mp4").read_bytes())
    with VideoDecoder(path, backend=engine) as decoder, pytest.raises(UnsupportedCodec, match="is not UTF-8"):
        decoder[0]


def test_L09_a_shortage_of_descriptors_is_no_fact_about_a_file(engine: str, tmp_path: Path) -> None:
    paths = [write_clip(tmp_path / f"{number}.mp4", ClipSpec(8)) for number in range(6)]
    indexes = [ff.build_index(path) for path in paths]
    find_decoder(engine)
    find_decoder("pyav").close()
    find_decoder(engine).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found: list[object] = []
    for spare in range(16):
        taken = [os.dup(0) for _ in range(spare)]
        highest = os.dup(0)
        os.close(highest)
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        try:
            for path, index in zip(paths, indexes, strict=True):
                decoder = VideoDecoder(path, backend=engine, frame_index=index)
                found.append(read_stamps(decoder.get_frames_at([3, 5]).data))
        except ResourceExhausted as error:
            found.append(error.resource)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            find_decoder(engine).close()
    assert found[-1] == [3, 5]
    assert found[0] == "file descriptors of this process"
    assert all(each in ([3, 5], "file descriptors of this process") for each in found)


def test_a_damaged_header_is_no_shortage_of_memory(engine: str, tmp_path: Path) -> None:
    """FFmpeg says of it that memory cannot be allocated."""
    spoiled = bytearray(corpus_file("base.mp4").read_bytes())
    count = spoiled.index(b"stco") + 8
    spoiled[count : count + 4] = b"\xff" * 4
    (tmp_path / "clip.mp4").write_bytes(spoiled)
    index = ff.build_index(corpus_file("base.mp4"))
    with VideoDecoder(tmp_path / "clip.mp4", backend=engine, frame_index=replace(index, identity=None)) as decoder:
        error = catch(lambda: decoder[3])
    assert not isinstance(error, ResourceExhausted)


def test_an_error_of_a_frame_names_the_engine(engine: str) -> None:
    for name in ("shifted_key_flags.mp4", "vfr.mkv", "duplicate_pts.mkv"):
        with VideoDecoder(corpus_file(name), backend=engine) as decoder:
            library = find_decoder(engine).facts.library  # type: ignore[attr-defined]
            for ordinal in range(0, len(decoder), 9):
                error = catch(partial(decoder.get_frame_at, ordinal))
                assert error is None or library in str(error), error


def test_a_cache_of_whole_pictures_stores_what_an_engine_gives(engine: str, tmp_path: Path) -> None:
    plan = ff.plan_clips(ff.scan(corpus_file("base.mp4")), ff.Uniform(3), seed=0)
    with ff.FrameCache(tmp_path / "cache") as cache:
        shown = []
        for _ in range(2):
            with ff.ClipLoader(plan, batch_size=1, workers=0, backend=engine, cache=cache) as loader:
                shown.append(read_stamps(next(iter(loader)).data[0]))
        assert shown == [plan[0].indices.tolist()] * 2
        assert cache.info().num_frames == 3
