"""Cut and changed pictures, and pictures that claim too much: typed errors, few reads, no other facts than Pillow's."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from framefeed._values import DEFAULT_LIMITS
from framefeed.errors import FramefeedError
from framefeed.media import MediaSource
from framefeed.pictures._pillow import probe_image
from framefeed.pictures._reads import OddHeader
from tests.lengths import IS_ALL
from tests.pictures.made import (
    WRITES_AVIF,
    WRITES_MPO,
    chunk,
    made,
    picture,
    saved,
    segment,
    with_chunks,
    with_segments,
)
from tests.pictures.reading import Facts, Reads, our_facts, pillow_facts

SMALL = ("exif 6.jpeg", "exif big-endian 8.jpeg", "progressive L.jpeg", "exif 3.png", "late exif 6.png",
         "animation.png", "animation.gif", "own palette.gif", "RGB lossy exif 5.webp", "RGBA lossless xmp.webp",
         "animation.webp", *(["mpo.jpeg"] if WRITES_MPO else []))  # fmt: skip
TIFFS = ("pages.tiff", "tiled >.tiff", "RGB big.tiff", "orientation 6.tiff")
ONE_OF_EACH = ("exif 6.jpeg", "exif 3.png", "animation.gif", "RGB lossy exif 5.webp", "P.bmp", "tiled >.tiff")


def _info(data: bytes) -> str:
    try:
        probe_image(MediaSource.of(data), DEFAULT_LIMITS)
    except FramefeedError as error:
        return type(error).__name__
    return "opened"


def _facts(data: bytes) -> Facts | None:
    try:
        return our_facts(data)
    except OddHeader:
        return None


def _by_pillow(data: bytes) -> Facts | None:
    """What Pillow says of a picture of any size; None where it refuses it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # too large is no damage; our limits come after the header
        try:
            return pillow_facts(data)
        except Exception:
            return None


def _assert_agree(changed: bytes, undamaged: Facts | None) -> None:
    """Whatever we say of changed bytes, Pillow says; where it refuses them, it is the undamaged picture's or nothing.

    That we refuse what Pillow takes is fine: Pillow is asked then.
    """
    facts, expected = _facts(changed), _by_pillow(changed)
    if facts is not None:
        assert facts[:3] == (expected or undamaged or facts)[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_I05_cut_at_every_byte(name: str) -> None:
    data = made()[name]
    outcomes = {_info(data[:cut]) for cut in range(0, len(data), 1 if IS_ALL else 3)}
    assert outcomes <= {"opened", "UnreadableMedia", "LimitExceeded"}


@pytest.mark.parametrize("name", SMALL)
def test_I05_a_cut_header_says_the_same_or_nothing(name: str) -> None:
    data = made()[name]
    whole = our_facts(data)
    for cut in [*range(min(len(data), 1500)), *range(1500, len(data), 37)]:
        facts = _facts(data[:cut])
        # How many pictures there are is known at the end of a GIF only.
        assert facts is None or facts == whole._replace(num_frames=facts.num_frames)


@pytest.mark.parametrize("name", ["RGB.png", "late exif 6.png", "RGB lossy.webp", "animation.webp"])
def test_I05_a_cut_file_is_noticed_where_its_size_is_claimed(name: str) -> None:
    data = made()[name]
    for cut in range(13, len(data), 11):
        assert _facts(data[:-cut]) is None


@settings(max_examples=150)
@given(name=st.sampled_from((*SMALL, *TIFFS)), data=st.data())
def test_changed_bytes_say_what_pillow_says(name: str, data: st.DataObject) -> None:
    changed = bytearray(made()[name])
    within = st.integers(0, min(len(changed), 700) - 1) | st.integers(0, len(changed) - 1)
    for place, value in data.draw(st.lists(st.tuples(within, st.integers(0, 255)), min_size=1, max_size=4)):
        changed[place] = value
    # A canvas that is too small for its frames is believed: the frames of an animated WebP are not read.
    _assert_agree(bytes(changed), None if name == "animation.webp" else _facts(made()[name]))
    _assert_is_opened_or_refused(bytes(changed))


def _assert_is_opened_or_refused(changed: bytes) -> None:
    assert _info(changed) in ("opened", "UnreadableMedia", "LimitExceeded")


@settings(max_examples=150)
@given(
    # Deferred: making the pictures takes seconds, in each process that only collects the tests.
    start=st.deferred(lambda: st.sampled_from([made()[name][:end] for name in ONE_OF_EACH for end in (2, 12, 40)])),
    rest=st.binary(max_size=300),
)
@example(start=b"\xff\xd8", rest=b"")
def test_random_bytes_are_refused_with_a_type(start: bytes, rest: bytes) -> None:
    _assert_agree(start + rest, None)
    _assert_is_opened_or_refused(start + rest)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_bit_of_a_header_may_flip(name: str) -> None:
    data = made()[name]
    whole = _facts(data)
    for place in range(min(len(data), 400)):
        for bit in (0, 3, 7) if IS_ALL else ((0, 3, 7)[place % 3],):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            _assert_agree(bytes(changed), whole)


def test_a_flipped_bit_of_ihdr_is_refused_as_pillow_does() -> None:
    # Its own checksum covers bytes 12 to 32.
    data = made()["RGB.png"]
    for place in range(12, 33):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            assert _by_pillow(bytes(changed)) is None
            assert _facts(bytes(changed)) is None, (place, bit)
            assert _info(bytes(changed)) == "UnreadableMedia", (place, bit)


def _misplaced(order: str, entries: list[tuple[int, int, int, int]]) -> bytes:
    """A JPEG whose EXIF holds an orientation's first eight bytes across two entries."""
    tag = struct.unpack(order + "II", struct.pack(order + "HHI", 0x0112, 3, 1))
    # Type 99 is unknown: its count and value are passed over, and hold what looks like the tag.
    listed = [(0x010F, 99, *tag), *entries]
    start = b"II*\0" if order == "<" else b"MM\0*"
    directory = b"".join(struct.pack(order + "HHII", *entry) for entry in listed)
    exif = start + struct.pack(order + "IH", 8, len(listed)) + directory + bytes(4)
    return with_segments(saved(picture(), "JPEG"), segment(0xFFE1, b"Exif\0\0" + exif))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("behind", [0, 3, 8])
def test_an_orientation_between_two_entries_is_none(order: str, behind: int) -> None:
    # The tag of the next entry lies where the orientation's value would: 6, which turns.
    own = struct.unpack(order + "I", struct.pack(order + "HH", behind, 0))[0]
    jpeg = _misplaced(order, [(6, 99, 0, 0)] + [(0x0112, 3, 1, own)] * bool(behind))
    assert our_facts(jpeg).orientation == pillow_facts(jpeg).orientation == (behind or 1)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_number_of_the_orientation_as_a_value_is_not_its_tag(order: str) -> None:
    value = struct.unpack(order + "I", struct.pack(order + "HH", 0, 0x0112))[0]
    jpeg = _misplaced(order, [(7, 99, 0x01120112, value), (0x0112, 3, 1, struct.unpack(order + "I", struct.pack(
        order + "HH", 5, 0))[0])])  # fmt: skip
    assert our_facts(jpeg).orientation == pillow_facts(jpeg).orientation == 5


HUGE = 2**32
ICC = segment(0xFFE2, b"ICC_PROFILE\0" + bytes(65_000))


def _webp(flags: int, chunks: bytes) -> bytes:
    """An extended WebP that claims nearly 4 GiB."""
    return struct.pack("<4sI4s4sIB9x", b"RIFF", HUGE - 10, b"WEBP", b"VP8X", 10, flags) + chunks


CLAIMS = {
    "jpeg of profiles": saved(picture(), "JPEG")[:2] + ICC * 200,
    "jpeg of notes": saved(picture(), "JPEG")[:2] + segment(0xFFE1, b"") * 60_000,
    "jpeg of zeros": b"\xff\xd8" + segment(0xFFE1, b"Exif\0\0II*\0\xff\xff\xff\x7f"),
    "png text": with_chunks(saved(picture(), "PNG"), struct.pack(">I4s", 2**31 - 1, b"tEXt")),
    "png exif": with_chunks(saved(picture(), "PNG"), struct.pack(">I4s", 2**31 - 1, b"eXIf")),
    "png data": saved(picture(), "PNG")[:33] + struct.pack(">I4s", 2**32 - 1, b"IDAT"),
    "png of chunks": saved(picture(), "PNG")[:33] + chunk(b"tEXt", b"") * 60_000,
    "png of data": saved(picture(), "PNG")[:33] + chunk(b"IDAT", b"1234") * 60_000,
    "webp of frames": _webp(2, struct.pack("<4sI", b"ANMF", 0) * 90_000),
    "webp exif": _webp(8, struct.pack("<4sI", b"EXIF", HUGE - 99)),
    "gif": saved(picture(), "GIF")[:-1] + b"!\xfe" + b"\xff" * 300,
    "bmp": saved(picture("P"), "BMP"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_S04_a_claim_of_four_gigabytes_reads_little(name: str) -> None:
    reads = Reads(CLAIMS[name], apparent_bytes=HUGE if "of" not in name else 0)
    try:
        reads.header()
    except OddHeader:
        pass
    assert sum(reads.calls) <= 2**20
    assert len(reads.calls) <= 256


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<4sI", b"II*\0", HUGE - 9000),
        struct.pack("<4sHHQ", b"II+\0", 8, 0, 2**64 - 5),
        struct.pack("<4sQHHQ", b"II+\0", 8, 0, 0, 2**60)[:16] + bytes(99),
    ],
    ids=["far away", "beyond files", "of entries"],
)
def test_S04_a_tiff_that_claims_what_no_file_has_is_refused(data: bytes) -> None:
    assert _info(data) == "UnreadableMedia"


@pytest.mark.skipif(not WRITES_AVIF, reason="this Pillow writes no AVIF")
def test_damaged_avif_has_a_typed_error() -> None:
    data = saved(picture(), "AVIF")
    for place in range(0, len(data), 3):
        changed = data[:place] + b"\xff" + data[place + 1 :]
        assert _info(changed) in ("opened", "UnreadableMedia", "LimitExceeded")
        assert _info(data[:place]) in ("opened", "UnreadableMedia")


def test_packed_text_is_unpacked_up_to_a_bound() -> None:
    bomb = zlib.compress(bytes(2**26))
    png = with_chunks(saved(picture(), "PNG"), chunk(b"zTXt", b"Raw profile type exif\0\0" + bomb))
    assert _facts(png) is None
    assert _info(png) == "UnreadableMedia"


def test_a_note_behind_another_frame_header_is_not_lost() -> None:
    jpeg = saved(picture(), "JPEG")
    scan = jpeg.index(b"\xff\xda")
    late = jpeg[:scan] + segment(0xFFE1, b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0") + jpeg[scan:]
    assert our_facts(late) == pillow_facts(late)
    assert our_facts(late).orientation == 6
    assert with_segments(jpeg) == jpeg
