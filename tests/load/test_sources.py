"""Loading from files that are damaged, replaced, many, or were open when the process forked."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from framefeed.catalog import Catalog
from framefeed.errors import CorruptMedia, MissingMedia, StaleSource
from framefeed.load._batch import ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.plan import EpochPlan, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.lengths import either
from tests.load.laws import load_all
from tests.makers import assert_stamps, folder
from tests.programs import run_python


@pytest.fixture
def plan(tmp_path: Path) -> EpochPlan:
    """Eight frames of each of six videos of its own."""
    shutil.copytree(folder(), tmp_path / "videos")
    return plan_clips(scan(tmp_path / "videos", workers=0), Uniform(8), seed=0, shuffle=False)


def damage(plan: EpochPlan, position: int) -> str:
    """Zero packets in the middle of a file behind the back of its index: same size, same time."""
    path = str(plan[position].source)
    facts, packets = os.stat(path), plan.catalog[plan[position].row].frame_index
    assert packets is not None
    table = packets.packets
    with open(path, "r+b") as file:
        for number in range(len(table) // 2, len(table) // 2 + 6):
            file.seek(int(table.offset[number]))
            file.write(bytes(int(table.size[number])))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return path


def assert_only_one_failed(plan: EpochPlan, batches: list[ClipBatch], failed: int, kind: type[Exception]) -> None:
    data = np.concatenate([batch.data for batch in batches])
    errors = [error for batch in batches for error in batch.errors]
    assert [position for position, error in enumerate(errors) if error is not None] == [failed]
    assert type(errors[failed]) is kind
    assert not data[failed].any()
    for position in set(range(len(plan))) - {failed}:
        assert_stamps(plan, position, data[position])


@pytest.mark.parametrize("workers", [0, 2])
def test_D01_a_damaged_file_in_the_middle_is_skipped(plan: EpochPlan, workers: int) -> None:
    path = damage(plan, 3)
    assert_only_one_failed(plan, load_all(plan, batch_size=4, workers=workers, on_error="skip"), 3, CorruptMedia)
    with ClipLoader(plan, batch_size=3, workers=workers) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(CorruptMedia, match="video_000") as caught:
            next(iterator)
    assert (caught.value.position, caught.value.source, caught.value.stage) == (3, path, "decode")
    assert caught.value.frames


@pytest.mark.parametrize("workers", [0, 2])
def test_D09_a_file_replaced_after_indexing_is_stale_and_the_rest_goes_on(plan: EpochPlan, workers: int) -> None:
    write_clip(plan[2].source, ClipSpec(num_frames=31, height=48, width=64, first_stamp=100))
    assert_only_one_failed(plan, load_all(plan, batch_size=4, workers=workers, on_error="skip"), 2, StaleSource)


@pytest.mark.parametrize("workers", [0, 2])
def test_D09_a_file_replaced_between_batches_never_gives_other_frames(plan: EpochPlan, workers: int) -> None:
    with ClipLoader(plan, batch_size=2, workers=workers, prefetch=1, on_error="skip") as loader:
        list(loader)
        other = Path(str(plan[5].source)).with_suffix(".new.mp4")
        write_clip(other, ClipSpec(num_frames=30, height=48, width=64, first_stamp=500))
        iterator = iter(loader)
        first = next(iterator)
        os.replace(other, plan[5].source)
        batches = [first, *iterator]
        again = list(loader)
    # What was made ahead may still be of the file as it was.
    if batches[-1].ok.all():
        assert_stamps(plan, 5, batches[-1].data[1])
    else:
        assert_only_one_failed(plan, batches, 5, StaleSource)
    assert_only_one_failed(plan, again, 5, StaleSource)


def test_a_missing_file_is_an_error(plan: EpochPlan) -> None:
    os.unlink(plan[1].source)
    with ClipLoader(plan, batch_size=6, workers=2) as loader, pytest.raises(MissingMedia) as caught:
        next(iter(loader))
    assert (caught.value.position, caught.value.source) == (1, plan[1].source)


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_missing_file_of_a_catalog_says_where_its_paths_start(tmp_path: Path, is_relative: bool) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    write_clip(videos / "a.mp4", ClipSpec(num_frames=30, height=48, width=64))
    scan(videos, root=videos if is_relative else None, out=tmp_path / "cat.parquet")
    if not is_relative:
        os.rename(videos, tmp_path / "moved")
    lost = plan_clips(Catalog.open(tmp_path / "cat.parquet"), Uniform(2), seed=0)
    hint = f'the paths of this catalog are relative to {tmp_path}: .*Catalog.open\\(..., root="FOLDER"\\)'
    with ClipLoader(lost, batch_size=1, workers=1) as loader, pytest.raises(MissingMedia) as caught:
        next(iter(loader))
    assert bool(re.search(hint, str(caught.value))) == is_relative
    assert str(caught.value).endswith("(clip at position 0)")
    if is_relative:
        moved = plan_clips(Catalog.open(tmp_path / "cat.parquet", root=videos), Uniform(2), seed=0)
        with ClipLoader(moved, batch_size=1) as loader:
            assert next(iter(loader)).ok.all()


def test_bytes_are_sources_too(plan: EpochPlan) -> None:
    data = Path(str(plan[0].source)).read_bytes()
    in_memory = plan_requests([DecodeRequest(source=data, indices=[3, 0, 29])])
    (batch,) = load_all(in_memory, batch_size=1, workers=2)
    assert batch.sources == [data]
    assert_stamps(in_memory, 0, batch.data[0])


def run(module: str, *words: str) -> tuple[str, str]:
    """Run a module of this folder as a program of its own, warnings as errors; return its output and errors."""
    finished = run_python("-W", "error", "-m", f"tests.load.{module}", *words)
    return finished.stdout, finished.stderr


def test_L01_children_of_a_process_that_has_decoded_decode_the_same() -> None:
    assert run("forked") == ("8 of 8\n", "")


@pytest.mark.slow
@pytest.mark.long
def test_L09_thousands_of_opens_with_128_descriptors() -> None:
    assert run("many_files", str(either(short=600, long=10_000))) == ("True 0\n", "")
