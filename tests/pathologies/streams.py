"""Files with too many streams, too few, or the wrong one first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framefeed.testing import AudioSpec, ClipSpec, write_clip
from tests.pathologies import bitstreams
from tests.pathologies.build import Proof, make_from_spec
from tests.pathologies.facts import MediaFacts, Pathology, read_facts

_SMALL = ClipSpec(height=48, width=64, first_stamp=1000, disposition="default")
_LARGE = ClipSpec()
_COVER = ClipSpec(
    num_frames=1,
    codec="mjpeg",
    pixel_format="yuvj420p",
    gop=None,
    b_frames=None,
    first_stamp=5000,
    disposition="attached_pic",
    # By its ending .m4a would be written as "ipod", which has no pictures.
    container_format="mp4",
)


def _several(name: str, number: str, specs: tuple[ClipSpec | AudioSpec, ...], trait: str, proof: Proof) -> Pathology:
    """A file of several streams; without a spec that is neither sound nor cover, one without video."""

    def write(path: Path) -> None:
        write_clip(path, *specs)

    videos = [spec for spec in specs if isinstance(spec, ClipSpec) and spec.disposition != "attached_pic"]
    return Pathology(name, number, trait, write, proof, videos[0].stamps if videos else ())


def _write_cover_first(path: Path) -> None:
    """Move the metadata, and the cover in it, before the track: libav numbers streams as it meets them."""
    write_clip(path, _LARGE, _COVER)
    data = path.read_bytes()
    start, end = bitstreams.find_box(data, "moov.udta")
    track = bitstreams.find_box(data, "moov.trak")[0]
    path.write_bytes(data[:track] + data[start:end] + data[track:start] + data[end:])


def _has_larger_video(facts: MediaFacts, index: int) -> bool:
    other = read_facts(facts.path, index)
    return bool(other.frames) and facts.frames[0].height < other.frames[0].height


def _cover_then_video(facts: MediaFacts) -> bool:
    return read_facts(facts.path, 0).is_attached_picture and not facts.is_attached_picture


STREAMS = (
    *(
        make_from_spec(name, "M16", ClipSpec(num_frames=1), "one frame", lambda facts: len(facts.packets) == 1)
        for name in ("one_frame.mp4", "one_frame.mkv", "one_frame.ts")
    ),
    *(
        make_from_spec(
            name,
            "M16",
            # A header that need not wait for the first frame; without it the track would be left out.
            ClipSpec(num_frames=0, container_options=options),
            "a video stream without a frame",
            lambda facts: facts.time_base is not None and not facts.packets,
        )
        for name, options in (("zero_frames.mp4", {"movflags": "empty_moov"}), ("zero_frames.avi", {}))
    ),
    _several(
        "two_videos.mp4",
        "M18",
        (_SMALL, replace(_LARGE, disposition="dub")),
        "the small video is the default, the large one is not",
        lambda facts: _has_larger_video(facts, 1),
    ),
    _several(
        "two_defaults.mkv",
        "M18",
        (_SMALL, replace(_LARGE, disposition="default")),
        "both videos are the default: libav takes the first, though it is the smaller",
        lambda facts: _has_larger_video(facts, 1),
    ),
    Pathology(
        "cover_first.mp4",
        "M18",
        "a cover picture comes before the video",
        _write_cover_first,
        _cover_then_video,
        _LARGE.stamps,
        stream_index=1,
    ),
    replace(
        _several(
            "sound_first.mp4",
            "M18",
            (AudioSpec(4.0), _LARGE),
            "the video is not the first stream",
            lambda facts: len(facts.packets) == 100,
        ),
        stream_index=1,
    ),
    _several(
        "sound_only.m4a",
        "M19",
        (AudioSpec(),),
        "no video stream",
        lambda facts: facts.time_base is None and not facts.errors,
    ),
    replace(
        _several(
            "sound_and_cover.m4a",
            "M19",
            (AudioSpec(), _COVER),
            "the only picture is the cover",
            lambda facts: facts.is_attached_picture and len(facts.frames) == 1,
        ),
        stamps=(5000,),
        stream_index=1,
    ),
)
