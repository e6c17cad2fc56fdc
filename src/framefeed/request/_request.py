"""Request frames of one source in one form."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import index as whole_number
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from framefeed._arrays import FloatArray, IntArray, has_bools
from framefeed._checks import MAX_INT64, check_choice, describe_value, expected, refuse_catalog
from framefeed.errors import UsageError
from framefeed.media import ImageSequence, source_name
from framefeed.request._bounds import read_bounds

Box = tuple[int, int, int, int]
DimensionOrder = Literal["NCHW", "NHWC"]
OnDamaged = Literal["error", "skip", "deliver"]
StillQuality = Literal["scaled", "exact"]
Filter = Literal["bilinear", "bicubic"]
MOST_SIDE = 65_535
"""Rows or columns of a delivered picture: as many as a JPEG file can have."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The form of the delivered pixels (RGB, uint8): first cropped, then resized.

    Attributes:
        size: (height, width) of the result, or None for no resize.
        crop: (top, left, height, width) in displayed pixels of the source, or None for the whole picture.
        dimension_order: "NCHW" or "NHWC".
        still_quality: "exact" decodes every picture at full size; "scaled" decodes a JPEG picture file at 1/2, 1/4 or
            1/8 of it where that has at least twice the height and width of ``size``. Videos have no such choice.
        filter: Of the resize, "bilinear" or "bicubic"; both are antialiased. For "bicubic" all is decoded at full size.
    """

    size: tuple[int, int] | None = None
    crop: Box | None = None
    dimension_order: DimensionOrder = "NCHW"
    still_quality: StillQuality = "exact"
    filter: Filter = "bilinear"

    def __post_init__(self) -> None:
        if self.size is not None:
            size = _check_integers("size", self.size, f"(height, width), from 1 to {MOST_SIDE}", 2, MOST_SIDE)
            object.__setattr__(self, "size", size)
        if self.crop is not None:
            crop = _check_integers("crop", self.crop, "(top, left, height, width), four integers", 4, _MOST_OFFSET)
            object.__setattr__(self, "crop", crop)
        check_choice("dimension_order", self.dimension_order, get_args(DimensionOrder))
        check_choice("still_quality", self.still_quality, get_args(StillQuality))
        check_choice("filter", self.filter, get_args(Filter))

    def __repr__(self) -> str:
        # Fingerprints of plans have this text: with the defaults it is what it was before these two attributes.
        more = "" if self.still_quality == "exact" else f", still_quality={self.still_quality!r}"
        more += "" if self.filter == "bilinear" else f", filter={self.filter!r}"
        return f"OutputSpec(size={self.size!r}, crop={self.crop!r}, dimension_order={self.dimension_order!r}{more})"

    def shape(self, height: int, width: int) -> tuple[int, int, int]:
        """Shape of one delivered frame, if the displayed picture of the source is height x width."""
        rows, columns = self.size or (self.crop[2:] if self.crop else (height, width))
        return (3, rows, columns) if self.dimension_order == "NCHW" else (rows, columns, 3)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a picture lies in a larger one that is delivered.

    Attributes:
        size: (height, width) of the larger one.
        box: (top, left, height, width) of the picture in it.
        fill: Red, green and blue around the picture.
    """

    size: tuple[int, int]
    box: Box
    fill: tuple[int, int, int]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is around the picture."""
        return self.box == (0, 0, *self.size)

    def mirror(self) -> Placement:
        """Return the placement with left and right swapped."""
        top, left, rows, columns = self.box
        return Placement(self.size, (top, self.size[1] - left - columns, rows, columns), self.fill)


class SupportsPath(Protocol):
    """A path, such as ``pathlib.Path``."""

    def __fspath__(self) -> str:
        """Return the path as text."""


class IndexedSource(Protocol):
    """A source with its frame index, such as a ``CatalogEntry``."""

    @property
    def source(self) -> str | bytes | ImageSequence:
        """Path, URL, bytes or image sequence."""

    @property
    def frame_index(self) -> Any:
        """Frame index of the source."""


@dataclass(frozen=True, slots=True, eq=False, init=False)
class DecodeRequest:
    """Frames of one source that you want, by frame number or by time. Immutable, hashable, picklable.

    Example: ``DecodeRequest(source="clip.mp4", seconds=[0.5, 1.0])``

    Attributes:
        source: Path, URL, bytes or image sequence.
        entry: The catalog entry that was given as the source, or None; comparisons ignore it.
        indices: Frame numbers, int64 [T], negative ones from the end; None for a request by time.
        seconds: Wanted times in seconds from the first output frame, float64 [T]; None for a request by number.
        segment: A number for each frame that comes with it, int64 [T]; None for zeros.
        output: Form of the pixels.
        start_seconds: Frames before this time, counted from the video's first frame, are not delivered (``before=`` of
            ``plan_requests`` says what is); None for no bound.
        end_seconds: Frames from this time on are past the end; None for no bound.
    """

    source: str | bytes | ImageSequence
    entry: IndexedSource | None
    indices: IntArray | None
    seconds: FloatArray | None
    segment: IntArray | None
    output: OutputSpec
    start_seconds: float | None
    end_seconds: float | None

    def __init__(
        self,
        source: str | bytes | ImageSequence | SupportsPath | IndexedSource,
        indices: Sequence[int] | IntArray | None = None,
        output: OutputSpec | None = None,
        *,
        seconds: Sequence[float] | FloatArray | None = None,
        segment: Sequence[int] | IntArray | None = None,
        start_seconds: float | None = None,
        end_seconds: float | None = None,
    ) -> None:
        put: Any = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        entry, name = _resolve_source(source)
        put("entry", entry)
        put("source", name)
        put("indices", _as_column(indices, np.int64, "indices"))
        put("seconds", _as_column(seconds, np.float64, "seconds"))
        put("segment", _as_column(segment, np.int64, "segment"))
        if output is not None and not isinstance(output, OutputSpec):
            raise expected("output", "an ff.OutputSpec(...) or None", output)
        put("output", output or OutputSpec())
        read_bounds("start_seconds and end_seconds", start_seconds, end_seconds)
        put("start_seconds", start_seconds)
        put("end_seconds", end_seconds)
        if (self.indices is None) == (self.seconds is None):
            given = "neither" if self.indices is None else "both"
            raise UsageError(f"DecodeRequest: expected either indices= or seconds=, got {given}")
        lengths = {len(column) for column in self._columns() if column is not None}
        if len(lengths) != 1:
            raise UsageError(f"the columns of a DecodeRequest must have the same length, got lengths {sorted(lengths)}")

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return self.indices, self.seconds, self.segment

    def __len__(self) -> int:
        return next(len(column) for column in self._columns() if column is not None)

    def _key(self) -> Hashable:
        arrays = (None if column is None else column.tobytes() for column in self._columns())
        return (self.source, self.output, self.start_seconds, self.end_seconds, *arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecodeRequest) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.source if self.entry is None else self.entry
        return (_rebuild, (source, self._columns(), self.output, self.start_seconds, self.end_seconds))

    @property
    def name(self) -> str:
        """The source's name for messages."""
        return source_name(self.source)

    def __repr__(self) -> str:
        return f"DecodeRequest({self.name!r}, {len(self)} frames, {self.output})"


def _rebuild(
    source: str | bytes | ImageSequence | IndexedSource,
    columns: tuple[Any, ...],
    output: OutputSpec,
    start_seconds: float | None,
    end_seconds: float | None,
) -> DecodeRequest:
    indices, seconds, segment = columns
    return DecodeRequest(
        source, indices, output, seconds=seconds, segment=segment, start_seconds=start_seconds, end_seconds=end_seconds
    )


def _resolve_source(source: Any) -> tuple[IndexedSource | None, str | bytes | ImageSequence]:
    what = "a path, URL, bytes (file.read(), array.tobytes()), ImageSequence or CatalogEntry"
    if isinstance(source, (str, bytes, ImageSequence)):
        return None, source
    if isinstance(source, (bytearray, memoryview)):
        return None, bytes(source)
    if hasattr(source, "__fspath__") and not isinstance(source, type):
        return None, source.__fspath__()
    if isinstance(source, type):
        raise expected("source", what, source)
    refuse_catalog(source, what)
    if hasattr(source, "source") and hasattr(source, "frame_index"):
        return source, source.source
    raise expected("source", what, source)


def _check_integers(name: str, values: Any, what: str, count: int, most: int) -> tuple[int, ...]:
    """Convert ``count`` integers, the last two from 1 to ``most``, to plain ints, so that equal specs have one hash."""
    try:
        given = () if isinstance(values, AbstractSet | Mapping) else tuple(values)  # which have no order, or are keys
        numbers = () if bool in map(type, given) else tuple(map(whole_number, given))
    except TypeError:
        raise expected(name, what, values) from None
    if len(numbers) != count or min(numbers[-2:]) < 1 or min(numbers) < 0 or max(numbers) > most:
        raise expected(name, what, values)
    return numbers


_MOST_OFFSET = 2**31 - 1
"""In pixels of a source, as FFmpeg counts them."""
_ELEMENTS: dict[Any, str] = {np.int64: "integers", np.float64: "numbers"}
_KINDS: dict[Any, str] = {np.int64: "iu", np.float64: "iufO"}
"""Kinds of NumPy types with these elements; O for Fractions."""


def _as_column(values: Any, dtype: Any, name: str) -> Any:
    if values is None:
        return None
    what = f"a flat list of {_ELEMENTS[dtype]}"
    try:
        given = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        raise expected(name, what, values) from None
    if given.ndim != 1:
        raise expected(name, what, values)
    if given.size and given.dtype.kind not in _KINDS[dtype]:
        kind = "strings such as" if given.dtype.kind == "U" else "elements such as"
        first = given.tolist()[0]
        shown = repr(first) if isinstance(first, str) else describe_value(first)
        raise UsageError(f"{name}: expected {_ELEMENTS[dtype]}, got {kind} {shown}")
    if has_bools(values):
        raise UsageError(f"{name}: expected {_ELEMENTS[dtype]}, got True or False among them")
    if given.dtype.kind == "u" and int(given.max(initial=0)) > MAX_INT64:
        raise expected(name, "integers of 64 bits", int(given.max()))
    try:
        column = given.astype(dtype, copy=True)
    except OverflowError:  # an integer or a fraction that no float64 holds
        raise expected(name, "numbers that float64 holds", values) from None
    column.flags.writeable = False
    return column
