"""Every codec that PyAV can write and read keeps the numbers of its frames."""

from __future__ import annotations

import av
import pytest
from av.codec.codec import UnknownCodecError

from tests.codec_clips import CODECS, LEFT_OUT
from tests.corpus import clip_file
from tests.pathologies import read_facts

HARDWARE = ("_amf", "_nvenc", "_qsv", "_v4l2m2m", "_vaapi", "_videotoolbox", "_mf", "_vulkan")


@pytest.mark.parametrize("codec", CODECS)
def test_stamps_survive(codec: str) -> None:
    clip = CODECS[codec]
    facts = read_facts(clip_file(f"{codec}{clip.suffix}", clip.spec))
    assert facts.stamps == clip.spec.stamps
    assert not facts.errors


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4"])
def test_codecs_with_b_frames_have_some(codec: str) -> None:
    assert read_facts(clip_file(f"{codec}{CODECS[codec].suffix}", CODECS[codec].spec)).longest_b_run == 2


def _video_encoders() -> set[str]:
    names = set()
    for name in av.codecs_available:
        try:
            codec = av.Codec(name, "w")
        except UnknownCodecError:
            continue
        if codec.type == "video":
            names.add(name)
    return names


def test_every_encoder_has_a_clip_or_a_reason() -> None:
    covered = {clip.spec.codec for clip in CODECS.values()} | LEFT_OUT.keys()
    software = {name for name in _video_encoders() if not name.endswith(HARDWARE)}
    assert software <= covered, f"new encoders: {sorted(software - covered)}"
