"""Normalised batches: one value for each byte of a channel, on every path."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache import FrameCache
from framefeed.errors import CorruptMedia, LoadError, UsageError
from framefeed.load import _normalise
from framefeed.load._loader import ClipLoader
from framefeed.load._normalise import Normaliser
from framefeed.load._options import LoaderOptions
from framefeed.plan import Uniform
from framefeed.request import Letterbox
from tests.fakes import SlopedDecoder, fail_some
from tests.load.laws import content, load_all
from tests.load.media import plan_of

pytestmark = pytest.mark.usefixtures("kept_processes")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHARES = st.floats(0, 1, allow_subnormal=False)
STDS = st.floats(1e-3, 10)
BYTES = np.arange(256)


def normaliser_of(dtype: Any = None, mean: Any = MEAN, std: Any = STD) -> Normaliser:
    made = Normaliser.of(dtype, mean, std, has_transform=True)
    assert made is not None
    return made


def compute_exactly(normaliser: Normaliser) -> np.ndarray:
    mean, std = np.broadcast_arrays(np.array(normaliser.mean), np.array(normaliser.std))
    return (BYTES - 255 * mean[:, None]) / (255 * std[:, None])


def look_up(normaliser: Normaliser, clips: np.ndarray) -> np.ndarray:
    """The values of clips [..., C, H, W], in the plainest way."""
    table = np.broadcast_to(normaliser.table, (clips.shape[-3], 256))
    return table[np.arange(clips.shape[-3])[:, None, None], clips]


# --- values -----------------------------------------------------------------------------------------


@given(st.lists(SHARES, min_size=1, max_size=4), STDS)
def test_float32_is_exact_to_its_last_digits_also_near_the_mean(mean: list[float], std: float) -> None:
    normaliser = normaliser_of("float32", mean, std)
    exact = compute_exactly(normaliser)
    assert normaliser.table.dtype == np.float32
    # 1e-12: of float64, in which the exact value is computed here.
    assert (np.abs(normaliser.table - exact) <= 5e-7 * np.abs(exact) + 1e-12 / std).all()


def test_without_a_mean_float32_is_a_division_rounded_once() -> None:
    assert (normaliser_of("float32", None, None).table == BYTES.astype(np.float32) / np.float32(255)).all()
    assert (normaliser_of(None, 0, 1).table == normaliser_of("float32", None, None).table).all()
    assert (normaliser_of(None, 0, 1 / 255).table == BYTES).all()


@given(st.lists(SHARES, min_size=1, max_size=3), STDS)
def test_16_bits_are_the_nearest_to_the_exact_value(mean: list[float], std: float) -> None:
    half, brain = (normaliser_of(dtype, mean, std) for dtype in ("float16", "bfloat16"))
    middle = np.rint(255 * np.array(mean))[:, None]
    # As in float32: in an order that loses no digits.
    exact = (BYTES - middle) / (255 * std) + (middle - 255 * np.array(mean)[:, None]) / (255 * std)
    assert (half.table == exact.astype(np.float16)).all()
    every = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    every = np.unique(every[np.isfinite(every)]).astype(np.float64)
    rounded = (brain.table.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    at = np.clip(np.searchsorted(every, exact), 1, len(every) - 1)
    least = np.minimum(np.abs(every[at] - exact), np.abs(every[at - 1] - exact))
    assert (np.abs(rounded - exact) == least).all()


def test_halves_are_rounded_to_even_in_bfloat16() -> None:
    one, step = 1.0, 2.0**-7
    values = np.array([[one + step / 2, one + 3 * step / 2, -(one + step / 2), one + step / 2 + 2.0**-40, 0.0, -one]])
    rounded = (_normalise._round_to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    assert rounded.tolist() == [[one, one + 2 * step, -one, one + step, 0.0, -one]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 40), st.integers(1, 40)),
    st.booleans(),
    st.sampled_from([7, 100, 1 << 18]),
)
def test_a_clip_has_the_values_of_the_table(dtype: str, shape: Any, one: bool, at_once: int) -> None:
    channels = shape[1]
    mean, std = (0.3, 0.4) if one else ([0.1 * k for k in range(channels)], [0.2 + 0.1 * k for k in range(channels)])
    normaliser = normaliser_of(dtype, mean, std)
    pixels = np.random.default_rng(sum(shape)).integers(0, 256, (*shape[:3], 2 * shape[3]), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_normalise, "_VALUES_AT_ONCE", at_once)
        patch.setattr(_normalise, "_PAIRS_AT_ONCE", at_once)
        # Contiguous, from right to left, every second column, rows and columns swapped.
        for clip in (pixels, pixels[..., ::-1], pixels[..., ::2], pixels.swapaxes(2, 3)):
            out = np.full(clip.shape, 77, normaliser.array_dtype)
            normaliser.write(clip, out)
            assert np.array_equal(out, look_up(normaliser, clip))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)])
def test_a_clip_without_pixels_is_written_too(dtype: str, shape: tuple[int, ...]) -> None:
    normaliser = normaliser_of(dtype, 0.5, 0.5)
    normaliser.write(np.zeros(shape, np.uint8), np.zeros(shape, normaliser.array_dtype))


def test_one_number_is_that_of_each_channel_and_a_copy_has_no_tables() -> None:
    assert (normaliser_of(None, 0.5, 0.25).table == normaliser_of(None, (0.5,) * 3, [0.25] * 3).table).all()
    assert (normaliser_of(None, 0.5, STD).table == normaliser_of(None, (0.5,) * 3, STD).table).all()
    normaliser = normaliser_of("float16")
    assert len(normaliser._pairs) == 3
    copy = pickle.loads(pickle.dumps(normaliser))
    assert copy == normaliser
    assert "_pairs" not in vars(copy)
    assert len(pickle.dumps(normaliser)) < 500


# --- arguments --------------------------------------------------------------------------------------


def options_of(**given: Any) -> LoaderOptions:
    return LoaderOptions(batch_size=1, **given)


def test_arguments_are_accepted_in_every_usual_form() -> None:
    assert options_of().normaliser is None
    assert options_of(mean=MEAN, std=STD).normaliser == Normaliser("float32", MEAN, STD)
    assert options_of(dtype="float16").normaliser == Normaliser("float16", (0,), (1,))
    for dtype in (np.float16, np.dtype("float16"), np.dtype(np.float16).newbyteorder("="), np.half):
        assert options_of(dtype=dtype).dtype == "float16"
    for mean in (np.array(MEAN), list(MEAN), tuple(map(np.float64, MEAN))):
        assert options_of(mean=mean, std=np.array(STD)).normaliser == Normaliser("float32", MEAN, STD)
    assert options_of(mean=np.float32(0.5), std=1).normaliser == Normaliser("float32", (0.5,), (1,))
    again = options_of(**{name: getattr(options_of(mean=MEAN, std=STD), name) for name in ("dtype", "mean", "std")})
    assert again == options_of(mean=MEAN, std=STD)


def test_dtypes_of_torch_are_accepted() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "float16", "bfloat16"):
        assert options_of(dtype=getattr(torch, dtype)).dtype == dtype
    assert options_of(mean=torch.tensor([0.5, 0.25, 0]), std=torch.tensor(1.0)).mean == (0.5, 0.25, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtype": "float64"}, "dtype: expected 'float32', 'float16' or 'bfloat16', got the string 'float64'"),
        ({"dtype": "uint8"}, "dtype: expected"),
        ({"dtype": "torch.float32"}, "dtype: expected"),
        ({"dtype": np.float64}, "dtype: expected"),
        ({"dtype": float}, "got the class float: write one of these strings; did you mean 'float32'"),
        ({"dtype": int}, "'float32', 'float16' or 'bfloat16', got the class int: write one of these strings$"),
        ({"dtype": np.uint8}, "dtype: expected"),
        ({"dtype": 32}, "dtype: expected"),
        ({"dtype": []}, "dtype: expected"),
        ({"mean": MEAN}, "mean: expected std with it"),
        ({"std": STD}, "std: expected mean with it"),
        ({"dtype": "float16", "mean": 0.5}, "mean: expected std with it"),
        ({"mean": MEAN, "std": (0.2, 0, 0.2)}, "std: expected numbers above 0"),
        ({"mean": 0, "std": 0}, "std: expected numbers above 0"),
        ({"mean": 0, "std": -1}, "std: expected numbers above 0"),
        ({"mean": 0, "std": float("nan")}, "std: expected a number"),
        ({"mean": float("inf"), "std": 1}, "mean: expected a number"),
        ({"mean": (0.5, float("nan"), 0.5), "std": 1}, "mean: expected a number"),
        ({"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}, "mean: .* 0 to 255 by 255"),
        ({"mean": "0.5", "std": 1}, "mean: expected a number"),
        ({"mean": True, "std": 1}, "mean: expected a number"),
        ({"mean": (), "std": 1}, "mean: expected a number"),
        ({"mean": [MEAN], "std": 1}, "mean: expected a number"),
        ({"mean": {0.5}, "std": 1}, "mean: expected a number"),
        ({"mean": 0.5, "std": (1, 1)}, "mean and std: .* got 1 and 2 numbers for 3 channels"),
        ({"mean": (0.1, 0.2), "std": STD}, "mean and std: .* got 2 and 3 numbers"),
        ({"dtype": "float16", "mean": 0, "std": 1e-6}, "std: expected numbers that give values of float16"),
        ({"mean": 0, "std": 1e-60}, "std: expected numbers that give values of float32"),
        ({"mean": MEAN, "std": 5e-324}, "std: expected numbers that give values of float32"),
        ({"mean": -10, "std": (1, 5e-324, 1), "dtype": "bfloat16"}, "std: expected numbers that give values of bfloat"),
        ({"mean": 10**400, "std": 1}, "mean: expected a number"),
        ({"mean": 0, "std": float("inf")}, "std: expected a number"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_decoded(given: dict[str, Any], message: str) -> None:
    backend = SlopedDecoder()
    with pytest.raises(UsageError, match=message):
        ClipLoader(plan_of(), batch_size=2, backend=backend, **given)
    assert not backend.calls


def test_bfloat16_without_torch_is_refused_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"bfloat16.* PyTorch.* is not installed: pip install 'framefeed\[torch\]'"):
        ClipLoader(plan_of(), batch_size=2, dtype="bfloat16")
    ClipLoader(plan_of(), batch_size=2, dtype="float16").close()


# --- batches ----------------------------------------------------------------------------------------

BOXED = {"horizontal_flip": 0.5, "size": Letterbox(40, 71, fill=(1, 2, 3))}
UNEQUAL = {"horizontal_flip": 0.5, "unequal": True}


def halve(clip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return clip[:, :, ::2] + rng.integers(3, dtype=np.uint8)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("transform", [None, halve])
@pytest.mark.parametrize("plan_options", [{}, BOXED, UNEQUAL], ids=["plain", "boxed", "unequal"])
def test_every_path_gives_the_values_of_the_pixels(
    dtype: str, transform: Any, plan_options: dict[str, Any], tmp_path: Any
) -> None:
    plan = plan_of(Uniform(3), **plan_options)
    options = {"dtype": dtype, "mean": MEAN, "std": STD, "transform": transform}
    normaliser = normaliser_of(dtype)
    before = load_all(plan, transform=transform)
    with FrameCache(tmp_path / "c") as cache:
        for more in ({}, {"workers": 2}, {"workers": 2, "kind": "processes"}, {"cache": cache}, {"cache": cache}):
            for batch, pixels in zip(load_all(plan, **options, **more), before, strict=True):
                assert type(batch.data) is type(pixels.data)
                for clip, expected in zip(batch.data, pixels.data, strict=True):
                    assert clip.dtype == dtype
                    assert np.array_equal(clip, look_up(normaliser, expected))


@pytest.mark.parametrize("transform", [None, halve])
@pytest.mark.parametrize("plan_options", [BOXED, UNEQUAL], ids=["boxed", "unequal"])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_batches_of_bfloat16_are_tensors(transform: Any, plan_options: dict[str, Any], kind: Any) -> None:
    torch = pytest.importorskip("torch")
    plan = plan_of(Uniform(3), **plan_options)
    normaliser = normaliser_of("bfloat16")
    pixels = [clip for batch in load_all(plan, transform=transform) for clip in batch.data]
    options = {"dtype": torch.bfloat16, "mean": MEAN, "std": STD, "transform": transform, "kind": kind, "workers": 2}
    batches = load_all(plan, **options)
    # All of them are held: none may lie in the memory of another.
    clips = [clip for batch in batches for clip in batch.data]
    for clip, expected in zip(clips, pixels, strict=True):
        assert clip.dtype == torch.bfloat16
        assert np.array_equal(clip.view(torch.int16).numpy().view(np.uint16), look_up(normaliser, expected))
    if "unequal" not in plan_options:
        assert repr(batches[0]).startswith(f"ClipBatch({tuple(batches[0].data.shape)} torch.bfloat16")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("transform", [None, halve])
@pytest.mark.parametrize("plan_options", [BOXED, UNEQUAL], ids=["boxed", "unequal"])
@pytest.mark.parametrize("spoil", [fail_some, lambda ordinals: CorruptMedia("spoiled")])
def test_clips_that_failed_are_zeros_of_the_dtype(dtype: str, transform: Any, plan_options: Any, spoil: Any) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("torch")
    backend = SlopedDecoder(spoil=spoil)
    options = {"dtype": dtype, "mean": MEAN, "std": STD, "on_error": "skip", "backend": backend}
    seen = set()
    for batch in load_all(plan_of(**plan_options), transform=transform, **options):
        for clip, ok in zip(batch.data, batch.ok.tolist(), strict=True):
            seen.add(ok)
            assert str(clip.dtype).removeprefix("torch.") == dtype
            assert bool((clip == 0).all()) is not ok
            if "size" in plan_options:
                assert tuple(clip.shape) == (4, 3, 40 if transform is None else 20, 71)
    assert seen == ({False, True} if spoil is fail_some else {False})


@pytest.mark.parametrize(
    ("transform", "given"),
    [
        (lambda clip, rng: clip.astype(np.float32), r"float32 \[4, 3, 48, 64\]"),
        (lambda clip, rng: clip[0], r"uint8 \[3, 48, 64\]"),
        (lambda clip, rng: clip.astype(np.int64), r"int64 \[4, 3, 48, 64\]"),
        (lambda clip, rng: clip[:, :2], r"3 channels .* \[4, 2, 48, 64\]"),
        (lambda clip, rng: 3.5, r"float64 \[\]"),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_that_returns_no_pixels_is_refused_at_its_first_clip(
    transform: Any, given: str, workers: int
) -> None:
    options = {"transform": transform, "mean": MEAN, "std": STD, "workers": workers, "batch_size": 3}
    with ClipLoader(plan_of(), **options) as loader:
        with pytest.raises(UsageError, match=rf"transform: expected .*{given}") as caught:
            next(iter(loader))
        assert (caught.value.position, caught.value.stage) == (0, "transform")
        with pytest.raises(UsageError, match="transform: expected"):
            loader.describe_batches()
    for batch in load_all(plan_of(), on_error="skip", **options):
        assert {type(error) for error in batch.errors} == {UsageError}
        assert not batch.data.any()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("transform", [None, halve])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_clip_that_cannot_be_written_fails_alone(
    monkeypatch: pytest.MonkeyPatch, dtype: str, transform: Any, workers: int
) -> None:
    plan = plan_of(clips_per_video=4, shuffle=False)
    written = iter(range(len(plan)))
    write = Normaliser.write

    def write_most(self: Normaliser, clip: Any, out: Any) -> None:
        if next(written) == 2:
            raise ValueError("too few")
        write(self, clip, out)

    monkeypatch.setattr(Normaliser, "write", write_most)
    batches = load_all(plan, dtype=dtype, transform=transform, on_error="skip", workers=workers)
    assert sum(int((~batch.ok).sum()) for batch in batches) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_result_without_pixels_fails_as_one_of_another_shape(dtype: str) -> None:
    def cut(clip: Any, rng: np.random.Generator) -> Any:
        return clip if rng.random() < 0.7 else clip[:0]

    outcomes = [batch.ok.tolist() for batch in load_all(plan_of(), transform=cut, dtype=dtype, on_error="skip")]
    assert outcomes == [batch.ok.tolist() for batch in load_all(plan_of(), transform=cut, on_error="skip")]
    assert {ok for batch in outcomes for ok in batch} == {False, True}


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16"])
def test_results_of_unequal_shapes_are_told_without_a_dtype_that_no_user_gave(dtype: str | None) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("torch")

    def cut(clip: Any, rng: np.random.Generator) -> Any:
        return clip[:, :, : rng.integers(1, 9)]

    errors = [
        error for batch in load_all(plan_of(), transform=cut, dtype=dtype, on_error="skip") for error in batch.errors
    ]
    (message,) = {str(error).partition(" as for")[0].partition("[")[0] for error in errors if error}
    assert message == ("transform: expected uint8 " if dtype is None else "transform: expected ")
    assert {"another shape or dtype" in str(error) for error in errors if error} == {dtype is None}


def test_without_dtype_a_transform_may_return_what_it_likes() -> None:
    batches = load_all(plan_of(), transform=lambda clip, rng: clip.mean(dtype=np.float64))
    assert batches[0].data.dtype == np.float64
    assert batches[0].data.shape == (5,)


def test_one_number_fits_any_channels_of_a_transform() -> None:
    batches = load_all(plan_of(), transform=lambda clip, rng: clip[:, :2], mean=0.5, std=0.5)
    assert batches[0].data.shape == (5, 4, 2, 48, 64)


@pytest.mark.parametrize("transform", [None, halve])
def test_batches_are_described_by_their_dtype(transform: Any) -> None:
    for dtype in ("float32", "float16"):
        with ClipLoader(plan_of(), batch_size=5, dtype=dtype, transform=transform) as loader:
            described = loader.describe_batches().arrays["data"]
            data = next(iter(loader)).data
        assert described.dtype == data.dtype == dtype
        assert described.shape[1:] == data.shape[1:]
    pytest.importorskip("torch")
    loader = ClipLoader(plan_of(), batch_size=5, dtype="bfloat16", transform=transform)
    with loader, pytest.raises(UsageError, match=r"bfloat16.* PyTorch.*float32"):
        loader.describe_batches()


def test_a_state_does_not_know_the_dtype() -> None:
    with ClipLoader(plan_of(), batch_size=5, dtype="float16", workers=0) as loader:
        whole = [content(batch) for batch in loader]
        loader.set_epoch(0)
        next(iter(loader))
        state = loader.state_dict()
    with ClipLoader(plan_of(), batch_size=5, workers=0) as plain:
        plain.load_state_dict(state)
        pixels = list(plain)
    with ClipLoader(plan_of(), batch_size=5, dtype="float16", workers=0) as loader:
        loader.load_state_dict(state)
        assert [content(batch) for batch in loader] == whole[1:]
    assert [batch.positions.tolist() for batch in pixels] == [[5, 6, 7, 8, 9], [10, 11]]


def test_an_error_of_a_transform_is_still_its_own() -> None:
    def fail(clip: Any, rng: Any) -> Any:
        raise KeyError("mean")

    loader = ClipLoader(plan_of(), batch_size=5, workers=0, transform=fail, dtype="float32")
    with loader, pytest.raises(LoadError, match="KeyError"):
        next(iter(loader))
