"""Batches of clips of several streams: slot s * B + b is stream s of clip b, and a clip fails as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from framefeed.decode import Pixels
from framefeed.errors import FramefeedError, UsageError
from framefeed.load._batch import BufferPools, ClipBatch
from framefeed.load._memory import ClipMemory, StreamsMemory, make_memory
from framefeed.load._pending import ApplyTransform, PendingBatch, find_clip_length, find_shapes
from framefeed.load._stats import Stopwatch
from framefeed.media import source_name
from framefeed.parallel import Err, catch_error
from framefeed.plan import EpochPlan, name_stream
from framefeed.request import DecodeRequest


def begin_batch(plan: EpochPlan, positions: Sequence[int], buffers: BufferPools) -> PendingBatch:
    """Begin a batch in memory of a loader."""
    rows = [plan.row_at(position) for position in positions]
    if not plan.streams:
        length = find_clip_length(plan, positions)
        memory = make_memory(find_shapes(plan, plan.catalog, rows, length), buffers, unequal=plan.options.unequal)
        return PendingBatch(plan, positions, memory, [length])
    lengths = [find_clip_length(plan, positions, name) for name in plan.streams]
    shapes = find_stream_shapes(plan, positions, lengths)
    count = len(positions)
    parts = [
        make_memory(
            shapes[number * count : (number + 1) * count], buffers.of_stream(number), unequal=part.options.unequal
        )
        for number, part in enumerate(plan.streams.values())
    ]
    return PendingStreams(plan, positions, StreamsMemory(parts, count), lengths)


def find_stream_shapes(plan: EpochPlan, positions: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Find the shape of each slot of a batch of several streams."""
    rows = [plan.rows_at(position) for position in positions]
    shapes = []
    for number, (part, length) in enumerate(zip(plan.streams.values(), lengths, strict=True)):
        shapes += find_shapes(part, plan.catalog, [each[number] for each in rows], length)
    return shapes


class PendingStreams(PendingBatch):
    """A batch of several streams that workers fill."""

    transform_input = "a dict by stream of NumPy arrays, uint8 [T, C, H, W], and a NumPy generator"

    def __init__(self, plan: EpochPlan, positions: Sequence[int], memory: ClipMemory, lengths: Sequence[int]) -> None:
        super().__init__(plan, positions, memory, lengths)
        self.streams = tuple(plan.streams)
        self.batch_streams = plan.batch_streams
        num_streams = len(self.streams)
        self.positions = list(positions) * num_streams
        rows = [plan.rows_at(position) for position in positions]
        self.rows = [each[number] for number in range(num_streams) for each in rows]
        self.errors = [None] * len(self.positions)

    def find_clips(self, slots: Sequence[int]) -> list[int]:
        """Find the clips, below ``count``, that some slots are of."""
        return list(dict.fromkeys(slot % self.count for slot in slots))

    def list_slots(self, clips: Sequence[int]) -> list[int]:
        """List the slots of some clips: those of all streams, one stream after the other."""
        return [number * self.count + clip for number in range(len(self.streams)) for clip in clips]

    def join_clips(self, clips: Sequence[Any]) -> dict[str, Any]:
        """Join the clips [T, ...] of the streams of the plan to those of the streams of batches."""
        clip_of = dict(zip(self.streams, clips, strict=True))
        each = {name: [clip_of[part] for part in parts] for name, parts in self.batch_streams.items()}
        return {name: one[0] if len(one) == 1 else np.concatenate(one) for name, one in each.items()}

    def split_result(self, clip: int, result: dict[str, Any]) -> dict[int, Any]:
        """Split the result of a transform by slots: of each stream of batches that of the first of its parts."""
        slots = [self.streams.index(parts[0]) * self.count + clip for parts in self.batch_streams.values()]
        return dict(zip(slots, result.values(), strict=True))

    def find_error(self, clip: int) -> FramefeedError | None:
        """Return the error of a clip: of the first stream that failed."""
        errors = (self.errors[slot] for slot in self.list_slots([clip]))
        return next((error for error in errors if error is not None), None)

    def make_requests(self) -> list[DecodeRequest | None]:
        """Make the request of each slot; None where it cannot be made."""
        with self._planning:
            if self._requests is None:
                watch = Stopwatch()
                clips = [self._make_clip(clip) for clip in range(self.count)]
                self._requests = [None if clip is None else clip[name] for name in self.streams for clip in clips]
                self._plan_seconds = watch.lap()
        return self._requests

    def _make_clip(self, clip: int) -> dict[str, DecodeRequest] | None:
        outcome = catch_error(self._plan.__getitem__, self.positions[clip])
        if isinstance(outcome, Err):
            for slot in self.list_slots([clip]):
                self.fail(slot, outcome.error, "plan")
            return None
        requests: Any = outcome.value
        self._note_clip(clip, requests)
        return requests  # type: ignore[no-any-return]

    def make_request(self, slot: int) -> DecodeRequest | None:
        """Make the request of one slot; None where it cannot be made."""
        return self.make_requests()[slot]

    def _note_clip(self, clip: int, requests: dict[str, DecodeRequest]) -> None:
        for frames, name in zip(self.frames, self.streams, strict=True):
            frames.note(clip, requests[name])

    def identify(self, slot: int) -> tuple[int, str]:
        """Return the global position of a clip, and the name of the source of a slot for messages."""
        return int(self._global_positions[slot % self.count]), source_name(self.get_source(slot))

    def set_error(self, slot: int, error: FramefeedError) -> None:
        """Mark the stream of a clip as failed; the others follow when the batch is finished."""
        stream, clip = divmod(slot, self.count)
        if error.stage != "transform":
            name_stream(error, self.streams[stream])
        self.errors[slot] = error
        self.frames[stream].clear(clip)
        self.memory.clear(slot)

    def substitute(self, slot: int, position: int) -> bool:
        """Expect another clip in place of one that failed; its slots keep their own position in the batch."""
        outcome = catch_error(self._plan.__getitem__, position)
        if isinstance(outcome, Err):
            return False
        requests: Any = outcome.value
        if [len(request) for request in requests.values()] != self.lengths:
            return False
        self._set_clip(slot, position)
        self._note_clip(slot, requests)
        for each, name in zip(self.list_slots([slot]), self.streams, strict=True):
            self.errors[each] = None
            if self._requests is not None:
                self._requests[each] = requests[name]
        return True

    def restore(self, slot: int, error: FramefeedError) -> None:
        """Give up on substitutes: the clip is its own again, which failed with an error."""
        self._set_clip(slot, int(self._global_positions[slot]))
        for each in self.list_slots([slot]):
            self.set_error(each, error)

    def _set_clip(self, slot: int, position: int) -> None:
        rows = self._plan.rows_at(position)
        shapes = find_stream_shapes(self._plan, [position], self.lengths)
        for each, row, shape in zip(self.list_slots([slot]), rows, shapes, strict=True):
            self.positions[each], self.rows[each] = position, row
            if self._requests is not None:
                self._requests[each] = None
            self.memory.reshape(each, shape)

    def count_pixels(self, row: int) -> None:
        """Count nothing: the pictures of several streams are not read together."""

    def finish(self, apply_transform: ApplyTransform | None = None) -> ClipBatch:
        """Make the batch, after the last worker has written."""
        errors = [self.find_error(clip) for clip in range(self.count)]
        for clip, error in enumerate(errors):
            if error is not None:
                self._fail_all(clip, error)
        good = [clip for clip, error in enumerate(errors) if error is None]
        data, misfits = self._finish_streams(good, apply_transform)
        for clip, message in misfits.items():
            self.fail(clip, UsageError(message), "transform")
            errors[clip] = error = self.find_error(clip)
            assert error is not None
            self._fail_all(clip, error)
            for each in data.values():
                each[clip][...] = 0
        self.errors = []
        positions = self.positions[: self.count]
        frames = {
            name: [self.frames[self.streams.index(part)] for part in parts]
            for name, parts in self.batch_streams.items()
        }
        boxes = {name: parts[0].boxes for name, parts in frames.items() if parts[0].boxes is not None}
        return ClipBatch(
            data=data,
            pts_seconds={name: np.hstack([each.pts_seconds for each in parts]) for name, parts in frames.items()},
            valid={name: np.hstack([each.valid for each in parts]) for name, parts in frames.items()},
            positions=self._global_positions,
            rows=self._plan.name_rows(positions),
            columns=self._plan.columns_of(positions),
            sources={name: self._show_sources(parts) for name, parts in self.batch_streams.items()},
            ok=np.array([error is None for error in errors]),
            errors=errors,
            boxes=boxes or None,
            flipped=self.frames[0].flipped,
        )

    def _show_sources(self, parts: Sequence[str]) -> list[Any]:
        """Return the source of each clip of a stream of batches; of several, the first and the number of others."""
        starts = [self.streams.index(part) * self.count for part in parts]
        if len(starts) == 1:
            return [self.show_source(starts[0] + clip) for clip in range(self.count)]
        shown = [list(dict.fromkeys(self.show_source(start + clip) for start in starts)) for clip in range(self.count)]
        return [f"{first} and {len(others)} more" if others else first for first, *others in shown]

    def _fail_all(self, clip: int, error: FramefeedError) -> None:
        for slot in self.list_slots([clip]):
            self.set_error(slot, error)

    def _finish_streams(
        self, good: list[int], apply_transform: ApplyTransform | None
    ) -> tuple[dict[str, Any], dict[int, str]]:
        """Return the pixels of each stream, and the messages about clips whose results do not fit."""
        assert isinstance(self.memory, StreamsMemory)
        data, misfits = dict[str, Any](), dict[int, str]()
        shapes = find_stream_shapes(self._plan, self.positions[:1], self.lengths)

        def make_result(name: str, black: Pixels) -> Any:
            assert apply_transform is not None
            clips = self.join_clips([np.zeros(shape, np.uint8) for shape in shapes])
            if len(self.batch_streams[name]) == 1:
                clips[name] = black
            return apply_transform((clips, self.positions[0]))[name]

        for name, parts in self.batch_streams.items():
            make = None if apply_transform is None else partial(make_result, name)
            part, *others = [self.memory.parts[self.streams.index(each)] for each in parts]
            data[name], wrong = part.finish(good, make)
            if others and not part.has_results:
                data[name] = part.join([data[name], *(each.finish(good, None)[0] for each in others)])
            for clip in wrong:
                what = "shape" if part.has_dtype else "shape and dtype"
                misfits[clip] = (
                    f"transform: expected {list(data[name].shape[1:])} for the stream {name!r} as for the first clip "
                    f"of the batch, got another {what}: return arrays of one {what} for a stream"
                )
        return data, misfits
