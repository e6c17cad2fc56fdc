"""Requests: the user's own clips, as a rule with one position a request, in a handful of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._cached import cached_property
from framefeed._checks import expected
from framefeed.errors import UsageError
from framefeed.index.frame_index import FloatArray, IntArray
from framefeed.index.picking import ExactTimes
from framefeed.plan.chance import Place
from framefeed.plan.choice import BoolArray, Chosen, Picking, choose_frames, choose_times
from framefeed.plan.crops import FixedCrop, Size
from framefeed.plan.pictures import PictureRule
from framefeed.plan.request import DecodeRequest, OutputSpec
from framefeed.plan.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests as arrays: request r has the frames ``offsets[r]`` to ``offsets[r + 1]`` of F.

    Attributes:
        rows: Row of the catalog, int64 [R].
        offsets: int64 [R + 1].
        by_time: Whether a request is by seconds, bool [R].
        indices: int64 [F]; 0 in a request by seconds.
        seconds: float64 [F]; 0 in a request by index.
        segments: int64 [F].
        outputs: The different forms asked for, and in ``output_of`` that of each request, int64 [R].
        output_of: See ``outputs``.
        columns: Values that travel beside the requests, [R] each; text as int64 codes.
        classes: What the codes of the column "label" stand for.
        picking: Pick rule, tolerance and policy of all requests.
        at: Column of the catalog that they were made of; None for requests that were listed.
    """

    rows: IntArray
    offsets: IntArray
    by_time: BoolArray
    indices: IntArray
    seconds: FloatArray
    segments: IntArray
    outputs: tuple[OutputSpec, ...]
    output_of: IntArray
    columns: Mapping[str, npt.NDArray[Any]]
    classes: tuple[Any, ...]
    picking: Picking
    at: str | None = None

    @classmethod
    def of(
        cls,
        requests: Sequence[DecodeRequest],
        rows: IntArray,
        columns: Mapping[str, Sequence[Any]],
        picking: Picking,
    ) -> Requests:
        """Collect requests whose sources are the given rows of a catalog."""
        outputs = {request.output: None for request in requests}
        numbers = {output: number for number, output in enumerate(outputs)}
        coded = {name: coded_column(name, values, len(requests)) for name, values in columns.items()}
        classes = coded["label"][1] if "label" in coded else ()
        return cls(
            rows=rows,
            offsets=np.cumsum([0, *map(len, requests)], dtype=np.int64),
            by_time=np.array([request.indices is None for request in requests], dtype=np.bool_),
            indices=_joined([request.indices for request in requests], requests, np.int64),
            seconds=_joined([request.seconds for request in requests], requests, np.float64),
            segments=_joined([request.segment for request in requests], requests, np.int64),
            outputs=tuple(outputs),
            output_of=np.array([numbers[request.output] for request in requests], dtype=np.int64),
            columns={name: values for name, (values, _) in coded.items()},
            classes=classes,
            picking=picking,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Requests({len(self)} requests, {self._digest}, {self.picking})"

    @cached_property
    def _digest(self) -> str:
        digest = blake2b(repr(self.outputs).encode(), digest_size=16)
        frames = (self.offsets, self.by_time, self.indices, self.seconds, self.segments)
        for column in (self.rows, self.output_of, *frames):
            digest.update(column.tobytes())
        return digest.hexdigest()

    @cached_property
    def common_length(self) -> int | None:
        """T if all requests have the same, else None."""
        lengths = np.unique(np.diff(self.offsets))
        return int(lengths[0]) if len(lengths) == 1 else None

    @property
    def num_frames(self) -> int:
        """T, the frames of every request.

        Raises:
            UsageError: They differ.
        """
        if self.common_length is None:
            lengths = np.diff(self.offsets)
            other = int((lengths != lengths[0]).argmax())
            raise UsageError(
                f"all requests of a batch must have the same number of frames, but request 0 has {lengths[0]} and "
                f"request {other} has {lengths[other]}: repeat frames, or make one plan for each length"
            )
        return self.common_length

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frames of one request."""
        number = place.number
        mine = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        segments = self.segments[mine]
        if not self.by_time[number]:
            return choose_frames(timeline, self.indices[mine], segments, self.picking.policy)
        ticks = timeline.ticks(ExactTimes.of(self.seconds[mine].tolist()))
        return choose_times(timeline, ticks, segments, self.picking)


@dataclass(frozen=True, eq=False)
class RequestPictures:
    """The forms that requests ask for themselves.

    Attributes:
        requests: Whose forms.
    """

    requests: Requests

    @cached_property
    def _rules(self) -> tuple[PictureRule, ...]:
        return tuple(
            PictureRule(output.size, None if output.crop is None else FixedCrop(output.crop))
            for output in self.requests.outputs
        )

    def output(self, height: int, width: int, place: Place) -> OutputSpec:
        """Settle the form for one request on a displayed picture of height x width."""
        return self._rules[int(self.requests.output_of[place.number])].output(height, width, place)

    def common_picture(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> Size | None:
        """Find the one (height, width) of all requests; see ``PictureRule.common_picture``."""
        found: dict[Size, str] = {}
        for number, rule in enumerate(self._rules):
            rows = self.requests.rows[self.requests.output_of == number]
            names = [name(row) for row in rows.tolist()]
            size = rule.common_picture(heights[rows], widths[rows], names.__getitem__)
            if size is not None:
                found.setdefault(size, f"{self.requests.outputs[number]}")
        if len(found) > 1:
            raise UsageError(f"all pictures of a plan must have the same size, but the requests ask for {found}")
        return next(iter(found), None)


def coded_column(name: str, values: Sequence[Any], count: int) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
    """Take one value a request: numbers as they are, text as int64 codes of the sorted distinct values.

    Returns:
        The column [R], and what its codes stand for; nothing for numbers.
    """
    try:
        column = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        raise expected(f"columns[{name!r}]", "one number or string per request", values) from None
    if column.shape != (count,):
        raise UsageError(f"columns[{name!r}]: expected one value per request ({count}), got shape {column.shape}")
    if column.dtype.kind in "iufb":
        return column, ()
    if column.dtype.kind != "U":
        raise UsageError(f"columns[{name!r}]: expected numbers or strings, got {column.dtype}")
    distinct, codes = np.unique(column, return_inverse=True)
    return codes.astype(np.int64), tuple(distinct.tolist())


def _joined(columns: Sequence[npt.NDArray[Any] | None], requests: Sequence[DecodeRequest], dtype: Any) -> Any:
    parts = [
        np.zeros(len(request), dtype=dtype) if column is None else column
        for column, request in zip(columns, requests, strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
