"""Wrong calls raise the types that TorchCodec raises: a table of calls, checked with both decoders."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import framefeed as ff
from framefeed.adapters.torch._video_decoder import InvalidMappings, VideoDecoder
from framefeed.decode import NoSuchFrame, RefusedValue, WrongKind
from framefeed.errors import FramefeedError, UsageError
from tests.adapters.torchcodec_calls import CALLS, OPENINGS, STAND_INS, RandomCrop, Resize, names
from tests.corpus import corpus_file

KNOWN_BY_ARRAYS = {
    "d[np.array(3)]": "NumPy's own numbers are taken",
    "d.get_frames_in_range(0, 5, -1)": "ranges are slices",
    "d.get_frames_in_range(5, 0, -1)": "ranges are slices",
    "d.get_frames_in_range(5, 2)": "ranges are slices",
    "d.get_frames_in_range(-3, 3)": "ranges are slices",
}
"""Rows that are fine for ``ff.VideoDecoder``, which is no drop-in, and why."""


def evaluate(code: str, **known: Any) -> Any:
    with open(known["path"]) as text_file:
        return eval(code, known | {"text_file": text_file})  # noqa: S307 - rows of a table in this folder


@pytest.fixture(scope="module")
def decoder() -> Iterator[VideoDecoder]:
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        yield decoder


@pytest.fixture(scope="module")
def torchcodec() -> SimpleNamespace:
    decoders = pytest.importorskip("torchcodec.decoders")
    transforms = pytest.importorskip("torchcodec.transforms")
    return SimpleNamespace(kind=decoders.VideoDecoder, transforms=transforms)


def check_raised(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(error, kind)
    assert isinstance(error, FramefeedError), "also ours, so that one handler takes all"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert str(type(error)(str(error))) == str(error), "PyTorch rebuilds errors from their message"


@pytest.mark.parametrize("call", CALLS)
def test_a_bad_call_raises_torchcodecs_type(call: str, decoder: VideoDecoder) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asserted below
        evaluate(call, d=decoder, **names())
    check_raised(raised.value, CALLS[call])


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_bad_opening_raises_torchcodecs_type(opening: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asserted below
        evaluate(f"kind({opening})[0]", kind=VideoDecoder, **names())
    check_raised(raised.value, OPENINGS[opening])


@pytest.mark.parametrize("call", [call for call in CALLS if call not in KNOWN_BY_ARRAYS and "torch" not in call])
def test_a_bad_call_of_the_array_decoder_raises_it_too(call: str) -> None:
    with ff.VideoDecoder(corpus_file("base.mp4")) as arrays, pytest.raises(Exception) as raised:  # noqa: PT011
        evaluate(call, d=arrays, **names())
    check_raised(raised.value, CALLS[call])


# --- the table itself -------------------------------------------------------------------------------


def raised_by_torchcodec(code: str, **known: Any) -> Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy arrays that are not writable, of complex numbers
        with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asserted by the caller
            evaluate(code, **known)
    return raised.value


@pytest.mark.parametrize("call", CALLS)
def test_torchcodec_raises_what_the_table_says(call: str, torchcodec: SimpleNamespace) -> None:
    theirs = torchcodec.kind(str(corpus_file("base.mp4")))
    assert isinstance(raised_by_torchcodec(call, d=theirs, **names()), CALLS[call])


@pytest.mark.parametrize("opening", OPENINGS)
def test_torchcodec_opens_nothing_of_the_table(opening: str, torchcodec: SimpleNamespace) -> None:
    known = names(torchcodec.transforms)
    error = raised_by_torchcodec(f"kind({opening})[0]", kind=torchcodec.kind, **known)
    assert isinstance(error, OPENINGS[opening])


# --- what the table cannot say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        (WrongKind, (UsageError, ValueError, TypeError, RuntimeError)),
        (RefusedValue, (UsageError, ValueError, RuntimeError)),
        (NoSuchFrame, (IndexError, RuntimeError)),
        (InvalidMappings, (UsageError, ValueError, KeyError, IndexError, TypeError, RuntimeError, OverflowError)),
    ],
)
def test_the_types_are_also_these(kind: type[FramefeedError], kinds: tuple[type[Exception], ...]) -> None:
    assert all(issubclass(kind, other) for other in kinds)
    assert str(kind("what now")) == "what now"


def _with(transform: Any, **options: Any) -> Any:
    """A transform as torchvision's are: with options that TorchCodec's do not have."""
    named = type(type(transform).__name__, (), {"size": transform.size, **options})
    return named()


@pytest.mark.parametrize(
    "transform",
    [
        _with(Resize([32]), interpolation="bilinear", antialias=True),  # what Resize(32), the short side, has
        _with(Resize(None), interpolation="bilinear", antialias=True),
        _with(Resize([32, 32]), interpolation=SimpleNamespace(value="bicubic"), antialias=True),
        _with(Resize([32, 32]), interpolation=SimpleNamespace(value="bilinear"), antialias=False),
        _with(RandomCrop((32, 32)), padding=4),
        _with(RandomCrop((32, 32)), padding=[4, 4]),
        _with(RandomCrop((32, 32)), pad_if_needed=True),
        _with(RandomCrop((32, 32)), fill=255),
        _with(RandomCrop((32, 32)), padding_mode="edge"),
    ],
)
def test_options_of_torchvision_that_torchcodec_refuses_are_refused(transform: Any) -> None:
    with pytest.raises(UsageError):
        VideoDecoder(corpus_file("base.mp4"), transforms=[transform])


@pytest.mark.parametrize(
    "transform",
    [
        _with(Resize([32, 40]), interpolation=SimpleNamespace(value="bilinear"), antialias=True, max_size=None),
        _with(RandomCrop((32, 40)), padding=None, pad_if_needed=False, fill=0, padding_mode="constant"),
    ],
)
def test_torchvisions_transforms_as_they_are_by_default(transform: Any) -> None:
    assert VideoDecoder(corpus_file("base.mp4"), transforms=[transform])[0].shape == (3, 32, 40)


@pytest.mark.parametrize("dtype", [torch.float16, torch.uint16, "auto", "float32", 5])
def test_other_output_types(dtype: Any) -> None:
    with pytest.raises(UsageError, match="output_dtype"):
        VideoDecoder(corpus_file("base.mp4"), output_dtype=dtype)


def test_threads_are_for_the_decoder_that_is_chosen_here() -> None:
    with pytest.raises(UsageError, match="backend"):
        VideoDecoder(corpus_file("base.mp4"), num_ffmpeg_threads=2, backend="pyav")
    with pytest.raises(UsageError, match="at most"):
        VideoDecoder(corpus_file("base.mp4"), num_ffmpeg_threads=2**40)


def test_transforms_are_recognised_by_name() -> None:
    class Narrower(STAND_INS.CenterCrop):  # type: ignore[name-defined, misc]
        """A class of one's own."""

    assert VideoDecoder(corpus_file("base.mp4"), transforms=[Narrower((32, 40))])[0].shape == (3, 32, 40)
