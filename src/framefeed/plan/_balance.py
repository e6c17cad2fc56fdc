"""Balance ranks: at each step, give them clips of about equal predicted cost.

Rules:
    - Units are dealt in blocks. Within a block, rows of ``world_size`` units that are neighbours by cost are dealt in
      the order of their first units; within a row, units keep their order.
    - The cost of a unit is that of its first clip, and is estimated per video, not per clip: a rank needs the costs of
      the clips of all ranks, and planning all of them would cost more than the waits that it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

import numpy as np

from framefeed._arrays import AnyArray, FloatArray, IntArray
from framefeed.bitstreams import Codec
from framefeed.catalog import Catalog
from framefeed.index import (
    SECONDS_PER_DECODED_PIXEL,
    SECONDS_PER_DELIVERED,
    SECONDS_PER_DELIVERED_PIXEL,
    SECONDS_PER_FILE,
    SECONDS_PER_FILE_PIXEL,
    SECONDS_PER_PICTURE,
    has_picture_files,
)
from framefeed.media import SEQUENCE_CONTAINER
from framefeed.plan._rules import ClipRule, Dense, Rates

_ROWS_OF_BLOCK = 256
"""Steps that are balanced together; more would balance little better, and need more memory on many ranks."""
_MOST_BLOCKS = 4
"""Blocks that an order remembers."""


class CostOrder:
    """The order in which units are dealt to ranks: a permutation within blocks of whole rows.

    ``costs`` predicts the cost of units, given their numbers in the sequence of so many ``units``.
    """

    def __init__(self, costs: Callable[[IntArray], FloatArray], units: int, world_size: int) -> None:
        self.block = world_size * _ROWS_OF_BLOCK
        self._costs = costs
        # What does not fill a row stays at the end, where pads are.
        self._units = units // world_size * world_size
        self._world_size = world_size
        self._blocks: dict[int, IntArray] = {}

    @overload
    def __call__(self, dealt: int) -> int: ...
    @overload
    def __call__(self, dealt: IntArray) -> IntArray: ...
    def __call__(self, dealt: int | IntArray) -> int | IntArray:
        """Map the number of a dealt unit, or an array of them, to that of a unit of the sequence."""
        if not isinstance(dealt, np.ndarray):
            return dealt if dealt >= self._units else int(self._order_block(dealt // self.block)[dealt % self.block])
        units = dealt.copy()
        blocks = np.where(dealt < self._units, dealt // self.block, -1)
        for number in np.unique(blocks[blocks >= 0]).tolist():
            inside = blocks == number
            units[inside] = self._order_block(number)[dealt[inside] % self.block]
        return units

    def _order_block(self, number: int) -> IntArray:
        ordered = self._blocks.get(number)
        if ordered is None:
            first = number * self.block
            units = np.arange(first, min(first + self.block, self._units), dtype=np.int64)
            by_cost = units[np.argsort(self._costs(units), kind="stable")]
            rows = np.sort(by_cost.reshape(-1, self._world_size), axis=1)
            ordered = rows[np.argsort(rows[:, 0])].ravel()
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[number] = ordered
        return ordered


def estimate_row_costs(catalog: Catalog, rule: ClipRule, lengths: IntArray | None = None) -> FloatArray:
    """Estimate the CPU seconds of a clip of each row, float64 [R], from columns of the catalog alone.

    ``lengths`` are T of the rows, int64 [R]; None for that of the rule, or for all frames if it does not say it.
    """
    frames = np.maximum(1, catalog.num_frames).astype(np.float64)
    key_frames, nbytes, fps = (
        np.nan_to_num(catalog.column_values(name).astype(np.float64))
        for name in ("num_key_frames", "bytes", "average_fps")
    )
    pixels = np.maximum(0, catalog.heights * catalog.widths)
    delivered = frames if rule.num_frames is None else np.full_like(frames, rule.num_frames)
    delivered = delivered if lengths is None else np.maximum(1, lengths).astype(np.float64)
    # Half a distance between key frames to reach the first frame; then on to the next frame, or to its key frame.
    reach = frames / np.maximum(1, key_frames) / 2 + 1
    spacing = np.minimum(_estimate_spacing(rule, frames, fps, delivered), reach)
    decoded = np.minimum(frames, reach + (delivered - 1) * spacing)
    seconds_per_byte, is_pictures = _find_codecs(catalog)
    video = (
        decoded * (SECONDS_PER_PICTURE + pixels * SECONDS_PER_DECODED_PIXEL + nbytes / frames * seconds_per_byte)
        + delivered * (SECONDS_PER_DELIVERED + pixels * SECONDS_PER_DELIVERED_PIXEL)
    )  # fmt: skip
    pictures = delivered * (SECONDS_PER_FILE + pixels * SECONDS_PER_FILE_PIXEL)
    costs: FloatArray = np.where(is_pictures, pictures, video)
    return costs


def _estimate_spacing(rule: ClipRule, frames: FloatArray, fps: FloatArray, delivered: FloatArray) -> FloatArray:
    """Estimate the distance between frames of a clip in frames, float64 [R]."""
    if isinstance(rule, Dense) and rule.fps is None:
        return np.full_like(frames, rule.stride or 1)
    if isinstance(rule, Dense | Rates):
        rates = rule.rates if isinstance(rule, Rates) else [(rule.fps or 1, rule.num_frames)]
        seconds = sum(float(count / rate) for rate, count in rates)
        return fps * seconds / rule.num_frames
    return frames / delivered


def _find_codecs(catalog: Catalog) -> tuple[FloatArray, AnyArray]:
    """Find the seconds for each byte of every row, and whether its frames are picture files."""
    codes = catalog.column_values("codec") * 4 + catalog.column_values("kind")
    plannable = catalog.plannable_rows
    seconds, is_pictures = np.zeros(len(codes)), np.zeros(len(codes), dtype=np.bool_)
    for row in plannable[np.unique(codes[plannable], return_index=True)[1]].tolist():
        index = catalog.frame_index(row)
        codec, has_files = index.stream.codec, has_picture_files(index)
        if index.stream.is_proxy and (info := catalog.info(row)) is not None:
            # By the original: a plan is the same with proxies.
            codec, has_files = info.codec or "", info.kind == "image" or info.container == SEQUENCE_CONTAINER
        seconds[codes == codes[row]] = Codec.of(codec).seconds_per_byte
        is_pictures[codes == codes[row]] = has_files
    return seconds, is_pictures
