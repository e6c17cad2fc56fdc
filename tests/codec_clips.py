"""One short clip for each video codec that PyAV's wheel can write and read; all stamps stay readable."""

from __future__ import annotations

from dataclasses import dataclass, replace

import av

from framefeed.testing import ClipSpec

_INTRA = ClipSpec(num_frames=12, gop=None, b_frames=None)
_INTER = ClipSpec(num_frames=24, gop=12, b_frames=None)
_REORDERED = replace(_INTER, b_frames=2)


@dataclass(frozen=True, slots=True)
class CodecClip:
    """Recipe of a clip of one codec.

    Attributes:
        suffix: Ending of a container for the codec.
        spec: Frames and encoder.
    """

    suffix: str
    spec: ClipSpec


def _make_intra(suffix: str, codec: str, pixel_format: str = "yuv420p", size: tuple[int, int] = (96, 128)) -> CodecClip:
    return CodecClip(suffix, replace(_INTRA, codec=codec, pixel_format=pixel_format, height=size[0], width=size[1]))


def _make_inter(suffix: str, codec: str, pixel_format: str = "yuv420p", size: tuple[int, int] = (96, 128)) -> CodecClip:
    return CodecClip(suffix, replace(_INTER, codec=codec, pixel_format=pixel_format, height=size[0], width=size[1]))


def _make_reordered(suffix: str, codec: str, pixel_format: str = "yuv420p") -> CodecClip:
    return CodecClip(suffix, replace(_REORDERED, codec=codec, pixel_format=pixel_format))


# By the name of the codec, not of the encoder; two rows where one codec has two kinds of stream.
CODECS: dict[str, CodecClip] = {
    "amv": _make_intra(".avi", "amv", "yuvj420p"),
    "apng": _make_intra(".apng", "apng", "rgb24"),
    "asv1": _make_intra(".avi", "asv1"),
    "asv2": _make_intra(".avi", "asv2"),
    "av1": _make_inter(".mp4", "libsvtav1"),
    "avrp": _make_intra(".mov", "avrp", "gbrp10le"),
    "cfhd": _make_intra(".mov", "cfhd", "yuv422p10le"),
    "cinepak": _make_intra(".avi", "cinepak", "rgb24"),
    "cljr": _make_intra(".avi", "cljr", "yuv411p"),
    "dnxhd": CodecClip(
        ".mov",
        replace(
            _INTRA, codec="dnxhd", pixel_format="yuv422p", height=120, width=256, codec_options={"profile": "dnxhr_lb"}
        ),
    ),
    "dpx": _make_intra(".mov", "dpx", "rgb24"),
    "dvvideo": CodecClip(".dv", replace(_INTRA, num_frames=4, codec="dvvideo", height=576, width=720)),
    "dxv": _make_intra(".mov", "dxv", "rgba"),
    "exr": _make_intra(".mov", "exr", "gbrpf32le"),
    "ffv1": _make_inter(".mkv", "ffv1"),
    "ffvhuff": _make_intra(".avi", "ffvhuff"),
    "flashsv": _make_inter(".flv", "flashsv", "bgr24"),
    "flashsv2": _make_inter(".flv", "flashsv2", "bgr24"),
    "flv1": _make_inter(".flv", "flv"),
    "gif": _make_inter(".gif", "gif", "rgb8"),
    "h261": _make_inter(".avi", "h261", size=(144, 176)),
    "h263": _make_inter(".mov", "h263"),
    "h264": _make_reordered(".mp4", "libx264"),
    "h264_rgb": _make_reordered(".mkv", "libx264rgb", "rgb24"),
    "hevc": _make_reordered(".mp4", "libx265"),
    "huffyuv": _make_intra(".avi", "huffyuv", "yuv422p"),
    "jpeg2000": _make_intra(".mov", "jpeg2000"),
    "jpegls": _make_intra(".avi", "jpegls", "rgb24"),
    "ljpeg": _make_intra(".avi", "ljpeg", "yuvj420p"),
    "magicyuv": _make_intra(".avi", "magicyuv"),
    "mjpeg": _make_intra(".avi", "mjpeg", "yuvj420p"),
    "mpeg1video": _make_reordered(".mpg", "mpeg1video"),
    "mpeg2video": _make_reordered(".ts", "mpeg2video"),
    "mpeg4": _make_reordered(".mp4", "mpeg4"),
    "msmpeg4v2": _make_inter(".avi", "msmpeg4v2"),
    "msmpeg4v3": _make_inter(".avi", "msmpeg4"),
    "msrle": _make_inter(".avi", "msrle", "pal8"),
    "msvideo1": _make_inter(".avi", "msvideo1", "rgb555le"),
    "png": _make_intra(".mov", "png", "rgb24"),
    "prores": _make_intra(".mov", "prores", "yuv422p10le"),
    "qtrle": _make_inter(".mov", "qtrle", "rgb24"),
    "r10k": _make_intra(".mov", "r10k", "gbrp10le"),
    "r210": _make_intra(".mov", "r210", "gbrp10le"),
    "rawvideo": _make_intra(".avi", "rawvideo"),
    "rawvideo_rgb": _make_intra(".mov", "rawvideo", "rgb24"),
    "roq": _make_inter(".roq", "roqvideo", "yuvj444p"),
    "rpza": _make_inter(".mov", "rpza", "rgb555le"),
    "rv10": _make_inter(".rm", "rv10"),
    "rv20": _make_inter(".rm", "rv20"),
    "sgi": _make_intra(".mov", "sgi", "rgb24"),
    "smc": _make_inter(".mov", "smc", "pal8"),
    "snow": _make_inter(".mkv", "snow"),
    "speedhq": _make_intra(".avi", "speedhq"),
    "svq1": _make_inter(".mov", "svq1", "yuv410p"),
    "targa": _make_intra(".avi", "targa", "bgr24"),
    "tiff": _make_intra(".mov", "tiff"),
    "utvideo": _make_intra(".avi", "utvideo"),
    "v210": _make_intra(".mov", "v210", "yuv422p10le"),
    "v308": _make_intra(".mov", "v308", "yuv444p"),
    "v408": _make_intra(".mov", "v408", "yuva444p"),
    "v410": _make_intra(".mov", "v410", "yuv444p10le"),
    "vc2": CodecClip(
        ".mov",
        replace(_INTRA, codec="vc2", codec_options={"b": "50M", "slice_width": "64", "slice_height": "32"}),
    ),
    "vp8": _make_inter(".webm", "libvpx"),
    "vp9": _make_inter(".webm", "libvpx-vp9"),
    "wmv1": _make_inter(".asf", "wmv1"),
    "wmv2": _make_inter(".asf", "wmv2"),
    "y41p": _make_intra(".avi", "y41p", "yuv411p"),
    "yuv4": _make_intra(".mov", "yuv4"),
    "zlib": _make_intra(".avi", "zlib", "bgr24"),
    "zmbv": _make_inter(".avi", "zmbv", "bgr0"),
}

# FFmpeg 9 has no encoders of these any more. Their files are raw video to it, and to FFmpeg 8 before.
for _name in ("v308", "v408", "v410"):
    if _name not in av.codecs_available:
        del CODECS[_name]

# Encoders of FFmpeg 8 and 9 as PyAV has them that have no clip, with the reason. Hardware encoders are not listed.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("av1", "h264", "hevc", "vp8", "vp9", "webp"), "another name of an encoder that is here"),
    **dict.fromkeys(("dirac", "h263p", "prores_aw", "prores_ks"), "another encoder of a codec that is here"),
    **dict.fromkeys(
        ("alias_pix", "bmp", "fits", "hdr", "pam", "pbm", "pcx", "pfm", "pgm", "pgmyuv", "phm", "ppm"),
        "a still picture that no container holds as video",
    ),
    **dict.fromkeys(
        ("qoi", "sunrast", "vbn", "wbmp", "xbm", "xface", "xwd"), "a still picture that no container holds as video"
    ),
    **dict.fromkeys(("libwebp", "libwebp_anim"), "animations are written and not read"),
    **dict.fromkeys(("a64multi", "a64multi5"), "nothing decodes it"),
    "bitpacked": "travels in RTP only",
    "pdv": "of FFmpeg 9; travels in a container of its own, which is not among those that are read",
    "vnull": "codes nothing",
    "wrapped_avframe": "codes nothing",
}
