"""Batches of a loader as a tf.data.Dataset; test_tensorflow.py runs these tests in a process of their own."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import tensorflow as tf

import framefeed as ff
from framefeed.adapters.tensorflow import _dataset
from framefeed.compat.decord import VideoReader, bridge
from framefeed.errors import CorruptMedia, FrameNotFound
from framefeed.load import ClipBatch, ClipLoader
from tests.adapters.framework_checks import (
    assert_bench_measures_whole_epochs,
    assert_signature_is_in_reference,
    check_finished_pictures,
    check_programs_of_docs,
    list_expected,
    making_loaders,
)
from tests.fakes import FlatDecoder
from tests.load import stream_media
from tests.load.test_lengths import list_requests, plan_lengths
from tests.load.test_texts import write_table
from tests.makers import SIZE, folder, plan_of

CLIPS, BATCH = 12, 5
"""Batches of 5, 5 and 2 clips."""


@pytest.fixture
def make_loader() -> Iterator[Callable[..., ClipLoader]]:
    yield from making_loaders(BATCH)


def assert_same(element: dict[str, Any], batch: ClipBatch) -> None:
    expected = list_expected(batch)
    assert element.keys() == {*expected, "sources"}
    for name, array in expected.items():
        np.testing.assert_array_equal(element[name].numpy(), array, strict=True)
    assert [each.decode() for each in element["sources"].numpy()] == batch.sources


def positions_of(dataset: Any) -> list[list[int]]:
    return [element["positions"].numpy().tolist() for element in dataset]


def test_elements_are_the_loaders_batches_in_every_epoch(make_loader: Callable[..., ClipLoader]) -> None:
    loader, reference = make_loader(), make_loader(workers=0)
    dataset = ff.tensorflow.dataset(loader)
    assert int(dataset.cardinality()) == len(loader) == 3
    for epoch in range(2):
        assert loader.epoch == epoch
        for element, batch in zip(dataset, reference, strict=True):
            assert_same(element, batch)
            assert all(tensor.shape.as_list()[1:] == dataset.element_spec[name].shape.as_list()[1:]
                       for name, tensor in element.items())  # fmt: skip
    assert loader.epoch == reference.epoch == 2


def test_normalised_pictures_with_a_border_come_with_their_boxes_and_flips() -> None:
    check_finished_pictures(BATCH, ff.tensorflow.dataset, assert_same)


def test_shapes_are_known_before_the_first_batch(make_loader: Callable[..., ClipLoader]) -> None:
    decoder = FlatDecoder()
    spec = ff.tensorflow.dataset(make_loader(backend=decoder)).element_spec
    assert {name: (each.shape.as_list(), each.dtype) for name, each in spec.items()} == {
        "data": ([None, 4, 3, *SIZE], tf.uint8),
        "pts_seconds": ([None, 4], tf.float64),
        "valid": ([None, 4], tf.bool),
        "positions": ([None], tf.int64),
        "ok": ([None], tf.bool),
        "label": ([None], tf.int64),
        "sources": ([None], tf.string),
    }
    dropping = ff.tensorflow.dataset(make_loader(backend=decoder, drop_last=True), target="label")
    assert [each.shape.as_list() for each in dropping.element_spec] == [[BATCH, 4, 3, *SIZE], [BATCH]]
    assert not decoder.calls
    assert [len(labels) for _, labels in dropping] == [BATCH, BATCH]


def test_keras_trains_on_epochs_that_differ(make_loader: Callable[..., ClipLoader]) -> None:
    loader, validation = make_loader(), make_loader(plan_of(seed=8))
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((4, 3, *SIZE)),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(2),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    seen: list[int] = []
    record = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(loader.epoch))
    history = model.fit(
        ff.tensorflow.dataset(loader, target="label"),
        validation_data=ff.tensorflow.dataset(validation, target="label"),
        epochs=4,
        shuffle=False,
        verbose=0,
        callbacks=[record],
    ).history
    assert seen == [1, 2, 3, 4]
    assert (loader.stats().batches, validation.epoch) == (12, 4)
    assert history["val_accuracy"][-1] > 0.8  # the classes differ in colour
    assert history["loss"][-1] < history["loss"][0]


def test_an_epoch_ends_with_its_last_batch_and_not_before(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader()
    dataset = ff.tensorflow.dataset(loader)
    first = positions_of(dataset.take(2))
    assert loader.epoch == 0
    assert positions_of(dataset.take(3))[:2] == first  # as many as there are, and no request for more
    assert loader.epoch == 1
    assert loader.state_dict()["delivered"] == 0
    repeated = positions_of(dataset.repeat(2))
    assert loader.epoch == 3
    reference = make_loader(plan_of(epoch=1), workers=0)
    assert repeated == [batch.positions.tolist() for _ in range(2) for batch in reference]


def test_errors_keep_their_file_and_text(make_loader: Callable[..., ClipLoader]) -> None:
    name = sorted(folder().rglob("*.mp4"))[0].name

    def spoil(error: Exception) -> Callable[[str], None]:
        def raise_at(source: str) -> None:
            if source.endswith(name):
                raise error

        return raise_at

    # Types that TensorFlow would take for the end of the data, or that mean something else to it.
    for error in (
        CorruptMedia(f"{name}: spoiled"),
        FrameNotFound(f"{name}: no such frame"),
        StopIteration("early"),
        IndexError("empty"),
        NotImplementedError("later"),
        OSError("disk"),
    ):
        with pytest.raises(tf.errors.OpError) as caught:
            positions_of(ff.tensorflow.dataset(make_loader(backend=FlatDecoder(spoil(error)), workers=0)))
        assert not isinstance(caught.value, tf.errors.OutOfRangeError)
        assert name in caught.value.message, error
        assert str(error) in caught.value.message
        caught = None  # its frames hold the loader


def test_the_iteration_goes_on_after_an_error(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader(plan_of(shuffle=False), backend=FlatDecoder(spoil=_spoil_first()), workers=0)
    batches = iter(ff.tensorflow.dataset(loader))
    with pytest.raises(tf.errors.OpError, match="once"):
        next(batches)
    assert next(batches)["positions"].numpy().tolist() == [5, 6, 7, 8, 9]


def _spoil_first() -> Callable[[list[int]], ff.FramefeedError | None]:
    errors = [CorruptMedia("once")]
    return lambda ordinals: errors.pop() if errors else None


def test_targets_of_failed_clips_are_ignored(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader(
        plan_of(shuffle=False), on_error="skip", backend=FlatDecoder(spoil=_spoil_first()), workers=0, batch_size=CLIPS
    )
    ((clips, labels),) = ff.tensorflow.dataset(loader, target="label")
    assert labels.numpy().tolist() == [-100, *[0] * 5, *[1] * 6]
    assert not clips.numpy()[0].any()
    losses = tf.keras.losses.SparseCategoricalCrossentropy(ignore_class=-100, reduction="none")
    np.testing.assert_allclose(losses(labels, tf.fill((CLIPS, 2), 0.5)), [0, *[np.log(2)] * (CLIPS - 1)], rtol=1e-5)
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])
    plan = ff.plan_requests([request] * 2, columns={"score": [0.5, 1.5]})
    ((_, scores),) = ff.tensorflow.dataset(
        make_loader(plan, on_error="skip", backend=FlatDecoder(spoil=_spoil_first()), workers=0), target="score"
    )
    np.testing.assert_array_equal(scores, [np.nan, 1.5])


def test_columns_of_lists_have_a_static_shape(make_loader: Callable[..., ClipLoader]) -> None:
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])
    actions = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    dataset = ff.tensorflow.dataset(make_loader(ff.plan_requests([request] * 2, columns={"action": actions})))
    assert dataset.element_spec["action"] == tf.TensorSpec((None, 3, 2), tf.float32)
    (batch,) = dataset
    np.testing.assert_array_equal(batch["action"].numpy(), actions, strict=True)


def test_names_of_files_are_their_bytes(tmp_path: Path, make_loader: Callable[..., ClipLoader]) -> None:
    names = [b"\xff.mp4", "b\u00fccher.mp4".encode()]
    paths = [str(tmp_path / os.fsdecode(name)) for name in names]
    for path in paths:
        shutil.copy(sorted(folder().rglob("*.mp4"))[0], path)
    plan = ff.plan_requests([ff.DecodeRequest(path, [1]) for path in paths])
    (batch,) = ff.tensorflow.dataset(make_loader(plan))
    assert batch["sources"].numpy().tolist() == [os.fsencode(path) for path in paths]


def test_what_a_transform_gives_has_a_static_shape(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader(transform=lambda clip, rng: clip[0].astype(np.float32) / 255)
    clips = ff.tensorflow.dataset(loader, target="label")
    assert clips.element_spec[0] == tf.TensorSpec((None, 3, *SIZE), tf.float32)
    assert sum(len(labels) for _, labels in clips) == CLIPS
    calls: list[int] = []

    def shrink(clip: Any, rng: Any) -> Any:
        calls.append(1)
        return clip[:2] if len(calls) > 1 + BATCH else clip

    changing = ff.tensorflow.dataset(make_loader(transform=shrink, workers=0))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"transform: the first clip became \[4, 3, 48, 64\]"):
        positions_of(changing)

    def refuse(clip: Any, rng: Any) -> Any:
        raise ValueError("too bright")

    with pytest.raises(ff.LoadError, match=r"\.mp4: transform failed for the clip at position .*too bright"):
        ff.tensorflow.dataset(make_loader(transform=refuse))


def plan_ragged_streams() -> ff.EpochPlan:
    requests = [{"left": each, "right": ff.DecodeRequest(each.source, indices=[5, 6])} for each in list_requests()]
    return ff.plan_requests(requests, unequal=True, size=(16, 24))


def take_first(clip: Any, generator: np.random.Generator) -> Any:
    return clip[0]


def test_clips_of_any_length_are_ragged(make_loader: Callable[..., ClipLoader]) -> None:
    plans = plan_lengths(size=(16, 24)), plan_ragged_streams()
    for plan in plans:
        loader, reference = make_loader(plan), make_loader(plan, workers=0)
        dataset = ff.tensorflow.dataset(loader)
        for element, batch in zip(dataset, reference, strict=True):
            left = (lambda part: part["left"]) if isinstance(batch.data, dict) else (lambda part: part)
            for name in ("data", "pts_seconds", "valid"):
                made, expected = left(element[name]), left(getattr(batch, name))
                assert isinstance(made, tf.RaggedTensor)
                for slot, clip in enumerate(expected):
                    np.testing.assert_array_equal(made[slot].numpy(), clip, strict=True)
            if isinstance(batch.data, dict):
                np.testing.assert_array_equal(element["data"]["right"].numpy(), np.stack(batch.data["right"]))
    pairs = list(ff.tensorflow.dataset(make_loader(plans[0]), target="number"))
    assert [clips.shape.as_list() for clips, _ in pairs] == [[5, None, 3, 16, 24], [2, None, 3, 16, 24]]
    with pytest.raises(ff.UsageError, match=r"transform with dataset\.map"):
        ff.tensorflow.dataset(make_loader(plans[0], transform=take_first))
    with pytest.raises(ff.UsageError, match=r"pictures differ in size: give the plan size="):
        ff.tensorflow.dataset(make_loader(plan_lengths()))


def test_texts_are_strings(make_loader: Callable[..., ClipLoader], tmp_path: Path) -> None:
    texts = ["é", None, "a", "b", "b", "c"]
    catalog = ff.scan(write_table(tmp_path / "list.parquet", caption=texts, tags=[["x"]] * 6), workers=0)
    plan = ff.plan_clips(catalog, ff.Uniform(1), seed=0, columns=("caption",))
    with pytest.warns(UserWarning, match="no text of column 'caption' in 1 row"):
        dataset = ff.tensorflow.dataset(make_loader(plan))
    assert dataset.element_spec["caption"].dtype == tf.string
    rows = [plan[position].row for position in range(len(plan))]
    found = [text.decode() for element in dataset for text in element["caption"].numpy()]
    assert found == [texts[row] or "" for row in rows]
    with pytest.raises(ff.UsageError, match="null='empty'"):
        ff.tensorflow.dataset(make_loader(plan), null="error")
    known = ff.plan_clips(catalog.filter(caption="b"), ff.Uniform(1), seed=0, columns=("caption",))
    codes = [int(code) for _, part in ff.tensorflow.dataset(make_loader(known), target="caption") for code in part]
    assert [known.texts["caption"][code] for code in codes] == ["b", "b"]
    with pytest.raises(ff.UsageError, match="lists of text, which no tensor has"):
        ff.tensorflow.dataset(make_loader(ff.plan_clips(catalog, ff.Uniform(1), seed=0, columns=("tags",))))


def test_wrong_calls_say_what_to_do(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader(plan_of(columns=[]))
    with pytest.raises(
        ff.UsageError, match=r"the plan has no column 'label', only \[\]: plan with columns=\['label'\]"
    ):
        ff.tensorflow.dataset(loader, target="label")
    with pytest.raises(ff.UsageError, match=r"loader: expected an ff\.ClipLoader, got"):
        ff.tensorflow.dataset(loader.plan)
    with pytest.raises(ff.UsageError, match="unequal=True have no common shape: give the plan size="):
        ff.tensorflow.dataset(make_loader(plan_of(unequal=True)))
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])
    for name in ("ok", "sources"):
        with pytest.raises(ff.UsageError, match=rf"columns \['{name}'\] have the same names"):
            ff.tensorflow.dataset(make_loader(ff.plan_requests([request], columns={name: [1]})))
    loader.close()
    with pytest.raises(ff.UsageError, match="this ClipLoader is closed"):
        ff.tensorflow.dataset(loader)


def test_a_loader_that_is_used_otherwise_says_so(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader()
    dataset = ff.tensorflow.dataset(loader)
    batches = iter(dataset)
    next(batches)
    assert sum(1 for _ in loader) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"a later iter\(loader\) replaced it"):
        next(batches)
    loader.close()
    with pytest.raises(tf.errors.InvalidArgumentError, match="this ClipLoader is closed"):
        positions_of(dataset)


def test_a_restored_loader_gives_the_rest_and_then_whole_epochs(make_loader: Callable[..., ClipLoader]) -> None:
    loader, reference = make_loader(), make_loader(workers=0)
    made_before = ff.tensorflow.dataset(loader)
    whole = [batch.positions.tolist() for _ in range(2) for batch in reference]
    for _ in zip(range(1), made_before, strict=False):
        state = loader.state_dict()
    loader.load_state_dict(state)
    dataset = ff.tensorflow.dataset(loader)
    assert int(dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    assert positions_of(dataset) + positions_of(dataset) == whole[1:]
    loader.load_state_dict(state)
    with pytest.raises(tf.errors.InvalidArgumentError, match="for epochs of 3 batches, and 2 remain"):
        positions_of(made_before)


def address_of(tensor: Any) -> int:
    return int(np.frombuffer(memoryview(tensor), np.uint8).ctypes.data)


def test_tensors_take_the_memory_and_it_never_changes(
    make_loader: Callable[..., ClipLoader], monkeypatch: pytest.MonkeyPatch
) -> None:
    loader, addresses = make_loader(prefetch=1), []
    list_arrays = _dataset.list_arrays

    def note_and_list(batch: ClipBatch) -> dict[str, Any]:
        addresses.append(batch.data.ctypes.data)
        return list_arrays(batch)

    monkeypatch.setattr(_dataset, "list_arrays", note_and_list)
    kept: list[tuple[Any, int]] = []
    # Every third tensor is kept, while the memory of the others is used again.
    for number, element in enumerate(ff.tensorflow.dataset(loader).repeat(10)):
        assert address_of(element["data"]) == addresses[-1]
        if number % 3 == 1:
            kept.append((element["data"], crc32(element["data"].numpy())))
    assert len(set(addresses)) < len(addresses)
    assert len({address_of(tensor) for tensor, _ in kept}) == len(kept) == 10
    loader.close()
    assert [crc32(tensor.numpy()) for tensor, _ in kept] == [checksum for _, checksum in kept]


def test_a_dataset_that_is_dropped_ends_its_loader() -> None:
    loader = ff.ClipLoader(plan_of(), batch_size=BATCH, workers=2)
    dataset = ff.tensorflow.dataset(loader)
    batches = iter(dataset)
    next(batches)
    alive = weakref.ref(loader)
    del loader, dataset, batches
    gc.collect()
    assert alive() is None


def test_streams_are_nested_dicts(make_loader: Callable[..., ClipLoader]) -> None:
    plan = stream_media.plan_both()
    expected = list(make_loader(plan))
    for element, batch in zip(ff.tensorflow.dataset(make_loader(plan)), expected, strict=True):
        for name in ("slow", "fast"):
            np.testing.assert_array_equal(element["data"][name].numpy(), batch.data[name])
            np.testing.assert_array_equal(element["pts_seconds"][name].numpy(), batch.pts_seconds[name])
            assert [each.decode() for each in element["sources"][name].numpy()] == batch.sources[name]
    for (clips, labels), batch in zip(ff.tensorflow.dataset(make_loader(plan), target="label"), expected, strict=True):
        np.testing.assert_array_equal(clips["fast"].numpy(), batch.data["fast"])
        np.testing.assert_array_equal(labels.numpy(), batch["label"])


def test_the_bridge_of_decord_s_names_gives_tensors() -> None:
    reader = VideoReader(str(sorted(folder().glob("**/*.mp4"))[0]))
    native = reader.get_batch([4, 2])
    with bridge.use_tensorflow():
        batch = reader.get_batch([4, 2])
    assert batch.dtype == tf.uint8
    np.testing.assert_array_equal(batch.numpy(), native)
    np.testing.assert_array_equal(bridge.to_tensorflow(native).numpy(), native)


def test_programs_of_the_docs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_programs_of_docs("tensorflow", tmp_path, monkeypatch)


def test_the_bench_measures_whole_epochs(make_loader: Callable[..., ClipLoader]) -> None:
    assert_bench_measures_whole_epochs("tensorflow", make_loader())


def test_the_reference_has_its_signature() -> None:
    assert_signature_is_in_reference("tensorflow.dataset", ff.tensorflow.dataset)
