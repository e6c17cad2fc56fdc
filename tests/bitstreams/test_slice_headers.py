"""Slice headers of many pictures at once, beside a reader of one number after the other, on headers made by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed._arrays import ByteArray, IntArray
from framefeed._values import PictureFormat, StreamColors
from framefeed.bitstreams._bits import HeaderBits, OddUnits
from framefeed.bitstreams._order import find_levels, number_pictures, unwrap
from framefeed.bitstreams._sets import H264Picture, H264Sequence, HevcPicture, HevcSequence, read_reference_sets
from framefeed.bitstreams._slice_bits import SliceBits, read_headers
from framefeed.bitstreams._slices import H264Slices, HevcSlices, read_h264_slices, read_hevc_slices
from framefeed.bitstreams._units import HEAD_BYTES
from tests.pathologies.bitstreams import BitWriter, escape

P, B, INTRA = 0, 1, 2
PLAIN = H264Picture(0, 0, False, (1, 1), False, False)
FULL = H264Picture(3, 0, True, (3, 2), True, True)
FORMAT = (PictureFormat(64, 48, "yuv420p", 64, 48), StreamColors())
SEQUENCE = H264Sequence(*FORMAT, 0, 6, False, 0, 7, False, True)


Read = TypeVar("Read")


def store(headers: list[bytes]) -> tuple[ByteArray, IntArray]:
    """Store headers as a packet would: with bytes against emulated start codes, and cut."""
    stored = [escape(header)[:HEAD_BYTES] for header in headers]
    head = np.zeros((len(stored), HEAD_BYTES), np.uint8)
    for row, data in enumerate(stored):
        head[row, : len(data)] = np.frombuffer(data, np.uint8)
    return head, np.array([len(data) for data in stored])


def read_stored(headers: list[bytes], read: Callable[[SliceBits], Read]) -> Read:
    return read_headers(*store(headers), read)


class Marks(NamedTuple):
    """What a header says from its references on."""

    lengths: tuple[int, int] | None
    changes: list[int]
    weights: list[tuple[bool, bool]]
    marks: list[int] | None


class Header(NamedTuple):
    """An H.264 slice header."""

    kind: int
    picture: H264Picture
    number: int
    order: int
    bottom: int
    is_idr: bool
    is_reference: bool
    marks: Marks


def write(header: Header, sequence: H264Sequence = SEQUENCE) -> bytes:
    """Write a header, H.264 7.3.3, and 64 bits of slice data."""
    writer = BitWriter().golomb(0, header.kind + 5, header.picture.number)
    writer.fixed(header.number, sequence.number_bits)
    if header.is_idr:
        writer.golomb(7)
    writer.fixed(header.order, sequence.order_bits)
    if header.picture.has_bottom_order:
        writer.golomb(2 * header.bottom - 1 if header.bottom > 0 else -2 * header.bottom)
    _write_references(writer, header)
    if header.is_reference:
        _write_marks(writer, header)
    return writer.fixed(0xA5A5A5A5A5A5A5A5, 64).whole()


def _write_references(writer: BitWriter, header: Header) -> None:
    marks, kind = header.marks, header.kind
    if kind == B:
        writer.fixed(1, 1)
    if kind == INTRA:
        return
    writer.fixed(marks.lengths is not None, 1)
    lengths = marks.lengths or header.picture.references
    if marks.lengths is not None:
        writer.golomb(*[length - 1 for length in lengths[: 2 if kind == B else 1]])
    for _ in range(2 if kind == B else 1):
        writer.fixed(bool(marks.changes), 1)
        if marks.changes:
            for change in marks.changes:
                writer.golomb(change, 5)
            writer.golomb(3)
    if header.picture.has_weights_of_two if kind == B else header.picture.has_weights:
        writer.golomb(5, 4)
        for entry in range(sum(lengths) if kind == B else lengths[0]):
            luma, chroma = marks.weights[entry % len(marks.weights)]
            writer.fixed(luma, 1).golomb(*[6, 9][: 2 * luma])
            writer.fixed(chroma, 1).golomb(*[1, 2, 30, 4][: 4 * chroma])


def _write_marks(writer: BitWriter, header: Header) -> None:
    if header.is_idr:
        writer.fixed(0, 2)
        return
    marks = header.marks.marks
    writer.fixed(marks is not None, 1)
    for mark in marks or []:
        writer.golomb(mark, *[3, 2][: {1: 1, 2: 1, 3: 2, 4: 1, 5: 0, 6: 1}[mark]])
    if marks is not None:
        writer.golomb(0)


marks_of_headers = st.builds(
    Marks,
    lengths=st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)),
    changes=st.lists(st.integers(0, 2), max_size=4),
    weights=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5),
    marks=st.none() | st.lists(st.integers(1, 6), max_size=4),
)


@st.composite
def headers_of_pictures(draw: st.DrawFn) -> Header:
    is_idr = draw(st.booleans())
    picture = draw(st.sampled_from([PLAIN, FULL]))
    return Header(
        kind=INTRA if is_idr else draw(st.sampled_from([P, B, INTRA])),
        picture=picture,
        number=draw(st.integers(0, 63)),
        order=draw(st.integers(0, 127)),
        bottom=draw(st.integers(-9, 9)) if picture.has_bottom_order else 0,
        is_idr=is_idr,
        is_reference=is_idr or draw(st.booleans()),
        marks=draw(marks_of_headers),
    )


def read(headers: list[Header]) -> H264Slices:
    return read_stored(
        [write(header) for header in headers],
        lambda bits: read_h264_slices(
            bits,
            np.array([header.is_idr for header in headers]),
            np.array([header.is_reference for header in headers]),
            SEQUENCE,
            {one.number: one for one in (PLAIN, FULL)},
        ),
    )


@given(st.lists(headers_of_pictures(), min_size=1, max_size=12))
def test_headers_are_read_as_they_are_written(headers: list[Header]) -> None:
    result = read(headers)
    assert result.number.tolist() == [header.number for header in headers]
    assert result.order.tolist() == [header.order for header in headers]
    assert result.bottom.tolist() == [header.bottom for header in headers]
    assert result.is_b.tolist() == [header.kind == B for header in headers]
    assert result.resets.tolist() == [
        not header.is_idr and header.is_reference and 5 in (header.marks.marks or []) for header in headers
    ]


def test_a_frame_is_shown_with_the_first_of_its_fields() -> None:
    orders = [(0, 0, True), (4, -3, True), (2, 0, False), (10, 1, True), (8, 1, False)]
    marks = Marks(None, [], [(False, False)], None)
    headers = [
        Header(INTRA if not order else P, FULL, 0, order, bottom, not order, is_reference, marks)
        for order, bottom, is_reference in orders
    ]
    flags = np.array([header.is_idr for header in headers]), np.array([header.is_reference for header in headers])
    number = number_pictures(SEQUENCE, read(headers), *flags)
    assert (number - number[0]).tolist() == [0, 1, 2, 10, 8]


def test_fields_are_noticed() -> None:
    sequence = H264Sequence(*FORMAT, 0, 6, False, 0, 7, True, True)
    writer = BitWriter().golomb(0, 7, 0).fixed(1, 6).fixed(1, 1).fixed(0, 1).fixed(3, 7).fixed(0xA5A5A5A5, 32)
    flag = np.array([False])
    result = read_stored([writer.whole()], lambda bits: read_h264_slices(bits, flag, flag, sequence, {0: PLAIN}))
    assert result.is_field.tolist() == [True]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 12)), min_size=1, max_size=4))
def test_numbers_behind_bytes_against_emulated_start_codes(numbers: list[tuple[int, int]]) -> None:
    sequence = H264Sequence(*FORMAT, 0, 16, False, 0, 16, False, True)
    written = [
        BitWriter().golomb(0, 7, 0).fixed(number, 16).fixed(order, 16).fixed(0xA5A5A5A5, 32).whole()
        for number, order in numbers
    ]
    flags = np.zeros(len(numbers), bool)
    result = read_stored(written, lambda bits: read_h264_slices(bits, flags, flags, sequence, {0: PLAIN}))
    assert list(zip(result.number.tolist(), result.order.tolist(), strict=True)) == numbers


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (BitWriter().golomb(0, 9, 0), "unknown type"),
        (BitWriter().golomb(0, 7, 9), "unknown parameter sets"),
        (BitWriter().golomb(0, 7, 0).fixed(1, 6), "break off"),
        (BitWriter().golomb(0, 7, 0).fixed(1, 13).fixed(1, 1).golomb(*[1, 1] * 70), "endless marks"),
        (BitWriter().golomb(0, 7, 0).fixed(1, 13).fixed(1, 1).golomb(9), "marks of references of an unknown kind"),
        (BitWriter().golomb(0, 5, 0).fixed(1, 13).fixed(0, 1).fixed(1, 1).golomb(7), "changes of references of an"),
        (BitWriter().golomb(0, 5, 0).fixed(1, 13).fixed(0, 1).fixed(1, 1).golomb(*[0] * 160), "endless changes"),
        (BitWriter().golomb(0, 5, 0).fixed(1, 13).fixed(1, 1).golomb(40, 0), "too many references"),
        (BitWriter().golomb(0, 7, 0).fixed(1, 13).fixed(1, 1).fixed(0, 100), "break off"),
    ],
)
def test_odd_headers_are_refused(header: BitWriter, reason: str) -> None:
    header.fixed(0xA5A5A5A5, 0 if reason == "break off" else 32)
    with pytest.raises(OddUnits, match=reason):
        read_stored(
            [header.whole()],
            lambda bits: read_h264_slices(bits, np.array([False]), np.array([True]), SEQUENCE, {0: PLAIN}),
        )


GARBAGE = st.one_of(
    st.binary(min_size=1, max_size=HEAD_BYTES),
    st.lists(st.sampled_from(b"\0\0\0\1\3\x40\x88\xff"), min_size=1, max_size=HEAD_BYTES).map(bytes),
)


@given(GARBAGE, st.booleans(), st.booleans())
@example(b"P", False, False)  # fewer pictures in a set of references than none
def test_D01_garbage_is_read_without_another_error(data: bytes, is_idr: bool, is_reference: bool) -> None:
    def read_h264(bits: SliceBits) -> H264Slices:
        flags = np.array([is_idr] * 2), np.array([is_reference] * 2)
        return read_h264_slices(bits, *flags, SEQUENCE, {0: FULL, 3: FULL})

    def read_hevc(bits: SliceBits) -> HevcSlices:
        return read_hevc_slices(bits, np.array([1]), HevcSequence(*FORMAT, 0, 8), {0: HevcPicture(0, 0, False, 0)})

    for headers, read_all in (([b"\x88" + data, data], read_h264), ([data], read_hevc)):
        stored = store(headers)
        whole = SliceBits(*stored, 1)
        assert _describe(partial(read_headers, *stored, read_all)) == _describe(partial(read_all, whole))


def _describe(read_all: Callable[[], H264Slices | HevcSlices]) -> object:
    try:
        return [column.tolist() for column in read_all()]
    except OddUnits as odd:
        return str(odd)


class References(NamedTuple):
    """A set of references as a slice codes it: a known one by its number, changes of one, or steps back and ahead."""

    named: int | None = None
    base: int | None = None
    step: int = -1
    uses: tuple[int, ...] = ()
    back: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()


class HevcHeader(NamedTuple):
    """An HEVC slice header."""

    kind: int
    picture: HevcPicture
    order: int
    is_shown: bool
    drops: bool
    references: References = References()


KNOWN = ((-1, -2, 3), (), (-4, 1))
steps = st.lists(st.integers(1, 40), max_size=4).map(tuple)
references_of_headers = st.one_of(
    st.integers(0, len(KNOWN) - 1).map(References),
    st.builds(
        lambda base, step, uses: References(base=base, step=step, uses=uses),
        st.integers(0, len(KNOWN) - 1),
        st.integers(-5, 5).filter(bool),
        st.tuples(*[st.integers(0, 2)] * 4),
    ),
    st.builds(lambda back, ahead: References(back=back, ahead=ahead), steps, steps),
)
hevc_headers = st.builds(
    HevcHeader,
    kind=st.sampled_from([0, 1, 8, 9, 19, 20, 21]),
    picture=st.sampled_from([HevcPicture(0, 0, False, 0), HevcPicture(2, 0, True, 3)]),
    order=st.integers(0, 255),
    is_shown=st.booleans(),
    drops=st.booleans(),
    references=references_of_headers,
)


def write_references(writer: BitWriter, references: References) -> set[int]:
    """Write a set, H.265 7.3.7, behind those of a sequence; the orders that are in it."""
    named, base, step, uses, back, ahead = references
    if named is not None:
        writer.fixed(1, 1).fixed(named, 2)
        return set(KNOWN[named])
    writer.fixed(0, 1).fixed(base is not None, 1)
    if base is not None:
        writer.golomb(len(KNOWN) - 1 - base).fixed(step < 0, 1).golomb(abs(step) - 1)
        orders = set[int]()
        for order, use in zip((*KNOWN[base], 0), uses, strict=False):
            # Used by this picture; or kept for later ones; or left out.
            writer.fixed(*((1, 1) if use == 2 else (use, 2)))
            orders |= {order + step} if use and order + step else set()
        return orders
    writer.golomb(len(back), len(ahead))
    for number, one in enumerate((*back, *ahead)):
        writer.golomb(one - 1).fixed(number % 2, 1)
    return {-sum(back[: n + 1]) for n in range(len(back))} | {sum(ahead[: n + 1]) for n in range(len(ahead))}


def read_hevc(headers: list[HevcHeader], sequence: HevcSequence) -> tuple[HevcSlices, list[set[int]]]:
    """Write headers and read them; and the references that were written."""
    written, references = [], []
    for header in headers:
        is_idr = header.kind in (19, 20)
        writer = BitWriter().fixed(1, 1)
        if header.kind >= 16:
            writer.fixed(header.drops, 1)
        writer.golomb(header.picture.number).fixed(0, header.picture.extra_bits).golomb(2)
        if header.picture.has_output_flag:
            writer.fixed(header.is_shown, 1)
        if not is_idr:
            writer.fixed(header.order, 8)
        references.append(set() if is_idr else write_references(writer, header.references))
        if not is_idr and sequence.long_term_numbers:
            writer.golomb(*[0] * sequence.long_term_numbers)
        written.append(writer.fixed(0xA5A5, 16).whole())
    pictures = {header.picture.number: header.picture for header in headers}
    kinds = np.array([header.kind for header in headers])
    return read_stored(written, lambda bits: read_hevc_slices(bits, kinds, sequence, pictures)), references


@given(st.lists(hevc_headers, min_size=1, max_size=8), st.integers(0, 2))
def test_hevc_headers_are_read_as_they_are_written(headers: list[HevcHeader], long_term_numbers: int) -> None:
    sequence = HevcSequence(*FORMAT, 0, 8, references=KNOWN, long_term_numbers=long_term_numbers)
    result, references = read_hevc(headers, sequence)
    assert result.order.tolist() == [0 if header.kind in (19, 20) else header.order for header in headers]
    assert result.is_shown.tolist() == [header.is_shown or not header.picture.has_output_flag for header in headers]
    assert result.drops_others.tolist() == [header.drops and header.kind >= 16 for header in headers]
    assert [set(row) - {0} for row in result.references.T.tolist()] == references


@pytest.mark.parametrize(
    ("sets", "numbers", "write", "reason"),
    [
        ((), 0, lambda writer: writer.fixed(1, 1), "unknown sets of references"),
        (KNOWN, 0, lambda writer: writer.fixed(0b111, 3), "unknown sets of references"),
        (KNOWN, 0, lambda writer: writer.fixed(0b01, 2).golomb(3), "changes of an unknown set"),
        ((), 0, lambda writer: writer.fixed(0, 1).golomb(9, 8), "too many references"),
        ((), 1, lambda writer: writer.fixed(0, 1).golomb(0, 0, 1), "long-term references"),
        ((), 2, lambda writer: writer.fixed(0, 1).golomb(0, 0, 0, 1), "long-term references"),
    ],
)
def test_odd_sets_of_references_are_refused(
    sets: tuple[tuple[int, ...], ...], numbers: int, write: Callable[[BitWriter], BitWriter], reason: str
) -> None:
    sequence = HevcSequence(*FORMAT, 0, 8, references=sets, long_term_numbers=numbers)
    header = write(BitWriter().fixed(1, 1).golomb(0, 2).fixed(7, 8)).fixed(0xA5A5A5A5, 32).whole()
    pictures = {0: HevcPicture(0, 0, False, 0)}
    with pytest.raises(OddUnits, match=reason):
        read_stored([header], lambda bits: read_hevc_slices(bits, np.array([1]), sequence, pictures))


@given(
    st.lists(
        st.tuples(steps, steps, st.integers(-5, 5), st.lists(st.integers(0, 2), min_size=17, max_size=17)), max_size=6
    )
)
def test_sets_of_references_of_a_sequence_are_read_as_they_are_written(
    coded: list[tuple[tuple[int, ...], tuple[int, ...], int, list[int]]],
) -> None:
    writer, sets = BitWriter().golomb(len(coded)), list[set[int]]()
    written = tuple[int, ...]()
    for number, (back, ahead, step, uses) in enumerate(coded):
        if number and step:
            writer.fixed(1, 1).fixed(step < 0, 1).golomb(abs(step) - 1)
            pairs = list(zip((*written, 0), uses, strict=False))
            for _, use in pairs:
                writer.fixed(*((1, 1) if use == 2 else (use, 2)))
            written = tuple(order + step for order, use in pairs if use and order + step)
        else:
            writer.fixed(0, 1 if number else 0).golomb(len(back), len(ahead))
            for one in (*back, *ahead):
                writer.golomb(one - 1).fixed(1, 1)
            written = (
                *(-sum(back[: n + 1]) for n in range(len(back))),
                *(sum(ahead[: n + 1]) for n in range(len(ahead))),
            )
        sets.append(set(written))
    assert [set(one) for one in read_reference_sets(HeaderBits.of_unit(escape(writer.payload())))] == sets


def _spelled_out(coded: list[int], anchors: list[bool], firsts: list[bool], bits: int) -> list[tuple[int, int]]:
    """H.264 8.2.1.1: the most significant bits, picture by picture."""
    result: list[tuple[int, int]] = []
    sequence, msb, lsb, span = -1, 0, 0, 1 << bits
    for order, is_anchor, is_first in zip(coded, anchors, firsts, strict=True):
        if is_first:
            sequence, msb, lsb = sequence + 1, 0, order
        high = msb
        if order < lsb and lsb - order >= span // 2:
            high += span
        elif order > lsb and order - lsb > span // 2:
            high -= span
        result.append((sequence, high + order))
        if is_anchor:
            msb, lsb = high, order
    return result


@given(st.lists(st.tuples(st.integers(0, 15), st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_orders_are_unwrapped_as_the_standard_says(pictures: list[tuple[int, bool, bool]]) -> None:
    coded = [order for order, _, _ in pictures]
    firsts = [number == 0 or is_first for number, (_, _, is_first) in enumerate(pictures)]
    anchors = [is_anchor or is_first for (_, is_anchor, _), is_first in zip(pictures, firsts, strict=True)]
    result = unwrap(np.array(coded), np.array(anchors), np.array(firsts), 4)
    expected = _spelled_out(coded, anchors, firsts, 4)
    assert np.argsort(result, kind="stable").tolist() == sorted(range(len(coded)), key=expected.__getitem__)
    for (sequence, order), (before, other), step in zip(expected[1:], expected, np.diff(result).tolist(), strict=False):
        if sequence == before:
            assert step == order - other


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60, unique=True))
def test_depth_is_counted(numbers: list[int]) -> None:
    depth = [sum(other > number for other in numbers[:index]) for index, number in enumerate(numbers)]
    levels = find_levels(np.array(numbers))
    assert len(levels) == min(max(depth), 17)
    for level, is_deep in enumerate(levels, 1):
        assert is_deep.tolist() == [one >= level for one in depth]
