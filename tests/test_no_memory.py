"""Where there is no memory for pictures, every door says how much was wanted and what to ask for instead."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import framefeed as ff
from framefeed._units import format_bytes
from framefeed.cli import main
from framefeed.decode import find_decoder
from tests.cli.running import only_line
from tests.makers import catalog, folder, plan_of

LARGE = 9000
SIZES = re.compile(r"[\d.,]+ [kM]B")
"""Bytes that there is no memory for; pictures of the media here have 9,216, their bookkeeping less."""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Refuse large allocations, and list their sizes."""
    catalog()
    empty, asked = np.empty, list[int]()

    def empty_if_small(shape: Any, dtype: Any = float, *rest: Any, **options: Any) -> Any:
        nbytes = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
        if nbytes >= LARGE:
            asked.append(nbytes)
            raise MemoryError(f"Unable to allocate {nbytes} bytes")
        return empty(shape, dtype, *rest, **options)

    monkeypatch.setattr(np, "empty", empty_if_small)
    return asked


@pytest.fixture(scope="module")
def clip() -> Path:
    return sorted(folder().rglob("*.mp4"))[0]


def cached(path: Path, form: Any) -> ff.FrameCache:
    return ff.FrameCache(path / "cache", codec="raw", form=form)


def first_batch(**options: Any) -> Any:
    with ff.ClipLoader(plan_of(), batch_size=4, **options) as loader:
        return next(iter(loader))


def read_on(clip: Path, cache: ff.FrameCache) -> list[Any]:
    return list(ff.VideoDecoder(clip, backend=cache.decoder(find_decoder())))


CALLS: dict[str, Callable[[Path, Path], Any]] = {
    "loader": lambda clip, _: first_batch(workers=2),
    "loader without workers": lambda clip, _: first_batch(workers=0),
    "loader that skips": lambda clip, _: first_batch(on_error="skip"),
    "loader with a transform": lambda clip, _: first_batch(transform=lambda pixels, rng: pixels),
    "loader with a cache": lambda clip, path: first_batch(cache=cached(path, "planes")),
    "all frames": lambda clip, _: ff.VideoDecoder(clip).get_all_frames(),
    "some frames": lambda clip, _: ff.VideoDecoder(clip).get_frames_at([3, 1]),
    "a slice": lambda clip, _: ff.VideoDecoder(clip)[2:5],
    "one frame": lambda clip, _: ff.VideoDecoder(clip)[5],
    "one after the other": lambda clip, _: list(ff.VideoDecoder(clip)),
    "read on through a cache": lambda clip, path: read_on(clip, cached(path, "output")),
    "read on through planes": lambda clip, path: read_on(clip, cached(path, "planes")),
    "torch frames": lambda clip, _: ff.torch.VideoDecoder(clip).get_all_frames(),
    "torch items": lambda clip, _: ff.torch.ClipDataset(plan_of())[0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.filterwarnings("ignore:cache. about")
def test_a_refused_allocation_is_an_error_with_a_size_and_a_next_step(
    call: Callable[[Path, Path], Any], clip: Path, tmp_path: Path, refused: list[int]
) -> None:
    with pytest.raises(ff.ResourceExhausted, match=r"ran out of memory for [\d.]+ [kM]B: .*smaller.*size") as raised:
        call(clip, tmp_path)
    assert raised.value.resource == "memory"
    # A batch begins at a multiple of 64 bytes, and its message has its own size.
    assert {format_bytes(refused[0]), format_bytes(refused[0] - 63)} & set(SIZES.findall(str(raised.value)))
    assert isinstance(raised.value.__cause__, MemoryError)


@pytest.mark.parametrize(("form", "large"), [("output", LARGE), ("planes", LARGE // 2)])
def test_a_refused_allocation_of_a_cache_is_an_error_too(
    form: Any, large: int, tmp_path: Path, refused: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The planes of a picture have half of its bytes.
    monkeypatch.setitem(globals(), "LARGE", large)
    plan, cache = plan_of(), cached(tmp_path, form)
    with pytest.raises(ff.ResourceExhausted, match="ran out of memory"):
        ff.cache.build(plan, cache)


def test_a_float_tensor_that_does_not_fit_is_an_error_with_its_size(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    frames = ff.torch.VideoDecoder(clip, output_dtype=torch.float32)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "to", refuse)
        with pytest.raises(ff.ResourceExhausted, match=r"a tensor \[48, 64, 3\] of torch.float32: ran out of memory"):
            frames[0]
        patch.setattr(torch.Tensor, "to", lambda *_: (_ for _ in ()).throw(RuntimeError("another error")))
        with pytest.raises(RuntimeError, match="another error"):
            frames[0]


def test_the_command_line_prints_a_lack_of_memory_in_one_line(
    tmp_path: Path, refused: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    catalog().to_parquet(tmp_path / "cat.parquet")
    assert main(["feed", str(tmp_path / "cat.parquet"), "--rates", "2:2", "--size", "32x48"]) == 1
    assert "a batch [6, 2, 3, 32, 48]: ran out of memory" in only_line(capfd.readouterr().err)


def test_any_lack_of_memory_is_no_bug_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("Unable to allocate 8 bytes")

    monkeypatch.setattr("framefeed.cli._dispatch", fail)
    assert main(["doctor"]) == 1
    assert "ran out of memory (Unable to allocate 8 bytes)" in only_line(capfd.readouterr().err)
