"""Shortages of the machine while frames are decoded and converted: exact frames or ResourceExhausted, never damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import av.error
import numpy as np
import pytest
from PIL import Image

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends import _pyav_runs
from framefeed.decode.backends._pyav_pools import get_thread_pools
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia, ResourceExhausted, UnreadableMedia, UnsupportedCodec
from framefeed.index import build_index
from framefeed.media import ImageSequence
from framefeed.scanning import scan
from framefeed.testing import read_stamps
from tests.corpus import corpus_file, expected_stamps
from tests.decode.faults import changed_decoders
from tests.lengths import pairwise
from tests.makers import open_corpus, slot_of
from tests.media import faults
from tests.media.faults import CALLS, Fault

SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
WANTED = (0, 1, 9)
KINDS = (*CALLS, "decode", "convert")


@contextmanager
def failing(kind: str, fault: Fault) -> Iterator[None]:
    get_thread_pools().clear()
    with failing_conversions(fault) if kind == "convert" else faults.failing(kind, fault):
        yield


@contextmanager
def failing_conversions(fault: Fault) -> Iterator[None]:
    real = Converter._write_unscaled

    def write(*given: Any) -> None:
        if fault.is_due:
            kind = av.error.classes.get(fault.number, av.error.OSError)
            raise kind(fault.number, os.strerror(fault.number), "sws_scale_frame()")
        real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Converter, "_write_unscaled", write)
        yield


READING: dict[str, Callable[[VideoDecoder], Any]] = {
    "one call": lambda decoder: decoder.get_frames_at(list(WANTED)).data,
    "one by one": lambda decoder: np.stack([decoder[number] for number in WANTED]),
}


@pytest.mark.parametrize(("kind", "reading", "name"), pairwise(KINDS, [*READING], ["base.mp4", "closed_gop.ts"]))
def test_a_shortage_at_any_call_gives_exact_frames_or_says_so(kind: str, reading: str, name: str) -> None:
    path = corpus_file(name)
    index, read = build_index(path), READING[reading]
    expected = [expected_stamps(name)[number] for number in WANTED]

    def frames() -> list[int]:
        with VideoDecoder(path, frame_index=index) as decoder:
            return read_stamps(read(decoder))

    for at, number in enumerate(cycle(SHORTAGES)):
        once, always = Fault(number, at), Fault(number, at, stays=True)
        with failing(kind, once):
            assert frames() == expected
        if once.calls <= at:
            break
        with failing(kind, always), pytest.raises(ResourceExhausted) as caught:
            frames()
        assert caught.value.resource
        assert name in str(caught.value)
    assert at >= 1
    assert frames() == expected


@pytest.mark.parametrize("kind", ["open", "read"])
def test_a_shortage_spoils_no_picture_of_a_sequence(tmp_path: Any, kind: str) -> None:
    for number in range(3):
        Image.fromarray(np.full((16, 16, 3), 10 * number, np.uint8)).save(tmp_path / f"{number}.png")
    source = ImageSequence(tmp_path, fps=10)
    index = build_index(source)

    def values() -> list[int]:
        with VideoDecoder(source, frame_index=index) as decoder:
            return [int(frame[0, 0, 0]) for frame in decoder.get_frames_at([0, 1, 2]).data]

    for at in range(3):
        with failing(kind, Fault(errno.EMFILE, at)):
            assert values() == [0, 10, 20]
        with failing(kind, Fault(errno.EMFILE, at, stays=True)), pytest.raises(ResourceExhausted):
            values()
    assert values() == [0, 10, 20]


def test_a_lost_device_is_no_shortage_and_no_damage() -> None:
    path = corpus_file("base.mp4")
    index = build_index(path)
    with failing("read", Fault(errno.EIO, 0)), pytest.raises(UnreadableMedia) as caught:
        VideoDecoder(path, frame_index=index)[0]
    assert caught.value.stage == "read"
    assert VideoDecoder(path, frame_index=index)[0] is not None


def test_what_swscale_refuses_is_an_unsupported_codec() -> None:
    path = corpus_file("base.mp4")
    with VideoDecoder(path) as decoder, failing("convert", Fault(errno.EINVAL, 0, stays=True)):
        for read in (lambda: decoder[0], lambda: decoder.get_frames_at([0, 3])):
            with pytest.raises(UnsupportedCodec, match=r"base.mp4.*yuv420p.*cannot be converted"):
                read()


def test_a_lack_of_memory_that_a_decoder_calls_invalid_data_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """libavcodec's H.264 decoder says "invalid data" where it gets no buffer; only its log tells."""
    real, calls = _pyav_runs.libav_log, 0

    class Log:
        def __init__(self) -> None:
            self.log = real()

        def __enter__(self) -> list[tuple[int, str, str]]:
            nonlocal calls
            calls += 1
            lines: list[tuple[int, str, str]] = self.log.__enter__()
            if calls in failing_at:
                lines.append((16, "h264", "get_buffer() failed\n"))
            return lines

        def __exit__(self, *given: object) -> None:
            self.log.__exit__(*given)

    monkeypatch.setattr(_pyav_runs, "libav_log", Log)
    monkeypatch.setattr("framefeed.media._libav_errors.is_memory_there", lambda _: calls not in failing_at)
    expected = expected_stamps("base.mp4")
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        failing_at = {3}
        calls = 0
        assert read_stamps(decoder.get_frames_in_range(0, 8).data) == expected[:8]
        failing_at, calls = set(range(3, 1000)), 0
        with pytest.raises(ResourceExhausted, match="memory"):
            decoder.get_frames_in_range(0, 8)
        failing_at = set()
        assert read_stamps(decoder.get_frames_in_range(0, 8).data) == expected[:8]


def claims_too_much(decoder: Any, packet: Any) -> Any:
    """Decode, but for a packet for which libav would have to give more memory than it ever does at once."""
    if packet is not None and packet.pts == 5:
        raise av.MemoryError(errno.ENOMEM, os.strerror(errno.ENOMEM), "avcodec_send_packet()")
    return decoder.decode(packet)


@pytest.mark.parametrize("name", ["closed_gop.ts", "hidden_vp8.webm", "no_pts.avi"])
def test_D01_a_packet_that_claims_more_than_libav_ever_gives_is_damage_while_memory_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(corpus_file(name).read_bytes())
    index = build_index(path)
    lost = int(np.flatnonzero(index.frame_packet == 5)[0])
    with changed_decoders(claims_too_much):
        table = scan(path, verify="full", workers=0).table
        assert table["num_frames"].to_pylist() == [len(index) - (index.built_from == "decode")]
        assert table["num_damaged_frames"].to_pylist()[0] > 0
        with VideoDecoder(path, frame_index=index) as decoder, pytest.raises(CorruptMedia) as caught:
            decoder[lost]
        assert list(caught.value.frames) == [lost]
        monkeypatch.setattr("framefeed.media._libav_errors.is_memory_there", lambda _: False)
        for ask in (lambda: scan(path, verify="full", workers=0), lambda: VideoDecoder(path, frame_index=index)[lost]):
            with pytest.raises(ResourceExhausted):
                ask()


@pytest.mark.parametrize("number", SHORTAGES)
def test_pictures_that_are_taken_damaged_are_tried_again_too(number: int) -> None:
    source, index = open_corpus("closed_gop.ts")
    slot = slot_of(index, [9], accepts_damaged=True)
    with failing("open", Fault(number, 0)):
        assert PyAVDecoder().decode(source, index, [slot]).errors == [None]
    assert np.array_equal(slot.out[0], VideoDecoder(corpus_file("closed_gop.ts"))[9])
    with failing("open", Fault(number, 0, stays=True)), pytest.raises(ResourceExhausted):
        PyAVDecoder().decode(source, index, [slot])


def test_an_open_gop_is_decoded_once_although_its_decoder_complains() -> None:
    """Behind an open-GOP start H.264 asks to forget pictures that are not there, and says so as an error."""
    (source, index), counts = open_corpus("open_gop.mp4"), DecodeCounts()
    get_thread_pools().clear()
    wanted = range(0, len(index), 7)
    assert {ordinal for ordinal, _ in PyAVDecoder().iter_native(source, index, wanted, counts)} == set(wanted)
    assert counts.contexts_made == 1
