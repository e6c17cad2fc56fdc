"""No exception of PyAV crosses the border of media."""

from __future__ import annotations

import errno
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import av
import av.error
import pytest

from framefeed.errors import CorruptMedia, MediaError, MissingMedia, NoVideoStream, UnreadableMedia, UnsupportedCodec
from framefeed.index import build_index, probe
from framefeed.media import _libav_errors
from framefeed.media._libav_errors import (
    LIBAV_EXCEPTIONS,
    check_memory,
    in_one_line,
    libav_errors,
    libav_log,
    send_packet,
)
from framefeed.media._source import MediaSource
from tests.corpus import corpus_file

THEIRS = sorted(
    {
        value
        for module in (av.error, av)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, av.FFmpegError)
    },
    key=lambda kind: kind.__name__,
)
KINDS = {
    "DecoderNotFoundError": UnsupportedCodec,
    "EncoderNotFoundError": UnsupportedCodec,
    "BSFNotFoundError": UnsupportedCodec,
    "PatchWelcomeError": UnsupportedCodec,
    "FileNotFoundError": MissingMedia,
}


@pytest.mark.parametrize("codec", ["vc1", "huffyuv", "ffv1", "tscc"])
def test_a_decoder_that_cannot_be_opened_says_so_for_each_packet(codec: str) -> None:
    """PyAV 19 has a bare ValueError from the second packet on, because the decoder has no codec any more."""
    context = av.CodecContext.create(codec, "r")
    assert isinstance(context, av.VideoCodecContext)
    for packet in (av.Packet(b"frame"), av.Packet(b"frame"), None):
        with libav_log(), pytest.raises(av.FFmpegError):
            send_packet(context, packet)


def test_pyavs_exceptions_are_enumerated() -> None:
    assert len(THEIRS) > 30
    assert av.InvalidDataError in THEIRS


@pytest.mark.parametrize("stage", ["open", "index", "decode"])
@pytest.mark.parametrize(
    "theirs",
    [*(each for each in THEIRS if each is not av.MemoryError), EOFError],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
def test_every_exception_of_pyav_becomes_ours(theirs: type[Exception], stage: str) -> None:
    error = theirs(22, "what they said", "clip.mp4") if issubclass(theirs, av.FFmpegError) else theirs("what they said")
    expected = KINDS.get(theirs.__name__, CorruptMedia if stage == "decode" else UnreadableMedia)
    with pytest.raises(MediaError) as raised, libav_errors("clip.mp4", stage):
        raise error
    ours = raised.value
    assert type(ours) is expected
    assert ours.__cause__ is error
    assert (ours.source, ours.stage) == ("clip.mp4", stage)
    assert str(ours).startswith("clip.mp4: ")
    again = pickle.loads(pickle.dumps(ours))
    assert (type(again), str(again), again.source, again.stage) == (expected, str(ours), "clip.mp4", stage)


def test_all_exceptions_of_libav_are_listed() -> None:
    assert all(issubclass(theirs, LIBAV_EXCEPTIONS) for theirs in THEIRS)


def test_other_exceptions_pass() -> None:
    with pytest.raises(ZeroDivisionError), libav_errors("clip.mp4", "open"):
        raise ZeroDivisionError


def test_D14_nothing_of_ffmpegs_log_reaches_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("no_moov.mp4", "truncated.mp4", "flipped_bytes.mp4", "huge_frame.avi", "edit_list_all.mp4"):
        with suppress(MediaError):
            probe(corpus_file(name))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_each_error_has_ffmpegs_message() -> None:
    for _ in range(3):  # FFmpeg suppresses repeats by itself
        with pytest.raises(UnreadableMedia, match="moov atom not found"):
            probe(corpus_file("no_moov.mp4"))


def test_the_log_is_of_this_thread() -> None:
    def fail() -> None:
        av.open(str(corpus_file("no_moov.mp4")))

    with libav_log() as lines, suppress(av.FFmpegError):
        fail()
    assert "moov" in in_one_line(lines)
    with libav_log() as lines, ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(fail).exception(), av.FFmpegError)
    assert in_one_line(lines) == ""


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN])
def test_a_shortage_is_not_translated(number: int) -> None:
    error = av.error.classes[number](number, "said", "clip.mp4")
    with pytest.raises(type(error)) as raised, libav_errors("clip.mp4", "decode"):
        raise error
    assert raised.value is error


GETS_NO_BUFFER = [(16, "h264", "get_buffer() failed"), (16, "h264", "no frame!")]


def test_a_possible_lack_of_memory_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    damage = av.InvalidDataError(1, "invalid data")
    check_memory(damage, [(16, "h264", "error while decoding MB 3 4")], 2**20, 2**20)
    check_memory(damage, [(16, "h264", "Picture size 9x9 exceeds"), GETS_NO_BUFFER[0]], 2**20, None)
    with pytest.raises(MemoryError, match="get_buffer"):
        check_memory(damage, GETS_NO_BUFFER, 2**20, None)
    with pytest.raises(MemoryError):
        check_memory(damage, [], 2**57, 2**20)
    with pytest.raises(av.MemoryError):
        check_memory(av.MemoryError(errno.ENOMEM, "no"), [], 2**20, None)
    monkeypatch.setattr(_libav_errors, "is_memory_there", lambda nbytes: nbytes < 2**29)
    with pytest.raises(MemoryError, match="get_buffer"):
        check_memory(damage, GETS_NO_BUFFER, 2**20, 2**29)
    with pytest.raises(av.MemoryError):
        check_memory(av.MemoryError(errno.ENOMEM, "no"), [], 2**20, 2**29)


def test_a_lack_of_memory_is_damage_where_an_intact_file_would_fit() -> None:
    check_memory(av.MemoryError(errno.ENOMEM, "no"), [], 2**20, 2**20)
    check_memory(av.InvalidDataError(1, "invalid data"), GETS_NO_BUFFER, 2**20, 2**20)
    for number in (errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        with pytest.raises(OSError, match="said"):
            check_memory(av.error.classes[number](number, "said"), [], 2**20, 2**20)


def test_errors_name_the_source_as_the_user_does() -> None:
    data = corpus_file("no_moov.mp4").read_bytes()
    with pytest.raises(UnreadableMedia) as raised:
        probe(data)
    assert raised.value.source == MediaSource.of(data).name == f"<{len(data)} bytes>"


class Failing(io.BytesIO):
    """A file object whose own reading fails after a while."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        if self.reads > 3:
            raise ConnectionResetError("the server went away")
        return super().read(size)


def test_the_exception_of_a_file_object_is_raised() -> None:
    with pytest.raises(ConnectionResetError, match="went away"):
        build_index(Failing(corpus_file("base.mp4").read_bytes()))


def test_the_error_of_a_cut_file_says_so() -> None:
    whole = corpus_file("base.mp4").read_bytes()
    assert whole.find(b"moov") > len(whole) // 2
    for cut in (whole[: len(whole) // 2], whole[: whole.find(b"moov") - 4], whole[: whole.find(b"moov") + 50]):
        with pytest.raises((UnreadableMedia, NoVideoStream), match=r"may be cut short.* copy it again"):
            probe(cut)
