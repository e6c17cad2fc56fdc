"""What the system refuses while a picture is read: Pillow takes it for damage or passes over it, framefeed does not."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from framefeed._values import DEFAULT_LIMITS, BytesReader
from framefeed.decode import VideoDecoder
from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LimitExceeded,
    MediaError,
    ResourceExhausted,
    StaleSource,
    UnreadableMedia,
)
from framefeed.index import build_index, probe
from framefeed.media import ImageSequence
from framefeed.parallel import Ok, catch_outcome, find_shortage
from framefeed.pictures._pillow import PictureFile, decode_still, pillow_errors
from framefeed.scanning import scan
from tests.lengths import either
from tests.media.faults import CALLS, Fault, failing_calls
from tests.media.pictures import write_folder
from tests.pictures.made import WRITES_AVIF, WRITES_MPO, made, picture, saved

SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
FACTS = {errno.EIO: UnreadableMedia, errno.ESTALE: StaleSource, errno.ENXIO: StaleSource}
# "grey bits" have Pillow read their headers, and so has AVIF.
PICTURES = ("exif 6.jpeg", "mpo.jpeg", "RGB.png", "late exif 6.png", "animation.gif", "animation.webp", "P.bmp",
            "pages.tiff", "ycbcr jpeg.tiff", "two exif.jpeg", "picture.avif", "mono.png")  # fmt: skip
LEFT_OUT = {*(() if WRITES_AVIF else ("picture.avif",)), *(() if WRITES_MPO else ("mpo.jpeg",))}
"""What the installed Pillow does not write."""


@pytest.fixture(autouse=True)
def _without_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each shortage makes one, and in a process with all of the tests' modules it takes 0.1 s.
    monkeypatch.setattr("gc.collect", lambda: 0)


def _bytes_of(name: str) -> bytes:
    known = made()
    if name in known:
        return known[name]
    jpeg = known["exif 6.jpeg"]
    if name == "two exif.jpeg":
        at = jpeg.index(b"\xff\xe1")
        size = 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        return jpeg[:at] + jpeg[at : at + size] + jpeg[at:]
    return saved(picture(), "AVIF" if name.endswith("avif") else "PNG")


@pytest.fixture(params=[name for name in PICTURES if name not in LEFT_OUT])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = tmp_path / request.param.replace(" ", "_")
    found.write_bytes(_bytes_of(request.param))
    return found


def _pixels(path: Path) -> Any:
    with VideoDecoder(path) as decoder:
        return decoder[0].tolist()


def _row(path: Path) -> Any:
    return scan(path, workers=0).table.to_pydict()


ASKING: dict[str, Callable[[Path], Any]] = {
    "probe": probe,
    "index": lambda path: build_index(path, "full").stream,
    "pixels": _pixels,
    "row": _row,
}


def _calls(kind: str, call: Callable[[], Any]) -> int:
    fault = Fault(0, None)
    with failing_calls(kind, fault):
        call()
    return fault.calls


@pytest.mark.long
@pytest.mark.parametrize("asked", ASKING)
@pytest.mark.parametrize("kind", CALLS)
def test_each_errno_at_each_call_gives_the_same_or_the_right_error(kind: str, asked: str, path: Path) -> None:
    call = partial(ASKING[asked], path)
    expected = call()
    numbers = itertools.cycle((*SHORTAGES, *FACTS, errno.EBADF))
    for at in range(_calls(kind, call)):
        for number in itertools.islice(numbers, either(short=1, long=3)):
            with failing_calls(kind, Fault(number, at)):
                _check(call, expected, number, at, asked)
    assert call() == expected


def _check(call: Callable[[], Any], expected: Any, number: int, at: int, asked: str) -> None:
    outcome = catch_outcome(_called, call)
    if isinstance(outcome, Ok):
        fact = FACTS[number].__name__ if number in FACTS else ""
        assert outcome.value == expected or (asked == "row" and outcome.value["error_type"] == [fact]), (number, at)
    elif number in FACTS:
        assert type(outcome.error) is FACTS[number], (number, at, outcome.error)
        assert number != errno.EIO or cast("UnreadableMedia", outcome.error).stage == "read"
    elif number == errno.EBADF:
        assert isinstance(outcome.error, OSError), (at, outcome.error)
        assert outcome.error.errno == errno.EBADF
    else:
        assert find_shortage(outcome.error) is not None, (number, at, outcome.error)
        assert not isinstance(outcome.error, MediaError)
        assert asked == "pixels"  # the others try again


def _called(call: Callable[[], Any]) -> Any:
    return call()


def test_a_shortage_that_stays_says_what_ran_out(path: Path) -> None:
    for kind in CALLS:
        for at in range(_calls(kind, partial(probe, path))):
            with failing_calls(kind, Fault(errno.EMFILE, at, stays=True)), pytest.raises(ResourceExhausted) as caught:
                probe(path)
            assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", CALLS)
def test_a_sequence_tells_a_shortage_and_a_lost_device_from_damage(kind: str, tmp_path: Path) -> None:
    sequence = ImageSequence(write_folder(tmp_path / "pictures", 3), fps=25)

    def call() -> Any:
        return build_index(sequence, "full").pts.tolist()

    expected = call()
    numbers = itertools.cycle((*SHORTAGES, *FACTS))
    for at in range(_calls(kind, call)):
        for number in itertools.islice(numbers, 2):
            with failing_calls(kind, Fault(number, at)):
                outcome = catch_outcome(_called, call)
            if isinstance(outcome, Ok):
                assert outcome.value == expected
            else:
                assert type(outcome.error) is FACTS.get(number, ResourceExhausted), (number, at)


# --- Pillow's own words -----------------------------------------------------------------------------


def _file(data: bytes = b"abc") -> PictureFile:
    return PictureFile(BytesReader(data), len(data), "a.png", DEFAULT_LIMITS)


def _damage(error: BaseException) -> MediaError:
    return CorruptMedia(f"a.png: {error}", source="a.png")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (MemoryError("no room"), MemoryError),
        (OSError("out of memory error when reading image file"), MemoryError),
        (OSError("decoder error -9"), MemoryError),
        (OSError(errno.EMFILE, "too many"), OSError),
        (OSError("image file is truncated"), CorruptMedia),
        (OSError("decoder error -2"), CorruptMedia),
        (SyntaxError("broken PNG file"), CorruptMedia),
        (ValueError("odd"), CorruptMedia),
        (LimitExceeded("too large"), LimitExceeded),
    ],
)
def test_exceptions_of_pillow_are_damage_unless_memory_ran_out(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(Exception) as caught, pillow_errors(_file(), _damage):  # noqa: PT011 - the type is looked at
        raise raised
    assert type(caught.value) is expected


class _LostReader(BytesReader):
    def read_into(self, buffer: memoryview, offset: int) -> int:
        raise UnreadableMedia("a.png: cannot be read", stage="read")


@pytest.mark.parametrize("after", [None, OSError("broken data stream"), EOFError(), UnreadableMedia("no picture")])
def test_the_exception_of_a_read_is_raised_whatever_pillow_does(after: Exception | None) -> None:
    file = PictureFile(_LostReader(b"abc"), 3, "a.png", DEFAULT_LIMITS)

    def read() -> None:
        try:
            file.read(1)
        except FramefeedError:
            pass  # as Pillow's readers do
        if after is not None:
            raise after

    with pytest.raises(UnreadableMedia, match="cannot be read") as caught, pillow_errors(file, _damage):
        read()
    assert caught.value.stage == "read"


def test_a_file_for_pillow_reads_as_a_file_does() -> None:
    file = _file(b"0123456789")
    assert (file.read(3), file.tell(), file.read(0), file.read(None)) == (b"012", 3, b"", b"3456789")
    assert (file.read(1), file.seek(-2, 2), file.read(), file.seek(-4, 1), file.read(2)) == (b"", 8, b"89", 6, b"67")
    assert (file.seek(99), file.read(5)) == (99, b"")
    with pytest.raises(ValueError, match="-1"):
        file.seek(-1)


def test_memory_that_runs_out_in_pillow_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(picture(), "PNG")

    def refuse(*_: object) -> Any:
        raise MemoryError

    assert np.asarray(decode_still(data, "a.png", DEFAULT_LIMITS)).size
    monkeypatch.setattr("PIL.Image.core.new", refuse)
    monkeypatch.setattr("PIL.Image.core.fill", refuse)
    with pytest.raises(MemoryError):
        decode_still(data, "a.png", DEFAULT_LIMITS)
    with pytest.raises(ResourceExhausted, match="memory"):
        build_index(data, "full")
