"""ImageSequence: its value, its files in order, its times, and what is noticed when the files change."""

from __future__ import annotations

import os
import pickle
import shutil
from fractions import Fraction
from math import ulp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from framefeed._values import Limits
from framefeed.errors import (
    EmptyVideo,
    FormatChanged,
    LimitExceeded,
    MissingMedia,
    StaleSource,
    UnreadableMedia,
    UsageError,
)
from framefeed.index import probe
from framefeed.media._sequence import ImageSequence, SequenceSource, parse_rate, source_name
from framefeed.media._sequence_files import list_folder, make_natural_key
from framefeed.media._source import MediaSource
from tests.media.pictures import SIZE, write_folder, write_named


def opened(sequence: ImageSequence) -> SequenceSource:
    source = MediaSource.of(sequence)
    assert isinstance(source, SequenceSource)
    return source


def names(folder: Path) -> list[str]:
    return [os.path.basename(path) for path in list_folder(str(folder)).paths]


# --- the value --------------------------------------------------------------------------------------

SEQUENCES = [
    ImageSequence("frames", fps=25),
    ImageSequence("frames", fps=Fraction(30000, 1001)),
    ImageSequence("frames", timestamps=[0.0, 0.5]),
    ImageSequence(["a.png", "b.png"], fps=25),
    ImageSequence(["b.png", "a.png"], fps=25),
    ImageSequence(["a.png", "b.png"], timestamps=[0.0, 0.5]),
]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=repr)
def test_equal_hashable_and_picklable(sequence: ImageSequence) -> None:
    again = pickle.loads(pickle.dumps(sequence))
    assert again == sequence
    assert hash(again) == hash(sequence)
    assert again.digest == sequence.digest
    assert len({*SEQUENCES, again}) == len(SEQUENCES)
    assert len({other.digest for other in SEQUENCES}) == len(SEQUENCES)
    with pytest.raises(AttributeError):
        sequence.fps = Fraction(1)  # type: ignore[misc]


def test_a_relative_path_is_resolved_when_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = ImageSequence("frames", fps=25)
    monkeypatch.chdir("/")
    assert here == ImageSequence(tmp_path / "frames", fps=25)
    assert here.name == source_name(here) == str(tmp_path / "frames")
    assert repr(here) == f"ImageSequence({here.name!r}, fps=25)"


def test_nothing_is_opened_before_it_is_needed() -> None:
    MediaSource.of(ImageSequence("no such folder", fps=25))


@pytest.mark.parametrize(
    ("files", "times"),
    [
        ("frames", {}),
        ("frames", {"fps": 25, "timestamps": [0.0]}),
        ("frames", {"fps": 0}),
        ("frames", {"fps": -5}),
        ("frames", {"fps": float("nan")}),
        ("frames", {"fps": float("inf")}),
        ("frames", {"fps": "fast"}),
        ("frames", {"fps": Fraction(1, 2**63)}),
        ("frames", {"fps": 1e-300}),
        ("frames", {"timestamps": []}),
        ("frames", {"timestamps": [0.0, 0.0]}),
        ("frames", {"timestamps": [1.0, 0.5]}),
        ("frames", {"timestamps": [0.0, float("nan")]}),
        ("frames", {"timestamps": ["now"]}),
        ("frames", {"timestamps": [1e12]}),
        ("frames", {"timestamps": [1.7e9, 1.7e9 + 1e-7]}),
        (["a.png", "b.png"], {"timestamps": [0.0]}),
        ([], {"fps": 25}),
        ([1, 2], {"fps": 25}),
        ([""], {"fps": 25}),
        (["a\0.png"], {"fps": 25}),
        (["http://host/a.png"], {"fps": 25}),
        (b"frames", {"fps": 25}),
        (7, {"fps": 25}),
    ],
)
def test_wrong_arguments_are_usage_errors(files: Any, times: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ImageSequence(files, **times)


# --- order ------------------------------------------------------------------------------------------


def test_natural_order(tmp_path: Path) -> None:
    ordered = ["1.png", "2.PNG", "a.png", "img1.png", "img2.jpg", "img09.png", "img9.png", "img10.jpeg", "img10a.png",
               "imh1.png", "v1.2.png", "v1.10.png"]  # fmt: skip
    for name in reversed(ordered):
        (tmp_path / name).write_bytes(b"x")
    for other in ("notes.txt", "clip.mp4", "png", ".png", "img3.png.bak"):
        (tmp_path / other).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    assert names(tmp_path) == ordered


@given(st.lists(st.text(st.sampled_from("0129a-é"), max_size=6), unique=True))
def test_natural_order_is_one_order_and_compares_runs_of_digits_as_numbers(texts: list[str]) -> None:
    ordered = sorted(texts, key=make_natural_key)
    texts.reverse()
    assert ordered == sorted(texts, key=make_natural_key)
    numbers = [text for text in ordered if text.isdigit() and text.isascii()]
    assert [int(text) for text in numbers] == sorted(int(text) for text in numbers)
    plain = [text for text in ordered if not any(map(str.isdigit, text))]
    assert plain == sorted(plain, key=os.fsencode)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    write_named(tmp_path, ["é1.png", "img2.png"])
    os.rename(os.fsencode(tmp_path / "img2.png"), os.fsencode(tmp_path) + b"/caf\xe9.png")
    assert [os.fsencode(name) for name in names(tmp_path)] == [b"caf\xe9.png", "é1.png".encode()]
    assert len(opened(ImageSequence(tmp_path, fps=25)).files()) == 2


def test_a_list_keeps_its_order_and_repeats(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    given_paths = [tmp_path / f"img{number}.png" for number in (2, 0, 0, 1)]
    sequence = ImageSequence(given_paths, fps=25)
    assert sequence.paths == opened(sequence).files().paths == tuple(map(str, given_paths))
    assert "and 3 more" in sequence.name


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_rate", "meant"),
    [
        (25, Fraction(25)),
        (29.97, Fraction(2997, 100)),
        (30000 / 1001, Fraction(30000, 1001)),
        (24000 / 1001, Fraction(24000, 1001)),
        (0.1, Fraction(1, 10)),
        (1 / 3, Fraction(1, 3)),
        (np.float64(12.5), Fraction(25, 2)),
        (Fraction(60000, 1001), Fraction(60000, 1001)),
        (23.9765432109, Fraction("23.9765432109")),
    ],
)
def test_a_rate_is_the_fraction_that_is_meant(given_rate: Any, meant: Fraction) -> None:
    assert parse_rate(given_rate) == meant
    assert float(parse_rate(given_rate)) == float(given_rate)
    times = ImageSequence("frames", fps=given_rate).times(5)
    assert times.pts.tolist() == [0, 1, 2, 3, 4]
    assert times.time_base == 1 / meant


@given(st.lists(st.floats(-2e9, 2e9), min_size=1, max_size=9, unique=True).map(sorted), st.integers(0, 1))
def test_M24_timestamps_are_exact_or_within_a_nanosecond(seconds: list[float], near: int) -> None:
    seconds = [time / 1e6 for time in seconds] if near else seconds
    furthest = max(map(abs, seconds))
    resolution = ulp(furthest) if furthest * 1e9 >= 2**52 else 1e-9
    assume(np.diff(seconds).min(initial=1) >= 2 * resolution)
    times = ImageSequence("frames", timestamps=seconds).times(len(seconds))
    back = times.pts * float(times.time_base)
    assert np.abs(back - seconds).max() <= resolution / 2
    assert (
        back[np.abs(seconds).argmax()] == furthest or resolution == 1e-9 or -back[np.abs(seconds).argmax()] == furthest
    )
    again = ImageSequence("frames", timestamps=[float(ticks * times.time_base) for ticks in times.pts.tolist()])
    assert again.times(len(seconds)).pts.tolist() == times.pts.tolist()


def test_one_timestamp_a_file(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    with pytest.raises(UsageError, match="2 timestamps for 3 files"):
        probe(ImageSequence(tmp_path, timestamps=[0.0, 1.0]))


# --- what the headers say ---------------------------------------------------------------------------


def test_probing(tmp_path: Path) -> None:
    write_folder(tmp_path, 5)
    info = probe(ImageSequence(tmp_path, fps=Fraction(5, 2)))
    assert (info.kind, info.container, info.codec) == ("video", "image_sequence", "png")
    assert (info.height, info.width) == SIZE
    assert (info.num_frames_from_header, info.average_fps_from_header, info.duration_seconds_from_header) == (5, 2.5, 2)
    assert info.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    timed = probe(ImageSequence(tmp_path, timestamps=[0, 1, 2, 3, 8]))
    assert (timed.average_fps_from_header, timed.duration_seconds_from_header) == (0.5, None)


def test_probing_mixed_codecs(tmp_path: Path) -> None:
    write_named(tmp_path, ["img0.png", "img1.jpg", "img2.webp"])
    assert probe(ImageSequence(tmp_path, fps=25)).codec == "mixed"


def test_pictures_of_unequal_size_are_named(tmp_path: Path) -> None:
    write_folder(tmp_path, 5)
    Image.new("RGB", (65, 48)).save(tmp_path / "img3.png")
    with pytest.raises(FormatChanged, match=r"img3\.png: is 65x48 as displayed.* 64x48"):
        probe(ImageSequence(tmp_path, fps=25))


def test_other_paths_than_folders_of_pictures(tmp_path: Path) -> None:
    empty, file = tmp_path / "empty", tmp_path / "clip.mp4"
    empty.mkdir()
    file.write_bytes(b"x")
    for path, kind in [(empty, EmptyVideo), (file, UnreadableMedia), (tmp_path / "missing", MissingMedia)]:
        with pytest.raises(kind, match=path.name) as raised:
            probe(ImageSequence(path, fps=25))
        assert raised.value.source == str(path)


def test_other_entries_of_a_folder(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    (tmp_path / "img3.png").write_bytes(b"not a picture")
    with pytest.raises(UnreadableMedia, match=r"img3\.png"):
        probe(ImageSequence(tmp_path, fps=25))
    (tmp_path / "img3.png").unlink()
    (tmp_path / "img3.png").symlink_to("nowhere.png")
    with pytest.raises(MissingMedia, match=r"img3\.png"):
        probe(ImageSequence(tmp_path, fps=25))
    (tmp_path / "img3.png").unlink()
    os.mkfifo(tmp_path / "img3.png")
    with pytest.raises(UnreadableMedia, match=r"img3\.png: is a FIFO"):
        probe(ImageSequence(tmp_path, fps=25))


def test_links_to_pictures_are_pictures(tmp_path: Path) -> None:
    write_folder(tmp_path / "real", 3)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "one.png").symlink_to(tmp_path / "real" / "img1.png")
    assert probe(ImageSequence(tmp_path / "linked", fps=25)).num_frames_from_header == 1


def test_limits(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    for limits in (Limits(max_pixels=100), Limits(max_packets=2)):
        with pytest.raises(LimitExceeded):
            probe(ImageSequence(tmp_path, fps=25), limits=limits)


def test_a_sequence_has_no_bytes_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="read the files"):
        opened(ImageSequence(tmp_path, fps=25)).reader()


# --- whether the files are still the same -----------------------------------------------------------


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def rename(folder: Path) -> None:
    os.rename(folder / "img3.png", folder / "img31.png")


def swap(folder: Path) -> None:
    os.rename(folder / "img3.png", folder / "other")
    os.rename(folder / "img4.png", folder / "img3.png")
    os.rename(folder / "other", folder / "img4.png")


def overwrite(folder: Path) -> None:
    """Other bytes, the same length, written into the same file, at another time."""
    path = folder / "img3.png"
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    touch(path, 1)


CHANGES = {
    "removed": lambda folder: os.unlink(folder / "img3.png"),
    "added": lambda folder: shutil.copy(folder / "img3.png", folder / "img3b.png"),
    "renamed": rename,
    "swapped": swap,
    "overwritten": overwrite,
    "longer": lambda folder: (folder / "img3.png").write_bytes((folder / "img3.png").read_bytes() + b"x"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_new", [False, True])
def test_D09_a_change_of_any_file_is_noticed(change: str, is_new: bool, tmp_path: Path) -> None:
    sequence = ImageSequence(write_folder(tmp_path / "frames", 6), fps=25)
    source = opened(sequence)
    identity = source.identity()
    assert source.read_file(3, identity) == (tmp_path / "frames" / "img3.png").read_bytes()
    CHANGES[change](tmp_path / "frames")
    if is_new:  # as in another process
        source.forget()
    with pytest.raises(StaleSource, match="index it again") as raised:
        source.read_file(3, identity)
    assert raised.value.source == sequence.name
    if not is_new and change != "swapped":
        assert "img3" in str(raised.value)


def test_a_removed_folder_is_stale_for_an_index(tmp_path: Path) -> None:
    source = opened(ImageSequence(write_folder(tmp_path / "frames", 3), fps=25))
    identity = source.identity()
    shutil.rmtree(tmp_path / "frames")
    with pytest.raises(StaleSource, match="no such folder"):
        source.read_file(0, identity)
    with pytest.raises(MissingMedia):
        source.stat()


def test_a_removed_file_of_a_list_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    sequence = ImageSequence([tmp_path / f"img{number}.png" for number in range(3)], fps=25)
    source = opened(sequence)
    identity = source.identity()
    (tmp_path / "img1.png").unlink()
    assert source.read_file(0, identity)
    for _ in range(2):
        with pytest.raises((StaleSource, MissingMedia), match=r"img1\.png"):
            source.read_file(1, identity)
        source.forget()
    with pytest.raises(MissingMedia, match=r"img1\.png"):
        probe(sequence)


def test_the_same_bytes_under_new_times_and_elsewhere_are_the_same(tmp_path: Path) -> None:
    here = write_folder(tmp_path / "here", 4)
    source = opened(ImageSequence(here, fps=25))
    identity = source.identity()
    touch(here / "img2.png", 5)
    assert source.read_file(2, identity) == (here / "img2.png").read_bytes()
    assert source.identity().mtime_ns != identity.mtime_ns
    shutil.copytree(here, tmp_path / "there", copy_function=shutil.copyfile)
    copied = opened(ImageSequence(tmp_path / "there", fps=25))
    assert copied.fingerprint() == identity.fingerprint
    assert copied.check_identity(identity) == copied.check_identity(None)


def test_a_rate_is_no_part_of_the_identity(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    one, other = (opened(ImageSequence(tmp_path, fps=fps)).identity() for fps in (1, 2))
    assert one == other
