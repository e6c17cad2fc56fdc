"""Pipelines that framefeed builds: what DALI does to clips, how epochs end, and what goes wrong."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip
from tests.load.test_lengths import plan_lengths
from tests.makers import SIZE, folder, plan_of

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")
torch = pytest.importorskip("torch")

MakePipe = Callable[..., Any]
HUGE = (65_535, 65_535)
"""The largest pictures: as floats, a batch of clips of them takes a terabyte."""
NO_CHANNELS = (
    (10**400, 0, 0), ("0.5", "0.5", "0.5"), (True, False, True), "000", bytes(3), np.array(0.5),
    {0: 0, 1: 1, 0.5: 2}, {0, 0.5, 1}, (0.5, 0.5, float("nan")), np.eye(3), None.__class__,
)  # fmt: skip
"""What is no mean of three channels."""


def positions_of(batches: Any) -> list[list[int]]:
    return [batch["position"].tolist() for batch in batches]


def expected_positions(epochs: int = 2) -> list[list[int]]:
    with ff.ClipLoader(plan_of(), batch_size=5, workers=0) as loader:
        return [batch.positions.tolist() for _ in range(epochs) for batch in loader]


# --- what DALI does to clips ------------------------------------------------------------------------


def test_pairs_are_tensors_of_clips_and_targets(make_pipe: MakePipe) -> None:
    pipe = make_pipe(size=SIZE)
    assert len(ff.dali.iterate(pipe)) == len(pipe) == 3
    with ff.ClipLoader(plan_of(), batch_size=5, workers=0) as loader:
        for (clips, labels), batch in zip(ff.dali.iterate(pipe, target="label"), loader, strict=True):
            assert (clips.dtype, labels.dtype) == (torch.uint8, torch.int64)
            assert np.array_equal(clips, batch.data)  # of the plan's own size: nothing is resized
            assert np.array_equal(labels, batch["label"])
            assert torch.nn.functional.cross_entropy(torch.zeros(len(clips), 2), labels) > 0


def test_clips_are_resized_with_antialiasing(make_pipe: MakePipe) -> None:
    plan, size = plan_of(shuffle=False), (17, 23)
    (batch,) = ff.dali.iterate(make_pipe(plan, batch_size=12, size=size))
    assert batch["clip"].shape == (12, 4, 3, *size)
    with ff.ClipLoader(plan, batch_size=12, workers=0) as loader:
        (own,) = loader
    for clip, whole in zip(batch["clip"].flatten(0, 1), own.data.reshape(-1, 3, *SIZE), strict=True):
        picture = Image.fromarray(whole.transpose(1, 2, 0)).resize(size[::-1], Image.Resampling.BILINEAR)
        difference = np.abs(clip.permute(1, 2, 0).numpy().astype(int) - np.asarray(picture))
        assert (difference.mean() < 0.5, difference.max() < 10) == (True, True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    "scale", [{}, {"mean": (0.4, 0.5, 0.6)}, {"mean": [0, 0, 0], "std": np.array([0.2, 0.25, 0.3])}]
)
def test_floats_are_normalised(make_pipe: MakePipe, dtype: str, scale: dict[str, Any]) -> None:
    mean, std = (np.reshape(scale.get(name, [default] * 3), (3, 1, 1)) for name, default in (("mean", 0), ("std", 1)))
    with ff.ClipLoader(plan_of(), batch_size=5, workers=0) as loader:
        for (clips, _), batch in zip(
            ff.dali.iterate(make_pipe(dtype=dtype, **scale), target="label"), loader, strict=True
        ):
            assert str(clips.dtype) == f"torch.{dtype}"
            expected = (batch.data / 255 - mean) / std
            np.testing.assert_allclose(clips.float(), expected, atol=2e-3 if dtype == "float16" else 1e-6, rtol=0)


def test_pictures_are_clips_of_one_frame_upright(make_pipe: MakePipe, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for number in range(3):
        picture = Image.fromarray(rng.integers(0, 255, (24, 40, 3), np.uint8))
        exif = picture.getexif()
        exif[0x0112] = 6  # turn by 90 degrees to the right
        picture.save(tmp_path / f"{number}.png", exif=exif)
    plan = ff.plan_clips(ff.scan(tmp_path, workers=0), ff.Uniform(1), seed=0, shuffle=False)
    whole, last = ff.dali.iterate(make_pipe(plan, batch_size=2))
    assert (whole["clip"].shape, last["clip"].shape) == ((2, 1, 3, 40, 24), (1, 1, 3, 40, 24))
    stored = np.asarray(Image.open(tmp_path / "2.png"))
    assert np.array_equal(last["clip"][0, 0].permute(1, 2, 0), np.rot90(stored, -1))


def test_unequal_clips_need_a_size(make_pipe: MakePipe, tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(48, 64), (64, 48), (32, 96)]):
        write_clip(tmp_path / f"{number}.mp4", ClipSpec(10, height=height, width=width))
    with pytest.raises(ff.UsageError, match=r"differ in their number of frames.*external_source"):
        make_pipe(plan_lengths(), size=(16, 24))
    plan = ff.plan_clips(ff.scan(tmp_path, workers=0), ff.Uniform(2), seed=0, unequal=True)
    with pytest.raises(ff.UsageError, match=r"size: the clips of a plan with unequal=True have no common size"):
        make_pipe(plan)
    (batch,) = ff.dali.iterate(make_pipe(plan, size=(20, 30), dtype="float32"))
    assert batch["clip"].shape == (3, 2, 3, 20, 30)
    assert 0 <= batch["clip"].min() < batch["clip"].max() <= 1


def test_wrong_calls_say_what_to_do(make_pipe: MakePipe) -> None:
    for wrong, message in (
        ({"mean": (0.5, 0.5, 0.5)}, 'mean: uint8 holds no normalised values: give dtype="float32"'),
        ({"std": (0.5, 0.5, 0.5)}, "std: uint8 holds no normalised values"),
        ({"dtype": "float32", "mean": 0.5}, "mean: expected three numbers from 0 to 1, of red, green and blue"),
        ({"dtype": "float32", "mean": (123, 117, 104)}, "mean: .* divide those for pixels of 0 to 255 by 255"),
        ({"dtype": "float32", "std": (255, 255, 255)}, "std: .* divide those for pixels of 0 to 255 by 255"),
        ({"dtype": "float32", "std": (0.5, 0, 0.5)}, "std: expected three numbers from 0.0001 to 1"),
        ({"dtype": "float32", "std": (0.5, 0.5)}, "std: expected three numbers from"),
        *(({"dtype": "float32", "mean": wrong}, "mean: expected three numbers") for wrong in NO_CHANNELS),
        ({"dtype": "float64"}, "dtype: expected 'uint8', 'float16' or 'float32', got the string 'float64'"),
        ({"size": 224}, r"size: expected \(height, width\)"),
        ({"size": (2**31, 2)}, r"size: expected \(height, width\), from 1 to 65535"),
        ({"size": (True, 4)}, r"size: expected \(height, width\)"),
        ({"batch_size": 2**31}, "batch_size: expected an integer from 1 to 2147483647"),
        ({"batch_size": 0}, "batch_size: expected an integer of at least 1"),
        ({"on_error": "ignore"}, "on_error: expected"),
        ({"device": "cuda"}, "device: expected an integer of at least 0"),
        ({"device": -1}, "device: expected an integer of at least 0"),
    ):
        with pytest.raises(ff.UsageError, match=message):
            make_pipe(**wrong)
    with pytest.raises(ff.UsageError, match="plan: expected an EpochPlan"):
        ff.dali.pipeline(folder(), batch_size=2)
    with pytest.raises(ff.UsageError, match=r"pipe: expected what ff\.dali\.pipeline returns"):
        ff.dali.iterate(plan_of())
    with pytest.raises(ff.UsageError, match="the plan has no column 'class', only \\['label'\\]"):
        ff.dali.iterate(make_pipe(), target="class")
    for wrong_target in (np.array(["label"]), np.array(["label", "x"]), 1):
        for call in (ff.dali.iterate, ff.dali.external_source):
            with pytest.raises(ff.UsageError, match="target: expected the name of a column"):
                call(make_pipe() if call is ff.dali.iterate else make_pipe().source.loader, target=wrong_target)
    with ff.ClipLoader(plan_of(columns=["label", "num_frames"]), batch_size=5) as loader:
        pipe = ff.dali.ClipPipeline(ff.dali.external_source(loader, target="label"))
        with pytest.raises(ff.UsageError, match="target: 'num_frames' is no output of this pipeline, only clip, "):
            ff.dali.iterate(pipe, target="num_frames")
        for source in (loader, loader.plan, None):
            with pytest.raises(ff.UsageError, match=r"source: expected what ff\.dali\.external_source returns"):
                ff.dali.ClipPipeline(source)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_missing_is_named(make_pipe: MakePipe, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        ff.UsageError, match=r"device=0: .*(driver of NVIDIA|finds no GPU).*; device=None runs the same"
    ):
        make_pipe(device=0)
    assert capfd.readouterr().err == ""


# --- epochs -----------------------------------------------------------------------------------------


def test_an_epoch_ends_with_its_last_batch_and_not_before(make_pipe: MakePipe) -> None:
    pipe = make_pipe()
    batches, expected = ff.dali.iterate(pipe), expected_positions(epochs=4)
    assert positions_of(batch for _, batch in zip(range(2), batches, strict=False)) == expected[:2]
    assert positions_of(batches) == expected[:3]  # left early: begun again
    assert batches.state_dict()["plan"]["epoch"] == 1
    counted = iter(batches)
    assert positions_of(next(counted) for _ in range(3)) == expected[3:6]
    assert (batches.state_dict()["plan"]["epoch"], batches.state_dict()["delivered"]) == (2, 0)
    assert next(counted, None) is next(counted, None) is None
    assert positions_of(ff.dali.iterate(pipe)) == expected[6:9]


def test_a_rank_without_clips_has_empty_epochs(make_pipe: MakePipe) -> None:
    pipe = make_pipe(plan_of(rank=0, world_size=20, tail="drop"))
    assert [positions_of(ff.dali.iterate(pipe)) for _ in range(2)] == [[], []]
    assert ff.dali.iterate(pipe).state_dict()["plan"]["epoch"] == 2


def test_L16_a_later_iteration_ends_the_one_before(make_pipe: MakePipe) -> None:
    batches, expected = ff.dali.iterate(make_pipe()), expected_positions()
    first, second = iter(batches), iter(batches)
    with pytest.raises(ff.UsageError, match="this iterator has ended: a later iteration of the pipeline replaced it"):
        next(first)
    assert positions_of([next(second)]) == expected[:1]
    third = iter(batches)
    assert positions_of(third) == expected[:3]
    with pytest.raises(ff.UsageError, match="use one iterator at a time"):
        next(second)


def test_a_state_is_loaded_in_mid_epoch(make_pipe: MakePipe) -> None:
    pipe, expected = make_pipe(), expected_positions()
    batches = ff.dali.iterate(pipe)
    running = iter(batches)
    next(running)
    state = batches.state_dict()
    next(running)
    batches.load_state_dict(state)
    with pytest.raises(ff.UsageError, match="load_state_dict was called: iterate again"):
        next(running)
    assert batches.state_dict() == state
    assert positions_of(batches) == expected[1:3]
    with ff.ClipLoader(plan_of(), batch_size=5) as loader:
        loader.load_state_dict(state)
        assert [batch.positions.tolist() for batch in loader] == expected[1:3]
    with pytest.raises(ff.UsageError, match="state: expected what"):
        batches.load_state_dict({})


def test_L13_a_state_counts_what_was_given_after_a_break_and_after_the_end(make_pipe: MakePipe) -> None:
    pipe, expected = make_pipe(), expected_positions()
    batches = ff.dali.iterate(pipe)
    for batch in batches:
        assert batch["position"].tolist() == expected[0]
        break
    state = batches.state_dict()
    assert state["delivered"] == 1
    running = iter(batches)  # begins the epoch again, and has given nothing
    assert batches.state_dict()["delivered"] == 0
    next(running)
    pipe.close()
    assert batches.state_dict() == state
    resumed = ff.dali.iterate(make_pipe())
    resumed.load_state_dict(state)
    assert positions_of(resumed) == expected[1:3]


def test_an_interruption_in_the_conversion_counts_no_batch(
    make_pipe: MakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = ff.dali.iterate(make_pipe())
    running = iter(batches)
    next(running)

    def interrupt(tensor: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch.utils.dlpack, "from_dlpack", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(running)
    assert batches.state_dict()["delivered"] == 1


@pytest.mark.parametrize("way", ["batches", "loader"])
def test_an_epoch_is_set_also_after_a_break(make_pipe: MakePipe, way: str) -> None:
    pipe, expected = make_pipe(), expected_positions(epochs=1)
    batches = ff.dali.iterate(pipe)
    trainer = batches if way == "batches" else pipe.source.loader
    for given, epoch in itertools.product(range(3), (4, 1, 0)):
        for _ in zip(range(given), batches, strict=False):
            pass
        trainer.set_epoch(epoch)
        assert positions_of(batches) == expected
        assert batches.state_dict()["plan"]["epoch"] == epoch + 1
        trainer.set_epoch(0)
    running = iter(batches)
    next(running)
    trainer.set_epoch(4)
    if way == "loader":
        next(running)
    assert positions_of(batches) == expected
    assert batches.state_dict()["plan"]["epoch"] == 5
    batches.set_epoch(0)
    running = iter(batches)
    next(running)
    batches.set_epoch(0)  # it is: nothing changes
    assert next(running)["position"].tolist() == expected[1]
    batches.set_epoch(1)
    with pytest.raises(ff.UsageError, match="set_epoch was called: iterate again"):
        next(running)
    assert (batches.state_dict()["plan"]["epoch"], batches.state_dict()["delivered"]) == (1, 0)


def test_L16_two_pipelines_over_one_source_have_their_own_epochs(make_pipe: MakePipe) -> None:
    expected = expected_positions(epochs=4)
    with ff.ClipLoader(plan_of(), batch_size=5) as loader:
        source = ff.dali.external_source(loader)
        one, other = (ff.dali.iterate(ff.dali.ClipPipeline(source)) for _ in range(2))
        assert positions_of(one) == expected[:3]
        iter(source)
        assert loader.epoch == 1
        assert positions_of(other) == expected[3:6]
        assert loader.epoch == 2
        running = iter(one)
        next(running)
        next(iter(other))
        with pytest.raises(ff.UsageError, match="this iterator has ended: a later iter"):
            list(running)


def test_the_pipeline_for_dalis_iterators_is_another_than_that_of_iterate(make_pipe: MakePipe) -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    pipe, expected = make_pipe(), expected_positions(epochs=3)
    for epoch in range(0, 3, 2):
        assert positions_of(ff.dali.iterate(pipe)) == expected[3 * epoch : 3 * epoch + 3]
        if not epoch:
            batches = pytorch.DALIGenericIterator([pipe.dali], list(pipe.output_names), size=-1)
            assert [batch[0]["position"].tolist() for batch in batches] == expected[3:6]
            with pytest.raises(ff.UsageError, match=r"use pipe\.source\.state_dict"):
                pipe.state_dict()


def test_the_pipeline_for_dalis_iterators_may_be_all_that_is_kept() -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    pipe = ff.dali.pipeline(plan_of(), batch_size=5)
    names = list(pipe.output_names)
    batches = pytorch.DALIGenericIterator([pipe.dali], names, size=-1)
    del pipe
    gc.collect()
    assert [batch[0]["position"].tolist() for batch in batches] == expected_positions()[:3]
    del batches
    gc.collect()


def test_a_pipeline_that_is_dropped_ends_without_the_collector(make_pipe: MakePipe) -> None:
    gc.collect()
    gc.disable()
    try:
        pipe = ff.dali.pipeline(plan_of(), batch_size=5, workers=1)
        next(iter(ff.dali.iterate(pipe)))
        dropped = weakref.ref(pipe.source.loader)
        del pipe
        assert dropped() is None
    finally:
        gc.enable()


def test_two_pipelines_run_at_once(make_pipe: MakePipe) -> None:
    first, second = (ff.dali.iterate(make_pipe(plan_of(rank=rank, world_size=2))) for rank in range(2))
    assert [
        sorted([*one["position"].tolist(), *other["position"].tolist()])
        for one, other in zip(first, second, strict=True)
    ] == [list(range(10)), [10, 11]]


def test_tensors_keep_their_values_while_others_are_dropped_and_after_the_end(make_pipe: MakePipe) -> None:
    pipe = make_pipe()
    batches, kept, addresses = ff.dali.iterate(pipe), [], []
    # Every third tensor is kept, while the memory of the others is used again.
    for number, batch in enumerate(batch for _ in range(10) for batch in batches):
        addresses.append(batch["clip"].data_ptr())
        if number % 3 == 1:
            kept.append((batch["clip"], crc32(batch["clip"].numpy())))
    assert len(set(addresses)) < len(addresses)
    assert len({clips.data_ptr() for clips, _ in kept}) == len(kept) == 10
    pipe.close()
    del pipe, batches, batch
    gc.collect()
    assert [crc32(clips.numpy()) for clips, _ in kept] == [checksum for _, checksum in kept]


def test_a_closed_pipeline_says_so(make_pipe: MakePipe) -> None:
    pipe = make_pipe()
    running = iter(ff.dali.iterate(pipe))
    next(running)
    pipe.close()
    with pytest.raises(ff.UsageError, match="this pipeline is closed: make a new one"):
        next(running)
    for call in (lambda: iter(ff.dali.iterate(pipe)), lambda: pipe.dali):
        with pytest.raises(ff.UsageError, match="this pipeline is closed: make a new one"):
            call()
    pipe.close()


def test_dalis_own_iterator_takes_the_pipeline(make_pipe: MakePipe) -> None:
    pytorch = pytest.importorskip("nvidia.dali.plugin.pytorch")
    pipe = make_pipe()
    batches = pytorch.DALIGenericIterator([pipe.dali], list(pipe.output_names), size=-1, auto_reset=True)
    for _ in range(2):
        assert [len(batch[0]["label"]) for batch in batches] == [5, 5, 2]


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.fixture
def broken_plan(tmp_path: Path) -> ff.EpochPlan:
    """Six clips in order, of which that at position 1 is damaged and that at position 4 is gone."""
    for number, video in enumerate(sorted(folder().rglob("*.mp4"))):
        shutil.copy(video, tmp_path / f"{number}.mp4")
    plan = ff.plan_clips(ff.scan(tmp_path, workers=0), ff.Uniform(4), seed=0, shuffle=False, columns=["num_frames"])
    damaged = tmp_path / "1.mp4"
    whole, times = damaged.read_bytes(), damaged.stat()
    damaged.write_bytes(whole[: len(whole) // 3] + bytes(len(whole) // 3) + whole[2 * (len(whole) // 3) :])
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "4.mp4").unlink()
    return plan


def test_D04_a_file_that_fails_is_zeros_and_named_and_ends_no_epoch(
    make_pipe: MakePipe, broken_plan: ff.EpochPlan
) -> None:
    pipe = make_pipe(broken_plan, on_error="skip", batch_size=4, dtype="float32", mean=(0.5, 0.5, 0.5), size=(20, 30))
    for _ in range(2):
        first, last = ff.dali.iterate(pipe)
        assert (first["ok"].tolist(), last["ok"].tolist()) == ([True, False, True, True], [False, True])
        assert not first["clip"][1].any()
        assert not last["clip"][0].any()
        assert first["clip"][0].any()
        assert first["pts_seconds"][1].isnan().all()
    assert [frames for _, targets in ff.dali.iterate(pipe, target="num_frames") for frames in targets.tolist()] == [
        30, -100, 30, 30, -100, 30
    ]  # fmt: skip
    assert {(Path(str(entry.source)).name, entry.position) for entry in pipe.ledger} == {("1.mp4", 1), ("4.mp4", 4)}


def test_L05_an_error_comes_at_its_place_with_its_type_and_the_next_call_goes_on(
    make_pipe: MakePipe, broken_plan: ff.EpochPlan
) -> None:
    pipe = make_pipe(broken_plan, batch_size=2)
    batches = ff.dali.iterate(pipe)
    for epoch in range(2):
        running = iter(batches)
        with pytest.raises(ff.MediaError, match=r"1\.mp4") as caught:
            next(running)
        assert caught.value.position == 1
        assert positions_of([next(running)]) == [[2, 3]]
        with pytest.raises(ff.MissingMedia, match=r"4\.mp4"):
            next(running)
        assert batches.state_dict()["clips"] == 4
        assert next(running, None) is None
        assert batches.state_dict()["plan"]["epoch"] == epoch + 1


def test_an_epoch_is_set_after_an_error_in_place_of_the_first_batch(
    make_pipe: MakePipe, broken_plan: ff.EpochPlan
) -> None:
    batches = ff.dali.iterate(make_pipe(broken_plan, batch_size=2))
    running = iter(batches)
    with pytest.raises(ff.CorruptMedia):
        next(running)
    batches.set_epoch(3)
    with pytest.raises(ff.UsageError, match="set_epoch was called: iterate again"):
        next(running)
    iter(batches)
    assert batches.state_dict()["plan"]["epoch"] == 3


def test_an_error_of_dali_names_the_clips_and_keeps_its_text(
    make_pipe: MakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = make_pipe()

    def give_another_type(batch: Any) -> Any:
        return [batch.data.astype(np.float32), batch.pts_seconds, batch.positions, batch.ok, batch["label"]]

    monkeypatch.setattr(pipe.source.converter, "convert", give_another_type)
    for _ in range(2):
        running = iter(ff.dali.iterate(pipe))
        with pytest.raises(
            ff.LoadError, match=r"DALI failed in the batch of the clips at positions \[0, 1, 2, 3, 4\]"
        ) as (caught):
            next(running)
        assert ".mp4" in str(caught.value)
        assert "2 more" in str(caught.value)
        assert str(caught.value.__cause__) in str(caught.value)
        with pytest.raises(ff.UsageError, match="this iterator has ended: DALI failed: iterate again"):
            next(running)
    assert ff.dali.iterate(pipe).state_dict()["delivered"] == 0


def test_a_shortage_of_memory_in_dali_is_no_fact_about_the_files(make_pipe: MakePipe) -> None:
    pipe = make_pipe(size=HUGE, dtype="float32")
    for _ in range(2):
        with pytest.raises(ff.ResourceExhausted, match=r"positions \[0, 1.*use a smaller batch_size or size") as caught:
            next(iter(ff.dali.iterate(pipe)))
        assert caught.value.resource == "memory"


def test_an_interrupted_fetch_ends_the_iteration(make_pipe: MakePipe, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = make_pipe()
    batches, expected = ff.dali.iterate(pipe), expected_positions()
    running = iter(batches)
    next(running)

    def interrupt(batch: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipe.source.converter, "convert", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(running)
    with pytest.raises(ff.UsageError, match="this iterator has ended: it was interrupted: iterate again"):
        next(running)
    batches.load_state_dict(batches.state_dict())
    assert positions_of(batches) == expected[1:3]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_L01_a_forked_child_builds_its_own_pipeline(make_pipe: MakePipe) -> None:
    pipe, expected = make_pipe(), expected_positions()
    batches = ff.dali.iterate(pipe)
    running = iter(batches)
    next(running)
    child = os.fork()
    if child == 0:
        right = False
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            try:
                next(running)
            except ff.UsageError as error:
                right = "of another process, whose threads are not in this one: iterate again" in str(error)
            right = right and positions_of(batches) == expected[:3]
            gc.collect()
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert positions_of(running) == expected[1:3]


FORKED = """
import os, sys
import framefeed as ff
plan = ff.plan_clips(ff.scan(sys.argv[1], workers=0), ff.Uniform(2), seed=0)
batches = ff.dali.iterate(ff.dali.pipeline(plan, batch_size=2, workers=1))
next(iter(batches))
child = os.fork()
if child == 0:
    sys.exit(len(list(batches)))
raise SystemExit(os.waitpid(child, 0)[1] != 3 << 8)
"""


def test_L01_a_forked_child_exits_quietly() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, folder()], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_torch_is_imported_when_it_is_needed() -> None:
    code = "import sys, framefeed.dali; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=100)
