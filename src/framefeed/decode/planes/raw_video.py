"""libav's decoder of raw video: it makes a picture of bytes where they lie, with the properties that it is told."""

from __future__ import annotations

from av import CodecContext, VideoCodecContext

from framefeed.decode.planes.layout import CHROMA_LOCATIONS, PlaneLayout


def raw_video(layout: PlaneLayout) -> VideoCodecContext:
    """Make a decoder whose every packet is the planes of one picture, in the order of the layout."""
    context = CodecContext.create("rawvideo", "r")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = layout.width, layout.height, layout.pixel_format
    context.colorspace, context.color_range = layout.color_space, layout.color_range
    context.thread_count, context.thread_type = 1, "NONE"
    context.options = {"chroma_sample_location": CHROMA_LOCATIONS[layout.chroma_location]}
    if layout.interlaced:
        context.options["top"] = "1"
    if layout.pixel_format == "pal8":
        # NUT's name for it: the palette lies behind the picture (libavcodec/rawdec.c, is_nut_pal8).
        context.codec_tag = "PAL\x08"
    return context
