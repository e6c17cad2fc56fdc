"""Choose how a video is coded: codecs with their quality scales, containers, and what each container holds."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

import av
from av.codec.codec import UnknownCodecError

from framefeed._checks import check_integer, expected
from framefeed._files import name_special_kind
from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError

SEGMENT_CONTAINER = "nut"
"""``container=`` of `VideoWriter` for a segment: one part of a video, which `join_segments` puts together."""

_CRF, _QSCALE = "crf", "global_quality"


@dataclass(frozen=True, slots=True)
class CodecRule:
    """How one codec is encoded."""

    name: str  # canonical name
    encoder: str  # FFmpeg's name of the encoder
    pixel_format: str = "yuv420p"  # pixel format where the user chooses none
    scale: str = _CRF  # option that takes the quality; empty for a lossless codec
    qualities: tuple[int, int] = (0, 51)  # smallest and largest quality; a smaller number is a better picture
    quality: int | None = None  # quality where the user chooses none; None leaves it to the encoder
    options: Mapping[str, str] = field(default_factory=dict)  # options of the encoder: a fast preset, no B-frames
    has_color_tags: bool = True  # whether the bitstream names its colours, so that any container keeps them
    # Whether the bitstream names the shape of its samples. PyAV does not pass that of a stream to the muxers of
    # Matroska and AVI.
    has_aspect_tag: bool = True
    # Whether samples always have the limited range, because the bitstream cannot say otherwise.
    is_limited: bool = False
    is_jpeg: bool = False  # whether samples always have the full range and the matrix of BT.601
    segment_format: str = "nut"  # FFmpeg's name of the container of segments
    least_side: int = 1  # least width and height


CODECS: dict[str, CodecRule] = {
    rule.name: rule
    for rule in (
        CodecRule("h264", "libx264", quality=23, options={"preset": "veryfast", "bf": "0"}),
        CodecRule("hevc", "libx265", quality=28, options={"preset": "ultrafast"}),
        CodecRule(
            "vp9",
            "libvpx-vp9",
            qualities=(0, 63),
            quality=32,
            options={"deadline": "good", "cpu-used": "5", "b": "0", "row-mt": "1"},
            has_aspect_tag=False,
        ),
        # The SVT-AV1 of PyAV 19.0 writes beyond its memory for pictures of 2 x 2 to 8 x 8 pixels.
        CodecRule(
            "av1",
            "libsvtav1",
            qualities=(1, 63),
            quality=35,
            options={"preset": "10"},
            has_aspect_tag=False,
            least_side=16,
        ),
        CodecRule(
            "mpeg4",
            "mpeg4",
            scale=_QSCALE,
            qualities=(1, 31),
            quality=4,
            options={"bf": "0"},
            has_color_tags=False,
            is_limited=True,
        ),
        CodecRule("mjpeg", "mjpeg", "yuvj420p", scale=_QSCALE, qualities=(1, 31), quality=3, is_jpeg=True),
        # g=1: each frame by itself. Otherwise a frame needs those before it, for 1 % fewer bytes.
        CodecRule(
            "ffv1",
            "ffv1",
            "bgr0",
            scale="",
            options={"level": "3", "g": "1"},
            has_color_tags=False,
            has_aspect_tag=False,
        ),
        # NUT has no code for it.
        CodecRule(
            "prores",
            "prores_ks",
            "yuv422p10le",
            scale=_QSCALE,
            qualities=(1, 64),
            has_aspect_tag=False,
            is_limited=True,
            segment_format="matroska",
        ),
    )
}
_ENCODERS = {rule.encoder: rule for rule in CODECS.values()}


@dataclass(frozen=True, slots=True)
class ContainerRule:
    """What one container holds."""

    name: str  # ending of file names, without the dot
    format: str  # FFmpeg's name of the muxer
    codec: str  # codec where the user chooses none
    codecs: tuple[str, ...]  # codecs that it holds and players expect in it
    options: Mapping[str, str] = field(default_factory=dict)  # options of the muxer
    unwritten: tuple[str, ...] = ()  # codecs of audio that libav lists, and refuses to write
    # Codes of codecs where libav's own choice is not what players expect.
    codes: Mapping[str, str] = field(default_factory=dict)


# The index comes first, so that a player on the network can start at once.
_INDEX_FIRST = {"movflags": "+faststart"}
# Parameter sets are in the header alone (ISO/IEC 14496-15); Apple's players read no other HEVC.
_HVC1 = {"hevc": "hvc1"}
CONTAINERS: dict[str, ContainerRule] = {
    "mp4": ContainerRule(
        "mp4",
        "mp4",
        "h264",
        ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "ffv1"),
        options=_INDEX_FIRST,
        unwritten=("truehd",),
        codes=_HVC1,
    ),
    "mov": ContainerRule(
        "mov",
        "mov",
        "h264",
        ("h264", "hevc", "mpeg4", "mjpeg", "prores"),
        options=_INDEX_FIRST,
        unwritten=("flac", "opus", "truehd"),
        codes=_HVC1,
    ),
    "mkv": ContainerRule("mkv", "matroska", "h264", tuple(CODECS)),
    "webm": ContainerRule("webm", "webm", "vp9", ("vp9", "av1")),
    # Not h264: libav reads its frames from this container one frame too late.
    "avi": ContainerRule("avi", "avi", "mpeg4", ("mpeg4", "mjpeg", "ffv1")),
}
"""By the ending of the file name."""


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """How a video is encoded.

    Example:
        >>> VideoOptions(codec="libx264", quality=18).codec
        'h264'

    Encoders run at a fast setting: x264 "veryfast", x265 "ultrafast", libvpx-vp9 "good" with cpu-used 5, SVT-AV1
    preset 10; without B-frames, so that frames are stored in the order in which they are shown.

    Attributes:
        codec: "h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "ffv1" or "prores", or the name of the encoder, such as
            "libx264", which is replaced by the codec's; None: h264 in mp4, mov and mkv, vp9 in webm, mpeg4 in avi.
        quality: On the codec's own scale, smaller is better: crf 0 to 51 (h264: 23, hevc: 28 by default), 0 to 63
            (vp9: 32), 1 to 63 (av1: 35), qscale 1 to 31 (mpeg4: 4, mjpeg: 3), 1 to 64 (prores: the bit rate of its
            profile "standard"). ffv1 is lossless and takes none.
        pixel_format: FFmpeg's name; None: yuv420p, for mjpeg yuvj420p, prores yuv422p10le, and for ffv1 bgr0, which
            keeps every RGB picture exactly.
        gop: Distance of key frames, in frames; None: the encoder's own, 1 for ffv1.
        preset: Name of the encoder's speed; None: the fast ones above.
        parameters: More of x264's own, such as "cabac=0:no-deblock=1"; other encoders take none.

    Raises:
        UsageError: A value is of no use, or does not fit the codec.
    """

    codec: str | None = None
    quality: int | None = None
    pixel_format: str | None = None
    gop: int | None = None
    preset: str | None = None
    parameters: str = ""

    def __post_init__(self) -> None:
        if self.codec is not None:
            object.__setattr__(self, "codec", _find_codec(self.codec).name)
        if self.quality is not None:
            object.__setattr__(self, "quality", check_integer("quality", self.quality))
        if self.gop is not None:
            object.__setattr__(self, "gop", check_integer("gop", self.gop, 1))
        if self.pixel_format is not None and not isinstance(self.pixel_format, str):
            raise expected("pixel_format", "a name such as 'yuv420p'", self.pixel_format)
        if self.codec is not None:
            _check_quality(CODECS[self.codec], self.quality)
        if self.codec is not None and self.pixel_format is not None:
            known = [form.name for form in open_encoder(CODECS[self.codec]).video_formats or []]
            if self.pixel_format not in known:
                raise UsageError(
                    f"pixel_format: expected one of {', '.join(known)} for {self.codec}, got "
                    f"{self.pixel_format!r}{did_you_mean(self.pixel_format, known)}"
                )

    @property
    def rule(self) -> CodecRule:
        """Rule of the chosen codec.

        Raises:
            UsageError: No codec is chosen: `resolve_video` chooses one.
        """
        if self.codec is None:
            raise UsageError(
                "codec: a segment's container does not choose one: give the options and tags that "
                "resolve_video(path, options, tags) returns for the final path"
            )
        return CODECS[self.codec]

    @property
    def coded_format(self) -> str:
        """Pixel format of the encoder's pictures."""
        return self.pixel_format or self.rule.pixel_format

    @property
    def is_rgb(self) -> bool:
        """Whether the encoder's pictures are RGB, which have no matrix."""
        return av.VideoFormat(self.coded_format, 2, 2).is_rgb

    @property
    def chroma_step(self) -> tuple[int, int]:
        """(rows, columns) that share one chroma sample."""
        form = av.VideoFormat(self.coded_format, 16, 16)
        return 16 // form.chroma_height(16), 16 // form.chroma_width(16)

    def encoder_options(self, threads: int) -> dict[str, str]:
        """Make the options of the encoder; none makes its output differ from run to run."""
        rule = self.rule
        options = {"flags": "+bitexact", **rule.options}
        quality = rule.quality if self.quality is None else self.quality
        if rule.scale == _QSCALE and quality is not None:
            # Bounds too: MPEG encoders read the scale of each frame, which PyAV does not set, and move it into these.
            bounds = {"qmin": str(quality), "qmax": str(quality)}
            options |= {"flags": "+bitexact+qscale", _QSCALE: str(quality * _LAMBDA), **bounds}
        elif quality is not None:
            options[rule.scale] = str(quality)
        if self.gop is not None:
            options["g"] = str(self.gop)
        if self.preset is not None:
            options["preset"] = self.preset
        if rule.name == "h264" and (self.parameters or _has_avx512()):
            # With AVX-512, x264's macroblock tree reads memory that nothing was written to: the same 40 pictures of
            # 144 x 176 give other bytes where malloc fills new memory (MALLOC_PERTURB_=1). AVX2 takes 7 % more time at
            # 720p; without the tree (mbtree=0), files of the same quality are a fifth larger.
            options["x264-params"] = ":".join(filter(None, ["asm=AVX2" * _has_avx512(), self.parameters]))
        elif rule.name == "prores":
            options["profile"] = "4444" if "444" in self.coded_format else "standard"
        elif rule.name == "hevc":
            pools = "none" if threads == 1 else threads
            options["x265-params"] = f"bframes=0:pools={pools}:frame-threads=1:log-level=none:info=0"
        elif rule.name == "av1":
            options["svtav1-params"] = f"lp={threads}"
        return options


@cache
def _has_avx512() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return any(line.startswith("flags") and "avx512f" in line.split() for line in file)
    except OSError:  # another system than Linux
        return False


_LAMBDA = 118
"""FF_QP2LAMBDA of libavutil/avutil.h: the unit of ``global_quality``."""


def find_container(path: str | os.PathLike[str]) -> ContainerRule:
    """Find the container that a file name ends in; raise UsageError if it is none of the known ones."""
    name = os.fsdecode(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix[1:] not in CONTAINERS:
        known = ", ".join(f".{ending}" for ending in CONTAINERS)
        given = repr(suffix) if suffix else "none"
        raise UsageError(f"{name}: expected a file name with one of the endings {known}, got {given}")
    return CONTAINERS[suffix[1:]]


def choose_codec(path: str | os.PathLike[str], options: VideoOptions) -> VideoOptions:
    """Fill in the codec that a file name's ending stands for, and check that the container holds it."""
    container = find_container(path)
    options = replace(options, codec=options.codec or container.codec)
    if options.codec not in container.codecs:
        others = ", ".join(f".{ending}" for ending, rule in CONTAINERS.items() if options.codec in rule.codecs)
        raise UsageError(
            f"{os.fsdecode(path)}: a .{container.name} file does not hold {options.codec}: choose a codec of "
            f"{', '.join(container.codecs)}, or a file name that ends in {others}"
        )
    open_encoder(options.rule)
    return options


def check_video_output(
    path: str | os.PathLike[str],
    options: VideoOptions,
    *,
    is_variable_frame_rate: bool,
    audio_codec: str | None = None,
) -> None:
    """Check all that can be known of an output before any frame is decoded.

    Raises:
        UsageError: The ending is unknown; the container does not hold the codec, the audio or unequal distances; this
            FFmpeg has no encoder; or the folder is missing or may not be written to.
    """
    name = os.fsdecode(path)
    container = find_container(name)
    choose_codec(name, options)
    if is_variable_frame_rate and container.name == "avi":
        raise UsageError(
            f"{name}: the frames of a .avi file have equal distances, and those of this source have not: write .mp4 "
            "or .mkv, or give fps="
        )
    if audio_codec is not None:
        check_audio(name, audio_codec)
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {name}: there is no folder {folder!r}; make it first")
    if (kind := name_special_kind(name)) is not None:
        raise UsageError(f"cannot write {name}: {kind} is already there; choose another name")
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise UsageError(f"cannot write {name}: the folder {folder!r} may not be written to; choose another one")


def check_audio(path: str, codec: str) -> None:
    """Check that the container of a file name holds an audio codec; else raise UsageError that names one that does."""
    container = find_container(path)
    if container.name == "avi":
        raise UsageError(
            f"{path}: the audio of a .avi file has no times of its own, so that it would slip against the video: write "
            ".mp4 or .mkv, or leave out the audio"
        )
    with suppress(UnknownCodecError):
        codec = av.Codec(codec, "r").canonical_name

    def is_held(rule: ContainerRule) -> bool:
        return codec in _list_codecs(rule.format) and codec not in rule.unwritten

    if not is_held(container):
        other = next((name for name in ("mkv", "mov") if is_held(CONTAINERS[name])), None)
        advice = "leave out the audio" if other is None else f"write .{other}, or leave out the audio"
        raise UsageError(f"{path}: a .{container.name} file does not hold audio of the codec {codec}: {advice}")


@cache
def _list_codecs(file_format: str) -> frozenset[str]:
    """List the codecs that a container holds, by FFmpeg's own tables."""
    with av.open(io.BytesIO(), "w", format=file_format) as container:
        names = container.supported_codecs
    codecs = set(names)
    for name in names:
        for mode in ("r", "w"):
            with suppress(UnknownCodecError):
                codecs.add(av.Codec(name, "r" if mode == "r" else "w").canonical_name)
    return frozenset(codecs)


def open_encoder(rule: CodecRule) -> av.Codec:
    """Find an encoder in this build of FFmpeg; raise UsageError if there is none."""
    if rule.encoder == "libsvtav1":
        # Otherwise it prints to stderr. Here and not where it is opened: other threads may run there.
        os.environ.setdefault("SVT_LOG", "0")
    try:
        return av.Codec(rule.encoder, "w")
    except UnknownCodecError:
        raise UsageError(
            f"codec: this build of FFmpeg has no encoder {rule.encoder} for {rule.name}: choose another codec of "
            f"{', '.join(name for name in CODECS if name != rule.name)}"
        ) from None


def _find_codec(name: object) -> CodecRule:
    if not isinstance(name, str):
        raise expected("codec", "a name such as 'h264'", name)
    rule = CODECS.get(name) or _ENCODERS.get(name)
    if rule is None:
        known = ", ".join(CODECS)
        raise UsageError(f"codec: expected one of {known}, got {name!r}{did_you_mean(name, (*CODECS, *_ENCODERS))}")
    return rule


def _check_quality(rule: CodecRule, quality: int | None) -> None:
    if quality is None:
        return
    if not rule.scale:
        raise UsageError(f"quality: {rule.name} is lossless and takes none, got {quality}")
    least, most = rule.qualities
    if not least <= quality <= most:
        scale = "crf" if rule.scale == _CRF else "qscale"
        raise UsageError(
            f"quality: expected {least} to {most} for {rule.name} ({scale}; smaller is better), got {quality}"
        )
