"""What an engine can do: declared by codec, container, size, pixel format, and checked before a file is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framefeed.errors import UnsupportedCodec, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

MADE_OF_MISSING = frozenset(
    (container, codec) for container in ("mpeg", "mpegts") for codec in ("hevc", "mpeg1video", "mpeg2video", "mpeg4")
)
"""Containers in which seeks end at any packet, with codecs whose decoders then conceal what a picture refers to."""
_KINDS = {"path": "paths", "bytes": "bytes", "file": "file objects", "url": "URLs", "sequence": "image sequences"}


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine can do; checked before it is opened. None stands for all, but for ``times`` and ``rotations``."""

    library: str  # the engine's name in messages
    sources: frozenset[str] = frozenset({"path"})  # kinds of MediaSource that it reads
    codecs: frozenset[str] | None = None
    containers: frozenset[str] | None = None  # the first of libav's names of each
    refused_codecs: frozenset[str] = frozenset()  # it does not decode them, or wrongly
    refused_pairs: frozenset[tuple[str, str]] = frozenset()  # container and codec: pictures of missing references
    pixel_formats: frozenset[str] | None = None
    refused_widths: frozenset[int] = frozenset()
    any_name: bool = False  # it opens files whose names are not UTF-8
    rotations: frozenset[int] | None = None  # degrees by which it turns pictures itself; None: as stored
    interlaced: bool = True  # it converts interlaced pictures
    times: str | None = None  # origin of the times of its pictures, "stream" or "first frame"; None: it tells none
    counts: bool = False  # the number of frames that it tells is that of the file, and no guess from the header
    takes_packets: bool = False  # it takes each packet for one frame, without a look at the pictures' times
    chooses_stream: bool = False  # it can be told which stream to decode
    one_size: bool = False  # every picture has the stream's size, without a sign that it has another

    def check(self, source: MediaSource, index: FrameIndex) -> None:
        """Refuse a source of a kind that the engine does not read, or a stream that it does not decode."""
        if source.kind not in self.sources:
            kinds = " and ".join(_KINDS[kind] for kind in _KINDS if kind in self.sources)
            raise UsageError(
                f"{source.name}: {self.library} reads {kinds}, not {_KINDS[source.kind]}: use backend='pyav', or give "
                f"it one of those"
            )
        for reason in self._refuse(source, index):
            raise UnsupportedCodec(
                f"{source.name}: {self.library} {reason}: use backend='pyav', which decodes it",
                source=source.name,
                stage="open",
            )

    def _refuse(self, source: MediaSource, index: FrameIndex) -> Iterator[str]:
        """Yield why the engine does not decode a stream."""
        stream = index.stream
        if not self.any_name and not _is_utf8(source.path):
            yield "opens no file whose name is not UTF-8"
        container = stream.container.partition(",")[0]
        if (self.codecs is not None and stream.codec not in self.codecs) or stream.codec in self.refused_codecs:
            only = "" if self.codecs is None else f", only {', '.join(sorted(self.codecs))}"
            yield f"does not decode {stream.codec}{only}"
        if self.containers is not None and container not in self.containers:
            yield f"does not find the frames of {container}, only those of {', '.join(sorted(self.containers))}"
        if (container, stream.codec) in self.refused_pairs:
            yield f"may give pictures of {stream.codec} in {container} that are made of missing ones"
        if self.pixel_formats is not None and stream.pixel_format not in self.pixel_formats:
            yield f"does not convert pixel format {stream.pixel_format}, only {', '.join(sorted(self.pixel_formats))}"
        if stream.width in self.refused_widths:
            yield f"does not give pictures of {stream.width} columns"
        if self.rotations is not None and (stream.mirrored or stream.rotation not in self.rotations):
            yield f"does not turn pictures by {stream.rotation} degrees{', mirrored' if stream.mirrored else ''}"
        if self.takes_packets and index.built_from == "decode":
            yield "takes each packet for one frame, and the frames of this file were found by decoding only"
        if self.times is not None and index.times_from != "pts":
            yield (f"cannot be checked here: the frames have no times of their own (times_from={index.times_from!r}), "
                   "by which its pictures would be compared")  # fmt: skip


def _is_utf8(path: str | None) -> bool:
    try:
        (path or "").encode()
    except UnicodeEncodeError:
        return False
    return True
