"""Files that are named like videos and are none, by a short name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from framefeed.testing import AudioSpec, write_clip
from tests.corpus import clip_file, corpus_file

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n".format("0" * 64)


def _written(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def _truncated(folder: Path) -> Path:
    whole = clip_file("good.mp4").read_bytes()
    return _written("truncated.mp4", whole[: len(whole) // 3])(folder)


def _sound(folder: Path) -> Path:
    return write_clip(folder / "sound.mp4", AudioSpec())


def _folder(folder: Path) -> Path:
    path = folder / "folder.mp4"
    path.mkdir()
    return path


def _fifo(folder: Path) -> Path:
    path = folder / "fifo.mp4"
    os.mkfifo(path)
    return path


def _link_loop(folder: Path) -> Path:
    path = folder / "loop.mp4"
    path.symlink_to(path)
    return path


BAD: dict[str, Callable[[Path], Path]] = {
    "text": _written("text.mp4", "this is not a film\n"),
    "web page": _written("page.mp4", "<!doctype html><title>404</title>"),
    "zero bytes": _written("empty.mp4", b""),
    "noise": _written("noise.mp4", bytes(range(256)) * 64),
    "truncated": _truncated,
    "sound only": _sound,
    "cover only": lambda folder: _written("cover.mp4", corpus_file("sound_and_cover.m4a").read_bytes())(folder),
    "no frames": lambda folder: _written("none.mp4", corpus_file("zero_frames.mp4").read_bytes())(folder),
    "folder": _folder,
    "missing": lambda folder: folder / "missing.mp4",
    "below a file": lambda folder: _written("file.mp4", "x")(folder) / "video.mp4",
    "fifo": _fifo,
    "link loop": _link_loop,
    "lfs pointer": _written("pointer.mp4", LFS_POINTER),
    "escapes in its name": _written("red\x1b[31m\x07\nframefeed: all well.mp4", "no film"),
    "not UTF-8": lambda folder: _written(os.fsdecode(b"caf\xe9.mp4"), "no film")(folder),
    "right to left": _written("\u202egpj.mp4", "no film"),
    "format directives": _written("%s%n{0}%03d.mp4", "no film"),
    "a long name": _written("n" * 251 + ".mp4", "no film"),
}

READS_OTHERS: dict[str, str] = {
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{other}\n#EXT-X-ENDLIST\n",
    "hls with a key": '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{other}"\n#EXTINF:9,\n{other}\n#EXT-X-ENDLIST\n',
    "concat": "ffconcat version 1.0\nfile '{other}'\n",
    "dash": '<?xml version="1.0"?><MPD><Period><BaseURL>{other}</BaseURL></Period></MPD>',
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "pls": "[playlist]\nFile1={other}\nNumberOfEntries=1\n",
    "asx": '<asx version="3.0"><entry><ref href="{other}"/></entry></asx>',
    "http": "#EXTM3U\n#EXTINF:9,\nhttp://127.0.0.1:{port}/film.ts\n#EXT-X-ENDLIST\n",
}
