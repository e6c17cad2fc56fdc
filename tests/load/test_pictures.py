"""Image sequences and stills in plans, loaders and datasets, together with videos, with and without workers."""

from __future__ import annotations

import pickle
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.errors import CorruptMedia, StaleSource, UsageError
from framefeed.load._loader import ClipLoader
from framefeed.media import ImageSequence
from framefeed.plan import AtIndices, Dense, EpochPlan, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, read_stamps, write_clip
from tests.load.laws import check_resume, load_all, run
from tests.media.pictures import SIZE, write_folder

WORKERS = [0, 2]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of three folders of 12 pictures; folder k shows the numbers from 100 k on."""
    root = tmp_path_factory.mktemp("sequences")
    for number, name in enumerate(("a/s0", "a/s1", "a/s2", "b/s0", "b/s1", "b/s2")):
        write_folder(root / name, 12, first=100 * number)
    return root


@pytest.fixture(scope="module")
def videos(root: Path) -> Catalog:
    return scan(root, image_folders="video", fps=Fraction(24000, 1001), label_from="parent", workers=0)


def check_batches(plan: EpochPlan, workers: int, **options: Any) -> None:
    """Every clip is made of the frames that the plan names."""
    delivered = 0
    with ClipLoader(plan, batch_size=4, workers=workers, **options) as loader:
        for batch in loader:
            for slot in range(len(batch)):
                request = plan[delivered]
                numbers = read_stamps(batch.data[slot])
                assert [number % 100 for number in numbers] == request.indices.tolist()
                assert isinstance(request.source, ImageSequence)
                assert batch.sources[slot] == request.source.name
                delivered += 1
    assert delivered == len(plan)


# --- catalogs ---------------------------------------------------------------------------------------


def test_folders_are_rows(videos: Catalog, root: Path) -> None:
    assert [Path(name).relative_to(root).as_posix() for name in videos.table["source"].to_pylist()] == [
        "a/s0", "a/s1", "a/s2", "b/s0", "b/s1", "b/s2"]  # fmt: skip
    assert set(videos.table["container"].to_pylist()) == {"image_sequence"}
    assert videos.num_frames.tolist() == [12] * 6
    for row in range(6):
        source = videos.source(row)
        assert source == videos[row].source == ImageSequence(videos.name(row), fps=Fraction(24000, 1001))
        assert videos.frame_index(row).time_base == Fraction(1001, 24000)


def test_catalogs_of_sequences_travel(videos: Catalog, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copyfile)
    moved = scan(root, image_folders="video", fps=10, root=root, workers=0, out=tmp_path / "copy" / "cat.parquet")
    again = Catalog.open(tmp_path / "copy" / "cat.parquet")
    assert again.source(4) == ImageSequence(tmp_path / "copy" / "b" / "s1", fps=10)
    assert pickle.loads(pickle.dumps(again[4])).source == again.source(4)
    assert pickle.loads(pickle.dumps(videos.take([3])))[0].source == videos.source(3)
    assert moved.fingerprint == again.fingerprint
    check_batches(plan_clips(again, AtIndices([1, 11]), seed=0), 0)


def test_headers_first_frames_later(root: Path, videos: Catalog) -> None:
    headers = scan(root, image_folders="video", fps=Fraction(24000, 1001), depth="header", workers=0)
    assert headers.source(2) == videos.source(2)
    later = headers.with_frame_indexes(workers=0)
    assert later.frame_index(2).time_base == Fraction(1001, 24000)
    assert later.source(2) == videos.source(2)


def test_a_catalog_of_given_sequences(root: Path) -> None:
    folder = root / "a" / "s1"
    listed = ImageSequence([folder / "img3.png", folder / "img1.png"], timestamps=[0.5, 0.75])
    given = [ImageSequence(folder, fps=25), ImageSequence(folder, fps=5), listed, folder / "img7.png"]
    catalog = make_memory_catalog([*given, given[0]])
    assert [catalog.source(row) for row in range(5)] == [*given[:3], str(given[3]), given[0]]
    assert catalog.num_frames.tolist() == [12, 12, 2, 1, 12]
    again = pickle.loads(pickle.dumps(catalog))
    assert [again.source(row) for row in range(5)] == [catalog.source(row) for row in range(5)]
    with pytest.raises(UsageError, match="cannot be saved"):
        catalog.to_parquet(root / "cat.parquet")


# --- loaders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rule", [Uniform(4), Dense(4, fps=12), AtIndices([11, 0, 0])])
def test_clips_of_folders(videos: Catalog, rule: Any, workers: int) -> None:
    plan = plan_clips(videos, rule, seed=3, clips_per_video=2, columns=["label"])
    check_batches(plan, workers)
    check_batches(plan.with_epoch(1), workers, backend="still")
    assert plan.describe().decoded_frames_per_delivered_frame <= 1


@pytest.mark.parametrize("workers", WORKERS)
def test_the_wrong_backend_is_an_error_of_the_clip(videos: Catalog, workers: int) -> None:
    plan = plan_clips(videos, Uniform(2), seed=3)
    with ClipLoader(plan, batch_size=2, workers=workers, backend="pyav") as loader, pytest.raises(UsageError) as raised:
        next(iter(loader))
    assert 'use backend="still"' in str(raised.value)
    assert raised.value.position == 0


def test_resuming(videos: Catalog) -> None:
    plan = plan_clips(videos, Uniform(2), seed=3)
    check_resume(lambda workers: ClipLoader(plan, batch_size=2, workers=workers))


@pytest.mark.parametrize("workers", WORKERS)
def test_stills_folders_and_videos_side_by_side(root: Path, tmp_path: Path, workers: int) -> None:
    height, width = SIZE
    video = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=12, height=height, width=width))
    sources = [video, ImageSequence(root / "a" / "s0", fps=25), root / "a" / "s0" / "img5.png"]
    requests = [DecodeRequest(source=source, indices=[0] if number == 2 else [7])
                for number in range(3) for source in [sources[number]] * 2]  # fmt: skip
    requests += [DecodeRequest(source=sources[1], seconds=[0.2]), DecodeRequest(source=sources[0], seconds=[0.2])]
    plan = plan_requests(requests)
    (batch,) = load_all(plan, batch_size=8, workers=workers)
    assert [read_stamps(clip)[0] for clip in batch.data] == [7, 7, 7, 7, 5, 5, 5, 5]
    assert batch.pts_seconds.ravel().tolist() == pytest.approx([0.28, 0.28, 0.28, 0.28, 0, 0, 0.2, 0.2])


@pytest.mark.parametrize("workers", WORKERS)
def test_a_folder_of_stills_is_a_dataset(root: Path, workers: int) -> None:
    stills = scan(root / "b", label_from="parent", workers=0)
    plan = plan_clips(stills, Uniform(1), seed=0, columns=["label"])
    assert (len(plan), plan.clip_shape) == (36, (1, 3, *SIZE))
    seen: list[int] = []
    with ClipLoader(plan, batch_size=8, workers=workers) as loader:
        for batch in loader:
            seen += [read_stamps(clip)[0] for clip in batch.data]
            assert all(isinstance(source, str) for source in batch.sources)
    assert sorted(seen) == [100 * folder + number for folder in (3, 4, 5) for number in range(12)]


@pytest.mark.parametrize("workers", WORKERS)
def test_I05_a_damaged_picture_fails_its_clips_alone(root: Path, tmp_path: Path, workers: int) -> None:
    write_folder(tmp_path / "frames", 6, suffix=".jpg")
    path = tmp_path / "frames" / "img4.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    sequence = ImageSequence(tmp_path / "frames", fps=25)
    plan = plan_requests([DecodeRequest(source=sequence, indices=[number]) for number in (3, 4, 5)])
    (batch,) = load_all(plan, batch_size=3, workers=workers, on_error="skip")
    assert batch.ok.tolist() == [True, False, True]
    assert isinstance(batch.errors[1], CorruptMedia)
    assert (batch.errors[1].frames, batch.errors[1].position) == ((4,), 1)
    assert "img4.jpg" in str(batch.errors[1])
    path.unlink()
    with ClipLoader(plan, batch_size=3, workers=workers) as loader, pytest.raises(StaleSource, match="img4"):
        next(iter(loader))


def test_a_plan_of_sequences_is_a_value(root: Path) -> None:
    sequence = ImageSequence(root / "a" / "s1", timestamps=[0.1 * number for number in range(12)])
    request = DecodeRequest(source=sequence, seconds=[0.35])
    assert pickle.loads(pickle.dumps(request)) == request
    assert hash(pickle.loads(pickle.dumps(request))) == hash(request)
    assert request.name == str(root / "a" / "s1")
    plan = plan_requests([request] * 3, size=(24, 32))
    assert plan[0].indices is not None
    assert plan[0].indices.tolist() == [3]
    again = pickle.loads(pickle.dumps(plan))
    assert again.fingerprint == plan.fingerprint
    assert run(lambda workers: ClipLoader(again, batch_size=1, workers=workers)) == run(
        lambda workers: ClipLoader(plan, batch_size=1, workers=workers), 2
    )
