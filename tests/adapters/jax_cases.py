"""Batches of a loader as arrays of JAX; test_jax.py runs these tests in a process that has four devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import framefeed as ff
from framefeed.errors import CorruptMedia
from framefeed.load import ClipBatch, ClipLoader
from tests.adapters.framework_checks import (
    assert_bench_measures_whole_epochs,
    assert_signature_is_in_reference,
    check_finished_pictures,
    check_programs_of_docs,
    list_expected,
    making_loaders,
)
from tests.adapters.ranks import report_of_ranks
from tests.fakes import FlatDecoder
from tests.load import stream_media
from tests.makers import SIZE, folder, plan_of

CLIPS, BATCH, DEVICES = 12, 4, 4


@pytest.fixture
def make_loader() -> Iterator[Callable[..., ClipLoader]]:
    yield from making_loaders(BATCH)


def divided(*axes: str | None) -> NamedSharding:
    """Over all devices: the clips, or the axes that are named."""
    assert len(jax.devices()) == DEVICES
    return NamedSharding(Mesh(np.array(jax.devices()), ("clips",)), PartitionSpec(*(axes or ("clips",))))


def assert_same(arrays: dict[str, Any], batch: ClipBatch) -> None:
    expected = list_expected(batch)
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        kind = {np.float64: np.float32, np.int64: np.int32}.get(array.dtype.type, array.dtype)
        np.testing.assert_array_equal(arrays[name], array.astype(kind), strict=True)


def positions_of(batches: Any) -> list[list[int]]:
    return [np.asarray(batch["positions"]).tolist() for batch in batches]


def test_dicts_have_the_loaders_batches_in_every_epoch(make_loader: Callable[..., ClipLoader]) -> None:
    loader, reference = make_loader(batch_size=5), make_loader(batch_size=5, workers=0)
    for epoch in range(2):
        assert loader.epoch == epoch
        batches = ff.jax.iterate(loader)
        assert len(batches) == 3
        for arrays, batch in zip(batches, reference, strict=True):
            assert_same(arrays, batch)
    assert loader.epoch == reference.epoch == 2


def test_normalised_pictures_with_a_border_come_with_their_boxes_and_flips() -> None:
    check_finished_pictures(BATCH, ff.jax.iterate, assert_same)


def test_batches_are_divided_over_devices(make_loader: Callable[..., ClipLoader]) -> None:
    loader, reference = make_loader(), make_loader(workers=0)
    for arrays, batch in zip(ff.jax.iterate(loader, divided()), reference, strict=True):
        assert_same(arrays, batch)
        for name, array in arrays.items():
            shards = array.addressable_shards
            assert {shard.device for shard in shards} == set(jax.devices())
            assert {shard.data.shape for shard in shards} == {(BATCH // DEVICES, *array.shape[1:])}, name
    # Also by rows of the pictures; arrays that have no such axis are on every device.
    by_rows = divided(None, None, None, "clips")
    for arrays, batch in zip(ff.jax.iterate(loader, by_rows), reference, strict=True):
        assert_same(arrays, batch)
        assert arrays["data"].addressable_shards[0].data.shape == (BATCH, 4, 3, SIZE[0] // DEVICES, SIZE[1])
        assert arrays["positions"].addressable_shards[0].data.shape == (BATCH,)
    for device in (jax.devices()[2], SingleDeviceSharding(jax.devices()[2])):
        assert all(array.devices() == {jax.devices()[2]} for array in next(ff.jax.iterate(loader, device)).values())


def test_a_batch_that_does_not_divide_is_refused_before_anything_is_decoded(
    make_loader: Callable[..., ClipLoader],
) -> None:
    decoder = FlatDecoder()
    with pytest.raises(ff.UsageError, match="into 4 parts, but batch_size=6 is no multiple of it"):
        ff.jax.iterate(make_loader(batch_size=6, backend=decoder), divided())
    six = plan_of(clips_per_video=1)
    with pytest.raises(ff.UsageError, match=r"the last batch has 2 clips \(batch_size=4\).* drop_last=True"):
        ff.jax.iterate(make_loader(six, backend=decoder), divided())
    assert not decoder.calls
    assert len(list(ff.jax.iterate(make_loader(six, backend=decoder, drop_last=True), divided()))) == 1


def test_states_do_not_count_the_batch_that_is_ahead(make_loader: Callable[..., ClipLoader]) -> None:
    loader, resumed = make_loader(), make_loader()
    whole = positions_of(ff.jax.iterate(make_loader()))
    batches = ff.jax.iterate(loader)
    states = [batches.state_dict()] + [batches.state_dict() for _ in batches]
    assert loader.epoch == 1
    for delivered, state in enumerate(states):
        resumed.load_state_dict(state)
        rest = ff.jax.iterate(resumed)
        # After the last batch the next epoch is whole.
        assert len(rest) == (len(whole) - delivered or len(whole))
        if delivered < len(whole):
            assert positions_of(rest) == whole[delivered:]


def test_an_error_comes_after_the_batches_before_it(make_loader: Callable[..., ClipLoader]) -> None:
    errors = {5: CorruptMedia("spoiled")}
    calls: list[int] = []

    def spoil(ordinals: list[int]) -> ff.FramefeedError | None:
        calls.append(1)
        return errors.get(len(calls) - 1)

    loader = make_loader(plan_of(shuffle=False), backend=FlatDecoder(spoil=spoil), workers=0)
    batches = ff.jax.iterate(loader)
    assert next(batches)["positions"].tolist() == [0, 1, 2, 3]
    before = batches.state_dict()
    assert before["delivered"] == 1
    with pytest.raises(CorruptMedia, match="spoiled"):
        next(batches)
    assert batches.state_dict() == before
    assert positions_of(batches) == [[8, 9, 10, 11]]
    with pytest.raises(StopIteration):
        next(batches)


def test_closed_ended_and_wrong_calls_say_so(make_loader: Callable[..., ClipLoader]) -> None:
    loader = make_loader()
    with ff.jax.iterate(loader) as batches:
        next(batches)
    with pytest.raises(ff.UsageError, match=r"this iterator is closed: call ff\.jax\.iterate"):
        next(batches)
    replaced = ff.jax.iterate(loader)
    iter(loader)
    with pytest.raises(ff.UsageError, match=r"a later iter\(loader\) replaced it"):
        next(replaced)
    with pytest.raises(ff.UsageError, match=r"sharding: expected a jax\.sharding\.Sharding"):
        ff.jax.iterate(loader, "cpu")
    with pytest.raises(ff.UsageError, match=r"loader: expected an ff\.ClipLoader, got"):
        ff.jax.iterate([1, 2])
    with pytest.raises(ff.UsageError, match=r"sharding: it does not fit to batches \[None, 4, 3, 48, 64\]"):
        ff.jax.iterate(loader, divided(None, None, "clips"))
    with pytest.raises(ff.UsageError, match="unequal=True have no common shape"):
        ff.jax.iterate(make_loader(plan_of(unequal=True)))
    with pytest.raises(ff.UsageError, match=r"columns \['codec'\] hold text, which JAX has no arrays of: plan without"):
        ff.jax.iterate(make_loader(plan_of(columns=["codec"])))
    assert next(ff.jax.iterate(make_loader(plan_of(columns={"codec": "codes"}))))["codec"].tolist()[0] == 0
    loader.close()
    with pytest.raises(ff.UsageError, match="this ClipLoader is closed"):
        ff.jax.iterate(loader)


def test_integers_are_never_cut_off(make_loader: Callable[..., ClipLoader]) -> None:
    numbers = [2**31 - 1, -(2**31), 2**40]
    requests = [ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])] * 2
    small = make_loader(ff.plan_requests(requests, columns={"number": numbers[:2]}))
    assert next(ff.jax.iterate(small))["number"].tolist() == numbers[:2]
    for large in (2**31, -(2**31) - 1):
        loader = make_loader(ff.plan_requests(requests, columns={"number": [0, large]}))
        with pytest.raises(ff.UsageError, match=r"number has integers of more than 32 bits.*jax_enable_x64"):
            ff.jax.iterate(loader)
        jax.config.update("jax_enable_x64", True)
        try:
            assert next(ff.jax.iterate(loader))["number"].tolist() == [0, large]
        finally:
            jax.config.update("jax_enable_x64", False)


def test_columns_of_lists_are_arrays(make_loader: Callable[..., ClipLoader]) -> None:
    requests = [ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])] * 2
    actions = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    batch = next(ff.jax.iterate(make_loader(ff.plan_requests(requests, columns={"action": actions}))))
    np.testing.assert_array_equal(batch["action"], actions, strict=True)
    loader = make_loader(ff.plan_requests(requests, columns={"number": [[0], [2**40]]}))
    with pytest.raises(ff.UsageError, match=r"number has integers of more than 32 bits"):
        ff.jax.iterate(loader)


@pytest.mark.parametrize("sharding", [None, "over all devices"])
def test_arrays_take_the_memory_and_it_never_changes(make_loader: Callable[..., ClipLoader], sharding: Any) -> None:
    loader, kept, addresses = make_loader(prefetch=1), [], []
    first = next(iter(loader)).data
    arrays = jax.device_put(first)
    assert arrays.unsafe_buffer_pointer() == first.ctypes.data  # no copy, so that what follows tests something
    del first, arrays
    for _ in range(6):
        # Every third batch is kept, while the memory of the others is used again.
        for number, batch in enumerate(ff.jax.iterate(loader, sharding and divided())):
            pixels = batch["data"]
            addresses.append(pixels.addressable_shards[0].data.unsafe_buffer_pointer())
            if number == 1:
                kept.append((pixels, crc32(np.asarray(pixels))))
    assert len(set(addresses)) < len(addresses) == 18
    loader.close()
    assert [crc32(np.asarray(pixels)) for pixels, _ in kept] == [checksum for _, checksum in kept]


def test_a_model_trains(make_loader: Callable[..., ClipLoader]) -> None:
    @jax.jit
    def step(weights: Any, pixels: Any, labels: Any) -> Any:
        def loss_of(weights: Any) -> Any:
            means = pixels.astype("float32").mean((1, 3, 4)) / 255
            logits = means @ weights
            return -jax.nn.log_softmax(logits)[jax.numpy.arange(len(labels)), labels].mean()

        loss, gradient = jax.value_and_grad(loss_of)(weights)
        return weights - gradient, loss

    weights, losses = jax.device_put(np.zeros((3, 2), np.float32), divided(None)), []
    loader = make_loader()
    for _ in range(4):
        for batch in ff.jax.iterate(loader, divided()):
            weights, loss = step(weights, batch["data"], batch["label"])
            losses.append(float(loss))
    assert loader.epoch == 4
    assert losses[-1] < losses[0]


def test_processes_divide_a_batch_over_the_devices_of_all(tmp_path: Path) -> None:
    reports = report_of_ranks("tests.adapters.jax_host", tmp_path)
    for rank, report in enumerate(reports):
        # 12 clips on 2 ranks, of which each loads 2 at a time; each device has one.
        assert report["shapes"] == [[4, 4, 3, *SIZE]] * 3
        assert report["own"] == [[[4 * step + rank], [4 * step + 2 + rank]] for step in range(3)]
        assert report["sums"] == [6, 22, 38]
        assert "plan with rank=jax.process_index(), world_size=jax.process_count()" in report["refused"][0]
        assert "expected it to divide the first axis over its 2 processes" in report["refused"][1]


def test_streams_are_nested_dicts(make_loader: Callable[..., ClipLoader]) -> None:
    expected = list(make_loader(stream_media.plan_both()))
    for sharding in (None, divided()):
        batches = list(ff.jax.iterate(make_loader(stream_media.plan_both()), sharding))
        for batch, other in zip(batches, expected, strict=True):
            for name in ("slow", "fast"):
                np.testing.assert_array_equal(batch["data"][name], other.data[name])
                np.testing.assert_array_equal(batch["pts_seconds"][name], other.pts_seconds[name].astype(np.float32))
                np.testing.assert_array_equal(batch["valid"][name], other.valid[name])
            np.testing.assert_array_equal(batch["positions"], other.positions)


def test_programs_of_the_docs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_programs_of_docs("jax", tmp_path, monkeypatch)


def test_the_bench_measures_whole_epochs(make_loader: Callable[..., ClipLoader]) -> None:
    assert_bench_measures_whole_epochs("jax", make_loader())


def test_the_reference_has_its_signature() -> None:
    assert_signature_is_in_reference("jax.iterate", ff.jax.iterate)
