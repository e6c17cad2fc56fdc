"""Tell pictures from videos, and refuse other files, by their first bytes; never by name."""

from __future__ import annotations

import re
from typing import Literal

from framefeed._names import split_part
from framefeed.errors import UnreadableMedia
from framefeed.pictures import IMAGE_BRANDS, JPEG_XL_MAGIC, OTHER_PICTURES

Kind = Literal["image", "video"]

_IMAGE_MAGIC = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"II+\0",  # BigTIFF
    b"MM\0+",
    *JPEG_XL_MAGIC,
)
_NETPBM = re.compile(rb"P[1-7fF][ \t\n\v\f\r#]")
_ARCHIVES = {
    b"PK\3\4": "a ZIP archive",
    b"PK\5\6": "a ZIP archive",
    b"PK\7\x08": "a ZIP archive",
    b"\x1f\x8b": "compressed by gzip",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\7": "a RAR archive",
    b"\xfd7zXZ\0": "compressed by xz",
    b"(\xb5/\xfd": "compressed by Zstandard",
}
_READ_IN_PLACE = {"a ZIP archive": "zip", "a TAR archive": "tar"}
_TABLES = {
    b"PAR1": "a Parquet file, such as a catalog from scan, not media: open a catalog with Catalog.open (on the command "
    "line, these take a catalog: framefeed feed, framefeed cache build, framefeed report, framefeed doctor); give one "
    "with media in it to ff.scan, or name a value, parquet://COLUMN/ROW::PATH",
    b"ARROW1": "an Arrow file, such as the frame tables beside a catalog, not media: open the catalog itself, the file "
    "that ends with .parquet",
}
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_TAR_MAGIC, _TAR_OFFSET = b"ustar", 257  # POSIX.1 ustar header
_TEXT_BYTES = frozenset(range(0x20, 0x7F)) | set(b"\t\n\r\f") | frozenset(range(0x80, 0x100))
_PLAYLISTS = (b"#EXTM3U", b"ffconcat", b"<MPD", b"v=0", b"[playlist]", b"RTSP")


_VIDEO_MAGIC = (b"\x1a\x45\xdf\xa3", b"OggS", b"FLV\1", b"\0\0\1\xba", b"\0\0\1\xb3", b"YUV4MPEG2 ", b"DKIF")
_MOVIE_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")
_TS_SYNC, _TS_PACKET = b"\x47", 188


def has_signature(head: bytes) -> bool:
    """Whether bytes begin as those of a picture or of a usual container of video do; other videos have no signature."""
    try:
        if sniff(head, "") == "image":
            return True
    except UnreadableMedia:
        return False
    if head.startswith(_VIDEO_MAGIC) or head[4:8] in _MOVIE_BOXES:
        return True
    is_ts = head[:1] == head[_TS_PACKET : _TS_PACKET + 1] == _TS_SYNC
    return is_ts or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")


def sniff(head: bytes, name: str) -> Kind:
    """Tell images from files that may be videos, by the first ``HEAD_BYTES`` bytes, or all of a shorter source.

    Raises:
        UnreadableMedia: Nothing at all, an archive, a catalog, or text: a playlist, a Git LFS pointer, a web page.
    """
    if not head:
        raise UnreadableMedia(f"{name}: is empty (0 bytes)", source=name, stage="open")
    if head.startswith(b"YUV4MPEG2 "):
        return "video"
    archive = next((kind for magic, kind in _ARCHIVES.items() if head.startswith(magic)), None)
    if head[_TAR_OFFSET:].startswith(_TAR_MAGIC):
        archive = "a TAR archive"
    elif _BZIP2.match(head):
        archive = "compressed by bzip2"
    if archive is not None:
        scheme = _READ_IN_PLACE.get(archive)
        advice = "unpack it first" if scheme is None or split_part(name) is not None else (
            f"give it to ff.scan by a name that ends with .{scheme}, or name a member, {scheme}://MEMBER::PATH"
        )  # fmt: skip
        raise UnreadableMedia(f"{name}: is {archive}: {advice}", source=name, stage="open")
    if (table := next((kind for magic, kind in _TABLES.items() if head.startswith(magic)), None)) is not None:
        raise UnreadableMedia(f"{name}: is {table}", source=name, stage="open")
    if _NETPBM.match(head):  # P1 to P3 are text
        return "image"
    if all(byte in _TEXT_BYTES for byte in head) and not head.startswith(_IMAGE_MAGIC):
        text, what = head.lstrip(b"\xef\xbb\xbf \t\r\n"), "text, not media"
        if text.startswith(b"version https://git-lfs"):
            what = "a Git LFS pointer: run 'git lfs pull' to get the file"
        elif text.startswith(_PLAYLISTS) or (text.startswith(b"<?xml") and b"<MPD" in text):
            what = "a playlist, which names other files: give those files"
        elif text.startswith(b"<?xml"):
            what = "text (XML), perhaps an error page of a server: look into it"
        raise UnreadableMedia(f"{name}: is {what}", source=name, stage="open")
    if head.startswith((*_IMAGE_MAGIC, *OTHER_PICTURES)) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return "image"
    if head[4:8] == b"ftyp" and head[8:12] in IMAGE_BRANDS:
        return "image"
    return "video"
