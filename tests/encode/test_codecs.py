from __future__ import annotations

import av

from framefeed.encode._stills import codec_support, ffmpeg_versions


def test_what_this_build_can_do() -> None:
    found = codec_support(["h264", "mjpeg", "av1", "no such codec"])
    assert found["h264"]["decoders"] == ["h264"]
    assert "mjpeg" in found["mjpeg"]["encoders"]
    assert "av1" not in found["av1"]["decoders"]
    assert found["no such codec"] == {"decoders": [], "encoders": []}
    for support in found.values():
        for name in support["decoders"]:
            assert av.Codec(name, "r").is_decoder
        for name in support["encoders"]:
            assert av.Codec(name, "w").is_encoder


def test_versions() -> None:
    found = ffmpeg_versions()
    assert found["ffmpeg"]
    assert found["libavcodec"].split(".")[0] == str(av.library_versions["libavcodec"][0])
