"""CVE-2026-8461: the MagicYUV decoders of FFmpeg before 8.1.2 are not used."""

from __future__ import annotations

import av
import pytest

from framefeed.cache.codecs._magicyuv import check_version
from framefeed.cache.codecs._registry import find_codec
from framefeed.errors import MissingDependency

SOUND = [(62, 28, 102), (62, 28, 103), (62, 29, 0), (63, 0, 100)]
UNSOUND = [(62, 28, 101), (62, 28, 100), (62, 11, 100), (61, 19, 101), (62, 0, 999), (59, 99, 999)]


@pytest.mark.parametrize("version", SOUND)
def test_safe_versions_are_used(version: tuple[int, int, int]) -> None:
    check_version(version)


@pytest.mark.parametrize("version", UNSOUND)
def test_S06_unsafe_versions_are_refused(version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDependency, match=r"8\.1\.2.*CVE-2026-8461"):
        check_version(version)
    monkeypatch.setitem(av.library_versions, "libavcodec", version)
    find_codec.cache_clear()
    try:
        with pytest.raises(MissingDependency, match="pip install -U av"):
            find_codec("magicyuv")
        assert find_codec("zstd").name == "zstd"
    finally:
        find_codec.cache_clear()
