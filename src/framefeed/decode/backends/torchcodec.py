"""TorchCodec's VideoDecoder: ``backend="torchcodec"`` and ``"torchcodec-approximate"``.

Exact, it numbers the frames by a scan of the file's packets; approximate, by the average rate of the header. It tells
the time of each picture that it decoded. It prints nothing: what it has to say is in what it raises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from framefeed._absence import describe_absence, describe_error
from framefeed.decode.backends._engine import EngineDecoder, EngineFailure, NotOpened, Picture
from framefeed.decode.backends._engine_facts import MADE_OF_MISSING, EngineFacts
from framefeed.errors import MissingDependency
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

# A library that cannot be opened, and is neither one of FFmpeg nor TorchCodec's own, which needs these.
_OTHER_LIBRARY = re.compile(r"\blib(?!av|sw|postproc|torchcodec)[\w.+-]+\.so")

try:
    import torch
    import torchcodec
    from torchcodec import __version__ as _version
    from torchcodec.decoders import VideoDecoder
except ImportError as error:
    raise MissingDependency(
        f"backend='torchcodec' needs TorchCodec, which {describe_absence(error, 'torchcodec')}: "
        "pip install 'framefeed[engines]'"
    ) from error
except (RuntimeError, OSError) as error:
    cause = describe_error(error)
    if _OTHER_LIBRARY.search(cause):
        raise MissingDependency(
            f"backend='torchcodec' cannot load TorchCodec ({cause}): install builds of TorchCodec and PyTorch that "
            "fit each other, both for the CPU or both for one version of CUDA"
        ) from error
    raise MissingDependency(
        "backend='torchcodec' needs FFmpeg's shared libraries (libavcodec and its siblings), which TorchCodec cannot "
        f"load ({cause}): install FFmpeg with the packages of your system"
    ) from error

_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)
_FFMPEG = getattr(torchcodec, "ffmpeg_major_version", "of unknown version")


class TorchCodecDecoder(EngineDecoder):
    """Decode with TorchCodec, one thread, frames numbered by its scan of the file; see ``EngineDecoder``."""

    name = "torchcodec"
    seek_mode = "exact"
    facts = EngineFacts(
        "TorchCodec",
        sources=frozenset({"path", "bytes"}),
        # Of these it gives other pictures with the right times.
        refused_codecs=frozenset({"rpza", "smc"}),
        refused_pairs=MADE_OF_MISSING,
        rotations=frozenset({0, 90, 180, 270}),
        times="stream",
        counts=True,
        chooses_stream=True,
    )

    def open_file(self, source: MediaSource, index: FrameIndex) -> _TorchCodecFile:
        """Open a source with TorchCodec; see ``EngineDecoder.open_file``."""
        if index.stream.codec == "av1" and "decord" in sys.modules:
            raise NotOpened("this process has imported decord, beside which TorchCodec crashes on AV1")
        return _TorchCodecFile(source, index, self.seek_mode)

    def describe_versions(self) -> str:
        """Name TorchCodec, the system's FFmpeg that it loads, and PyTorch with their versions."""
        return f"TorchCodec {_version} {self.seek_mode}, FFmpeg {_FFMPEG}, PyTorch {torch.__version__}"


class ApproximateTorchCodecDecoder(TorchCodecDecoder):
    """Decode with TorchCodec, one thread, frames numbered by the average rate; see ``EngineDecoder``."""

    name = "torchcodec-approximate"
    seek_mode = "approximate"
    facts = replace(TorchCodecDecoder.facts, library="TorchCodec (approximate)", counts=False)


class _TorchCodecFile:
    """An open VideoDecoder of TorchCodec."""

    def __init__(self, source: MediaSource, index: FrameIndex, seek_mode: str) -> None:
        try:
            self._decoder = VideoDecoder(
                source.path or source.data,
                stream_index=index.stream.stream_index,
                dimension_order="NHWC",
                num_ffmpeg_threads=1,
                seek_mode=seek_mode,
            )
            self.num_frames = len(self._decoder)
        except _ERRORS as error:
            raise NotOpened(str(error)) from error
        self._data = source.data  # the decoder's view of it must not outlive it

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        """Yield the pictures of distinct, ascending ordinals; see ``EngineFile.read``."""
        try:
            batch = self._decoder.get_frames_at(list(ordinals))
        except _ERRORS as error:
            raise EngineFailure(str(error)) from error
        times = batch.pts_seconds.tolist()
        for ordinal, pixels, seconds in zip(ordinals, batch.data.numpy(), times, strict=True):
            yield Picture(ordinal, pixels, seconds)

    def close(self) -> None:
        """Nothing to do: TorchCodec closes the file when the decoder is freed."""
        del self._decoder
