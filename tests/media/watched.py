"""Run as a program: open every file of a folder in every way, and report who opened what.

Python's own opens and connections are seen by an audit hook, libav's by inotify on the decoys. An audit hook cannot be
taken off again, which is why this is a program.

    python -m tests.media.watched FOLDER PORT     -> JSON on standard output
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

from framefeed.decode import VideoDecoder
from framefeed.errors import FramefeedError
from framefeed.index import build_index, probe

IN_OPEN = 0x20
DECOYS = ("decoy", "picture0")
WATCHED_EVENTS = ("open", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.exec", "os.system")


class OpenWatch:
    """Counts how often files were opened since the last look, by whatever code of this or another process."""

    def __init__(self, paths: list[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in paths:
            if libc.inotify_add_watch(self._descriptor, os.fsencode(path), IN_OPEN) < 0:
                raise OSError(ctypes.get_errno(), f"cannot watch {path}")

    def seen(self) -> bool:
        try:
            return bool(os.read(self._descriptor, 65536))
        except BlockingIOError:
            return False


def outcome(ask: Callable[[Any], Any], source: Any) -> str:
    try:
        ask(source)
    except FramefeedError as error:
        return type(error).__name__
    return "opened"


def ask_in_every_way(path: Path) -> list[str]:
    outcomes = []
    for ask in (probe, build_index, VideoDecoder):
        outcomes.append(outcome(ask, path))
        outcomes.append(outcome(ask, os.path.relpath(path)))
        outcomes.append(outcome(ask, path.read_bytes()))
        outcomes.append(outcome(ask, io.BytesIO(path.read_bytes())))
    return sorted(set(outcomes))


# Playlists of nearby files only: those of URLs would connect.
FOLLOWED_BY_LIBAV = ("hls_near_", "concat_", "picture%")


def opens_without_a_list(path: Path) -> bool:
    """The control: libav as it comes, which follows playlists."""
    if not path.name.startswith(FOLLOWED_BY_LIBAV):
        return False
    try:
        av.open(os.fspath(path)).close()
    except (av.FFmpegError, OSError):
        return False
    return True


def main(folder: Path, port: int) -> dict[str, Any]:
    decoys = sorted(path for path in folder.iterdir() if path.name.startswith(DECOYS))
    payloads = sorted(path for path in folder.iterdir() if not path.name.startswith(DECOYS))
    os.chdir(folder)
    events: list[str] = []
    sys.addaudithook(lambda event, args: events.append(f"{event} {args[0]!r}") if event in WATCHED_EVENTS else None)
    watch = OpenWatch(decoys)
    outcomes, followed = {}, []
    for path in payloads:
        outcomes[path.name] = ask_in_every_way(path)
        if watch.seen():
            followed.append(path.name)
    decoy = decoys[0]
    names = [f"concat:{decoy}", f"subfile,,start,0,end,0,,:{decoy}", f"crypto:{decoy}", f"async:file:{decoy}",
             f"cache:{decoy}", f"file:{decoy}", f"tcp://127.0.0.1:{port}", f"rtmp://127.0.0.1:{port}/x",
             "pipe:0", "data:video/mp4;base64,AAAA", "picture0%02d.jpg"]  # fmt: skip
    protocols = {name: sorted({outcome(ask, name) for ask in (probe, build_index, VideoDecoder)}) for name in names}
    if watch.seen():
        followed.append("a protocol")
    strangers = [event for event in events if any(decoy in event for decoy in DECOYS) or not event.startswith("open")]
    controls = [path.name for path in payloads if opens_without_a_list(path) and watch.seen()]
    return {
        "outcomes": outcomes,
        "protocols": protocols,
        "followed": followed,
        "strangers": strangers,
        "controls": controls,
        "events": len(events),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
