"""One short clip for each video codec that PyAV's wheel can both write and read, all of which keep their stamps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from framefeed.testing._clips import ClipSpec

_INTRA = ClipSpec(num_frames=12, gop=None, b_frames=None)
_INTER = ClipSpec(num_frames=24, gop=12, b_frames=None)
_REORDERED = replace(_INTER, b_frames=2)


@dataclass(frozen=True, slots=True)
class CodecClip:
    """How to write a clip of one codec.

    Attributes:
        suffix: Ending of a container that holds it.
        spec: What to encode, and by which encoder.
    """

    suffix: str
    spec: ClipSpec


def _intra(suffix: str, codec: str, pixel_format: str = "yuv420p", size: tuple[int, int] = (96, 128)) -> CodecClip:
    return CodecClip(suffix, replace(_INTRA, codec=codec, pixel_format=pixel_format, height=size[0], width=size[1]))


def _inter(suffix: str, codec: str, pixel_format: str = "yuv420p", size: tuple[int, int] = (96, 128)) -> CodecClip:
    return CodecClip(suffix, replace(_INTER, codec=codec, pixel_format=pixel_format, height=size[0], width=size[1]))


def _reordered(suffix: str, codec: str, pixel_format: str = "yuv420p") -> CodecClip:
    return CodecClip(suffix, replace(_REORDERED, codec=codec, pixel_format=pixel_format))


# By the name of the codec, not of the encoder; two rows where one codec has two kinds of stream.
CODECS: dict[str, CodecClip] = {
    "amv": _intra(".avi", "amv", "yuvj420p"),
    "apng": _intra(".apng", "apng", "rgb24"),
    "asv1": _intra(".avi", "asv1"),
    "asv2": _intra(".avi", "asv2"),
    "av1": _inter(".mp4", "libsvtav1"),
    "avrp": _intra(".mov", "avrp", "gbrp10le"),
    "cfhd": _intra(".mov", "cfhd", "yuv422p10le"),
    "cinepak": _intra(".avi", "cinepak", "rgb24"),
    "cljr": _intra(".avi", "cljr", "yuv411p"),
    "dnxhd": CodecClip(
        ".mov",
        replace(
            _INTRA, codec="dnxhd", pixel_format="yuv422p", height=120, width=256, codec_options={"profile": "dnxhr_lb"}
        ),
    ),
    "dpx": _intra(".mov", "dpx", "rgb24"),
    "dvvideo": CodecClip(".dv", replace(_INTRA, num_frames=4, codec="dvvideo", height=576, width=720)),
    "dxv": _intra(".mov", "dxv", "rgba"),
    "exr": _intra(".mov", "exr", "gbrpf32le"),
    "ffv1": _inter(".mkv", "ffv1"),
    "ffvhuff": _intra(".avi", "ffvhuff"),
    "flashsv": _inter(".flv", "flashsv", "bgr24"),
    "flashsv2": _inter(".flv", "flashsv2", "bgr24"),
    "flv1": _inter(".flv", "flv"),
    "gif": _inter(".gif", "gif", "rgb8"),
    "h261": _inter(".avi", "h261", size=(144, 176)),
    "h263": _inter(".mov", "h263"),
    "h264": _reordered(".mp4", "libx264"),
    "h264_rgb": _reordered(".mkv", "libx264rgb", "rgb24"),
    "hevc": _reordered(".mp4", "libx265"),
    "huffyuv": _intra(".avi", "huffyuv", "yuv422p"),
    "jpeg2000": _intra(".mov", "jpeg2000"),
    "jpegls": _intra(".avi", "jpegls", "rgb24"),
    "ljpeg": _intra(".avi", "ljpeg", "yuvj420p"),
    "magicyuv": _intra(".avi", "magicyuv"),
    "mjpeg": _intra(".avi", "mjpeg", "yuvj420p"),
    "mpeg1video": _reordered(".mpg", "mpeg1video"),
    "mpeg2video": _reordered(".ts", "mpeg2video"),
    "mpeg4": _reordered(".mp4", "mpeg4"),
    "msmpeg4v2": _inter(".avi", "msmpeg4v2"),
    "msmpeg4v3": _inter(".avi", "msmpeg4"),
    "msrle": _inter(".avi", "msrle", "pal8"),
    "msvideo1": _inter(".avi", "msvideo1", "rgb555le"),
    "png": _intra(".mov", "png", "rgb24"),
    "prores": _intra(".mov", "prores", "yuv422p10le"),
    "qtrle": _inter(".mov", "qtrle", "rgb24"),
    "r10k": _intra(".mov", "r10k", "gbrp10le"),
    "r210": _intra(".mov", "r210", "gbrp10le"),
    "rawvideo": _intra(".avi", "rawvideo"),
    "rawvideo_rgb": _intra(".mov", "rawvideo", "rgb24"),
    "roq": _inter(".roq", "roqvideo", "yuvj444p"),
    "rpza": _inter(".mov", "rpza", "rgb555le"),
    "rv10": _inter(".rm", "rv10"),
    "rv20": _inter(".rm", "rv20"),
    "sgi": _intra(".mov", "sgi", "rgb24"),
    "smc": _inter(".mov", "smc", "pal8"),
    "snow": _inter(".mkv", "snow"),
    "speedhq": _intra(".avi", "speedhq"),
    "svq1": _inter(".mov", "svq1", "yuv410p"),
    "targa": _intra(".avi", "targa", "bgr24"),
    "tiff": _intra(".mov", "tiff"),
    "utvideo": _intra(".avi", "utvideo"),
    "v210": _intra(".mov", "v210", "yuv422p10le"),
    "v308": _intra(".mov", "v308", "yuv444p"),
    "v408": _intra(".mov", "v408", "yuva444p"),
    "v410": _intra(".mov", "v410", "yuv444p10le"),
    "vc2": CodecClip(
        ".mov",
        replace(_INTRA, codec="vc2", codec_options={"b": "50M", "slice_width": "64", "slice_height": "32"}),
    ),
    "vp8": _inter(".webm", "libvpx"),
    "vp9": _inter(".webm", "libvpx-vp9"),
    "wmv1": _inter(".asf", "wmv1"),
    "wmv2": _inter(".asf", "wmv2"),
    "y41p": _intra(".avi", "y41p", "yuv411p"),
    "yuv4": _intra(".mov", "yuv4"),
    "zlib": _intra(".avi", "zlib", "bgr24"),
    "zmbv": _inter(".avi", "zmbv", "bgr0"),
}

# Encoders of PyAV (18, with FFmpeg 8) that have no clip. Hardware encoders are not listed: they are there or not.
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
    "vnull": "codes nothing",
    "wrapped_avframe": "codes nothing",
}
