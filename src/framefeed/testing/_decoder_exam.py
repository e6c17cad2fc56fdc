"""The law of a decoder as a class of tests, for decoders of other packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest import SkipTest

import numpy as np

from framefeed._arrays import IntArray
from framefeed.decode import (
    ClipSlot,
    Decoder,
    DecodeReport,
    Pixels,
    adapt_decoder,
    describe_recipe,
    make_writer,
)
from framefeed.errors import CorruptMedia, FramefeedError, MediaError, StaleSource, UnsupportedCodec, UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.parallel import ordered_map
from framefeed.request import Box, OutputSpec
from framefeed.testing._clips import ClipSpec, draw_frame, write_clip
from framefeed.testing._stamps import read_stamps

Ability = Literal["bytes", "file", "iter_native", "iter_rgb", "pickle", "rotation"]

# The pictures of a clip as written and as decoded differ by lossy coding; with red and blue exchanged, by 60.
_MAX_CODING_ERROR = 12
# Decoders crop before or after they convert, and then differ where a chroma sample crosses the edge. A crop that is one
# pixel off differs by 8.
_MAX_CROP_ERROR = 2
# Mean of 2 x 2 pixels against any usual filter. A resize of another box differs by 20.
_MAX_RESIZE_ERROR = 8
_UNWRITTEN = 77
_CROP: Box = (16, 24, 64, 80)


@dataclass(frozen=True, slots=True)
class ExamSource:
    """A source with its index, and a decoder that has not read it yet."""

    decoder: Decoder
    media: MediaSource
    index: FrameIndex

    def decode(self, *clips: tuple[Sequence[int], OutputSpec]) -> tuple[list[Pixels], DecodeReport]:
        """Decode clips in one call; return the memory of each, and the report."""
        slots = [make_slot(self.index, ordinals, output) for ordinals, output in clips]
        report = self.decoder.decode(self.media, self.index, slots)
        assert len(report.errors) == len(slots), f"{len(slots)} slots need as many errors, got {len(report.errors)}"
        return [slot.out for slot in slots], report

    def read(self, ordinals: Sequence[int], output: OutputSpec | None = None) -> Pixels:
        """Decode one clip, which must not fail."""
        (pixels,), report = self.decode((ordinals, output or OutputSpec()))
        report.raise_first()
        return pixels

    def read_all(self) -> Pixels:
        """Decode all frames in their order, each in its own slot and call."""
        return np.concatenate([self.read([ordinal]) for ordinal in range(len(self.index))])


def make_slot(index: FrameIndex, ordinals: Sequence[int], output: OutputSpec) -> ClipSlot:
    """Make a slot with new memory, in which unwritten pixels are seen."""
    shape = (len(ordinals), *output.shape(*index.stream.displayed))
    return ClipSlot(np.array(ordinals, dtype=np.int64), output, np.full(shape, _UNWRITTEN, dtype=np.uint8))


class DecoderExam:
    """Tests of a decoder: subclass this in a test module of pytest, and override ``make_decoder``.

    The tests write small clips whose frames show their own numbers, index them, and compare what the decoder gives.

    Example:
        ::

            class TestMyDecoder(DecoderExam):
                abilities = frozenset({"bytes", "rotation"})

                def make_decoder(self):
                    return MyDecoder()

    Attributes:
        abilities: What the decoder can do besides the rest: read sources of the kinds "bytes" and "file"; turn pictures
            as the file says ("rotation"); "iter_rgb" and "iter_native"; travel to other processes ("pickle"). Tests of
            other abilities are skipped.
        clip: The clip of most tests. Override it, with ``suffix``, for a decoder that cannot read H.264.
        suffix: Ending of the clip's file, which chooses the container.
    """

    abilities: frozenset[Ability] = frozenset({"rotation"})
    clip = ClipSpec(num_frames=40, gop=12)
    suffix = ".mp4"

    def make_decoder(self) -> Decoder:
        """Make the decoder to examine; every test makes its own."""
        raise NotImplementedError("override make_decoder in your subclass of DecoderExam")

    def write_source(self, folder: Path, spec: ClipSpec) -> Any:
        """Write the frames of a spec into an empty folder.

        Returns:
            A source as users give it: a path, or an `ImageSequence`.
        """
        return write_clip(folder / f"clip{self.suffix}", spec)

    def lose_frame(self, source: Any, ordinal: int) -> None:
        """Overwrite one frame of a written source, so that no decoder gives it."""
        index = build_index(source)
        packet = int(index.frame_packet[ordinal])
        offset, size = int(index.packets.offset[packet]), int(index.packets.size[packet])
        with Path(source).open("r+b") as file:
            file.seek(offset)
            # One unit of filler data, of the same size: H.264 decoders pass over it.
            file.write((size - 4).to_bytes(4, "big") + b"\x0c" + b"\xff" * (size - 5))

    # --- which frame ----------------------------------------------------------------------------------

    def test_it_is_a_decoder(self) -> None:
        """It has the methods of the protocol, and a name."""
        decoder = self.make_decoder()
        assert isinstance(decoder, Decoder), "it lacks name, decode or close"
        assert decoder.name and isinstance(decoder.name, str), "name must be a text that is not empty"
        decoder.close()

    def test_frames_show_their_numbers(self, tmp_path: Path) -> None:
        """One call for all frames gives each frame at its own place, in the colours of the file."""
        with self._opening(tmp_path) as source:
            pictures = source.read(range(len(source.index)), OutputSpec(dimension_order="NHWC"))
        assert read_stamps(pictures) == list(self.clip.stamps)
        for ordinal in (0, self.clip.num_frames - 1):
            drawn = np.rot90(draw_frame(self.clip, ordinal), self.clip.rotation // 90)
            assert _difference(pictures[ordinal], drawn) <= _MAX_CODING_ERROR, f"frame {ordinal} has wrong colours"

    def test_any_order_gives_the_frames_of_sequential_reading(self, tmp_path: Path) -> None:
        """Backwards, with gaps, with repeats, by chance: the pixels are those of reading in order."""
        last = self.clip.num_frames - 1
        by_chance = np.random.default_rng(7).integers(0, last + 1, 12).tolist()
        orders = [range(last, -1, -1), range(0, last, 7), [3, 3, last, 3, 0, last], [last], by_chance]
        with self._opening(tmp_path) as source:
            sequential = source.read_all()
            for order in orders:
                _check_equal(source.read(order), sequential[list(order)], f"frames {list(order)}")

    def test_another_container(self, tmp_path: Path) -> None:
        """In Matroska, where offsets of packets are those of their blocks, frames are right, or the call is refused."""
        if type(self).write_source is not DecoderExam.write_source:
            raise SkipTest(f"{type(self).__name__} writes sources of its own")
        last = self.clip.num_frames - 1
        with self._opening(tmp_path, written=write_clip(tmp_path / "clip.mkv", self.clip)) as source:
            try:
                pictures, report = source.decode(([last, 0, 7, 7], OutputSpec()), (range(last), OutputSpec()))
            except (UnsupportedCodec, UsageError) as error:
                raise SkipTest(f"it refuses Matroska: {error}") from error
            report.raise_first()
        stamps = self.clip.stamps
        assert read_stamps(pictures[0]) == [stamps[last], stamps[0], stamps[7], stamps[7]]
        assert read_stamps(pictures[1]) == list(stamps[:last])

    def test_nothing_asked_for_gives_nothing(self, tmp_path: Path) -> None:
        """A call without slots, and a slot without frames, are no errors."""
        with self._opening(tmp_path) as source:
            assert source.decode()[1].errors == []
            (empty, two), report = source.decode(([], OutputSpec()), ([1, 0], OutputSpec()))
            assert report.errors == [None, None]
            assert empty.shape[0] == 0
            assert read_stamps(two) == [self.clip.stamps[1], self.clip.stamps[0]]

    # --- which pixels ---------------------------------------------------------------------------------

    def test_dimension_orders(self, tmp_path: Path) -> None:
        """NHWC has the pixels of NCHW, also where the picture is cropped or resized."""
        with self._opening(tmp_path) as source:
            for output in (OutputSpec(), OutputSpec(crop=_CROP), OutputSpec(size=(48, 64))):
                first, last = source.read([5, 2], output), source.read([5, 2], replace(output, dimension_order="NHWC"))
                _check_equal(last, first.transpose(0, 2, 3, 1), f"{output} as NHWC")

    def test_crops(self, tmp_path: Path) -> None:
        """A crop is that part of the whole picture."""
        height, width = self.clip.displayed_size
        with self._opening(tmp_path) as source:
            whole = source.read([4])
            for crop in (_CROP, (0, 0, height, width), (7, 5, 33, 21), (height - 9, width - 11, 9, 11)):
                top, left, rows, columns = crop
                part = whole[:, :, top : top + rows, left : left + columns]
                error = _difference(source.read([4], OutputSpec(crop=crop)), part)
                assert error <= _MAX_CROP_ERROR, f"crop {crop} is not that part of the picture: it differs by {error}"

    def test_sizes(self, tmp_path: Path) -> None:
        """A size resizes the whole picture, and with a crop that part of it."""
        height, width = self.clip.displayed_size
        with self._opening(tmp_path) as source:
            whole = source.read([4])
            for crop in (None, _CROP):
                top, left, rows, columns = crop or (0, 0, height, width)
                part = whole[:, :, top : top + rows, left : left + columns]
                got = source.read([4], OutputSpec(size=(rows // 2, columns // 2), crop=crop))
                error = _difference(got, _halve(part))
                assert error <= _MAX_RESIZE_ERROR, f"crop {crop}, resized to its half, differs by {error}"
            larger = source.read([4, 9], OutputSpec(size=(2 * height, width)))
            assert read_stamps(larger) == [self.clip.stamps[4], self.clip.stamps[9]]

    def test_filters(self, tmp_path: Path) -> None:
        """The bicubic filter is not the bilinear one; a decoder that has one filter raises UsageError for the other."""
        height, width = self.clip.displayed_size
        bilinear = OutputSpec(size=(height // 2, width // 2))
        with self._opening(tmp_path) as source:
            cubic = partial(source.read, [4], replace(bilinear, filter="bicubic"))
            if isinstance(_catch(cubic), UsageError):
                return
            error = _difference(cubic(), source.read([4], bilinear))
            assert 0 < error <= _MAX_RESIZE_ERROR, f"bicubic and bilinear pixels differ by {error}"

    def test_pictures_stand_upright(self, tmp_path: Path) -> None:
        """Pictures that are stored turned or mirrored are delivered as a player shows them."""
        self._need("rotation")
        for number, (rotation, mirrored) in enumerate([(90, False), (180, False), (270, False), (0, True), (90, True)]):
            spec = replace(self.clip, rotation=rotation, mirrored=mirrored)
            with self._opening(tmp_path / str(number), spec) as source:
                whole = source.read([7, 0])
                assert read_stamps(whole) == [spec.stamps[7], spec.stamps[0]]
                top, left, rows, columns = crop = (8, 16, 40, 32)
                error = _difference(
                    source.read([7], OutputSpec(crop=crop)), whole[:1, :, top : top + rows, left : left + columns]
                )
                assert error <= _MAX_CROP_ERROR, f"turned by {rotation}, a crop differs by {error}"

    # --- several slots --------------------------------------------------------------------------------

    def test_slots_of_one_call(self, tmp_path: Path) -> None:
        """Each slot of a call has what it would have alone, also where slots share frames."""
        outputs = [OutputSpec(), OutputSpec(dimension_order="NHWC"), OutputSpec(crop=_CROP), OutputSpec((48, 64))]
        clips: list[tuple[Sequence[int], OutputSpec]] = [
            (ordinals, output) for output in outputs for ordinals in ([9, 2, 9], [2, 30], [])
        ]
        with self._opening(tmp_path) as source:
            together, report = source.decode(*clips)
            report.raise_first()
            for number, ((ordinals, output), pixels) in enumerate(zip(clips, together, strict=True)):
                _check_equal(pixels, source.read(ordinals, output), f"slot {number}, frames {list(ordinals)}")

    def test_several_threads(self, tmp_path: Path) -> None:
        """Calls at the same time do not mix."""
        last = self.clip.num_frames - 1
        clips = [[number * 7 % last, number * 5 % last, last - number] for number in range(24)]
        with self._opening(tmp_path) as source:
            right = source.read_all()
            together = ordered_map(source.read, clips, workers=4, max_in_flight=8)
            for clip, pixels in zip(clips, together, strict=True):
                _check_equal(pixels, right[clip], f"frames {clip}, read beside other calls,")

    # --- errors ---------------------------------------------------------------------------------------

    def test_a_lost_frame_fails_only_its_slots(self, tmp_path: Path) -> None:
        """A frame that does not come is CorruptMedia in the slots that have it, and no other frame takes its place."""
        lost, spec = 17, replace(self.clip, gop=1, b_frames=0)
        clips = [[lost], [lost - 1, lost + 1], [0, lost, 2], [spec.num_frames - 1], []]
        with self._opening(tmp_path, spec, lost=lost) as source:
            together, report = source.decode(*((clip, OutputSpec()) for clip in clips))
        for clip, pixels, error in zip(clips, together, report.errors, strict=True):
            if lost in clip:
                assert isinstance(error, CorruptMedia), f"frames {clip}: CorruptMedia was expected, got {error!r}"
                assert list(error.frames) == [lost], f"only frame {lost} is lost, the error names {error.frames}"
                continue
            assert error is None, f"frames {clip} are whole: {error!r}"
            assert read_stamps(pixels) == [spec.stamps[ordinal] for ordinal in clip]

    def test_errors_are_of_framefeed(self, tmp_path: Path) -> None:
        """Whatever a damaged file makes a library raise, a FramefeedError leaves the decoder."""
        with self._opening(tmp_path) as source:
            path = next(path for path in tmp_path.rglob("*") if path.is_file())
            size = path.stat().st_size
            for number in range(1, 10):
                _overwrite(path, number * size // 10)
                index = _try_index(source.media)
                if index is not None:
                    changed = replace(source, media=MediaSource.of(source.media.path), index=index)
                    _catch(partial(changed.decode, (range(len(index)), OutputSpec())))

    def test_a_file_that_is_gone_or_changed_is_an_error(self, tmp_path: Path) -> None:
        """The source is not what was indexed: the call raises, and gives no frame of another file."""
        with self._opening(tmp_path / "one") as source:
            shutil.rmtree(tmp_path / "one")
            error = _catch(partial(source.decode, ([0], OutputSpec())))
            assert isinstance(error, MediaError), f"the file is gone: MediaError was expected, got {error!r}"
        with self._opening(tmp_path / "one") as source:
            shutil.rmtree(tmp_path / "one")
            (tmp_path / "one").mkdir()
            self.write_source(
                tmp_path / "one", replace(self.clip, first_stamp=500, num_frames=self.clip.num_frames + 1)
            )
            error = _catch(partial(source.decode, ([0], OutputSpec())))
            assert isinstance(error, StaleSource), f"the file has changed: StaleSource was expected, got {error!r}"

    # --- life -----------------------------------------------------------------------------------------

    def test_it_works_again_after_close(self, tmp_path: Path) -> None:
        """Closing twice is no error, and the next call gives the same pixels."""
        with self._opening(tmp_path) as source:
            before = source.read([11, 3])
            source.decoder.close()
            source.decoder.close()
            _check_equal(source.read([11, 3]), before, "after close, frames [11, 3]")

    def test_it_travels_to_another_process(self, tmp_path: Path) -> None:
        """The pickled decoder gives the same pixels in another process."""
        self._need("pickle")
        with self._opening(tmp_path) as source:
            own = source.read([11, 3])
            with ordered_map(source.read, [[11, 3]], workers=1, kind="processes", max_in_flight=1) as results:
                _check_equal(next(results), own, "in another process, frames [11, 3]")

    # --- other sources, other methods -----------------------------------------------------------------

    def test_bytes(self, tmp_path: Path) -> None:
        """An encoded file in memory gives the pixels of the file."""
        self._need("bytes")
        with self._opening(tmp_path) as source:
            data = Path(source.media.path).read_bytes()
            loaded = replace(source, media=MediaSource.of(data), index=build_index(data))
            _check_equal(loaded.read([11, 3]), source.read([11, 3]), "of bytes, frames [11, 3]")

    def test_file_objects(self, tmp_path: Path) -> None:
        """An open file gives the pixels of its path."""
        self._need("file")
        with self._opening(tmp_path) as source, Path(source.media.path).open("rb") as file:
            opened = replace(source, media=MediaSource.of(file), index=build_index(file))
            _check_equal(opened.read([11, 3]), source.read([11, 3]), "of an open file, frames [11, 3]")

    def test_iter_rgb(self, tmp_path: Path) -> None:
        """Reading forward gives the pixels of ``decode``, each in memory of its own."""
        with self._opening(tmp_path) as source:
            decoder = adapt_decoder(source.decoder)
            self._need_method("iter_rgb", decoder.can_iter_rgb(source.index))
            output = OutputSpec(size=(48, 64), dimension_order="NHWC")
            got = list(decoder.iter_rgb(source.media, source.index, range(5, 20), output))
            assert [ordinal for ordinal, _ in got] == list(range(5, 20))
            pixels = np.stack([picture for _, picture in got])
            _check_equal(pixels, source.read(range(5, 20), output), "iter_rgb of frames 5 to 19")

    def test_iter_native(self, tmp_path: Path) -> None:
        """Pictures as decoded, each once, give the pixels of ``decode`` when they are converted."""
        with self._opening(tmp_path) as source:
            decoder = adapt_decoder(source.decoder)
            self._need_method("iter_native", decoder.can_iter_native(source.index))
            got: dict[int, Pixels] = {}
            for ordinal, frame in decoder.iter_native(source.media, source.index, [20, 3, 20, 4]):
                assert ordinal not in got, f"frame {ordinal} came twice"
                slot = make_slot(source.index, [ordinal], OutputSpec())
                make_writer(frame, source.index, source.media.name)(slot.output, slot.out[0])
                got[ordinal] = slot.out[0]
            assert sorted(got) == [3, 4, 20]
            _check_equal(np.stack([got[3], got[4], got[20]]), source.read([3, 4, 20]), "iter_native of [3, 4, 20]")

    def test_the_recipe_is_a_text_that_stays(self, tmp_path: Path) -> None:
        """What decides the pixels has a text, which is the same for a decoder made alike."""
        with self._opening(tmp_path) as source:
            recipe = describe_recipe(source.decoder, source.index)
            source.read([0])
            assert recipe and isinstance(recipe, str), f"a text that is not empty was expected, got {recipe!r}"
            for decoder in (source.decoder, self.make_decoder()):
                again = describe_recipe(decoder, source.index)
                assert again == recipe, f"the recipe changes, so that no cached frame is found: {recipe!r}, {again!r}"

    # --- help -----------------------------------------------------------------------------------------

    @contextmanager
    def _opening(
        self, folder: Path, spec: ClipSpec | None = None, *, lost: int | None = None, written: Any = None
    ) -> Iterator[ExamSource]:
        folder.mkdir(exist_ok=True)
        written = written or self.write_source(folder, spec or self.clip)
        index = build_index(written)
        if lost is not None:
            self.lose_frame(written, lost)
            # Indexed before the damage, which would otherwise be known.
            index = replace(index, identity=MediaSource.of(written).identity())
        decoder = self.make_decoder()
        try:
            yield ExamSource(decoder, MediaSource.of(written), index)
        finally:
            decoder.close()

    def _need(self, ability: Ability) -> None:
        if ability not in self.abilities:
            raise SkipTest(f"{ability!r} is not among the abilities of {type(self).__name__}")

    def _need_method(self, name: Literal["iter_native", "iter_rgb"], is_there: bool) -> None:
        assert is_there == (name in self.abilities), (
            f"{name!r} is {'not ' * (not is_there)}a method of the decoder, and is "
            f"{'not ' * (name not in self.abilities)}among the abilities of {type(self).__name__}"
        )
        self._need(name)


def _check_equal(got: Pixels, right: Pixels, what: str) -> None:
    assert got.shape == right.shape, f"{what}: shape {right.shape} was expected, got {got.shape}"
    unequal = [number for number, pair in enumerate(zip(got, right, strict=True)) if not np.array_equal(*pair)]
    assert not unequal, f"{what}: other pixels at positions {unequal}"


def _difference(one: Pixels, other: Pixels) -> float:
    assert one.shape == other.shape, f"shape {other.shape} was expected, got {one.shape}"
    return float(np.abs(one.astype(np.int16) - other).mean())


def _halve(pictures: Pixels) -> Pixels:
    """Give each 2 x 2 pixels their mean: uint8 [N, C, H, W]."""
    sums: IntArray = pictures.astype(np.int64)
    sums = sums[:, :, ::2] + sums[:, :, 1::2]
    return ((sums[..., ::2] + sums[..., 1::2] + 2) // 4).astype(np.uint8)


def _overwrite(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(range(256)))


def _try_index(media: MediaSource) -> FrameIndex | None:
    try:
        return build_index(media.path, "none")
    except FramefeedError:
        return None


def _catch(function: Callable[[], object]) -> FramefeedError | None:
    """Call a function; errors of other packages pass."""
    try:
        function()
    except FramefeedError as error:
        return error
    return None
