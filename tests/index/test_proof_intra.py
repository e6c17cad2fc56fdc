"""Codecs in which each frame stands for itself, proved from their packets."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from framefeed.testing import clip_bytes, put_packets, take_packets, write_clip
from tests.codec_clips import CODECS
from tests.index.proof_checks import PROVED, check, collecting_reasons


def _jpeg(height: int = 96) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((128, height)).convert("RGB").save(file, "JPEG")
    return file.getvalue()


def _thumbnailed(packet: bytes) -> bytes:
    """Put a smaller picture into an application segment."""
    thumbnail = _jpeg(16)
    return packet[:2] + b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail + packet[2:]


def _replaced(packet: bytes, at: int, new: bytes) -> bytes:
    return packet[:at] + new + packet[at + len(new) :]


INTRA: dict[str, tuple[str, Callable[[bytes], bytes], str | None]] = {
    "MJPEG, with a thumbnail": ("mjpeg", _thumbnailed, None),
    "MJPEG, padded": ("mjpeg", lambda packet: packet + bytes(64), None),
    "MJPEG, two pictures": ("mjpeg", lambda packet: packet + packet, "more or less than one picture"),
    "MJPEG, no picture": ("mjpeg", lambda packet: packet[:2], "more or less than one picture"),
    "MJPEG, no scan": ("mjpeg", lambda packet: packet[: packet.index(b"\xff\xda")], "more or less than one picture"),
    "MJPEG, a field": ("mjpeg", lambda packet: _jpeg(48), "more or less than one picture"),
    "MJPEG, something else": ("mjpeg", lambda packet: bytes(200), "more or less than one picture"),
    "PNG, two pictures": ("png", lambda packet: packet + packet, "not one picture"),
    "PNG, cut": ("png", lambda packet: packet[:-9], "not one picture"),
    "PNG, something else": ("png", lambda packet: bytes(200), "not one picture"),
    "ProRes, cut": ("prores", lambda packet: packet[:-9], "not one frame"),
    "ProRes, something else": ("prores", lambda packet: _replaced(packet, 4, b"icpx"), "not one frame"),
    "FFV1, of one byte": ("ffv1", lambda packet: packet[:1], "without a frame"),
    "DNxHD, cut": ("dnxhd", lambda packet: packet[:600], "does not begin with a frame"),
    "DNxHD, something else": ("dnxhd", lambda packet: _replaced(packet, 4, b"\x09"), "does not begin with a frame"),
    "DNxHD, of two fields": ("dnxhd", lambda packet: _replaced(packet, 5, b"\x82"), "two fields"),
}


def intra_file(name: str, folder: Path) -> Path:
    """Write a clip whose fifth packet is changed."""
    codec, change, _ = INTRA[name]
    own = CODECS[codec].suffix[1:].replace("mkv", "matroska")
    clip = clip_bytes(CODECS[codec].spec, own)
    stream, time_base = take_packets(clip)
    stream[4] = replace(stream[4], data=change(stream[4].data))
    path = folder / f"clip{CODECS[codec].suffix}"
    put_packets(path, clip, stream, time_base)
    return path


@pytest.mark.parametrize("name", INTRA)
def test_packets_of_intra_codecs_hold_one_picture(name: str, tmp_path: Path) -> None:
    reason = INTRA[name][2]
    with collecting_reasons() as reasons:
        how = check(intra_file(name, tmp_path))
    assert (how == PROVED) == (reason is None)
    assert reason is None or reason in reasons[0]


def cut_file(folder: Path) -> bytes:
    """Give a clip that ends in its last packet."""
    spec = replace(CODECS["dnxhd"].spec, container_options={"movflags": "+faststart"})
    return write_clip(folder / "clip.mov", spec).read_bytes()[:-3000]


def test_a_packet_that_the_file_ends_in_is_damaged(tmp_path: Path) -> None:
    with collecting_reasons() as reasons:
        assert check(cut_file(tmp_path)) != PROVED
    assert "a packet is damaged" in reasons[0]
