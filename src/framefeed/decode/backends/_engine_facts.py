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
    """What an engine can do; checked before it is opened.

    Attributes:
        library: The engine's name in messages.
        sources: Kinds of `MediaSource` that it reads.
        codecs: Codecs that it decodes; None for all but ``refused_codecs``.
        containers: First of libav's names of each container format in which it finds frames; None for all.
        refused_codecs: Codecs that it does not decode, or decodes wrongly.
        refused_pairs: Of a container and a codec: its pictures may be of missing references, without a sign.
        pixel_formats: Pixel formats that it converts; None for all.
        refused_widths: Widths of pictures that it does not give.
        any_name: Whether it opens files whose names are not UTF-8.
        rotations: Degrees by which it turns pictures itself; None if it gives pictures as stored.
        interlaced: Whether it converts interlaced pictures.
        times: Origin of the times that it tells of pictures, "stream" or "first frame"; None if it tells none.
        counts: Whether the number of frames that it tells is that of the file, and not a guess from the header.
        takes_packets: Whether it takes each packet for one frame, without a look at the pictures' times.
        chooses_stream: Whether it can be told which stream to decode.
        one_size: Whether it gives every picture in the stream's size, without a sign that it has another.
    """

    library: str
    sources: frozenset[str] = frozenset({"path"})
    codecs: frozenset[str] | None = None
    containers: frozenset[str] | None = None
    refused_codecs: frozenset[str] = frozenset()
    refused_pairs: frozenset[tuple[str, str]] = frozenset()
    pixel_formats: frozenset[str] | None = None
    refused_widths: frozenset[int] = frozenset()
    any_name: bool = False
    rotations: frozenset[int] | None = None
    interlaced: bool = True
    times: str | None = None
    counts: bool = False
    takes_packets: bool = False
    chooses_stream: bool = False
    one_size: bool = False

    def check(self, source: MediaSource, index: FrameIndex) -> None:
        """Check that the engine can decode a source.

        Raises:
            UsageError: It does not read sources of this kind.
            UnsupportedCodec: It does not decode the stream.
        """
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
