"""``backend="dali"``: DALI's decoder of videos passes the exam, and refuses what it counts or decodes otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.decode import Decoder, find_decoder
from framefeed.testing import ClipSpec, DecoderExam
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.engines.law import check_law
from tests.media.files import readable_path

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")


class TestDali(DecoderExam):
    abilities = frozenset({"bytes", "pickle"})
    clip = ClipSpec(num_frames=40, codec="libvpx-vp9", gop=12, b_frames=None)

    def make_decoder(self) -> Decoder:
        return find_decoder("dali")

    def test_a_lost_frame_fails_only_its_slots(self, tmp_path: Path) -> None:
        pytest.skip("the exam loses a unit of H.264")


@pytest.mark.parametrize("name", ["vp8.webm", "vp9.webm", "mjpeg.avi"])
def test_M01_a_frame_is_the_one_asked_for(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    ordinals = [7, 0, 11, 3, 3]
    assert check_law(readable_path(name), CODECS[name.partition(".")[0]].spec.stamps, "dali", ordinals) == len(ordinals)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("base.mp4", ff.UnsupportedCodec, "DALI does not decode h264, only mjpeg, vp8, vp9: use backend='pyav'"),
        # A packet of VP8 may be shown by none: DALI counts packets.
        ("hidden_vp8.webm", ff.CorruptMedia, "DALI counts 106 frames where the index has 100"),
    ],
)
def test_D11_what_it_cannot_do_is_an_error_that_names_it(name: str, kind: type[ff.MediaError], said: str) -> None:
    with ff.VideoDecoder(corpus_file(name), backend="dali") as decoder, pytest.raises(kind, match=said):
        decoder[0]


def test_a_file_that_has_fewer_frames_now_is_an_error(tmp_path: Path) -> None:
    whole = readable_path("vp9.webm").read_bytes()
    path = tmp_path / "clip.webm"
    path.write_bytes(whole[: len(whole) // 2])
    index = replace(ff.build_index(readable_path("vp9.webm")), identity=None)
    said = pytest.raises(ff.CorruptMedia, match=r"clip\.webm: DALI counts \d+ frames where the index has 24")
    with ff.VideoDecoder(path, backend="dali", frame_index=index) as decoder, said:
        decoder[0]
