"""Give the batches of a loader as a tf.data.Dataset.

Batches are not copied: a tensor takes the memory of a NumPy array that begins at a multiple of 64 bytes, as that of a
loader's batches does, and keeps it. TensorFlow prefetches none of them: the loader prepares them ahead, and one that
TensorFlow had taken would count as delivered in the loader's state.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from operator import length_hint
from typing import Any

import numpy as np
import tensorflow as tf

from framefeed._arrays import AnyArray
from framefeed._checks import expected
from framefeed.adapters import Null, check_nulls, check_target, convert_target, find_codes, find_target_dtype
from framefeed.errors import UsageError
from framefeed.load import (
    ArraySpec,
    BatchIterator,
    BatchSpec,
    ClipBatch,
    ClipLoader,
    list_arrays,
    list_streams,
    map_streams,
)
from framefeed.media import source_name

Element = dict[str, Any] | tuple[Any, AnyArray]


def dataset(loader: ClipLoader, target: str | None = None, *, null: Null = "empty") -> tf.data.Dataset:
    """Give the batches of a loader as a ``tf.data.Dataset``. Each iteration over it is an epoch of the loader.

    Without ``target``, an element is a dict with data (uint8 [B, T, C, H, W], or what the loader's transform and dtype
    give), pts_seconds (float64 [B, T]), valid (bool [B, T]), positions (int64 [B]), ok (bool [B]), sources (string
    [B]), and one key for each column of the plan. With ``target``, it is ``(data, column)``, as ``model.fit`` takes it;
    the target of a clip that failed is -100, or NaN in a column of floats. Of a plan of several streams, data,
    pts_seconds, valid and sources are dicts by stream.

    The last batch of an epoch may have fewer clips, so B is None in the static shapes unless the loader has
    ``drop_last=True``. The cardinality is the number of batches of an epoch; it is unknown if the loader stands at a
    restored position, from which the first iteration is shorter.

    Of a plan with ``unequal=True`` whose clips differ in T alone, data, pts_seconds and valid are ragged tensors.

    The epoch of the loader increases when its last batch is delivered: ``model.fit`` counts batches, and asks for no
    more. An error of the loader ends the iteration as an error of TensorFlow, with its type, message and file name in
    the text. Iterations of one loader end each other, as with ``iter(loader)``.

    Example: ``model.fit(ff.tensorflow.dataset(loader, target="label"), epochs=2)``

    Args:
        loader: An open `ClipLoader`, not of clips whose pictures differ in size, or that a transform makes of clips of
            any T. With a transform, its first clip is loaded at once, for the shape and dtype of the result. Restore
            its state before.
        target: Name of a column of numbers, or of text, which becomes codes.
        null: What a text that is missing becomes: "empty" for "", with one warning, or "error" for a UsageError now.

    Raises:
        UsageError: The loader is closed, its clips have no common shape, or the plan has no such column.
    """
    if not isinstance(loader, ClipLoader):
        raise expected("loader", "an ff.ClipLoader", loader)
    if target is not None:
        check_target(loader.plan, target)
    check_nulls(loader.plan, null, target)
    ragged = _find_ragged(loader)
    spec = loader.describe_batches(unequal=bool(ragged))
    for name in ragged:
        form: ArraySpec = spec.arrays["data"][name] if name else spec.arrays["data"]
        if len(form.shape) < 2 or form.shape[1] is not None:
            raise UsageError(
                "the results of a transform of clips that differ in their number of frames have any shape, which no "
                "dataset of TensorFlow has: transform with dataset.map, or make the clips equal in the plan"
            )
    if target is None:
        arrays: Any = {name: _make_specs(name, each, ragged) for name, each in spec.arrays.items()}
        names = tf.TensorSpec(arrays["ok"].shape, tf.string)
        arrays["sources"] = map_streams(lambda _: names, spec.arrays["data"])
    else:
        data, column = _make_specs("data", spec.arrays["data"], ragged), spec.arrays[target]
        arrays = data, tf.TensorSpec(column.shape, find_target_dtype(spec.arrays[target].dtype))
    num_batches = None if spec.is_restored else spec.num_batches
    converter = _Converter(spec, target, ragged, find_codes(loader.plan, target))
    epochs = Epochs(loader, converter, num_batches)
    made = tf.data.Dataset.from_generator(epochs, output_signature=arrays)
    if num_batches is not None:
        made = made.apply(tf.data.experimental.assert_cardinality(num_batches))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    # Ranks are dealt by the plan; TensorFlow would deal the batches of each rank again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    made = made.with_options(options)
    # Datasets made from this one, and their iterators, refer to it.
    made.framefeed_loader = loader
    return made


class _Converter:
    """Makes elements of batches: pairs with the column ``target``, or dicts."""

    def __init__(
        self, spec: BatchSpec, target: str | None, ragged: frozenset[str], codes: Mapping[str, int] | None
    ) -> None:
        data: Any = spec.arrays["data"]
        streams = data.items() if isinstance(data, dict) else ()
        self._forms: dict[str, ArraySpec] = {f" of stream {name!r}": form for name, form in streams} or {"": data}
        self._target = target
        self._ragged = ragged
        self._codes = codes

    def __call__(self, batch: ClipBatch) -> Element:
        if not self._ragged:  # where clips are, a transform, which alone makes other forms, is refused
            for (of, form), data in zip(self._forms.items(), list_streams(batch.data), strict=True):
                _check_form(data, form, of)
        if self._target is not None:
            return self._join("data", batch.data), convert_target(batch.columns[self._target], batch.ok, self._codes)
        arrays = {name: self._join(name, each) for name, each in list_arrays(batch).items()}
        return {**arrays, "sources": map_streams(_encode_names, batch.sources)}

    def _join(self, name: str, value: Any) -> Any:
        """Join the clips of a batch that differ in T to a ragged tensor, and texts to an array."""
        if name not in _RAGGED_KEYS:
            return value if not isinstance(value, list) else np.array([text or "" for text in value], dtype=object)
        if not self._ragged:
            return value
        if isinstance(value, dict):
            return {stream: _join_clips(each, stream in self._ragged) for stream, each in value.items()}
        return _join_clips(value, True)


_RAGGED_KEYS = ("data", "pts_seconds", "valid")
"""Parts of a batch that have an axis of T."""


def _find_ragged(loader: ClipLoader) -> frozenset[str]:
    """Find the parts whose clips differ in T, and in nothing else; "" for clips of one stream."""
    forms = loader.plan.clips.forms
    ragged = frozenset(name for name, form in forms.items() if form.is_ragged)
    if not ragged:
        return ragged
    others = [name for name, form in forms.items() if form.unequal and form.picture is None]
    if others:
        where = f" of stream {others[0]!r}" if others[0] else ""
        raise UsageError(f"the pictures{where} differ in size: give the plan size=(height, width)")
    return ragged


def _join_clips(clips: Any, is_ragged: bool) -> Any:
    if not is_ragged:
        return np.stack(clips) if isinstance(clips, list) else clips
    lengths = np.array([len(clip) for clip in clips], dtype=np.int64)
    return tf.RaggedTensor.from_row_lengths(np.concatenate(clips), lengths)


def _check_form(data: AnyArray, spec: ArraySpec, of: str) -> None:
    expected_shape, shape = spec.shape[1:], data.shape[1:]
    is_as_expected = len(shape) == len(expected_shape) and all(
        each in (None, length) for each, length in zip(expected_shape, shape, strict=True)
    )
    if not is_as_expected or data.dtype != spec.dtype:
        raise UsageError(
            f"transform: the first clip{of} became {list(expected_shape)} of {spec.dtype}, and the clips of a "
            f"batch {list(shape)} of {data.dtype}: all elements of a tf.data.Dataset must have the same "
            "shape and dtype"
        )


def _make_specs(name: str, spec: Any, ragged: frozenset[str]) -> Any:
    """Make the specs of an array of batches, by stream of a dict."""
    if isinstance(spec, dict):
        return {stream: _make_specs(name, each, ragged & {stream}) for stream, each in spec.items()}
    if spec.dtype == object:
        if None in spec.shape[1:]:
            raise UsageError(f"column {name!r} holds lists of text, which no tensor has: plan without it")
        return tf.TensorSpec(spec.shape, tf.string)
    if name in _RAGGED_KEYS and ragged:
        return tf.RaggedTensorSpec(spec.shape, spec.dtype, ragged_rank=1, row_splits_dtype=tf.int64)
    return tf.TensorSpec(spec.shape, spec.dtype)


def _encode_names(sources: Any) -> AnyArray:
    names = [os.fsencode(each if isinstance(each, str) else source_name(each)) for each in sources]
    return np.array(names, dtype=object)


class Epochs:
    """Begins an epoch of a loader for each iteration over a dataset.

    TensorFlow never frees it, so it does not keep the loader alive: the dataset does. It expects ``num_batches``; with
    None, any number.
    """

    def __init__(self, loader: ClipLoader, convert: Callable[[ClipBatch], Element], num_batches: int | None) -> None:
        self._loader = weakref.ref(loader)
        self._convert = convert
        self._num_batches = num_batches

    def __call__(self) -> Epoch:
        loader = self._loader()
        if loader is None:
            raise UsageError(
                "the loader of this dataset was freed: keep the loader, or the dataset, until it is used up"
            )
        batches = iter(loader)
        count = length_hint(batches)
        if self._num_batches is not None and count != self._num_batches:
            raise UsageError(
                f"this dataset was made for epochs of {self._num_batches} batches, and {count} remain after "
                "load_state_dict: restore the loader before ff.tensorflow.dataset(loader)"
            )
        return Epoch(batches, self._convert)


class Epoch(Iterator[Element]):
    """Elements of one epoch of a loader, which has ended with its last batch, whether or not one more is asked for."""

    def __init__(self, batches: BatchIterator, convert: Callable[[ClipBatch], Element]) -> None:
        self._batches = batches
        self._convert = convert

    def __next__(self) -> Element:
        batch = next(self._batches)
        if not length_hint(self._batches):
            next(self._batches, None)
        return self._convert(batch)
