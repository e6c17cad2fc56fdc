"""S01: one file never makes another be opened, nor a connection be made."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framefeed.testing import ClipSpec, clip_bytes, write_clip
from tests.programs import report_of

HLS = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{0}\n#EXT-X-ENDLIST\n"
KEYED = HLS.replace("#EXTINF", '#EXT-X-KEY:METHOD=AES-128,URI="{0}"\n#EXTINF')
MPD = """<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT4S">
<Period><AdaptationSet mimeType="video/mp4"><Representation id="0" bandwidth="1"><BaseURL>{}</BaseURL>
<SegmentBase/></Representation></AdaptationSet></Period></MPD>"""
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
SMIL = '<smil><body><video src="{}"/></body></smil>'
PLS = "[playlist]\nFile1={}\nNumberOfEntries=1\n"
NAMES = ("clip.mp4", "clip.ts", "clip.mkv", "clip.m3u8", "clip.ffconcat", "clip.mpd", "clip")


def _payloads(folder: Path, url: str) -> dict[str, bytes]:
    """Files that name others, by name."""
    near, far = "decoy.ts", str(folder / "decoy.ts")
    texts = {
        "hls_near": HLS.format(near),
        "hls_far": HLS.format(far),
        "hls_file": HLS.format(f"file:{far}"),
        "hls_http": HLS.format(url),
        "hls_key": KEYED.format(near),
        "hls_blank": "\n\n  " + HLS.format(near),
        "hls_mark": "\ufeff" + HLS.format(near),
        "concat": f"ffconcat version 1.0\nfile {near}\n",
        "concat_far": f"ffconcat version 1.0\nfile '{far}'\n",
        "concat_bare": f"file '{near}'\nfile '{near}'\n",
        "mpd": MPD.format(near),
        "mpd_http": MPD.format(url),
        "sdp": SDP.format(url.rpartition(":")[2].strip("/")),
        "smil": SMIL.format(url),
        "pls": PLS.format(far),
        "ref": f"[Reference]\nRef1={url}\n",
    }
    files = {f"{kind}_{name}": text.encode() for kind, text in texts.items() for name in NAMES}
    # Not text by their first bytes, so that libav itself must refuse them.
    for kind in ("hls_near", "concat", "mpd"):
        for name in NAMES[:5]:
            files[f"{kind}_then_binary_{name}"] = texts[kind].encode() + b"\0\xff" * 40
    files["picture%03d.jpg"] = files["picture%03d.mp4"] = clip_bytes(ClipSpec(num_frames=2, b_frames=0), "mp4")
    return files


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, listener: socket.socket) -> dict[str, Any]:
    folder, port = tmp_path_factory.mktemp("hostile"), listener.getsockname()[1]
    for name, data in _payloads(folder, f"http://127.0.0.1:{port}/").items():
        (folder / name).write_bytes(data)
    write_clip(folder / "decoy.ts", ClipSpec(num_frames=30, b_frames=0))
    for number in range(3):
        (folder / f"picture{number:03}.jpg").write_bytes(b"\xff\xd8\xff")
    found: dict[str, Any] = report_of("tests.media.watched", os.fspath(folder), str(port))
    return found


def test_S01_no_other_file_is_opened(report: dict[str, Any]) -> None:
    assert report["followed"] == []
    assert report["strangers"] == []


def test_S01_no_connection_is_made(report: dict[str, Any], listener: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_S01_all_of_them_are_unreadable_media(report: dict[str, Any]) -> None:
    outcomes = {name: found for name, found in report["outcomes"].items() if not name.startswith("picture")}
    assert len(outcomes) > 60
    assert {name: found for name, found in outcomes.items() if found != ["UnreadableMedia"]} == {}


def test_S01_protocols_are_no_paths(report: dict[str, Any]) -> None:
    for name, found in report["protocols"].items():
        assert set(found) <= {"MissingMedia", "UsageError"}, name


def test_S01_a_pattern_in_a_name_is_no_sequence(report: dict[str, Any]) -> None:
    assert report["outcomes"]["picture%03d.mp4"] == ["opened"]
    # By its path libav takes this name for a sequence whatever the content is, and that is refused.
    assert set(report["outcomes"]["picture%03d.jpg"]) <= {"opened", "UnreadableMedia"}


def test_S01_the_watch_notices_files_that_libav_opens(report: dict[str, Any]) -> None:
    # Otherwise the tests above would prove nothing.
    followed = set(report["controls"])
    assert {name for name in followed if name.startswith("hls_near_clip")}
    assert {name for name in followed if name.startswith("concat_clip")}
    assert {name for name in followed if "then_binary" in name}
    assert report["events"] > 0
