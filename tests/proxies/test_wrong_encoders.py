"""Encoders that drop, double, swap or change frames: what they write is never delivered."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.encode import ProxyWriter, view_samples
from framefeed.proxies import _estimate, _making
from framefeed.testing import write_clip
from tests.proxies.originals import FRAMES, PLAIN, files_in, make, original, reason_of, rows_of, scan

AT = 10
"""Frame at which an encoder goes wrong."""


class WrongWriter(ProxyWriter):
    """Writes the pictures that ``change`` makes of each: a list, of it and those before."""

    change: Callable[[int, list[Any]], list[Any]]

    def write(self, picture: Any) -> None:
        self.seen = [*getattr(self, "seen", []), picture]
        for each in type(self).change(len(self.seen) - 1, self.seen):
            super().write(each)


def drop(number: int, seen: list[Any]) -> list[Any]:
    return [] if number == AT else [seen[-1]]


def drop_the_last(number: int, seen: list[Any]) -> list[Any]:
    return [] if number == FRAMES - 1 else [seen[-1]]


def double(number: int, seen: list[Any]) -> list[Any]:
    return [seen[-1]] * (1 + (number == AT))


def repeat(number: int, seen: list[Any]) -> list[Any]:
    return [seen[-2]] if number == AT else [seen[-1]]


def swap(number: int, seen: list[Any]) -> list[Any]:
    return [] if number == AT else [seen[-1], seen[-2]] if number == AT + 1 else [seen[-1]]


def lag(number: int, seen: list[Any]) -> list[Any]:
    return [seen[max(0, number - 1)]]


def darken(number: int, seen: list[Any]) -> list[Any]:
    if number == AT:
        samples = view_samples(seen[-1].planes[0])
        samples[:] = samples // 2
    return [seen[-1]]


WRONG = {each.__name__: each for each in (drop, drop_the_last, double, repeat, swap, lag, darken)}


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A video that hardly moves: one column of a smooth picture in each frame."""
    columns = np.linspace(0, 4 * np.pi, 320)
    shades = (120 + 60 * np.sin(columns)[None, :] * np.cos(np.linspace(0, 6, 240))[:, None])[..., None]

    def draw(number: int) -> Any:
        return np.broadcast_to(np.roll(shades, number, axis=1), (240, 320, 3)).round().astype(np.uint8)

    (tmp_path / "in").mkdir()
    spec = replace(PLAIN, draw=draw, codec_options={"crf": "1", "preset": "ultrafast"})
    return write_clip(tmp_path / "in" / "slow.mp4", spec)


def use(monkeypatch: pytest.MonkeyPatch, change: Callable[[int, list[Any]], list[Any]]) -> None:
    """Let videos be written wrongly, but for samples, which say that it pays."""
    wrong = type("ChangedWriter", (WrongWriter,), {"change": staticmethod(change)})
    monkeypatch.setattr(_making, "ProxyWriter", wrong)
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))


@pytest.mark.parametrize("change", WRONG)
@pytest.mark.parametrize("name", ["plain.mp4", "variable.mp4"])
def test_what_a_wrong_encoder_writes_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: str
) -> None:
    use(monkeypatch, WRONG[change])
    path = original(name)
    small = make(scan(path), tmp_path / "out")
    assert reason_of(tmp_path / "out", path.name) in (
        f"the encoder wrote {FRAMES - 1} of {FRAMES} pictures",
        f"the encoder wrote {FRAMES + 1} of {FRAMES} pictures",
        f"the encoder wrote another picture for frame {AT} of {FRAMES}",
        f"the encoder wrote another picture for frame 1 of {FRAMES}",
    )
    assert small[0].source == str(path)
    assert files_in(tmp_path / "out") == {"proxies.parquet"}


@pytest.mark.parametrize("change", [repeat, swap, lag])
def test_frames_that_hardly_differ_are_told_apart(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    use(monkeypatch, change)
    make(scan(slow), tmp_path / "out")
    assert "the encoder wrote another picture for frame" in reason_of(tmp_path / "out", "slow.mp4")


def test_the_right_encoder_passes_where_frames_hardly_differ(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, lambda number, seen: [seen[-1]])
    monkeypatch.setattr(_making, "_QUALITIES", (30, 14, 10))
    make(scan(slow), tmp_path / "out")
    row = rows_of(tmp_path / "out")["slow.mp4"]
    assert row["proxy"] == "slow.mp4" or "times the bytes" in row["reason"]


def test_a_writer_that_counts_wrongly_is_found_by_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(ProxyWriter):
        def write(self, picture: Any) -> None:
            if self.num_pictures != AT:
                super().write(picture)
            else:
                self.num_pictures += 1

    use(monkeypatch, drop)
    monkeypatch.setattr(_making, "ProxyWriter", Lying)
    path = original("plain.mp4")
    make(scan(path), tmp_path / "out")
    assert reason_of(tmp_path / "out", path.name) == (
        f"the encoder wrote {FRAMES - 1} of {FRAMES} pictures, or in another order"
    )
    assert files_in(tmp_path / "out") == {"proxies.parquet"}


def test_a_picture_that_is_written_as_another_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))

    def encode(picture: Any, *words: Any, **options: Any) -> bytes:
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(picture[:, ::-1])).save(file, "JPEG", quality=95)
        return file.getvalue()

    monkeypatch.setattr(_making, "encode_still", encode)
    path = original("still.jpg")
    make(scan(path), tmp_path / "out")
    assert reason_of(tmp_path / "out", path.name) == "the encoder wrote another picture"
    assert files_in(tmp_path / "out") == {"proxies.parquet"}


def test_a_sample_of_a_wrong_encoder_keeps_the_kind_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = type("ChangedWriter", (WrongWriter,), {"change": staticmethod(drop)})
    monkeypatch.setattr(_making, "ProxyWriter", wrong)
    path = original("plain.mp4")
    make(scan(path), tmp_path / "out")
    assert reason_of(tmp_path / "out", path.name).startswith("none of 1 file could be sampled: ")


def test_a_proxy_of_another_size_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = _making.scale_size
    monkeypatch.setattr(_estimate, "_sample_file", lambda *_: _estimate.FileSample(10.0, 1.0, 0.5, 1.0, 1))

    class Shrinker(_making.ProxyShrinker):  # type: ignore[name-defined, misc]
        def __init__(self, stream: Any, size: Any) -> None:
            super().__init__(stream, (size[0] + 2, size[1]))

    monkeypatch.setattr(_making, "ProxyShrinker", Shrinker)
    path = original("plain.mp4")
    make(scan(path), tmp_path / "out")
    assert "pictures, or in another order" in reason_of(tmp_path / "out", path.name)
    assert scaled((240, 320), 96) == (96, 128)
