"""The law of exactness catches the mistakes that video readers make: each reader here makes one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import build_index
from framefeed.media import MediaSource
from tests.codec_clips import CODECS
from tests.corpus import clip_file, corpus_file
from tests.decode.law import Product, check_frames, known_pts
from tests.reference import Planes, kept_reference, planes_of


class PlainReader:
    """Makes none: reads the file from its beginning for every request, and counts."""

    drains = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = build_index(path)

    def pts(self) -> list[int | None]:
        return known_pts(self.index)

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        frames = self.sequence(ordinals)
        return {ordinal: frames[ordinal][1] for ordinal in ordinals if ordinal < len(frames)}

    def sequence(self, wanted: Sequence[int] = ()) -> list[tuple[int | None, Planes]]:
        """All frames as (pts, picture)."""
        with av.open(str(self.path)) as container:
            stream = container.streams.video[0]
            context = stream.codec_context
            context.thread_count = 1
            frames = []
            for number, packet in enumerate(packet for packet in container.demux(stream) if packet.size):
                self.before_packet(context, number, wanted)
                frames += [(frame.pts, planes_of(frame)) for frame in context.decode(packet)]
            if self.drains:
                frames += [(frame.pts, planes_of(frame)) for frame in context.decode(None)]
            return frames

    def before_packet(self, context: av.VideoCodecContext, number: int, wanted: Sequence[int]) -> None:
        """Called before each packet: some readers make their mistake here."""


class FpsArithmetic(PlainReader):
    """Frame i is what is shown at i / fps."""

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        frames = self.sequence()
        with av.open(str(self.path)) as container:
            stream = container.streams.video[0]
            assert stream.average_rate is not None
            assert stream.time_base is not None
            ticks = 1 / stream.average_rate / stream.time_base
        first = frames[0][0] or 0
        shown = {
            o: [planes for pts, planes in frames if pts is not None and pts <= first + o * ticks] for o in ordinals
        }
        return {ordinal: pictures[-1] for ordinal, pictures in shown.items() if pictures}


class SortsByPts(PlainReader):
    """Puts what the decoder gives into the order of its times."""

    def sequence(self, wanted: Sequence[int] = ()) -> list[tuple[int | None, Planes]]:
        return sorted(super().sequence(wanted), key=lambda frame: -1 if frame[0] is None else frame[0])


class TrustsHeader(PlainReader):
    """Has as many frames as the container's header says."""

    def pts(self) -> list[int | None]:
        with av.open(str(self.path)) as container:
            count = container.streams.video[0].frames
        return [self.index.pts[0].item() + number * self.index.step for number in range(count)]


class NeverDrains(PlainReader):
    """Stops at the last packet, with frames still in the decoder."""

    drains = False


class SkipsForEveryCodec(PlainReader):
    """Lets the decoder drop the pictures that it takes for disposable, whatever the codec."""

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        frames = dict(self.sequence(ordinals))
        pts = self.pts()
        return {ordinal: frames[pts[ordinal]] for ordinal in ordinals if pts[ordinal] in frames}

    def before_packet(self, context: av.VideoCodecContext, number: int, wanted: Sequence[int]) -> None:
        is_wanted = number in set(self.index.frame_packet[list(wanted)].tolist())
        context.skip_frame = "DEFAULT" if is_wanted else "NONREF"


class BelievesSeeks(PlainReader):
    """Takes the first frame after a seek to be the key frame that it asked for."""

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        return {ordinal: planes for ordinal in ordinals if (planes := self._after_seek(ordinal)) is not None}

    def _after_seek(self, ordinal: int) -> Planes | None:
        keys = self.index.key_frame_indices
        key = int(keys[keys <= ordinal][-1])
        with av.open(str(self.path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            container.seek(int(self.index.pts[key]), stream=stream)
            for number, frame in enumerate(container.decode(stream), key):
                if number == ordinal:
                    return planes_of(frame)
        return None


def _nearest_key_by_packet(path: Path) -> Product:
    """framefeed with an index that starts at the last key frame before a frame in the file, shown later or not."""
    index = build_index(path)
    keys = np.sort(index.frame_packet[index.key_frame_indices])
    starts = keys[np.searchsorted(keys, index.frame_packet, side="right") - 1]
    return Product(MediaSource.of(path), replace(index, frame_start=starts), PyAVDecoder())


AV1 = "av1.mp4"
WRONG = [
    (FpsArithmetic, "vfr.mp4"),
    (SortsByPts, "no_pts.avi"),
    (TrustsHeader, "header_count.avi"),
    (TrustsHeader, "edit_list.mp4"),
    (_nearest_key_by_packet, "open_gop.mp4"),
    (_nearest_key_by_packet, "open_gop_hevc.mkv"),
    (NeverDrains, "base.mp4"),
    (BelievesSeeks, "closed_gop.ts"),
    (SkipsForEveryCodec, "temporal_units_av1.mp4"),
    (SkipsForEveryCodec, AV1),
]


def _path(name: str) -> Path:
    return clip_file(name, CODECS["av1"].spec) if name == AV1 else corpus_file(name)


@pytest.mark.parametrize("name", sorted({name for _, name in WRONG}))
def test_reading_from_the_beginning_is_right_everywhere(name: str) -> None:
    path = _path(name)
    reference = kept_reference(path)
    check_frames(PlainReader(path), reference, [range(len(reference)), [3], []])


@pytest.mark.parametrize(("wrong", "name"), WRONG)
def test_the_law_catches_a_wrong_reader(wrong: type[PlainReader], name: str) -> None:
    path = _path(name)
    reference = kept_reference(path)
    requests = [[number] for number in range(0, len(reference), 3)]
    with pytest.raises(AssertionError, match=r"wrong|missing|promised"):
        check_frames(wrong(path), reference, requests)


@pytest.mark.parametrize("wrong", sorted({wrong for wrong, _ in WRONG}, key=lambda wrong: wrong.__name__))
def test_a_wrong_reader_passes_on_a_plain_file(wrong: type[PlainReader]) -> None:
    # So what is caught above is the mistake, not some other fault of the reader.
    path = corpus_file("bframes_0.mp4")
    reference = kept_reference(path)
    check_frames(wrong(path), reference, [[0], [7, 3], [20]])
