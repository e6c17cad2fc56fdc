"""Batches of a loader in a DALI pipeline of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.errors import CorruptMedia
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FlatDecoder
from tests.load import stream_media
from tests.load.test_lengths import plan_lengths
from tests.makers import SIZE, folder, plan_of

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")
from nvidia.dali import fn, types  # noqa: E402 - only where there is one

Loaders = Callable[..., ff.ClipLoader]


def build(source: Any, depth: int = 2, change: Callable[[Any], Any] = lambda clip: clip) -> Any:
    """A pipeline that gives what the source gives, but for a change of the clips."""
    pipe = dali.Pipeline(batch_size=16, num_threads=1, device_id=None, prefetch_queue_depth=depth)
    with pipe:
        clip, *others = fn.external_source(source=source, **source.arguments)
        pipe.set_outputs(change(clip), *others)
    pipe.build()
    return pipe


def run_epoch(pipe: Any) -> Iterator[list[Any]]:
    """The outputs of each run, as arrays, to the end of the epoch."""
    try:
        while True:
            yield [np.asarray(output.as_tensor()) for output in pipe.run()]
    except StopIteration:
        pipe.reset()


def positions_of(pipe: Any) -> list[list[int]]:
    return [outputs[2].tolist() for outputs in run_epoch(pipe)]


def test_outputs_are_the_loaders_arrays_in_every_epoch(make_loader: Loaders) -> None:
    with ff.dali.external_source(plan_of(), batch_size=5) as source:
        pipe, reference = build(source), make_loader(workers=0)
        assert source.output_names == ("clip", "pts_seconds", "position", "ok", "label")
        for epoch in range(2):
            assert reference.epoch == epoch
            for outputs, batch in zip(run_epoch(pipe), reference, strict=True):
                arrays = (batch.data, batch.pts_seconds, batch.positions, batch.ok, batch["label"])
                for output, array in zip(outputs, arrays, strict=True):
                    np.testing.assert_array_equal(output, array, strict=True)


def test_streams_are_outputs_of_their_own(make_loader: Loaders) -> None:
    plan = stream_media.plan_both()
    streams = ("slow", "fast")
    with ff.dali.external_source(plan, batch_size=3) as source:
        pipe, reference = build(source), make_loader(plan, workers=0, batch_size=3)
        assert source.output_names == (
            "clip.slow", "clip.fast", "pts_seconds.slow", "pts_seconds.fast", "position", "ok", "label",
        )  # fmt: skip
        for outputs, batch in zip(run_epoch(pipe), reference, strict=True):
            arrays = [batch.data[name] for name in streams] + [batch.pts_seconds[name] for name in streams]
            arrays += [batch.positions, batch.ok, batch["label"]]
            for output, array in zip(outputs, arrays, strict=True):
                np.testing.assert_array_equal(output, array, strict=True)
    with pytest.raises(ff.UsageError, match="takes clips of one stream, and this plan has"):
        ff.dali.pipeline(plan, batch_size=3)


def test_arguments_describe_the_outputs(make_loader: Loaders) -> None:
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1, 2])
    columns = {"weight": [0.5, 1.5], "frame": [3, 4], "flag": [True, False], "name": ["b", "a"]}
    named = ff.plan_requests([request] * 2, columns=columns)
    plan = ff.plan_requests([request] * 2, columns={**columns, "name": [1, 0]})
    arguments = ff.dali.external_source(make_loader(plan)).arguments
    kinds = [types.UINT8, types.FLOAT64, types.INT64, types.BOOL]
    assert arguments == {
        "num_outputs": 8,
        "batch": True,
        "cycle": "raise",
        "no_copy": True,
        "dtype": [*kinds, types.FLOAT64, types.INT64, types.BOOL, types.INT64],
        "ndim": [4, 1, 0, 0, 0, 0, 0, 0],
        "layout": ["FCHW", *[""] * 7],
    }
    flags = ff.dali.external_source(make_loader(plan), target="flag")
    assert flags.arguments["dtype"] == [*kinds, types.INT64]
    assert flags.arguments["num_outputs"] == len(flags.output_names) == 5
    ((*_, codes),) = run_epoch(build(ff.dali.external_source(make_loader(named), target="name")))
    assert codes.tolist() == [1, 0]


def test_columns_of_lists_are_outputs(make_loader: Loaders) -> None:
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1, 2])
    actions = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    source = ff.dali.external_source(make_loader(ff.plan_requests([request] * 2, columns={"action": actions})))
    assert source.arguments["ndim"] == [4, 1, 0, 0, 2]
    ((*_, outputs),) = run_epoch(build(source))
    np.testing.assert_array_equal(outputs, actions, strict=True)


def test_columns_without_a_type_in_dali_are_left_out_and_named(make_loader: Loaders) -> None:
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])
    plan = ff.plan_requests([request], columns={"exact": np.array([0.1], np.longdouble), "frame": [7]})
    with pytest.warns(
        UserWarning, match=r"no type for these columns, which are left out: exact \(float128\)"
    ) as caught:
        source = ff.dali.external_source(make_loader(plan))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    ((*_, frames),) = run_epoch(build(source))
    assert frames.tolist() == [7]
    with pytest.raises(ff.UsageError, match="exact: DALI has no type for float128"):
        ff.dali.external_source(make_loader(plan), target="exact")


def test_dalis_own_iterator_gives_labels_of_one_axis_in_every_epoch() -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    with ff.dali.external_source(plan_of(), batch_size=5, target="label") as source:
        names = list(source.output_names)
        batches = pytorch.DALIGenericIterator([build(source)], names, size=-1, auto_reset=True)
        for _ in range(2):
            shapes = [(tuple(batch[0]["clip"].shape), tuple(batch[0]["label"].shape)) for batch in batches]
            assert shapes == [((count, 4, 3, *SIZE), (count,)) for count in (5, 5, 2)]


def test_L13_a_pipeline_of_ones_own_resumes_from_every_state() -> None:
    expected = positions_of(build(ff.dali.external_source(plan_of(), batch_size=5)))
    source = ff.dali.external_source(plan_of(), batch_size=5)
    pipe, states = build(source, depth=3), [source.state_dict(delivered=0)]
    for delivered, _ in enumerate(run_epoch(pipe), start=1):
        states.append(source.state_dict(delivered=delivered))
    assert source.loader.epoch == 1
    for count, state in enumerate(states):
        resumed = ff.dali.external_source(plan_of(), batch_size=5)
        resumed.load_state_dict(json.loads(json.dumps(state)))
        rest = positions_of(build(resumed))
        assert rest == (expected[count:] if count < len(expected) else positions_of(pipe))
    source.load_state_dict(states[1])  # the epoch is over
    assert positions_of(build(source)) == expected[1:]


def test_states_that_cannot_be_are_refused() -> None:
    source = ff.dali.external_source(plan_of(), batch_size=5)
    with pytest.raises(ff.UsageError, match="DALI has fetched no batch of this source yet, and you say 1"):
        source.state_dict(delivered=1)
    pipe = build(source, depth=1)
    pipe.run()
    state = source.state_dict(delivered=1)
    with pytest.raises(ff.UsageError, match=r"fetched 1 batch of epoch 0.* you say 2: count from the beginning"):
        source.state_dict(delivered=2)
    with pytest.raises(
        ff.UsageError, match="fetched 1 batches of an epoch from this source: load the state into a new"
    ):
        source.load_state_dict(state)
    list(run_epoch(pipe))
    assert source.state_dict(delivered=0) == source.state_dict(delivered=3)  # of epoch 1, and of epoch 0
    with pytest.raises(ff.UsageError, match="you say 3 of epoch 1: count"):
        source.state_dict(delivered=3, epoch=1)
    for wrong in (-1, 1.0, True):
        with pytest.raises(ff.UsageError, match="delivered: expected an integer of at least 0"):
            source.state_dict(delivered=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [12, 6, 4])
def test_L13_states_of_epochs_that_are_fetched_whole_need_their_number(batch_size: int) -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    with ff.dali.external_source(plan_of(), batch_size=batch_size) as source:
        batches = pytorch.DALIGenericIterator([build(source)], list(source.output_names), auto_reset=True)
        for epoch in range(2):
            count = sum(1 for _ in batches)
            assert count == 12 // batch_size
            state = source.state_dict(delivered=0, epoch=epoch + 1)
            assert (state["plan"]["epoch"], state["clips"]) == (epoch + 1, 0)
            assert source.state_dict(delivered=count, epoch=epoch) == state
            for delivered in (0, count):
                try:
                    assert source.state_dict(delivered) == state, f"{delivered} batches, without the number"
                except ff.UsageError as error:
                    assert f"{delivered} may be of epoch " in str(error)  # noqa: PT017 - or the state is right


def test_batches_larger_than_the_pipelines_are_refused_where_it_is_built() -> None:
    pipe = dali.Pipeline(batch_size=3, num_threads=1, device_id=None)
    wanted = "batches of this source have up to 5 clips, and those of the pipeline at most 3"
    with ff.dali.external_source(plan_of(), batch_size=5) as source, pipe, pytest.raises(ff.UsageError, match=wanted):
        fn.external_source(source=source, **source.arguments)


def test_D04_clips_that_no_transform_has_seen_are_zeros_of_its_dtype(make_loader: Loaders) -> None:
    """A black clip, on which the transform fails, does not end DALI's epoch; one of another dtype names its file."""

    def standardise(clip: Any, rng: Any) -> Any:
        if not clip.any():
            raise ValueError("no contrast")
        return (clip / 255).astype(np.float32)

    loader = make_loader(
        plan_of(shuffle=False),
        on_error="skip",
        backend=FlatDecoder(spoil=spoil_once(CorruptMedia("once"), 3)),
        transform=standardise,
        workers=0,
        batch_size=1,
    )
    outputs = list(run_epoch(build(ff.dali.external_source(loader))))
    assert {clips.dtype for clips, *_ in outputs} == {np.dtype(np.float32)}
    assert {clips.shape for clips, *_ in outputs} == {(1, 4, 3, *SIZE)}
    (failed,) = [clips for clips, _, _, ok, _ in outputs if not ok]
    assert not failed.any()
    cropping = make_loader(
        plan_of(shuffle=False),
        on_error="skip",
        backend=FlatDecoder(spoil=spoil_once(CorruptMedia("once"), 3)),
        transform=lambda clip, rng: clip[..., :6, :8] if clip.any() else refuse(),
        workers=0,
        batch_size=1,
    )
    outputs = list(run_epoch(build(ff.dali.external_source(cropping))))
    assert {clips.shape for clips, *_ in outputs} == {(1, 4, 3, 6, 8)}
    assert sum(not ok.any() for _, _, _, ok, _ in outputs) == 1
    calls: list[int] = []

    def change(clip: Any, rng: Any) -> Any:
        calls.append(1)
        return clip if len(calls) > 2 else clip.astype(np.float32)

    pipe = build(ff.dali.external_source(make_loader(transform=change, workers=0, batch_size=1)), depth=1)
    pipe.run()
    with pytest.raises(
        ff.UsageError, match=r"\.mp4: transform: the first clip became .* float32, and that at pos"
    ) as caught:
        pipe.run()
    assert caught.value.position is not None


def refuse() -> Any:
    raise ValueError("black")


def spoil_once(error: Exception, calls_before: int = 0) -> Callable[[list[int]], Any]:
    errors = [None] * calls_before + [error]
    return lambda ordinals: errors.pop(0) if errors else None


def test_L05_errors_keep_their_type_and_the_pipeline_goes_on(make_loader: Loaders) -> None:
    error = CorruptMedia("video.mp4: spoiled", frames=[3])
    loader = make_loader(plan_of(shuffle=False), backend=FlatDecoder(spoil=spoil_once(error, 5)), workers=0)
    pipe = build(ff.dali.external_source(loader), depth=1)
    assert pipe.run()[2].as_array().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptMedia, match=r"video\.mp4: spoiled") as caught:
        pipe.run()
    assert (caught.value.frames, caught.value.position) == ((3,), 5)
    assert pipe.run()[2].as_array().tolist() == [10, 11]
    assert len(positions_of(pipe)) == 0


def test_a_transforms_results_and_errors_come_through(make_loader: Loaders) -> None:
    loader = make_loader(transform=lambda clip, rng: clip[0].astype(np.float32) / 255)
    source = ff.dali.external_source(loader)
    assert (source.arguments["ndim"][0], source.arguments["layout"][0]) == (3, "")
    reference = make_loader(transform=lambda clip, rng: clip[0].astype(np.float32) / 255, workers=0)
    for outputs, batch in zip(run_epoch(build(source)), reference, strict=True):
        np.testing.assert_array_equal(outputs[0], batch.data, strict=True)
    calls: list[int] = []

    def refuse_later(clip: Any, rng: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise ValueError("too bright")
        return clip

    pipe = build(ff.dali.external_source(make_loader(transform=refuse_later, workers=0)))
    with pytest.raises(ff.LoadError, match=r"\.mp4: transform failed for the clip at position .*too bright"):
        list(run_epoch(pipe))
    with pytest.raises(ff.UsageError, match="clip: DALI has no type for complex64: return another one from transform"):
        ff.dali.external_source(make_loader(transform=lambda clip, rng: clip.astype(np.complex64)))


def test_targets_of_failed_clips_are_ignored(make_loader: Loaders) -> None:
    loader = make_loader(
        plan_of(shuffle=False),
        on_error="skip",
        backend=FlatDecoder(spoil=spoil_once(CorruptMedia("once"))),
        workers=0,
        batch_size=12,
    )
    ((clips, pts_seconds, _, ok, labels),) = run_epoch(build(ff.dali.external_source(loader, target="label")))
    assert labels.tolist() == [-100, *[0] * 5, *[1] * 6]
    assert ok.tolist() == [False, *[True] * 11]
    assert not clips[0].any()
    assert np.isnan(pts_seconds[0]).all()
    assert [entry.position for entry in loader.ledger] == [0]


def test_clips_of_unequal_size_are_a_list_that_dali_resizes(make_loader: Loaders, tmp_path: Any) -> None:
    for number, (height, width) in enumerate([(48, 64), (64, 48), (32, 96)]):
        write_clip(tmp_path / f"{number}.mp4", ClipSpec(10, height=height, width=width))
    plan = ff.plan_clips(ff.scan(tmp_path, workers=0), ff.Uniform(2), seed=0, unequal=True)
    source = ff.dali.external_source(make_loader(plan))
    assert (source.arguments["ndim"][0], source.arguments["layout"][0]) == (4, "FCHW")
    ((clips, *_),) = run_epoch(build(source, change=lambda clip: fn.resize(clip, size=[24, 32])))
    assert clips.shape == (3, 2, 3, 24, 32)
    (batch,) = make_loader(plan)
    outputs = build(ff.dali.external_source(make_loader(plan))).run()
    for output, clip in zip(outputs[0], batch.data, strict=True):
        np.testing.assert_array_equal(np.asarray(output), clip, strict=True)


def test_clips_of_any_length_are_samples_of_any_length(make_loader: Loaders) -> None:
    plan = plan_lengths()
    batches = list(make_loader(plan, batch_size=3))
    pipe = build(ff.dali.external_source(make_loader(plan, batch_size=3)))
    for batch in batches:
        outputs = pipe.run()
        for slot, (clip, times) in enumerate(zip(batch.data, batch.pts_seconds, strict=True)):
            np.testing.assert_array_equal(np.asarray(outputs[0][slot]), clip, strict=True)
            np.testing.assert_array_equal(np.asarray(outputs[1][slot]), times, strict=True)


def test_texts_are_no_outputs_but_their_codes_are(make_loader: Loaders) -> None:
    with pytest.raises(
        ff.UsageError, match=r"columns \['codec'\] hold text, which DALI has no arrays of: plan without"
    ):
        ff.dali.external_source(make_loader(plan_of(columns=["codec"])))
    for source in (
        ff.dali.external_source(make_loader(plan_of(columns={"codec": "codes"}))),
        ff.dali.external_source(make_loader(plan_of(columns=["codec"])), target="codec"),
    ):
        assert [outputs[-1].tolist() for outputs in run_epoch(build(source))] == [[0] * 5, [0] * 5, [0] * 2]


def test_wrong_calls_say_what_to_do(make_loader: Loaders) -> None:
    loader = make_loader(plan_of(columns=[]))
    with pytest.raises(ff.UsageError, match="batch_size: expected a number of clips, because a plan has none"):
        ff.dali.external_source(loader.plan)
    with pytest.raises(ff.UsageError, match="batch_size: the loader has its own, 5: leave it out"):
        ff.dali.external_source(loader, batch_size=5)
    with pytest.raises(ff.UsageError, match=r"plan_or_loader: expected an EpochPlan or an ff\.ClipLoader, got"):
        ff.dali.external_source([loader])  # type: ignore[arg-type]
    with pytest.raises(ff.UsageError, match=r"the plan has no column 'label', only \[\]: plan with columns="):
        ff.dali.external_source(loader, target="label")
    with pytest.raises(ff.UsageError, match="batch_size: expected an integer of at least 1"):
        ff.dali.external_source(loader.plan, batch_size=0)
    request = ff.DecodeRequest(sorted(folder().rglob("*.mp4"))[0], [1])
    for name in ("ok", "clip", "position"):
        with pytest.raises(ff.UsageError, match=rf"columns \['{name}'\] have the same names"):
            ff.dali.external_source(make_loader(ff.plan_requests([request], columns={name: [1]})))
    loader.close()
    with pytest.raises(ff.UsageError, match="this ClipLoader is closed"):
        ff.dali.external_source(loader)


def test_a_loader_that_is_closed_or_used_otherwise_says_so(make_loader: Loaders) -> None:
    loader = make_loader()
    first = build(ff.dali.external_source(loader), depth=1)
    first.run()
    next(iter(loader))
    with pytest.raises(ff.UsageError, match=r"a later iter\(loader\) replaced it"):
        first.run()
    second = build(ff.dali.external_source(loader), depth=1)
    second.run()
    loader.close()
    with pytest.raises(ff.UsageError, match="the loader was closed: make a new one"):
        second.run()


def test_a_source_closes_the_loader_that_it_made_and_no_other(make_loader: Loaders) -> None:
    with ff.dali.external_source(plan_of(), batch_size=5) as own:
        build(own).run()
    with pytest.raises(ff.UsageError, match="this ClipLoader is closed"):
        iter(own.loader)
    loader = make_loader()
    with ff.dali.external_source(loader):
        pass
    assert len(list(loader)) == 3


def count_wrong_batches(loader: ff.ClipLoader, source: Any, epochs: int) -> int:
    """Count the batches whose frames, each of one grey, do not come out of a slow pipeline as they went in."""
    pipe, wrong = build(source, depth=4, change=lambda clip: fn.resize(clip, size=[384, 512])), 0
    for _ in range(epochs):
        for outputs, batch in zip(run_epoch(pipe), loader, strict=True):
            wrong += not np.array_equal(outputs[0][..., ::383, ::511], batch.data[..., ::47, ::63])
    return wrong


def test_dali_holds_the_memory_of_a_batch_until_it_has_used_it(
    make_loader: Loaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader, reference = (make_loader(backend=FlatDecoder(), workers=0, prefetch=1) for _ in range(2))
    source, addresses = ff.dali.external_source(loader), []
    convert = source.converter.convert

    def note(batch: Any) -> list[Any]:
        addresses.append(batch.data.ctypes.data)
        return convert(batch)

    monkeypatch.setattr(source.converter, "convert", note)
    assert count_wrong_batches(reference, source, epochs=5) == 0
    assert len(set(addresses)) < len(addresses) == 15  # memory is used again


def test_memory_that_is_used_again_too_early_would_be_seen(
    make_loader: Loaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader, reference = (make_loader(backend=FlatDecoder(), workers=0, prefetch=1) for _ in range(2))
    source, memory = ff.dali.external_source(loader), np.empty((5, 4, 3, *SIZE), np.uint8)
    convert = source.converter.convert

    def give_same_memory(batch: Any) -> list[Any]:
        outputs = convert(batch)
        outputs[0] = memory[: len(batch)]
        outputs[0][:] = batch.data
        return outputs

    monkeypatch.setattr(source.converter, "convert", give_same_memory)
    assert count_wrong_batches(reference, source, epochs=5) > 0
