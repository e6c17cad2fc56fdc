from __future__ import annotations

import av

from framefeed.encode._stills import list_codec_support, read_ffmpeg_versions


def test_codecs_of_this_build() -> None:
    listed = list_codec_support(["h264", "mjpeg", "av1", "no such codec"])
    assert listed["h264"]["decoders"] == ["h264"]
    assert "mjpeg" in listed["mjpeg"]["encoders"]
    assert "av1" not in listed["av1"]["decoders"]
    assert listed["no such codec"] == {"decoders": [], "encoders": []}
    for support in listed.values():
        for name in support["decoders"]:
            assert av.Codec(name, "r").is_decoder
        for name in support["encoders"]:
            assert av.Codec(name, "w").is_encoder


def test_versions() -> None:
    listed = read_ffmpeg_versions()
    assert listed["ffmpeg"]
    assert listed["libavcodec"].split(".")[0] == str(av.library_versions["libavcodec"][0])
