"""What the system refuses: a shortage is never a fact about a file, a lost device never a damaged header."""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.errors import MediaError, MissingMedia, ResourceExhausted, StaleSource, UnreadableMedia
from framefeed.index import build_index, probe
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, clip_bytes
from tests.corpus import clip_file
from tests.lengths import pairwise
from tests.media.faults import CALLS, Fault, failing

SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
FACTS = {errno.EIO: UnreadableMedia, errno.ESTALE: StaleSource, errno.ENXIO: StaleSource}
NAMES = ("good.mp4", "good.mkv", "good.ts", "good.avi")


def _index_facts(path: Path) -> Any:
    index = build_index(path, verify="ends")
    return index.pts.tolist(), index.packets.offset.tolist(), index.stream, index.built_from


ASKING: dict[str, Callable[[Path], Any]] = {"probe": probe, "index": _index_facts}


def _count(kind: str, call: Callable[[], Any]) -> int:
    fault = Fault(0, None)
    with failing(kind, fault):
        call()
    return fault.calls


def _some(calls: int) -> list[int]:
    """All of few calls; of many the first, the last and some between. The chaos run takes all."""
    return list(range(calls)) if calls <= 6 else sorted({0, 1, 2, calls // 2, calls - 2, calls - 1})


@pytest.mark.parametrize(("kind", "asked", "name"), pairwise([*CALLS, "decode"], [*ASKING], NAMES))
def test_a_shortage_at_any_call_changes_no_fact(kind: str, asked: str, name: str) -> None:
    call = partial(ASKING[asked], clip_file(name))
    expected = call()
    for at, number in zip(_some(_count(kind, call)), itertools.cycle(SHORTAGES), strict=False):
        with failing(kind, Fault(number, at)):
            assert call() == expected
        with failing(kind, Fault(number, at, stays=True)), pytest.raises(ResourceExhausted) as caught:
            call()
        assert name in str(caught.value)
    assert call() == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", CALLS)
def test_D08_a_lost_device_is_named_and_no_damage(kind: str, name: str) -> None:
    call = partial(_index_facts, clip_file(name))
    for at in _some(_count(kind, call)):
        for number, expected in FACTS.items():
            with failing(kind, Fault(number, at)), pytest.raises(expected, match=name) as caught:
                call()
            assert number != errno.EIO or caught.value.stage == "read"


@pytest.mark.parametrize("claimed", [2**31 - 1, 2**32 - 1])
def test_a_packet_that_claims_more_than_there_can_be_is_damage_and_no_shortage(tmp_path: Path, claimed: int) -> None:
    data = bytearray(clip_bytes(ClipSpec(num_frames=8, codec="libvpx", b_frames=None), "ivf"))
    data[32:36] = struct.pack("<I", claimed)  # the size of the first frame
    path = tmp_path / "claims.ivf"
    path.write_bytes(data)
    for ask in (probe, build_index):
        with suppress(MediaError):  # what is there of the packet may give a frame
            ask(path)


@pytest.mark.parametrize("handled", [MemoryError(), BlockingIOError(errno.EAGAIN, "busy"), ResourceExhausted("memory")])
def test_an_exception_that_the_caller_handles_is_no_shortage(tmp_path: Path, handled: Exception) -> None:
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(clip_file("good.mp4").read_bytes()[:400])
    for ask in (probe, build_index):
        try:
            raise handled
        except type(handled):
            with pytest.raises(MissingMedia):
                ask(tmp_path / "missing.mp4")
            with pytest.raises(UnreadableMedia):
                ask(damaged)


@pytest.mark.parametrize("kind", ["read", "stat"])
def test_a_descriptor_that_we_closed_is_our_bug(kind: str) -> None:
    call = partial(_index_facts, clip_file("good.mkv"))
    for at in _some(_count(kind, call)):
        with failing(kind, Fault(errno.EBADF, at)), pytest.raises(OSError, match="Bad file descriptor") as caught:
            call()
        assert not isinstance(caught.value, MediaError)


@pytest.mark.parametrize("kind", ["open", "read"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_scan_stops_with_a_shortage_and_goes_on_from_there(tmp_path: Path, kind: str, workers: int) -> None:
    for name in (*NAMES, "good.png"):
        source = tmp_path / name
        source.write_bytes(clip_file("good.mp4" if name == "good.png" else name).read_bytes())
    out = tmp_path / "out" / "cat.parquet"
    out.parent.mkdir()
    expected = scan(tmp_path, workers=0).table
    calls = _count(kind, lambda: scan(tmp_path, workers=0))
    for at in (0, calls // 2, calls - 1):
        # Another catalog each time: what is known already is not read again, and too few calls may be left.
        out = tmp_path / "out" / f"cat{at}.parquet"
        with failing(kind, Fault(errno.EMFILE, at, stays=True)), pytest.raises(ResourceExhausted):
            scan(tmp_path, out=out, workers=workers)
        assert not out.exists()
        assert scan(tmp_path, out=out, workers=workers).table.equals(expected)


def test_D08_a_file_on_a_lost_device_is_a_row_and_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "a.mkv").write_bytes(clip_file("good.mkv").read_bytes())
    (tmp_path / "b.mkv").write_bytes(clip_file("good.mkv").read_bytes())
    out = tmp_path / "cat.parquet"
    with failing("read", Fault(errno.EIO, 2)):  # the first two are those of the fast route
        made = scan([tmp_path / "a.mkv", tmp_path / "b.mkv"], out=out, workers=0)
    assert [kind for _, kind, _ in made.failures] == ["UnreadableMedia"]
    again = scan([tmp_path / "a.mkv", tmp_path / "b.mkv"], out=out, workers=0)
    assert not again.failures
    assert np.array_equal(again.usable_rows, [0, 1])
