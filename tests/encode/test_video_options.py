from __future__ import annotations

import os
import pickle
from pathlib import Path

import av
import pytest

from framefeed.encode import VideoOptions, check_video_output
from framefeed.encode._codecs import CODECS, CONTAINERS, choose_codec
from framefeed.errors import UsageError


def check(
    path: Path | str, options: VideoOptions | None = None, *, vfr: bool = False, audio: str | None = None
) -> None:
    check_video_output(path, options or VideoOptions(), is_variable_frame_rate=vfr, audio_codec=audio)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (
            {"codec": "h265"},
            r"codec: expected one of h264, hevc, .*got 'h265'; did you mean 'h26|codec: .*did you mean",
        ),
        ({"codec": "h264_nvenc"}, "codec: expected one of h264"),
        ({"codec": 264}, "codec: expected a name such as 'h264'"),
        ({"codec": "h264", "quality": 52}, r"quality: expected 0 to 51 for h264 \(crf; smaller is better\), got 52"),
        ({"codec": "mpeg4", "quality": 0}, r"quality: expected 1 to 31 for mpeg4 \(qscale"),
        ({"codec": "ffv1", "quality": 1}, "quality: ffv1 is lossless and takes none, got 1"),
        ({"quality": 20.5}, "quality: expected an integer"),
        ({"quality": "high"}, "quality: expected an integer"),
        ({"gop": 0}, "gop: expected an integer of at least 1"),
        ({"codec": "h264", "pixel_format": "rgb24"}, r"pixel_format: expected one of yuv420p.* for h264, got 'rgb24'"),
        ({"codec": "av1", "pixel_format": "yuv420"}, "did you mean 'yuv420p'"),
        ({"pixel_format": 420}, "pixel_format: expected a name such as 'yuv420p'"),
    ],
)
def test_options_of_no_use(values: dict[str, object], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        VideoOptions(**values)  # type: ignore[arg-type]


def test_names_of_encoders_stand_for_codecs() -> None:
    for name, rule in CODECS.items():
        assert VideoOptions(rule.encoder).codec == VideoOptions(name).codec == name
        options = VideoOptions(name, gop=12)
        assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(("ending", "codec"), [("mp4", "h264"), ("MOV", "h264"), ("mkv", "h264"), ("webm", "vp9")])
def test_the_container_chooses_the_codec(ending: str, codec: str) -> None:
    assert choose_codec(f"a.{ending}", VideoOptions(quality=30)) == VideoOptions(codec, 30)


def test_a_quality_is_checked_once_the_codec_is_known() -> None:
    assert choose_codec("a.webm", VideoOptions(quality=60)).quality == 60
    with pytest.raises(UsageError, match="quality: expected 0 to 51 for h264"):
        choose_codec("a.mp4", VideoOptions(quality=60))


def test_every_default_is_accepted() -> None:
    for name, rule in CODECS.items():
        options = VideoOptions(name, rule.quality, rule.pixel_format)
        assert options.coded_format == VideoOptions(name).coded_format
        assert any(name in container.codecs for container in CONTAINERS.values())


def test_endings(tmp_path: Path) -> None:
    for container in CONTAINERS.values():
        assert container.codec in container.codecs
        check(tmp_path / f"a.{container.name}")
    for name, given in (("a.mpg", "'.mpg'"), ("a", "none"), (".mp4", "none")):
        with pytest.raises(UsageError, match=rf"{name}: expected a file name with one of .*\.mp4, .*got {given}"):
            check(name)


def test_codecs_that_a_container_does_not_hold(tmp_path: Path) -> None:
    for ending, codec, others in (
        ("mp4", "prores", r"\.mov, \.mkv"),
        ("webm", "h264", r"\.mp4, \.mov, \.mkv"),
        ("avi", "av1", r"\.mp4, \.mkv, \.webm"),
        ("mov", "ffv1", r"\.mp4, \.mkv, \.avi"),
    ):
        with pytest.raises(UsageError, match=rf"a \.{ending} file does not hold {codec}: .*ends in {others}$"):
            check(tmp_path / f"a.{ending}", VideoOptions(codec))


def test_unequal_distances_in_avi(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"equal distances.*write \.mp4 or \.mkv, or give fps="):
        check(tmp_path / "a.avi", vfr=True)
    check(tmp_path / "a.avi")
    check(tmp_path / "a.mkv", vfr=True)


def test_audio(tmp_path: Path) -> None:
    for ending, codec in (("mp4", "aac"), ("mp4", "opus"), ("mp4", "mp3float"), ("mkv", "truehd"), ("webm", "vorbis")):
        check(tmp_path / f"a.{ending}", audio=codec)
    for ending, codec in (("webm", "aac"), ("mov", "opus"), ("mov", "flac"), ("mp4", "truehd"), ("mp4", "wmav2")):
        with pytest.raises(UsageError, match=rf"\.{ending} file does not hold audio of the codec {codec}: "):
            check(tmp_path / f"a.{ending}", audio=codec)
    with pytest.raises(UsageError, match=r"a\.avi: the audio .* slip"):
        check(tmp_path / "a.avi", audio="mp3")
    with pytest.raises(UsageError, match=r"a\.mkv: .*leave out the audio$"):
        check(tmp_path / "a.mkv", audio="no such codec")


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*missing'; make it first"):
        check(tmp_path / "missing" / "a.mp4")
    (tmp_path / "a.mp4").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*a\.mp4: a folder is already there"):
        check(tmp_path / "a.mp4")
    os.mkfifo(tmp_path / "b.mp4")
    with pytest.raises(UsageError, match=r"cannot write .*b\.mp4: a FIFO is already there"):
        check(tmp_path / "b.mp4")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write anywhere
    with pytest.raises(UsageError, match=r"the folder .* may not be written to; choose another one"):
        check(tmp_path / "c.mp4")
    assert sorted(os.listdir(tmp_path)) == ["a.mp4", "b.mp4"]


def test_an_encoder_that_this_build_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, mode: str) -> av.Codec:
        raise av.codec.codec.UnknownCodecError(name)

    monkeypatch.setattr(av, "Codec", missing)
    with pytest.raises(UsageError, match=r"no encoder libsvtav1 for av1: choose another codec of h264, hevc"):
        check(tmp_path / "a.mp4", VideoOptions("av1"))


def test_the_reference_lists_what_is_written() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].strip("`") in CODECS:
            rows[cells[0].strip("`")] = cells
    assert set(rows) == set(CODECS)
    for name, rule in CODECS.items():
        _, encoder, quality, pixel_format, containers = rows[name]
        assert encoder.startswith(rule.encoder)
        for option in ("preset", "deadline", "cpu-used"):
            assert rule.options.get(option, "") in encoder
        least, most = rule.qualities
        assert f" {least} to {most} (" in quality or not rule.scale
        assert rule.quality is None or f"({rule.quality})" in quality
        assert pixel_format.startswith(rule.pixel_format)
        assert containers.split(", ") == [ending for ending, rule in CONTAINERS.items() if name in rule.codecs]


@pytest.mark.parametrize(
    ("path", "audio", "advice"),
    [
        ("a.webm", "aac", r"write \.mkv, or leave out the audio"),
        ("a.mp4", "amrnb", r"write \.mov, or leave out the audio"),
        ("a.mp4", "wmav2", "wmav2: leave out the audio"),
    ],
)
def test_a_container_that_holds_the_audio_is_named(path: str, audio: str, advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        check(path, audio=audio)
